"""Sub-queries below OR, NOT or CASE: one row for each value, and a column that says it is there."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Node, compute_columns
from aggloom.codegen.planner.builders.clause import Clause
from aggloom.codegen.planner.builders.join_tree import Leaf, Tree, plan_of_tree
from aggloom.codegen.planner.builders.subquery_rows import Body
from aggloom.codegen.planner.builders.subquery_ties import split_ties, tie_by_values
from aggloom.codegen.spec.content import Computed
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.scope import make_column, name_item
from aggloom.codegen.sql.subqueries import Extremes


class SubqueryJoin(NamedTuple):
    """Rows to join and the conditions by which."""

    rows: Tree
    on: list[exp.Expression]


class ValueOfRows(NamedTuple):
    """The value of a test for rows, over the columns of some LEFT JOINs."""

    joins: list[SubqueryJoin]
    value: exp.Expression


def membership_of_several(
    clause: Clause,
    body: Body,
    sought: list[exp.Expression],
    items: list[exp.Expression],
    place: exp.Expression,
) -> ValueOfRows:
    """IN with several columns: NULL if NULLs leave it open whether a row is the one that is sought, and none is."""
    pairs = zip(sought, items, strict=True)
    equal = exp.and_(*(exp.EQ(this=own.copy(), expression=item.copy()) for own, item in pairs))
    # A NULL in one column leaves the others to decide: only rows of which the whole is not FALSE count.
    body.clause.correlated.append(exp.func("COALESCE", exp.paren(equal.copy()), exp.true()))
    rename = tie_by_values(clause, body.clause, [equal], place)
    rows, (is_member,), there, on = distinct_rows(clause, body, [rename(equal)], any_of=True)
    null = exp.cast(exp.null(), "BOOLEAN", dialect="spark")
    ifs = [
        exp.If(this=make_column(is_member), true=exp.true()),
        exp.If(this=make_column(there), true=null),
    ]
    return ValueOfRows([SubqueryJoin(rows, on)], exp.Case(ifs=ifs, default=exp.false()))


def extremes_of_rows(
    clause: Clause, body: Body, item: exp.Expression, place: exp.Expression
) -> tuple[SubqueryJoin, Extremes]:
    """The extremes of an item of a sub-query, for each row of the query around it, and the LEFT JOIN that has them."""
    rename = tie_by_values(clause, body.clause, [item], place)
    item = rename(item)
    keys, on = _name_keys(clause, body)
    calls = (("MIN", item), ("MAX", item), ("COUNT", item), ("COUNT", exp.Star()))
    named = {
        clause.fresh(call.lower()): CallNode(this=call, expressions=[of.copy()])
        for call, of in calls
    }
    rows = SubqueryJoin(Leaf(_group_rows(clause, body, keys, named)), on)
    least, greatest, valid, every = map(make_column, named)
    # The LEFT JOIN has NULLs where a value around the sub-query finds no rows.
    counts = (exp.func("COALESCE", each, exp.Literal.number(0)) for each in (valid, every))
    return rows, Extremes(least, greatest, *counts)


def distinct_rows(
    clause: Clause,
    body: Body,
    items: list[exp.Expression],
    any_of: bool = False,
) -> tuple[Tree, list[str], str, list[exp.Expression]]:
    """The different rows of some items of a sub-query, with a column TRUE.

    Returns them, the names of the items and of that column, and the conditions that tie them to the query around.
    any_of: one row for all that the query around asks of, with each item TRUE if it is of any row.
    """
    keys, on = _name_keys(clause, body)
    _plan_rows(clause, body)
    assert isinstance(body.tree, Leaf)
    names, mark = [clause.fresh("item") for _ in items], clause.fresh("found")
    columns = [*keys, *(name_item(item, name) for item, name in zip(items, names, strict=True))]
    if any_of:
        return _any_of(clause, body, keys, items, names, mark), names, mark, on
    # DISTINCT, so that the join finds at most one row: the mark must not multiply the rows of the query around.
    block = exp.select(*(columns or [name_item(exp.true(), mark)])).distinct().from_("joined")
    rows = clause.builder.over(block, body.tree.node, set())
    if columns:
        rows = compute_columns(rows, [Computed(mark, "TRUE", pa.bool_())])
    return Leaf(rows), names, mark, on


def _any_of(
    clause: Clause,
    body: Body,
    keys: list[exp.Expression],
    items: list[exp.Expression],
    names: list[str],
    mark: str,
) -> Tree:
    """One row a key, or one in all, that says of conditions whether any row meets them."""
    counted = [clause.fresh("count") for _ in items]
    calls = {
        name: CallNode(this="COUNT_IF", expressions=[item.copy()])
        for item, name in zip(items, counted, strict=True)
    }
    every = clause.fresh("count")
    calls[every] = CallNode(this="COUNT", expressions=[exp.Star()])
    rows = _group_rows(clause, body, keys, calls)
    columns = [make_column(key.alias) for key in keys]
    zero = exp.Literal.number(0)
    columns += [
        name_item(exp.GT(this=make_column(c), expression=zero.copy()), n)
        for c, n in zip(counted, names, strict=True)
    ]
    some = exp.GT(this=make_column(every), expression=zero)
    columns.append(name_item(exp.true(), mark))
    return Leaf(clause.builder.over(exp.select(*columns).from_("joined").where(some), rows, set()))


def _name_keys(clause: Clause, body: Body) -> tuple[list[exp.Expression], list[exp.Expression]]:
    """The columns of a sub-query that are tied to the query around it, under new names, and the conditions that tie."""
    ties, on = split_ties(body.clause)
    keys = [name_item(tie.own, clause.fresh("key")) for tie in ties]
    return keys, [*on, *(tie.by(key.alias) for tie, key in zip(ties, keys, strict=True))]


def _group_rows(
    clause: Clause, body: Body, keys: list[exp.Expression], calls: dict[str, CallNode]
) -> Node:
    """The rows of a sub-query grouped by named keys, with aggregates under their names."""
    _plan_rows(clause, body)
    assert isinstance(body.tree, Leaf)
    named = [name_item(call, name) for name, call in calls.items()]
    block = exp.select(*(key.copy() for key in keys), *named).from_("joined")
    if keys:
        block = block.group_by(*(key.this.copy() for key in keys))
    return clause.builder.over(block, body.tree.node, set())


def _plan_rows(clause: Clause, body: Body) -> None:
    """Plan the joins and conditions of a sub-query, so that it is a table."""
    if not isinstance(body.tree, Leaf) or body.tree.where:
        body.clause.tree = Leaf(plan_of_tree(clause.builder, body.tree))
