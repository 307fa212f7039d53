"""A plan as boxes that a page stacks: rows flow upwards, and a box with several inputs stands above its branches.

A plan is the data of `read_plan`: a file that anybody may have written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aggloom.codegen.planner import list_node_words, phrase_state
from aggloom.runtime.page.formatting import clip_text

Figures = Mapping[str, Sequence[str]]
"""Lines by the number of a node that has state."""

_MAX_DEPTH = 40
_KINDS = {"I": "inserts", "UB": "updates", "UA": "updates", "D": "deletes"}


@dataclass(frozen=True)
class PlanNode:
    """A node of a plan. kind: state, exchange or plain; flow: the kinds of changes that it emits.

    rules: (has fired, text). figures, links (address, text): of its operator.
    """

    name: str
    number: str
    kind: str
    words: Sequence[str]
    flow: str
    state: str = ""
    rules: Sequence[tuple[bool, str]] = ()
    figures: Sequence[str] = ()
    links: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class PlanStack:
    """Nodes from the result down, and the branches below the last of them."""

    nodes: Sequence[PlanNode]
    branches: Sequence[PlanStack] = field(default=())


def operator_places(plan: Mapping[str, Any]) -> dict[str, str]:
    """The place of each operator, as "0.1", by the number of its node in a plan."""
    places = plan.get("operators")
    return {str(k): str(v) for k, v in places.items()} if isinstance(places, dict) else {}


def stack_plan(
    described: Mapping[str, Any],
    figures: Figures,
    links: Mapping[str, Sequence[tuple[str, str]]],
) -> PlanStack:
    """The boxes of a plan, from the data of `describe`; links: of the nodes that have state, by their numbers.

    Raises ValueError, KeyError, TypeError or AttributeError where the data are no plan.
    """

    def stack(node: Mapping[str, Any], depth: int) -> PlanStack:
        # Plans are read from files, which may nest deeper than Python's stack.
        if depth > _MAX_DEPTH:
            raise ValueError("it is too deep")
        nodes = [_make_node(node, figures, links)]
        # Chains are walked, so that only branches take depth.
        while len(node["inputs"]) == 1:
            node = node["inputs"][0]
            nodes.append(_make_node(node, figures, links))
        return PlanStack(nodes, [stack(each, depth + 1) for each in node["inputs"]])

    return stack(described["plan"], 0)


def _make_node(
    node: Mapping[str, Any], figures: Figures, links: Mapping[str, Sequence[tuple[str, str]]]
) -> PlanNode:
    number = str(node.get("id", ""))
    kind = "state" if "state" in node else "exchange" if node["node"] == "Exchange" else "plain"
    rules = [
        (bool(each["fired"]), clip_text(f"{each['rule']}: {each['why']}"))
        for each in node.get("rules", ())
    ]
    if "handler" in node:
        rules.append((True, f"handler {clip_text(str(node['handler']))}"))
    return PlanNode(
        name=str(node["node"]),
        number=number,
        kind=kind,
        words=[clip_text(each) for each in list_node_words(node, "changelogMode")],
        flow=_phrase_flow(node["changelog_mode"]),
        state=clip_text(phrase_state(node)),
        rules=rules,
        figures=figures.get(number, ()) if number else (),
        links=links.get(number, ()) if number else (),
    )


def _phrase_flow(kinds: Sequence[str]) -> str:
    """The kinds of changes in words."""
    words = list(dict.fromkeys(_KINDS.get(kind, str(kind)) for kind in kinds))
    return "inserts only" if words == ["inserts"] else ", ".join(words)
