"""Ratios as a picture: an SVG of bars on a logarithmic axis, one for each contender, with the spread of the rounds."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LABELS, MARGIN = 960, 300, 24
ROW, GAP = 18, 30
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1f2937}.head{font-weight:600}.axis{fill:#6b7280}"
    ".more{fill:#0f766e}.less{fill:#b45309}.spread{stroke:#1f2937}.grid{stroke:#e5e7eb}.one{stroke:#6b7280}"
)


Across = Callable[[float], float]


@dataclass(frozen=True)
class Bar:
    """The ratios of a contender in a group, one a round."""

    group: str
    label: str
    ratios: list[float]


def draw(title: str, bars: Sequence[Bar]) -> str:
    """The SVG; a bar to the right is more than one."""
    values = [ratio for bar in bars for ratio in bar.ratios]
    low = 10.0 ** math.floor(math.log10(min([*values, 0.5])))
    high = 10.0 ** math.ceil(math.log10(max([*values, 2.0])))
    scale = (WIDTH - LABELS - 3 * MARGIN - 30) / math.log10(high / low)

    def across(ratio: float) -> float:
        return LABELS + MARGIN + scale * math.log10(ratio / low)

    groups = [(name, list(own)) for name, own in itertools.groupby(bars, lambda bar: bar.group)]
    height = 50 + GAP * len(groups) + ROW * len(bars) + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text class="head" x="{MARGIN}" y="24">{escape(title)}</text>',
        *_axis(low, high, across, height),
    ]
    y = 50
    for name, own in groups:
        lines.append(f'<text class="head" x="{MARGIN}" y="{y + 16}">{escape(name)}</text>')
        y += GAP
        for bar in own:
            lines += _bar(bar, y, across)
            y += ROW
    return "\n".join([*lines, "</svg>", ""])


def _axis(low: float, high: float, across: Across, height: int) -> Iterator[str]:
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        x = across(10.0**power)
        name = "one" if power == 0 else "grid"
        yield f'<line class="{name}" x1="{x:.1f}" x2="{x:.1f}" y1="50" y2="{height - MARGIN}"/>'
        text = f"{10.0**power:g}x"
        yield f'<text class="axis" x="{x:.1f}" y="{height - 8}" text-anchor="middle">{text}</text>'


def _bar(bar: Bar, y: int, across: Across) -> Iterator[str]:
    middle = statistics.median(bar.ratios)
    one, end = across(1.0), across(middle)
    least, most = across(min(bar.ratios)), across(max(bar.ratios))
    side = "more" if middle >= 1 else "less"
    yield f'<text x="{LABELS + 8}" y="{y + 11}" text-anchor="end">{escape(bar.label)}</text>'
    yield (
        f'<rect class="{side}" x="{min(one, end):.1f}" y="{y + 2}" width="{abs(end - one):.1f}" height="11">'
        f"<title>{escape(bar.label)}: {middle:.3g}</title></rect>"
    )
    yield f'<line class="spread" x1="{least:.1f}" x2="{most:.1f}" y1="{y + 7.5}" y2="{y + 7.5}"/>'
    yield f'<text x="{max(most, one) + 6:.1f}" y="{y + 11}">{middle:.3g}</text>'
