"""prune_calls: an aggregate keeps only the calls that something above it reads."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from aggloom.codegen.expressions import columns as columns_of
from aggloom.codegen.planner.nodes import Aggregate, Calc, Expand, Node, Union, pick
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.spec import AggCall, AggSpec


def prune_calls(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """The plan without calls, and without columns between its steps, that nothing reads."""
    return _needed(root, list(root.schema.names), notes)


def _needed(node: Node, names: list[str], notes: Notes) -> Node:
    """The node with at least these of its columns."""
    if isinstance(node, Calc):
        kept = tuple(pair for pair in node.select if pair[0] in names) or node.select[:1]
        read = {name for _, sql in kept for name in columns_of(sql)}
        read |= set(columns_of(node.where)) if node.where is not None else set()
        below = _needed(node.input, [n for n in node.input.schema.names if n in read], notes)
        columns = pa.schema([node.columns.field(name) for name, _ in kept])
        return replace(node, input=below, select=kept, columns=columns)
    if isinstance(node, Union):
        places = [i for i, name in enumerate(node.schema.names) if name in names] or [0]
        parts = []
        for part in node.parts:
            own = [part.schema.names[i] for i in places]
            parts.append(pick(_needed(part, own, notes), own))
        return Union(tuple(parts))
    if isinstance(node, Aggregate):
        return _aggregate(node, names, notes)
    if isinstance(node, Expand):
        # It stands between an aggregate and the columns that it reads: all of them are needed.
        names = list(node.input.schema.names)
    return node.over(*(_needed(each, names, notes) for each in node.inputs))


def _aggregate(node: Aggregate, names: list[str], notes: Notes) -> Node:
    spec = node.spec
    calls = tuple(call for call in spec.calls if call.output_name in names)
    if not calls and not spec.group_by:
        # Whether there is a row at all is all that is asked.
        calls = (AggCall("COUNT", alias=spec.calls[0].output_name),)
        names = []
    pruned = AggSpec(spec.schema, spec.group_by, calls, spec.input_changes, spec.dialect)
    read = list(pruned.handler_schema.names)
    if read != spec.schema.names:
        pruned = AggSpec(
            pruned.handler_schema, spec.group_by, calls, spec.input_changes, spec.dialect
        )
    gone = [call.text for call in spec.calls if call not in calls]
    if gone:
        notes.add("prune_calls", pruned, True, f"nothing reads {', '.join(gone)}")
    return Aggregate(pick(_needed(node.input, read, notes), read), pruned, node.role)
