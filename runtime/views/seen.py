"""Set by slot that several calls share: word -> a bit for each of them. It serves DISTINCT where rows are only added.

Nothing is retracted, so a call needs no count of a value, only whether it has met it. The bits of all calls lie in one
number, where a multiset has a number for each call: entries of four calls take two numbers, not five. Its upper half
says how often the value was met, from which an estimate follows of how many values are still to come.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.blocks import Tree
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import PoolArrays
from aggloom.runtime.storage.tree import TreeView, tree_clear, tree_entry, tree_find
from aggloom.runtime.views.multiset import multiset_after, multiset_first, multiset_word

BITS: Final = 32
"""The calls that may share one: the planner gives no more of them to it."""
MOST_MET: Final = (1 << 31) - 1
"""A value that was met more often counts as met so often: the number has no more bits, and no answer needs them."""

seen_first, seen_after, seen_word = multiset_first, multiset_after, multiset_word


class SeenView(TreeView):
    """The trees of such sets. width: how many calls share one; their bits are in one number, however many they are."""

    call_bits: Final = BITS
    """Bits of that number below those that say how often a value was met."""

    def __init__(self, arena: Arena, name: str, slots: int, width: int) -> None:
        assert width <= BITS
        super().__init__(arena, name, slots, 1)


@kernel
def seen_times(view: Tree, entry: int) -> int:
    """Return how often the value of an entry was met."""
    return view.heap[entry + 1] >> BITS


@kernel
def seen_has(view: Tree, entry: int, column: int) -> bool:
    """Tell whether a call has met the value of an entry."""
    return view.heap[entry + 1] >> column & 1 != 0


@kernel
def seen_mark(view: Tree, entry: int, column: int) -> bool:
    """Note that a call has met the value of an entry; tell whether it had not before."""
    # Of 64 bits whatever the column is: a shift of a smaller number would lose call 31.
    bit = np.int64(1) << column
    is_new = view.heap[entry + 1] & bit == 0
    view.heap[entry + 1] |= bit
    return is_new


@kernel
def seen_meet(view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int, times: int) -> int:
    """The entry of a value that was met so many times more, made if there is none."""
    entry = tree_entry(view, pool, pooled, False, slot, word)
    # Up to the end and no further: a carry would go into the sign, and times would be below 0.
    view.heap[entry + 1] += min(times, MOST_MET - seen_times(view, entry)) << BITS
    return entry


@kernel
def seen_holds(view: Tree, pool: PoolArrays, slot: int, word: int, column: int) -> bool:
    """Tell whether a call has met a value."""
    # Without making an entry: one without bits would stay for ever.
    entry = tree_find(view, pool, False, slot, word)
    return entry != 0 and seen_has(view, entry, column)


@kernel
def seen_clear(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Forget all values of a slot."""
    tree_clear(view, pool, pooled, False, slot)
