"""Bars over time as an SVG element, which is as wide as the page, with letters of the same size on any screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from aggloom.runtime.local.timeline_marks import LETTER, TimeAxis, element, safe
from aggloom.runtime.page.formatting import duration, moment, short, size
from aggloom.runtime.page.time_range import Bins

_HEIGHT, _TOP, _BOTTOM = 140, 20, 22
_ALL_LABELLED = 12
_AXIS = 360.0
_NARROW_WIDTH, _LINE_HEIGHT = 250.0, 14
"""The width of the bars on a phone, and the height of a line."""
_MANY_BARS, _PEAK_TIMES = 8, 3.0
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000


@dataclass(frozen=True)
class Scale:
    """A kind of numbers. words: formats one; tops: yields the round ones at which an axis may end, in order."""

    words: Callable[[float], str]
    tops: Callable[[], Iterator[float]]


def _round_numbers() -> Iterator[float]:
    for power in count():
        yield from (each * 10.0**power for each in (1, 2, 4, 6, 8))


def _round_spans() -> Iterator[float]:
    yield from (n * p for p in (1, 10, 100) for n in (2, 4, 6, 8, 10))
    yield from (n * _SECOND for n in (2, 4, 6, 10, 20, 30, 40, 60))
    yield from (n * _MINUTE for n in (2, 4, 6, 10, 20, 30, 40, 60))
    yield from (n * _HOUR for n in (2, 4, 6, 12, 24))
    yield from (n * _DAY for n in _round_numbers())


def _round_sizes() -> Iterator[float]:
    yield from (
        n * 1024.0**power for power in count() for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    )


NUMBERS = Scale(short, _round_numbers)
SPANS = Scale(lambda ms: duration(round(ms)).replace(".0 ", " "), _round_spans)
SIZES = Scale(lambda number: size(round(number)).replace(".0 ", " "), _round_sizes)


def draw_bars(name: str, values: Sequence[float | None], bins: Bins, scale: Scale) -> str:
    """The values of bins as bars (None: no bar); empty if no value is known.

    A few bars that are far above the others are cut, and have their value as a label.
    """
    known = [(at, value) for at, value in enumerate(values) if value is not None]
    if not known:
        return ""
    limit = _find_limit([value for _, value in known])
    # A round number, so that the line in the middle has a round one too.
    top = next(each for each in scale.tops() if each >= limit)
    parts = [*_draw_grid(top, scale), *_draw_ticks(bins)]
    width = 100 / bins.count
    highest = max(known, key=lambda each: each[1])[0]
    labels = []
    for at, value in known:
        height = (_HEIGHT - _TOP - _BOTTOM) * min(max(value, 0) / top, 1)
        y = _HEIGHT - _BOTTOM - height
        title = f"{moment(bins.low + at * bins.step)}: {scale.words(value)}"
        left, right = _percent((at + 0.1) * width), _percent((at + 0.9) * width)
        if value > 0:
            # At least a pixel: a small value must not look like no value.
            parts.append(_draw_bar(left, y, 0.8 * width, max(height, 1.0), title))
        if value > top:
            parts.append(element("line", "cut", "", x1=left, x2=right, y1=y + 12, y2=y + 7))
        if value > top or at == highest or len(known) <= _ALL_LABELLED:
            labels.append(_Label((at + 0.5) * width, y - 5, scale.words(value), value))
    parts += _write_labels(labels)
    words = (
        f"{name} over time, from {moment(bins.low)} to {moment(bins.high)}: "
        f"the last {scale.words(known[-1][1])}, the highest {scale.words(values[highest] or 0)}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="aggloom-timeline bars" height="{_HEIGHT}" role="img"'
    return "\n".join([f'{head} aria-label="{safe(words)}">', *parts, "</svg>"])


def draw_rates(values: Sequence[float | None]) -> str:
    """Rows a second as small bars without an axis; empty if none is known."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    # All values may be 0, and heights are shares of the highest.
    top = max(_find_limit(known), 1e-9)
    width = 100 / len(values)
    parts = []
    for at, value in enumerate(values):
        if value:
            height = 24 * min(value / top, 1)
            parts.append(_draw_bar(_percent((at + 0.1) * width), 26 - height, 0.8 * width, height))
    head = '<svg xmlns="http://www.w3.org/2000/svg" class="aggloom-timeline spark" height="28" role="img"'
    return "\n".join([f'{head} aria-label="Rows a second, in the last batches">', *parts, "</svg>"])


def _draw_bar(left: str, y: float, width: float, height: float, title: str = "") -> str:
    """A bar; left: as "12.00%"; width: in per cent."""
    place = {"x": left, "width": _percent(width)}
    return element("rect", "row", title, **place, y=y, height=height, rx=1.0)


def _find_limit(values: Sequence[float]) -> float:
    """The value up to which bars are drawn: the highest, unless it would flatten nearly all others."""
    some = sorted(value for value in values if value > 0)
    if not some:
        return 0.0
    # The 90th percentile, not the mean, which the few values far above would raise.
    usual = some[int(0.9 * (len(some) - 1))]
    return 1.25 * usual if len(some) >= _MANY_BARS and some[-1] > _PEAK_TIMES * usual else some[-1]


def _draw_grid(top: float, scale: Scale) -> Iterator[str]:
    for share in (0.0, 0.5, 1.0):
        y = _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share
        yield element("line", "grid", "", x1="0%", x2="100%", y1=y, y2=y)
        yield f'<text class="dim end" x="-8" y="{y + 4:.0f}">{safe(scale.words(top * share))}</text>'


def _draw_ticks(bins: Bins) -> Iterator[str]:
    axis = TimeAxis(bins.low, bins.high, 0.0, _AXIS, "UTC")
    first, last = axis.at(bins.low), axis.at(bins.high)
    for place, label in axis.ticks():
        x = 100 * (place - first) / (last - first)
        yield element(
            "line",
            "grid",
            "",
            x1=_percent(x),
            x2=_percent(x),
            y1=_HEIGHT - _BOTTOM,
            y2=_HEIGHT - _BOTTOM + 4,
        )
        yield f'<text class="dim {_anchor(x)}" x="{_percent(x)}" y="{_HEIGHT - 5}">{safe(label)}</text>'


@dataclass(frozen=True)
class _Label:
    """A value above its bar; x: per cent of the width; y: pixels from the top."""

    x: float
    y: float
    words: str
    value: float

    def overlaps(self, other: _Label) -> bool:
        """Tell whether two labels would overlap on a narrow screen."""
        room = 100 * LETTER * (len(self.words) + len(other.words) + 2) / 2 / _NARROW_WIDTH
        return abs(self.x - other.x) < room and abs(self.y - other.y) < _LINE_HEIGHT


def _write_labels(labels: Sequence[_Label]) -> Iterator[str]:
    """Yield the values for which there is room, the highest first."""
    written: list[_Label] = []
    for label in sorted(labels, key=lambda each: -each.value):
        if not any(map(label.overlaps, written)):
            written.append(label)
            css, x = f"ink {_anchor(label.x)} value", _percent(label.x)
            yield f'<text class="{css}" x="{x}" y="{label.y:.0f}">{safe(label.words)}</text>'


def _anchor(x: float) -> str:
    """The anchor of a text that keeps it inside the picture."""
    return "start" if x < 5 else "end" if x > 95 else "mid"


def _percent(value: float) -> str:
    return f"{value:.2f}%"
