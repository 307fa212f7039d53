"""Numbering: a query that numbers rows becomes a Numbered and, where its range is known, a Deduplicate or a Rank."""

from __future__ import annotations

from typing import Protocol

from sqlglot import exp

from aggloom.codegen.operators import (
    Calc,
    Chosen,
    Node,
    Numbered,
    pick,
    plan_deduplicate,
    plan_rank,
    walk,
)
from aggloom.codegen.scalar.expressions import column_name
from aggloom.codegen.spec.dtypes import has_order, is_supported, type_name
from aggloom.codegen.sql.errors import place_error, refusal
from aggloom.codegen.sql.numbering import NumberingQuery, SortItem
from aggloom.codegen.sql.numbering_range import Range, conjuncts, range_of
from aggloom.codegen.sql.scope import Scope, bare, make_column
from aggloom.errors import TypeMismatchError

CHOICES: tuple[Chosen, ...] = (plan_deduplicate, plan_rank)
"""Operators that a numbering may become once its range is known; the first that can do it does."""


class NumberingBuilder(Protocol):
    """The builder of the blocks of a query."""

    dialect: str

    def query(self, tree: exp.Expression) -> Node: ...

    def changes(self, node: Node) -> str: ...

    def over(self, tree: exp.Select, source: Node, names: set[str]) -> Node: ...


def plan_numbering(builder: NumberingBuilder, query: NumberingQuery) -> Node:
    """The plan of a query that numbers rows: open, unless it says itself which numbers it asks for."""
    rows = builder.query(query.plain)
    scope = Scope(rows.schema, builder.dialect, set())
    every = list(rows.schema.names)
    visible = [name for name in every if name not in query.hidden]
    # A number with a name of its own in the query is added here, and is not among what the source gives.
    inputs = [name for name in every if name != query.number or not query.is_shown]
    order = tuple(
        SortItem(_column(scope, each.column), each.descending, each.nulls_first)
        for each in query.order
    )
    for each in order:
        kind = rows.schema.field(each.column).type
        if not has_order(kind):
            message = (
                f"ORDER BY {each.column}: {type_name(kind)} has no order; order by a part of it."
            )
            raise place_error(TypeMismatchError(message), query.place)
    partition = tuple(dict.fromkeys(_column(scope, name) for name in query.partition))
    for name in partition:
        kind = rows.schema.field(name).type
        if not is_supported(kind):
            message = f"PARTITION BY {name}: {type_name(kind)} cannot be a key; take a part of it."
            raise place_error(TypeMismatchError(message), query.place)
    source = pick(rows, inputs)
    adds_only = builder.changes(source) == "append"
    node: Node = Numbered(
        source,
        query.function,
        partition=partition,
        order=order,
        number=query.number,
        place=query.place,
        adds_only=adds_only,
    )
    # Nothing here says which numbers are asked for; a block around may (decision 031).
    if query.condition is None:
        return pick(node, visible)
    block = exp.select(*(make_column(name) for name in visible)).where(query.condition)
    return builder.over(block, node, set())


def push_number_bounds(scope: Scope, tree: exp.Select, source: Node) -> tuple[exp.Select, Node]:
    """A block over numbered rows, and its source: the numbers that WHERE asks for are a part of the source.

    What else WHERE says of the number stays there.
    """
    where = tree.args.get("where")
    if where is None or not any(isinstance(node, Numbered) for node in walk(source)):
        return tree, source
    conditions = conjuncts(where.this)
    for name in source.schema.names:
        node, number = _origin(source, name)
        if not isinstance(node, Numbered) or number != node.number:
            continue
        below = node

        def is_number(each: exp.Expression, name: str = name) -> bool:
            return isinstance(each, exp.Column) and scope.find(each.name) == name

        def find_number(
            each: exp.Expression, below: Numbered = below, rows: Node = source
        ) -> str | None:
            number = scope.find(each.name) if isinstance(each, exp.Column) else None
            # A column of the same rows may be the last number, as in `rn <= n`; the number itself may not.
            origin = _origin(rows, number) if number is not None else (None, "")
            return origin[1] if origin[0] is below and origin[1] != below.number else None

        bounds, rest = range_of([bare(each) for each in conditions], is_number, find_number)
        # Without a bound all rows stay in range, and the number has to be computed for all of them.
        if bounds.is_open:
            continue
        # The condition becomes a part of the operator, and leaves WHERE.
        source = _replace_node(source, below, _choose_node(below, bounds))
        left = tree.copy()
        left.set("where", exp.Where(this=exp.and_(*(e.copy() for e in rest))) if rest else None)
        return left, source
    return tree, source


def _choose_node(node: Numbered, bounds: Range) -> Node:
    for choice in CHOICES:
        better = choice(node, bounds)
        if better is not None:
            return better
    what = f"{node.function} by PROCTIME() DESC, but for number 1 of rows that are only added, is"
    raise refusal(node.place, what, "order by a column with the time of the row")


def _column(scope: Scope, name: str) -> str:
    column = scope.find(name)
    if column is None:
        raise scope.unknown(exp.column(name))
    return column


def _origin(node: Node, name: str) -> tuple[Node, str]:
    """The Numbered below that a column comes from and its name there, or where the trace ends."""
    while isinstance(node, Calc):
        sql = dict(node.select)[name]
        column = column_name(sql)
        if column is None:
            return node, name
        node, name = node.input, column
    return node, name


def _replace_node(node: Node, old: Node, new: Node) -> Node:
    """The plan with a node in the place of another, below steps over one input."""
    return new if node is old else node.over(_replace_node(node.inputs[0], old, new))
