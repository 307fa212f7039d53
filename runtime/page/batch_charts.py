"""The batches of a query as charts over time: what waits, how fast rows come, how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from aggloom.runtime.page.formatting import short
from aggloom.runtime.page.history import Batch
from aggloom.runtime.page.time_bars import NUMBERS, SIZES, SPANS, Scale, draw_bars, draw_rates
from aggloom.runtime.page.time_range import Bins, TimeRange

Values = list[float | None]
"""A value by bin; None where none is known."""
_SPARKLINE_BARS = 32
_RATE = Scale(lambda value: f"{short(value)}/s", NUMBERS.tops)


@dataclass(frozen=True)
class Chart:
    """A chart with its name, and its last and its highest value as texts."""

    name: str
    svg: Markup
    last: str
    highest: str


def chart_batches(batches: Sequence[Batch], time_range: TimeRange) -> list[Chart]:
    """The charts of the batches in a range, lag and throughput first."""
    visible = [batch for batch in batches if time_range.overlaps(batch)]
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
    recent = _list_timed(batches)[-_SPARKLINE_BARS:]
    if not recent:
        return Markup("")
    low, high = _find_span(recent)
    step = max(1, (high - low) // _SPARKLINE_BARS + 1)
    bins = Bins(low, step, (high - low) // step + 1)
    return Markup(draw_rates(_spread_evenly(recent, bins, lambda batch: batch.rows)))


def throughput(batches: Sequence[Batch]) -> float | None:
    """Rows a second from the begin of the first of some batches to the end of the last; None if it is not known."""
    timed = _list_timed(batches)
    if not timed:
        return None
    # Pauses between the batches count: the sum of their durations would give a rate that no source had.
    low, high = _find_span(timed)
    return 1000 * sum(batch.rows or 0 for batch in timed) / (high - low) if high > low else None


def _list_timed(batches: Sequence[Batch]) -> list[Batch]:
    """The batches with a known begin and known rows."""
    return [each for each in batches if each.start_ms is not None and each.rows is not None]


def _find_span(batches: Sequence[Batch]) -> tuple[int, int]:
    """The begin of the first and the end of the last of these batches, in milliseconds."""
    return min(batch.start_ms or 0 for batch in batches), max(batch.end_ms for batch in batches)


def _list_series(
    batches: Sequence[Batch], bins: Bins
) -> Iterator[tuple[str, Values, Scale, float | None]]:
    """Yield (name, values by bin, scale, the last value) of each chart."""
    for unit in sorted({unit for batch in batches for unit in batch.lag}):
        # u=unit: a lambda reads its names when it is called, after the loop has moved on.
        values, last = _take_highest(batches, bins, lambda batch, u=unit: batch.lag.get(u))  # type: ignore[misc]
        yield f"Lag: {unit} waiting", values, SIZES if unit == "bytes" else NUMBERS, last
    rows = [batch for batch in batches if batch.rows is not None]
    if rows:
        rate = throughput(rows[-1:])
        yield "Rows read a second", _spread_evenly(
            rows, bins, lambda batch: batch.rows
        ), _RATE, rate
    delays, last = _take_highest(batches, bins, lambda batch: batch.delay)
    yield "Watermark behind the clock", delays, SPANS, last
    durations, last = _take_highest(batches, bins, lambda batch: batch.duration_ms)
    yield "Time a batch takes", durations, SPANS, last
    changes = [batch for batch in batches if batch.changes is not None]
    if changes:
        values = _sum_by_bin(changes, bins, lambda batch: batch.changes)
        yield "Changes of the result", values, NUMBERS, float(changes[-1].changes or 0)


def _take_highest(
    batches: Sequence[Batch], bins: Bins, value_of: Callable[[Batch], float | None]
) -> tuple[Values, float | None]:
    """The highest value in each bin, and the last of all."""
    values: Values = [None] * bins.count
    last = None
    for batch in batches:
        value = value_of(batch)
        if value is None or batch.start_ms is None:
            continue
        last = value
        index = bins.index_of(batch.start_ms)
        if index is not None:
            values[index] = max(value, values[index] or 0)
    return values, last


def _sum_by_bin(
    batches: Sequence[Batch], bins: Bins, value_of: Callable[[Batch], float | None]
) -> Values:
    """The sum over the batches that begin in each bin."""
    values: Values = [None] * bins.count
    for batch in batches:
        index = bins.index_of(batch.start_ms or 0)
        if index is not None:
            values[index] = (values[index] or 0) + (value_of(batch) or 0)
    return values


def _spread_evenly(
    batches: Sequence[Batch], bins: Bins, value_of: Callable[[Batch], float | None]
) -> Values:
    """A value a second in each bin: a batch counts evenly over the time that it takes."""
    sums = [0.0] * bins.count
    for batch in batches:
        low, high = batch.start_ms or 0, max(batch.end_ms, (batch.start_ms or 0) + 1)
        rate = (value_of(batch) or 0) / (high - low)
        first = max(0, (low - bins.low) // bins.step)
        last = min(bins.count - 1, (high - 1 - bins.low) // bins.step)
        for index in range(first, last + 1):
            begin = bins.low + index * bins.step
            sums[index] += rate * (min(high, begin + bins.step) - max(low, begin))
    return [1000 * value / bins.step for value in sums]
