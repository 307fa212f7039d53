"""OrderedRowsState: the rows of each key in order, numbers by key, and the values that each row was emitted with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.rows_by_key import StoredEntries, Stores
from aggloom.runtime.operators.sorted_by_key import SortedState
from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.state.row_bag import RowBag
from aggloom.runtime.state.row_store import RowStore
from aggloom.runtime.state.sort_key import SortColumn
from aggloom.runtime.state.sorted_rows import SortedRows
from aggloom.runtime.storage.arena import Arena, Array, RowIdArray, SlotArray
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values.clock import BEFORE_ALL


class OrderedRowsState(SortedState):
    """Keys, when each was written, its rows, and by row the number of its values + 1 (0: none were emitted).

    keys: how many of the first columns are the key. results: the columns of values; none: values are not kept.
    keeps_debts: whether orphan retractions are remembered. numbers, row_numbers: what is kept besides for each key and
    for each row, by name.
    compacts: whether slots may get other numbers. directory: where the arena's arrays are mapped.
    """

    def __init__(
        self,
        fields: Sequence[pa.Field],
        keys: int,
        order: Sequence[SortColumn],
        results: Sequence[pa.Field],
        *,
        keeps_debts: bool = False,
        numbers: tuple[str, ...] = (),
        row_numbers: tuple[str, ...] = (),
        compacts: bool = True,
        directory: Path | None = None,
    ) -> None:
        self.every, self.fields = list(fields), list(fields)[:keys]
        self.order, self.result_fields, self.keeps_debts = tuple(order), list(results), keeps_debts
        self._numbers, self._row_numbers, self._compacts = numbers, row_numbers, compacts
        self._open(Arena(directory))

    @property
    def entries(self) -> dict[str, StoredEntries]:
        """The things of which a key may have several, by name."""
        size = self.sorted.rows.text_bytes + (self.results.text_bytes if self.result_fields else 0)
        return {"rows": StoredEntries(len(self.sorted), int(self.sorted.key.by_bytes), size)}

    @property
    def stores(self) -> Stores:
        return [
            self.sorted,
            *([self.results] if self.result_fields else []),
            *([] if self.debts is None else [self.debts]),
        ]

    def count_slot_rows(self, slots: SlotArray) -> Array | None:
        """Return the number of times that rows met each slot."""
        return self.sorted.sizes(slots)[0]

    @property
    def value_numbers(self) -> Array:
        """The number of the values of each row, + 1."""
        return self.arena.array("values", 0, "i8")

    def number(self, name: str) -> Array:
        """Return the number that is kept under a name for each slot."""
        return self.arena.array(name, 0, "i8")

    def row_number(self, name: str) -> Array:
        """Return the number that is kept under a name for each row."""
        return self.arena.array(name, 0, "i8")

    @property
    def clock(self) -> Array:
        """The watermark that rows were judged by last."""
        return self.arena.array("clock", 0, "i8")

    def fit_rows(self) -> None:
        """Have room for what is kept by row, as many rows as there may be."""
        for name in (*self._row_numbers, *(["values"] if self.result_fields else [])):
            if len(self.row_number(name)) != self.sorted.rows.capacity:
                self.arena.resize(name, self.sorted.rows.capacity)

    def free(self, ids: RowIdArray) -> None:
        """Forget rows that were removed, and the values that were emitted for them."""
        # Rows are freed and their ids used again: what is stored beside a row must not be there for the next one.
        if self.result_fields and len(ids):
            # The store may have grown since, for rows whose values were never emitted.
            self.fit_rows()
            values = self.value_numbers[ids]
            self.results.delete(values[values > 0] - 1)
            self.value_numbers[ids] = 0
        for name in self._row_numbers:
            self.row_number(name)[ids] = 0
        self.sorted.free(ids)
        self.fit_rows()
        if self.result_fields and not len(self.sorted):
            self.results.shrink()

    def forget(self, slots: SlotArray) -> None:
        """Remove keys with their rows, and give memory back."""
        # Slots are used again as well, so all that is stored by slot begins anew.
        _, ids = self.rows_of(slots)
        self.sorted.take(ids)
        self.free(ids)
        if self.debts is not None:
            self.debts.empty(slots)
        for name in self._numbers:
            self.number(name)[slots] = 0
        self.table.forget(slots)
        self._fit()
        self.tidy()

    def tidy(self) -> None:
        """Free the memory that is not in use any more."""
        self.pool.sweep()
        if self._compacts and (self.table.is_airy or self.sorted.is_airy):
            self._compact()

    def check_restored(self, audit: Audit, used: Array) -> None:
        """Raise StateCorruptError unless the parts of a snapshot fit each other; used: uint8[slots], 1: in use."""
        self.sorted.check_restored(audit, used)
        if self.result_fields:
            self.results.check_restored(audit)
            audit.require_length(self.sorted.rows.capacity, "values", self.value_numbers)
            rows = np.flatnonzero(self.value_numbers)
            self.sorted.rows.require_live(audit, "values", rows)
            self.results.require_live(audit, "values", self.value_numbers[rows] - 1)
        if self.debts is not None:
            self.debts.check_restored(audit, used)
        for name in self._numbers:
            audit.require_length(len(used), name, self.number(name))
        for name in self._row_numbers:
            audit.require_length(self.sorted.rows.capacity, name, self.row_number(name))
        audit.require_length(1, "clock", self.clock)

    def _open(self, arena: Arena) -> None:
        self.arena, self.pool = arena, Pool(arena)
        self.table = KeyTable(arena, self.pool, self.fields, ("written",))
        slots = self.table.capacity
        self.sorted = SortedRows(arena, self.pool, "rows", self.every, self.order, slots)
        if self.result_fields:
            self.results = RowStore(arena, "results", self.result_fields)
            arena.array("values", self.sorted.rows.capacity, "i8")
        for name in self._row_numbers:
            arena.array(name, self.sorted.rows.capacity, "i8")
        self.debts = None
        if self.keeps_debts:
            self.debts = RowBag(arena, self.pool, "debts", self.every, slots)
        for name in self._numbers:
            arena.array(name, slots, "i8")
        # A restored arena has a clock, which must not run backwards.
        if "clock" not in arena:
            arena.array("clock", 1, "i8")[0] = BEFORE_ALL

    def _fit(self) -> None:
        slots = self.table.capacity
        if self.sorted.tree.arrays.root.shape[0] == slots:
            return
        self.sorted.reserve_slots(slots)
        for name in self._numbers:
            self.arena.resize(name, slots)
        if self.debts is not None:
            self.debts.reserve_slots(slots)

    def _compact(self) -> None:
        """Copy what is left into arrays of its size."""
        arena = Arena()
        pool = Pool(arena)
        table, moved = self.table.copy_into(arena, pool)
        rows, places = self.sorted.copy_into(arena, pool, moved, table.capacity)
        if self.result_fields:
            # Rows and values both get new ids, each by a map of its own.
            _, numbers = self.results.copy_into(arena)
            values = arena.array("values", rows.rows.capacity, "i8")
            old = np.flatnonzero((places >= 0) & (self.value_numbers[: len(places)] > 0))
            values[places[old]] = numbers[self.value_numbers[old] - 1] + 1
        for name in self._row_numbers:
            numbers = arena.array(name, rows.rows.capacity, "i8")
            old = np.flatnonzero(places >= 0)
            numbers[places[old]] = self.row_number(name)[old]
        if self.debts is not None:
            self.debts.copy_into(arena, pool, moved, table.capacity)
        there = np.flatnonzero(moved >= 0)
        for name in self._numbers:
            arena.array(name, table.capacity, "i8")[moved[there]] = self.number(name)[there]
        arena.array("clock", 1, "i8")[:] = self.clock
        # The arena keeps its directory and takes the new arrays, so views of the old ones have to be opened anew.
        self.arena.adopt(arena)
        self._open(self.arena)
