"""What a Rank does row by row: which rows are out of range before they are stored, and which rows are alike."""

from __future__ import annotations

import numpy as np

from aggloom.runtime.state.order_tree import (
    TIER,
    key_start,
    keys_in,
    order_at,
    rows_in,
    weight_of,
)
from aggloom.runtime.state.row_index import row_hash
from aggloom.runtime.state.row_store import RowArrays, same_row
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.blocks import Tree
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import PoolArrays, compare_bytes

ROW_NUMBER, RANK, DENSE_RANK = range(3)


@kernel
def in_range(
    tree: Tree,
    pool: PoolArrays,
    by_bytes: bool,
    function: int,
    slots: Array,
    words: Array,
    tiers: Array,
    ends: Array,
    out: Array,
) -> None:
    """Whether each row would have a number up to its end, if it came now."""
    for r in range(len(slots)):
        slot, end = slots[r], ends[r]
        weight = weight_of(tree, slot)
        there = keys_in(weight) if function == DENSE_RANK else rows_in(weight)
        if there < end or end <= 0:
            out[r] = end > 0
            continue
        last = key_start(tree, slot, end - 1) if function == DENSE_RANK else end - 1
        entry, _ = order_at(tree, slot, last)
        word = tree.heap[entry]
        if by_bytes:
            order = np.int64(compare_bytes(pool, words[r], word))
        else:
            order = np.int64(words[r] > word) - np.int64(words[r] < word)
        if order == 0:
            order = tiers[r] - (tree.heap[entry + 3] >> TIER)
        out[r] = order < 0 or (order == 0 and function != ROW_NUMBER)


@kernel
def hash_rows(rows: RowArrays, ids: Array, slots: Array, identity: Array, out: Array) -> None:
    """The hash of stored rows in their slots, by some columns."""
    for k in range(len(ids)):
        out[k] = row_hash(rows.words, rows.flags, ids[k], slots[k], identity)


@kernel
def same_rows(rows: RowArrays, left: Array, right: Array, columns: Array, out: Array) -> None:
    """Whether stored rows are the same in some columns."""
    for k in range(len(left)):
        out[k] = same_row(
            columns, rows.words, rows.flags, left[k], rows.words, rows.flags, right[k]
        )
