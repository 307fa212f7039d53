"""Counted multiset by slot: word -> one count for each sharing call. It serves DISTINCT.

The seed's rule: a call sees a value when its count becomes 1 and loses it when it becomes 0; counts may be
negative while a retraction is ahead of its row. An entry goes when all its counts are 0. Strings are in the
order of their ids, for equality is all that DISTINCT asks.
"""

from __future__ import annotations

from aggloom.runtime.storage.blocks import STRIDE, Tree
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import PoolArrays
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
def multiset_entry(view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int) -> int:
    """The entry of a value, made if there is none."""
    return tree_entry(view, pool, pooled, False, slot, word)


@kernel
def multiset_found(view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int) -> int:
    """The entry of a value that is probably there, made if it is not."""
    # Looked up first, as it is there almost always: entering one may split blocks on its way.
    entry = tree_find(view, pool, False, slot, word)
    if entry == 0:
        entry = make_entry(view, pool, pooled, False, slot, word)
    return entry


@kernel
def _is_empty(view: Tree, entry: int) -> bool:
    # A loop, for a generator does not compile without reference counting.
    for c in range(1, view.meta[STRIDE]):  # noqa: SIM110
        if view.heap[entry + c] != 0:
            return False
    return True


@kernel
def multiset_prune_added(view: Tree, pool: PoolArrays, pooled: bool, slot: int, entry: int) -> None:
    """Prune like `multiset_prune` after an addition: only one that meets a retraction ahead of it leaves nothing."""
    if _is_empty(view, entry):
        drop_entry(view, pool, pooled, False, slot, view.heap[entry])


@kernel
def multiset_prune(view: Tree, pool: PoolArrays, pooled: bool, slot: int, entry: int) -> None:
    """Drop the entry if all its counts are 0."""
    if _is_empty(view, entry):
        tree_remove(view, pool, pooled, False, slot, view.heap[entry])


@kernel
def multiset_clear(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Forget all values of a slot."""
    tree_clear(view, pool, pooled, False, slot)


@kernel
def multiset_change(view: Tree, entry: int, column: int, change: int) -> int:
    """Add to a count of an entry; returns the new count."""
    view.heap[entry + 1 + column] += change
    return view.heap[entry + 1 + column]


@kernel
def multiset_count(view: Tree, entry: int, column: int) -> int:
    return view.heap[entry + 1 + column]


@kernel
def multiset_first(view: Tree, slot: int) -> int:
    """The first entry of a slot, or 0."""
    return tree_end(view, slot, 0)


@kernel
def multiset_after(view: Tree, pool: PoolArrays, slot: int, entry: int) -> int:
    """The entry after this one in its slot, or 0."""
    return tree_beside(view, pool, False, slot, view.heap[entry], 1)


@kernel
def multiset_word(view: Tree, entry: int) -> int:
    return view.heap[entry]
