"""Ordered multiset by slot: value -> count, smallest and greatest at hand. It serves retractable MIN and MAX.

Counts may be negative while a retraction is ahead of its row; such values are never shown.
"""

from __future__ import annotations

from aggloom.runtime.storage.blocks import Tree
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import PoolArrays, import_word
from aggloom.runtime.storage.tree import (
    drop_entry,
    make_entry,
    tree_beside,
    tree_clear,
    tree_end,
    tree_entry,
    tree_find,
    tree_remove,
)


@kernel
def ordered_accumulate(view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int) -> None:
    """One more of a value; an entry whose count becomes 0 goes."""
    entry = tree_entry(view, pool, pooled, pooled, slot, word)
    view.heap[entry + 1] += 1
    if view.heap[entry + 1] == 0:
        drop_entry(view, pool, pooled, pooled, slot, word)


@kernel
def ordered_retract(view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int) -> None:
    """One less of a value; an entry whose count becomes 0 goes."""
    entry = tree_find(view, pool, pooled, slot, word)
    if entry == 0:
        entry = make_entry(view, pool, pooled, pooled, slot, word)
    view.heap[entry + 1] -= 1
    if view.heap[entry + 1] == 0:
        tree_remove(view, pool, pooled, pooled, slot, word)


@kernel
def _merge_entry(
    view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int, change: int
) -> None:
    entry = tree_entry(view, pool, pooled, pooled, slot, word)
    view.heap[entry + 1] += change
    if view.heap[entry + 1] == 0:
        drop_entry(view, pool, pooled, pooled, slot, word)


@kernel
def ordered_merge(
    view: Tree,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    other: Tree,
    other_pool: PoolArrays,
    other_slot: int,
) -> None:
    entry = tree_end(other, other_slot, 0)
    while entry != 0:
        word = other.heap[entry]
        ours = import_word(pool, other_pool, word) if pooled else word
        _merge_entry(view, pool, pooled, slot, ours, other.heap[entry + 1])
        entry = tree_beside(other, other_pool, pooled, other_slot, word, 1)


@kernel
def ordered_clear(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Forget all values of a slot."""
    tree_clear(view, pool, pooled, pooled, slot)


@kernel
def _extreme(view: Tree, pool: PoolArrays, pooled: bool, slot: int, side: int) -> tuple[int, bool]:
    """The outermost value with a positive count, if there is one."""
    entry = tree_end(view, slot, side)
    while entry != 0 and view.heap[entry + 1] < 0:
        entry = tree_beside(view, pool, pooled, slot, view.heap[entry], 1 - side)
    return view.heap[entry], entry != 0


@kernel
def least(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> tuple[int, bool]:
    return _extreme(view, pool, pooled, slot, 0)


@kernel
def greatest(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> tuple[int, bool]:
    return _extreme(view, pool, pooled, slot, 1)
