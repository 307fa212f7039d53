"""Sorted rows: the rows of a slot in the order of a sort key, and of their arrival among those with the same one.

Every row stands for itself, with an id of its own: equal rows may lie apart, with others between them. Rank,
dense rank, the row at a position, insertion and removal are O(log rows of the slot); positions a to b are gathered in
O(b - a). Rows that left stay readable until they are freed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from aggloom.runtime.state.identified_rows import IdentifiedRows
from aggloom.runtime.state.order_tree import DEPTH
from aggloom.runtime.state.row_index import BLOCK, Applied
from aggloom.runtime.state.sort_key import SortColumn, SortKeyEncoder
from aggloom.runtime.state.sorted_audit import check_places, check_rings
from aggloom.runtime.state.sorted_kernels import (
    Places,
    SortedArrays,
    SortedChanges,
    Where,
    apply_changes,
    collect_rows,
    count_before,
    locate_positions,
    locate_rows,
    measure_slots,
    plant_rows,
    start_keys,
    take_rows,
)
from aggloom.runtime.storage.arena import (
    Arena,
    Array,
    FlagArray,
    NumberArray,
    RowIdArray,
    SlotArray,
    WordArray,
)
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.blocks import STAMP, WEIGHED
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.storage.tree import TreeView

_BY_ID = (("word", "i8"), ("arrival", "i8"), ("newer", "i4"), ("older", "i4"))


class SortedRows(IdentifiedRows):
    """The rows of slots in an arena, created there or found there again.

    name: what its arrays are called by. order: the sort key; without columns rows are in arrival order. slots: their
    number. unique: numbers of the columns of a unique key, of which a slot holds one row at most, the last to arrive;
    without them the whole row is its identity, and equal rows are adjacent. only_added: rows are retracted by id only.
    """

    def __init__(
        self,
        arena: Arena,
        pool: Pool,
        name: str,
        fields: Sequence[pa.Field],
        order: Sequence[SortColumn],
        slots: int,
        *,
        unique: Sequence[int] = (),
        only_added: bool = False,
    ) -> None:
        super().__init__(arena, pool, name, fields, unique, only_added=only_added)
        self.key = SortKeyEncoder(fields, order)
        self.tree = TreeView(arena, f"{name}.order", slots, 3)
        self.tree.arrays.meta[WEIGHED] = 1
        self.tree.weighed = True
        for part, dtype in _BY_ID:
            arena.array(f"{name}.{part}", self.rows.capacity, dtype)
        self._path = np.empty(DEPTH, np.int64)
        self._reload()

    def __len__(self) -> int:
        """Rows in all slots, those that are gone and not freed included."""
        return len(self.rows)

    def check_restored(self, audit: Audit, used: Array) -> None:
        """Raise StateCorruptError unless the arrays of a snapshot are rows in order; used: uint8[slots], 1: in use."""
        name, by_bytes = self.name, self.key.by_bytes
        self.rows.check_restored(audit)
        audit.require_length(self.rows.capacity, name, *self.arrays)
        entries = self.tree.check_restored(audit, len(used), by_bytes, by_bytes, by_arrival=True)
        audit.require_length(self.rows.capacity, name, self.index.arrays.slot)
        marks = np.zeros(self.rows.capacity, np.uint8)
        right = check_places(self.arrays, self._where, entries, marks)
        audit.require(right, name, "its order does not lead over its rows once")
        rings = 0
        if self.is_indexed:
            rings = check_rings(self.arrays, self._where, bool(self.unique), marks)
        audit.require(rings >= 0, name, "equal rows do not lead to each other")
        self.index.check_restored(audit, self.rows, rings, used)

    @property
    def is_airy(self) -> bool:
        """True if copying the rows that are left would give much memory back."""
        return self.rows.is_airy or self.tree.is_airy

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes in full arrays and blocks that are three quarters full, without its texts."""
        # Word, arrival and ring, the slot, a cell of the index, and an entry of four numbers in the tree.
        return self.rows.row_bytes + 24 + 4 + 12 * self.is_indexed + 32 * 4 // 3

    def apply(
        self,
        slots: SlotArray,
        batch: pa.RecordBatch,
        retracts: FlagArray,
        *,
        latest: bool = False,
        order: NumberArray | None = None,
    ) -> Applied:
        """Add rows to their slots or retract them, one after another as they are in the batch.

        order: their places in the batch, if they come in another order; a row of words costs less to move than texts.
        latest: whether the last of equal rows is retracted, not the first. A row whose unique key is there replaces
        that row; with another sort key it arrives anew. Rows that are gone have to be freed.
        """
        rows = self.rows.encode(batch)
        words, tiers = self.key.words(batch, self.pool)
        if order is not None:
            rows = rows.take(order)
            words, tiers = words[order], tiers[order]
        changes = SortedChanges(slots, rows, words, tiers, retracts)
        n = len(slots)
        applied, row = Applied.of(n), 0
        while row < n:
            stop = row + min(BLOCK, max(self.tree.affordable(n - row), 1))
            # An edge of a block may be split off again and again.
            self.tree.reserve(2 * (stop - row))
            row = apply_changes(
                self.arrays,
                self._where,
                self.pool.arrays,
                self._flags,
                latest,
                changes=changes,
                applied=applied,
                start=row,
                stop=stop,
                ahead=self.index.ahead,
                path=self._path,
            )
            if row < stop:
                self._reserve(rows, row, stop)
        return applied

    def insert(
        self, slots: SlotArray, batch: pa.RecordBatch, order: NumberArray | None = None
    ) -> Applied:
        """Add rows to their slots; order: as in apply."""
        return self.apply(slots, batch, np.zeros(len(slots), np.bool_), order=order)

    def remove(self, slots: SlotArray, batch: pa.RecordBatch) -> Applied:
        """Take rows back from their slots."""
        return self.apply(slots, batch, np.ones(len(slots), np.bool_))

    def take(self, ids: RowIdArray) -> None:
        """Take rows out; they have to be freed."""
        for start in range(0, len(ids), BLOCK):
            some = ids[start : start + BLOCK]
            # What shrinks has a smaller block before it gives its own back.
            self.tree.reserve(len(some))
            take_rows(
                self.arrays, self._where, self.pool.arrays, self._flags, some, path=self._path
            )

    def places(self, ids: RowIdArray) -> Places:
        """Return the places, in their slots, of rows that are there."""
        n = len(ids)
        places = Places(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64))
        locate_rows(self.arrays, self._where, self.pool.arrays, self.key.by_bytes, ids, places)
        return places

    def positions(self, ids: RowIdArray) -> Array:
        """Return the `places` of rows, as positions alone."""
        out, by_bytes = np.empty(len(ids), np.int64), self.key.by_bytes
        locate_positions(self.arrays, self._where, self.pool.arrays, by_bytes, ids, out)
        return out

    def sizes(self, slots: SlotArray) -> tuple[Array, Array]:
        """(rows, distinct sort keys) of each slot; a slot of -1 has none."""
        rows, keys = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
        measure_slots(self.tree.arrays, slots, rows, keys)
        return rows, keys

    def before(
        self, slots: SlotArray, words: WordArray, tiers: NumberArray, *, equals: bool
    ) -> Array:
        """Return the number of rows of each slot before a sort key (see SortKeyEncoder.words); `equals`: or with it."""
        out, tree = np.empty(len(slots), np.int64), self.tree.arrays
        count_before(
            tree, self.pool.arrays, self.key.by_bytes, slots, words, tiers, equals=equals, out=out
        )
        return out

    def key_starts(self, slots: SlotArray, keys: NumberArray) -> Array:
        """The position of the first row of distinct sort key number `keys`, from 0 on; without one, of the end."""
        out = np.empty(len(slots), np.int64)
        start_keys(self.tree.arrays, slots, keys, out)
        return out

    def collect_between(
        self, slots: SlotArray, starts: NumberArray, stops: NumberArray
    ) -> tuple[Array, Array]:
        """The rows from position `starts` to below `stops` of each slot, in order: (number in `slots`, id) of each."""
        sizes, _ = self.sizes(slots)
        starts = np.maximum(starts, 0)
        return self.collect_within(slots, starts, np.maximum(np.minimum(stops, sizes), starts))

    def collect_within(
        self, slots: SlotArray, starts: NumberArray, stops: NumberArray
    ) -> tuple[Array, Array]:
        """Collect the rows like `collect_between`, from positions that are all there."""
        lengths = stops - starts
        total = int(lengths.sum())
        positions, ids = np.empty(total, np.int64), np.empty(total, np.int64)
        collect_rows(self.tree.arrays, slots, starts, lengths, positions, ids)
        return positions, ids

    def first(self, slots: SlotArray, rows: int) -> tuple[Array, Array]:
        """The first rows of each slot, in order: (number in `slots`, id) of each."""
        none = np.zeros(len(slots), np.int64)
        return self.collect_between(slots, none, none + rows)

    def reserve_slots(self, slots: int) -> None:
        """Have so many slots; those beyond hold no row."""
        self.tree.reserve_slots(slots)
        self._reload()

    def trim(self) -> None:
        """Give back the room that no row has used yet."""
        super().trim()
        self.tree.trim()

    def copy_into(
        self, arena: Arena, pool: Pool, moved_slots: SlotArray, slots: int
    ) -> tuple[SortedRows, Array]:
        """Copy what is left into another arena: the new rows, and by old id the new one, -1 where there was no row.

        moved_slots: by old slot the new one or -1. slots: how many new ones there are. Rows that are gone were freed.
        """
        ids = self.rows.live()
        _, moved = self.rows.copy_into(arena)
        fields, order = list(self.rows.schema), self.key.columns
        new = SortedRows(
            arena,
            pool,
            self.name,
            fields,
            order,
            slots,
            unique=self.unique,
            only_added=self.only_added,
        )
        new._make_room(0)
        now, old = moved[ids], self.arrays
        words = old.word[ids]
        if self.key.by_bytes:
            pool.reserve_import(self.pool)
            words = pool.import_ids(self.pool, words)
        new.arrays.word[now] = words
        new.arrays.arrival[now] = old.arrival[ids]
        # Rings hold ids, not links: a row without equals is its own neighbour.
        new.arrays.newer[now] = moved[old.newer[ids]]
        new.arrays.older[now] = moved[old.older[ids]]
        new.index.arrays.slot[now] = moved_slots[self.index.arrays.slot[ids]]
        if self.is_indexed:
            new.index.enter(new.rows.arrays, moved[self.index.collect_ids()])
        # Stamps continue from there: rows that arrive later follow all that are copied.
        new.tree.arrays.meta[STAMP] = self.tree.arrays.meta[STAMP]
        # In order, since rows that come in their order leave full blocks behind.
        new._plant(moved[self._in_order()])
        return new, moved

    @property
    def _flags(self) -> tuple[bool, bool, bool]:
        """(words are bytes, identities are unique, the index names rows), as kernels take them."""
        return self.key.by_bytes, bool(self.unique), self.is_indexed

    @property
    def _where(self) -> Where:
        return Where(self.rows.arrays, self.index.arrays, self.tree.arrays)

    def _in_order(self) -> Array:
        """The ids of all rows, slot by slot in order."""
        slots = np.flatnonzero(self.tree.arrays.root).astype(np.int64)
        return self.collect_between(slots, np.zeros(len(slots), np.int64), self.sizes(slots)[0])[1]

    def _plant(self, ids: RowIdArray) -> None:
        """Enter rows into an empty tree."""
        for start in range(0, len(ids), BLOCK):
            some = ids[start : start + BLOCK]
            self.tree.reserve(2 * len(some))
            path, by_bytes = self._path, self.key.by_bytes
            plant_rows(self.arrays, self._where, self.pool.arrays, by_bytes, some, path)

    def _fit(self) -> None:
        if len(self.arrays.word) != self.rows.capacity:
            for part, _ in _BY_ID:
                self.arena.resize(f"{self.name}.{part}", self.rows.capacity)
            self._reload()
        self.index.reserve(0, self.rows.capacity)

    def _shrink(self) -> None:
        super()._shrink()
        self.tree.shrink()

    def _reload(self) -> None:
        self.arrays = SortedArrays(
            *(self.arena.array(f"{self.name}.{n}", 0, "i8") for n in SortedArrays._fields)
        )
