"""INTERSECT and EXCEPT, plain and ALL: the rows of both sides with how often each side has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Calc, Node, compute_columns, mark, pick
from aggloom.codegen.scalar.expressions import quote_name, select_names
from aggloom.codegen.scalar.operand_types import common
from aggloom.codegen.spec.agg_spec import AggCall
from aggloom.codegen.spec.content import Computed
from aggloom.codegen.spec.dtypes import has_order, type_name
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import refusal
from aggloom.codegen.sql.scope import make_column, make_table, name_item, text_of
from aggloom.errors import SpecError, TypeMismatchError

_MOST = 1_000_000_000
"""Equal rows are numbered up to so many."""


class SetOperationBuilder(Protocol):
    """The builder of the blocks of a query."""

    def plan_union(self, parts: list[Node], tree: exp.SetOperation) -> Node: ...

    def aggregate_rows(
        self, node: Node, keys: list[str], calls: tuple[AggCall, ...], tree: exp.Expression
    ) -> Node: ...

    def query(self, tree: exp.Expression) -> Node: ...

    def with_tables(self, rows: Mapping[str, Node]) -> SetOperationBuilder: ...


def nameless(tree: exp.Expression) -> exp.Expression:
    """A query whose names mean nothing, as on the right side of a UNION or below a list of names: none comes twice."""
    copy = tree.copy()
    select: exp.Expression = copy
    # The names of a set operation are those of its first block.
    while isinstance(select, exp.Subquery | exp.SetOperation):
        select = select.this
    names: set[str] = set()
    for item in list(select.expressions) if isinstance(select, exp.Select) else ():
        name = (item.alias_or_name or text_of(item)).casefold()
        if name in names and not item.is_star:
            item.replace(name_item(item.unalias(), f"$column{len(names)}"))
            name = f"$column{len(names)}"
        names.add(name)
    return copy


def plan_set_operation(
    builder: SetOperationBuilder, parts: list[Node], tree: exp.SetOperation
) -> Node:
    """The plan of INTERSECT or EXCEPT of two sides."""
    sign = mark(*(part.schema for part in parts))
    left, every = f"{sign}left", f"{sign}all"
    sides = [
        compute_columns(part, [Computed(left, tag, pa.bool_())])
        for part, tag in zip(parts, ("TRUE", "FALSE"), strict=True)
    ]
    both = builder.plan_union(list[Node](sides), tree)
    names = both.schema.names[:-1]
    # How often the left has a row, and how often both have it: the difference is the right's.
    calls = (AggCall("COUNT", filter=left, alias=left), AggCall("COUNT", alias=every))
    counted = builder.aggregate_rows(both, names, calls, tree)
    columns = pa.schema(list(both.schema)[:-1])
    own, total = quote_name(left), quote_name(every)
    minus = isinstance(tree, exp.Except)
    if tree.args.get("distinct"):
        # In the left alone; or in both.
        where = f"{own} = {total}" if minus else f"{own} > 0 AND {own} < {total}"
        return Calc(counted, select_names(names), columns, where)
    copies = f"{own} - ({total} - {own})"
    if not minus:
        # The lesser of both counts.
        copies = f"CASE WHEN {own} < {total} - {own} THEN {own} ELSE {total} - {own} END"
    few = Calc(
        counted,
        (*select_names(names), (left, copies)),
        columns.append(pa.field(left, pa.int64())),
        f"{own} > {total} - {own}" if minus else f"{own} > 0 AND {own} < {total}",
    )
    return _repeat_rows(builder, pick(both, names), sides[0], few, left, tree)


def _repeat_rows(
    builder: SetOperationBuilder,
    both: Node,
    side: Node,
    few: Node,
    count: str,
    tree: exp.SetOperation,
) -> Node:
    """Keep as many rows of the left as a count says of each: of equal rows the first ones, by number."""
    names = list(both.schema.names)
    # Equal rows are equal in each column, so that any order numbers them.
    order = next((field.name for field in both.schema if has_order(field.type)), None)
    if order is None:
        kind = type(tree).__name__.upper()
        fix = "select a column that has an order too"
        raise refusal(tree, f"{kind} ALL of columns without an order is", fix)
    own = builder.plan_union([pick(side, side.schema.names[:-1]), pick(few, names)], tree)
    # The union has brought both sides to common types; its first part is the left with them.
    rows = own.inputs[0]
    inner_builder = builder.with_tables({"$rows": rows, "$few": few})
    # NULL is a value like others here, as in every set operation.
    same = [exp.NullSafeEQ(this=_of("$rows", name), expression=_of("$few", name)) for name in names]
    number = exp.Window(
        this=CallNode(this="ROW_NUMBER", distinct=False),
        partition_by=[make_column(name) for name in names],
        order=exp.Order(expressions=[exp.Ordered(this=make_column(order))]),
        over="OVER",
    )
    block = exp.select(*(_of("$rows", name) for name in names), _of("$few", count))
    block = block.from_(make_table("$rows")).join(make_table("$few"), on=exp.and_(*same))
    inner = exp.Subquery(this=block, alias=exp.TableAlias(this=exp.to_identifier("$both")))
    numbered = name_item(number, f"{count}_")
    ranked = exp.select(*(make_column(n) for n in (*names, count)), numbered).from_(inner)
    # A Rank takes its last number once; how often a row is there changes.
    last = exp.LTE(this=make_column(f"{count}_"), expression=exp.Literal.number(_MOST))
    left = exp.Sub(this=make_column(count), expression=make_column(f"{count}_"))
    last = exp.and_(last, exp.GTE(this=left, expression=exp.Literal.number(0)))
    outer = exp.Subquery(this=ranked, alias=exp.TableAlias(this=exp.to_identifier("$ranked")))
    return inner_builder.query(
        exp.select(*(make_column(name) for name in names)).from_(outer).where(last)
    )


def _of(table: str, name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table))


def common_type(first: pa.Field, second: pa.Field) -> pa.DataType:
    """The type that columns of two sides become; raises TypeMismatchError."""
    try:
        return common([first.type, second.type], exp.column(first.name))
    except SpecError:
        raise TypeMismatchError(
            f"UNION: column {first.name!r} is {type_name(first.type)} on one side and "
            f"{type_name(second.type)} on the other; cast one."
        ) from None


def cast_columns(node: Node, schema: pa.Schema) -> Node:
    """The node with the names and types of a schema."""
    if node.schema == schema:
        return node
    select = []
    for own, target in zip(node.schema, schema, strict=True):
        sql = quote_name(own.name)
        if own.type != target.type:
            sql = f"CAST({sql} AS {type_name(target.type)})"
        select.append((target.name, sql))
    return Calc(node, tuple(select), schema)
