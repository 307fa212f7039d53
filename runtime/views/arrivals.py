"""Arrival sequences as generated code uses them: adding, taking back, merging, and reading their ends."""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.blocks import Tree
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import PoolArrays, import_word
from aggloom.runtime.views.multiset import multiset_count, multiset_entry, multiset_prune
from aggloom.runtime.views.seen import seen_holds
from aggloom.runtime.views.sequence import (
    Sequence,
    is_ghost,
    sequence_append,
    sequence_holds,
    sequence_owe,
    sequence_remove,
)

sequence_accumulate = sequence_append
sequence_retract = sequence_remove


@kernel
def sequence_merge(
    view: Sequence,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    other: Sequence,
    other_pool: PoolArrays,
    other_slot: int,
) -> None:
    # From the oldest on: the other's rows come after all that are here, and stay in their order.
    node = np.int64(other.head[other_slot])
    while node != 0:
        word = other.words[node]
        if pooled:
            word = import_word(pool, other_pool, word)
        if is_ghost(other, node):
            sequence_owe(view, pool, pooled, slot, word, -np.int64(other.newest[node]))
        else:
            sequence_append(view, pool, pooled, slot, word)
        node = np.int64(other.following[node])


@kernel
def sequence_merge_multiset(
    view: Sequence,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    other: Sequence,
    other_pool: PoolArrays,
    other_slot: int,
    counts: Tree,
    column: int,
) -> None:
    """Append the values that are new here, in the other's order; `counts`, merged already, says which are there."""
    node = np.int64(other.head[other_slot])
    while node != 0:
        word = other.words[node]
        if pooled:
            word = import_word(pool, other_pool, word)
        entry = multiset_entry(counts, pool, pooled, slot, word)
        if multiset_count(counts, entry, column) > 0 and not sequence_holds(view, slot, word):
            sequence_append(view, pool, pooled, slot, word)
        # Looking it up has made the entry of a value that is not there.
        multiset_prune(counts, pool, pooled, slot, entry)
        node = np.int64(other.following[node])


@kernel
def sequence_merge_seen(
    view: Sequence,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    other: Sequence,
    other_pool: PoolArrays,
    other_slot: int,
    marks: Tree,
    column: int,
) -> None:
    """Append values like `sequence_merge_multiset`, where rows are only added."""
    node = np.int64(other.head[other_slot])
    while node != 0:
        word = other.words[node]
        if pooled:
            word = import_word(pool, other_pool, word)
        if seen_holds(marks, pool, slot, word, column) and not sequence_holds(view, slot, word):
            sequence_append(view, pool, pooled, slot, word)
        node = np.int64(other.following[node])


@kernel
def oldest(view: Sequence, pool: PoolArrays, pooled: bool, slot: int) -> tuple[int, bool]:
    node = np.int64(view.head[slot])
    while node != 0 and is_ghost(view, node):
        node = np.int64(view.following[node])
    # Node 0 means none, and can be read.
    return view.words[node], node != 0


@kernel
def newest(view: Sequence, pool: PoolArrays, pooled: bool, slot: int) -> tuple[int, bool]:
    node = np.int64(view.tail[slot])
    while node != 0 and is_ghost(view, node):
        node = np.int64(view.preceding[node])
    return view.words[node], node != 0


@kernel
def sequence_none(view: Sequence, pool: PoolArrays, pooled: bool, slot: int) -> bool:
    return not oldest(view, pool, pooled, slot)[1]
