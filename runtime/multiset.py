"""Counted multiset by slot: (slot, word) -> one count for each sharing call. It serves DISTINCT.

The seed's rule: a call sees a value when its count becomes 1 and loses it when it becomes 0; counts may be
negative while a retraction is ahead of its row. An entry goes when all its counts are 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime import pairs
from aggloom.runtime.arena import Array
from aggloom.runtime.jit import kernel
from aggloom.runtime.pool import PoolArrays, hold, release


class Multiset(NamedTuple):
    """By node: slot, word, counts (node, call), list links; by slot: head of its list."""

    table: Array
    slots: Array
    words: Array
    counts: Array
    following: Array
    preceding: Array
    head: Array
    free: Array
    meta: Array


@kernel
def multiset_entry(view: Multiset, pool: PoolArrays, pooled: bool, slot: int, word: int) -> int:
    """The node of (slot, word), made if there is none."""
    node = pairs.find(view.table, view.slots, view.words, slot, word)
    if node != 0:
        return node
    node = pairs.allocate(view.free, view.meta)
    view.slots[node] = slot
    view.words[node] = word
    view.counts[node, :] = 0
    view.preceding[node] = 0
    view.following[node] = view.head[slot]
    if view.head[slot] != 0:
        view.preceding[view.head[slot]] = node
    view.head[slot] = node
    pairs.insert(view.table, view.slots, view.words, node)
    if pooled:
        hold(pool, word)
    return node


@kernel
def multiset_settle(view: Multiset, pool: PoolArrays, pooled: bool, node: int) -> None:
    """Drop the node if all its counts are 0."""
    for c in range(view.counts.shape[1]):
        if view.counts[node, c] != 0:
            return
    _drop(view, pool, pooled, node)


@kernel
def _drop(view: Multiset, pool: PoolArrays, pooled: bool, node: int) -> None:
    pairs.remove(view.table, view.slots, view.words, node)
    before, after = view.preceding[node], view.following[node]
    if before != 0:
        view.following[before] = after
    else:
        view.head[view.slots[node]] = after
    if after != 0:
        view.preceding[after] = before
    if pooled:
        release(pool, view.words[node])
    pairs.give_back(view.free, view.meta, node)


@kernel
def multiset_clear(view: Multiset, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Forget all values of a slot."""
    while view.head[slot] != 0:
        _drop(view, pool, pooled, np.int64(view.head[slot]))


@kernel
def multiset_change(view: Multiset, node: int, column: int, change: int) -> int:
    """Add to a count of an entry; returns the new count."""
    view.counts[node, column] += change
    return view.counts[node, column]


@kernel
def multiset_count(view: Multiset, node: int, column: int) -> int:
    return view.counts[node, column]


@kernel
def multiset_first(view: Multiset, slot: int) -> int:
    """The first entry of a slot, or 0."""
    return np.int64(view.head[slot])


@kernel
def multiset_after(view: Multiset, node: int) -> int:
    """The entry after this one in its slot, or 0."""
    return np.int64(view.following[node])


@kernel
def multiset_word(view: Multiset, node: int) -> int:
    return view.words[node]


class MultisetView(pairs.NodeView):
    """Owner of a Multiset in an arena; `width` is the number of sharing calls."""

    arrays_type = Multiset
    by_node = {  # noqa: RUF012
        "slots": "i4",
        "words": "i8",
        "counts": "i8",
        "following": "i4",
        "preceding": "i4",
    }
    by_slot = {"head": "i4"}  # noqa: RUF012
    hashed = True

    def row_width(self, array: str, width: int) -> int:
        return width if array == "counts" else 0

    def _rehash(self) -> None:
        a = self.arrays
        pairs.rehash_listed(a.table, a.slots, a.words, a.head, a.following)
