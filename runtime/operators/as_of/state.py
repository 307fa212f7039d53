"""The state of an AsOfJoin: its keys, and by key the rows of both sides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.as_of.settings import AsOfSettings
from aggloom.runtime.operators.as_of.side import AsOfSide
from aggloom.runtime.operators.rows_by_key import RowState, StoredEntries, Stores
from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.storage.arena import Arena, Array, RowIdArray, SlotArray
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL

GONE = pa.field("", pa.bool_())
"""Column of a version: whether its key has no row from then on. No column of a query is called so."""


class AsOfState(RowState):
    """Keys, when each was written, and its rows.

    matches: by row of the left the number of the row that it was emitted with + 1, where it stays. due: by key, where
    rows wait, when something is to be done for it. directory: where the arena's arrays are mapped.
    """

    def __init__(self, settings: AsOfSettings, directory: Path | None = None) -> None:
        self.settings = settings
        self.fields = list(settings.left)[: settings.keys]
        self._open(Arena(directory))

    @property
    def entries(self) -> dict[str, StoredEntries]:
        """The things of which a key may have several, by name."""
        return {
            side.name: StoredEntries(len(side.rows), 0, side.rows.rows.text_bytes)
            for side in self.sides
        }

    @property
    def stores(self) -> Stores:
        return [each for side in self.sides for each in (side.rows, side.debts) if each is not None]

    @property
    def match_numbers(self) -> Array:
        """The number of the row of the right, + 1, that each row of the left was emitted with; 0: with none."""
        return self.arena.array("matches", 0, "i8")

    @property
    def due(self) -> Array:
        """The next time, in milliseconds, at which rows of each slot leave or versions are over; AFTER_ALL: none."""
        return self.arena.array("due", 0, "i8")

    @property
    def clock(self) -> Array:
        """The watermark that rows were judged by last."""
        return self.arena.array("clock", 0, "i8")

    def fit_rows(self) -> None:
        """Have room for what is kept by row of the left, as many rows as there may be."""
        if not self.settings.waits and len(self.match_numbers) != self.left.rows.rows.capacity:
            self.arena.resize("matches", self.left.rows.rows.capacity)

    def free(self, side: AsOfSide, ids: RowIdArray) -> None:
        """Forget rows that are gone."""
        if not len(ids):
            return
        if side is self.left and not self.settings.waits:
            self.match_numbers[ids] = 0
        side.rows.free(ids)
        self.fit_rows()

    def drop(self, side: AsOfSide, ids: RowIdArray) -> None:
        """Take rows out and forget them."""
        side.rows.take(ids)
        self.free(side, ids)

    def forget(self, slots: SlotArray) -> None:
        """Remove keys with their rows, and give memory back."""
        for side in self.sides:
            self.drop(side, side.all_of(slots))
            if side.debts is not None:
                side.debts.empty(slots)
        if self.settings.waits:
            self.due[slots] = AFTER_ALL
        self.table.forget(slots)
        self._fit()

    def leave(self, touched: SlotArray) -> None:
        """Forget the keys among these that have nothing left."""
        empty = touched
        for side in self.sides:
            empty = empty[side.rows.sizes(empty)[0] == 0]
            if side.debts is not None:
                empty = empty[~side.debts.holds(empty)]
        if len(empty):
            self.forget(empty)

    def tidy(self) -> None:
        """Free the memory that is not in use any more."""
        self.pool.sweep()
        if self.table.is_airy or any(side.rows.is_airy for side in self.sides):
            self._compact()

    def check_restored(self, audit: Audit, used: Array) -> None:
        """Raise StateCorruptError unless the parts of a snapshot fit each other; used: uint8[slots], 1: in use."""
        for side in self.sides:
            side.rows.check_restored(audit, used)
            if side.debts is not None:
                side.debts.check_restored(audit, used)
        audit.require_length(1, "clock", self.clock)
        if self.settings.waits:
            audit.require_length(len(used), "due", self.due)
            return
        audit.require_length(self.left.rows.rows.capacity, "matches", self.match_numbers)
        rows = np.flatnonzero(self.match_numbers)
        self.left.rows.rows.require_live(audit, "matches", rows)
        self.right.rows.rows.require_live(audit, "matches", np.unique(self.match_numbers[rows] - 1))

    def _open(self, arena: Arena) -> None:
        self.arena, self.pool = arena, Pool(arena)
        settings = self.settings
        self.table = KeyTable(arena, self.pool, self.fields, ("written",))
        slots = self.table.capacity
        keeps_debts = settings.on_orphan_retraction == "keep" and not settings.waits
        more = [GONE] if settings.waits else []
        self.left = AsOfSide(arena, self.pool, settings, 0, slots, keeps_debts=keeps_debts)
        self.right = AsOfSide(arena, self.pool, settings, 1, slots, more, keeps_debts=keeps_debts)
        self.sides = self.left, self.right
        if settings.waits:
            self._fit_due()
        else:
            arena.array("matches", self.left.rows.rows.capacity, "i8")
        if "clock" not in arena:
            arena.array("clock", 1, "i8")[0] = BEFORE_ALL

    def _fit(self) -> None:
        slots = self.table.capacity
        if self.left.rows.tree.arrays.root.shape[0] == slots:
            return
        for side in self.sides:
            side.rows.reserve_slots(slots)
            if side.debts is not None:
                side.debts.reserve_slots(slots)
        if self.settings.waits:
            self._fit_due()

    def _fit_due(self) -> None:
        """Have a time for each slot."""
        slots = self.table.capacity
        # The array is found again in mapped files, or made here.
        known = len(self.arena.array("due", 0, "i8")) if "due" in self.arena else 0
        if known == 0:
            self.arena.array("due", slots, "i8")
        elif known != slots:
            self.arena.resize("due", slots)
        # The zeros of a new array would all be due at once.
        self.due[known:] = AFTER_ALL

    def _compact(self) -> None:
        """Copy what is left into arrays of its size."""
        arena = Arena()
        pool = Pool(arena)
        table, moved = self.table.copy_into(arena, pool)
        rows, lefts = self.left.rows.copy_into(arena, pool, moved, table.capacity)
        _, rights = self.right.rows.copy_into(arena, pool, moved, table.capacity)
        for side in self.sides:
            if side.debts is not None:
                side.debts.copy_into(arena, pool, moved, table.capacity)
        if self.settings.waits:
            there = np.flatnonzero(moved >= 0)
            due = arena.array("due", table.capacity, "i8")
            due[:] = AFTER_ALL
            due[moved[there]] = self.due[there]
        else:
            old = np.flatnonzero(lefts >= 0)
            # By match number: 0 stays 0, and any other becomes the new row's + 1.
            links = np.concatenate([np.zeros(1, np.int64), rights + 1])
            numbers = arena.array("matches", rows.rows.capacity, "i8")
            numbers[lefts[old]] = links[self.match_numbers[old]]
        arena.array("clock", 1, "i8")[:] = self.clock
        self.arena.adopt(arena)
        self._open(self.arena)
