"""Checks of restored tables: every probe ends at its entry, every entry is named once, free places are in one chain."""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.cells import SLOT_BITS, around, entries_in, home, slot_in
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.key_index import FREE, HIGH, LIVE, IndexArrays, KeyIndex, hash_key


@kernel
def check_cells(table: Array, entries: int, high: int, halves: Array) -> bool:
    """Tell whether a table names `entries` numbers below `high`, each once, where a probe from its home finds it.

    halves: int64[high], -1 each; the upper half of the hash that a number's cell says, -1 for one that no cell names.
    """
    cells, empty, filled, run = len(table), np.int64(-1), np.int64(0), np.int64(0)
    if cells > SLOT_BITS or entries > entries_in(cells):
        return False
    for at in range(cells):
        if table[at] == 0:
            empty = np.int64(at)
            break
    if empty < 0:
        return False
    for step in range(1, cells):
        at = around(empty + step, cells)
        cell = table[at]
        if cell == 0:
            run = np.int64(0)
            continue
        number = slot_in(cell)
        if number < 0 or number >= high or halves[number] != -1:
            return False
        # No cell between its home and its place is empty.
        if around(at - home(cell, cells), cells) > run:
            return False
        halves[number] = (cell >> 32) & SLOT_BITS
        run += 1
        filled += 1
    return filled == entries


@kernel
def check_chain(words: Array, first: int, count: int, high: int, used: Array) -> bool:
    """Tell whether a chain of numbers + 1 through their first words has `count` unused ones below `high`.

    words: int64[n, columns]; used: uint8[n], of which the lowest bit counts.
    """
    link = first
    for _ in range(count):
        if link < 1 or link > high or used[link - 1] & 1 != 0:
            return False
        link = words[link - 1, 0]
    # A chain that comes back to itself never ends.
    return link == 0


@kernel
def _check_keys(index: IndexArrays, pooled: Array, references: Array, halves: Array) -> bool:
    """Tell whether table and keys are each other's, and every id is of the pool, whose references are counted."""
    high, width = index.meta[HIGH], len(pooled)
    for s in range(len(index.used)):
        if index.used[s] > 1 or (s >= high and index.used[s] != 0):
            return False
        if s >= high:
            continue
        if index.used[s] == 0:
            if halves[s] != -1:
                return False
            continue
        h = hash_key(index.words, s, np.int64(index.nulls[s]), width)
        if halves[s] != (h >> 32) & SLOT_BITS:
            return False
        for c in range(width):
            if pooled[c]:
                i = index.words[s, c]
                if i < 0 or i >= len(references):
                    return False
                references[i] += 1
    return True


def check_key_index(index: KeyIndex, audit: Audit) -> None:
    """Raise StateCorruptError unless the arrays of a snapshot are those of an index."""
    a, name = index.arrays, index.name
    audit.require_length(len(a.used), name, a.words, a.nulls)
    audit.require_length(4, name, a.meta)
    high, live = int(a.meta[HIGH]), int(a.meta[LIVE])
    right = 0 <= live <= high <= len(a.used)
    audit.require(right, name, f"{live} keys of {high} do not fit into {len(a.used)}")
    halves = np.full(high, -1, np.int64)
    right = check_cells(a.table, live, high, halves)
    right = right and _check_keys(a, index.pooled, audit.references, halves)
    audit.require(right, name, "its table does not lead to its keys")
    right = check_chain(a.words, int(a.meta[FREE]), high - live, high, a.used)
    audit.require(right, name, "free places are not listed once")
