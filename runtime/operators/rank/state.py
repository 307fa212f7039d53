"""The state of a Rank: the rows of each key in their order, and the number up to which they are seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.rows_by_key import StoredEntries, Stores
from aggloom.runtime.operators.sorted_by_key import SortedState
from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.state.row_bag import RowBag
from aggloom.runtime.state.sort_key import SortColumn
from aggloom.runtime.state.sorted_rows import SortedRows
from aggloom.runtime.storage.arena import Arena, Array, SlotArray
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.pool import Pool

_TELLING = 5
"""Number of rows of a key that tell how rare it is."""


class RankState(SortedState):
    """Keys, when each was written, its rows, the last number that it asks for + 1 (0: it is not known yet).

    keys: how many of the first columns are the key. unique: the columns by which a row is known, none: all.
    keeps_debts: whether orphan retractions are remembered. most: the rows that a key keeps, None: all. only_added:
    whether rows are never retracted. directory: where the arena's arrays are mapped.
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: int,
        order: Sequence[SortColumn],
        unique: Sequence[int],
        *,
        keeps_debts: bool = False,
        most: int | None = None,
        only_added: bool = False,
        directory: Path | None = None,
    ) -> None:
        self.schema, self.fields = schema, list(schema)[:keys]
        self.order, self.unique, self.keeps_debts = tuple(order), tuple(unique), keeps_debts
        self.most, self.only_added = most, only_added
        self._open(Arena(directory))

    @property
    def entries(self) -> dict[str, StoredEntries]:
        """The things of which a key may have several, by name."""
        texts, size = int(self.sorted.key.by_bytes), self.sorted.rows.text_bytes
        return {"rows": StoredEntries(len(self.sorted), texts, size, self.most)}

    @property
    def stores(self) -> Stores:
        return [self.sorted] if self.debts is None else [self.sorted, self.debts]

    def count_slot_rows(self, slots: SlotArray) -> Array | None:
        """Return the number of times that rows met each slot; None where it keeps too few of them to tell."""
        # With only a few rows kept of a key, how many it has says little about how many it had.
        if self.most is not None and self.most <= _TELLING:
            return None
        return self.sorted.sizes(slots)[0]

    @property
    def end(self) -> Array:
        """The last number that is asked for of each slot, + 1, where a column says it."""
        return self.arena.array("end", 0, "i8")

    def forget(self, slots: SlotArray) -> None:
        """Remove keys with their rows, and give memory back."""
        _, ids = self.rows_of(slots)
        self.sorted.take(ids)
        self.sorted.free(ids)
        if self.debts is not None:
            self.debts.empty(slots)
        # A key that gets this slot has to learn its own.
        self.end[slots] = 0
        self.table.forget(slots)
        self._fit()
        self.pool.sweep()
        if self.table.is_airy or self.sorted.is_airy:
            self._compact()

    def check_restored(self, audit: Audit, used: Array) -> None:
        """Raise StateCorruptError unless the parts of a snapshot fit each other; used: uint8[slots], 1: in use."""
        audit.require_length(len(used), "end", self.end)
        self.sorted.check_restored(audit, used)
        if self.debts is not None:
            self.debts.check_restored(audit, used)

    def _open(self, arena: Arena) -> None:
        self.arena, self.pool = arena, Pool(arena)
        self.table = KeyTable(arena, self.pool, self.fields, ("written",))
        slots = self.table.capacity
        fields = list(self.schema)
        self.sorted = SortedRows(
            arena,
            self.pool,
            "rows",
            fields,
            self.order,
            slots,
            unique=self.unique,
            only_added=self.only_added,
        )
        self.debts = None
        if self.keeps_debts:
            self.debts = RowBag(arena, self.pool, "debts", fields, slots)
        arena.array("end", slots, "i8")

    def _fit(self) -> None:
        slots = self.table.capacity
        # The table grows by itself when a key comes; the arrays by slot follow it here.
        if len(self.end) != slots:
            self.arena.resize("end", slots)
            self.sorted.reserve_slots(slots)
            if self.debts is not None:
                self.debts.reserve_slots(slots)

    def _compact(self) -> None:
        """Copy what is left into arrays of its size."""
        arena, was = Arena(), self.end
        pool = Pool(arena)
        table, moved = self.table.copy_into(arena, pool)
        self.sorted.copy_into(arena, pool, moved, table.capacity)
        if self.debts is not None:
            self.debts.copy_into(arena, pool, moved, table.capacity)
        # Slots that are not in use were not copied.
        there = np.flatnonzero(moved >= 0)
        arena.array("end", table.capacity, "i8")[moved[there]] = was[there]
        self.arena.adopt(arena)
        self._open(self.arena)
