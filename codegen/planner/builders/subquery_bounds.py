"""EXISTS as a value with one condition `u.x < t.y` beside equalities: the least or the greatest x of a key decides."""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.planner.builders.clause import Clause
from aggloom.codegen.planner.builders.join_tree import Leaf, Tree, plan_of_tree, schema_of
from aggloom.codegen.planner.builders.subquery_rows import Body, match_equality, split_ties
from aggloom.codegen.scalar.promotion import is_number
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.sql.conditions import column_names
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.scope import bare, make_column, name_item

_MIRRORED: Final = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.NEQ: exp.NEQ,
}
_CALLS: Final = {
    exp.LT: ("MIN",),
    exp.LTE: ("MIN",),
    exp.GT: ("MAX",),
    exp.GTE: ("MAX",),
    exp.NEQ: ("MIN", "MAX"),
}
"""The aggregates of x that a comparison `x < y` needs: some x is below y if the least one is."""


class Bound(NamedTuple):
    """A comparison between a sub-query's side and one of the query around it."""

    form: type[exp.Binary]
    own: exp.Expression
    other: exp.Expression


class ExistenceRows(NamedTuple):
    """The rows to join, the conditions by which, and the value of EXISTS over the joined rows."""

    rows: Tree
    on: list[exp.Expression]
    value: exp.Expression


def existence_by_bound(clause: Clause, body: Body, place: exp.Expression) -> ExistenceRows | None:
    """EXISTS by the least and greatest values of one comparison; None if the conditions are not of this form."""
    inner = set(body.tree.columns)
    others = [
        each
        for each in body.clause.correlated
        if column_names(each) & inner and match_equality(each, inner) is None
    ]
    bound = _find_bound(others[0], inner) if len(others) == 1 else None
    if bound is None or not _is_monotonic(clause, body, bound):
        return None
    body.clause.correlated = [each for each in body.clause.correlated if each is not others[0]]
    ties, on = split_ties(body.clause, "a sub-query here is", "join the tables", place)
    keys = [name_item(tie.own, clause.fresh("key")) for tie in ties]
    on += [tie.by(key.alias) for tie, key in zip(ties, keys, strict=True)]
    names = [clause.fresh("value") for _ in _CALLS[bound.form]]
    calls = [
        name_item(CallNode(this=call, expressions=[bound.own.copy()]), name)
        for call, name in zip(_CALLS[bound.form], names, strict=True)
    ]
    node = plan_of_tree(clause.builder, body.tree)
    block = exp.select(*(key.copy() for key in keys), *calls).from_("joined")
    if keys:
        block = block.group_by(*(key.this.copy() for key in keys))
    compared = [bound.form(this=make_column(n), expression=exp.paren(bound.other)) for n in names]
    value = exp.func("COALESCE", exp.paren(exp.or_(*compared)), exp.false())
    return ExistenceRows(Leaf(clause.builder.over(block, node, set())), on, value)


def _find_bound(condition: exp.Expression, inner: set[str]) -> Bound | None:
    node = bare(condition)
    form = type(node)
    if form not in _CALLS:
        return None
    for kind, own, other in (
        (form, node.this, node.expression),
        (_MIRRORED[form], node.expression, node.this),
    ):
        names, others = column_names(own), column_names(other)
        if names and names <= inner and others and not others & inner:
            return Bound(kind, own, other)
    return None


def _is_monotonic(clause: Clause, body: Body, bound: Bound) -> bool:
    """Tell whether the comparison orders the sub-query's values as MIN and MAX do."""
    if not column_names(bound.other) <= set(clause.tree.columns):
        return False
    own, other = (
        infer(node, dict(zip(schema.names, schema.types, strict=True)))
        for node, schema in (
            (bound.own, schema_of(body.tree)),
            (bound.other, schema_of(clause.tree)),
        )
    )
    if is_number(own) and is_number(other):
        return True
    # Two types, as a text beside a number, are compared by a cast, which may order texts in another way.
    return bool(own == other and (own == pa.string() or pa.types.is_temporal(own)))
