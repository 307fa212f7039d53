"""Windows as a picture: rows, windows, merges, watermarks and firings, as SVG for light and dark pages.

A lane for each key: its rows over a line, below them their windows as bars that end with what they emitted; where
windows are not of time, brackets under the rows of each result. Below the lanes of event time stand all rows in the
order in which they arrived, downwards, and the watermark, which passes the end of a window where its result comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from aggloom.codegen.planner import Plan
from aggloom.errors import AggloomError, nearest
from aggloom.runtime.local.pipeline import Handlers
from aggloom.runtime.local.timeline_lanes import Lane, key_text
from aggloom.runtime.local.timeline_marks import (
    Axis,
    OrderAxis,
    TimeAxis,
    circle,
    clip_text,
    diamond,
    line,
    moment,
    number,
    path,
    rect,
    safe,
    style,
    text,
    wide,
)
from aggloom.runtime.local.timeline_player import story_of
from aggloom.runtime.local.timeline_story import Row, Span, Story
from aggloom.runtime.values.clock import AFTER_ALL

_MARGIN = 16
_HEAD = 56
_LABELLED_ROWS = 60


@dataclass(frozen=True)
class Timeline:
    """A picture of what windows did: a notebook shows it, `save` writes it to a file.

    keys, rows: how many are drawn at most, of the keys the first, of the rows the last.
    """

    story: Story
    width: int = 760
    keys: int = 8
    rows: int = 200
    title: str | None = None

    @property
    def svg(self) -> str:
        """The picture as an SVG document without scripts."""
        return _Picture(self).text()

    def save(self, path: str | Path) -> None:
        """Write the picture to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.svg}</div>'


def timeline(
    plan: Plan,
    handler_of: Handlers,
    history: Sequence[tuple[str, Any]],
    parts: dict[str, Any],
    *,
    label: str | None = None,
    **options: Any,
) -> Timeline:
    """The timeline of what a harness has seen.

    label: the column whose values stand on the rows (default: the first that is aggregated). options: width, keys and
    rows (how many are drawn), title. Raises AggloomError unless the plan has one window aggregate.
    """
    known = [each.name for each in fields(Timeline) if each.name != "story"]
    for name in options:
        if name not in known:
            hint = nearest(name, [*known, "label"])
            raise AggloomError(f"timeline: there is no option {name!r}. {hint}")
    return Timeline(story_of(plan, handler_of, history, label, **parts), **options)


class _Picture:
    """One drawing of a story."""

    def __init__(self, timeline: Timeline) -> None:
        self.story, self.width, self.title = timeline.story, timeline.width, timeline.title
        self.right = timeline.width - _MARGIN
        # The newest rows explain the state; `[-0:]` would be all of them.
        recent = self.story.rows[-timeline.rows :] if timeline.rows else []
        since = recent[0].number if recent else 0
        every = self.story.keys
        # Without any recent row the keys are still drawn, with their windows.
        self.keys = [key for key in every if any(row.key == key for row in recent)] or every
        self.keys = self.keys[: timeline.keys]
        self.rows = [row for row in recent if row.key in self.keys]
        self.hidden = self._describe_hidden(len(every) - len(self.keys), since - 1)
        self.spans = [span for span in self.story.spans if self._is_drawn(span, since)]
        widest = max((wide(key_text(key)) for key in self.keys), default=0)
        # Names of keys get a sixth of the picture at most, and are cut beyond that.
        self.left = _MARGIN + min(150.0, max(widest + 14, 54))
        self.axis = self._axis()

    def text(self) -> str:
        """The whole document."""
        parts, y = self._lanes(_HEAD)
        if self._has_strip:
            strip, y = self._strip(y)
            parts += strip
        legend, y = self._legend(y)
        height = y + 6
        name = self.story.node.windowing.text
        sizes = f'width="{self.width}" height="{number(height)}" viewBox="0 0 {self.width} {number(height)}"'
        head = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="aggloom-timeline" {sizes} '
            f'role="img" aria-label="{safe(self._describe())}">',
            f"<title>{safe(self.title or name)}</title>",
            f"<desc>{safe(self._describe())}</desc>",
            f"<style>{style()}</style>",
            rect("back", 0, 0, self.width, height, 0),
            text(
                "ink big", _MARGIN, 24, clip_text(self.title or name, (self.right - _MARGIN) * 0.84)
            ),
            text("dim", _MARGIN, 42, clip_text(self._subtitle(), self.right - _MARGIN)),
        ]
        return "\n".join([*head, *parts, *legend, "</svg>", ""])

    def _is_drawn(self, span: Span, since: int) -> bool:
        if span.key not in self.keys:
            return False
        # Windows of order have no times that could be compared with those of the rows.
        if since <= 1 or self.story.by_order or any(each.after >= since for each in span.firings):
            return True
        return any(span.start <= row.place < span.end for row in self.rows)

    def _describe_hidden(self, keys: int, rows: int) -> str:
        parts = [
            f"{n} {what}" for n, what in ((keys, "more keys"), (rows, "earlier rows")) if n > 0
        ]
        return f"Not drawn: {', '.join(parts)}." if parts else ""

    def _axis(self) -> Axis:
        left = self.left
        if self.story.by_order:
            return OrderAxis([row.number for row in self.rows], left, self.right)
        places = [row.place for row in self.rows]
        places += [row.until for row in self.rows if row.until is not None]
        places += [place for span in self.spans for place in (span.start, span.end)]
        if not places:
            # An axis needs two ends even if nothing is drawn on it.
            return TimeAxis(0, 1, left, self.right, self.story.zone)
        low, high = min(places), max(places)
        # A watermark a little beyond the windows is worth its room.
        beyond = [m.watermark for m in self.story.marks if m.watermark <= high + (high - low) // 8]
        high = max(high, *beyond, low + 1)
        return TimeAxis(low, high, left, self.right, self.story.zone)

    def _lanes(self, y: float) -> tuple[list[str], float]:
        """The keys, each over the next, and the ticks of their axis."""
        labelled = len(self.rows) <= _LABELLED_ROWS and any(row.label for row in self.rows)
        lanes = []
        for key in self.keys:
            rows = [row for row in self.rows if row.key == key]
            spans = [span for span in self.spans if span.key == key]
            lanes.append(
                Lane(self.story, key, rows, spans, self.axis, self.right, labelled=labelled)
            )
        bottom = y + sum(lane.height for lane in lanes)
        ticks = self.axis.ticks()
        parts = [line("grid", x, y, x, bottom) for x, _ in ticks]
        parts.append(line("grid", _MARGIN, y, self.right, y))
        for lane in lanes:
            words = (
                clip_text(key_text(lane.key), self.left - _MARGIN - 8) if lane.key else "all rows"
            )
            css = "ink name" if lane.key else "dim"
            parts += ["<g>", f"<title>{safe(key_text(lane.key))}</title>"]
            parts += [text(css, _MARGIN, y + lane.height / 2 + 4, words), "</g>"]
            parts += lane.draw(self.left, y)
            y += lane.height
            parts.append(line("grid", _MARGIN, y, self.right, y))
        for x, label in ticks:
            half = wide(label) / 2
            # Labels at the ends stay inside of the picture.
            parts.append(text("dim mid", min(max(x, half), self.width - half - 2), y + 15, label))
        return parts, y + 24

    # Event time and the order of arrival

    @property
    def _has_strip(self) -> bool:
        return self.story.node.windowing.assigner.event_time and not self.story.by_order

    def _strip(self, top: float) -> tuple[list[str], float]:
        """All rows as they arrived, downwards, and the watermark after each of them."""
        # The strip stays within about a screen, however many rows there are.
        step = min(14.0, max(3.0, 224 / max(1, len(self.rows))))
        places = {row.number: top + 16 + (at + 0.5) * step for at, row in enumerate(self.rows)}
        bottom = top + 16 + len(self.rows) * step + 10
        first = self.rows[0].number if self.rows else 1

        def below(after: int) -> float:
            """The height between a row and the next."""
            # Rows that are not drawn do not move the place of a mark.
            done = sum(1 for row in self.rows if row.number <= after)
            return top + 16 + done * step

        parts = [text("dim", _MARGIN, top + 12, "arrival")]
        marks = [mark for mark in self.story.marks if mark.after >= first - 1]
        earlier = [mark for mark in self.story.marks if mark.after < first - 1]
        # The watermark before the first drawn row is where its line begins.
        marks = [*(mark._replace(after=first - 1) for mark in earlier[-1:]), *marks]
        lateness = int(self.story.node.windowing.allowed_lateness)
        passed = [(below(mark.after), mark.watermark) for mark in marks]
        caption = f"the watermark, at last {self._time(marks[-1].watermark)}" if marks else ""
        steps = self._steps(passed, bottom)
        if steps:
            area = f"{steps}V{number(bottom)}H{number(self.left)}z"
            parts.append(path("over", area, "times that the watermark has passed"))
        parts += [line("grid", x, top + 4, x, bottom) for x, _ in self.axis.ticks()]
        # The same line, moved back by the lateness: what ends before it takes no more rows.
        allowed = self._steps([(y, at - lateness) for y, at in passed], bottom)
        if lateness and allowed:
            parts.append(path("allowed", allowed, "windows that end before it take no more rows"))
        if steps:
            parts.append(path("mark", steps, caption))
        for span in self.spans:
            for firing, holds in span.results:
                # A firing before the first drawn row has no place in the strip.
                if firing.after >= first - 1:
                    x, y = self.axis.at(span.end), below(firing.after)
                    parts.append(diamond("fire" if holds else "again", x, y, 3))
        # Numbers need eleven pixels each, so narrow steps show only some of them.
        every = max(1, -(-11 // round(step)))
        for at, row in enumerate(self.rows):
            parts += self._arrival(row, places[row.number], step)
            if at % every == 0:
                parts.append(
                    text("dim end", self.left - 10, places[row.number] + 4, str(row.number))
                )
        parts.append(line("grid", _MARGIN, bottom, self.right, bottom))
        return parts, bottom + 4

    def _steps(self, marks: list[tuple[float, int]], bottom: float) -> str:
        """The line of a watermark from where it comes to the axis, down to the bottom or to the axis' end."""
        assert isinstance(self.axis, TimeAxis)
        visible = [mark for mark in marks if mark[1] > self.axis.low]
        d = ""
        for y, place in visible:
            d += f"V{number(y)}" if d else f"M{number(self.left)} {number(y)}"
            d += f"H{number(self.axis.at(place))}"
        return d + f"V{number(bottom)}" if d and visible[-1][1] < self.axis.high else d

    def _arrival(self, row: Row, y: float, step: float) -> list[str]:
        x, r = self.axis.at(row.place), min(3.5, step / 2)
        text = f"row {row.number}: {row.kind} {row.values}"
        css = "row" if row.adds else "taken"
        if not row.late:
            return [circle(css, x, y, r, text)]
        d = f"M{number(x - r)} {number(y - r)}l{2 * r:g} {2 * r:g}m0 -{2 * r:g}l-{2 * r:g} {2 * r:g}"
        return [path("cross", d, f"{text}, too late")]

    # Words

    def _subtitle(self) -> str:
        node = self.story.node
        calls = ", ".join(call.text for call in node.spec.calls) or "no calls"
        keys = f" by {', '.join(node.keys)}" if node.keys else ""
        return f"{calls}{keys} · {self._describe_axis()}"

    def _describe_axis(self) -> str:
        if self.story.by_order:
            return "rows in the order of their arrival"
        kind = "event time" if self.story.node.windowing.assigner.event_time else "processing time"
        assert isinstance(self.axis, TimeAxis)
        days = [moment(at, self.story.zone)[:10] for at in (self.axis.low, self.axis.high - 1)]
        return f"{kind}, {' to '.join(dict.fromkeys(days))}, {self.story.zone}"

    def _describe(self) -> str:
        """The picture in words."""
        story = self.story
        late = sum(row.late for row in story.rows)
        firings = sum(f.kind in ("+I", "+U") for span in story.spans for f in span.firings)
        return (
            f"{story.node.windowing.text}: {len(story.rows)} rows of {len(story.keys)} keys, {late} of them late, "
            f"{firings} results emitted"
        )

    def _time(self, ms: int) -> str:
        return "the end of all input" if ms >= AFTER_ALL else moment(ms, self.story.zone)

    def _legend(self, y: float) -> tuple[list[str], float]:
        """Draw the legend of the signs in the picture below `y`; return its parts and the height where it ends."""
        x, middle, parts = float(_MARGIN), y + 12, []
        for shape, css, words in self._signs():
            # The estimate of a width is an upper bound, and legends use common letters, which are narrower.
            need = 22 + 0.86 * wide(words)
            if x + need > self.right:
                x, middle = float(_MARGIN), middle + 17
            parts += [*_sign(shape, css, x, middle), text("dim", x + 18, middle + 4, words)]
            x += need + 10
        if self.hidden:
            middle += 17
            parts.append(text("dim", _MARGIN, middle + 4, self.hidden))
        return parts, middle + 10

    def _signs(self) -> list[tuple[str, str, str]]:
        """(shape, style, words) of the legend."""
        rows, spans, bars = self.rows, self.spans, not self.story.by_order
        holds = {holds for span in spans for _, holds in span.results}
        marked = self._has_strip and bool(self.story.marks)
        lateness = bool(self.story.node.windowing.allowed_lateness)
        listed = [
            ("dot", "row", "row", any(row.adds for row in rows)),
            ("dot", "taken", "retracted", any(not row.adds for row in rows)),
            ("crossed", "late", "late", any(row.late for row in rows)),
            ("dot", "late", "in no window", any(row.outside for row in rows)),
            ("box", "bar", "window", bars and any(span.firings for span in spans)),
            ("box", "open", "window not emitted", bars and not all(s.firings for s in spans)),
            ("box", "merge", "sessions that became one", any(span.merges for span in spans)),
            ("bracket", "cover", "rows of a result", not bars and bool(holds)),
            ("diamond", "fire", "result", True in holds),
            ("diamond", "again", "result that was corrected", False in holds),
            ("line", "mark", "watermark", marked),
            ("line", "allowed", "less the allowed lateness", marked and lateness),
        ]
        return [(shape, css, words) for shape, css, words, there in listed if there]


def _sign(shape: str, css: str, x: float, y: float) -> list[str]:
    """A sign of the legend, 14 px wide."""
    if shape == "box":
        return [rect(css, x, y - 5, x + 14, y + 5, 3)]
    if shape == "diamond":
        return [diamond(css, x + 7, y)]
    if shape == "bracket":
        return [path(css, f"M{number(x)} {number(y + 3)}h14m-3 0v-6m-8 0v6")]
    if shape == "line":
        return [line(css, x, y, x + 14, y)]
    crossed = [line("cross", x + 2, y + 5, x + 12, y - 5)] if shape == "crossed" else []
    return [circle(css, x + 7, y, 4.5), *crossed]
