"""prune_calls: an aggregate keeps only the calls that something above it reads."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from aggloom.codegen.planner.clock import clock_columns
from aggloom.codegen.planner.nodes import (
    Aggregate,
    Calc,
    Expand,
    Node,
    Union,
    WindowAggregate,
    WindowAssign,
    WindowTable,
    pick,
)
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.scalar.expressions import columns as columns_of
from aggloom.codegen.spec.agg_spec import AggCall, AggSpec

_NO_TIME = "CAST(NULL AS TIMESTAMP)"


def prune_calls(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """The plan without calls, and without columns between its steps, that nothing reads."""
    return _needed(root, list(root.schema.names), notes)


def _needed(node: Node, names: list[str], notes: Notes) -> Node:
    """The node with at least these of its columns."""
    if isinstance(node, Calc):
        kept = tuple(pair for pair in node.select if pair[0] in names) or _spare(node)
        read = {name for _, sql in kept for name in columns_of(sql)}
        read |= set(columns_of(node.where)) if node.where is not None else set()
        below = _needed(node.input, [n for n in node.input.schema.names if n in read], notes)
        columns = pa.schema([node.columns.field(name) for name, _ in kept])
        return replace(node, input=below, select=kept, columns=columns)
    if isinstance(node, Union):
        return _united(node, names, notes)
    if isinstance(node, Aggregate):
        return _aggregate(node, names, notes)
    if isinstance(node, WindowAggregate):
        return _windowed(node, names, notes)
    if isinstance(node, WindowTable):
        read = {*names, *node.assigner.columns}
        return node.over(
            _needed(node.input, [n for n in node.input.schema.names if n in read], notes)
        )
    if isinstance(node, WindowAssign):
        read = {*names, *node.windowing.assigner.columns}
        return node.over(
            _needed(node.input, [n for n in node.input.schema.names if n in read], notes)
        )
    if isinstance(node, Expand):
        # It stands between an aggregate and the columns that it reads: all of them are needed.
        names = list(node.input.schema.names)
    return node.over(*(_needed(each, names, notes) for each in node.inputs))


def _spare(node: Calc) -> tuple[tuple[str, str], ...]:
    """A column to keep where only the number of rows matters: none that would be the time of day."""
    by_clock = clock_columns(node)
    plain = [pair for pair in node.select if pair[0] not in by_clock]
    if plain or not node.select:
        return tuple(plain[:1])
    return ((node.select[0][0], _NO_TIME),)


def _united(node: Union, names: list[str], notes: Notes) -> Node:
    listed = list(node.schema.names)
    chosen = [name for name in listed if name in names]
    if not chosen:
        by_clock = clock_columns(node)
        chosen = [name for name in listed if name not in by_clock][:1]
    if not chosen:
        field = pa.schema([node.schema.field(0)])
        select = ((listed[0], _NO_TIME),)
        return Union(tuple(Calc(_needed(part, [], notes), select, field) for part in node.parts))
    parts = []
    for part in node.parts:
        own = [part.schema.names[listed.index(name)] for name in chosen]
        parts.append(pick(_needed(part, own, notes), own))
    return Union(tuple(parts))


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
    _note(spec, pruned, notes)
    return Aggregate(
        pick(_needed(node.input, read, notes), read), pruned, node.role, node.state_ttl
    )


def _windowed(node: WindowAggregate, names: list[str], notes: Notes) -> Node:
    spec = node.spec
    calls = tuple(call for call in spec.calls if call.output_name in names)
    pruned = replace(spec, calls=calls)
    pruned = replace(pruned, schema=pruned.handler_schema)
    extras = [name for name in node.input.schema.names if name not in spec.schema.names]
    read = [*pruned.schema.names, *extras]
    notes.move(spec, pruned)
    _note(spec, pruned, notes)
    below = pick(_needed(node.input, read, notes), read)
    return replace(node, input=below, spec=pruned)


def _note(spec: AggSpec, pruned: AggSpec, notes: Notes) -> None:
    gone = [call.text for call in spec.calls if call not in pruned.calls]
    if gone:
        notes.add("prune_calls", pruned, True, f"nothing reads {', '.join(gone)}")
