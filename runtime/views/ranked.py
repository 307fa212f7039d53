"""Order statistics by slot: an ordered multiset that also knows the rank of its rows. It serves percentiles.

An entry is (word, count, weight), in a weighed tree: the weight is the count, but 0 while retractions are ahead
of their rows, so that ranks number the rows that are there.
"""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.blocks import (
    STRIDE,
    WEIGHED,
    Tree,
    block_level,
    block_rank,
    block_weight,
)
from aggloom.runtime.storage.jit import kernel
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
def _weigh(view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int, change: int) -> None:
    """Add to the weight of a value that is there, and to all that are sums of it."""
    stride = view.meta[STRIDE]
    block = np.int64(view.root[slot])
    while block != 0:
        entry = block + 1 + (block_rank(view, pool, pooled, block, word) - 1) * stride
        view.heap[entry + 2] += change
        block = view.heap[entry + 1] if block_level(view, block) > 0 else np.int64(0)


@kernel
def _change(
    view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int, entry: int, times: int
) -> bool:
    """Add to the count of an entry; whether it has to go."""
    count = view.heap[entry + 1] + times
    view.heap[entry + 1] = count
    # A negative count weighs nothing, so that ranks number the rows that are there.
    change = max(count, 0) - view.heap[entry + 2]
    if change != 0:
        _weigh(view, pool, pooled, slot, word, change)
    return count == 0


@kernel
def ranked_accumulate(view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int) -> None:
    """One more of a value; an entry whose count becomes 0 goes."""
    entry = tree_entry(view, pool, pooled, pooled, slot, word)
    if _change(view, pool, pooled, slot, word, entry, times=1):
        # Rarely: only where a retraction was ahead of its row.
        drop_entry(view, pool, pooled, pooled, slot, word)


@kernel
def ranked_retract(view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int) -> None:
    """One less of a value; an entry whose count becomes 0 goes."""
    entry = tree_find(view, pool, pooled, slot, word)
    if entry == 0:
        entry = make_entry(view, pool, pooled, pooled, slot, word)
    if _change(view, pool, pooled, slot, word, entry, times=-1):
        tree_remove(view, pool, pooled, pooled, slot, word)


@kernel
def ranked_add(
    view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int, times: int
) -> None:
    """Add to the count of a value, which may become negative; an entry whose count becomes 0 goes."""
    entry = tree_entry(view, pool, pooled, pooled, slot, word)
    if _change(view, pool, pooled, slot, word, entry, times=times):
        tree_remove(view, pool, pooled, pooled, slot, word)


@kernel
def ranked_merge(
    view: Tree,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    other: Tree,
    other_pool: PoolArrays,
    other_slot: int,
) -> None:
    leaf, entry = tree_start(other, other_slot, 0)
    while entry != 0:
        word = other.heap[entry]
        ours = import_word(pool, other_pool, word) if pooled else word
        ranked_add(view, pool, pooled, slot, ours, other.heap[entry + 1])
        leaf, entry = tree_step(other, other_pool, pooled, other_slot, leaf, entry, side=1)


@kernel
def ranked_clear(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Forget all values of a slot."""
    tree_clear(view, pool, pooled, pooled, slot)


@kernel
def ranked_total(view: Tree, slot: int) -> int:
    """Return the number of rows."""
    root = np.int64(view.root[slot])
    return block_weight(view, root) if root != 0 else np.int64(0)


@kernel
def ranked_at(view: Tree, slot: int, rank: int) -> int:
    """The value of the row with a rank from 0 to below the total."""
    stride = view.meta[STRIDE]
    block = np.int64(view.root[slot])
    while True:
        entry = block + 1
        # Without a bound: the rank is below the total, so that one of the entries has it.
        while rank >= view.heap[entry + 2]:
            rank -= view.heap[entry + 2]
            entry += stride
        if block_level(view, block) == 0:
            return view.heap[entry]
        block = view.heap[entry + 1]


@kernel
def ranked_below(view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int) -> int:
    """Return the number of rows that come before a value, be it there or not."""
    stride = view.meta[STRIDE]
    block = np.int64(view.root[slot])
    rows = np.int64(0)
    while block != 0:
        # Whole entries before the one in which the value would be.
        at = block_rank(view, pool, pooled, block, word) - 1
        for j in range(at):
            rows += view.heap[block + 3 + j * stride]
        entry = block + 1 + at * stride
        below = np.int64(0)
        if at >= 0 and block_level(view, block) > 0:
            below = view.heap[entry + 1]
        elif at >= 0 and view.heap[entry] != word:
            # All rows of a lesser value; those of the value itself are not before it.
            rows += view.heap[entry + 2]
        block = below
    return rows


class RankedView(TreeView):
    """Owner of a weighed Tree; `width` is the generic constructor's, an entry always has a count and a weight."""

    weighed = True

    def __init__(self, arena: Arena, name: str, slots: int, width: int = 2) -> None:
        super().__init__(arena, name, slots, 2)
        self.arrays.meta[WEIGHED] = 1
