"""ASOF JOIN over changes of both sides: a row of the right that comes or goes corrects the rows that used it.

A bundle is brought into the sorted rows of its keys. The new rows of the left are looked at, and those from
a time of the right that was touched to the next one; what differs from what was emitted for them is emitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from aggloom.runtime.operators.as_of.base import AsOfOperator, filter_rows
from aggloom.runtime.operators.as_of.side import AsOfSide
from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.operators.join.matches import Weighted
from aggloom.runtime.operators.orphans import OrphanLedger
from aggloom.runtime.operators.record_rounds import run_in_rounds
from aggloom.runtime.operators.row_changes import SlotChanges, apply_changes
from aggloom.runtime.operators.step import JoinStep
from aggloom.runtime.operators.steps import Rows, concat_changes, has_values, no_rows
from aggloom.runtime.storage.arena import Array, NumberArray, SlotArray
from aggloom.runtime.values.changelog import Kinds, is_retraction

_NONE = np.zeros(0, np.int64)


class SideChanges(NamedTuple):
    """The rows of a side that a bundle inserts, those that it removes, and the slots of both."""

    inserted: Array = _NONE  # int64[inserted]
    gone: Array = _NONE  # int64[gone]
    inserted_slots: Array = _NONE  # int64[inserted]
    gone_slots: Array = _NONE  # int64[gone]


class NearestOperator(AsOfOperator, JoinStep):
    """An operator over rows that come and go; a bundle brings the net difference of the joined rows."""

    def rebuild_derived(self) -> None:
        super().rebuild_derived()
        self.counters.setdefault("orphans_dropped", 0)
        self._gone: tuple[Array, Array] = (_NONE, _NONE)
        self._passing: list[tuple[AsOfSide, Array]] = []

    def expire(self, now: int) -> None:
        self._expire(now)

    def apply(self, inputs: Sequence[InputBatch], now: int) -> Rows:
        """Take changes of both inputs; raises OrphanRetractionError (policy error)."""
        left, right = (self._encode_changes(which, each) for which, each in enumerate(inputs))
        touched = np.unique(np.concatenate([left.slots, right.slots]))
        self.state.table.stamps("written")[touched] = now
        if self.spec.per_record:
            changes = concat_changes(
                [self._one_by_one(0, left), self._one_by_one(1, right)], self.schema
            )
        else:
            changes = self._output.build_changes(*self._bundle(left, right))
            self._free()
        self.state.leave(touched)
        self.state.tidy()
        return changes

    def _encode_changes(self, which: int, bundle: InputBatch) -> SlotChanges:
        """Return the changes of a side that can matter, with the columns that are stored."""
        side, batch = self.state.sides[which], bundle.batch
        keep = self._is_matchable(which, batch)
        if which == 1 or self.spec.how == "inner":
            keep &= has_values(batch, [self.spec.times[which]])
        batch, kinds = filter_rows(batch, bundle.kinds, keep)
        slots, rows = self.state.lookup(batch), side.select_stored(batch)
        return SlotChanges(rows, slots, is_retraction(kinds), np.flatnonzero(keep))

    def _one_by_one(self, which: int, changes_of_side: SlotChanges) -> Rows:
        """Each change by itself; those of different keys at once."""
        if not len(changes_of_side.slots):
            return no_rows(self.schema)
        none = changes_of_side.some(_NONE)

        def bundle(rows: NumberArray) -> tuple[Rows, Array]:
            some = changes_of_side.some(rows)
            joined_rows, kinds = self._bundle(*((some, none) if which == 0 else (none, some)))
            # A slot has one change at a time here: it is the one that a joined row comes from.
            by_slot = np.zeros(self.state.table.capacity, np.int64)
            by_slot[some.slots] = rows
            # Equal rows are emitted together.
            lefts = np.repeat(joined_rows.left, np.abs(joined_rows.weight))
            sources = by_slot[self.state.left.slots_of(lefts)]
            changes = self._output.build_changes(joined_rows, kinds)
            self._free()
            return changes, sources

        return run_in_rounds(changes_of_side.slots, bundle)

    def _bundle(self, left: SlotChanges, right: SlotChanges) -> tuple[Weighted, Kinds]:
        """Return the changes that a bundle of both sides causes; rows that are gone are readable until `_free`."""
        lefts = self._apply_changes(self.state.left, left)
        rights = self._apply_changes(self.state.right, right)
        self.state.fit_rows()
        numbers = self.state.match_numbers
        inserted = np.zeros(len(numbers), np.bool_)
        inserted[lefts.inserted] = True
        # Inserted rows, and rows that may find another one now.
        looked = np.unique(np.concatenate([lefts.inserted, self._find_reached_rows(rights)]))
        old, new, fresh = numbers[looked] - 1, self._nearest(looked), inserted[looked]
        differs = fresh | (old != new)
        looked, old, new, fresh = looked[differs], old[differs], new[differs], fresh[differs]
        stay = ~fresh
        went = numbers[lefts.gone] - 1
        parts = [(lefts.gone, went, -1), (looked[stay], old[stay], -1), (looked, new, 1)]
        # Numbers are one higher than ids: 0, as new arrays have it, says that a row finds none.
        numbers[looked] = new + 1
        self._gone = lefts.gone, rights.gone
        return self._output.find_changes(Weighted.of([self._pair_rows(*part) for part in parts]))

    def _pair_rows(self, left: Array, right: Array, weight: int) -> Weighted:
        """Joined rows, without those that find nothing where they do not leave alone."""
        if self.spec.how == "inner":
            left, right = left[right >= 0], right[right >= 0]
        weights = np.full(len(left), weight, np.int64)
        return Weighted(left.astype(np.int32), right.astype(np.int32), weights)

    def _find_reached_rows(self, rights: SideChanges) -> Array:
        """The rows of the left that changes of the right may concern: from their time on until the right's next one."""
        left, right = self.state.sides
        ids = np.concatenate([rights.inserted, rights.gone])
        if not len(ids):
            return ids
        slots = np.concatenate([rights.inserted_slots, rights.gone_slots])
        words = right.rows.arrays.word[ids]
        tiers, strict = np.zeros(len(ids), np.int64), self.spec.strict
        starts = left.rows.before(slots, words, tiers, equals=strict)
        follow = right.rows.before(slots, words, tiers, equals=True)
        stops, _ = left.rows.sizes(slots)
        some = np.flatnonzero(follow < right.rows.sizes(slots)[0])
        _, after = right.rows.collect_between(slots[some], follow[some], follow[some] + 1)
        next_words = right.rows.arrays.word[after]
        stops[some] = left.rows.before(slots[some], next_words, tiers[some], equals=strict)
        # Rows of one time reach the same.
        stretches = np.unique(np.stack([slots, starts, stops]), axis=1)
        return left.rows.collect_between(*stretches)[1]

    def _apply_changes(self, side: AsOfSide, changes: SlotChanges) -> SideChanges:
        """Bring changes of a side into the state."""
        if not len(changes.slots):
            return SideChanges()
        ledger = OrphanLedger(
            self.state.table,
            side.debts,
            policy=self.spec.on_orphan_retraction,
            counters=self.counters,
            source=side.name,
        )
        applied = apply_changes(side.rows, changes, ledger)
        inserted, gone = applied.inserted, applied.gone
        inserted_slots, gone_slots = (
            changes.slots[applied.inserted_by],
            changes.slots[applied.gone_by],
        )
        # A row may go in the bundle in which it inserted: nothing was emitted for it.
        stays, known = ~np.isin(inserted, gone), ~np.isin(gone, inserted)
        self._passing.append((side, gone[~known]))
        return SideChanges(inserted[stays], gone[known], inserted_slots[stays], gone_slots[known])

    def _free(self) -> None:
        """Forget the rows that are gone."""
        for side, ids in zip(self.state.sides, self._gone, strict=True):
            self.state.free(side, ids)
        for side, ids in self._passing:
            self.state.free(side, ids)
        self._passing.clear()

    def _read_joined(self, slots: SlotArray) -> Weighted:
        ids = self.state.left.all_of(slots)
        return self._pair_rows(ids, self.state.match_numbers[ids] - 1, 1)
