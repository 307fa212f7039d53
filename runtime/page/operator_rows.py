"""The operators of a query as rows of a table, and their figures and links as the plan shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from aggloom.runtime.page.analysis import node_ms
from aggloom.runtime.page.formatting import NOTHING, count, duration, percent, size
from aggloom.runtime.page.history import History
from aggloom.runtime.page.sources import OperatorProgress

Columns = Sequence[tuple[str, str]]
Link = tuple[str, str]
_NUMBER = "number"
_COUNTED = ("rows", "changes", "orphans", "late", "expired", "keys", "windows")


@dataclass(frozen=True)
class OperatorRow:
    """A row of the table of operators. id: of its element; links: (address, words)."""

    id: str
    cells: Sequence[str | Markup]
    links: Sequence[Link]


def list_columns() -> Columns:
    """The columns of the table of operators; a row's links stand after them."""
    columns = [("place", ""), ("operator", ""), ("key", ""), ("calls", "")]
    columns += [(name, _NUMBER) for name in ("rows in", "changes out")]
    columns += [(name, _NUMBER) for name in ("orphans", "late", "expired", "keys", "windows")]
    return [*columns, ("live state", _NUMBER), ("time", _NUMBER), ("share", "")]


def list_operators(
    operators: Sequence[OperatorProgress], history: History, prefix: str, number: int | None
) -> list[OperatorRow]:
    """A row for each operator; number: of the checkpoint on a server, None in a file."""
    known = {each.place: each for each in operators}
    places = {*known, *history.operators}
    shares = find_shares(history)
    return [
        OperatorRow(
            f"{prefix}{name_anchor(place)}",
            _list_cells(place, known.get(place), history, shares),
            # Without the first link, which leads to this row.
            list_links(place, operators, prefix, number)[1:],
        )
        # By numbers: as texts 10 precedes 9.
        for place in sorted(places, key=lambda place: [part.zfill(6) for part in place.split(".")])
    ]


def list_links(
    place: str, operators: Sequence[OperatorProgress], prefix: str, number: int | None
) -> list[Link]:
    """Links to the figures, the keys and the source of an operator."""
    at = next((at for at, each in enumerate(operators) if each.place == place), None)
    links = [(f"#{prefix}{name_anchor(place)}", "operator")]
    if at is None:
        return links
    if number is None:
        links.append((f"#{prefix}state-{name_anchor(place)}", "heaviest keys"))
    else:
        links.append((f"/c/{number}/state#state-{name_anchor(place)}", "heaviest keys"))
        links.append((f"#{prefix}find{at}", "find a key"))
    if operators[at].source is not None:
        links.append((f"#{prefix}o{at}", "source"))
    return links


def name_anchor(place: str) -> str:
    """The id of an operator's element on a page, whatever its place is."""
    return f"op{re.sub('[^0-9.]', lambda match: f'{ord(match[0]):x}', place)}"


def find_figures(plan: Mapping[str, Any], history: History) -> dict[str, list[str]]:
    """Return in words what the nodes of a plan have done, by their numbers."""
    places = plan.get("operators")
    shares = find_shares(history)
    lines: dict[str, list[str]] = {}
    for number, node_place in (places.items() if isinstance(places, dict) else ()):
        place = str(node_place)
        counts = history.operators.get(place)
        if counts is None:
            continue
        rows, changes = (count(int_of(counts, name)) for name in ("rows", "changes"))
        lines[number] = [f"{rows} rows in, {changes} changes out", _describe_state_size(counts)]
        spent = node_ms(history, place)
        if spent is not None:
            share = f" ({shares[node]:.0%})" if (node := place.partition(".")[0]) in shares else ""
            lines[number].append(f"{duration(spent)} of work{share}")
    return lines


def find_shares(history: History) -> dict[str, float]:
    """Return the share of each stateful node in the time of all, by its number; none where no time is known."""
    nodes = {place.partition(".")[0] for place in history.operators}
    spent = {node: node_ms(history, node) or 0 for node in nodes}
    total = sum(spent.values())
    return {node: ms / total for node, ms in spent.items()} if total else {}


def _list_cells(
    place: str,
    operator: OperatorProgress | None,
    history: History,
    shares: Mapping[str, float],
) -> list[str | Markup]:
    counts = history.operators.get(place, {})
    name = operator.name if operator else str(counts.get("name", NOTHING))
    return [
        place,
        name,
        (", ".join(operator.keys) or "()") if operator else NOTHING,
        (", ".join(operator.calls) or NOTHING) if operator else NOTHING,
        *(count(int_of(counts, each)) if counts else NOTHING for each in _COUNTED),
        size(int_of(counts, "state_bytes")) if counts else NOTHING,
        duration(node_ms(history, place)),
        draw_share(shares.get(place.partition(".")[0])),
    ]


def draw_share(share: float | None) -> str | Markup:
    """A share as a bar and in words."""
    if share is None:
        return NOTHING
    bar = '<svg class="share" aria-hidden="true"><rect class="whole" width="100%" height="100%"/>'
    return Markup(bar + '<rect width="{:.1f}%" height="100%"/></svg> {}').format(
        100 * share, percent(share)
    )


def _describe_state_size(counts: Mapping[str, Any]) -> str:
    parts = [f"{counts[word]:,} {word}" for word in ("keys", "windows") if int_of(counts, word)]
    buckets = counts.get("buckets")
    counted, of = buckets if isinstance(buckets, list) and len(buckets) == 2 else (0, 0)
    part = "" if counted == of else f" (in the {counted} of {of} buckets that this run has read)"
    return f"holds {', '.join([*parts, size(int_of(counts, 'state_bytes'))])}{part}"


def int_of(counts: Mapping[str, Any], name: str) -> int:
    """A number of a journal; 0 where it is missing or none."""
    value = counts.get(name)
    return value if type(value) is int and abs(value) < 1 << 63 else 0
