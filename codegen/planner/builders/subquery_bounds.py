"""EXISTS and IN as values with one condition `u.x < t.y` beside equalities: the least or the greatest x decides."""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.planner.builders.clause import Clause
from aggloom.codegen.planner.builders.join_tree import Leaf, plan_of_tree, schema_of
from aggloom.codegen.planner.builders.subquery_marks import SubqueryJoin, ValueOfRows
from aggloom.codegen.planner.builders.subquery_rows import Body
from aggloom.codegen.planner.builders.subquery_ties import Tie, match_equality, split_ties
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


def existence_by_bound(clause: Clause, body: Body) -> ValueOfRows | None:
    """EXISTS by the least and greatest values of one comparison; None if the conditions are not of this form."""
    bound = _take_bound(clause, body)
    if bound is None:
        return None
    rows, (exists,) = _Bounded(clause, body, bound).group_rows([], [None])
    return ValueOfRows([rows], exists)


def membership_by_bound(
    clause: Clause,
    body: Body,
    sought: list[exp.Expression],
    items: list[exp.Expression],
    has_nulls: bool,
) -> ValueOfRows | None:
    """IN by the least and greatest values of one comparison; None if the conditions are not of this form.

    has_nulls: the value, one of one column, is NULL where a NULL may be the value that is sought.
    """
    inner = set(body.tree.columns)
    if any(not column_names(item) or not column_names(item) <= inner for item in items):
        return None
    bound = _take_bound(clause, body)
    if bound is None:
        return None
    equal = [Tie(item, own, False) for own, item in zip(sought, items, strict=True)]
    bounded = _Bounded(clause, body, bound)
    rows, (is_member,) = bounded.group_rows(equal, [None])
    if not has_nulls:
        return ValueOfRows([rows], is_member)
    nulls = exp.Is(this=items[0].copy(), expression=exp.null())
    others, (has_null, has_rows) = bounded.group_rows([], [nulls, None])
    is_null = exp.Is(this=sought[0].copy(), expression=exp.null())
    unknown = exp.or_(has_null, exp.paren(exp.and_(is_null, has_rows)))
    value = exp.Case(
        ifs=[
            exp.If(this=is_member, true=exp.true()),
            # Over no rows IN is FALSE, even for a NULL that is sought.
            exp.If(this=unknown, true=exp.cast(exp.null(), "BOOLEAN", dialect="spark")),
        ],
        default=exp.false(),
    )
    return ValueOfRows([rows, others], value)


class _Bounded:
    """The rows of a sub-query whose comparison with the query around it has been taken out of its conditions."""

    def __init__(self, clause: Clause, body: Body, bound: Bound) -> None:
        self._clause, self._bound = clause, bound
        self._ties, self._on = split_ties(body.clause)
        self._node = plan_of_tree(clause.builder, body.tree)

    def group_rows(
        self, ties: list[Tie], tests: list[exp.Expression | None]
    ) -> tuple[SubqueryJoin, list[exp.Expression]]:
        """One row for each value of the equalities and of `ties`, and whether it has rows of which a test is true.

        A test is over columns of the sub-query; None: any row will do.
        """
        clause, bound = self._clause, self._bound
        ties = [*self._ties, *ties]
        keys = [name_item(tie.own, clause.fresh("key")) for tie in ties]
        on = [each.copy() for each in self._on]
        on += [tie.by(key.alias) for tie, key in zip(ties, keys, strict=True)]
        calls, values = [], []
        for test in tests:
            names = [clause.fresh("value") for _ in _CALLS[bound.form]]
            own = bound.own.copy()
            if test is not None:
                own = exp.Case(ifs=[exp.If(this=test.copy(), true=own)])
            for function, name in zip(_CALLS[bound.form], names, strict=True):
                calls.append(name_item(CallNode(this=function, expressions=[own.copy()]), name))
            compared = [
                bound.form(this=make_column(name), expression=exp.paren(bound.other.copy()))
                for name in names
            ]
            values.append(exp.func("COALESCE", exp.paren(exp.or_(*compared)), exp.false()))
        block = exp.select(*(key.copy() for key in keys), *calls).from_("joined")
        if keys:
            block = block.group_by(*(key.this.copy() for key in keys))
        rows = Leaf(clause.builder.over(block, self._node, set()))
        return SubqueryJoin(rows, on), values


def _take_bound(clause: Clause, body: Body) -> Bound | None:
    """Take the one comparison that is no equality out of a sub-query's conditions; None if it has another form."""
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
    return bound


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
