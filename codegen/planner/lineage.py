"""What an operator's state was made from: a digest of everything below it, however it is executed."""

from __future__ import annotations

import hashlib

from aggloom.codegen.dtypes import type_name
from aggloom.codegen.planner.nodes import (
    Aggregate,
    Bounds,
    Calc,
    Expand,
    GroupAggregate,
    IncrementalAggregate,
    Node,
    Scan,
    WindowAggregate,
    WindowAssign,
    WindowTable,
)


def lineage(node: Node) -> str:
    """Sixteen hex digits that differ where the rows that reach a node's state, or the state itself, would.

    Phases and exchanges do not count: the same state serves a query in one phase and in two.
    """
    return hashlib.sha256("\n".join(_lines(node)).encode()).hexdigest()[:16]


def _lines(node: Node) -> list[str]:
    own: list[str] = []
    if isinstance(node, Scan):
        own = [f"scan {node.table} {node.changes}"]
    elif isinstance(node, Calc):
        types = [type_name(field.type) for field in node.schema]
        own = [f"calc {node.where!r} {node.select!r} {types!r}"]
    elif isinstance(node, Expand):
        own = [f"expand {node.projects!r}"]
    elif isinstance(node, Aggregate | GroupAggregate | IncrementalAggregate):
        own = [f"aggregate {node.spec.to_json()}"]
    elif isinstance(node, WindowTable):
        own = [f"windows {node.assigner.text} {_bounds(node.bounds)} {node.partition!r}"]
    elif isinstance(node, WindowAssign):
        own = [f"assign {node.windowing.text} {node.name!r}"]
    elif isinstance(node, WindowAggregate):
        own = [
            f"window aggregate {node.spec.to_json()} {node.windowing.text} {_bounds(node.bounds)}"
        ]
    if isinstance(node, IncrementalAggregate):
        own += [line for step in node.steps for line in _lines(step)[-1:]]
    below = [line for each in node.inputs for line in _lines(each)]
    # How many inputs there are tells unions of other shapes apart.
    return [*below, *own, *([f"union {len(node.inputs)}"] if len(node.inputs) > 1 else [])]


def _bounds(bounds: Bounds) -> str:
    return f"{bounds.names!r} {type_name(bounds.type)} {type_name(bounds.time_type)}"
