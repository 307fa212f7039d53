"""Charts of windows as SVG elements, which the style sheet of the timeline colours."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from aggloom.runtime.inspection import KeyWeight
from aggloom.runtime.local.timeline_marks import (
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

_WIDTH, _TOP = 760, 12
_LANE = 26
_KEY, _LABEL = 210, 40
_UTC = "UTC"


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
            left, right = axis.at(start), axis.at(end)
            parts.append(rect("bar", left, y + 5, right, y + _LANE - 3, rx=2, title=title))
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
    """(start, end, rows) of a window, in milliseconds; None if it is not one of time."""
    ends = [_epoch(each) for each in (window.start, window.end)]
    return None if None in ends else (ends[0] or 0, ends[1] or 0, window.rows)


def _epoch(at: Any) -> int | None:
    if not isinstance(at, dt.datetime):
        return None
    known = at if at.tzinfo else at.replace(tzinfo=dt.UTC)
    return round(known.timestamp() * 1000)
