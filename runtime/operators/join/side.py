"""One side of a Join: its rows by key, and what a bundle changes of them, in the end and at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.errors import DataError
from aggloom.runtime.operators.join.settings import SideSettings
from aggloom.runtime.operators.join.side_kernels import follow, name_groups
from aggloom.runtime.state.row_bag import RowBag
from aggloom.runtime.state.row_kernels import Encoded
from aggloom.runtime.storage.arena import Arena, Array, FlagArray, SlotArray
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values.changelog import Kinds, is_retraction

_NOTHING = pa.field("", pa.int8())
"""The column that is stored of rows of which no column is read."""


class Items(NamedTuple):
    """Rows of a side that a bundle changes, no two of them the same row.

    By item its slot, the stored rows before and after (-1: none), and how often each is there.
    """

    slots: Array  # int64[items]
    old: Array  # int64[items]
    new: Array  # int64[items]
    before: Array  # int64[items]
    after: Array  # int64[items]

    def __len__(self) -> int:
        return len(self.slots)


class BundleItems(NamedTuple):
    """The changes of a bundle: by input its items, and whether each touched slot was empty before.

    slots: the touched ones.
    """

    items: Sequence[Items]
    slots: Array  # int64[slots]
    was_empty: Sequence[Array]  # bool[slots] of each input


class NetItems(NamedTuple):
    """The sum of a bundle before it is stored: as Items, but for `last`, the given row that arrives or -1."""

    rows: Encoded
    slots: Array  # int64[items]
    old: Array  # int64[items]
    last: Array  # int64[items]
    before: Array  # int64[items]
    after: Array  # int64[items]
    orphans: Array  # int64[orphans]


class JoinSide:
    """The rows of a side in an arena, created there or found there again. name: what its arrays are called by."""

    def __init__(
        self, arena: Arena, pool: Pool, name: str, settings: SideSettings, slots: int
    ) -> None:
        self.arena, self.name, self.settings = arena, name, settings
        self.fields = settings.fields or [_NOTHING]
        names = [field.name for field in self.fields]
        self.places = {each: number for number, each in enumerate(names)}
        known = [self.places[each] for each in settings.known or ()]
        self.learns_degrees = (
            settings.keeps_degrees
            and f"{name}.degree" in arena
            and not len(arena.array(f"{name}.degree", 0, "i4"))
        )
        if self.learns_degrees:
            arena.resize(f"{name}.degree", len(arena.array(f"{name}.count", 0, "i4")))
        self.bag = RowBag(
            arena,
            pool,
            name,
            self.fields,
            slots,
            unique=known,
            degrees=settings.keeps_degrees,
            single=settings.rows_per_key == "row",
            only_added=settings.rows_per_key == "list",
        )

    def encode_rows(self, batch: pa.RecordBatch) -> Encoded:
        """The stored columns of rows, encoded."""
        if not self.settings.kept:
            nothing = pa.array(np.zeros(batch.num_rows, np.int8))
            return self.bag.rows.encode(pa.RecordBatch.from_arrays([nothing], names=[""]))
        return self.bag.rows.encode(batch.select(list(self.settings.kept)))

    def net(self, slots: SlotArray, rows: Encoded, retracts: FlagArray) -> NetItems:
        """Return what changes come to, one after another as they stand; nothing is stored yet."""
        bag, n = self.bag, len(slots)
        if bag.only_added:
            none, one = np.zeros(n, np.int64), np.ones(n, np.int64)
            return NetItems(
                rows, slots, none - 1, last=np.arange(n), before=none, after=one, orphans=none[:0]
            )
        groups, firsts, hashes = (np.empty(n, np.int64) for _ in range(3))
        table = np.zeros(1 << max(4, int(2 * n - 1).bit_length()), np.int32)
        identity = bag.index.identity
        count = name_groups(
            slots, rows, identity, table=table, hashes=hashes, groups=groups, firsts=firsts
        )
        firsts = firsts[:count]
        # If no two changes are about one row, the changes themselves are the items.
        theirs = slots if count == n else slots[firsts]
        some = rows if count == n else rows.take(firsts)
        # As it was before the bundle: nothing is stored before all of it has been summed up.
        old = bag.find_encoded(theirs, some)
        there = old >= 0
        before = np.where(there, bag.arrays.count[np.where(there, old, 0)], 0).astype(np.int64)
        after, last = before.copy(), np.full(count, -1, np.int64)
        orphans = np.empty(n, np.int64)
        stray = follow(groups, retracts, bag.replaces, after, last, orphans)
        changed = before != after
        if bag.replaces:
            both = np.flatnonzero((before > 0) & (after > 0) & (last >= 0))
            # A row that another like it replaced has not changed for anybody.
            changed[both] = ~bag.rows.equal(old[both], rows, last[both])
        elif len(rows.words):
            # A row that is gone in the end is not stored at all.
            last[after == 0] = -1
        if not changed.all():
            theirs, old, last = theirs[changed], old[changed], last[changed]
            before, after = before[changed], after[changed]
        return NetItems(
            rows, theirs, old, last=last, before=before, after=after, orphans=orphans[:stray]
        )

    def check_kinds(self, kinds: Kinds) -> None:
        """Raise DataError where a row is retracted of an input to which rows are only added."""
        retracts = is_retraction(kinds)
        if self.bag.only_added and retracts.any():
            raise DataError(
                f"row {int(np.argmax(retracts))} of the {self.name} input retracts a row; the plan says that rows "
                "are only added to it"
            )

    def store(self, net: NetItems) -> Items:
        """Store what a bundle comes to. The rows that are gone stay readable until they are freed."""
        bag = self.bag
        new = np.where(net.after > 0, net.old, -1)
        gone = (net.old >= 0) & (net.after == 0)
        if gone.any():
            # Before the new rows: one of them may have the identity of a row that goes.
            bag.take(net.old[gone])
        fresh = net.after > 0 if bag.replaces else (net.after > 0) & (net.before == 0)
        comes = np.flatnonzero(fresh)
        if len(comes):
            # Rows that are only added all come, in order.
            rows = net.rows if bag.only_added else net.rows.take(net.last[comes])
            applied = bag.apply_encoded(net.slots[comes], rows, np.zeros(len(comes), np.bool_))
            new[comes] = applied.ids
        if not bag.replaces:
            there = new >= 0
            bag.arrays.count[new[there]] = net.after[there]
        return Items(net.slots, net.old, new, net.before, net.after)

    def free(self, items: Items) -> None:
        """Forget the rows that are gone."""
        gone = items.old[(items.old >= 0) & (items.old != items.new)]
        if len(gone):
            self.bag.free(gone)

    def is_empty(self, slots: SlotArray) -> Array:
        """Tell whether each slot has no row; one of -1 has none."""
        return ~self.bag.holds(slots)

    def all_of(self, slots: SlotArray) -> Items:
        """All rows of slots, as if they had just come."""
        chunks = list(self.bag.walk(slots))
        none = np.zeros(0, np.int64)
        positions = np.concatenate([none, *(each for each, _ in chunks)])
        ids = np.concatenate([none, *(each for _, each in chunks)])
        counts = self.bag.arrays.count[ids].astype(np.int64)
        absent = np.full(len(ids), -1, np.int64)
        return Items(slots[positions], absent, ids, np.zeros(len(ids), np.int64), counts)
