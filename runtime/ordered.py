"""Ordered multiset by slot: word -> count, smallest and greatest at hand. It serves retractable MIN and MAX.

Each slot is the root of a treap over its values whose priorities are hashes of the values: the shape depends
only on the content, and adding, removing and finding an extreme are O(log n) expected, for a hot key too.
Counts may be negative while a retraction is ahead of its row; such values are never shown.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime import pairs
from aggloom.runtime.arena import Array
from aggloom.runtime.hashing import mix
from aggloom.runtime.jit import kernel
from aggloom.runtime.pool import PoolArrays, compare_bytes, hold, release


class Ordered(NamedTuple):
    """By node: word, count, children (node, 0 = left, 1 = right); by slot: root."""

    words: Array
    counts: Array
    children: Array
    root: Array
    free: Array
    meta: Array


@kernel
def compare(pool: PoolArrays, pooled: bool, a: int, b: int) -> int:
    """-1, 0, 1 as word `a` sorts before, with or after word `b`."""
    if pooled:
        return compare_bytes(pool, a, b)
    if a == b:
        return 0
    return -1 if a < b else 1


@kernel
def _link(view: Ordered, slot: int, parent: int, side: int, node: int) -> None:
    if parent == 0:
        view.root[slot] = node
    else:
        view.children[parent, side] = node


@kernel
def ordered_add(
    view: Ordered, pool: PoolArrays, pooled: bool, slot: int, word: int, change: int
) -> None:
    """Add `change` to the count of a value; an entry whose count becomes 0 goes."""
    priority = mix(word)
    parent, side = np.int64(0), np.int64(0)
    node = np.int64(view.root[slot])
    while node != 0:
        order = compare(pool, pooled, word, view.words[node])
        if order == 0:
            view.counts[node] += change
            if view.counts[node] == 0:
                _delete(view, slot, parent, side, node)
                if pooled:
                    release(pool, word)
                pairs.give_back(view.free, view.meta, node)
            return
        if priority > mix(view.words[node]):
            break
        parent, side = node, np.int64(order > 0)
        node = np.int64(view.children[node, side])
    new = pairs.allocate(view.free, view.meta)
    view.words[new] = word
    view.counts[new] = change
    _link(view, slot, parent, side, new)
    ends = (new, new)
    sides = (np.int64(0), np.int64(1))
    while node != 0:
        if compare(pool, pooled, word, view.words[node]) < 0:
            view.children[ends[1], sides[1]] = node
            ends, sides = (ends[0], node), (sides[0], np.int64(0))
            node = np.int64(view.children[node, 0])
        else:
            view.children[ends[0], sides[0]] = node
            ends, sides = (node, ends[1]), (np.int64(1), sides[1])
            node = np.int64(view.children[node, 1])
    view.children[ends[0], sides[0]] = 0
    view.children[ends[1], sides[1]] = 0
    if pooled:
        hold(pool, word)


@kernel
def _delete(view: Ordered, slot: int, parent: int, side: int, node: int) -> None:
    a, b = np.int64(view.children[node, 0]), np.int64(view.children[node, 1])
    while a != 0 and b != 0:
        if mix(view.words[a]) > mix(view.words[b]):
            _link(view, slot, parent, side, a)
            parent, side = a, np.int64(1)
            a = np.int64(view.children[a, 1])
        else:
            _link(view, slot, parent, side, b)
            parent, side = b, np.int64(0)
            b = np.int64(view.children[b, 0])
    _link(view, slot, parent, side, a if a != 0 else b)


@kernel
def ordered_extreme(view: Ordered, pool: PoolArrays, pooled: bool, slot: int, side: int) -> int:
    """The node of the smallest (side 0) or greatest (side 1) value with a positive count, or 0."""
    node = np.int64(view.root[slot])
    best = node
    while node != 0:
        best = node
        node = np.int64(view.children[node, side])
    while best != 0 and view.counts[best] <= 0:
        best = _next(view, pool, pooled, slot, view.words[best], 1 - side)
    return best


@kernel
def _next(view: Ordered, pool: PoolArrays, pooled: bool, slot: int, word: int, side: int) -> int:
    """The nearest node on the given side of a word, or 0."""
    found = np.int64(0)
    node = np.int64(view.root[slot])
    sign = 1 if side == 1 else -1
    while node != 0:
        if compare(pool, pooled, view.words[node], word) * sign > 0:
            found = node
            node = np.int64(view.children[node, 1 - side])
        else:
            node = np.int64(view.children[node, side])
    return found


@kernel
def ordered_clear(view: Ordered, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Forget all values of a slot."""
    while view.root[slot] != 0:
        node = np.int64(view.root[slot])
        if pooled:
            release(pool, view.words[node])
        _delete(view, slot, np.int64(0), np.int64(0), node)
        pairs.give_back(view.free, view.meta, node)


@kernel
def ordered_first(view: Ordered, slot: int) -> int:
    """The node of the smallest value whatever its count, or 0."""
    node = np.int64(view.root[slot])
    while node != 0 and view.children[node, 0] != 0:
        node = np.int64(view.children[node, 0])
    return node


@kernel
def ordered_following(view: Ordered, pool: PoolArrays, pooled: bool, slot: int, node: int) -> int:
    """The node after `node` in order, or 0."""
    return _next(view, pool, pooled, slot, view.words[node], 1)


class OrderedView(pairs.NodeView):
    """Owner of an Ordered in an arena."""

    arrays_type = Ordered
    by_node = {"words": "i8", "counts": "i8", "children": "i4"}  # noqa: RUF012
    by_slot = {"root": "i4"}  # noqa: RUF012
    hashed = False

    def row_width(self, array: str, width: int) -> int:
        return 2 if array == "children" else 0
