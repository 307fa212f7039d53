"""What an operator's state was made from: a digest of everything below it, however it is executed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

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
from aggloom.codegen.spec.dtypes import type_name


def lineage(node: Node) -> str:
    """Sixteen hex digits that differ where the rows that reach a node's state, or the state itself, would.

    Phases and exchanges do not count: the same state serves a query in one phase and in two.
    """
    return hashlib.sha256("\n".join(_lines(node)).encode()).hexdigest()[:16]


def described(node: GroupAggregate | IncrementalAggregate | WindowAggregate) -> dict[str, Any]:
    """What `lineage` is the digest of, as data: the node's spec, its windows, and what is below.

    Of what is below, a Calc is {where, columns: {name: [SQL, type]}}, everything else the line that counts.
    """
    return {
        "spec": json.loads(node.spec.to_json()),
        "windows": _windows(node) if isinstance(node, WindowAggregate) else None,
        "below": [*(line for each in node.inputs for line in _below(each)), *_own_lines(node)[1:]],
    }


def _below(node: Node) -> list[Any]:
    below = [line for each in node.inputs for line in _below(each)]
    below += _own_lines(node)
    if isinstance(node, Calc):
        types = (type_name(field.type) for field in node.schema)
        columns = {name: [sql, t] for (name, sql), t in zip(node.select, types, strict=True)}
        below[-1] = {"where": node.where, "columns": columns}
    return [*below, *([f"union {len(node.inputs)}"] if len(node.inputs) > 1 else [])]


def _own(node: Node) -> str:
    """The line of a node; empty for one that does not count."""
    if isinstance(node, Scan):
        return f"scan {node.table} {node.changes}"
    if isinstance(node, Calc):
        types = [type_name(field.type) for field in node.schema]
        return f"calc {node.where!r} {node.select!r} {types!r}"
    if isinstance(node, Expand):
        return f"expand {node.projects!r}"
    if isinstance(node, Aggregate | GroupAggregate | IncrementalAggregate):
        return f"aggregate {node.spec.to_json()}"
    if isinstance(node, WindowTable):
        return f"windows {node.assigner.text} {_bounds(node.bounds)} {node.partition!r}"
    if isinstance(node, WindowAssign):
        return f"assign {node.windowing.text} {node.name!r}"
    if isinstance(node, WindowAggregate):
        return f"window aggregate {node.spec.to_json()} {_windows(node)}"
    return ""


def _windows(node: WindowAggregate) -> str:
    return f"{node.windowing.text} {_bounds(node.bounds)}"


def _lines(node: Node) -> list[str]:
    below = [line for each in node.inputs for line in _lines(each)]
    # How many inputs there are tells unions of other shapes apart.
    union = [f"union {len(node.inputs)}"] if len(node.inputs) > 1 else []
    return [*below, *_own_lines(node), *union]


def _own_lines(node: Node) -> list[str]:
    own = [line for line in [_own(node)] if line]
    if isinstance(node, IncrementalAggregate):
        own += [line for step in node.steps for line in _lines(step)[-1:]]
    return own


def _bounds(bounds: Bounds) -> str:
    return f"{bounds.names!r} {type_name(bounds.type)} {type_name(bounds.time_type)}"
