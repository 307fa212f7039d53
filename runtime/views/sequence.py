"""Arrival sequence by slot: the live values in the order they came. It serves retractable FIRST/LAST_VALUE.

A retraction removes the oldest live occurrence of its value (as Flink does, for FIRST and LAST alike). One that
comes before its row is kept as a *ghost*, which no read shows and which the row takes away when it comes. Both
operations are O(1), and so are both ends but for ghosts in the way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.storage import pairs
from aggloom.runtime.storage.arena import Arena, Array, airy
from aggloom.runtime.storage.hashing import table_size
from aggloom.runtime.storage.jit import cold_kernel, kernel
from aggloom.runtime.storage.pool import PoolArrays, hold, release

_FIRST_NODES = 16


class Sequence(NamedTuple):
    """By node: slot, word, list links, `same` (the pair's next newer node), `newest`; by slot: ends.

    `newest` is the pair's newest node in its oldest one, and in a ghost, which is alone, minus the rows it waits for.
    """

    table: Array
    slots: Array
    words: Array
    following: Array
    preceding: Array
    same: Array
    newest: Array
    head: Array
    tail: Array
    free: Array
    meta: Array


@kernel
def is_ghost(view: Sequence, node: int) -> bool:
    """Whether a node only stands for retractions that came before their rows."""
    return view.newest[node] < 0


@kernel
def _link(view: Sequence, slot: int, word: int) -> int:
    """A node for a value at the end of its slot's list."""
    node = pairs.allocate(view.free, view.meta)
    view.slots[node] = slot
    view.words[node] = word
    view.same[node] = 0
    view.newest[node] = node
    view.following[node] = 0
    view.preceding[node] = view.tail[slot]
    if view.tail[slot] != 0:
        view.following[view.tail[slot]] = node
    else:
        view.head[slot] = node
    view.tail[slot] = node
    return node


@kernel
def _unlink(view: Sequence, slot: int, node: int) -> None:
    before, after = view.preceding[node], view.following[node]
    if before != 0:
        view.following[before] = after
    else:
        view.head[slot] = after
    if after != 0:
        view.preceding[after] = before
    else:
        view.tail[slot] = before
    pairs.give_back(view.free, view.meta, node)


@cold_kernel
def _haunt(view: Sequence, pool: PoolArrays, pooled: bool, slot: int, word: int, rows: int) -> None:
    """Let the ghost of a value, made if there is none, wait for more rows, or (negative) for fewer."""
    node = pairs.find(view.table, view.slots, view.words, slot, word)
    if node == 0:
        node = _link(view, slot, word)
        view.newest[node] = -rows
        pairs.insert(view.table, view.slots, view.words, node)
        if pooled:
            hold(pool, word)
        return
    view.newest[node] -= rows
    if view.newest[node] == 0:
        pairs.remove(view.table, view.slots, view.words, node)
        _unlink(view, slot, node)
        if pooled:
            release(pool, word)


@kernel
def sequence_append(view: Sequence, pool: PoolArrays, pooled: bool, slot: int, word: int) -> None:
    """Add a value at the end, or let it take a ghost away."""
    oldest = pairs.find(view.table, view.slots, view.words, slot, word)
    if oldest != 0 and is_ghost(view, oldest):
        _haunt(view, pool, pooled, slot, word, -1)
        return
    node = _link(view, slot, word)
    if oldest == 0:
        pairs.insert(view.table, view.slots, view.words, node)
    else:
        view.same[view.newest[oldest]] = node
        view.newest[oldest] = node
    if pooled:
        hold(pool, word)


@kernel
def sequence_holds(view: Sequence, slot: int, word: int) -> bool:
    """Whether a value is there."""
    node = pairs.find(view.table, view.slots, view.words, slot, word)
    return node != 0 and not is_ghost(view, node)


@kernel
def sequence_remove(view: Sequence, pool: PoolArrays, pooled: bool, slot: int, word: int) -> None:
    """Take out the oldest occurrence of a value; without any, its ghost waits for it."""
    node = pairs.find(view.table, view.slots, view.words, slot, word)
    if node == 0 or is_ghost(view, node):
        _haunt(view, pool, pooled, slot, word, 1)
        return
    heir = np.int64(view.same[node])
    if heir == 0:
        pairs.remove(view.table, view.slots, view.words, node)
    else:
        view.newest[heir] = view.newest[node]
        pairs.substitute(view.table, view.slots, view.words, node, heir)
    _unlink(view, slot, node)
    if pooled:
        release(pool, word)


@cold_kernel
def sequence_clear(view: Sequence, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Forget all values of a slot."""
    while view.head[slot] != 0:
        node = np.int64(view.head[slot])
        if is_ghost(view, node):
            _haunt(view, pool, pooled, slot, view.words[node], view.newest[node])
        else:
            sequence_remove(view, pool, pooled, slot, view.words[node])


@kernel
def _rehash(view: Sequence) -> None:
    for s in range(len(view.head)):
        node = np.int64(view.head[s])
        while node != 0:
            if pairs.find(view.table, view.slots, view.words, s, view.words[node]) == 0:
                pairs.insert(view.table, view.slots, view.words, node)
            node = np.int64(view.following[node])


class SequenceView:
    """Owner of a Sequence in an arena."""

    _BY_NODE = (
        ("slots", "i4"),
        ("words", "i8"),
        ("following", "i4"),
        ("preceding", "i4"),
        ("same", "i4"),
        ("newest", "i4"),
        ("free", "i4"),
    )
    _BY_SLOT = ("head", "tail")

    def __init__(self, arena: Arena, name: str, slots: int, width: int) -> None:
        self.arena, self.name = arena, name
        for array, dtype in self._BY_NODE:
            arena.array(f"{name}.{array}", _FIRST_NODES, dtype)
        for array in self._BY_SLOT:
            arena.array(f"{name}.{array}", slots, "i4")
        arena.array(f"{name}.table", table_size(_FIRST_NODES), "i4")
        arena.array(f"{name}.meta", 4, "i8")
        self._reload()

    def _reload(self) -> None:
        self.arrays = Sequence(
            *(self.arena.array(f"{self.name}.{array}", 0, "i4") for array in Sequence._fields)
        )

    @property
    def live(self) -> int:
        """Values in all slots."""
        return int(self.arrays.meta[pairs.LIVE])

    @property
    def is_airy(self) -> bool:
        return airy(self.live, int(self.arrays.meta[pairs.HIGH]))

    def trim(self) -> None:
        """What was reserved one by one is in use."""

    def reserve_slots(self, slots: int) -> None:
        for array in self._BY_SLOT:
            self.arena.resize(f"{self.name}.{array}", slots)
        self._reload()

    def affordable(self, rows: int) -> int:
        """How many of the next rows to prepare for at once."""
        return rows

    def reserve(self, rows: int) -> None:
        """Room for `rows` more values."""
        meta = self.arrays.meta
        need = int(meta[pairs.HIGH]) + 1 + rows - int(meta[pairs.FREE])
        if need > len(self.arrays.free):
            size = max(need, 2 * len(self.arrays.free))
            for array, _ in self._BY_NODE:
                self.arena.resize(f"{self.name}.{array}", size)
            self._reload()
        if table_size(self.live + rows) > len(self.arrays.table):
            self.arena.replace(f"{self.name}.table", table_size(2 * (self.live + rows)))
            self._reload()
            _rehash(self.arrays)

    def shrink(self) -> None:
        """Give the memory back when no value is left."""
        if self.live == 0 and len(self.arrays.free) > _FIRST_NODES:
            for array, _ in self._BY_NODE:
                self.arena.replace(f"{self.name}.{array}", _FIRST_NODES)
            self.arena.replace(f"{self.name}.table", table_size(_FIRST_NODES))
            self.arrays.meta[:] = 0
            self._reload()
