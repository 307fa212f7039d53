"""Window join: rows of both sides in the same window, emitted when it is over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.operators.join.matches import TooManyMatches, match_limit_error
from aggloom.runtime.operators.join.timed_join import TimedJoinOperator, times_of
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.storage.arena import Array, SlotArray
from aggloom.runtime.values import columns
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL, Clock


class WindowJoinOperator(TimedJoinOperator):
    """One bucket's operator over rows in windows. Changes of a window are netted until it is over."""

    def rebuild_derived(self) -> None:
        super().rebuild_derived()
        self._next = int(self._ends(self.state.used_slots()).min(initial=AFTER_ALL))

    def contents(self) -> Rows:
        """No row: what waits is not emitted yet, and what was emitted is not kept."""
        return no_rows(self.schema)

    def next_timers(self) -> tuple[int | None, int | None]:
        return (self._next if self._next < AFTER_ALL else None), None

    def _is_late(self, which: int, batch: pa.RecordBatch) -> Array:
        name = self.spec.times[which]
        return self._last(batch.column(name)) <= self.now

    def _apply_inputs(self, inputs: Sequence[InputBatch], clock: Clock) -> Rows:
        changes_by_side = self._encode_changes(0, inputs[0]), self._encode_changes(1, inputs[1])
        touched = self.state.distinct(*(each.slots for each in changes_by_side))
        for which, rows in enumerate(changes_by_side):
            side = self.state.sides[which]
            # Nothing is emitted before the window is over, so that retracted rows can be freed at once.
            side.free(side.store(self._net(which, rows)))
        self._next = min(self._next, int(self._ends(touched).min(initial=AFTER_ALL)))
        self.state.leave(touched)
        return no_rows(self.schema)

    def _drop_passed(self) -> Rows:
        if self._next > self.now:
            return no_rows(self.schema)
        used = self.state.used_slots()
        ends = self._ends(used)
        over = ends <= self.now
        self._next = int(ends[~over].min(initial=AFTER_ALL))
        # Windows in the order of their ends; those with the same end as their slots arrived.
        slots = used[over][np.argsort(ends[over], kind="stable")]
        if not len(slots):
            return no_rows(self.schema)
        try:
            rows = self._matcher.changes(self._all(slots), self.spec.match_limit)
        except TooManyMatches as many:
            place = self.state.table.place(int(many.args[0]))
            raise match_limit_error(place, self.spec.match_limit) from None
        changes = self._emit_insertions(rows)
        self.state.forget(slots)
        return changes

    def _ends(self, slots: SlotArray) -> Array:
        """The last milliseconds of the windows of slots."""
        table = self.state.table
        place = [field.name for field in table.fields].index(self.spec.times[0])
        arrays = table.index.arrays
        # Straight from the words of the keys: no row has to be read for its window.
        there = (columns.take(arrays.nulls, slots) >> place) & 1 == 0
        words = columns.take(arrays.words[:, place], slots)
        field = table.fields[place]
        return self._last(columns.from_words(words, there, field.type, table.pool))

    def _last(self, ends: pa.Array) -> Array:
        return times_of(ends, self.spec.time_zone, BEFORE_ALL) - 1
