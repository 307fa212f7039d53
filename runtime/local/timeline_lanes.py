"""One key of a timeline: its rows over a line, and below it the windows that they went to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from aggloom.runtime.local.timeline_marks import (
    LETTER,
    Axis,
    circle,
    clip_text,
    diamond,
    line,
    moment,
    number,
    path,
    rect,
    text,
    wide,
)
from aggloom.runtime.local.timeline_story import Firing, Key, Row, Span, Story

_PILL, _DOT = 18.0, 9.0
_BAR = 19.0
_GHOST = 9.0
_BRACKET = 27.0
_MOST_LEVELS = 6
_T = TypeVar("_T")


@dataclass
class Lane:
    """A key with what belongs to it; `draw` gives its shapes, `height` how high they are."""

    story: Story
    key: Key
    rows: list[Row]
    spans: list[Span]
    axis: Axis
    right: float
    labelled: bool

    def __post_init__(self) -> None:
        self._pills = list(_stack_items(self.rows, self._pill_bounds, _MOST_LEVELS))
        merges = [(span, merge) for span in self.spans for merge in span.merges]
        self._ghosts = list(
            _stack_items(merges, lambda each: self._ends(each[1].start, each[1].end, 0))
        )
        if self.story.by_order:
            self._marks = list(
                _stack_items(self._firings(), lambda each: self._bracket_bounds(each[0]))
            )
            self._bars: list[tuple[int, Span]] = []
        else:
            self._marks = []
            spans = sorted(self.spans, key=lambda span: (span.start, span.end))
            self._bars = list(_stack_items(spans, lambda span: self._ends(span.start, span.end, 0)))
        levels = _levels(self._bars)
        # Many levels are drawn thin, so that a key with many windows does not fill the picture.
        self._bar = _BAR if levels <= 8 else max(5.0, 8 * _BAR / levels)

    @property
    def height(self) -> float:
        """Height of the lane, in pixels."""
        return self._line + self._below + 12

    @property
    def _line(self) -> float:
        return 12 + _levels(self._pills) * self._pill_height + 2

    @property
    def _below(self) -> float:
        ghosts = _levels(self._ghosts) * _GHOST
        bars = _levels(self._bars) * (self._bar + 3)
        return 7 + ghosts + bars + _levels(self._marks) * _BRACKET

    @property
    def _pill_height(self) -> float:
        return (_PILL if self.labelled else _DOT) + 3

    def draw(self, left: float, top: float) -> list[str]:
        """The shapes of the lane."""
        # Rows are stacked upwards from the line, windows downwards below it.
        baseline = top + self._line
        y = baseline + 7
        parts = [line("axis", left, baseline, self.right, baseline)]
        parts += self._tails(baseline)
        parts += self._draw_pills(baseline)
        for level, (span, merge) in self._ghosts:
            x1, x2 = self._ends(merge.start, merge.end, 1)
            at = y + level * _GHOST
            text = (
                f"session {self._times(merge.start, merge.end)}, one with {self._times(span.start, span.end)} "
                f"since row {merge.row}"
            )
            parts.append(rect("merge", x1, at, x2, at + _GHOST - 3, 3, title=text))
        y += _levels(self._ghosts) * _GHOST
        for level, span in self._bars:
            parts += self._draw_bar(span, y + level * (self._bar + 3))
        y += _levels(self._bars) * (self._bar + 3)
        for level, (firing, holds) in self._marks:
            parts += self._draw_bracket(firing, holds, y + level * _BRACKET)
        return parts

    # Rows

    def _pill_bounds(self, row: Row) -> tuple[float, float]:
        half = (self._pill_width(row) if self.labelled else _DOT) / 2
        x = self.axis.at(row.place)
        return x - half - 1, x + half + 1

    def _pill_width(self, row: Row) -> float:
        return max(_PILL, wide(_pill_text(row)) + 8)

    def _tails(self, y: float) -> Iterator[str]:
        """Yield the lines that show how long each row keeps its session open."""
        if not self.story.node.windowing.assigner.merges:
            # Only sessions are kept open by their rows.
            return
        for row in self.rows:
            if row.until is not None and not row.late:
                x1, x2 = self.axis.at(row.place), self.axis.at(row.until)
                yield line("tail", x1, y, x2, y)

    def _draw_pills(self, baseline: float) -> list[str]:
        stems: list[str] = []
        pills: list[str] = []
        for level, row in self._pills:
            x = self.axis.at(row.place)
            y = baseline - 4 - (level + 0.5) * self._pill_height
            stems.append(line("axis", x, y, x, baseline))
            pills += self._pill(row, x, y)
        # Stems come first, so that no pill is crossed by the stem of another.
        return stems + pills

    def _pill(self, row: Row, x: float, y: float) -> Iterator[str]:
        css, ink = ("row", "on") if row.adds else ("taken", "off")
        if row.late or row.outside:
            css, ink = "late", "wrong"
        if not self.labelled:
            r = _DOT / 2
            yield circle(css, x, y, r, self._describe_row(row))
            if row.late:
                yield _draw_cross(x, y, r + 1)
        else:
            r = _PILL / 2
            half = self._pill_width(row) / 2
            yield rect(css, x - half, y - r, x + half, y + r, r, title=self._describe_row(row))
            if row.late:
                yield _draw_cross(x, y, r + 1)
            yield text(f"{ink} mid", x, y + 4, _pill_text(row))

    def _describe_row(self, row: Row) -> str:
        state = ", too late for its windows" if row.late else ""
        state = ", in no window" if row.outside else state
        return f"row {row.number}: {row.kind} {row.values}{state}"

    # Windows of time

    def _ends(self, start: int, end: int, gap: float) -> tuple[float, float]:
        return self.axis.at(start) + gap, self.axis.at(end) - gap

    def _draw_bar(self, span: Span, y: float) -> list[str]:
        x1, x2 = self._ends(span.start, span.end, 1)
        signs = ["fire" if holds else "again" for _, holds in span.results]
        css = "bar" if span.firings else "open"
        parts = [
            rect(css, x1, y, x2, y + self._bar, min(5, self._bar / 2), title=self._history(span))
        ]
        # A thin bar has no room for a text; its title has all of it.
        if self._bar < _BAR:
            return parts
        middle, x = y + self._bar / 2, x2 - 8
        # If not all signs fit, the last one says what holds now.
        if len(signs) > 4 or 10 * len(signs) + 8 > x2 - x1:
            signs = signs[-1:]
        for sign in reversed(signs):
            parts.append(diamond(sign, x, middle))
            x -= 10
        words, css = _results(span, x - x1 - 4)
        if words:
            parts.append(text(f"{css} end", x + 2, middle + 4, words))
        return parts

    def _history(self, span: Span) -> str:
        rows = "1 row" if span.rows == 1 else f"{span.rows} rows"
        text = f"window {self._times(span.start, span.end)}, {rows}: "
        if not span.firings:
            return text + "not emitted"
        return text + "; ".join(f"{each.kind} {each.text}" for each in span.firings)

    def _times(self, start: int, end: int) -> str:
        zone = self.story.zone
        return f"{moment(start, zone)} to {moment(end, zone)}"

    # Windows of rows

    def _firings(self) -> list[tuple[Firing, bool]]:
        # Only brackets over drawn rows can be drawn.
        drawn = {row.number for row in self.rows}
        return [
            (firing, holds)
            for span in self.spans
            for firing, holds in span.results
            if drawn & {*firing.rows}
        ]

    def _bracket_ends(self, firing: Firing) -> tuple[float, float]:
        x1, x2 = self.axis.at(firing.rows[0]), self.axis.at(firing.rows[-1])
        return x1 - 8, x2 + 8

    def _bracket_text(self, firing: Firing) -> tuple[float, str]:
        """Return the text of a bracket, after the place of its middle."""
        x1, x2 = self._bracket_ends(firing)
        # A bracket over few rows may be narrower than its text.
        words = clip_text(firing.text, max(x2 - x1 - 16, 110))
        half = wide(words) / 2 + 8
        return min((x1 + x2) / 2, self.right - half), words

    def _bracket_bounds(self, firing: Firing) -> tuple[float, float]:
        middle, words = self._bracket_text(firing)
        half = wide(words) / 2 + 10
        x1, x2 = self._bracket_ends(firing)
        return min(x1, middle - half), max(x2, middle + half)

    def _draw_bracket(self, firing: Firing, holds: bool, y: float) -> list[str]:
        x1, x2 = self._bracket_ends(firing)
        middle, words = self._bracket_text(firing)
        rows = ", ".join(map(str, firing.rows))
        caption = f"{firing.kind} {firing.text}, emitted after row {firing.after}: rows {rows}"
        # A tooth for each row, as others may lie between.
        teeth = sorted({self.axis.at(row) for row in firing.rows})
        d = f"M{number(x1 + 5)} {number(y + 8)}H{number(x2 - 5)}"
        d += "".join(f"M{number(x)} {number(y + 8)}v-6" for x in teeth)
        half = wide(words) / 2
        return [
            path("cover", d, caption),
            diamond("fire" if holds else "again", middle - half - 3, y + 17, 3.5),
            text("ink mid bold" if holds else "dim mid", middle + 4, y + 21, words),
        ]


def key_text(key: Key) -> str:
    """A key in words."""
    return ", ".join("NULL" if each is None else each for each in key)


def _draw_cross(x: float, y: float, reach: float) -> str:
    return line("cross", x - reach, y + reach, x + reach, y - reach)


def _pill_text(row: Row) -> str:
    words = row.label if len(row.label) <= 7 else row.label[:6] + "…"
    return words if row.adds else f"−{words}"


def _results(span: Span, room: float) -> tuple[str, str]:
    """Return the text of a bar's results that fits into `room` pixels, and its CSS class."""
    texts = [each.text for each, _ in span.results]
    if not texts:
        return ("open" if room > 4 * LETTER and not span.firings else ""), "dim"
    css = "dim gone" if span.firings[-1].kind == "-D" else "ink bold"
    # As many of the last results as fit: the older ones are left out first.
    for first in range(len(texts)):
        words = " → ".join([*(["…"] if first else []), *texts[first:]])
        if wide(words) <= room:
            return words, css
    words = clip_text(texts[-1], room)
    return (texts[-1] if wide(texts[-1]) <= room else words if len(words) > 3 else ""), css


def _stack_items(
    items: Iterable[_T], bounds: Callable[[_T], tuple[float, float]], most: int = 10**6
) -> Iterator[tuple[int, _T]]:
    """Each item with the lowest level on which it meets no other; at the most, where it meets them."""
    spans_by_level: list[list[tuple[float, float]]] = []
    for item in items:
        low, high = bounds(item)
        free = (
            level
            for level, there in enumerate(spans_by_level)
            # Half a pixel of overlap is no collision: neighbouring windows share their edge.
            if all(high <= a + 0.5 or b - 0.5 <= low for a, b in there)
        )
        # Beyond the last level things are drawn over each other rather than ever higher.
        level = min(next(free, len(spans_by_level)), most - 1)
        if level == len(spans_by_level):
            spans_by_level.append([])
        spans_by_level[level].append((low, high))
        yield level, item


def _levels(stacked: list[tuple[int, _T]]) -> int:
    return max((level + 1 for level, _ in stacked), default=0)
