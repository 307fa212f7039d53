"""Interval join: pairs of rows whose times are within bounds.

Over rows that are only added, pairs are emitted at once, and a row that leaves alone when nothing on time can match
it any more: the result is only added to. Over changes it emits what a Join does; a row is kept until neither it nor a
row that matches it can change on time, and changes that arrive behind the watermark are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.operators.deduplicate.immediate import refuse_retractions
from aggloom.runtime.operators.join.matches import Weighted
from aggloom.runtime.operators.join.per_record import EncodedChanges
from aggloom.runtime.operators.join.side import BundleItems
from aggloom.runtime.operators.join.timed_join import TimedJoinOperator, times_of
from aggloom.runtime.operators.steps import Rows, concat_changes, no_rows
from aggloom.runtime.storage.arena import Array, RowIdArray, SlotArray
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL, Clock

_NONE = np.zeros(0, np.int64)


class IntervalJoinOperator(TimedJoinOperator):
    """One bucket's operator over rows whose times are within bounds."""

    def rebuild_derived(self) -> None:
        super().rebuild_derived()
        self._next = self._first_due()

    def contents(self) -> Rows:
        """The joined rows of the stored ones; none where each row is emitted once, because it was emitted."""
        return no_rows(self.schema) if self.spec.once else super().contents()

    def _read_joined(self, slots: SlotArray) -> Rows:
        """Read the rows of a Join; whether a row of an outer side has had a partner is remembered, since that may have
        left."""
        degrees = [side.bag.arrays.degree.copy() for side in self.state.sides]
        rows = self._matcher.changes(self._all(slots))
        # Matching has counted degrees anew; those that were counted over time are put back.
        for side, degree in zip(self.state.sides, degrees, strict=True):
            side.bag.arrays.degree[:] = degree
        paired = (rows.left >= 0) & (rows.right >= 0)
        parts = [Weighted(*(each[paired] for each in rows))]
        for which, side in enumerate(self.state.sides):
            if side.settings.alone and not self.spec.waits:
                ids = np.concatenate([_NONE, *(row_ids for _, row_ids in side.bag.walk(slots))])
                leaves = (side.bag.arrays.degree[ids] > 0) == (self.spec.how == "semi")
                parts.append(self._alone(which, ids[leaves]))
        return self._emit_insertions(Weighted.of(parts))

    def next_timers(self) -> tuple[int | None, int | None]:
        return (self._next + 1 if self._next < AFTER_ALL else None), None

    def _is_late(self, which: int, batch: pa.RecordBatch) -> Array | None:
        if not self.spec.once:
            return self._times(which, batch) <= self.now
        # What is only added joins what is still there, however late it is; after the end of the input nothing is.
        return np.ones(batch.num_rows, np.bool_) if self.now >= AFTER_ALL // 2 else None

    def _apply_inputs(self, inputs: Sequence[InputBatch], clock: Clock) -> Rows:
        for which, each in enumerate(inputs):
            if self.spec.once:
                refuse_retractions(each.kinds, self.name)
            due = self._until(which, each.batch.column(self.spec.times[which]))
            # Until the watermark has passed the earliest of these times, a bundle need not look at stored rows.
            self._next = min(self._next, int(due[due > self.now].min(initial=AFTER_ALL)))
        return self.apply(inputs, clock.processing)

    def _apply_bundle(
        self, changes_by_side: Sequence[EncodedChanges], touched: Array, now: int
    ) -> Rows:
        """Apply the bundle of a Join, without the rows that arrive when they can get no partner any more."""
        changes = super()._apply_bundle(changes_by_side, touched, now)
        if not self.spec.once:
            return changes
        past = [ids[self._due(n, ids) <= self.now] for n, ids in enumerate(self._fresh)]
        return concat_changes([changes, self._without(past)], self.schema)

    def _emit_bundle(self, bundle: BundleItems) -> Rows:
        changes = super()._emit_bundle(bundle)
        # Rows that this bundle has brought: they had no count before.
        self._fresh = [each.new[(each.new >= 0) & (each.before == 0)] for each in bundle.items]
        return changes

    def _drop_passed(self) -> Rows:
        if self._next >= self.now:
            return no_rows(self.schema)
        self._next = AFTER_ALL
        gone = []
        for which, side in enumerate(self.state.sides):
            ids = side.bag.rows.live()
            due = self._due(which, ids)
            over = due < self.now
            self._next = min(self._next, int(due[~over].min(initial=AFTER_ALL)))
            gone.append(ids[over][np.argsort(due[over], kind="stable")])
        return self._let_go(gone)

    def drop_unwritten(self, now: int) -> Rows:
        """Let rows that were not written for as long as they live leave as if the watermark had passed them."""
        gone = [_NONE, _NONE]
        for which, slots in self._find_unwritten(now):
            walked = [ids for _, ids in self.state.sides[which].bag.walk(slots)]
            gone[which] = np.concatenate([_NONE, *walked])
        return self._let_go(gone)

    def _let_go(self, gone: Sequence[Array]) -> Rows:
        """Forget rows of both sides, and keys that have none any more."""
        sides = zip(self.state.sides, gone, strict=True)
        slots = [side.bag.index.arrays.slot[ids].astype(np.int64) for side, ids in sides]
        changes = self._without(gone)
        self.state.leave(self.state.distinct(*slots))
        return changes

    def _without(self, gone: Sequence[Array]) -> Rows:
        """Forget rows of both sides; those without a partner are emitted where they leave alone."""
        parts = []
        for which, (side, ids) in enumerate(zip(self.state.sides, gone, strict=True)):
            if self.spec.waits and side.settings.alone and self.spec.how != "semi":
                alone = ids[side.bag.arrays.degree[ids] == 0]
                parts.append(self._emit_insertions(self._alone(which, alone)))
            side.bag.take(ids)
            side.bag.free(ids)
        return concat_changes(parts, self.schema)

    def _alone(self, which: int, ids: RowIdArray) -> Weighted:
        """Rows of a side as they leave without a partner."""
        none = np.full(len(ids), -1, np.int32)
        left, right = (ids.astype(np.int32), none) if which == 0 else (none, ids.astype(np.int32))
        return Weighted(left, right, self.state.sides[which].bag.arrays.count[ids].astype(np.int64))

    def _due(self, which: int, ids: RowIdArray) -> Array:
        """The times until which stored rows may get partners, in milliseconds."""
        side = self.state.sides[which]
        place = np.array([side.places[self.spec.times[which]]], np.int64)
        (column,) = side.bag.rows.gather_columns(ids, place)
        return self._until(which, column)

    def _until(self, which: int, times: pa.Array) -> Array:
        """The times until which rows of these times may get partners, in milliseconds."""
        spans = self.spec.spans
        if spans is None:
            return np.full(len(times), BEFORE_ALL, np.int64)
        # Without a time a row has no partner; it may still be retracted.
        missing = BEFORE_ALL if self.spec.once else AFTER_ALL
        return times_of(times, self.spec.time_zone, missing, spans[which])

    def _times(self, which: int, batch: pa.RecordBatch) -> Array:
        name = self.spec.times[which]
        return times_of(batch.column(name), self.spec.time_zone, AFTER_ALL)

    def _first_due(self) -> int:
        """The first time at which a stored row may get no partner any more."""
        return min(
            int(self._due(which, side.bag.rows.live()).min(initial=AFTER_ALL))
            for which, side in enumerate(self.state.sides)
        )
