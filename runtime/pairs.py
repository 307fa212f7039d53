"""Nodes found by the pair (slot, word): the base of the counted multiset and of the arrival sequence.

Nodes live in arrays by node number (0 = none), freed ones are reused; an open-addressing table finds a node
by its pair. The nodes of one slot form a doubly linked list, so that a slot can be walked and cleared.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from aggloom.runtime.arena import Arena, Array
from aggloom.runtime.hashing import combine, table_size
from aggloom.runtime.jit import kernel

HIGH, FREE, LIVE = range(3)
_FIRST_NODES = 16


@kernel
def pair_hash(slot: int, word: int) -> int:
    return combine(np.int64(slot), word)


@kernel
def allocate(free: Array, meta: Array) -> int:
    """A node number to use; capacity was reserved."""
    meta[LIVE] += 1
    if meta[FREE] > 0:
        meta[FREE] -= 1
        return np.int64(free[meta[FREE]])
    meta[HIGH] += 1
    return np.int64(meta[HIGH])


@kernel
def give_back(free: Array, meta: Array, node: int) -> None:
    free[meta[FREE]] = node
    meta[FREE] += 1
    meta[LIVE] -= 1


@kernel
def find(table: Array, slots: Array, words: Array, slot: int, word: int) -> int:
    """The node of (slot, word), or 0."""
    mask = len(table) - 1
    at = pair_hash(slot, word) & mask
    while table[at] != 0:
        node = np.int64(table[at])
        if slots[node] == slot and words[node] == word:
            return node
        at = (at + 1) & mask
    return np.int64(0)


@kernel
def insert(table: Array, slots: Array, words: Array, node: int) -> None:
    """Enter a node whose pair is not in the table."""
    mask = len(table) - 1
    at = pair_hash(slots[node], words[node]) & mask
    while table[at] != 0:
        at = (at + 1) & mask
    table[at] = node


@kernel
def substitute(table: Array, slots: Array, words: Array, old: int, new: int) -> None:
    """Let the table name `new` where it named `old`, a node of the same pair."""
    mask = len(table) - 1
    at = pair_hash(slots[old], words[old]) & mask
    while table[at] != old:
        at = (at + 1) & mask
    table[at] = new


@kernel
def remove(table: Array, slots: Array, words: Array, node: int) -> None:
    """Take a node out of the table."""
    mask = len(table) - 1
    at = pair_hash(slots[node], words[node]) & mask
    while table[at] != node:
        at = (at + 1) & mask
    hole = at
    while True:
        at = (at + 1) & mask
        if table[at] == 0:
            break
        home = pair_hash(slots[table[at]], words[table[at]]) & mask
        if ((at - home) & mask) >= ((at - hole) & mask):
            table[hole] = table[at]
            hole = at
    table[hole] = 0


class NodeView:
    """A view's arrays in an arena: some by node, some by slot, with growth, reset and rehash.

    Subclasses name their arrays; `by_node[name]` and `by_slot[name]` are dtypes.
    """

    arrays_type: ClassVar[type[Any]]
    by_node: ClassVar[dict[str, str]]
    by_slot: ClassVar[dict[str, str]]
    hashed: ClassVar[bool]

    def __init__(self, arena: Arena, name: str, slots: int, width: int) -> None:
        self.arena, self.name = arena, name
        for array, dtype in self.by_node.items():
            arena.array(f"{name}.{array}", _FIRST_NODES, dtype, self.row_width(array, width))
        for array, dtype in self.by_slot.items():
            arena.array(f"{name}.{array}", slots, dtype)
        if self.hashed:
            arena.array(f"{name}.table", table_size(_FIRST_NODES), "i4")
        arena.array(f"{name}.free", _FIRST_NODES, "i4")
        arena.array(f"{name}.meta", 4, "i8")
        self._reload()

    def row_width(self, array: str, width: int) -> int:
        """How many columns a by-node array has, 0 for a plain one; `width` is what the plan asks for."""
        return 0

    def _reload(self) -> None:
        self.arrays = self.arrays_type(
            *(self.arena.array(f"{self.name}.{n}", 0, "i4") for n in self.arrays_type._fields)
        )

    def _rehash(self) -> None:
        """Fill an emptied table again."""

    @property
    def live(self) -> int:
        return int(self.arrays.meta[LIVE])

    def reserve_slots(self, slots: int) -> None:
        for array in self.by_slot:
            self.arena.resize(f"{self.name}.{array}", slots)
        self._reload()

    def reserve(self, rows: int) -> None:
        """Room for `rows` more nodes."""
        meta = self.arrays.meta
        need = int(meta[HIGH]) + 1 + rows - int(meta[FREE])
        if need > len(self.arrays.free):
            size = max(need, 2 * len(self.arrays.free))
            for array in (*self.by_node, "free"):
                self.arena.resize(f"{self.name}.{array}", size)
            self._reload()
        if self.hashed and table_size(int(meta[LIVE]) + rows) > len(self.arrays.table):
            self.arena.replace(f"{self.name}.table", table_size(2 * (int(meta[LIVE]) + rows)))
            self._reload()
            self._rehash()

    def shrink(self) -> None:
        """Give the memory back when no node is left."""
        if self.live == 0 and len(self.arrays.free) > _FIRST_NODES:
            for array in (*self.by_node, "free"):
                self.arena.replace(f"{self.name}.{array}", _FIRST_NODES)
            if self.hashed:
                self.arena.replace(f"{self.name}.table", table_size(_FIRST_NODES))
            self.arrays.meta[:] = 0
            self._reload()


@kernel
def rehash_listed(table: Array, slots: Array, words: Array, head: Array, following: Array) -> None:
    """Enter the nodes of every slot's list."""
    for s in range(len(head)):
        node = np.int64(head[s])
        while node != 0:
            insert(table, slots, words, node)
            node = np.int64(following[node])
