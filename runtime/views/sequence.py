"""Arrival sequence by slot: the live values in the order they arrived. It serves retractable FIRST/LAST_VALUE.

A retraction removes the oldest live occurrence of its value (as Flink does, for FIRST and LAST alike). One that
comes before its row is kept as a *ghost*, which no read shows and which the row takes away when it comes. Both
operations are O(1), and so are both ends but for ghosts in the way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.storage import pairs
from aggloom.runtime.storage.arena import Arena, Array, airy
from aggloom.runtime.storage.audit import Audit, check_stack
from aggloom.runtime.storage.hashing import table_size
from aggloom.runtime.storage.jit import cold_kernel, kernel
from aggloom.runtime.storage.pool import PoolArrays, hold, release

_FIRST_NODES = 16


class Sequence(NamedTuple):
    """Arrays by node: slot, word, list links, `same` (the pair's next newer node), `newest`; by slot: ends.

    `newest` is the pair's newest node in its oldest one, and in a ghost, which is alone, minus the rows it waits for.
    """

    table: Array  # int32[cells]
    slots: Array  # int32[nodes]
    words: Array  # int64[nodes]
    following: Array  # int32[nodes]
    preceding: Array  # int32[nodes]
    same: Array  # int32[nodes]
    newest: Array  # int32[nodes]
    head: Array  # int32[slots]
    tail: Array  # int32[slots]
    free: Array  # int32[nodes]
    meta: Array  # int64[4]


@kernel
def is_ghost(view: Sequence, node: int) -> bool:
    """Tell whether a node only stands for retractions that arrived before their rows."""
    return view.newest[node] < 0


@kernel
def _link(view: Sequence, slot: int, word: int) -> int:
    """A node for a value at the end of its slot's list."""
    node = pairs.allocate(view.free, view.meta)
    view.slots[node] = slot
    view.words[node] = word
    view.same[node] = 0
    # Read in the oldest node of a pair alone, which this one may be or become.
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
    # The links of the node are left as they are: whoever gets it writes all of them.
    pairs.give_back(view.free, view.meta, node)


@cold_kernel
def _haunt(view: Sequence, pool: PoolArrays, pooled: bool, slot: int, word: int, rows: int) -> None:
    """Let the ghost of a value, made if there is none, wait for more rows, or (negative) for fewer."""
    node = pairs.find(view.table, view.slots, view.words, slot, word)
    if node == 0:
        node = _link(view, slot, word)
        # Below 0: by this is_ghost knows it.
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
    # A ghost is the only node of its pair: while rows are missing, none of the value is there.
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
    """Tell whether a value is there."""
    node = pairs.find(view.table, view.slots, view.words, slot, word)
    return node != 0 and not is_ghost(view, node)


@kernel
def sequence_owe(
    view: Sequence, pool: PoolArrays, pooled: bool, slot: int, word: int, rows: int
) -> None:
    """Take out the oldest occurrences of a value, so many of them; its ghost waits for those that are not there."""
    # As single retractions would: the oldest first, then the ghost for the rest.
    while rows > 0 and sequence_holds(view, slot, word):
        sequence_remove(view, pool, pooled, slot, word)
        rows -= 1
    if rows > 0:
        _haunt(view, pool, pooled, slot, word, rows)


@kernel
def sequence_remove(view: Sequence, pool: PoolArrays, pooled: bool, slot: int, word: int) -> None:
    """Take out the oldest occurrence of a value; without any, its ghost waits for it."""
    node = pairs.find(view.table, view.slots, view.words, slot, word)
    if node == 0 or is_ghost(view, node):
        _haunt(view, pool, pooled, slot, word, 1)
        return
    # The next occurrence is the pair's oldest from now on: the table names it, and it knows the newest.
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
        # By the steps of single changes: table, rings and references to the pool stay right between any two of them.
        if is_ghost(view, node):
            _haunt(view, pool, pooled, slot, view.words[node], view.newest[node])
        else:
            sequence_remove(view, pool, pooled, slot, view.words[node])


@kernel
def _rehash(view: Sequence) -> None:
    for s in range(len(view.head)):
        node = np.int64(view.head[s])
        while node != 0:
            # In the order of the list: the first node of a pair is its oldest, which the table names.
            if pairs.find(view.table, view.slots, view.words, s, view.words[node]) == 0:
                pairs.insert(view.table, view.slots, view.words, node)
            node = np.int64(view.following[node])


@kernel
def _check_lists(view: Sequence, marks: Array) -> bool:
    """Tell whether the lists of all slots lead over every node in use once, in both directions.

    marks: uint8[nodes], 1 for a free node and else 0; set to 2 for one that a list leads over.
    """
    high, live = view.meta[pairs.HIGH], view.meta[pairs.LIVE]
    count = np.int64(0)
    for s in range(len(view.head)):
        node, before = np.int64(view.head[s]), np.int64(0)
        while node != 0:
            # First of all: a link out of a damaged file would read beyond the arrays, and a ring would never end.
            if node < 1 or node > high or marks[node] != 0:
                return False
            if view.slots[node] != s or view.preceding[node] != before:
                return False
            marks[node] = 2
            count += 1
            before, node = node, np.int64(view.following[node])
        if view.tail[s] != before:
            return False
    return count == live


@kernel
def _check_pairs(view: Sequence, marks: Array) -> bool:
    """Tell whether the table finds the oldest node of each value, from which its equals lead on to the newest.

    marks: uint8[nodes], 2 for a node in use; set to 3.
    """
    cells = len(view.table)
    mask, empty, count = cells - 1, False, np.int64(0)
    for at in range(cells):
        empty = empty or view.table[at] == 0
    if cells & mask != 0 or not empty:
        return False
    for at in range(cells):
        oldest = np.int64(view.table[at])
        if oldest == 0:
            continue
        if oldest < 1 or oldest >= len(marks) or marks[oldest] != 2:
            return False
        slot, word = np.int64(view.slots[oldest]), view.words[oldest]
        home = pairs.pair_hash(slot, word) & mask
        while home != at:
            # A value that a probe does not come to would be there twice.
            node = np.int64(view.table[home])
            if node < 1 or node >= len(marks) or marks[node] < 2:
                return False
            if view.slots[node] == slot and view.words[node] == word:
                return False
            home = (home + 1) & mask
        node = oldest
        while True:
            marks[node] = 3
            count += 1
            after = np.int64(view.same[node])
            if after == 0:
                break
            if after < 1 or after >= len(marks) or marks[after] != 2:
                return False
            if view.slots[after] != slot or view.words[after] != word:
                return False
            node = after
        newest = np.int64(view.newest[oldest])
        # A ghost has a negative number there, and is alone.
        if newest != node and (newest >= 0 or node != oldest):
            return False
    return count == view.meta[pairs.LIVE]


@kernel
def _hold_nodes(view: Sequence, references: Array, marks: Array) -> bool:
    """Count the references of nodes in use, whose marks are 3, to the pool (`references`: int64[ids])."""
    for node in range(len(marks)):
        if marks[node] == 3:
            word = view.words[node]
            if word < 0 or word >= len(references):
                return False
            references[word] += 1
    return True


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

    def check_restored(self, audit: Audit, slots: int, pooled: bool, by_bytes: bool) -> None:
        """Raise StateCorruptError unless the arrays of a snapshot are sequences of so many slots."""
        view, name = self.arrays, self.name
        nodes = len(view.free)
        audit.require_length(slots, name, view.head, view.tail)
        audit.require_length(nodes, name, *(getattr(view, each) for each, _ in self._BY_NODE))
        high, free, live = view.meta[:3].tolist()
        right = 0 <= free <= high < nodes and live == high - free
        marks = np.zeros(nodes, np.uint8)
        right = right and check_stack(view.free, free, marks, 1, high)
        audit.require(right, name, "free nodes are not listed once")
        audit.require(_check_lists(view, marks), name, "its lists do not lead over its nodes once")
        audit.require(_check_pairs(view, marks), name, "its table does not lead to its values")
        if pooled:
            right = _hold_nodes(view, audit.references, marks)
            audit.require(right, name, "a string that the pool does not have")

    @property
    def live(self) -> int:
        """Values in all slots."""
        return int(self.arrays.meta[pairs.LIVE])

    @property
    def is_airy(self) -> bool:
        return airy(self.live, int(self.arrays.meta[pairs.HIGH]))

    def trim(self) -> None:
        """Keep everything: what was reserved one by one is in use."""

    def reserve_slots(self, slots: int) -> None:
        for array in self._BY_SLOT:
            self.arena.resize(f"{self.name}.{array}", slots)
        self._reload()

    def affordable(self, rows: int) -> int:
        """Return the number of next rows to prepare for at once."""
        return rows

    def reserve(self, rows: int) -> None:
        """Room for `rows` more values."""
        meta = self.arrays.meta
        # Freed nodes are used before new ones.
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
