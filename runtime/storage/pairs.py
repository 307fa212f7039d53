"""Nodes found by the pair (slot, word): the base of the arrival sequence.

Nodes live in arrays by node number (0 = none), freed ones are reused; an open-addressing table finds a node
by its pair.
"""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.hashing import combine
from aggloom.runtime.storage.jit import kernel

HIGH, FREE, LIVE = range(3)


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
    # Before it is read: numbers begin with 1, since 0 means none.
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
    # Without a bound: table_size leaves a quarter of the cells empty.
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
    # Without a bound: the old node is in the table.
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
        # As in close_gap: a node moves up to the hole if its home is not behind the hole.
        if ((at - home) & mask) >= ((at - hole) & mask):
            table[hole] = table[at]
            hole = at
    table[hole] = 0
