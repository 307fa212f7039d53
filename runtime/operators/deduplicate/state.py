"""The state of a Deduplicate: keys, the row of each, and the time by which that row was chosen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.rows_by_key import RowState, Stores
from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.state.row_store import RowStore
from aggloom.runtime.storage.arena import Arena, Array, SlotArray
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values.clock import BEFORE_ALL

NONE, EMITTED = 0, -1
"""The numbers that stand for the row of a key that has none: yet, or any more, since it was emitted."""


@kernel
def _group(slots: Array, numbers: Array, touched: Array, groups: Array) -> int:
    """Number slots as they come, and return how many there are; `numbers` is zero by slot, and is left so."""
    n = 0
    for r in range(len(slots)):
        slot = slots[r]
        if numbers[slot] == 0:
            touched[n] = slot
            n += 1
            numbers[slot] = n
        groups[r] = numbers[slot] - 1
    for k in range(n):
        numbers[touched[k]] = 0
    return n


class DeduplicateState(RowState):
    """The stored keys, when each was written, and its row.

    holds: whether rows are kept; without them a stored key has row EMITTED. times: the numbers that are kept for
    each key besides, by name. directory: where the arena's arrays are mapped, created or reopened; None keeps them on
    the heap.
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: int,
        holds: bool,
        times: tuple[str, ...] = (),
        directory: Path | None = None,
    ) -> None:
        self.schema, self.fields = schema, list(schema)[:keys]
        self.holds, self._times = holds, times
        self._numbers = np.zeros(0, np.int64)
        self._open(Arena(directory))

    @property
    def row(self) -> Array:
        """Each slot's row + 1, NONE or EMITTED."""
        return self.arena.array("row", 0, "i8")

    def time(self, name: str) -> Array:
        """A time of each slot's row."""
        return self.arena.array(name, 0, "i8")

    @property
    def clock(self) -> Array:
        """The watermark that rows were judged by last."""
        return self.arena.array("clock", 0, "i8")

    @property
    def write_times(self) -> Array:
        """Return the times at which the slots were written."""
        return self.table.stamps("written")

    @property
    def stores(self) -> Stores:
        return [self.rows] if self.holds else []

    def with_rows(self) -> Array:
        """The slots that have a row."""
        used = self.used_slots()
        return used[self.row[used] > 0]

    def group_slots(self, slots: SlotArray) -> tuple[Array, Array]:
        """The different slots of rows, and by row which of them is its own."""
        if len(self._numbers) != self.table.capacity:
            self._numbers = np.zeros(self.table.capacity, np.int64)
        touched, groups = np.empty_like(slots), np.empty_like(slots)
        n = _group(slots, self._numbers, touched, groups)
        return touched[:n], groups

    def gather(self, slots: SlotArray) -> pa.RecordBatch:
        """The rows of slots that have one."""
        return self.rows.gather(self.row[slots] - 1)

    def drop_rows(self, slots: SlotArray) -> None:
        """Delete the rows of slots that have one; the keys stay, without."""
        self.rows.delete(self.row[slots] - 1)
        self.row[slots] = NONE

    def forget(self, slots: SlotArray) -> None:
        """Remove keys with their rows, and give memory back."""
        if self.holds:
            self.drop_rows(slots[self.row[slots] > 0])
            self.rows.shrink()
        self.row[slots] = NONE
        self.table.forget(slots)
        self._fit()
        self.tidy()

    def tidy(self) -> None:
        """Free the memory that is not in use any more."""
        self.pool.sweep()
        if self.table.is_airy or (self.holds and self.rows.is_airy):
            self._compact()

    def check_restored(self, audit: Audit, used: Array) -> None:
        """Raise StateCorruptError unless the parts of a snapshot fit each other; used: uint8[slots], 1: in use."""
        audit.require_length(len(used), "row", *map(self.time, self._by_slot))
        audit.require_length(1, "clock", self.clock)
        with_row = np.flatnonzero(self.row > 0)
        # What was emitted is remembered where rows wait to be, or are not kept.
        least = EMITTED if "due" in self._times or not self.holds else NONE
        right = bool((self.row >= least).all() and (used[with_row] != 0).all())
        audit.require(right and (self.holds or not len(with_row)), "row", "it names rows wrongly")
        if self.holds:
            self.rows.check_restored(audit)
            self.rows.require_live(audit, "row", self.row[with_row] - 1)

    @property
    def _by_slot(self) -> tuple[str, ...]:
        return ("row", *self._times)

    def _open(self, arena: Arena) -> None:
        self.arena, self.pool = arena, Pool(arena)
        self.table = KeyTable(arena, self.pool, self.fields, ("written",))
        if self.holds:
            self.rows = RowStore(arena, "rows", list(self.schema))
        for name in self._by_slot:
            arena.array(name, self.table.capacity, "i8")
        if "clock" not in arena:
            arena.array("clock", 1, "i8")[0] = BEFORE_ALL

    def _fit(self) -> None:
        for name in self._by_slot:
            if len(self.time(name)) != self.table.capacity:
                self.arena.resize(name, self.table.capacity)

    def _compact(self) -> None:
        """Copy what is left into arrays of its size."""
        arena = Arena()
        pool = Pool(arena)
        table, moved = self.table.copy_into(arena, pool)
        there = np.flatnonzero(moved >= 0)
        for name in self._by_slot:
            arena.array(name, table.capacity, "i8")[moved[there]] = self.time(name)[there]
        if self.holds:
            _, places = self.rows.copy_into(arena)
            row = arena.array("row", 0, "i8")
            with_row = np.flatnonzero(row > 0)
            row[with_row] = places[row[with_row] - 1] + 1
        arena.array("clock", 1, "i8")[:] = self.clock
        self.arena.adopt(arena)
        self._open(self.arena)
