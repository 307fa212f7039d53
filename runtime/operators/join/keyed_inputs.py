"""The part that joins of two inputs and of many share: inputs by key, netted by row, and what each forgets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.base import InputBatch, StoredKeyState
from aggloom.runtime.operators.join.per_record import EncodedChanges
from aggloom.runtime.operators.join.settings import JoinedSettings
from aggloom.runtime.operators.join.side import Items, NetItems
from aggloom.runtime.operators.join.state import JoinState
from aggloom.runtime.operators.orphans import OrphanLedger
from aggloom.runtime.operators.rows_by_key import KeyedRows
from aggloom.runtime.operators.step import JoinStep
from aggloom.runtime.operators.steps import Rows, has_values
from aggloom.runtime.storage.arena import Array, SlotArray
from aggloom.runtime.values.changelog import is_retraction


class Joining(KeyedRows[JoinState], JoinStep):
    """One bucket's operator over several inputs, whose first columns are the key.

    A bundle of all inputs brings the net difference of the joined rows, and nothing for what did not change.
    """

    handler_class = None
    keeps_calls = "it has no calls"
    state_class: ClassVar[type[JoinState]] = JoinState
    spec: JoinedSettings

    def __init__(self, spec: JoinedSettings, directory: Path | None = None) -> None:
        self.spec, self.schema = spec, spec.result
        self.update_before = spec.update_before
        self.state = self.state_class(spec, directory)
        self.counters = {"rows": 0, "orphans_dropped": 0, "expired": 0, "emitted": 0}
        self.rebuild_derived()

    def contents(self) -> Rows:
        """The joined rows, each an insertion."""
        return self._read_joined(self.state.used_slots())

    def count_key_rows(self) -> Array:
        used = self.state.used_slots()
        rows = np.zeros(len(used), np.int64)
        for side in self.state.sides:
            for places, ids in side.bag.walk(used):
                np.add.at(rows, places, side.bag.arrays.count[ids])
        return rows

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        slots = self.state.table.find(key)
        if slots[0] < 0:
            return
        records = sum(
            int(side.bag.arrays.count[ids].sum())
            for side in self.state.sides
            for _, ids in side.bag.walk(slots)
        )
        stamps = [self.state.table.stamps(name) for name in self.state.table.stamp_names]
        written = max((int(each[slots[0]]) for each in stamps), default=0)
        rows = self._read_joined(slots)[0]
        for row in rows.to_pylist() if rows.num_columns else [{}] * rows.num_rows:
            yield StoredKeyState(None, None, records=records, written=written, results=row)

    def expire(self, now: int) -> None:
        """Forget the sides of keys that were written as long ago as they live."""
        if not any(self.spec.ttls):
            return
        used = self.state.used_slots()
        for which, slots in self._find_unwritten(now):
            self.state.sides[which].bag.empty(slots)
        self.state.leave(used)

    def _find_unwritten(self, now: int) -> Iterator[tuple[int, Array]]:
        """The slots of each side that were written as long ago as they live."""
        for which, (side, ttl) in enumerate(zip(self.state.sides, self.spec.ttls, strict=True)):
            if not ttl:
                continue
            used = self.state.used_slots()
            stamps = self.state.table.stamps(side.name)
            # A time that was not kept before begins now.
            stamps[used[stamps[used] == 0]] = now
            old = used[now >= stamps[used] + ttl]
            old = old[~side.is_empty(old)]
            if len(old):
                self.counters["expired"] += len(old)
                yield which, old

    def apply(self, inputs: Sequence[InputBatch], now: int) -> Rows:
        """Return the changes of the joined rows by changes of all inputs.

        Raises OrphanRetractionError (policy error), AggloomError for more joined rows than a bundle may bring.
        """
        changes_by_input = [
            self._encode_changes(which, bundle) for which, bundle in enumerate(inputs)
        ]
        touched = self.state.distinct(*(each.slots for each in changes_by_input))
        each = self.spec.per_record
        changes = (
            self._apply_each(changes_by_input, now)
            if each
            else self._apply_bundle(changes_by_input, touched, now)
        )
        self.state.leave(touched)
        return changes

    @abstractmethod
    def _apply_each(self, changes_by_input: Sequence[EncodedChanges], now: int) -> Rows:
        """Return the rows that each change by itself brings, those of an input before those of the next."""

    @abstractmethod
    def _apply_bundle(
        self, changes_by_input: Sequence[EncodedChanges], touched: Array, now: int
    ) -> Rows:
        """Return the rows that all changes together bring; touched: their slots."""

    @abstractmethod
    def _read_joined(self, slots: SlotArray) -> Rows:
        """All joined rows of slots, each an insertion."""

    def _store_changes(self, changes_by_input: Sequence[EncodedChanges], now: int) -> list[Items]:
        """Store the changes and return what they come to by row; rows that are gone have to be freed."""
        nets = [self._net(which, rows) for which, rows in enumerate(changes_by_input)]
        items = [side.store(net) for side, net in zip(self.state.sides, nets, strict=True)]
        for each, ttl, name in zip(changes_by_input, self.spec.ttls, self.spec.names, strict=True):
            if ttl:
                self.state.table.stamps(name)[each.slots] = now
        return items

    def _encode_changes(self, which: int, bundle: InputBatch) -> EncodedChanges:
        """Return the changes of a side that can matter."""
        side, batch, kinds = self.state.sides[which], bundle.batch, bundle.kinds
        side.check_kinds(kinds)
        keep = has_values(batch, self.spec.required_places(which))
        if not keep.all():
            batch, kinds = batch.filter(pa.array(keep)), kinds[keep]
        numbers = np.flatnonzero(keep)
        return EncodedChanges(self.state.lookup(batch), side.encode_rows(batch), kinds, numbers)

    def _ledger(self, which: int) -> OrphanLedger:
        """Return the ledger of the orphan retractions of an input."""
        return OrphanLedger(
            self.state.table,
            self.state.debts[which],
            policy=self.spec.on_orphan_retraction,
            counters=self.counters,
            source=self.spec.names[which],
        )

    def _net(self, which: int, changes: EncodedChanges) -> NetItems:
        """Return the net changes of a side; what they retract that is not there is dealt with."""
        side, ledger = self.state.sides[which], self._ledger(which)
        retracts = is_retraction(changes.kinds)
        left = ledger.cancel(changes.slots, retracts, changes.rows.take)
        if len(left) < len(changes.slots):
            changes, retracts = changes.some(left), retracts[left]
        net = side.net(changes.slots, changes.rows, retracts)
        orphans = net.orphans
        if not len(orphans):
            return net
        ledger.report(changes.numbers[orphans], changes.slots[orphans])
        if not ledger.keeps:
            return net
        # The row may come later in this bundle.
        early = np.zeros(len(changes.slots), np.bool_)
        early[orphans] = True
        # Orphans behind all others: each of them may find a row that arrived after it.
        order = np.concatenate([np.flatnonzero(~early), orphans])
        changes, retracts = changes.some(order), retracts[order]
        net = side.net(changes.slots, changes.rows, retracts)
        never = net.orphans
        if len(never):
            ledger.add(changes.slots[never], changes.rows.take(never))
        return net
