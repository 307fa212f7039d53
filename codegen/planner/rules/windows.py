"""windows: a GROUP BY of a window's start and end becomes an aggregate that knows its windows.

The rows of a WindowTable are not repeated then: each goes to one slice or session, and its aggregate waits for the
watermark or the clock. What the table's bounds were named comes back after the aggregate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from aggloom.codegen.operators import (
    AggregateNode,
    Bounds,
    Calc,
    Column,
    Deduplicate,
    Expand,
    Join,
    Node,
    WindowAggregate,
    WindowAssign,
    WindowTable,
    mark,
    pick,
    transform,
    walk,
)
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.rules.timed_joins import timed_join
from aggloom.codegen.planner.window_options import windowing_of
from aggloom.codegen.scalar.expressions import column_name, quote_name
from aggloom.codegen.scalar.expressions import columns as columns_of
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.windows import Session, Windowing

_UNGROUPED = "GROUP BY lacks the window's start or end"


def windows(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Replace every aggregate over a WindowTable, as far as its keys hold the window and nothing computes with it."""

    def change(node: Node) -> Node:
        if isinstance(node, Calc):
            return _without_pick(node)
        if isinstance(node, Deduplicate):
            return node.decide_waits(options)
        if isinstance(node, Join):
            return timed_join(node, notes)
        if not isinstance(node, AggregateNode):
            return node
        lifted = _lift_window(node.input)
        if lifted is None:
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


@dataclass(frozen=True)
class _Lifted:
    """A WindowTable brought above the steps over it: what is left of them, and what became of the bounds.

    roles: start, end or time, by the column that is it now. carried: the assigner's columns by their names below.
    mixed: columns that are computed from the bounds. barrier: why rows may not pass by the window.
    """

    rows: Node
    table: WindowTable
    roles: dict[str, str]
    carried: dict[str, str]
    mixed: frozenset[str] = frozenset()
    barrier: str = ""


def _lift_window(node: Node) -> _Lifted | None:
    if isinstance(node, WindowTable):
        roles = dict(zip(node.bounds.names, ("start", "end", "time"), strict=True))
        return _Lifted(node.input, node, roles, {name: name for name in node.assigner.columns})
    if not isinstance(node, Calc | Expand):
        return None
    below = _lift_window(node.input)
    if below is None:
        return None
    return _over_calc(node, below) if isinstance(node, Calc) else _over_expand(node, below)


def _over_calc(node: Calc, below: _Lifted) -> _Lifted:
    """The projection without the bounds, with the columns by which rows find their windows."""
    roles, columns, mixed = {}, [], set()
    hidden = below.roles.keys() | below.mixed
    for name, sql in node.select:
        role = below.roles.get(column_name(sql) or "")
        if role is not None:
            roles[name] = role
        elif hidden & set(columns_of(sql)):
            mixed.add(name)
        else:
            columns.append((name, sql))
    fields = [node.columns.field(name) for name, _ in columns]
    carried = {}
    for column, name in below.carried.items():
        copied = next((own for own, sql in columns if column_name(sql) == name), None)
        if copied is None:
            copied = _fresh(name, [*node.columns.names, *(field.name for field in fields)])
            columns.append((copied, quote_name(name)))
            fields.append(pa.field(copied, below.rows.schema.field(name).type))
        carried[column] = copied
    rows = Calc(below.rows, tuple(columns), pa.schema(fields), node.where)
    if rows.picked_columns == tuple(rows.schema.names) == tuple(below.rows.schema.names):
        return replace(below, roles=roles, carried=carried, mixed=frozenset(mixed))
    barrier = below.barrier or _barrier(node.where, hidden, below.table)
    return _Lifted(rows, below.table, roles, carried, frozenset(mixed), barrier)


def _barrier(where: str | None, hidden: set[str], table: WindowTable) -> str:
    if where is None:
        return ""
    if hidden & set(columns_of(where)):
        return f"WHERE {where} looks at the window's bounds"
    if isinstance(table.assigner, Session) and table.partition is not None:
        return f"WHERE {where} stands after the sessions are made"
    return ""


def _over_expand(node: Expand, below: _Lifted) -> _Lifted:
    """The expansion without the bounds; a bound that is not in every set is none any more."""
    roles, mixed, places = {}, set(), []
    for place, name in enumerate(node.schema.names):
        items = {project[place] for project in node.projects}
        sources = {item.name if isinstance(item, Column) else "" for item in items}
        source_roles = {below.roles.get(source) for source in sources}
        if len(source_roles) == 1 and None not in source_roles:
            roles[name] = next(role for role in source_roles if role)
        elif sources & (below.roles.keys() | below.mixed):
            mixed.add(name)
        else:
            places.append(place)
    names = {name: _fresh(name, node.schema.names) for name in below.carried.values()}
    more = tuple(Column(name) for name in names)
    projects = tuple((*(project[place] for place in places), *more) for project in node.projects)
    fields = [node.schema.field(place) for place in places]
    fields += [pa.field(new, below.rows.schema.field(name).type) for name, new in names.items()]
    rows = Expand(below.rows, projects, pa.schema(fields))
    carried = {column: names[name] for column, name in below.carried.items()}
    return _Lifted(rows, below.table, roles, carried, frozenset(mixed), below.barrier)


def _fresh(name: str, names_used: list[str]) -> str:
    names = (name, *(f"{name}_{number}" for number in range(2, 999)))
    return next(each for each in names if each not in names_used)


def _obstacle(spec: AggSpec, lifted: _Lifted) -> str:
    """Why an aggregate does not know its windows; empty if it may."""
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


def _find_key_mismatch(spec: AggSpec, lifted: _Lifted) -> str:
    """Why the keys are not those by which sessions were made."""
    partition = lifted.table.partition
    if partition is None or not isinstance(lifted.table.assigner, Session):
        return ""
    keys = {_source(lifted.rows, name) for name in spec.group_by if name not in lifted.roles}
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
    node: AggregateNode, lifted: _Lifted, options: PlanOptions, notes: Notes
) -> Node:
    old = node.spec
    keys = tuple(name for name in old.group_by if name not in lifted.roles)
    spec = namespace_spec(old, keys, lifted.rows.schema)
    assigner = lifted.table.assigner
    if assigner.event_time:
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
