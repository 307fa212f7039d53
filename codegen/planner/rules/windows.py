"""windows: a GROUP BY of a window's start and end becomes an aggregate that knows its windows.

The rows of a WindowTable are not repeated then: each goes to one slice or session, and its aggregate waits for the
watermark or the clock. The names of the table's bounds are restored after the aggregate.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from aggloom.codegen.operators import (
    AggregateNode,
    Bounds,
    Calc,
    Deduplicate,
    Join,
    Node,
    WindowAggregate,
    WindowAssign,
    mark,
    pick,
    transform,
    walk,
)
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.rules.lifted_windows import LiftedWindow, lift_window
from aggloom.codegen.planner.rules.timed_joins import timed_join
from aggloom.codegen.planner.rules.window_options import windowing_of
from aggloom.codegen.scalar.expressions import column_name, quote_name
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.windows import Session, Windowing

_UNGROUPED = "GROUP BY lacks the window's start or end"


def windows(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Replace every aggregate over a WindowTable, as far as its keys hold the window and nothing computes with it."""

    def change(node: Node) -> Node:
        if isinstance(node, Calc):
            return _without_pick(node)
        # Whether these wait is known once it is clear which columns are bounds of windows.
        if isinstance(node, Deduplicate):
            return node.decide_waits(options)
        if isinstance(node, Join):
            return timed_join(node, notes)
        if not isinstance(node, AggregateNode):
            return node
        lifted = lift_window(node.input)
        # ROLLING has a rule of its own.
        if lifted is None or "horizon" in lifted.table.roles.values():
            return node
        reason = lifted.barrier or _obstacle(node.spec, lifted)
        if reason:
            notes.add("windows", node.spec, False, reason)
            return node
        return _make_window_aggregate(node, lifted, options, notes)

    return transform(root, change)


def _without_pick(node: Calc) -> Calc:
    """A projection of a window aggregate need not repeat which columns there were."""
    below = node.input
    if not isinstance(below, Calc) or not isinstance(below.input, WindowAggregate):
        return node
    return (
        replace(node, input=below.input)
        if below.picked_columns == tuple(below.schema.names)
        else node
    )


def over_windows(
    rows: Node, spec: AggSpec, windowing: Windowing, bounds: Bounds, extras: tuple[str, ...] = ()
) -> WindowAggregate:
    """The aggregate of a spec, whose last key is the window's column, over rows without that column."""
    assigned = WindowAssign(rows, windowing, spec.group_by[-1])
    read = [*spec.handler_schema.names, *extras]
    # Rows of another window operator leave with the watermark that judges them here (decision 012).
    chained = any(node.awaits_watermark or isinstance(node, WindowAggregate) for node in walk(rows))
    return WindowAggregate(pick(assigned, read), spec, windowing, bounds, is_chained=chained)


def bounds_of(spec: AggSpec, table: Bounds) -> Bounds:
    """Bounds whose names are no others of the aggregate's columns."""
    sign, names = "", set(spec.aggregate_schema.names)
    while names & {sign + name for name in table.names}:
        sign += "$"
    start, end, time = (sign + name for name in table.names)
    return replace(table, start=start, end=end, time=time)


def namespace_spec(spec: AggSpec, keys: tuple[str, ...], reserved: pa.Schema) -> AggSpec:
    """The spec's calls by some of its keys and, after them, a window's column of a name that is not taken."""
    window = pa.field(f"{mark(spec.schema, reserved, spec.aggregate_schema)}window", pa.int64())
    # Keys first, then the window, as the operator expects; the key's columns may also be arguments.
    read = [field for field in spec.schema if field.name not in spec.group_by]
    schema = pa.schema([*(spec.schema.field(name) for name in keys), window, *read])
    namespaced = AggSpec(
        schema,
        (*keys, window.name),
        spec.calls,
        spec.input_changes,
        spec.dialect,
        namespace=True,
    )
    return replace(namespaced, schema=namespaced.handler_schema)


def _obstacle(spec: AggSpec, lifted: LiftedWindow) -> str:
    """The reason why an aggregate does not know its windows; empty if it may."""
    keys = {lifted.roles.get(name) for name in spec.group_by}
    if not {"start", "end"} <= keys:
        return _UNGROUPED
    mixed = [name for name in spec.schema.names if name in lifted.mixed]
    if mixed:
        return f"{mixed[0]} is computed from the window's bounds"
    for call in spec.calls:
        read = {*call.args, *(key.column for key in call.order_by), call.filter}
        if read & lifted.roles.keys():
            return f"{call.text} reads the window's bounds"
    return _find_key_mismatch(spec, lifted)


def _find_key_mismatch(spec: AggSpec, lifted: LiftedWindow) -> str:
    """The reason why the keys are not those by which sessions were made."""
    partition = lifted.table.partition
    if partition is None or not isinstance(lifted.table.assigner, Session):
        return ""
    keys = {_source(lifted.rows, name) for name in spec.group_by if name not in lifted.roles}
    # Sessions by other keys would have other bounds.
    if keys == set(partition):
        return ""
    by = f"PARTITION BY {', '.join(partition)}" if partition else "no PARTITION BY"
    return f"sessions with {by} are not those of the other keys of GROUP BY"


def _source(node: Node, name: str) -> str | None:
    """The column below a lifted projection that one of its columns is."""
    column: str | None = name
    while isinstance(node, Calc) and column is not None:
        column = next((column_name(sql) for own, sql in node.select if own == column), None)
        node = node.input
    return column


def _make_window_aggregate(
    node: AggregateNode, lifted: LiftedWindow, options: PlanOptions, notes: Notes
) -> Node:
    old = node.spec
    keys = tuple(name for name in old.group_by if name not in lifted.roles)
    spec = namespace_spec(old, keys, lifted.rows.schema)
    assigner = lifted.table.assigner
    if assigner.event_time:
        # The steps between may have renamed the time.
        assigner = replace(assigner, on=lifted.carried[assigner.columns[0]])  # type: ignore[call-arg]
    windowing = windowing_of(assigner, options)
    bounds = bounds_of(spec, lifted.table.bounds)
    notes.move(old, spec)
    notes.add("windows", spec, True, _why(windowing))
    aggregate = over_windows(lifted.rows, spec, windowing, bounds)
    named = dict(zip(("start", "end", "time"), bounds.names, strict=True))
    own = [named.get(lifted.roles.get(name, ""), name) for name in old.aggregate_schema.names]
    select = tuple(zip(old.aggregate_schema.names, map(quote_name, own), strict=True))
    return Calc(aggregate, select, old.aggregate_schema)


def _why(windowing: Windowing) -> str:
    """Return the reason that the rule gives where it fired."""
    once = "each row goes to its window once"
    if not windowing.fires_again:
        return f"{once}, and each window is emitted once"
    return (
        f"{once}; it is emitted early or late as table.exec.emit says, which in Flink is for "
        "GROUP BY TUMBLE, HOP and SESSION only"
    )
