"""over: a query with window functions becomes an Over for each order of rows, under the items that show them."""

from __future__ import annotations

from typing import Protocol

from sqlglot import exp

from aggloom.codegen.catalogue.registry import find
from aggloom.codegen.operators import Node, Numbered, OverCall, compute_columns, pick, transform
from aggloom.codegen.planner.builders.over_calls import NAMES, window_call
from aggloom.codegen.planner.builders.over_window import OverWindow
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.spec.dtypes import has_order, is_supported, type_name
from aggloom.codegen.spec.function_check import check_function
from aggloom.codegen.sql.errors import place_error, span
from aggloom.codegen.sql.frames import FrameClause, frame_of
from aggloom.codegen.sql.numbering import SortItem
from aggloom.codegen.sql.over import OverFunction, OverQuery
from aggloom.codegen.sql.scope import Scope, make_column
from aggloom.errors import TypeMismatchError


class OverBuilder(Protocol):
    """The builder of the blocks of a query."""

    dialect: str
    options: PlanOptions

    def query(self, tree: exp.Expression) -> Node: ...

    def changes(self, node: Node) -> str: ...

    def block(self, tree: exp.Select, source: Node, names: set[str]) -> Node: ...


Window = tuple[tuple[str, ...], tuple[SortItem, ...]]


def over(builder: OverBuilder, query: OverQuery) -> Node:
    """The plan of a query with window functions."""
    # The query without window functions is planned as any other; they go on top, and the items above them.
    rows = builder.query(query.plain)
    scope = Scope(rows.schema, builder.dialect, set())
    by_window: dict[Window, list[OverCall]] = {}
    for each in query.windows:
        window, call = _lower_function(scope, each)
        by_window.setdefault(window, []).append(call)
    # After all functions are lowered: each adds to the scope what it has to have computed of a row.
    node = compute_columns(rows, scope.computed.values())
    for (partition, order), calls in by_window.items():
        place = next(w.place for w in query.windows if w.name == calls[0].name)
        position = span(place)
        over_ = OverWindow(builder.dialect, builder.options, partition, order, position)
        node = over_.stack_calls(node, calls, builder.changes(node) == "append")
    stars = iter([builder.query(star).schema.names for star in query.stars])
    items = [
        column
        for item in query.items
        for column in ([make_column(name) for name in next(stars)] if item is None else [item])
    ]
    block = exp.select(*items)
    if query.condition is not None:
        block = block.where(query.condition)
    if query.distinct is not None:
        block.set("distinct", query.distinct.copy())
    # The block needs a table in FROM to be one; its rows are those of the node.
    block.set("from_", exp.From(this=exp.to_table("t")))
    return builder.block(block, node, set())


def plan_open_numberings(dialect: str, options: PlanOptions, root: Node) -> Node:
    """The plan with an Over for each numbering of which all numbers are asked for."""

    def change(node: Node) -> Node:
        if not isinstance(node, Numbered):
            return node
        # Nothing has asked for certain numbers, so that a number is a window function like any other.
        call = OverCall(node.number, node.function, FrameClause(end=0))
        window = OverWindow(dialect, options, node.partition, node.order, node.place)
        stacked = window.stack_calls(node.input, [call], node.adds_only)
        return pick(stacked, list(node.schema.names))

    return transform(root, change)


def _lower_function(scope: Scope, function: OverFunction) -> tuple[Window, OverCall]:
    """The window of a function, and its call over columns."""
    partition = tuple(dict.fromkeys(_column(scope, each) for each in function.partition))
    items: dict[str, SortItem] = {}
    for each in function.order:
        name = _column(scope, each.this)
        down, first = bool(each.args.get("desc")), bool(each.args.get("nulls_first"))
        # The first counts: rows that are equal by a column are equal by it again, in whatever direction.
        items.setdefault(name, SortItem(name, down, first))
    kinds = scope.columns_of(items)
    for field in kinds:
        if not has_order(field.type):
            message = f"ORDER BY {field.name}: {type_name(field.type)} has no order; order by a part of it."
            raise place_error(TypeMismatchError(message), function.place)
    for name in partition:
        kind = scope.columns_of([name]).field(0).type
        if not is_supported(kind):
            message = f"PARTITION BY {name}: {type_name(kind)} cannot be a key; take a part of it."
            raise place_error(TypeMismatchError(message), function.place)
    order = tuple(items.values())
    frame = frame_of(function.frame, kinds, function.place)
    # A misspelt name gets its hint here, before the order of a window is looked at.
    if find(function.call.name) is None and function.call.name.upper() not in NAMES:
        with scope.at(function.call):
            check_function(function.call.name, "SELECT")
    call = window_call(scope, function, frame, bool(order))
    return (partition, order), call


def _column(scope: Scope, node: exp.Expression) -> str:
    return scope.column(scope.resolve(node))
