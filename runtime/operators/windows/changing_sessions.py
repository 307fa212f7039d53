"""Sessions over changes: a row that is retracted shortens its session, splits it, or ends it.

The accumulators are kept by key and time, not by session: a session is then found from the times that have rows when
it may be over, and what its times hold is merged. No row has to be kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.codegen.planner import Bounds
from aggloom.codegen.windows import Session, Windowing, to_local
from aggloom.errors import AggloomError
from aggloom.runtime.operators.base import Partials, StoredKeyState
from aggloom.runtime.operators.bundle import Applier, refuse_orphans
from aggloom.runtime.operators.keyed_state import KeyedState
from aggloom.runtime.operators.slot_state import SlotState
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.operators.windows.base import DUE, FIRED, WindowOperator
from aggloom.runtime.operators.windows.key_state import merge_slots, slots_and_windows
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray, SlotArray
from aggloom.runtime.values.changelog import Kinds
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL


class _TimeCounts:
    """The times of one key that have rows or debts, in order."""

    def __init__(self, gap: int) -> None:
        self.counts = Counter[int]()
        self._gap, self._times = gap, list[int]()

    def add(self, time: int, rows: int) -> None:
        """Count rows of a time; a time without any is none."""
        before = self.counts[time]
        self.counts[time] += rows
        if not before and self.counts[time]:
            insort(self._times, time)
        elif before and not self.counts[time]:
            del self._times[bisect_left(self._times, time)]

    def touches(self, time: int) -> bool:
        """Tell whether a time is at most the gap away."""
        place = bisect_left(self._times, time - self._gap)
        return place < len(self._times) and self._times[place] <= time + self._gap


class SessionRuns(NamedTuple):
    """The sessions that times make: the times in order of key and time, and where each session begins among them."""

    slots: Array  # int64[times]
    session: Array  # int64[times], the number of the session of each
    first: Array  # int64[sessions], places in `slots`
    start: Array  # int64[sessions], ms
    end: Array  # int64[sessions], ms, exclusive


class ChangingSessionOperator(WindowOperator):
    """One bucket's operator for sessions by event time that fire once, over rows that may be retracted."""

    def __init__(
        self,
        handler_class: type[Any],
        windowing: Windowing,
        bounds: Bounds,
        *,
        on_orphan_retraction: str = "drop",
        update_before: bool = True,
        is_chained: bool = False,
        directory: Path | None = None,
    ) -> None:
        assert isinstance(windowing.assigner, Session)
        super().__init__(handler_class, windowing, bounds, is_chained, update_before)
        self.require_merge("sessions")
        self._gap = int(windowing.assigner.gap)
        self.on_orphan_retraction = on_orphan_retraction
        self._applier = Applier()
        self.times = KeyedState(handler_class, directory and directory / "times")

    @property
    def states(self) -> list[SlotState]:
        return [self.times]

    @property
    def keys(self) -> int:
        """Number of times of keys that have rows."""
        return len(self.times)

    def contents(self) -> Rows:
        """No rows: what was emitted does not change any more."""
        return self.nothing

    def key_columns(self) -> list[pa.Array]:
        return self.times.key_columns(self.times.used_slots())[:-1]

    def count_key_rows(self) -> Array | None:
        return self.times.count_key_rows()

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        """The sessions of a key as they are now, the first one first."""
        slots, _ = slots_and_windows(self.times, key)
        sessions = self._find_sessions(slots)
        for number, slot in enumerate(sessions.first.tolist()):
            window = np.array([sessions.start[number], sessions.end[number]], np.int64)
            bounds = to_local(window, self.windowing.assigner.zone)
            own = sessions.slots[slot:][sessions.session[slot:] == number]
            yield StoredKeyState(
                *merge_slots(self.times, own), (int(bounds[0]), int(bounds[1])), None
            )

    def next_timers(self) -> tuple[int | None, int | None]:
        """The next time at which something may be due, by the watermark."""
        return (int(self.clock[DUE]) if self.clock[DUE] < AFTER_ALL else None), None

    # A bundle of rows.

    def _take(self, batch: pa.RecordBatch, kinds: Kinds, partials: Partials) -> Rows:
        if partials:
            raise AggloomError("sessions are not aggregated locally; plan them in one phase")
        retracts = self.retractions(kinds)
        slots = self.times.lookup(batch)
        late = self._find_late(slots, retracts)
        if late.any():
            self.drop_late(batch, kinds, late)
            # What lookup has made for them alone is taken out, which may move what is left to other slots.
            alone = np.setdiff1d(slots[late], slots[~late])
            self.times.forget(alone[self.times.records[alone] == 0])
            batch, retracts = batch.filter(pa.array(~late)), retracts[~late]
            slots = self.times.lookup(batch)
        if self.on_orphan_retraction == "error":
            refuse_orphans(self.times, slots, retracts)
        ends = self.times.windows[slots] + self._gap
        touched = self._applier.distinct(self.times, slots)
        rows, keep = (batch, slots, retracts), self.on_orphan_retraction == "keep"
        self.counters["orphans_dropped"] += self._applier.apply(
            self.times, touched, rows, keep=keep
        )
        self._applier.forget_counts(touched)
        self._forget(touched[self.times.records[touched] == 0])
        self._wait_for(ends, bool(retracts.any()))
        return self.nothing

    def _find_late(self, slots: SlotArray, retracts: FlagArray) -> FlagArray:
        """The rows whose windows are over, and touch no time that has rows when their turn comes.

        slots: int64[n], of the times of the rows; retracts: bool[n]. Row by row, so that the cuts of bundles mean
        nothing, and only for keys that have such a row.
        """
        times = self.times.windows[slots]
        is_over = times + self._gap - 1 <= self.now
        late = np.zeros(len(slots), np.bool_)
        if not is_over.any():
            return late
        used = self.times.used_slots()
        keys = np.empty(self.times.capacity, np.int64)
        keys[used] = self.times.key_numbers(used)
        affected = np.unique(keys[slots[is_over]])
        counts = {key: _TimeCounts(self._gap) for key in affected.tolist()}
        for slot in used[np.isin(keys[used], affected)].tolist():
            counts[keys[slot]].add(int(self.times.windows[slot]), int(self.times.records[slot]))
        keeps = self.on_orphan_retraction == "keep"
        for row in np.flatnonzero(np.isin(keys[slots], affected)).tolist():
            own, time = counts[keys[slots[row]]], int(times[row])
            if is_over[row] and not own.touches(time):
                late[row] = True
            elif not retracts[row]:
                own.add(time, 1)
            elif keeps or own.counts[time] > 0:
                own.add(time, -1)
        return late

    def _wait_for(self, ends: NumberArray, any_retracts: bool) -> None:
        """Note when a session may be over, at the soonest, behind rows whose windows have these ends."""
        if not len(ends):
            return
        due = int(ends.min()) - 1
        if any_retracts and self.now > BEFORE_ALL:
            # What is left of a shorter session may be over since long. Before the watermark has moved, the least end of
            # a time is waited for, which a retraction leaves as it is.
            due = self.now
        # A time that is over already would be due at once, and again and again until the watermark moves.
        self.clock[DUE] = min(int(self.clock[DUE]), max(due, self.now + 1))

    # The clock moves.

    def _advance(self) -> Rows:
        # Between two moves nothing fires: whatever comes meanwhile in one bundle or in several is treated alike.
        if self.now <= self.clock[FIRED]:
            return self.nothing
        self.clock[FIRED] = self.now
        if self.clock[DUE] > self.now:
            return self.nothing
        used = self.times.used_slots()
        has_rows = self.times.records[used] > 0
        sessions = self._find_sessions(used[has_rows])
        is_over = sessions.end - 1 <= self.now
        changes = self._fire(sessions, is_over) if is_over.any() else self.nothing
        if not has_rows.all():
            sessions, is_over = self._forget_debts()
        self.clock[DUE] = int(sessions.end[~is_over].min()) - 1 if not is_over.all() else AFTER_ALL
        return changes

    def _forget_debts(self) -> tuple[SessionRuns, FlagArray]:
        """Forget times with debts that no row can pay any more; return the other sessions, none of which is over."""
        sessions = self._find_sessions(self.times.used_slots())
        is_over = sessions.end - 1 <= self.now
        self._forget(sessions.slots[is_over[sessions.session]])
        return sessions, is_over

    def _fire(self, sessions: SessionRuns, fires: FlagArray) -> Rows:
        """The results of sessions that are over, whose times are merged into the first of each."""
        state, numbers = self.times, np.flatnonzero(fires)
        self.counters["fired"] += len(numbers)
        roots = sessions.slots[sessions.first[numbers]]
        is_first = np.zeros(len(sessions.slots), np.bool_)
        is_first[sessions.first] = True
        others = np.flatnonzero(fires[sessions.session] & ~is_first)
        if len(others):
            targets = sessions.slots[sessions.first[sessions.session[others]]]
            state.move(sessions.slots[others], targets)
        values = state.handler.values(roots)
        state.handler.refuse_overflow(values, state.place)
        keys = lambda items: state.key_columns(roots[items])[:-1]  # noqa: E731
        zone = self.windowing.assigner.zone
        windows = to_local(sessions.start[numbers], zone), to_local(sessions.end[numbers], zone)
        live = np.zeros(len(roots), np.bool_), np.ones(len(roots), np.bool_)
        changes = self._give_out(state.handler, keys, windows, (values, values), live)
        self._forget(sessions.slots[fires[sessions.session]])
        return changes

    def _forget(self, slots: SlotArray) -> None:
        """Forget times, with whatever they hold; those that are left may move to other slots."""
        if len(slots):
            self.times.reset(slots)
            self.times.forget(slots)

    def _find_sessions(self, slots: SlotArray) -> SessionRuns:
        """The sessions that the times at some slots make: those of one key that are at most the gap apart."""
        times, keys = self.times.windows[slots], self.times.key_numbers(slots)
        order = _order_by(keys, times)
        slots, times, keys = slots[order], times[order], keys[order]
        begins = np.ones(len(slots), np.bool_)
        # As in Flink, windows [time, time + gap) that meet are of one session, too.
        begins[1:] = (keys[1:] != keys[:-1]) | (times[1:] - times[:-1] > self._gap)
        first = np.flatnonzero(begins)
        last = np.append(first, len(slots))[1:] - 1
        return SessionRuns(
            slots, np.cumsum(begins) - 1, first, times[first], times[last] + self._gap
        )


def _order_by(keys: NumberArray, times: NumberArray) -> Array:
    """The order of rows by key and then by time; keys: numbers from 0 on, times: int64[n], no pair twice."""
    if not len(keys):
        return np.zeros(0, np.int64)
    least = int(times.min())
    span = int(times.max()) - least + 1
    # One number for both is sorted several times as fast, wherever it has room.
    if span * (int(keys.max()) + 1) < 2**63:
        return np.argsort(keys * span + (times - least))
    return np.lexsort((times, keys))
