"""The state of a lookup join over changes: rows by their key, and what each got when it arrived."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.rows_by_key import RowState, StoredEntries, Stores
from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.state.row_bag import RowBag
from aggloom.runtime.storage.arena import (
    Arena,
    Array,
    FlagArray,
    NumberArray,
    RowIdArray,
    SlotArray,
)
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.pool import Pool

ARRIVAL, NOTHING = "$arrival", "$nothing"
_FIRST = 2
"""Number of columns before those of the result: the number of the arrival, and whether it got nothing."""


class LookupState(RowState):
    """Keys, how many arrivals each has, and the joined rows of each arrival. keys: the columns of a key."""

    def __init__(self, keys: pa.Schema, result: pa.Schema, directory: Path | None = None) -> None:
        self.fields, self.result = list(keys), result
        self._open(Arena(directory))

    @property
    def depth(self) -> Array:
        """Number of arrivals of each slot."""
        return self.arena.array("depth", 0, "i8")

    @property
    def debts(self) -> Array:
        """Number of rows of each slot that were retracted before they arrived."""
        return self.arena.array("debts", 0, "i8")

    @property
    def write_times(self) -> Array:
        """Return the times at which the slots were written."""
        return self.table.stamps("written")

    @property
    def result_places(self) -> Array:
        """The numbers of the result's columns among those that are stored."""
        return np.arange(_FIRST, _FIRST + len(self.result), dtype=np.int64)

    @property
    def entries(self) -> dict[str, StoredEntries]:
        """The things of which a key may have several, by name."""
        return {"answers": StoredEntries(len(self.bag), 0, self.bag.rows.text_bytes)}

    @property
    def stores(self) -> Stores:
        return [self.bag]

    def count_slot_rows(self, slots: SlotArray) -> Array | None:
        """Return the number of rows that each slot has taken."""
        return self.depth[slots]

    def arrive(
        self, slots: SlotArray, per_arrival: NumberArray, rows: pa.RecordBatch, nothing: FlagArray
    ) -> Array:
        """Store joined rows, and return the number of each. per_arrival: which arrived together, as rising numbers."""
        # Numbers rise over all keys, so that the latest arrival of a key is that with the greatest.
        first = int(self._next[0])
        numbers = first + per_arrival
        if len(numbers):
            self._next[0] = int(numbers[-1]) + 1
        columns = [pa.array(numbers), pa.array(nothing), *rows.columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._stored)
        return self.bag.insert(slots, batch).ids

    def latest(self, slots: SlotArray, arrivals: NumberArray) -> tuple[Array, Array]:
        """The rows of the latest so many arrivals of slots: (place in `slots`, id)."""
        none = np.zeros(0, np.int64)
        chunks = list(self.bag.walk(slots))
        places = np.concatenate([none, *(each for each, _ in chunks)])
        ids = np.concatenate([none, *(each for _, each in chunks)])
        if not len(ids):
            return places, ids
        (column,) = self.bag.rows.gather_columns(ids, np.zeros(1, np.int64))
        numbers = column.to_numpy(zero_copy_only=False)
        # The latest arrival of each slot first.
        order = np.lexsort((-numbers, places))
        places, ids, numbers = places[order], ids[order], numbers[order]
        new_slot = np.concatenate([[True], places[1:] != places[:-1]])
        new_arrival = new_slot | np.concatenate([[True], numbers[1:] != numbers[:-1]])
        # Numbers of arrivals over all slots; less those of the slots before, they count from 1 in each.
        rank = np.cumsum(new_arrival)
        before = np.maximum.accumulate(np.where(new_slot, rank - 1, 0))
        keep = rank - before <= arrivals[places]
        return places[keep], ids[keep]

    def gather(self, ids: RowIdArray) -> pa.RecordBatch:
        """Stored rows as the result has them."""
        columns = self.bag.rows.gather_columns(ids, self.result_places)
        return pa.RecordBatch.from_arrays(columns, schema=self.result)

    def is_nothing(self, ids: RowIdArray) -> Array:
        """Tell whether stored rows stand for arrivals that got nothing."""
        (column,) = self.bag.rows.gather_columns(ids, np.ones(1, np.int64))
        return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)

    def forget(self, slots: SlotArray) -> None:
        """Remove keys with their rows, and give memory back."""
        self.bag.empty(slots)
        self.debts[slots] = 0
        self.leave(slots)

    def leave(self, slots: SlotArray) -> None:
        """Forget the keys among these that have nothing left, and give memory back."""
        empty = slots[~self.bag.holds(slots) & (self.debts[slots] == 0)]
        if len(empty):
            self.depth[empty] = 0
            self.table.forget(empty)
            self._fit()
        self.pool.sweep()
        if self.table.is_airy or self.bag.is_airy:
            self._compact()

    def check_restored(self, audit: Audit, used: Array) -> None:
        """Raise StateCorruptError unless the parts of a snapshot fit each other; used: uint8[slots], 1: in use."""
        audit.require_length(len(used), "depth", self.depth, self.debts)
        audit.require_length(1, "next", self._next)
        self.bag.check_restored(audit, used)

    def _open(self, arena: Arena) -> None:
        self.arena, self.pool = arena, Pool(arena)
        self.table = KeyTable(arena, self.pool, self.fields, ("written",))
        slots = self.table.capacity
        for name in ("depth", "debts"):
            arena.array(name, slots, "i8")
        self._next = arena.array("next", 1, "i8")
        marks = [pa.field(ARRIVAL, pa.int64()), pa.field(NOTHING, pa.bool_())]
        self._stored = pa.schema([*marks, *self.result])
        self.bag = RowBag(arena, self.pool, "answers", list(self._stored), slots)

    def _fit(self) -> None:
        slots = self.table.capacity
        if len(self.depth) != slots:
            self.arena.resize("depth", slots)
            self.arena.resize("debts", slots)
            self.bag.reserve_slots(slots)
            self._next = self.arena.array("next", 1, "i8")

    def _compact(self) -> None:
        """Copy what is left into arrays of its size."""
        arena = Arena()
        pool = Pool(arena)
        table, moved = self.table.copy_into(arena, pool)
        self.bag.copy_into(arena, pool, moved, table.capacity)
        old = np.flatnonzero(moved >= 0)
        for name in ("depth", "debts"):
            new = arena.array(name, table.capacity, "i8")
            new[moved[old]] = self.arena.array(name, 0, "i8")[old]
        arena.array("next", 1, "i8")[0] = self._next[0]
        self.arena.adopt(arena)
        self._open(self.arena)
