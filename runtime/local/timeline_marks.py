"""The marks of a timeline: shapes as SVG text, their colours in light and dark, and axes with round ticks."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html import escape

import numpy as np

from aggloom.codegen.windows import to_instants, to_local

LETTER = 6.9
"""The width of a letter of 11 px, as wide fonts have it."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
# Steps that people count in; a week and more are only approximate in months and years.
_STEPS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 182, 365, 730, 1825, 3650, 18250)),
)

_LIGHT = {
    "back": "fill:#ffffff",
    "ink": "fill:#1f2328",
    "dim": "fill:#59636e",
    "grid": "stroke:#d1d9e0",
    "axis": "stroke:#818b98",
    "row": "fill:#0969da;stroke:#0969da",
    "on": "fill:#ffffff",
    "taken": "fill:#ffffff;stroke:#0969da",
    "off": "fill:#0969da",
    "late": "fill:#ffffff;stroke:#d1242f",
    "wrong": "fill:#d1242f",
    "cross": "stroke:#d1242f",
    "tail": "stroke:#54aeff",
    "bar": "fill:#ddf4ff;stroke:#54aeff",
    "open": "fill:#f6f8fa;stroke:#818b98",
    "cover": "stroke:#0969da",
    "merge": "fill:none;stroke:#8250df",
    "fire": "fill:#1a7f37;stroke:#1a7f37",
    "again": "fill:#ffffff;stroke:#1a7f37",
    "mark": "stroke:#9a6700",
    "allowed": "stroke:#bf8700",
    "over": "fill:#fff8c5",
}
_DARK = {
    "back": "fill:#0d1117",
    "ink": "fill:#f0f6fc",
    "dim": "fill:#9198a1",
    "grid": "stroke:#2a313c",
    "axis": "stroke:#656c76",
    "row": "fill:#58a6ff;stroke:#58a6ff",
    "on": "fill:#0d1117",
    "taken": "fill:#0d1117;stroke:#58a6ff",
    "off": "fill:#58a6ff",
    "late": "fill:#0d1117;stroke:#f85149",
    "wrong": "fill:#f85149",
    "cross": "stroke:#f85149",
    "tail": "stroke:#316dca",
    "bar": "fill:#0b2a4d;stroke:#316dca",
    "open": "fill:#151b23;stroke:#656c76",
    "cover": "stroke:#58a6ff",
    "merge": "fill:none;stroke:#ab7df8",
    "fire": "fill:#3fb950;stroke:#3fb950",
    "again": "fill:#0d1117;stroke:#3fb950",
    "mark": "stroke:#d29922",
    "allowed": "stroke:#9e6a03",
    "over": "fill:#272115",
}


def style() -> str:
    """The style sheet of a picture; its rules hold below the class aggloom-timeline only."""
    fixed = {
        "text": "font:11px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif",
        ".name": "font-weight:600",
        ".big": "font-size:13px;font-weight:600",
        ".mid": "text-anchor:middle",
        ".end": "text-anchor:end",
        ".bold": "font-weight:600",
        ".gone": "text-decoration:line-through",
        ".axis,.grid,.tail,.mark,.allowed,.cross,.cover": "fill:none",
        ".cover": "stroke-width:1.5",
        ".grid": "stroke-width:1",
        ".tail": "stroke-width:3;stroke-opacity:.45",
        ".mark": "stroke-width:2;stroke-linejoin:round",
        ".allowed,.open": "stroke-dasharray:3 3",
        ".merge": "stroke-width:1.25",
        ".cross": "stroke-width:1.5;stroke-opacity:.7",
        ".taken,.late": "stroke-width:1.5",
    }
    rules = "".join(_rule(name, text) for name, text in fixed.items())
    # The style follows the reader's system, as a picture cannot know on which page it stands.
    return f"{rules}{_rules(_LIGHT)}@media(prefers-color-scheme:dark){{{_rules(_DARK)}}}"


def _rules(colours: dict[str, str]) -> str:
    return "".join(_rule(f".{name}", text) for name, text in colours.items())


def _rule(names: str, text: str) -> str:
    # A notebook has the style sheets of all its pictures in one page.
    scoped = ",".join(f".aggloom-timeline {name}" for name in names.split(","))
    return f"{scoped}{{{text}}}"


# Shapes


def number(value: float) -> str:
    """A coordinate in few letters."""
    # One digit is less than a pixel shows, and keeps documents small.
    return f"{value:.1f}".removesuffix(".0")


def safe(words: str) -> str:
    """A text as XML can hold it."""
    return escape(_NOT_XML.sub("\ufffd", words))


def element(name: str, css: str, title: str = "", **attributes: float | str) -> str:
    """A shape with a title that shows where the pointer rests on it."""
    attribute_texts = "".join(
        f' {key}="{number(value) if isinstance(value, int | float) else value}"'
        for key, value in attributes.items()
    )
    inside = f"><title>{safe(title)}</title></{name}>" if title else "/>"
    return f'<{name} class="{css}"{attribute_texts}{inside}'


def rect(
    css: str, left: float, top: float, right: float, bottom: float, rx: float, title: str = ""
) -> str:
    """A rounded box."""
    # A box without width would not be seen.
    size = {"x": left, "y": top, "width": max(right - left, 1), "height": bottom - top, "rx": rx}
    return element("rect", css, title, **size)


def circle(css: str, x: float, y: float, r: float, title: str = "") -> str:
    """A dot."""
    return element("circle", css, title, cx=x, cy=y, r=r)


def line(css: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """A straight line."""
    return element("path", css, d=f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}")


def path(css: str, d: str, title: str = "") -> str:
    """Lines of any form."""
    return element("path", css, title, d=d)


def diamond(css: str, x: float, y: float, r: float = 4) -> str:
    """The sign of a firing."""
    return path(css, f"M{number(x)} {number(y - r)}l{r} {r} -{r} {r} -{r} -{r}z")


def text(css: str, x: float, y: float, words: str) -> str:
    """A line of text."""
    return f'<text class="{css}" x="{number(x)}" y="{number(y)}">{safe(words)}</text>'


def wide(words: str) -> float:
    """Estimate the width of a text, in pixels, at most."""
    # Wide characters of East Asian scripts take the room of two letters.
    return LETTER * sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in words)


def clip_text(words: str, room: float) -> str:
    """Cut a text to the room that there is for it."""
    words = " ".join(words.split())
    if wide(words) <= room:
        return words
    while words and wide(words) + LETTER > room:
        words = words[:-1]
    return words + "…"


# Axes


class OrderAxis:
    """Rows side by side, in the order in which they arrived."""

    def __init__(self, numbers: Sequence[int], left: float, right: float) -> None:
        self._numbers = list(numbers)
        self._step = min(96.0, (right - left) / max(1, len(numbers)))
        self._left = left + self._step / 2

    def at(self, place: int) -> float:
        """Return the place of a row on the axis; a number between those of two rows is between them."""
        # A number between two rows precedes the next one, as a firing stands between its rows.
        return self._left + self._step * bisect_left(self._numbers, place)

    def ticks(self) -> list[tuple[float, str]]:
        """(place, label) of the ticks."""
        every = max(1, round(28 / self._step + 0.5))
        return [(self.at(n), str(n)) for at, n in enumerate(self._numbers) if at % every == 0]


class TimeAxis:
    """Milliseconds from `low` to `high`, with a little room; its ticks are round times on the clocks of a zone."""

    def __init__(self, low: int, high: int, left: float, right: float, zone: str) -> None:
        self.low, self.high, self.zone = low, max(high, low + 1), zone
        room = (right - left) / 62
        self._left, self._right = left + room, right - room
        self._ends = left, right

    def at(self, place: int) -> float:
        """Return the place of a time on the axis; times beyond it are at its ends."""
        if not self.low <= place <= self.high:
            return self._ends[place > self.high]
        return self._left + (place - self.low) * (self._right - self._left) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """(place, label) of the ticks."""
        # Ticks are round on the clocks of the zone, also where its offset is not a whole hour.
        first, last = (local(each, self.zone) for each in (self.low, self.high))
        room = (self._right - self._left) / 72
        step = next((each for each in _STEPS if (last - first) / each <= room), _STEPS[-1])
        # The first multiple of the step at or after the start; `-first % step` is never negative.
        times = np.arange(first + -first % step, last + 1, step, dtype=np.int64)
        places = to_instants(times, self.zone)
        dated = first // _DAY != (last - 1) // _DAY
        labels = [_label(int(each), step, dated) for each in times]
        pairs = zip(places.tolist(), labels, strict=True)
        return [(self.at(each), label) for each, label in pairs if self.low <= each <= self.high]


Axis = OrderAxis | TimeAxis


def local(ms: int, zone: str) -> int:
    """Convert an instant into the time on the clocks of a zone, in milliseconds."""
    return int(to_local(np.array([ms], np.int64), zone)[0])


def moment(ms: int, zone: str) -> str:
    """A time in words, no longer than it must be."""
    at = _date(local(ms, zone))
    if at is None:
        return f"{ms} ms"
    spoken = f"{at:%Y-%m-%d %H:%M}"
    if at.microsecond:
        return f"{spoken}:{at:%S}.{at.microsecond // 1000:03}"
    return f"{spoken}:{at:%S}" if at.second else spoken


def clock(ms: int, zone: str) -> str:
    """A time of day in words."""
    return moment(ms, zone).partition(" ")[2]


def _label(ms: int, step: int, dated: bool) -> str:
    at = _date(ms)
    if at is None:
        return str(ms)
    if step >= 365 * _DAY:
        return f"{at:%Y}"
    if step >= _DAY or (dated and ms % _DAY == 0):
        return f"{at:%b} {at.day}"
    if step >= _MINUTE:
        return f"{at:%H:%M}"
    if step >= _SECOND:
        return f"{at:%H:%M:%S}"
    return f"{at:%S}.{at.microsecond // 1000:03}"


def _date(ms: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(milliseconds=ms)
    # Python's dates end with the year 9999, event times do not.
    except OverflowError:
        return None
