"""The state of a TemporalFilter: the rows that wait for their first time, and visible rows that have an end."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.rows_by_key import RowState, StoredEntries, Stores
from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.state.row_bag import RowBag
from aggloom.runtime.storage.arena import Arena, Array, NumberArray, RowIdArray, SlotArray
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL

# Columns of the stored row: the same values with other times are another row.
_TIMES: Final = [pa.field("$from", pa.int64()), pa.field("$until", pa.int64())]


class TemporalState(RowState):
    """Rows by key, each with its times; the clock of the last check; the time at which the next row is due.

    schema: the columns of a row; the first `keys` are its key. only_added: no row is ever retracted. keeps_debts:
    rows that were retracted before they arrived are remembered. directory: where the arena's arrays are mapped.
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: int,
        *,
        only_added: bool,
        keeps_debts: bool = False,
        directory: Path | None = None,
    ) -> None:
        self.schema, self.fields = schema, list(schema)[:keys]
        # Without retractions there are no orphans.
        self._only_added, self._keeps_debts = only_added, keeps_debts and not only_added
        self._open(Arena(directory))

    @property
    def entries(self) -> dict[str, StoredEntries]:
        """The entries of which a key may have several, by name."""
        return {"rows": StoredEntries(len(self.bag), 0, self.bag.rows.text_bytes)}

    @property
    def clock(self) -> Array:
        """The clock of the last check of rows, in milliseconds (int64[1])."""
        return self.arena.array("clock", 0, "i8")

    @property
    def due(self) -> Array:
        """The time before which no row becomes visible or invisible (int64[1]); AFTER_ALL: none will."""
        return self.arena.array("due", 0, "i8")

    def times(self, ids: RowIdArray) -> tuple[Array, Array]:
        """The times at which rows become visible and invisible (int64[ids] each)."""
        return _times_of(self.bag, ids)

    def store(self, rows: pa.RecordBatch, first: NumberArray, end: NumberArray) -> pa.RecordBatch:
        """Return rows with their times, as they are stored."""
        columns = [*rows.columns, pa.array(first), pa.array(end)]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema([*self.schema, *_TIMES]))

    def gather(self, ids: RowIdArray) -> pa.RecordBatch:
        """Stored rows without their times, each as often as it is there."""
        ids = np.repeat(ids, self.bag.counts(ids))
        columns = self.bag.rows.gather_columns(ids, np.arange(len(self.schema)))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def drop(self, ids: RowIdArray) -> None:
        """Forget rows, and the keys that have nothing left."""
        # First of all: once the rows are freed nothing says whose they were.
        slots = np.unique(self.bag.index.arrays.slot[ids]).astype(np.int64)
        self.bag.take(ids)
        self.bag.free(ids)
        self.leave(slots)

    def drop_debts(self, now: int) -> None:
        """Forget the debts of rows that would have left by now."""
        if self.debts is None or not len(self.debts):
            return
        ids = self.debts.rows.live()
        # A row that arrives when its time is over is never visible, so nothing has to be made good.
        old = ids[_times_of(self.debts, ids)[1] <= now]
        if len(old):
            slots = np.unique(self.debts.index.arrays.slot[old]).astype(np.int64)
            self.debts.take(old)
            self.debts.free(old)
            self.leave(slots)

    def leave(self, touched: SlotArray) -> None:
        """Forget the keys among these that have nothing left, and give memory back."""
        empty = touched
        for bag in self._bags:
            empty = empty[~bag.holds(empty)]
        if len(empty):
            self.table.forget(empty)
            self._fit()
        self.pool.sweep()
        if self.table.is_airy or self.bag.is_airy:
            self._compact()

    @property
    def stores(self) -> Stores:
        return self._bags

    def count_slot_rows(self, slots: SlotArray) -> Array:
        """Return the number of rows that each slot has."""
        ids = self.bag.rows.live()
        theirs, counts = self.bag.index.arrays.slot[ids], self.bag.counts(ids)
        # Weighted sums are doubles, exact up to 2**53 rows.
        total = np.bincount(theirs, weights=counts, minlength=self.table.capacity)
        return total[slots].astype(np.int64)

    def forget(self, slots: SlotArray) -> None:
        """Remove keys with their rows, and give memory back."""
        for bag in self._bags:
            bag.empty(slots)
        self.leave(slots)

    def check_restored(self, audit: Audit, used: Array) -> None:
        """Raise StateCorruptError unless the parts of a snapshot fit each other; used: uint8[slots], 1: in use."""
        audit.require_length(1, "clock", self.clock)
        audit.require_length(1, "due", self.due)
        for bag in self._bags:
            bag.check_restored(audit, used)

    @property
    def _bags(self) -> list[RowBag]:
        return [self.bag] if self.debts is None else [self.bag, self.debts]

    def _open(self, arena: Arena) -> None:
        self.arena, self.pool = arena, Pool(arena)
        self.table = KeyTable(arena, self.pool, self.fields)
        slots, fields = self.table.capacity, [*self.schema, *_TIMES]
        self.bag = RowBag(arena, self.pool, "rows", fields, slots, only_added=self._only_added)
        self.debts = RowBag(arena, self.pool, "debts", fields, slots) if self._keeps_debts else None
        for name, time in (("clock", BEFORE_ALL), ("due", AFTER_ALL)):
            # A restored arena has both times.
            if name not in arena:
                arena.array(name, 1, "i8")[0] = time

    def _fit(self) -> None:
        slots = self.table.capacity
        if len(self.bag.arrays.head) != slots:
            for bag in self._bags:
                bag.reserve_slots(slots)

    def _compact(self) -> None:
        """Copy what is left into arrays of its size."""
        arena = Arena()
        pool = Pool(arena)
        table, moved = self.table.copy_into(arena, pool)
        for bag in self._bags:
            bag.copy_into(arena, pool, moved, table.capacity)
        for name, time in (("clock", self.clock), ("due", self.due)):
            arena.array(name, 1, "i8")[:] = time
        self.arena.adopt(arena)
        self._open(self.arena)


def _times_of(bag: RowBag, ids: RowIdArray) -> tuple[Array, Array]:
    # The last two columns, each of which takes one word.
    words = bag.rows.arrays.words
    return words[ids, -2], words[ids, -1]
