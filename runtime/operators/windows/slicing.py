"""Tumbling, hopping and cumulating windows, whole columns at a time.

A row is added to the accumulators of its key and slice; a window that fires merges its slices. Which
windows are due follows from the slices that are there and from how far the clock has come: windows that fire once need
no timers and no state of their own. Windows that can fire again keep what they emitted last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from aggloom.codegen.windows import count_up, distinct_times
from aggloom.runtime.operators.keyed_state import KeyedState
from aggloom.runtime.operators.steps import Rows, concat_changes
from aggloom.runtime.operators.windows.base import DUE, FIRED, PROCESSING
from aggloom.runtime.operators.windows.slices import SlicedRows
from aggloom.runtime.storage.arena import Array, SlotArray
from aggloom.runtime.values.clock import AFTER_ALL


class _Merged(NamedTuple):
    """Windows that fire: their accumulators in a handler at `places`, a slice of their key, their ends.

    cells: the place of the window of each pair that was merged.
    """

    handler: Any
    places: Array  # int64[windows]
    owners: Array  # int64[windows]
    ends: Array  # int64[windows]
    cells: Array  # int64[pairs]


class SlicingWindowOperator(SlicedRows):
    """One bucket's operator for windows that lie at fixed places on the time axis.

    Deterministic: the same bundles in the same order give the same changes. After an error in the middle of a bundle
    it refuses further work: restore a snapshot. bucket: by which windows are staggered.
    """

    def contents(self) -> Rows:
        """Return the rows that have been emitted and may still change: each row an insertion."""
        if self.windows is None:
            return self.nothing
        slots = self.windows.index.used_slots()
        slots = slots[self.windows.records[slots] > 0]
        values = self.windows.handler.values(slots)
        live = np.ones(len(slots), np.bool_)
        windows = slots, self.windows.windows[slots]
        return self._changes(windows, (values, values), (~live, live), self.windows)

    def next_timers(self) -> tuple[int | None, int | None]:
        """The next time at which something is due, by the watermark and by the clock."""
        due = [int(self.clock[DUE])] if self.clock[DUE] < AFTER_ALL else []
        waiting: Array = np.zeros(0, np.int64)
        if self.windows is not None:
            waiting = self.windows.stamps("next")
            waiting = waiting[waiting > 0]
        now = [int(waiting.min())] if len(waiting) else []
        if self._event_time:
            return (due[0] if due else None), (now[0] if now else None)
        return None, min([time + 1 for time in due] + now, default=None)

    def _after_rows(self, touched: Array) -> Rows:
        ends = self.slices.windows[touched]
        if self.windows is None:
            if len(touched):
                ends, _ = distinct_times(ends, self._assigner.slice_ms)
                due = self._fires(self._assigner.spans(ends)[1])
                self.be_due_at(due[due > self.now])
            return self.nothing
        rows, windows = self._assigner.spans(ends)
        # A slice may be in windows of which some are over already.
        open_ = self._cleanup(windows) > self.now
        rows, windows = rows[open_], windows[open_]
        slots = np.unique(self.windows.lookup_keys_of(self.slices, touched[rows], windows))
        due = self._fires(self.windows.windows[slots])
        passed = due <= self.now
        self.be_due_at(due[~passed])
        self.be_due_at(due[passed] + self.windowing.allowed_lateness)
        delays = np.where(passed, self._late_delay, -1 if self._early is None else self._early)
        waits = self.windows.stamps("next")
        starting = (delays > 0) & (waits[slots] == 0)
        waits[slots[starting]] = self.clock[PROCESSING] + delays[starting]
        return self._refire(slots[delays == 0])

    def _advance(self) -> Rows:
        parts = []
        if self.windows is not None:
            parts.append(self._advance_waits())
        if self.clock[DUE] <= self.now:
            parts.append(self._fire_once() if self.windows is None else self._advance_windows())
            self._plan_next()
        # Last: windows that end after it are those that the next call fires.
        self.clock[FIRED] = self.now
        return concat_changes(parts, self.schema)

    def _advance_waits(self) -> Rows:
        """Fire the windows of which an early or late result is due by the clock, and let early ones wait again."""
        assert self.windows is not None
        waits, now = self.windows.stamps("next"), self.clock[PROCESSING]
        slots = np.flatnonzero((waits > 0) & (waits <= now))
        if not len(slots):
            return self.nothing
        times = waits[slots]
        # Before the result is emitted: rows of a later bundle start the wait anew.
        waits[slots] = 0
        if self._early:
            ahead = self._fires(self.windows.windows[slots]) > self.now
            waits[slots[ahead]] = (times + ((now - times) // self._early + 1) * self._early)[ahead]
        return self._refire(slots)

    def _advance_windows(self) -> Rows:
        """Fire what is due, for good or for now, and forget the windows that take no more rows."""
        assert self.windows is not None
        state = self.windows
        used = state.index.used_slots()
        due = self._fires(state.windows[used])
        on_time = (due <= self.now) & (state.stamps("fired")[used] == 0)
        over = due + self.windowing.allowed_lateness <= self.now
        # What waits to be emitted late goes out before its window does.
        last_words = over & (state.stamps("next")[used] > 0)
        changes = self._refire(used[on_time | last_words])
        state.stamps("fired")[used[on_time]] = 1
        state.stamps("next")[used[due <= self.now]] *= 1 if self._late_delay else 0
        state.reset(used[over])
        state.forget(used[over])
        self._forget_slices()
        return changes

    def _refire(self, slots: SlotArray) -> Rows:
        """Emit the changes of windows, whose slots are in `windows`."""
        assert self.windows is not None
        state, n = self.windows, len(slots)
        if not n:
            return self.nothing
        self.counters["fired"] += n
        targets, ends = self._slices_of(state.windows[slots])
        slots_of_slices = self.slices.find_keys_of(state, slots[targets], ends)
        there = slots_of_slices >= 0
        scratch = state.handler.create(n)
        self._merge(scratch, targets[there], slots_of_slices[there], ends[there])
        # Both results come from one state: strings are known by their numbers in its pool.
        before, was = state.handler.values(slots), state.records[slots] > 0
        state.reset(slots)
        state.handler.merge_slots(state.accumulators, slots, scratch)
        after, now = state.handler.values(slots), state.records[slots] > 0
        state.handler.refuse_overflow(after, state.place)
        return self._changes((slots, state.windows[slots]), (before, after), (was, now), state)

    def _fire_once(self) -> Rows:
        """Give out the windows that have become due, and forget the slices that no later window needs."""
        state = self.slices
        used = state.index.used_slots()
        due, sizes, ends = self._due(state.windows[used])
        if not len(due):
            self._forget_slices()
            return self.nothing
        owners = used[due]
        slots = np.repeat(owners, sizes)
        if self._assigner.size_ms == self._assigner.slice_ms:
            merged = _Merged(state.handler, slots, slots, ends, slots)
        else:
            merged = self._merge_slices(owners, sizes, slots, ends)
        records = np.asarray(merged.handler.accumulators.records)
        there = records[merged.places] > 0
        places, ends_shown = merged.places[there], merged.ends[there]
        self.counters["fired"] += len(places)
        values = merged.handler.values(places)
        owners = merged.owners[there]
        merged.handler.refuse_overflow(
            values, lambda place: state.place(int(owners[np.searchsorted(places, place)]))
        )
        live = np.ones(len(places), np.bool_)
        windows = owners, ends_shown
        changes = self._changes(windows, (values, values), (~live, live), state, merged.handler)
        if self._assigner.cumulates:
            self._fold(slots, ends, merged)
        self._forget_slices()
        return changes

    def _merge_slices(self, owners: Array, sizes: Array, slots: SlotArray, ends: Array) -> _Merged:
        """The accumulators of windows: slices, the number of windows of each, and by pair the slice and the end."""
        keys = self.slices.key_numbers(owners)
        windows, places = distinct_times(ends, self._assigner.step_ms)
        cells = np.repeat(keys, sizes) * len(windows) + places
        count = (int(keys.max()) + 1) * len(windows)
        # A cell for each key and window is quicker than sorting, where most of them are filled.
        if count > 4 * len(slots) + 65536:
            filled, cells = np.unique(cells, return_inverse=True)
        else:
            filled = np.arange(count, dtype=np.int64)
        handler = self.handler_class()
        handler.set(handler.create(len(filled)), None)
        self._merge(handler.accumulators, cells, slots, ends)
        of_key = np.zeros(int(keys.max()) + 1, np.int64)
        of_key[keys] = owners
        return _Merged(
            handler,
            np.arange(len(filled), dtype=np.int64),
            of_key[filled // len(windows)],
            windows[filled % len(windows)],
            cells,
        )

    def _fold(self, slots: SlotArray, ends: Array, merged: _Merged) -> None:
        """Let the first slice of a cumulating window hold all that its last firing has merged."""
        state = self.slices
        # Only the newest window of a slice has merged all that is in it.
        newest = np.full(state.capacity, -AFTER_ALL, np.int64)
        np.maximum.at(newest, slots, ends)
        last = (ends < self._assigner.last_ends(ends)) & (newest[slots] == ends)
        slots, ends, cells = slots[last], ends[last], merged.cells[last]
        cells, one = np.unique(cells, return_index=True)
        firsts = self._assigner.starts(ends[one]) + self._assigner.slice_ms
        targets = state.lookup_keys_of(state, slots[one], firsts)
        state.reset(slots)
        state.handler.merge_slots(state.accumulators, targets, merged.handler.accumulators, cells)
        state.forget(np.setdiff1d(slots, targets))

    def _due(self, slices: Array) -> tuple[Array, Array, Array]:
        """Windows that have become due since the last firing: numbers of slices, windows of each, their ends."""
        ends, places = distinct_times(slices, self._assigner.slice_ms)
        owners, windows = self._assigner.spans(ends)
        due = self._fires(windows)
        picked = (due <= self.now) & (due > self.clock[FIRED])
        owners, windows = owners[picked], windows[picked]
        counts = np.bincount(owners, minlength=len(ends))
        firsts = np.cumsum(counts) - counts
        hit = np.flatnonzero(counts[places])
        sizes = counts[places[hit]]
        return hit, sizes, windows[count_up(sizes) + np.repeat(firsts[places[hit]], sizes)]

    def _plan_next(self) -> None:
        """Find out when the next window is due, or is to be forgotten."""
        self.clock[DUE] = AFTER_ALL
        if self.windows is not None:
            due = self._fires(self.windows.windows[self.windows.index.used_slots()])
            later = due + self.windowing.allowed_lateness
            self.be_due_at(np.where(due > self.now, due, later))
            return
        used = self.slices.index.used_slots()
        ends, _ = distinct_times(self.slices.windows[used], self._assigner.slice_ms)
        due = self._fires(self._assigner.spans(ends)[1])
        self.be_due_at(due[due > self.now])

    def _changes(
        self,
        windows: tuple[Array, Array],
        results: tuple[Any, Any],
        live: tuple[Array, Array],
        state: KeyedState,
        handler: Any = None,
    ) -> Rows:
        """The changes of windows: (slots of their key in `state`, ends); handler: of the results, if another's."""
        slots, ends = windows
        keys = lambda items: state.key_columns(slots[items])[:-1]  # noqa: E731
        bounds = self._assigner.starts(ends), ends
        return self._give_out(handler or state.handler, keys, bounds, results, live)
