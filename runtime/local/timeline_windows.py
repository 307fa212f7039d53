"""The windows of a timeline's rows, and the rows behind each result, which operators know and do not emit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from aggloom.codegen.windows import (
    Assigner,
    Elements,
    Evictor,
    Trigger,
    TriggerResult,
    Windowing,
    to_instants,
    to_local,
)
from aggloom.runtime.local.timeline_story import Firing, Key, Merge, Row, Span, Story


class SpanBook:
    """The windows that rows went to, and what they emitted."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.assigner = story.node.windowing.assigner
        self.lateness = int(story.node.windowing.allowed_lateness)
        self.spans: dict[tuple[Key, int, int], Span] = {}

    def enter(self, rows: list[Row], gaps: Any, now: int) -> None:
        """Put rows into their windows."""
        staggered = getattr(self.assigner, "stagger", "aligned") != "aligned"
        own = type(self.assigner).assign_rows is not Assigner.assign_rows
        if not rows or staggered or own:
            # Each bucket staggers its windows by itself, and one's own look at rows: what they emit is known.
            return
        zone = self.story.zone
        times = to_local(np.array([row.place for row in rows], np.int64), zone)
        owners, starts, ends = self.assigner.assign(times)
        # A window stays until its lateness is over; only then is a row too late for it.
        live = to_instants(ends - 1, zone) + self.lateness > now
        bounds = to_instants(starts, zone), to_instants(ends, zone)
        live_flags: list[list[bool]] = [[] for _ in rows]
        for at, (owner, start, end) in enumerate(zip(owners, *bounds, strict=True)):
            live_flags[owner].append(bool(live[at]))
            if live[at]:
                self.span(rows[owner].key, int(start), int(end)).rows += 1
        for row, lives in zip(rows, live_flags, strict=True):
            # A hopping window may have gaps. A row in a gap is not late, it is in no window.
            row.outside, row.late = not lives, bool(lives) and not any(lives)

    def note_firing(self, key: Key, start: int, end: int, firing: Firing) -> None:
        """Note a change of a window."""
        self.span(key, start, end).firings.append(firing)

    def span(self, key: Key, start: int, end: int) -> Span:
        """The window of a key, made if it is not there."""
        span = self.spans.get((key, start, end))
        if span is None:
            span = self.spans[key, start, end] = Span(key, start, end)
            self.story.spans.append(span)
        return span


class Sessions(SpanBook):
    """Sessions, which grow and merge as the operators' do."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self.live: dict[Key, list[Span]] = defaultdict(list)

    def enter(self, rows: list[Row], gaps: Any, now: int) -> None:
        times = np.array([row.place for row in rows], np.int64)
        _, starts, ends = self.assigner.assign(times, gaps)
        for row, start, end in zip(rows, starts.tolist(), ends.tolist(), strict=True):
            row.until = end
            live = [each for each in self.live[row.key] if each.end - 1 + self.lateness > now]
            # Sessions that touch are one: a row at the end of a gap still continues it.
            touched = [each for each in live if each.start <= end and start <= each.end]
            # A late row that reaches into a live session is counted there.
            if not touched and end - 1 + self.lateness <= now:
                row.late = True
                continue
            span = self._grow_session(row, touched, start, end)
            self.live[row.key] = [each for each in live if each not in touched] + [span]
            span.rows += 1

    def _grow_session(self, row: Row, touched: list[Span], start: int, end: int) -> Span:
        if not touched:
            # The bounds are those of the row alone; they grow with each row that touches them.
            return self.span(row.key, start, end)
        first, *others = sorted(touched, key=lambda each: each.start)
        if others:
            merged = [Merge(each.start, each.end, row.number) for each in (first, *others)]
            # Merges of all its parts stay visible in the one that is left.
            first.merges = [each for span in (first, *others) for each in span.merges] + merged
        for other in others:
            self.story.spans.remove(other)
            first.rows += other.rows
            first.firings = sorted(first.firings + other.firings, key=lambda each: each.after)
        # Firings of a merged session are reported under its old bounds, and belong to the new one.
        known = [bounds for bounds, span in self.spans.items() if span in others]
        self.spans |= dict.fromkeys(known, first)
        first.start = min(start, first.start)
        first.end = max(end, *(each.end for each in touched))
        self.spans[row.key, first.start, first.end] = first
        return first


class ChangingSessions(SpanBook):
    """Sessions over changes, which are made of the times that have rows; keeps: a time may have debts."""

    def __init__(self, story: Story, keeps: bool) -> None:
        super().__init__(story)
        self.keeps = keeps
        self.gap = int(self.assigner.gap)  # type: ignore[attr-defined]
        self.fired: int | None = None
        """The watermark up to which sessions have fired."""
        self.times: dict[Key, Counter[int]] = defaultdict(Counter)

    def enter(self, rows: list[Row], gaps: Any, now: int) -> None:
        # Once for each watermark: several bundles may have the same one.
        if self.fired is None or now > self.fired:
            self._drop_over(now)
        self.fired = now
        for row in rows:
            times = self.times[row.key]
            row.until = row.place + self.gap
            is_over = row.until - 1 <= now
            # A row behind the watermark still counts if it joins a session that is not over.
            row.late = is_over and not any(abs(each - row.place) <= self.gap for each in times)
            # A retraction of nothing is dropped, unless the query keeps orphan retractions as a debt.
            if not row.late and (row.adds or self.keeps or times[row.place] > 0):
                times[row.place] += 1 if row.adds else -1
                if not times[row.place]:
                    del times[row.place]
                self._draw(row, times)

    def _drop_over(self, now: int) -> None:
        """Drop the times of sessions that are over: they were emitted when the watermark moved, and stay as drawn."""
        for times in self.times.values():
            for start, end in self._find(list(times)):
                for time in [each for each in times if start <= each < end and end - 1 <= now]:
                    del times[time]

    def _draw(self, row: Row, times: Counter[int]) -> None:
        """Draw the sessions of a row's key that have not fired as the row has made them."""
        # Sessions that fired are fixed; the others are drawn anew, as a row may join or split them.
        before = [each for each in self.story.spans if each.key == row.key and not each.firings]
        for each in before:
            self.story.spans.remove(self.spans.pop((row.key, each.start, each.end)))
        present = {time: count for time, count in times.items() if count > 0}
        for start, end in self._find(list(present)):
            span = self.span(row.key, start, end)
            span.rows = sum(count for time, count in present.items() if start <= time < end)
            inside = [each for each in before if start <= each.start and each.end <= end]
            span.merges = [merge for each in inside for merge in each.merges]
            if len(inside) > 1:
                span.merges += [Merge(each.start, each.end, row.number) for each in inside]

    def _find(self, times: list[int]) -> list[tuple[int, int]]:
        """The bounds of the sessions that times make, the first one first."""
        sessions: list[tuple[int, int]] = []
        for time in sorted(times):
            # A time exactly one gap behind the last still belongs to the session.
            if sessions and time <= sessions[-1][1]:
                sessions[-1] = sessions[-1][0], time + self.gap
            else:
                sessions.append((time, time + self.gap))
        return sessions


class Watch:
    """Records what trigger and evictor decide for windows that are not of time, and which rows the windows have."""

    def __init__(self, windowing: Windowing) -> None:
        trigger, evictor = windowing.trigger, windowing.evictor
        # Windows without a trigger never fire, and are refused before.
        assert trigger is not None
        self.windowing = replace(
            windowing,
            trigger=_Watched(trigger, self),
            evictor=None if evictor is None else _WatchedEvictor(evictor, self),
        )
        self.rows_by_key: dict[Key, list[Row]] = defaultdict(list)
        self.purged = False
        self.stays: list[list[bool]] = []
        self.row: Row | None = None
        self.added: list[Row] = []
        self.fired: set[Key] = set()

    def hold(self, row: Row) -> None:
        """A row comes to its window; with an evictor, a retraction takes an equal one away."""
        self.row, rows_of_key = row, self.rows_by_key[row.key]
        if row.adds or self.windowing.evictor is None:
            rows_of_key.append(row)
            return
        # The evictor keeps rows, so a retraction removes an equal one. Otherwise it is a row that subtracts.
        equal = next((each for each in rows_of_key if each.values == row.values), None)
        if equal is not None:
            rows_of_key.remove(equal)

    def take_covered(self, key: Key) -> tuple[int, ...]:
        """The rows that the firing of a key has just added up."""
        if key not in self.fired:
            # Each firing asks the evictor twice, in the order of the firings.
            before, *after = self.stays[2 * len(self.fired) :][:2] or [
                [True] * len(self.rows_by_key[key])
            ]
            self.added = _select_rows(self.rows_by_key[key], before)
            self.rows_by_key[key] = (
                _select_rows(self.added, after[0]) if after else list(self.added)
            )
        self.fired.add(key)
        return tuple(row.number for row in self.added)

    def end_step(self) -> None:
        """A step is over: forget what was evicted and purged."""
        key = None if self.row is None else self.row.key
        if key is not None and not self.fired and self.stays:
            # It fired, and what it emitted was the same.
            self.rows_by_key[key] = _select_rows(
                _select_rows(self.rows_by_key[key], self.stays[0]), self.stays[1]
            )
        if self.purged:
            # Without a row in this step, time did it, for all keys that fired.
            self.rows_by_key |= {each: [] for each in ({key} if key is not None else self.fired)}
        self.purged, self.stays, self.row, self.fired = False, [], None, set()


class _Watched(Trigger):
    """A trigger that tells a watch what it decides."""

    def __init__(self, inner: Trigger, watch: Watch) -> None:
        self.inner, self.watch = inner, watch
        # Merging and clearing decide nothing that is drawn.
        self.on_merge, self.clear = inner.on_merge, inner.clear  # type: ignore[method-assign]

    def on_element(self, *args: Any) -> TriggerResult:
        return self._note_result(self.inner.on_element, *args)

    def on_event_time(self, *args: Any) -> TriggerResult:
        return self._note_result(self.inner.on_event_time, *args)

    def on_processing_time(self, *args: Any) -> TriggerResult:
        return self._note_result(self.inner.on_processing_time, *args)

    def _note_result(self, ask: Callable[..., TriggerResult], *args: Any) -> TriggerResult:
        result = ask(*args)
        self.watch.purged |= result.purges
        return result


class _WatchedEvictor(Evictor):
    """An evictor that tells a watch which rows stay."""

    def __init__(self, inner: Evictor, watch: Watch) -> None:
        self.inner, self.watch = inner, watch

    def evict_before(self, elements: Elements, *args: Any) -> Any:
        return self._note_stays(self.inner.evict_before(elements, *args))

    def evict_after(self, elements: Elements, *args: Any) -> Any:
        return self._note_stays(self.inner.evict_after(elements, *args))

    def _note_stays(self, stays: Any) -> Any:
        self.watch.stays.append(np.asarray(stays).tolist())
        return stays


def _select_rows(rows: list[Row], stays: list[bool]) -> list[Row]:
    # The lists may differ by rows that arrived after the evictor was asked.
    return [row for row, stay in zip(rows, stays, strict=False) if stay]
