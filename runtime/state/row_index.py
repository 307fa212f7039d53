"""The row index: slot and identity -> id of a stored row.

The identity of a row is some of its columns: those of a unique key, or all. Cells are those of the key index: the
upper half of a hash beside the id + 1, in the order of the hashes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.state.row_kernels import (
    LIVE,
    AnyRows,
    Encoded,
    RowArrays,
    has_heap_room,
    hash_value,
    is_null,
    same_row,
)
from aggloom.runtime.state.row_store import FIRST_ROWS, RowStore
from aggloom.runtime.storage.arena import Arena, Array, RowIdArray, SlotArray
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.cells import (
    around,
    cells_for,
    entries_in,
    home,
    is_other,
    rehash,
    slot_in,
)
from aggloom.runtime.storage.hashing import combine
from aggloom.runtime.storage.index_audit import check_cells
from aggloom.runtime.storage.jit import kernel

ORPHAN, NEW, AGAIN, REPLACED, LESS, GONE = range(6)
"""Outcomes of a change: nothing to retract, a new row, one more, a row for another, one less, none left."""
BLOCK = 1024
_LOW = 0xFFFFFFFF


class RowIndexArrays(NamedTuple):
    """`table` by hash; `slot` by id; the columns that are the `identity`."""

    table: Array  # int64[cells]
    slot: Array  # int32[ids]
    identity: Array  # int64[columns]


class Ahead(NamedTuple):
    """Facts about a block of rows before they are applied: their hashes; `prefetched` is only there to be written."""

    hashes: Array  # int64[BLOCK]
    prefetched: Array  # int64[BLOCK]

    @classmethod
    def new(cls) -> Ahead:
        return cls(np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64))


class Applied(NamedTuple):
    """Arrays by change: the row that it was about (-1: an orphan), the row that is gone or -1, and the outcome."""

    ids: Array  # int64[changes]
    gone: Array  # int64[changes]
    outcomes: Array  # uint8[changes]

    @classmethod
    def of(cls, changes: int) -> Applied:
        """Room for what becomes of so many changes."""
        ids, gone = np.empty(changes, np.int64), np.empty(changes, np.int64)
        return cls(ids, gone, np.empty(changes, np.uint8))


@kernel
def row_hash(rows: AnyRows, r: int, slot: int, identity: Array) -> int:
    """The hash of a row in a slot; the row may be one that is not stored."""
    # The slot is part of the hash: the same row under many keys would otherwise be one long run of cells.
    h = np.int64(slot)
    for k in range(len(identity)):
        c = identity[k]
        # The word of a NULL is 0, which is also the word of a value: its flag gives the two different hashes.
        h = combine(h, hash_value(rows, r, c) ^ np.int64(is_null(rows.flags, r, c)))
    return h


@kernel
def look_ahead(
    index: RowIndexArrays, rows: RowArrays, slots: Array, batch: Encoded, start: int, ahead: Ahead
) -> int:
    """Hash a block of rows and read what they will meet, row by row of it; where the block stops.

    The loads of a step do not wait for one another: applying rows one by one then finds them in the cache.
    """
    stop = min(len(slots), start + BLOCK)
    cells = len(index.table)
    # Hashing is arithmetic over rows that lie in order; the reads at random places come after it, all at once.
    for r in range(start, stop):
        ahead.hashes[r - start] = row_hash(batch, r, slots[r], index.identity)
    for j in range(stop - start):
        ahead.prefetched[j] = index.table[home(ahead.hashes[j], cells)]
    # The sum is read by nobody: written down, it keeps the compiler from leaving the loads out.
    for j in range(stop - start):
        # An empty cell names no row. Row 0 is read for it: a load that may be wasted costs less than a branch.
        row = max(slot_in(ahead.prefetched[j]), 0)
        ahead.prefetched[j] = rows.words[row, 0] + index.slot[row]
    return stop


@kernel
def find_row(
    index: RowIndexArrays, rows: RowArrays, slot: int, batch: Encoded, r: int, h: int
) -> tuple[int, int]:
    """(id of the stored row that row r is or -1, cell where it is or belongs)."""
    cells = len(index.table)
    at = home(h, cells)
    while index.table[at] != 0:
        cell = index.table[at]
        # Halves of hashes first: the cell is at hand, and the row is elsewhere in memory.
        if not is_other(cell, h):
            row = slot_in(cell)
            # The slot first: it is one number, while a comparison of rows may read the bytes of texts.
            if index.slot[row] == slot and same_row(index.identity, batch, r, rows, row):
                return row, at
        at = around(at + 1, cells)
    # The cell comes with the answer, so that a caller that adds the row need not search for its place again.
    return np.int64(-1), at


@kernel
def name_row(index: RowIndexArrays, cell: int, h: int, slot: int, row: int) -> None:
    """Let a cell name a row."""
    index.table[cell] = (h & ~_LOW) | (row + 1)
    index.slot[row] = slot


@kernel
def cell_of(index: RowIndexArrays, row: int, h: int) -> int:
    """The cell that names a row, whose hash this is; -1 if none does."""
    cells = len(index.table)
    at = home(h, cells)
    while index.table[at] != 0:
        # The row is known by its id here: no column need be compared.
        if slot_in(index.table[at]) == row:
            return at
        at = around(at + 1, cells)
    return np.int64(-1)


@kernel
def has_room(
    index: RowIndexArrays, rows: RowArrays, is_indexed: bool, batch: Encoded, r: int
) -> bool:
    """Tell whether there is room for row r of the batch, for its texts too. is_indexed: the index will name it."""
    most = len(rows.words)
    if is_indexed:
        # The table has to keep empty cells: a search for a row that is not there ends at one.
        most = min(most, entries_in(len(index.table)))
    # Live rows, not ids that were given out: a freed id is used again before the arrays have to grow.
    return rows.meta[LIVE] < most and has_heap_room(rows, batch, r)


@kernel
def _find(
    index: RowIndexArrays, rows: RowArrays, slots: Array, batch: Encoded, ids: Array, ahead: Ahead
) -> None:
    start = np.int64(0)
    while start < len(slots):
        stop = look_ahead(index, rows, slots, batch, start, ahead)
        for r in range(start, stop):
            row, _ = find_row(index, rows, slots[r], batch, r, ahead.hashes[r - start])
            ids[r] = row
        start = stop


@kernel
def _enter_all(index: RowIndexArrays, rows: RowArrays, ids: Array) -> None:
    """Fill an empty table: each of the rows has its slot, and no two are the same."""
    cells = len(index.table)
    for k in range(len(ids)):
        row, slot = ids[k], np.int64(index.slot[ids[k]])
        h = row_hash(rows, row, slot, index.identity)
        at = home(h, cells)
        # Straight to the next empty cell: there are no equal rows to look for.
        while index.table[at] != 0:
            at = around(at + 1, cells)
        name_row(index, at, h, slot, row)


@kernel
def _check_named(index: RowIndexArrays, rows: RowArrays, halves: Array) -> bool:
    """Tell whether the rows that cells name are there and have the hashes that these say (`halves`: of check_cells)."""
    for row in range(len(halves)):
        if halves[row] == -1:
            continue
        if rows.flags[row, 0] & 1 == 0:
            return False
        slot = np.int64(index.slot[row])
        h = row_hash(rows, row, slot, index.identity)
        if halves[row] != (h >> 32) & _LOW:
            return False
    return True


@kernel
def _check_slots(index: RowIndexArrays, rows: RowArrays, used: Array) -> bool:
    """Tell whether each row is of a slot in use (`used`: uint8[slots])."""
    # A row of a key that was forgotten would never be found, and never leave.
    for row in range(len(index.slot)):
        if rows.flags[row, 0] & 1 != 0:
            slot = np.int64(index.slot[row])
            if slot < 0 or slot >= len(used) or used[slot] == 0:
                return False
    return True


class RowIndex:
    """The table in an arena, and the slot of each row. name: what its arrays are called by."""

    def __init__(self, arena: Arena, name: str, identity: Array) -> None:
        self.arena, self.name, self.identity = arena, name, identity
        arena.array(f"{name}.table", cells_for(FIRST_ROWS), "i8")
        arena.array(f"{name}.slot", FIRST_ROWS, "i4")
        self.ahead = Ahead.new()
        self._reload()

    def find(self, rows: RowArrays, slots: SlotArray, batch: Encoded) -> Array:
        """The id of each row; -1 for those that are not there."""
        ids = np.empty(len(slots), np.int64)
        _find(self.arrays, rows, slots, batch, ids, self.ahead)
        return ids

    def enter(self, rows: RowArrays, ids: RowIdArray) -> None:
        """Name rows in an empty index that has room for them; each has its slot, and no two are the same."""
        _enter_all(self.arrays, rows, ids)

    def enter_anew(self, rows: RowArrays) -> None:
        """Name the same rows once more, by the hashes that they have now."""
        ids = self.collect_ids()
        self.arena.replace(f"{self.name}.table", len(self.arrays.table))
        self._reload()
        self.enter(rows, ids)

    def check_restored(self, audit: Audit, rows: RowStore, entries: int, used: Array) -> None:
        """Raise StateCorruptError unless the arrays of a snapshot name so many of the rows.

        used: uint8[slots], 1 for a slot of which there may be rows.
        """
        index, name, high = self.arrays, self.name, rows.high
        audit.require_length(rows.capacity, name, index.slot)
        right = _check_slots(index, rows.arrays, used)
        audit.require(right, name, "a row is of a key that is not there")
        halves = np.full(high, -1, np.int64)
        right = check_cells(index.table, entries, high, halves)
        right = right and _check_named(index, rows.arrays, halves)
        audit.require(right, name, "its table does not lead to its rows")

    def collect_ids(self) -> Array:
        """The ids of the rows that cells name."""
        table = self.arrays.table
        return (table[table != 0] & _LOW) - 1

    def reserve(self, entries: int, capacity: int) -> None:
        """Room for so many rows in all, with ids below the capacity."""
        if len(self.arrays.slot) != capacity:
            self.arena.resize(f"{self.name}.slot", capacity)
            self._reload()
        cells = cells_for(entries)
        if cells > len(self.arrays.table):
            old = self.arrays.table
            self.arena.replace(f"{self.name}.table", self.arena.roomier(len(old), cells))
            self._reload()
            rehash(old, self.arrays.table)

    def trim(self, entries: int, capacity: int) -> None:
        """Have no more room than so many rows need."""
        self.reserve(entries, capacity)
        cells, old = cells_for(entries), self.arrays.table
        if cells < len(old):
            self.arena.replace(f"{self.name}.table", cells)
            self._reload()
            rehash(old, self.arrays.table)

    def reset(self, capacity: int) -> None:
        """Give the memory back when no row is left."""
        self.arena.replace(f"{self.name}.table", cells_for(FIRST_ROWS))
        self.arena.resize(f"{self.name}.slot", capacity)
        self._reload()

    def _reload(self) -> None:
        table, slot = (self.arena.array(f"{self.name}.{n}", 0, "i8") for n in ("table", "slot"))
        self.arrays = RowIndexArrays(table, slot, self.identity)
