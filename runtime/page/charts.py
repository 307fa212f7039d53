"""Pictures of batches and of windows, as SVG elements; their colours are those of the timeline's style sheet."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from aggloom.runtime.inspection import KeyWeight
from aggloom.runtime.local.timeline_marks import (
    OrderAxis,
    TimeAxis,
    clip_text,
    line,
    moment,
    path,
    rect,
    safe,
    text,
)
from aggloom.runtime.page.formatting import row

_WIDTH, _HEIGHT = 760, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 86, 12, 12, 28
_LANE = 26
_KEY, _LABEL = 210, 40
_UTC = "UTC"


def bars(name: str, unit: str, points: Sequence[tuple[int, float | None]]) -> str:
    """A number by batch, as bars: (batch, number or None); empty if no number is known."""
    known = [(batch, value) for batch, value in points if value is not None]
    if not known:
        return ""
    axis = OrderAxis([batch for batch, _ in points], _LEFT, _WIDTH - _RIGHT)
    top = _round_up(max(value for _, value in known))
    places = [axis.at(batch) for batch, _ in points]
    half = min([abs(b - a) for a, b in pairwise(places)] + [24.0]) * 0.4

    def height(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * max(value, 0) / top

    parts = []
    for share in (0, 0.5, 1):
        at = height(top * share)
        parts.append(line("grid", _LEFT, at, _WIDTH - _RIGHT, at))
        parts.append(text("dim end", _LEFT - 6, at + 4, f"{_short(top * share)} {unit}".strip()))
    for batch, value in known:
        x = axis.at(batch)
        title = f"batch {batch}: {_short(value)} {unit}".strip()
        parts.append(rect("row", x - half, height(value), x + half, _HEIGHT - _BOTTOM, 1, title))
    for x, label in axis.ticks():
        parts.append(text("dim mid", x, _HEIGHT - 10, label))
    last = known[-1]
    caption = (
        f"{name}, by batch: {len(known)} batches, from {known[0][0]} to {last[0]}; "
        f"the last {_short(last[1])} {unit}, the most {_short(max(v for _, v in known))} {unit}"
    )
    return _svg(caption, _HEIGHT, parts)


def windows(keys: Sequence[KeyWeight], watermark: dt.datetime | None) -> str:
    """The windows of keys as bars over time, a lane for each key, and the watermark; empty if there are none."""
    lanes = [(key, spans) for key in keys if (spans := [s for s in map(_span, key.windows) if s])]
    if not lanes:
        return ""
    mark = None if watermark is None else _epoch(watermark)
    every = [time for _, spans in lanes for start, end, _ in spans for time in (start, end)]
    # A watermark far away would leave no room for the windows.
    low, high = min(every), max(every)
    near = mark is not None and low - (high - low) <= mark <= high + (high - low)
    bounds = [*every, *([mark] if near and mark is not None else [])]
    axis = TimeAxis(min(bounds), max(bounds), _KEY, _WIDTH - _LABEL, _UTC)
    bottom = _TOP + _LANE * len(lanes)
    parts = []
    for x, label in axis.ticks():
        parts.append(line("grid", x, _TOP, x, bottom))
        parts.append(text("dim mid", x, bottom + 16, label))
    for number, (key, spans) in enumerate(lanes):
        y = _TOP + number * _LANE
        parts.append(text("ink", 4, y + 17, clip_text(row(key.key) or "all rows", _KEY - 12)))
        for start, end, rows in spans:
            title = f"{row(key.key)}: {moment(start, _UTC)} to {moment(end, _UTC)}"
            title += "" if rows is None else f", {rows:,} rows"
            parts.append(rect("bar", axis.at(start), y + 5, axis.at(end), y + _LANE - 3, 2, title))
    if near and mark is not None:
        x = axis.at(mark)
        title = f"watermark {moment(mark, _UTC)}"
        parts.append(path("mark", f"M{x:.1f} {_TOP}V{bottom}", title))
    count = sum(len(spans) for _, spans in lanes)
    caption = (
        f"{count} windows of {len(lanes)} keys, from {moment(low, _UTC)} to {moment(high, _UTC)}"
    )
    caption += "" if mark is None else f"; the watermark is {moment(mark, _UTC)}"
    return _svg(caption, bottom + 26, parts)


def _svg(text: str, height: int, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="aggloom-timeline" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{safe(text)}">'
    )
    return "\n".join([head, *parts, "</svg>"])


def _span(window: Any) -> tuple[int, int, int | None] | None:
    """Start and end of a window in milliseconds; None of one that has none in time."""
    ends = [_epoch(each) for each in (window.start, window.end)]
    return None if None in ends else (ends[0] or 0, ends[1] or 0, window.rows)


def _epoch(at: Any) -> int | None:
    if not isinstance(at, dt.datetime):
        return None
    known = at if at.tzinfo else at.replace(tzinfo=dt.UTC)
    return round(known.timestamp() * 1000)


def _round_up(value: float) -> float:
    """A round number that is not less."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 0.1
    return next(unit * each for each in _steps() if unit * each >= value)


def _steps() -> Iterator[float]:
    for power in range(20):
        yield from (10**power * each for each in (1, 2, 4, 5, 8))


def _short(value: float) -> str:
    """A number in few letters."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= unit:
            shown = value / (1e3 if name == "k" else unit)
            return f"{shown:,.1f}".removesuffix(".0") + name
    return f"{value:,.1f}".removesuffix(".0")
