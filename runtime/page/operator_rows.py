"""The operators of a query as rows of a table, and their figures and links for the plan."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from aggloom.runtime.page.formatting import NOTHING, count, duration, percent, size
from aggloom.runtime.page.history import History, ints_of
from aggloom.runtime.page.plan_tree import operator_places
from aggloom.runtime.page.sources import OperatorProgress

Columns = Sequence[tuple[str, str]]
"""(name, CSS class) of the columns of a table."""
Link = tuple[str, str]
"""(address, text)."""
_NUMBER = "number"
_COUNTED = ("rows", "changes", "orphans", "late", "expired", "keys", "windows")


@dataclass(frozen=True)
class OperatorRow:
    """A row of the table of operators; id: of its HTML element."""

    id: str
    cells: Sequence[str | Markup]
    links: Sequence[Link]


def list_columns() -> Columns:
    """The columns of the table of operators, without the last one, which has the links."""
    columns = [("place", ""), ("operator", ""), ("key", ""), ("calls", "")]
    columns += [(name, _NUMBER) for name in ("rows in", "changes out")]
    columns += [(name, _NUMBER) for name in ("orphans", "late", "expired", "keys", "windows")]
    return [*columns, ("live state", _NUMBER), ("time", _NUMBER), ("share", "")]


def list_operators(
    operators: Sequence[OperatorProgress], history: History, prefix: str, number: int | None
) -> list[OperatorRow]:
    """A row for each operator; number: of the checkpoint on a server, None in a report."""
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
    """Return lines about the work of the nodes of a plan, by their numbers."""
    shares = find_shares(history)
    lines: dict[str, list[str]] = {}
    for number, place in operator_places(plan).items():
        if place not in history.operators:
            continue
        counts = ints_of(history.operators[place])
        rows, changes = (count(counts.get(name, 0)) for name in ("rows", "changes"))
        size_line = _describe_state_size(counts, history.operators[place].get("buckets"))
        lines[number] = [f"{rows} rows in, {changes} changes out", size_line]
        ms = history.node_ms(place)
        if ms is not None:
            share = f" ({shares[node]:.0%})" if (node := place.partition(".")[0]) in shares else ""
            lines[number].append(f"{duration(ms)} of work{share}")
    return lines


def find_shares(history: History) -> dict[str, float]:
    """Return the share of each stateful node in the time of all, by its number; none where no time is known."""
    nodes = {place.partition(".")[0] for place in history.operators}
    times = {node: history.node_ms(node) or 0 for node in nodes}
    total = sum(times.values())
    return {node: ms / total for node, ms in times.items()} if total else {}


def _list_cells(
    place: str,
    operator: OperatorProgress | None,
    history: History,
    shares: Mapping[str, float],
) -> list[str | Markup]:
    entry = history.operators.get(place, {})
    counts = ints_of(entry)
    return [
        place,
        operator.name if operator else str(entry.get("name", NOTHING)),
        (", ".join(operator.keys) or "()") if operator else NOTHING,
        (", ".join(operator.calls) or NOTHING) if operator else NOTHING,
        *(count(counts.get(each, 0)) if entry else NOTHING for each in _COUNTED),
        size(counts.get("state_bytes", 0)) if entry else NOTHING,
        duration(history.node_ms(place)),
        draw_share(shares.get(place.partition(".")[0])),
    ]


def draw_share(share: float | None) -> str | Markup:
    """A share as a bar and in per cent."""
    if share is None:
        return NOTHING
    bar = '<svg class="share" aria-hidden="true"><rect class="whole" width="100%" height="100%"/>'
    return Markup(bar + '<rect width="{:.1f}%" height="100%"/></svg> {}').format(
        100 * share, percent(share)
    )


def _describe_state_size(counts: Mapping[str, int], buckets: Any) -> str:
    """A line about the state of an operator; buckets: [buckets that are counted, all], as the log has them."""
    parts = [f"{counts[name]:,} {name}" for name in ("keys", "windows") if counts.get(name)]
    counted, of = buckets if isinstance(buckets, list) and len(buckets) == 2 else (0, 0)
    part = "" if counted == of else f" (in the {counted} of {of} buckets that this run has read)"
    return f"holds {', '.join([*parts, size(counts.get('state_bytes', 0))])}{part}"
