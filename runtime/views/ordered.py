"""Ordered multiset by slot: value -> count, smallest and greatest at hand. It serves retractable MIN and MAX.

Counts may be negative while a retraction is ahead of its row; such values are never shown. Additions, retractions
and clears are queued; `ordered_flush` applies them before anything is read.
"""

from __future__ import annotations

from aggloom.runtime.storage.blocks import Tree
from aggloom.runtime.storage.jit import cold_kernel, kernel
from aggloom.runtime.storage.pool import PoolArrays, import_word
from aggloom.runtime.storage.queued_tree import flush_changes, queue_change
from aggloom.runtime.storage.tree import tree_beside, tree_end, tree_start, tree_step

ordered_flush = flush_changes


@kernel
def ordered_accumulate(view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int) -> None:
    """One more of a value; an entry whose count becomes 0 goes."""
    queue_change(view, pool, pooled, slot, word, 1)


@kernel
def ordered_retract(view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int) -> None:
    """One less of a value; an entry whose count becomes 0 goes."""
    queue_change(view, pool, pooled, slot, word, -1)


@cold_kernel
def ordered_merge(
    view: Tree,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    other: Tree,
    other_pool: PoolArrays,
    other_slot: int,
) -> None:
    """Add the counts of another view's slot."""
    leaf, entry = tree_start(other, other_slot, 0)
    while entry != 0:
        word = other.heap[entry]
        ours = import_word(pool, other_pool, word) if pooled else word
        queue_change(view, pool, pooled, slot, ours, other.heap[entry + 1])
        leaf, entry = tree_step(other, other_pool, pooled, other_slot, leaf, entry, side=1)


@kernel
def ordered_clear(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Forget all values of a slot."""
    # No row changes a count by 0: it stands for all words of the slot.
    queue_change(view, pool, pooled, slot, 0, 0)


@cold_kernel
def _shown_beside(
    view: Tree, pool: PoolArrays, pooled: bool, slot: int, entry: int, to: int
) -> int:
    """The nearest entry with a positive count before (to 0) or after (to 1) another, or 0."""
    while entry != 0 and view.heap[entry + 1] < 0:
        entry = tree_beside(view, pool, pooled, slot, view.heap[entry], to)
    return entry


@kernel
def _extreme(view: Tree, pool: PoolArrays, pooled: bool, slot: int, side: int) -> tuple[int, bool]:
    """The outermost value with a positive count, if there is one."""
    entry = tree_end(view, slot, side)
    if entry != 0 and view.heap[entry + 1] < 0:
        # Rarely: the outermost value waits for its row.
        entry = _shown_beside(view, pool, pooled, slot, entry, 1 - side)
    # Place 0 means none, and can be read.
    return view.heap[entry], entry != 0


@kernel
def least(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> tuple[int, bool]:
    return _extreme(view, pool, pooled, slot, 0)


@kernel
def greatest(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> tuple[int, bool]:
    return _extreme(view, pool, pooled, slot, 1)
