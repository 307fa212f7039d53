"""A plan as a picture: one SVG text without scripts or fonts of its own, for light and dark pages.

Rows flow upwards. Boxes with state are blue and say what bounds it; an exchange has a dashed border; beside each arrow
stand the kinds of changes that flow along it.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from aggloom.codegen.planner.plan import Plan
from aggloom.codegen.planner.tree import describe, list_node_words, phrase_state, settings, stateful

_COLUMNS = 66
# Monospaced letters of 12 px are some 7.2 wide.
_LETTER = 7.3
_LINE = 17
_PAD = 12
_WIDTH = round(_COLUMNS * _LETTER) + 2 * _PAD
_GAP = 44
_BESIDE = 28
_MARGIN = 20
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_LIGHT = {
    "back": "fill:#ffffff",
    "ink": "fill:#1f2328",
    "dim": "fill:#59636e",
    "box": "fill:#f6f8fa;stroke:#8c959f",
    "state": "fill:#ddf4ff;stroke:#0969da",
    "exchange": "fill:#ffffff;stroke:#59636e",
    "flow": "stroke:#59636e",
    "tip": "fill:#59636e",
}
_DARK = {
    "back": "fill:#0d1117",
    "ink": "fill:#f0f6fc",
    "dim": "fill:#9198a1",
    "box": "fill:#151b23;stroke:#656c76",
    "state": "fill:#0b2149;stroke:#58a6ff",
    "exchange": "fill:#0d1117;stroke:#9198a1",
    "flow": "stroke:#9198a1",
    "tip": "fill:#9198a1",
}


@dataclass
class _Box:
    """A node with its lines (class, text) and its place; `width` is that of all that stands below it."""

    node: Mapping[str, Any]
    lines: list[tuple[str, str]]
    below: list[_Box] = field(default_factory=list)
    x: int = 0
    y: int = 0

    @property
    def height(self) -> int:
        return len(self.lines) * _LINE + 2 * _PAD

    @property
    def width(self) -> int:
        wide = sum(box.width for box in self.below) + _BESIDE * max(0, len(self.below) - 1)
        return max(_WIDTH, wide)

    @property
    def bottom(self) -> int:
        return max([self.y + self.height, *(box.bottom for box in self.below)])

    @property
    def middle(self) -> int:
        return self.x + _WIDTH // 2


def as_svg(plan: Plan, backend: str = "numba") -> str:
    """The plan as an SVG document; names from the query are escaped."""
    described = describe(plan, backend)
    root = _box_node(described["plan"])
    options = settings(described["options"])
    top = _MARGIN + (len(options) + 1) * _LINE if options else _MARGIN
    _place(root, _MARGIN, top + _GAP)
    width, height = root.width + 2 * _MARGIN, root.bottom + _MARGIN
    count = len(stateful(described["plan"]))
    names = f"{count} stateful node{'s' if count != 1 else ''}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="A query plan with {names}">',
        f"<style>{_style()}</style>",
        f'<rect class="back" width="{width}" height="{height}"/>',
    ]
    for number, line in enumerate(options):
        parts.append(_text("dim", _MARGIN, _MARGIN + (number + 1) * _LINE - 4, line))
    parts += _flow(root, root.middle, root.y - _GAP)
    return "\n".join([*parts, *_draw_box(root), "</svg>", ""])


def _style() -> str:
    """The style sheet of the pictures."""
    fixed = {
        "text": "font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace",
        ".name": "font-weight:bold",
        ".exchange": "stroke-dasharray:5 4",
        ".flow": "fill:none",
    }
    rules = "".join(f"{name}{{{text}}}" for name, text in fixed.items())
    light, dark = (_rules(colours) for colours in (_LIGHT, _DARK))
    return f"{rules}{light}@media(prefers-color-scheme:dark){{{dark}}}"


def _box_node(node: Mapping[str, Any]) -> _Box:
    number = f" [{node['id']}]" if "id" in node else ""
    lines = [("ink name", node["node"] + number)]
    for text in list_node_words(node, "changelogMode"):
        lines += [("ink", line) for line in _wrap_text(text)]
    if "state" in node:
        texts = [f"state bounded by {phrase_state(node)}"]
        texts += [
            f"{'✓' if each['fired'] else '–'} {each['rule']}: {each['why']}"
            for each in node["rules"]
        ]
        lines += [("dim", line) for text in texts for line in _wrap_text(text)]
    if "handler" in node:
        lines.append(("dim", f"handler {node['handler']}"))
    return _Box(node, lines, [_box_node(each) for each in node["inputs"]])


def _wrap_text(text: str) -> list[str]:
    """The text in lines that fit into a box, even if all of its letters are wide."""
    # A wide letter of East Asia takes two places.
    letters = sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)
    room = _COLUMNS if letters == len(text) else _COLUMNS // 2
    return textwrap.wrap(text, room, subsequent_indent="  ", break_on_hyphens=False) or [""]


def _place(box: _Box, left: int, top: int) -> None:
    """Give a box and all below it their places in a strip that starts at `left`."""
    box.x, box.y = left + (box.width - _WIDTH) // 2, top
    wide = sum(each.width for each in box.below) + _BESIDE * max(0, len(box.below) - 1)
    # A box that is wider than all below it stands above their middle.
    left += (box.width - wide) // 2
    for each in box.below:
        _place(each, left, top + box.height + _GAP)
        left += each.width + _BESIDE


def _draw_box(box: _Box) -> list[str]:
    kind = "state" if "state" in box.node else "box"
    kind = "exchange" if box.node["node"] == "Exchange" else kind
    parts = ["<g>", f"<title>{_safe(_format_node(box.node))}</title>"]
    corner = f'x="{box.x}" y="{box.y}" width="{_WIDTH}" height="{box.height}" rx="6"'
    parts.append(f'<rect class="{kind}" {corner}/>')
    for number, (css, line) in enumerate(box.lines):
        y = box.y + _PAD + (number + 1) * _LINE - 4
        parts.append(_text(css, box.x + _PAD, y, line))
    parts.append("</g>")
    for below in box.below:
        parts += [*_flow(below, box.middle, box.y + box.height), *_draw_box(below)]
    return parts


def _flow(source: _Box, to: int, end: int) -> list[str]:
    """The arrow from a box up to a place, and what flows along it."""
    start, x = source.y, source.middle
    path = f"M{x} {start}V{(start + end) // 2}H{to}V{end + 7}"
    tip = f"{to},{end} {to - 5},{end + 8} {to + 5},{end + 8}"
    return [
        f'<path class="flow" d="{path}"/>',
        f'<polygon class="tip" points="{tip}"/>',
        _text("dim", x + 8, start - 8, ", ".join(source.node["changelog_mode"])),
    ]


def _format_node(node: Mapping[str, Any]) -> str:
    return f"{node['node']}({', '.join(list_node_words(node))})"


def _text(css: str, x: int, y: int, text: str) -> str:
    return f'<text class="{css}" x="{x}" y="{y}" xml:space="preserve">{_safe(text)}</text>'


def _safe(text: str) -> str:
    """The text as XML can hold it."""
    return escape(_NOT_XML.sub("\ufffd", text))


def _rules(colours: dict[str, str]) -> str:
    return "".join(f".{name}{{{style}}}" for name, style in colours.items())
