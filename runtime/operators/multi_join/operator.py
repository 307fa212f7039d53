"""MultiJoin: rows of several changing tables that share one key, in a chain of INNER and LEFT joins."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.join.keyed_inputs import Joining
from aggloom.runtime.operators.join.matches import TooManyMatches, match_limit_error
from aggloom.runtime.operators.join.output import JoinOutput
from aggloom.runtime.operators.join.per_record import EncodedChanges, ranks
from aggloom.runtime.operators.join.side import BundleItems
from aggloom.runtime.operators.multi_join.deltas import Combined, Deltas
from aggloom.runtime.operators.multi_join.settings import MultiJoinSettings
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.storage.arena import Array, SlotArray
from aggloom.runtime.values.changelog import DELETE, INSERT, UPDATE_BEFORE, Kinds, is_retraction


class MultiJoinOperator(Joining):
    """A chain of joins on one key, of which it remembers the rows of the inputs only. See MultiJoinSettings."""

    spec: MultiJoinSettings

    def rebuild_derived(self) -> None:
        self._deltas = Deltas(self.spec, self.state)
        self._output = JoinOutput(self.spec, self.state)

    @property
    def name(self) -> str:
        words = ["left" if step.padded else "inner" for step in self.spec.steps]
        return (
            f"multi join ({', '.join(words)}) on {', '.join(f.name for f in self.spec.key_fields)}"
        )

    def _apply_bundle(
        self, changes_by_input: Sequence[EncodedChanges], touched: SlotArray, now: int
    ) -> Rows:
        changed = self._store_bundle(changes_by_input, touched, now)
        changes = self._output.net(self._find_deltas(changed))
        self._free(changed)
        return changes

    def _apply_each(self, changes_by_input: Sequence[EncodedChanges], now: int) -> Rows:
        """Each change is a bundle of its own; those of different keys are taken at once."""
        starts = np.cumsum([0, *(len(each.slots) for each in changes_by_input)])
        slots = np.concatenate([each.slots for each in changes_by_input])
        kinds = np.concatenate([each.kinds for each in changes_by_input])
        rank = ranks(slots, np.zeros(len(slots), np.bool_))
        order = np.argsort(rank, kind="stable")
        batches, all_kinds, numbers = [no_rows(self.schema)[0]], [kinds[:0]], [order[:0]]
        for round_places in np.split(order, np.flatnonzero(np.diff(rank[order])) + 1):
            if not len(round_places):
                continue
            some = [
                each.some(round_places[(round_places >= start) & (round_places < end)] - start)
                for each, (start, end) in zip(changes_by_input, pairwise(starts), strict=True)
            ]
            # Each slot has one change.
            changed = self._store_bundle(some, slots[round_places], now)
            rows = self._output.cancel_rows(self._find_deltas(changed))
            # By key, what goes before what comes.
            rows = rows.some(np.lexsort((rows.weight > 0, rows.places)))
            each = round_places[rows.places]
            batch, kind = self._output.build_changes(rows, self._kinds(rows, kinds[each]))
            batches.append(batch)
            all_kinds.append(kind)
            numbers.append(np.repeat(each, np.abs(rows.weight)))
            self._free(changed)
        # Back in the order of the changes that brought them: stable, so that those of one stay together as they are.
        every = np.argsort(np.concatenate(numbers), kind="stable")
        table = pa.Table.from_batches(batches).combine_chunks().take(pa.array(every))
        (batch,) = table.combine_chunks().to_batches() or [no_rows(self.schema)[0]]
        return batch, np.concatenate(all_kinds)[every]

    def _kinds(self, rows: Combined, change_kinds: Kinds) -> Kinds:
        """Return the kind with which each joined row is emitted, beside the kind of the change that it comes from."""
        comes = rows.weight > 0
        kinds = np.where(comes, INSERT, DELETE).astype(np.int8)
        if not any(step.padded for step in self.spec.steps):
            # A row that another takes the place of goes without a change of its own.
            own = comes != is_retraction(change_kinds)
            kinds = np.where(own, change_kinds, kinds)
        if not self.update_before:
            # Whether a new half comes for it is not known yet.
            kinds = np.where(kinds == UPDATE_BEFORE, DELETE, kinds)
        return kinds.astype(np.int8)

    def _store_bundle(
        self, changes_by_input: Sequence[EncodedChanges], touched: Array, now: int
    ) -> BundleItems:
        was_empty = [side.is_empty(touched) for side in self.state.sides]
        return BundleItems(self._store_changes(changes_by_input, now), touched, was_empty)

    def _free(self, changed: BundleItems) -> None:
        for side, items in zip(self.state.sides, changed.items, strict=True):
            side.free(items)

    def _find_deltas(self, changed: BundleItems) -> Combined:
        try:
            return self._deltas.changes(changed, self.spec.match_limit)
        except TooManyMatches as many:
            place = self.state.table.place(int(many.args[0]))
            raise match_limit_error(place, self.spec.match_limit) from None

    def _read_joined(self, slots: SlotArray) -> Rows:
        rows = self._deltas.all_of(slots)
        return self._output.build_changes(rows, np.full(len(rows.weight), INSERT, np.int8))
