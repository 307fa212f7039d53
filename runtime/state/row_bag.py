"""The row bag: the rows of a slot as a multiset, each with a count and, if wanted, a degree.

A row is known by its identity: the columns of a unique key, or all columns. Equal rows are one row with a count. The
rows of a slot hang in a chain, newest first, so that a row comes and goes in O(1) and a slot is walked in O(its rows).
Rows that left stay readable until they are freed, so that removed rows can be distinguished from new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from aggloom.runtime.state.bag_kernels import (
    ADDED_ROWS,
    INDEXED_ROWS,
    ONE_ROW,
    BagArrays,
    apply_changes,
    check_chains,
    take_rows,
    walk_slots,
)
from aggloom.runtime.state.identified_rows import IdentifiedRows
from aggloom.runtime.state.row_index import BLOCK, Applied
from aggloom.runtime.state.row_kernels import Encoded
from aggloom.runtime.storage.arena import Arena, Array, FlagArray, RowIdArray, SlotArray
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.pool import Pool


class RowBag(IdentifiedRows):
    """The rows of slots in an arena, created there or found there again.

    name: what its arrays are called by. slots: how many there are. unique: numbers of the columns of a unique key, of
    which a slot holds one row at most, the last to arrive; without them the whole row is its identity. single: a slot
    holds one row at most, whatever it is. only_added: rows are not retracted, so that each stands for itself and none
    is looked for.
    degrees: whether each row has a number beside its count, 0 at first: how many rows it matches, say.
    """

    def __init__(
        self,
        arena: Arena,
        pool: Pool,
        name: str,
        fields: Sequence[pa.Field],
        slots: int,
        *,
        unique: Sequence[int] = (),
        degrees: bool = False,
        single: bool = False,
        only_added: bool = False,
    ) -> None:
        super().__init__(arena, pool, name, fields, unique, single=single, only_added=only_added)
        self.keeps_degrees = degrees
        for part in ("count", "after", "before"):
            arena.array(f"{name}.{part}", self.rows.capacity, "i4")
        arena.array(f"{name}.degree", self.rows.capacity if degrees else 0, "i4")
        arena.array(f"{name}.head", slots, "i4")
        self._reload()

    def __len__(self) -> int:
        """Distinct rows in all slots, those that are gone and not freed included."""
        return len(self.rows)

    def check_restored(self, audit: Audit, used: Array) -> None:
        """Raise StateCorruptError unless the arrays of a snapshot are bags; used: uint8[slots], 1 for one in use."""
        bag, name, rows = self.arrays, self.name, self.rows
        self.rows.check_restored(audit)
        audit.require_length(rows.capacity, name, bag.count, bag.after, bag.before)
        audit.require_length(rows.capacity if self.keeps_degrees else 0, name, bag.degree)
        audit.require_length(len(used), name, bag.head)
        self.index.check_restored(audit, rows, len(rows) if self.is_indexed else 0, used)
        marks = np.zeros(rows.capacity, np.uint8)
        right = check_chains(bag, rows.arrays, self.index.arrays, self.single, marks)
        audit.require(right, name, "its chains do not lead over its rows once")

    @property
    def _mode(self) -> int:
        """The way in which kernels find a row: ONE_ROW, ADDED_ROWS or INDEXED_ROWS."""
        if self.single:
            return ONE_ROW
        return ADDED_ROWS if self.only_added else INDEXED_ROWS

    @property
    def is_airy(self) -> bool:
        """True if copying the rows that are left would give much memory back."""
        return self.rows.is_airy

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes in arrays that are full, without those of its texts."""
        # A count and two links, the slot, a cell of a table that is two thirds full, the degree.
        return self.rows.row_bytes + 12 + 4 + 12 * self.is_indexed + 4 * self.keeps_degrees

    def apply(self, slots: SlotArray, batch: pa.RecordBatch, retracts: FlagArray) -> Applied:
        """Add rows to their slots or retract them, one after another as they are in the batch.

        A row whose unique key is there replaces that row and has its degree. Rows that are gone have to be freed.
        """
        return self.apply_encoded(slots, self.rows.encode(batch), retracts)

    def apply_encoded(self, slots: SlotArray, batch: Encoded, retracts: FlagArray) -> Applied:
        """Apply rows that were encoded."""
        n = len(slots)
        applied = Applied.of(n)
        row = 0
        while row < n:
            row = apply_changes(
                self.arrays,
                self.rows.arrays,
                self.index.arrays,
                self.replaces,
                mode=self._mode,
                slots=slots,
                batch=batch,
                retracts=retracts,
                applied=applied,
                start=row,
                ahead=self.index.ahead,
            )
            if row < n:
                # Room for one block, not for all the rest: rows that are known, or retracted, need none.
                self._reserve(batch, row, min(n, row + BLOCK))
        return applied

    def find_encoded(self, slots: SlotArray, batch: Encoded) -> Array:
        if self.single:
            return self.arrays.head[slots].astype(np.int64) - 1
        return super().find_encoded(slots, batch)

    def insert(self, slots: SlotArray, batch: pa.RecordBatch) -> Applied:
        """Add rows to their slots."""
        return self.apply(slots, batch, np.zeros(len(slots), np.bool_))

    def remove(self, slots: SlotArray, batch: pa.RecordBatch) -> Applied:
        """Take rows back from their slots."""
        return self.apply(slots, batch, np.ones(len(slots), np.bool_))

    def take(self, ids: RowIdArray) -> None:
        """Take distinct rows out whatever their counts; they have to be freed."""
        take_rows(self.arrays, self.rows.arrays, self.index.arrays, self.is_indexed, ids)

    def walk(self, slots: SlotArray, limit: int = 1 << 16) -> Iterator[tuple[Array, Array]]:
        """All rows of slots, as (position in `slots`, id) pairs, at most `limit` at a time; a slot of -1 has none.

        Nothing may be added or taken out between one chunk and the next.
        """
        cursor = np.zeros(2, np.int64)
        while cursor[0] < len(slots):
            positions, ids = np.empty(limit, np.int64), np.empty(limit, np.int64)
            pairs = walk_slots(self.arrays, slots, cursor, positions, ids)
            if pairs:
                yield positions[:pairs], ids[:pairs]

    def holds(self, slots: SlotArray) -> Array:
        """Return a mask of the slots that have a row."""
        # A slot of -1 reads the head of the last one, which the second half of the mask takes out again.
        return np.asarray((self.arrays.head[slots] != 0) & (slots >= 0))

    def empty(self, slots: SlotArray) -> None:
        """Forget all rows of slots."""
        # All pairs first: nothing may be taken out during a walk.
        for _, ids in list(self.walk(slots)):
            self.take(ids)
            self.free(ids)

    def counts(self, ids: RowIdArray) -> Array:
        """Return the count of each row: how often it is there."""
        return self.arrays.count[ids]

    def degrees(self, ids: RowIdArray) -> Array:
        """The degree of each row."""
        return self.arrays.degree[ids]

    def reserve_slots(self, slots: int) -> None:
        """Have so many slots; those beyond hold no row."""
        self.arena.resize(f"{self.name}.head", slots)
        self._reload()

    def copy_into(
        self, arena: Arena, pool: Pool, moved_slots: SlotArray, slots: int
    ) -> tuple[RowBag, Array]:
        """Copy what is left into another arena: the new bag, and by old id the new one, -1 where there was no row.

        moved_slots: by old slot the new one or -1. slots: how many new ones there are. Rows that are gone were freed.
        """
        ids = self.rows.live()
        _, moved = self.rows.copy_into(arena)
        new = RowBag(
            arena,
            pool,
            self.name,
            list(self.rows.schema),
            slots,
            unique=self.unique,
            degrees=self.keeps_degrees,
            single=self.single,
            only_added=self.only_added,
        )
        # The rows are stored already: only what is beside them has to grow.
        new._make_room(0)
        # By link, which is an id + 1.
        links = np.concatenate([np.zeros(1, np.int64), moved + 1])
        now, old = moved[ids], self.arrays
        new.arrays.count[now] = old.count[ids]
        new.arrays.after[now], new.arrays.before[now] = (
            links[old.after[ids]],
            links[old.before[ids]],
        )
        if self.keeps_degrees:
            new.arrays.degree[now] = old.degree[ids]
        still_used = np.flatnonzero(moved_slots >= 0)
        new.arrays.head[moved_slots[still_used]] = links[old.head[still_used]]
        new.index.arrays.slot[now] = moved_slots[self.index.arrays.slot[ids]]
        if self.is_indexed:
            new.index.enter(new.rows.arrays, now)
        return new, moved

    def _fit(self) -> None:
        parts = ("count", "after", "before", "degree")[: 4 if self.keeps_degrees else 3]
        if len(self.arrays.count) != self.rows.capacity:
            for part in parts:
                self.arena.resize(f"{self.name}.{part}", self.rows.capacity)
            self._reload()
        self.index.reserve(0, self.rows.capacity)

    def _reload(self) -> None:
        self.arrays = BagArrays(
            *(self.arena.array(f"{self.name}.{n}", 0, "i4") for n in BagArrays._fields)
        )
