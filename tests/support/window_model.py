"""Windowed aggregation in plain Python, one row at a time, written without looking at the operators.

It knows SUM(v), COUNT(*), MAX(v) and COUNT(DISTINCT v) by key and window under the built-in triggers, from Flink's
rules. A window keeps the values of its rows; what a retraction of a value that it does not hold
would bring, the model does not know: it raises Unjudged.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from aggloom.codegen.windows import (
    ContinuousTrigger,
    CountTrigger,
    Cumulate,
    DeltaTrigger,
    EventTimeTrigger,
    GlobalWindow,
    Hop,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Session,
    Tumble,
    Windowing,
)
from aggloom.runtime.values.clock import Clock

Change = tuple[Any, ...]
ENDLESS = 2**62
_EPOCH = dt.datetime(1970, 1, 1)


class Unjudged(Exception):
    """The model does not know what the operator should do."""


class Input(NamedTuple):
    """A row: whether it adds, its key, its event time and its value."""

    adds: bool
    key: str
    time: int
    value: int | None


class Pane:
    """A window of one key. end: by its instant, which is when it fires."""

    def __init__(self, key: str, local: tuple[int, int], end: int) -> None:
        self.key, self.local, self.end = key, local, end
        self.values: list[int | None] = []
        self.timers: dict[str, set[int]] = {"event": set(), "processing": set()}
        self.next: int | None = None
        self.patience: int | None = None
        self.seen = 0
        self.compared: int | None = None
        self.given: list[Change] = []

    @property
    def last(self) -> int:
        return self.end - 1


class WindowModel:
    """The windows of all keys; changes are (kind, key, start, end, sum, count, max, distinct)."""

    def __init__(self, windowing: Windowing, update_before: bool = True) -> None:
        self.windowing, self.update_before = windowing, update_before
        trigger = windowing.trigger
        self.purging = isinstance(trigger, PurgingTrigger)
        whole: Any = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
        self.timeout = whole if isinstance(whole, ProcessingTimeoutTrigger) else None
        self.trigger: Any = whole if self.timeout is None else self.timeout.inner
        self.event = windowing.assigner.event_time
        self.panes: list[Pane] = []
        self.clock = Clock()
        self.late: list[Input] = []
        self.orphans = 0
        self.out: list[Change] = []

    def process(self, rows: list[Input], clock: Clock) -> list[Change]:
        """Move the clock, then apply the rows one after the other."""
        self.out = []
        self.clock = Clock(*(max(a, b) for a, b in zip(self.clock, clock, strict=True)))
        self._run_timers()
        for row in rows:
            self._row(row)
            self._run_timers()
        return self.out

    def contents(self) -> list[Change]:
        """Rows that were emitted and can change."""
        return [row for pane in self.panes for row in pane.given]

    # Placing.

    def _row(self, row: Input) -> None:
        time = row.time if self.event else self.clock.processing
        accepted, windows = False, list(self._assign(time))
        for start, end, instant in windows:
            pane = self._pane(row.key, (start, end), instant)
            if pane is None:
                continue
            accepted = True
            self._apply(pane, row)
            if self._on_row_in_time(pane, row, time):
                self._fire(pane)
        if windows and not accepted:
            self.late.append(row)

    def _apply(self, pane: Pane, row: Input) -> None:
        if row.adds:
            pane.values.append(row.value)
        elif not pane.values:
            self.orphans += 1
        elif row.value not in pane.values:
            raise Unjudged
        else:
            pane.values.remove(row.value)

    def _assign(self, time: int) -> Iterator[tuple[int, int, int]]:
        """(start, end, instant of the end) of the windows of a time, by trying every place where one could start."""
        assigner: Any = self.windowing.assigner
        if isinstance(assigner, GlobalWindow):
            yield -ENDLESS, ENDLESS, ENDLESS
        elif isinstance(assigner, Session):
            yield time, time + assigner.gap, time + assigner.gap
        else:
            local = to_local(time, assigner.zone)
            for start, end in _align(assigner, local):
                yield start, end, to_instant(end - 1, assigner.zone) + 1

    def _pane(self, key: str, local: tuple[int, int], end: int) -> Pane | None:
        same = [p for p in self.panes if p.key == key]
        if isinstance(self.windowing.assigner, Session):
            return self._session(key, same, local)
        for pane in same:
            if pane.local == local:
                return pane
        return self._new(Pane(key, local, end))

    def _session(self, key: str, same: list[Pane], local: tuple[int, int]) -> Pane | None:
        touching = [p for p in same if p.local[0] <= local[1] and local[0] <= p.local[1]]
        touching.sort(key=lambda p: p.local)
        start = min([local[0], *(p.local[0] for p in touching)])
        end = max([local[1], *(p.local[1] for p in touching)])
        if len(touching) == 1 and touching[0].local == (start, end):
            return touching[0]
        whole = self._new(Pane(key, (start, end), end))
        if whole is None or not touching:
            return whole
        for pane in touching:
            self.panes.remove(pane)
            whole.values += pane.values
            # What was emitted for another window holds no longer.
            self.out += [("-D", *row) for row in pane.given]
        whole.seen = sum(p.seen for p in touching)
        self._after_merge(whole, [p.next for p in touching if p.next is not None])
        return whole

    def _new(self, pane: Pane) -> Pane | None:
        if self.event and pane.end < ENDLESS and self._cleanup(pane) <= self.clock.watermark:
            return None
        if pane.end < ENDLESS:
            pane.timers["event" if self.event else "processing"].add(self._cleanup(pane))
        self.panes.append(pane)
        return pane

    def _cleanup(self, pane: Pane) -> int:
        return pane.last + int(self.windowing.allowed_lateness)

    # Triggers.

    def _on_row_in_time(self, pane: Pane, row: Input, time: int) -> bool:
        fires = self._on_row(pane, row, time)
        if self.timeout is None:
            return fires
        if fires:
            self._forget(pane)
            return True
        if pane.patience is not None and self.timeout.resets:
            pane.timers["processing"].discard(pane.patience)
            pane.patience = None
        if pane.patience is None:
            pane.patience = self.clock.processing + self.timeout.timeout
            pane.timers["processing"].add(pane.patience)
        return False

    def _forget(self, pane: Pane) -> None:
        """All that the triggers of a window remember, and their timers; when the window ends stays."""
        times = {"event": {pane.last}, "processing": {pane.last, pane.patience, pane.next}}
        if isinstance(self.trigger, ContinuousTrigger):
            times["event"].add(pane.next or 0)
        kept = self._cleanup(pane), "event" if self.event else "processing"
        for domain, gone in times.items():
            pane.timers[domain] -= {t for t in gone if t is not None and (t, domain) != kept}
        pane.patience = pane.next = pane.compared = None
        pane.seen = 0

    def _on_row(self, pane: Pane, row: Input, time: int) -> bool:
        t = self.trigger
        if isinstance(t, DeltaTrigger):
            if row.value is None or not row.adds:
                return False
            before = pane.compared
            if before is None or abs(row.value - before) > t.threshold:
                pane.compared = row.value
                return before is not None
            return False
        if isinstance(t, CountTrigger):
            pane.seen += 1
            if pane.seen < t.count:
                return False
            pane.seen = 0
            return True
        if isinstance(t, EventTimeTrigger):
            over = pane.last <= self.clock.watermark
            if not over:
                pane.timers["event"].add(pane.last)
            return self._delay(pane, t.late or 0 if over else t.early)
        if isinstance(t, ProcessingTimeTrigger):
            pane.timers["processing"].add(pane.last)
            return self._delay(pane, t.early)
        if isinstance(t, ContinuousTrigger):
            if t.event_time and pane.last <= self.clock.watermark:
                return True
            self._end_of_continuous(pane)
            if pane.next is None:
                by = max(time, self.clock.watermark) if t.event_time else self.clock.processing
                self._multiple(pane, by)
        return False

    def _delay(self, pane: Pane, delay: int | None) -> bool:
        """Tell whether to fire at once; else, unless delay is None, set the timer to so much later by the clock."""
        if delay is None:
            return False
        if delay and pane.next is None:
            self._wait(pane, self.clock.processing + delay)
        return delay == 0

    def _end_of_continuous(self, pane: Pane) -> None:
        if self.trigger.event_time:
            pane.timers["event"].add(pane.last)
        elif pane.last > self.clock.processing:
            pane.timers["processing"].add(pane.last)

    def _multiple(self, pane: Pane, now: int) -> None:
        after = (now // self.trigger.interval + 1) * self.trigger.interval
        if not self.trigger.event_time or after < pane.last:
            self._wait(pane, after)

    def _wait(self, pane: Pane, time: int) -> None:
        by_event = isinstance(self.trigger, ContinuousTrigger) and self.trigger.event_time
        pane.next = time
        pane.timers["event" if by_event else "processing"].add(time)

    def _periodic(self, pane: Pane, time: int, every: int) -> None:
        while time <= self.clock.processing:
            time += every
        self._wait(pane, time)

    def _after_merge(self, pane: Pane, waiting: list[int]) -> None:
        t = self.trigger
        if isinstance(t, EventTimeTrigger) and pane.last > self.clock.watermark:
            pane.timers["event"].add(pane.last)
        if isinstance(t, ProcessingTimeTrigger):
            pane.timers["processing"].add(pane.last)
        if isinstance(t, ContinuousTrigger):
            self._end_of_continuous(pane)
        if waiting:
            self._wait(pane, min(waiting))

    def _on_timer(self, pane: Pane, domain: str, time: int) -> bool:
        t = self.trigger
        if isinstance(t, EventTimeTrigger):
            waited, pane.next = pane.next, None
            if domain == "event":
                pane.timers["processing"].discard(waited or 0)
                return time == pane.last or waited is not None
            if waited != time:
                pane.next = waited
                return False
            if t.early and pane.last > self.clock.watermark:
                self._periodic(pane, time, t.early)
            return True
        if isinstance(t, ProcessingTimeTrigger) and domain == "processing":
            if time != pane.last and pane.next == time:
                self._periodic(pane, time, t.early)
                return True
            return time == pane.last
        if isinstance(t, ContinuousTrigger) and domain == (
            "event" if t.event_time else "processing"
        ):
            if pane.next == time:
                pane.next = None
                clock = self.clock
                self._multiple(pane, clock.watermark if t.event_time else clock.processing)
                return True
            return time == pane.last
        return False

    def _run_timers(self) -> None:
        while True:
            due = self._due("event", self.clock.watermark)
            due = due or self._due("processing", self.clock.processing)
            if due is None:
                return
            time, pane, domain = due
            pane.timers[domain].remove(time)
            fires = self._on_timer(pane, domain, time)
            if self.timeout is not None:
                fires = True
                if self.timeout.clears:
                    self._forget(pane)
            if fires:
                self._fire(pane)
            ends = domain == ("event" if self.event else "processing")
            if ends and pane.end < ENDLESS and time == self._cleanup(pane):
                self.panes.remove(pane)

    def _due(self, domain: str, now: int) -> tuple[int, Pane, str] | None:
        """The next timer that is due; by the clock, a window is over when its last millisecond is."""
        due = [
            (time, number)
            for number, pane in enumerate(self.panes)
            for time in pane.timers[domain]
            if time + (domain == "processing" and time == pane.last) <= now
        ]
        if not due:
            return None
        time, number = min(due)
        return time, self.panes[number], domain

    # Results.

    def _fire(self, pane: Pane) -> None:
        known = [value for value in pane.values if value is not None]
        result: Change | None = None
        if pane.values:
            total = sum(known) if known else None
            most = max(known, default=None)
            result = (pane.key, *pane.local, total, len(pane.values), most, len(set(known)))
        if not self.windowing.updates:
            self.out += [] if result is None else [("+I", *result)]
        else:
            self._correct(pane, result)
        if self.purging:
            pane.values = []

    def _correct(self, pane: Pane, result: Change | None) -> None:
        same = None
        for row in pane.given:
            if result is not None and row[:3] == result[:3]:
                same = row
            else:
                self.out.append(("-D", *row))
        if result is not None and same is None:
            self.out.append(("+I", *result))
        elif result is not None and same is not None and result != same:
            if self.update_before:
                self.out.append(("-U", *same))
            self.out.append(("+U", *result))
        pane.given = [] if result is None else [result]


def _align(assigner: Any, local: int) -> Iterator[tuple[int, int]]:
    offset = assigner.offset
    if isinstance(assigner, Tumble):
        start = (local - offset) // assigner.size * assigner.size + offset
        yield start, start + assigner.size
    elif isinstance(assigner, Hop):
        first = (local - offset) // assigner.slide * assigner.slide + offset
        starts = [first - k * assigner.slide for k in range(assigner.size // assigner.slide + 2)]
        for start in reversed(starts):
            if start <= local < start + assigner.size:
                yield start, start + assigner.size
    else:
        assert isinstance(assigner, Cumulate)
        start = (local - offset) // assigner.size * assigner.size + offset
        for end in range(start + assigner.step, start + assigner.size + 1, assigner.step):
            if end > local:
                yield start, end


def to_local(ms: int, zone: str) -> int:
    """Convert an instant into the time on the clocks of a zone, in milliseconds."""
    shown = dt.datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)).replace(tzinfo=None)
    return round((shown - _EPOCH).total_seconds() * 1000)


def to_instant(local: int, zone: str) -> int:
    """The later of the instants at which the clocks show a time, or that at which they skip it."""
    shown = (_EPOCH + dt.timedelta(milliseconds=local)).replace(tzinfo=ZoneInfo(zone))
    early, late = (round(shown.replace(fold=fold).timestamp() * 1000) for fold in (0, 1))
    if to_local(late, zone) == local:
        return late
    low, high = min(early, late), max(early, late)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if to_local(middle, zone) > local else (middle + 1, high)
    return low
