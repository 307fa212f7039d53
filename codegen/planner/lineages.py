"""The lineage of an operator's state: a digest of everything below it, however it is executed."""

from __future__ import annotations

import hashlib
from typing import Any

from aggloom.codegen.operators import Calc, Node, Stateful, walk
from aggloom.codegen.scalar.expressions import column_name


def lineage(node: Node) -> str:
    """Sixteen hex digits that differ where the rows that reach a node's state, or the state itself, would.

    Phases and exchanges do not count: the same state serves a query in one phase and in two.
    """
    # 64 bits: two plans that differ have the same ones by chance alone.
    return hashlib.sha256("\n".join(_lines(node)).encode()).hexdigest()[:16]


def collect_lineage(node: Stateful) -> dict[str, Any]:
    """Return the data that `lineage` is the digest of: what the node's state is made from, and what is below."""
    description = dict(node.state_description)
    below = [line for each in node.inputs for line in _below(each)]
    return {**description, "below": [*below, *description.pop("steps", ())]}


def above(node: Node) -> dict[str, str]:
    """Return the part of a query above its stateful nodes: HAVING and computed columns as SQL, by name.

    Columns that are picked as they are do not count. Of a query without stateful nodes it is all of it.
    """
    # Without state there is no line between what a state holds and what stands above it.
    if not any(isinstance(each, Stateful) for each in walk(node)):
        return {"the query": "; ".join(_lines(node))}
    if isinstance(node, Stateful):
        return {}
    steps: dict[str, str] = {}
    for each in node.inputs:
        for what, text in above(each).items():
            # Parts of a UNION may have columns of one name.
            steps[what] = f"{steps[what]}; {text}" if what in steps else text
    if isinstance(node, Calc):
        computed = {f"column {n}": sql for n, sql in node.select if column_name(sql) is None}
        steps |= computed if node.where is None else {"HAVING": node.where, **computed}
    return steps


def _lines(node: Node) -> list[str]:
    below = [line for each in node.inputs for line in _lines(each)]
    return [*below, *([node.lineage] if node.lineage else [])]


def _below(node: Node) -> list[Any]:
    below = [line for each in node.inputs for line in _below(each)]
    return [*below, *([node.lineage_data] if node.lineage else [])]
