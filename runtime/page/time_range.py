"""The part of a query's history that a page shows: all of it, or a span of time between earlier and later ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from aggloom.runtime.page.history import Batch

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_SPANS = (
    (_MINUTE, "1 minute"),
    (15 * _MINUTE, "15 minutes"),
    (_HOUR, "1 hour"),
    (6 * _HOUR, "6 hours"),
    (_DAY, "1 day"),
    (7 * _DAY, "7 days"),
)
_WHOLE_UP_TO = 2 * _HOUR
"""A history that is no longer is shown as a whole, unless another span is asked for; of a longer one the last hour."""

_STEPS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 182, 365)),
)
_MIN_BINS, _MAX_BINS = 12, 72


@dataclass(frozen=True)
class Bins:
    """Equal parts of a span of time, in milliseconds."""

    low: int
    step: int
    count: int

    @property
    def high(self) -> int:
        """The end of the last one."""
        return self.low + self.step * self.count

    def index_of(self, ms: int) -> int | None:
        """The part in which a time lies; None outside of all."""
        return (ms - self.low) // self.step if self.low <= ms < self.high else None


@dataclass(frozen=True)
class SpanChoice:
    """A span that a reader can choose; query: parameters of its address; is_current: the page shows it."""

    name: str
    query: str
    is_current: bool


@dataclass(frozen=True)
class TimeRange:
    """A span of time, in milliseconds; choices: other spans; earlier, later: parameters of an address, or empty."""

    low: int
    high: int
    choices: tuple[SpanChoice, ...] = ()
    earlier: str = ""
    later: str = ""

    def overlaps(self, batch: Batch) -> bool:
        """Tell whether a batch ran in it."""
        start = batch.start_ms
        return start is not None and start <= self.high and batch.end_ms >= self.low

    def cut(self, batches: int) -> Bins:
        """Its parts for bars, about as many as there are batches."""
        intervals = min(_MAX_BINS, max(_MIN_BINS, batches))
        span = max(1, self.high - self.low)
        step = next((each for each in _STEPS if span / each <= intervals), span // intervals)
        low = self.low - self.low % step
        return Bins(low, step, (self.high - low) // step + 1)


def range_of(batches: Sequence[Batch], query: Mapping[str, list[str]]) -> TimeRange | None:
    """The range that is asked for by `span` (seconds, 0 for all) and `end` (milliseconds); None without a time.

    A parameter that is no number counts as missing.
    """
    starts = [batch.start_ms for batch in batches if batch.start_ms is not None]
    if not starts:
        return None
    # The clock of the machine may have been set back, so the last batch need not end last.
    first, last = min(starts), max(batch.end_ms for batch in batches)
    whole = last - first
    span = _number(query, "span")
    if span is None:
        span = 0 if whole <= _WHOLE_UP_TO else _HOUR // 1000
    length = 1000 * span
    # A range that is longer than the history shows all of it.
    if not 0 < length < whole:
        return TimeRange(first, last, tuple(_choices(whole, 0)))
    end = _number(query, "end")
    # Kept within the history: a part of the range before the first batch, or behind the last, would be empty.
    high = last if end is None else min(max(end, first + length), last)
    earlier = (
        f"span={span}&end={max(high - length, first + length)}" if high - length > first else ""
    )
    # Without an end the page follows the newest batches, which is what the last step forward should lead to.
    later = "" if high >= last else f"span={span}"
    if high + length < last:
        later = f"span={span}&end={high + length}"
    return TimeRange(high - length, high, tuple(_choices(whole, length)), earlier, later)


def _choices(whole: int, length: int) -> Iterator[SpanChoice]:
    """Yield the spans that are shorter than the whole, and the whole."""
    for each, name in _SPANS:
        if each < whole:
            yield SpanChoice(name, f"span={each // 1000}", each == length)
    if whole > _SPANS[0][0]:
        yield SpanChoice("all", "span=0", length == 0)


def _number(query: Mapping[str, list[str]], name: str) -> int | None:
    text = query.get(name, [""])[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None
