"""The state of a join: its keys, and by key the rows of its inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from aggloom.runtime.operators.join.settings import JoinedSettings
from aggloom.runtime.operators.join.side import JoinSide
from aggloom.runtime.operators.join.side_kernels import add_distinct
from aggloom.runtime.operators.rows_by_key import RowState, StoredEntries, Stores
from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.state.row_bag import RowBag
from aggloom.runtime.storage.arena import Arena, Array, SlotArray
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.pool import Pool


class JoinState(RowState):
    """Keys, when each side of each was written, its rows.

    owed: of each side the rows that were retracted before they arrived, if that is remembered. directory: where the
    arena's arrays are mapped.
    """

    def __init__(self, settings: JoinedSettings, directory: Path | None = None) -> None:
        self.settings = settings
        self.fields = settings.key_fields
        self.keeps_debts = settings.on_orphan_retraction == "keep"
        self._mark = np.zeros(0, np.int8)
        self._open(Arena(directory))

    @property
    def entries(self) -> dict[str, StoredEntries]:
        """The things of which a key may have several, by name."""
        return {
            side.name: StoredEntries(
                len(side.bag),
                0,
                side.bag.rows.text_bytes,
                1 if side.settings.rows_per_key == "row" else None,
            )
            for side in self.sides
        }

    @property
    def stores(self) -> Stores:
        return self._bags()

    def count_slot_rows(self, slots: SlotArray) -> Array | None:
        """Return the number of rows of all inputs that each slot has."""
        total = np.zeros(self.table.capacity, np.float64)
        for side in self.sides:
            ids = side.bag.rows.live()
            theirs, counts = side.bag.index.arrays.slot[ids], side.bag.arrays.count[ids]
            total += np.bincount(theirs, weights=counts, minlength=len(total))
        return total[slots].astype(np.int64)

    def mask_unmatchable(self, slots: SlotArray) -> Array:
        """The slots, -1 where a NULL keeps a key from matching any."""
        strict = self.settings.strict
        if not strict or not len(slots):
            return slots
        nulls = self.table.index.arrays.nulls[slots]
        # In the type of the mask: NumPy would make a signed number of an unsigned one otherwise.
        never = (nulls & np.array(strict).astype(nulls.dtype)) != 0
        return np.where(never, -1, slots) if never.any() else slots

    def distinct(self, *parts: Array) -> Array:
        """The different slots of all parts, in the order in which they come."""
        if len(self._mark) < self.table.capacity:
            self._mark = np.zeros(self.table.capacity, np.int8)
        out = np.empty(min(sum(map(len, parts)), self.table.capacity), np.int64)
        count = 0
        for slots in parts:
            count = add_distinct(slots, self._mark, out, count)
        # Back to zeros, so that the next call need not clear as many marks as there are keys.
        self._mark[out[:count]] = 0
        return out[:count]

    def leave(self, touched: SlotArray) -> None:
        """Forget the keys among these that have nothing left, and give memory back."""
        empty = touched
        for bag in self._bags():
            # A debt alone keeps its key: the row that makes it good has to find it.
            empty = empty[~bag.holds(empty)]
        if len(empty):
            self.table.forget(empty)
            self._fit()
        self.pool.sweep()
        if self.table.is_airy or any(side.bag.is_airy for side in self.sides):
            self._compact()

    def forget(self, slots: SlotArray) -> None:
        """Remove keys with their rows, and give memory back."""
        for bag in self._bags():
            bag.empty(slots)
        self.leave(slots)

    def check_restored(self, audit: Audit, used: Array) -> None:
        """Raise StateCorruptError unless the parts of a snapshot fit each other; used: uint8[slots], 1: in use."""
        for bag in self._bags():
            bag.check_restored(audit, used)

    def _open(self, arena: Arena) -> None:
        self.arena, self.pool = arena, Pool(arena)
        names = self.settings.names
        stamps = tuple(name for name, ttl in zip(names, self.settings.ttls, strict=True) if ttl)
        self.table = KeyTable(arena, self.pool, self.fields, stamps)
        slots = self.table.capacity
        self.sides = tuple(
            JoinSide(arena, self.pool, name, side, slots)
            for name, side in zip(names, self.settings.sides, strict=True)
        )
        self.debts = tuple(
            (
                RowBag(arena, self.pool, f"{side.name}.debts", side.fields, slots)
                if self.keeps_debts
                else None
            )
            for side in self.sides
        )

    def _bags(self) -> list[RowBag]:
        return [side.bag for side in self.sides] + [each for each in self.debts if each is not None]

    def _fit(self) -> None:
        slots = self.table.capacity
        if len(self.sides[0].bag.arrays.head) != slots:
            for bag in self._bags():
                bag.reserve_slots(slots)

    def _compact(self) -> None:
        """Copy what is left into arrays of its size."""
        arena = Arena()
        pool = Pool(arena)
        table, moved = self.table.copy_into(arena, pool)
        for bag in self._bags():
            bag.copy_into(arena, pool, moved, table.capacity)
        self.arena.adopt(arena)
        self._open(self.arena)
