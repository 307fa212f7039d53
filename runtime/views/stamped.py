"""Ordered multiset by slot whose entries know when they arrived. It serves FIRST_VALUE and LAST_VALUE with ORDER BY.

A word is the id of a byte string, the encoded order key followed by the value; an entry is (word, count, stamp).
Stamps are of use within a slot: they say which of two values with the same order key arrived first. A slot's
earliest value has the smallest key and then the smallest stamp, its latest the greatest of both.
"""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.blocks import STAMP, Tree
from aggloom.runtime.storage.jit import cold_kernel, kernel
from aggloom.runtime.storage.pool import PoolArrays, import_word
from aggloom.runtime.storage.tree import (
    TreeView,
    drop_entry,
    make_entry,
    tree_clear,
    tree_entry,
    tree_find,
    tree_remove,
    tree_start,
    tree_step,
)


@kernel
def stamped_accumulate(
    view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int, latest: bool
) -> None:
    """Count a row; its value is stamped when it comes to be there, or (`latest`) each time."""
    entry = tree_entry(view, pool, pooled, pooled, slot, word)
    view.heap[entry + 1] += 1
    if latest or view.heap[entry + 1] == 1:
        view.meta[STAMP] += 1
        view.heap[entry + 2] = view.meta[STAMP]
    # Where a retraction was ahead of this row, nothing is left of the two.
    if view.heap[entry + 1] == 0:
        drop_entry(view, pool, pooled, pooled, slot, word)


@kernel
def stamped_retract(view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int) -> None:
    """One row less; an entry whose count becomes 0 goes."""
    entry = tree_find(view, pool, pooled, slot, word)
    if entry == 0:
        entry = make_entry(view, pool, pooled, pooled, slot, word)
    view.heap[entry + 1] -= 1
    if view.heap[entry + 1] == 0:
        tree_remove(view, pool, pooled, pooled, slot, word)


@kernel
def stamped_clear(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Forget all values of a slot."""
    tree_clear(view, pool, pooled, pooled, slot)


@kernel
def _merge_entry(
    view: Tree,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    word: int,
    count: int,
    stamp: int,
    latest: bool,
) -> None:
    entry = tree_entry(view, pool, pooled, pooled, slot, word)
    # As if the rows arrived one by one: `latest` stamps with each, otherwise the value only when it comes to be there.
    if count > 0 and (latest or view.heap[entry + 1] <= 0):
        view.heap[entry + 2] = stamp
    view.heap[entry + 1] += count
    if view.heap[entry + 1] == 0:
        tree_remove(view, pool, pooled, pooled, slot, word)


@kernel
def stamped_merge(
    view: Tree,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    other: Tree,
    other_pool: PoolArrays,
    other_slot: int,
    latest: bool,
) -> None:
    """Add the other's rows as if they had come after ours, in their own order."""
    leaf, entry = tree_start(other, other_slot, 0)
    if entry == 0:
        return
    # An empty slot takes the stamps as they are: copying all slots again and again must not use them up.
    later = view.meta[STAMP] if view.root[slot] != 0 else np.int64(0)
    view.meta[STAMP] = max(view.meta[STAMP], later + other.meta[STAMP])
    while entry != 0:
        word = other.heap[entry]
        ours = import_word(pool, other_pool, word) if pooled else word
        count, stamp = other.heap[entry + 1], later + other.heap[entry + 2]
        _merge_entry(view, pool, pooled, slot, ours, count, stamp=stamp, latest=latest)
        leaf, entry = tree_step(other, other_pool, pooled, other_slot, leaf, entry, side=1)


@kernel
def _text_end(pool: PoolArrays, at: int, end: int, zero: int) -> int:
    """Return the end of a text that starts at a place of the heap, its mark, two bytes `zero`, included."""
    while at + 1 < end and (pool.heap[at] != zero or pool.heap[at + 1] != zero):
        at += 1
    return at + 2


@kernel
def key_length(pool: PoolArrays, word: int, widths: tuple[int, ...]) -> int:
    """Return the number of bytes of a word that are its order key, of components with these widths.

    A width counts a component's bytes with its flag. -1 stands for a flag and an escaped text that 00 00 ends,
    -2 for the same with all bytes of the text inverted (for descending order).
    """
    start = pool.offset[word]
    end = start + pool.length[word]
    at = start
    for width in widths:
        if width < 0:
            at = _text_end(pool, at + 1, end, 0 if width == -1 else 0xFF)
        else:
            at += width
    return min(at, end) - start


@kernel
def compare_keys(pool: PoolArrays, widths: tuple[int, ...], a: int, b: int) -> int:
    """-1, 0, 1 as the order key of word `a` sorts before, with or after that of word `b`."""
    if a == b:
        return 0
    # The keys alone count: values of one key are in any order, and their stamps distinguish them.
    a_length, b_length = key_length(pool, a, widths), key_length(pool, b, widths)
    at, bt = pool.offset[a], pool.offset[b]
    for j in range(min(a_length, b_length)):
        x, y = pool.heap[at + j], pool.heap[bt + j]
        if x != y:
            return -1 if x < y else 1
    if a_length == b_length:
        return 0
    return -1 if a_length < b_length else 1


@kernel
def _starts_alike(pool: PoolArrays, a: int, b: int, length: int) -> bool:
    """Tell whether the first `length` bytes, which word `a` has, are word `b`'s too."""
    if pool.length[b] < length:
        return False
    at, bt = pool.offset[a], pool.offset[b]
    for j in range(length):  # noqa: SIM110
        if pool.heap[at + j] != pool.heap[bt + j]:
            return False
    return True


@kernel
def _outermost_arrival(
    view: Tree, pool: PoolArrays, pooled: bool, slot: int, widths: tuple[int, ...], side: int
) -> tuple[int, bool]:
    """Return, of the values there with the outermost order key, the one with the outermost stamp."""
    leaf, entry = tree_start(view, slot, side)
    while entry != 0 and view.heap[entry + 1] <= 0:
        leaf, entry = tree_step(view, pool, pooled, slot, leaf, entry, side=1 - side)
    best = entry
    # No key is the beginning of another, so one with the same bytes is the same.
    length = key_length(pool, view.heap[best], widths) if best != 0 else np.int64(0)
    while entry != 0 and _starts_alike(pool, view.heap[best], view.heap[entry], length):
        later = view.heap[entry + 2] > view.heap[best + 2]
        if view.heap[entry + 1] > 0 and later == (side == 1):
            best = entry
        leaf, entry = tree_step(view, pool, pooled, slot, leaf, entry, side=1 - side)
    return view.heap[best], best != 0


@cold_kernel
def earliest(
    view: Tree, pool: PoolArrays, pooled: bool, slot: int, widths: tuple[int, ...]
) -> tuple[int, bool]:
    """The value with the smallest order key, the first to come if there are several."""
    return _outermost_arrival(view, pool, pooled, slot, widths, 0)


@cold_kernel
def latest(
    view: Tree, pool: PoolArrays, pooled: bool, slot: int, widths: tuple[int, ...]
) -> tuple[int, bool]:
    """The value with the greatest order key, the last to come if there are several."""
    return _outermost_arrival(view, pool, pooled, slot, widths, 1)


class StampedView(TreeView):
    """Owner of a Tree; `width` is the generic constructor's, an entry always has a count and a stamp."""

    def __init__(self, arena: Arena, name: str, slots: int, width: int = 2) -> None:
        super().__init__(arena, name, slots, 2)
