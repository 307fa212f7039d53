"""Temporal join: each row of the left leaves once, with the version of the right that was valid at its time.

Rows of the left wait for the watermark. Every change of the right is a version of its key from its time on: an
insertion or the new half of an update is a row, a deletion says that there is none. Of the versions at or before the
watermark the last one stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.errors import DataError
from aggloom.runtime.operators.as_of.base import AsOfOperator, filter_rows
from aggloom.runtime.operators.as_of.settings import AsOfSettings
from aggloom.runtime.operators.as_of.state import GONE
from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.operators.deduplicate.choice import milliseconds_of
from aggloom.runtime.operators.deduplicate.immediate import refuse_retractions
from aggloom.runtime.operators.join.condition import Condition
from aggloom.runtime.operators.join.matches import Weighted
from aggloom.runtime.operators.step import ClockedStep, advance_time
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.storage.arena import Array, NumberArray, RowIdArray, SlotArray
from aggloom.runtime.values.changelog import DELETE, INSERT, UPDATE_BEFORE, Kinds
from aggloom.runtime.values.clock import AFTER_ALL, Clock
from aggloom.runtime.values.columns import flags


class _TimedInputs(NamedTuple):
    """Rows of the left with when each is due, and versions of the right with since when each holds (milliseconds)."""

    left: Rows
    right: Rows
    due: Array  # int64[left]
    since: Array  # int64[right]


class TemporalOperator(AsOfOperator, ClockedStep[_TimedInputs]):
    """An operator over insertions on the left and versions on the right; its result is only added to."""

    keeps_calls = "what it has emitted stays"

    def __init__(self, spec: AsOfSettings, directory: Path | None = None) -> None:
        super().__init__(spec, directory)
        self.counters["late_dropped"] = 0
        self._late: list[Rows] = []
        self._condition = None
        if spec.condition is not None:
            self._condition = Condition(spec.condition, (spec.left, spec.right), spec.zone)
        self._gone_place = np.array([self.state.right.places[GONE.name]], np.int64)

    @property
    def is_chained(self) -> bool:
        return self.spec.is_chained

    def check(self, inputs: Sequence[InputBatch], clock: Clock) -> _TimedInputs:
        """Return rows and versions with their times.

        Raises DataError for a row of the left that retracts one, and for rows without a time.
        """
        refuse_retractions(inputs[0].kinds, self.name)
        left, right = (
            filter_rows(each.batch, each.kinds, self._is_matchable(which, each.batch))
            for which, each in enumerate(inputs)
        )
        return _TimedInputs(left, right, self._due(left[0]), self._since(*right))

    def drop_unwritten(self, now: int) -> None:
        used = self.state.used_slots()
        self._expire(now, used[self.state.left.rows.sizes(used)[0] == 0])

    def move_clock(self, clock: Clock) -> None:
        advance_time(self.state.clock, clock.watermark)

    def take(self, checked: _TimedInputs, clock: Clock) -> None:
        left, right, due, since = checked
        self._take_versions(*right, since, clock.processing)
        self._take_rows(*left, due, clock.processing)

    def emit_due(self, now: int) -> Rows:
        changes = self._emit_certain()
        self.state.tidy()
        return changes

    def next_timers(self) -> tuple[int | None, int | None]:
        due = self.state.due[self.state.used_slots()]
        first = int(due.min()) if len(due) else AFTER_ALL
        return (None if first >= AFTER_ALL else first), None

    def take_late(self) -> list[Rows]:
        late, self._late = self._late, []
        return late

    def _due(self, batch: pa.RecordBatch) -> Array:
        return milliseconds_of(batch, self.spec.times[0], self.spec.clock_zone)

    def _since(self, batch: pa.RecordBatch, kinds: Kinds) -> Array:
        """Return the milliseconds from which versions hold; that of an old half counts for nothing."""
        name = self.spec.times[1]
        place = batch.schema.names.index(name)
        nulls = np.asarray(batch.column(place).is_null())
        if (nulls & (kinds == DELETE)).any():
            raise DataError(
                f"column {name!r}: a deletion has no time (NULL) from which on its row is gone; send the time with it"
            )
        counts = kinds != UPDATE_BEFORE
        some, _ = filter_rows(batch, kinds, counts)
        since = np.zeros(batch.num_rows, np.int64)
        since[counts] = milliseconds_of(some, name, self.spec.clock_zone)
        return since

    def _take_versions(
        self, batch: pa.RecordBatch, kinds: Kinds, since: NumberArray, now: int
    ) -> None:
        counts = kinds != UPDATE_BEFORE
        batch, kinds = filter_rows(batch, kinds, counts)
        if not len(kinds):
            return
        state, side = self.state, self.state.right
        slots = state.lookup(batch)
        arrays = [*side.select_stored(batch).columns, pa.array(kinds == DELETE)]
        rows = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(side.fields))
        # A version with a time that is there takes its place.
        gone = side.rows.insert(slots, rows).gone
        state.free(side, gone[gone >= 0])
        self._note(slots, since[counts], now)

    def _take_rows(self, batch: pa.RecordBatch, kinds: Kinds, due: NumberArray, now: int) -> None:
        """Store rows of the left that are in time."""
        state, side = self.state, self.state.left
        late = due <= int(state.clock[0])
        if late.any():
            self.counters["late_dropped"] += int(late.sum())
            if self.spec.late_rows:
                self._late.append(filter_rows(batch, kinds, late))
        batch, _ = filter_rows(batch, kinds, ~late)
        if not batch.num_rows:
            return
        slots = state.lookup(batch)
        side.rows.insert(slots, side.select_stored(batch))
        self._note(slots, due[~late], now)

    def _note(self, slots: SlotArray, times: Array, now: int) -> None:
        """Note when keys are to be looked at again, and that they were written."""
        np.minimum.at(self.state.due, slots, times)
        self.state.table.stamps("written")[slots] = now

    def _emit_certain(self) -> Rows:
        """The rows whose time has come, in order of time and arrival; versions that are over are forgotten."""
        state, clock = self.state, int(self.state.clock[0])
        used = state.used_slots()
        slots = used[state.due[used] <= clock]
        if not len(slots):
            return no_rows(self.schema)
        ids = state.left.all_of(slots)
        due = self._due(state.left.rows.rows.gather(ids)) if len(ids) else ids
        come = due <= clock
        due_ids, times = ids[come], due[come]
        changes = self._match_versions(due_ids, times)
        state.drop(state.left, due_ids)
        state.due[slots] = AFTER_ALL
        waiting = ids[~come]
        np.minimum.at(state.due, state.left.slots_of(waiting), due[~come])
        self._forget_versions(slots, clock)
        state.leave(slots)
        return changes

    def _match_versions(self, ids: RowIdArray, times: Array) -> Rows:
        """Rows of the left with the versions that they find."""
        state = self.state
        order = np.lexsort((state.left.rows.arrays.arrival[ids], times))
        ids = ids[order]
        versions = self._nearest(ids)
        there = np.flatnonzero(versions >= 0)
        # A version may say that its key has no row from then on.
        (gone,) = state.right.rows.rows.gather_columns(versions[there], self._gone_place)
        versions[there[flags(gone)]] = -1
        if self._condition is not None:
            there = np.flatnonzero(versions >= 0)
            holds = self._condition.holds(state.sides, ids[there], versions[there])
            versions[there[~holds]] = -1
        if self.spec.how == "inner":
            ids, versions = ids[versions >= 0], versions[versions >= 0]
        one = np.ones(len(ids), np.int64)
        rows = Weighted(ids.astype(np.int32), versions.astype(np.int32), one)
        return self._output.build_changes(rows, np.full(len(ids), INSERT, np.int8))

    def _forget_versions(self, slots: SlotArray, clock: int) -> None:
        """Forget the versions before the last one that holds at the watermark, and note when the next one is over."""
        side = self.state.right
        ids = side.all_of(slots)
        if not len(ids):
            return
        place = np.array([side.places[self.spec.times[1]]], np.int64)
        field = side.fields[int(place[0])]
        times = side.rows.rows.gather_columns(ids, place)
        batch = pa.RecordBatch.from_arrays(times, schema=pa.schema([field]))
        since = milliseconds_of(batch, field.name, self.spec.clock_zone)
        owners = side.slots_of(ids)
        # Of a version that is not the last of its key, until when it holds.
        ends = np.full(len(ids), AFTER_ALL, np.int64)
        same = owners[1:] == owners[:-1]
        ends[:-1][same] = since[1:][same]
        self.state.drop(side, ids[ends <= clock])
        left = ends > clock
        # A key is looked at again when its next version takes over, so that the one before can be forgotten.
        np.minimum.at(self.state.due, owners[left], ends[left])

    def _read_joined(self, slots: SlotArray) -> Weighted:
        """No row: what waits is not emitted yet, and what was emitted is not kept."""
        return Weighted.of([])

    def _describe_key(self, slots: SlotArray) -> list[dict[str, int]]:
        waiting, versions = (int(side.rows.sizes(slots)[0][0]) for side in self.state.sides)
        return [{"waiting": waiting, "versions": versions}]
