"""Tumbling, hopping and cumulating windows, whole columns at a time.

A row is added to the accumulators of its key and slice; a window that fires merges its slices (SEMANTICS 4.3). Which
windows are due follows from the slices that are there and from how far the clock has come: windows that fire once need
no timers and no state of their own. Windows that can fire again keep what they gave out last.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.codegen.planner import Bounds
from aggloom.codegen.windows import (
    Aligned,
    Cumulate,
    Windowing,
    distinct_times,
    numbered,
    to_instants,
    to_local,
)
from aggloom.runtime.operators.bundle import Applier, refuse_orphans
from aggloom.runtime.operators.keyed_state import KeyedState
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.operators.windows.base import (
    DUE,
    FIRED,
    PROCESSING,
    STAGGER,
    WATERMARK,
    WindowOperator,
    joined,
)
from aggloom.runtime.operators.windows.stagger import stagger_offset
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values.clock import AFTER_ALL


class _Merged(NamedTuple):
    """Windows that fire: their accumulators in a handler at `places`, a slice of their key, their ends.

    cells: the place of the window of each pair that was merged.
    """

    handler: Any
    places: Array
    owners: Array
    ends: Array
    cells: Array


class SlicingWindowOperator(WindowOperator):
    """One bucket's operator for windows that lie at fixed places on the time axis.

    Deterministic: the same bundles in the same order give the same changes. After an error in the middle of a bundle
    it refuses further work: restore a snapshot. bucket: by which windows in processing time are staggered.
    """

    def __init__(
        self,
        handler_class: type[Any],
        windowing: Windowing,
        bounds: Bounds,
        *,
        on_orphan_retraction: str = "drop",
        update_before: bool = True,
        chained: bool = False,
        per_record: bool = False,
        bucket: int = 0,
        directory: Path | None = None,
    ) -> None:
        assigner = windowing.assigner
        assert isinstance(assigner, Aligned)
        super().__init__(handler_class, windowing, bounds, chained, update_before, per_record)
        if windowing.updates or assigner.slice_ms != assigner.size_ms:
            self.require_merge("windows that overlap or fire again")
        self.on_orphan_retraction = on_orphan_retraction
        self._bucket = bucket
        self._early = getattr(windowing.trigger, "early", None)
        self._late_delay = getattr(windowing.trigger, "late", None) or 0
        self._applier = Applier()
        self.slices = KeyedState(handler_class, directory and directory / "slices")
        self.windows: KeyedState | None = None
        if windowing.updates:
            place = directory and directory / "windows"
            self.windows = KeyedState(handler_class, place, stamps=("next", "fired"))
        self._merges_in_order = any(self.spec.entry(c).by_arrival for c in self.spec.calls)
        self._settle()

    @property
    def states(self) -> list[KeyedState]:
        return [self.slices, *([self.windows] if self.windows is not None else [])]

    @property
    def keys(self) -> int:
        """Slices, and windows that were given out, of all keys."""
        return sum(len(state) for state in self.states)

    def contents(self) -> Rows:
        """What has been given out and may still change: each row an insertion."""
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

    # A bundle of rows.

    def _take(
        self, batch: pa.RecordBatch, kinds: Array, partials: Sequence[bytes | memoryview]
    ) -> Rows:
        batch, kinds = self._placed(batch, kinds)
        state = self.slices
        retracts = self.retractions(kinds)
        slots = state.lookup(batch)
        if self.on_orphan_retraction == "error":
            refuse_orphans(state, slots, retracts)
        merged = [each for each in map(self._opened, partials) if len(each[0])]
        every = np.concatenate([slots, *(targets for targets, _, _ in merged)])
        touched = self._applier.distinct(state, every)
        keep = self.on_orphan_retraction == "keep"
        rows = batch, slots, retracts
        dropped = self._applier.apply(state, touched, rows, merged, keep=keep)
        self._applier.done(touched)
        self.counters["orphans_dropped"] += dropped
        changes = self._after_rows(touched)
        records = state.records[touched]
        gone = touched[records == 0 if keep else records <= 0]
        state.reset(gone)
        state.forget(gone)
        return changes

    def _placed(self, batch: pa.RecordBatch, kinds: Array) -> Rows:
        """The rows that are not late, with the end of their slice in the window's column."""
        place = len(self.spec.group_by) - 1
        slices = np.asarray(batch.column(place))
        if not self._event_time and batch.num_rows:
            now = int(self.clock[PROCESSING])
            if not self.clock[STAGGER]:
                offset = stagger_offset(self._assigner, now, self.spec.digest, self._bucket)
                self.clock[STAGGER] = 1 + offset
                self._settle()
            local = to_local(np.array([now], np.int64), self._assigner.zone)
            slices = np.repeat(self._assigner.slices(local), batch.num_rows)
        elif not self.windowing.is_sliced:
            slices = self._assigner.slices(to_local(slices, self._assigner.zone))
        stays = self._stays(slices)
        if stays is not None:
            self._drop_late(batch, kinds, slices, stays)
            batch, kinds, slices = batch.filter(pa.array(stays)), kinds[stays], slices[stays]
        kept = self._where_kept(slices)
        if kept is not slices or not self.windowing.is_sliced:
            batch = batch.set_column(place, batch.schema.field(place), pa.array(kept))
        return batch, kinds

    def _where_kept(self, slices: Array) -> Array:
        """Where rows of slices are added up: in a cumulating window that has fired, in its first slice."""
        if self.windows is not None or not isinstance(self._assigner, Cumulate) or not len(slices):
            return slices
        if self._fires(slices.min(keepdims=True))[0] > self._now:
            return slices
        first = self._assigner.starts(slices) + self._assigner.slice_ms
        return np.where(self._fires(slices) <= self._now, first, slices)

    def _drop_late(self, batch: pa.RecordBatch, kinds: Array, slices: Array, stays: Array) -> None:
        """Rows that do not stay are late, unless they lie in a gap between windows."""
        self.drop_late(batch, kinds, ~stays & (self._assigner.last_ends(slices) >= slices))

    def _stays(self, slices: Array) -> Array | None:
        """Which slices still belong to a window that takes rows; None: all."""
        if not len(slices):
            return None
        last = self._assigner.last_ends(slices)
        gaps = last < slices
        if not self._event_time:
            return ~gaps if gaps.any() else None
        if not gaps.any() and self._cleanup(last.min(keepdims=True))[0] > self.clock[WATERMARK]:
            return None
        ends, places = distinct_times(last, self._assigner.step_ms)
        return ~gaps & (self._cleanup(ends) > self.clock[WATERMARK])[places]

    def _opened(self, partial: bytes | memoryview) -> tuple[Array, KeyedState, Array]:
        """Accumulators by slice that a local aggregate sent: target slots, their state, its slots."""
        other = KeyedState(self.handler_class)
        other.restore(partial)
        slots = other.index.used_slots()
        stays = self._stays(other.windows[slots])
        if stays is not None:
            self.counters["late_dropped"] += int(np.abs(other.records[slots[~stays]]).sum())
            slots = slots[stays]
        self.counters["rows"] += int(np.abs(other.records[slots]).sum())
        kept = self._where_kept(other.windows[slots])
        return self.slices.lookup_keys_of(other, slots, kept), other, slots

    def _after_rows(self, touched: Array) -> Rows:
        """What rows bring at once: late updates, early results, and the times that are waited for."""
        ends = self.slices.windows[touched]
        if self.windows is None:
            if len(touched):
                ends, _ = distinct_times(ends, self._assigner.slice_ms)
                due = self._fires(self._assigner.spans(ends)[1])
                self._wait(due[due > self._now])
            return self.nothing
        rows, windows = self._assigner.spans(ends)
        open_ = self._cleanup(windows) > self._now
        rows, windows = rows[open_], windows[open_]
        slots = np.unique(self.windows.lookup_keys_of(self.slices, touched[rows], windows))
        due = self._fires(self.windows.windows[slots])
        passed = due <= self._now
        self._wait(due[~passed])
        self._wait(due[passed] + self.windowing.allowed_lateness)
        delays = np.where(passed, self._late_delay, -1 if self._early is None else self._early)
        waits = self.windows.stamps("next")
        starting = (delays > 0) & (waits[slots] == 0)
        waits[slots[starting]] = self.clock[PROCESSING] + delays[starting]
        return self._refire(slots[delays == 0])

    # The clock moves.

    def _advance(self) -> Rows:
        parts = []
        if self.windows is not None:
            parts.append(self._advance_waits())
        if self.clock[DUE] <= self._now:
            parts.append(self._fire_once() if self.windows is None else self._advance_windows())
            self._plan_next()
        self.clock[FIRED] = self._now
        return joined(parts, self.schema)

    def _advance_waits(self) -> Rows:
        """Fire the windows of which an early or late result is due by the clock, and let early ones wait again."""
        assert self.windows is not None
        waits, now = self.windows.stamps("next"), self.clock[PROCESSING]
        slots = np.flatnonzero((waits > 0) & (waits <= now))
        if not len(slots):
            return self.nothing
        times = waits[slots]
        waits[slots] = 0
        if self._early:
            ahead = self._fires(self.windows.windows[slots]) > self._now
            waits[slots[ahead]] = (times + ((now - times) // self._early + 1) * self._early)[ahead]
        return self._refire(slots)

    def _advance_windows(self) -> Rows:
        """Fire what is due, for good or for now, and forget the windows that take no more rows."""
        assert self.windows is not None
        state = self.windows
        used = state.index.used_slots()
        due = self._fires(state.windows[used])
        on_time = (due <= self._now) & (state.stamps("fired")[used] == 0)
        over = due + self.windowing.allowed_lateness <= self._now
        # What waits to be given out late goes out before its window does.
        last_words = over & (state.stamps("next")[used] > 0)
        changes = self._refire(used[on_time | last_words])
        state.stamps("fired")[used[on_time]] = 1
        state.stamps("next")[used[due <= self._now]] *= 1 if self._late_delay else 0
        state.reset(used[over])
        state.forget(used[over])
        self._forget_slices()
        return changes

    def _refire(self, slots: Array) -> Rows:
        """Give out what has changed of windows, told by their slots in `windows`."""
        assert self.windows is not None
        state, n = self.windows, len(slots)
        if not n:
            return self.nothing
        self.counters["fired"] += n
        targets, ends = self._slices_of(state.windows[slots])
        found = self.slices.find_keys_of(state, slots[targets], ends)
        there = found >= 0
        scratch = state.handler.create(n)
        self._merge(scratch, targets[there], found[there], ends[there])
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
            found = _Merged(state.handler, slots, slots, ends, slots)
        else:
            found = self._merged(owners, sizes, slots, ends)
        records = np.asarray(found.handler.accumulators.records)
        there = records[found.places] > 0
        places, ends_shown = found.places[there], found.ends[there]
        self.counters["fired"] += len(places)
        values = found.handler.values(places)
        owners = found.owners[there]
        found.handler.refuse_overflow(
            values, lambda place: state.place(int(owners[np.searchsorted(places, place)]))
        )
        live = np.ones(len(places), np.bool_)
        windows = owners, ends_shown
        changes = self._changes(windows, (values, values), (~live, live), state, found.handler)
        if isinstance(self._assigner, Cumulate):
            self._fold(slots, ends, found)
        self._forget_slices()
        return changes

    def _merged(self, owners: Array, sizes: Array, slots: Array, ends: Array) -> _Merged:
        """The accumulators of windows: slices, the number of windows of each, and by pair the slice and the end."""
        keys = self.slices.key_numbers(owners)
        windows, places = distinct_times(ends, self._assigner.step_ms)
        cells = np.repeat(keys, sizes) * len(windows) + places
        count = (int(keys.max()) + 1) * len(windows)
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

    def _fold(self, slots: Array, ends: Array, found: _Merged) -> None:
        """Let the first slice of a cumulating window hold all that its last firing has merged."""
        state = self.slices
        newest = np.full(state.capacity, -AFTER_ALL, np.int64)
        np.maximum.at(newest, slots, ends)
        last = (ends < self._assigner.last_ends(ends)) & (newest[slots] == ends)
        slots, ends, cells = slots[last], ends[last], found.cells[last]
        cells, one = np.unique(cells, return_index=True)
        firsts = self._assigner.starts(ends[one]) + self._assigner.slice_ms
        targets = state.lookup_keys_of(state, slots[one], firsts)
        state.reset(slots)
        state.handler.merge_slots(state.accumulators, targets, found.handler.accumulators, cells)
        state.forget(np.setdiff1d(slots, targets))

    def _due(self, slices: Array) -> tuple[Array, Array, Array]:
        """Windows that have become due since the last firing: numbers of slices, windows of each, their ends."""
        ends, places = distinct_times(slices, self._assigner.slice_ms)
        owners, windows = self._assigner.spans(ends)
        due = self._fires(windows)
        picked = (due <= self._now) & (due > self.clock[FIRED])
        owners, windows = owners[picked], windows[picked]
        counts = np.bincount(owners, minlength=len(ends))
        firsts = np.cumsum(counts) - counts
        hit = np.flatnonzero(counts[places])
        sizes = counts[places[hit]]
        return hit, sizes, windows[numbered(sizes) + np.repeat(firsts[places[hit]], sizes)]

    def _merge(self, into: Any, targets: Array, slots: Array, ends: Array) -> None:
        """Merge slices into accumulators, in order of time; a slice may go to several windows."""
        handler = self.slices.handler
        if self._merges_in_order or handler.VIEWS:
            # Room is made for each slice once, so that windows of one end go together.
            order = np.lexsort((self.slices.windows[slots], ends))
            targets, slots, ends = targets[order], slots[order], ends[order]
            cuts = np.flatnonzero(np.diff(ends)) + 1
        else:
            cuts = np.zeros(0, np.int64)
        parts = zip(np.split(targets, cuts), np.split(slots, cuts), strict=True)
        for target, slot in parts:
            handler.merge_slots(into, target, self.slices.accumulators, slot)

    def _slices_of(self, ends: Array) -> tuple[Array, Array]:
        """(number of the window, end of the slice) of all slices of windows."""
        step = self._assigner.slice_ms
        starts = self._assigner.starts(ends)
        counts = (ends - starts) // step
        rows = np.repeat(np.arange(len(ends), dtype=np.int64), counts)
        return rows, starts[rows] + (numbered(counts) + 1) * step

    def _forget_slices(self) -> None:
        state = self.slices
        used = state.index.used_slots()
        ends, places = distinct_times(state.windows[used], self._assigner.slice_ms)
        over = used[(self._cleanup(self._assigner.last_ends(ends)) <= self._now)[places]]
        state.reset(over)
        state.forget(over)

    def _plan_next(self) -> None:
        """Find out when the next window is due, or is to be forgotten."""
        self.clock[DUE] = AFTER_ALL
        if self.windows is not None:
            due = self._fires(self.windows.windows[self.windows.index.used_slots()])
            later = due + self.windowing.allowed_lateness
            self._wait(np.where(due > self._now, due, later))
            return
        used = self.slices.index.used_slots()
        ends, _ = distinct_times(self.slices.windows[used], self._assigner.slice_ms)
        due = self._fires(self._assigner.spans(ends)[1])
        self._wait(due[due > self._now])

    def _wait(self, times: Array) -> None:
        if len(times):
            self.clock[DUE] = min(int(self.clock[DUE]), int(times.min()))

    def _fires(self, ends: Array) -> Array:
        """When windows that end then are due: at their last millisecond."""
        return to_instants(ends - 1, self._assigner.zone)

    def _cleanup(self, ends: Array) -> Array:
        """When windows that end then take no more rows."""
        return self._fires(ends) + self.windowing.allowed_lateness

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

    def _settle(self) -> None:
        assigner = self.windowing.assigner
        assert isinstance(assigner, Aligned)
        self._event_time = assigner.event_time
        self._assigner = assigner.staggered(max(0, int(self.clock[STAGGER]) - 1))
