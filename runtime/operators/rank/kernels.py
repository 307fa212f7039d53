"""A Rank row by row: which rows are out of range before they are stored, and which rows are alike."""

from __future__ import annotations

import numpy as np

from aggloom.runtime.state.order_tree import TIER, key_start, keys_in, order_at, rows_in, weight_of
from aggloom.runtime.state.row_kernels import RowArrays, same_row
from aggloom.runtime.state.sort_key import ComparedKeys
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
    """Write whether each row would have a number up to its end if it were inserted now."""
    for r in range(len(slots)):
        slot, end = slots[r], ends[r]
        weight = weight_of(tree, slot)
        there = keys_in(weight) if function == DENSE_RANK else rows_in(weight)
        # With fewer numbers than the end any row has one of them, wherever it stands.
        if there < end or end <= 0:
            out[r] = end > 0
            continue
        # DENSE_RANK numbers sort keys: the row to be compared with is the first of the last of them.
        last = key_start(tree, slot, end - 1) if function == DENSE_RANK else end - 1
        entry, _ = order_at(tree, slot, last)
        word = tree.heap[entry]
        if by_bytes:
            order = np.int64(compare_bytes(pool, words[r], word))
        else:
            order = np.int64(words[r] > word) - np.int64(words[r] < word)
        # A NULL may have the word of a value: the tiers distinguish them.
        if order == 0:
            order = tiers[r] - (tree.heap[entry + 3] >> TIER)
        # Equals share a rank; their row numbers are in the order of arrival, and this row arrives last.
        out[r] = order < 0 or (order == 0 and function != ROW_NUMBER)


@kernel
def _is_behind(keys: ComparedKeys, row: int, other: int) -> bool:
    """Tell whether a row has a higher number than one that arrived before it: of equals the first has the lower one."""
    if keys.words[row] != keys.words[other]:
        return bool(keys.words[row] > keys.words[other])
    if keys.tiers[row] != keys.tiers[other]:
        return bool(keys.tiers[row] > keys.tiers[other])
    at, of = keys.starts[row], keys.starts[other]
    length, length_of_other = keys.starts[row + 1] - at, keys.starts[other + 1] - of
    for k in range(min(length, length_of_other)):
        if keys.data[at + k] != keys.data[of + k]:
            return bool(keys.data[at + k] > keys.data[of + k])
    return bool(length >= length_of_other)


@kernel
def keep_best(
    order: Array, slots: Array, keys: ComparedKeys, ends: Array, best: Array, keep: Array
) -> None:
    """Mark the rows that have a number up to their end among those of their slot.

    order: int64[rows], slot by slot, those of a slot by arrival. best: int64[the largest end], for the kernel alone.
    """
    start = 0
    while start < len(order):
        slot, end, count = slots[order[start]], ends[order[start]], 0
        place = start
        while place < len(order) and slots[order[place]] == slot:
            row = order[place]
            # The row goes behind those that have lower numbers; where it puts the last one out of range, that one goes.
            at = count
            while at > 0 and not _is_behind(keys, row, best[at - 1]):
                at -= 1
            if at < end:
                if count == end:
                    count -= 1
                    keep[best[count]] = False
                for k in range(count, at, -1):
                    best[k] = best[k - 1]
                best[at] = row
                count += 1
                keep[row] = True
            place += 1
        start = place


@kernel
def drop_same(
    ids: Array, numbers: Array, before: int, by_number: bool, mark: Array, left: Array
) -> None:
    """Clear `left` for rows that are among the first `before` ones and among the others, at one number if that counts.

    mark: zero for every row of the store, before and after.
    """
    for k in range(before):
        # One more than the place, since 0 is no mark.
        mark[ids[k]] = k + 1
    for k in range(before, len(ids)):
        j = np.int64(mark[ids[k]]) - 1
        if j >= 0 and (not by_number or numbers[j] == numbers[k]):
            left[j] = left[k] = False
    # One by one: to zero all marks would cost as much as the store is long, for a bundle of few rows.
    for k in range(before):
        mark[ids[k]] = 0


@kernel
def pair_numbers(
    rows: RowArrays,
    every: Array,
    places: Array,
    ids: Array,
    numbers: Array,
    before: int,
    marked: bool,
    chosen: Array,
    kinds: Array,
) -> int:
    """Write the changes of rows that are known by place and number, in this order; return how many there are.

    The first `before` rows go, the others come, both in order. marked: whether numbers count; else a place has one row.
    A row that arrives for its equal is no change. kinds: 0 comes, 1 and 2 the halves of an update, 3.
    """
    i, j, count = np.int64(0), np.int64(before), 0
    while i < before or j < len(ids):
        order = np.int64(0)
        if i == before:
            order = np.int64(1)
        elif j == len(ids):
            order = np.int64(-1)
        else:
            # Both lists are in order, so that one walk along them merges them.
            order = places[i] - places[j]
            if order == 0 and marked:
                order = numbers[i] - numbers[j]
        if order < 0:
            # A number, or a place, that nobody has any more.
            chosen[count], kinds[count] = i, 3
            count += 1
            i += 1
        elif order > 0:
            # One that nobody had.
            chosen[count], kinds[count] = j, 0
            count += 1
            j += 1
        else:
            if not same_row(every, rows, ids[i], rows, ids[j]):
                chosen[count], kinds[count] = i, 1
                chosen[count + 1], kinds[count + 1] = j, 2
                count += 2
            i += 1
            j += 1
    return int(count)
