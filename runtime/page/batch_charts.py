"""The batches of a query as charts over time: what waits, how fast rows come, how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from aggloom.runtime.page.formatting import short
from aggloom.runtime.page.history import Batch
from aggloom.runtime.page.time_bars import NUMBERS, SIZES, SPANS, Scale, draw_bars, draw_rates
from aggloom.runtime.page.time_range import Bins, TimeRange, end_of

Values = list[float | None]
_SPARK = 32
_RATE = Scale(lambda value: f"{short(value)}/s", NUMBERS.tops)


@dataclass(frozen=True)
class Chart:
    """A chart, its name, and in words its last value and its highest."""

    name: str
    svg: Markup
    last: str
    highest: str


def chart_batches(batches: Sequence[Batch], time_range: TimeRange) -> list[Chart]:
    """The charts of the batches in a range, lag and throughput first."""
    visible = [batch for batch in batches if time_range.holds(batch)]
    bins = time_range.cut(len(visible))
    charts = []
    for name, values, scale, last in _list_series(visible, bins):
        known = [value for value in values if value is not None]
        svg = draw_bars(name, values, bins, scale)
        if svg and last is not None:
            highest = scale.words(max([*known, last]))
            charts.append(Chart(name, Markup(svg), scale.words(last), highest))
    return charts


def draw_throughput(batches: Sequence[Batch]) -> Markup:
    """The rows a second of the newest batches as small bars."""
    known = [batch for batch in batches if batch.at is not None and batch.rows is not None]
    recent = known[-_SPARK:]
    if not recent:
        return Markup("")
    low, high = min(batch.at or 0 for batch in recent), max(map(end_of, recent))
    step = max(1, (high - low) // _SPARK + 1)
    bins = Bins(low, step, (high - low) // step + 1)
    values = _spread(recent, bins, lambda batch: batch.rows)
    return Markup(draw_rates(values))


def throughput(batches: Sequence[Batch]) -> float | None:
    """Rows a second from the begin of the first of some batches to the end of the last; None if it is not known."""
    known = [batch for batch in batches if batch.at is not None and batch.rows is not None]
    if not known:
        return None
    # From begin to end, with the pauses between batches: the sum of their times would tell of a rate that no source
    # had.
    took = max(map(end_of, known)) - min(batch.at or 0 for batch in known)
    return 1000 * sum(batch.rows or 0 for batch in known) / took if took > 0 else None


def _list_series(
    batches: Sequence[Batch], bins: Bins
) -> Iterator[tuple[str, Values, Scale, float | None]]:
    """Yield (name, value by part of the time, scale, the last value) of each chart."""
    for unit in sorted({unit for batch in batches for unit in batch.lag}):
        # u=unit: a lambda reads its names when it is called, which is after the loop has gone on.
        values, last = _take(batches, bins, lambda batch, u=unit: batch.lag.get(u))  # type: ignore[misc]
        yield f"Lag: {unit} waiting", values, SIZES if unit == "bytes" else NUMBERS, last
    rows = [batch for batch in batches if batch.rows is not None]
    if rows:
        rate = throughput(rows[-1:])
        yield "Rows read a second", _spread(rows, bins, lambda batch: batch.rows), _RATE, rate
    delays, last = _take(batches, bins, lambda batch: batch.delay)
    yield "Watermark behind the clock", delays, SPANS, last
    took, last = _take(batches, bins, lambda batch: batch.took)
    yield "Time a batch takes", took, SPANS, last
    changes = [batch for batch in batches if batch.changes is not None]
    if changes:
        values = _sum(changes, bins, lambda batch: batch.changes)
        yield "Changes of the result", values, NUMBERS, float(changes[-1].changes or 0)


def _take(
    batches: Sequence[Batch], bins: Bins, value_of: Callable[[Batch], float | None]
) -> tuple[Values, float | None]:
    """The highest value in each part of the time, None where there is none, and the last of all."""
    values: Values = [None] * bins.count
    last = None
    for batch in batches:
        value = value_of(batch)
        if value is None or batch.at is None:
            continue
        last = value
        place = bins.place(batch.at)
        if place is not None:
            values[place] = max(value, values[place] or 0)
    return values, last


def _sum(batches: Sequence[Batch], bins: Bins, value_of: Callable[[Batch], float | None]) -> Values:
    """The sum over the batches that begin in each part of the time."""
    values: Values = [None] * bins.count
    for batch in batches:
        place = bins.place(batch.at or 0)
        if place is not None:
            values[place] = (values[place] or 0) + (value_of(batch) or 0)
    return values


def _spread(
    batches: Sequence[Batch], bins: Bins, value_of: Callable[[Batch], float | None]
) -> Values:
    """A value a second in each part of the time: a batch counts evenly over the time that it takes."""
    sums = [0.0] * bins.count
    for batch in batches:
        low, high = batch.at or 0, max(end_of(batch), (batch.at or 0) + 1)
        each = (value_of(batch) or 0) / (high - low)
        first = max(0, (low - bins.low) // bins.step)
        last = min(bins.count - 1, (high - 1 - bins.low) // bins.step)
        for place in range(first, last + 1):
            begin = bins.low + place * bins.step
            sums[place] += each * (min(high, begin + bins.step) - max(low, begin))
    return [1000 * value / bins.step for value in sums]
