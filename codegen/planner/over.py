"""over: a query with window functions becomes an Over for each order of rows, under the items that show their values."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.catalogue.registry import find
from aggloom.codegen.operators import Calc, Node, Numbered, Over, OverCall, pick, transform
from aggloom.codegen.operators.over import By
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.over_calls import window_call
from aggloom.codegen.scalar.expressions import quoted
from aggloom.codegen.spec.checks import check_function
from aggloom.codegen.spec.dtypes import has_order, type_name
from aggloom.codegen.sql.errors import located
from aggloom.codegen.sql.frames import Frame, frame_of
from aggloom.codegen.sql.numbering import SortItem
from aggloom.codegen.sql.over import OverQuery, WindowFunction
from aggloom.codegen.sql.scope import Scope, named
from aggloom.codegen.sql.shape import refusal
from aggloom.errors import TypeMismatchError

_BY_TIME = ("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG")
"""What is known of a row by time once it is given out, beside aggregates."""


class Builder(Protocol):
    """What builds the blocks of a query."""

    sql: str
    dialect: str
    options: PlanOptions

    def query(self, tree: exp.Expression) -> Node: ...

    def changes(self, node: Node) -> str: ...

    def block(self, tree: exp.Select, source: Node, names: set[str]) -> Node: ...


Window = tuple[tuple[str, ...], tuple[SortItem, ...]]


def over(builder: Builder, query: OverQuery) -> Node:
    """The plan of a query with window functions."""
    rows = builder.query(query.plain)
    scope = Scope(builder.sql, rows.schema, builder.dialect, set())
    found: dict[Window, list[OverCall]] = {}
    for each in query.windows:
        window, call = _lowered(scope, each)
        found.setdefault(window, []).append(call)
    node = _computed(rows, scope)
    for (partition, order), calls in found.items():
        node = _stacked(builder, node, partition, order, calls)
    stars = iter([builder.query(star).schema.names for star in query.stars])
    items = [
        shown
        for item in query.items
        for shown in ([named(name) for name in next(stars)] if item is None else [item])
    ]
    block = exp.select(*items)
    if query.condition is not None:
        block = block.where(query.condition)
    if query.distinct is not None:
        block.set("distinct", query.distinct.copy())
    block.set("from_", exp.From(this=exp.to_table("t")))
    return builder.block(block, node, set())


def opened(sql: str, dialect: str, root: Node) -> Node:
    """The plan with an Over for each numbering of which all numbers are asked for."""

    def change(node: Node) -> Node:
        if not isinstance(node, Numbered):
            return node
        rows, order = node.input, _without_clock(node.input, node.order)
        if order is None:
            what = f"{node.function} by PROCTIME() DESC without a last number is"
            fix = "order by a column that says when the row came"
            raise refusal(sql, node.place, what, fix)
        call = OverCall(node.number, node.function, Frame(end=0))
        others = [name for name in rows.schema.names if name not in node.partition]
        below = pick(rows, [*node.partition, *others])
        found = Over(below, node.partition, order, (call,), dialect)
        return pick(found, list(node.schema.names))

    return transform(root, change)


def _lowered(scope: Scope, function: WindowFunction) -> tuple[Window, OverCall]:
    """The window of a function, and its call over columns."""
    partition = tuple(dict.fromkeys(_column(scope, each) for each in function.partition))
    items: dict[str, SortItem] = {}
    for each in function.order:
        name = _column(scope, each.this)
        down, first = bool(each.args.get("desc")), bool(each.args.get("nulls_first"))
        items.setdefault(name, SortItem(name, down, first))
    kinds = scope.columns_of(items)
    for field in kinds:
        if not has_order(field.type):
            message = f"ORDER BY {field.name}: {type_name(field.type)} has no order; order by a part of it."
            raise TypeMismatchError(located(message, scope.sql, function.place))
    for name in partition:
        kind = scope.columns_of([name]).field(0).type
        if pa.types.is_map(kind):
            message = f"PARTITION BY {name}: {type_name(kind)} cannot be a key."
            raise TypeMismatchError(located(message, scope.sql, function.place))
    order = tuple(items.values())
    frame = frame_of(scope.sql, function.frame, kinds, function.place)
    if find(function.call.name) is None and function.call.name.upper() not in _NAMES:
        with scope.at(function.call):
            check_function(function.call.name, "SELECT")
    call = window_call(scope, function, frame, bool(order))
    return (partition, order), call


_NAMES = (*_BY_TIME, "LEAD", "NTILE", "PERCENT_RANK", "CUME_DIST", "NTH_VALUE")


def _column(scope: Scope, node: exp.Expression) -> str:
    return scope.column(scope.resolved(node))


def _computed(rows: Node, scope: Scope) -> Node:
    """The rows with the columns that arguments and keys are computed to."""
    if not scope.computed:
        return rows
    select = [(name, quoted(name)) for name in rows.schema.names]
    select += [(each.name, each.sql) for each in scope.computed.values()]
    fields = [pa.field(each.name, each.type) for each in scope.computed.values()]
    return Calc(rows, tuple(select), pa.schema([*rows.schema, *fields]))


def _stacked(
    builder: Builder,
    rows: Node,
    partition: tuple[str, ...],
    order: tuple[SortItem, ...],
    calls: list[OverCall],
) -> Node:
    """The functions of one window over rows: together, or by time, if they can be given out once and for all."""
    others = [name for name in rows.schema.names if name not in partition]
    left = _without_clock(rows, order)
    if left is None:
        what = "OVER by PROCTIME() DESC is"
        raise refusal(builder.sql, None, what, "order by a column that says when the row came")
    by = _time(builder, rows, order, calls)
    groups = [calls]
    if by:
        groups = [
            [each for each in calls if (each.call and each.frame.start is None) == unbounded]
            for unbounded in (True, False)
        ]
    dialect = builder.dialect
    for some in filter(None, groups):
        below = pick(rows, [*partition, *others])
        kept = order[:1] if by == "row" else () if by else left
        rows = Over(below, partition, kept, tuple(some), dialect, by)
        others += [each.name for each in some]
    return rows


def _time(
    builder: Builder, rows: Node, order: tuple[SortItem, ...], calls: list[OverCall]
) -> By:
    """The time by which rows are given out once: insertions in order of one time, and frames that look back."""
    if not order or builder.changes(rows) != "append":
        return ""
    back = all(
        each.frame.end == 0 and (each.call or each.function in _BY_TIME) and not each.ignores_nulls
        for each in calls
    )
    back = back and all(e.frame.start is None or not str(e.frame.start) > "0" for e in calls)
    if not back:
        return ""
    (first, *more) = order
    if first.column in rows.clock_columns:
        return "processing"
    usual = not first.descending and first.nulls_first and not more
    kind = rows.schema.field(first.column).type
    timed = pa.types.is_timestamp(kind) and usual
    return "row" if timed and builder.options.over_insert_only else ""


def _without_clock(rows: Node, order: tuple[SortItem, ...]) -> tuple[SortItem, ...] | None:
    """The order where the clock is that of arrival; None: the last to arrive come first."""
    for place, each in enumerate(order):
        if each.column in rows.clock_columns:
            # Rows of one time come in one order: what follows the clock decides nothing.
            return None if each.descending else order[:place]
    return order
