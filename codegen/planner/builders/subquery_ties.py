"""Ties: the conditions of a sub-query over columns of the query around it, which become equalities if they are none.

`(SELECT COUNT(*) FROM u WHERE u.k = t.k AND u.x < t.y)` counts for each of the distinct (t.k, t.y) the rows of u that
meet the conditions with it. What ties the counts to t are equalities then, whatever the conditions were: so below any
aggregate, below LIMIT, and for IN and EXISTS as values.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.planner.builders.clause import Clause
from aggloom.codegen.planner.builders.join_tree import JoinedParts, Leaf, plan_of_tree, schema_of
from aggloom.codegen.scalar.promotion import wider
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.conditions import column_names, equality, never_null
from aggloom.codegen.sql.errors import refusal
from aggloom.codegen.sql.scope import make_column, name_item
from aggloom.errors import AggloomError

Rename = Callable[[exp.Expression], exp.Expression]
"""Returns an expression with other columns in the place of some."""


class Tie(NamedTuple):
    """An equality between a sub-query and the query around it: both sides, and whether NULL equals NULL."""

    own: exp.Expression
    other: exp.Expression
    null_safe: bool

    def by(self, column: str) -> exp.Expression:
        """The equality with a column in place of the sub-query's side."""
        # As it was written: with `=` a NULL outside finds nothing, with IS NOT DISTINCT FROM it does.
        kind = exp.NullSafeEQ if self.null_safe else exp.EQ
        return kind(this=make_column(column), expression=self.other.copy())


def split_ties(clause: Clause) -> tuple[list[Tie], list[exp.Expression]]:
    """The equalities that tie a sub-query to the query around it, and the conditions of that query alone.

    All conditions are equalities, as written or by `tie_by_values`.
    """
    inner, ties, outside = set(clause.tree.columns), list[Tie](), list[exp.Expression]()
    for each in clause.correlated:
        tie = match_equality(each, inner)
        if not column_names(each) & inner:
            outside.append(each)
        else:
            assert tie is not None
            ties.append(tie)
    return ties, outside


def match_equality(condition: exp.Expression, inner: set[str]) -> Tie | None:
    """Return a condition as a tie, if it is an equality between columns of a sub-query, `inner`, and others."""
    equation = equality(condition)
    if equation is None:
        return None
    for own, other in (equation.sides, equation.sides[::-1]):
        names, others = column_names(own), column_names(other)
        # A side that reads both queries could not be computed before the join.
        if names and names <= inner and others and not others & inner:
            return Tie(own, other, equation.null_safe)
    return None


def compare_in_one_type(outer: Clause, clause: Clause) -> None:
    """Have the equalities that tie a sub-query compare its side in the type in which both sides are compared."""
    inner = set(clause.tree.columns)
    for place, each in enumerate(clause.correlated):
        tie = match_equality(each, inner)
        if tie is not None:
            own = cast_to_common(outer, clause, tie.own, tie.other)
            if own is not tie.own:
                kind = exp.NullSafeEQ if tie.null_safe else exp.EQ
                clause.correlated[place] = kind(this=own, expression=tie.other)


def cast_to_common(
    outer: Clause, clause: Clause, own: exp.Expression, other: exp.Expression
) -> exp.Expression:
    """A sub-query's expression, `own`, in the type in which it is compared with one of the query around it, `other`.

    Different values may be equal there, as two BIGINTs are as DOUBLEs: groups by `own` would both be the one that is
    sought.
    """
    schemas = schema_of(clause.tree), schema_of(outer.tree)
    if any(not column_names(e) <= set(s.names) for e, s in zip((own, other), schemas, strict=True)):
        return own
    types = list[pa.DataType]()
    # What has no known type is refused where the tables are joined, with its place.
    with suppress(AggloomError):
        for each, schema in zip((own, other), schemas, strict=True):
            types.append(infer(each, dict(zip(schema.names, schema.types, strict=True))))
    common = wider(types[0], types[1], texts=False) if len(types) == 2 else None
    if common is None or _is_exact(types[0], common):
        return own
    return exp.cast(own.copy(), type_name(common), dialect="spark")


def _is_exact(dtype: pa.DataType, common: pa.DataType) -> bool:
    """Tell whether different values of a type are different ones of another, too."""
    if dtype == common or pa.types.is_date(dtype):
        return True
    if pa.types.is_integer(dtype):
        digits = {pa.float32(): 16, pa.float64(): 32}.get(common, 64)
        return bool(dtype.bit_width <= digits)
    if pa.types.is_decimal(dtype) and pa.types.is_decimal(common):
        return bool(common.scale >= dtype.scale)
    return bool(dtype == pa.float32() and common == pa.float64())


def tie_by_values(
    outer: Clause, clause: Clause, parts: list[exp.Expression], place: exp.Expression
) -> Rename:
    """Make equalities of the conditions that tie a sub-query, `clause`, to the query around it, `outer`.

    Its rows become pairs with the distinct values of `outer` that conditions or `parts` read. Returns what
    puts columns of the pairs in the place of those of `outer` in such an expression. Changes nothing if all is tied by
    equalities already. Raises UnsupportedSqlError for columns of a query two levels out.
    """
    inner = set(clause.tree.columns)
    mixed = [each for each in clause.correlated if column_names(each) & inner]
    outside = {name for each in parts for name in column_names(each)} - inner
    if not outside and all(match_equality(each, inner) for each in mixed):
        return lambda node: node
    outside |= {name for each in mixed for name in column_names(each)} - inner
    if not outside <= set(outer.tree.columns):
        what = "a sub-query that reads a column of a query two levels out is"
        raise refusal(place, what, "let the query between select that column from a join")
    names = {name: outer.fresh("outer") for name in outer.tree.columns if name in outside}

    def rename_part(part: exp.Expression) -> exp.Expression:
        known = isinstance(part, exp.Column) and part.name in names
        return make_column(names[part.name]) if known else part

    def rename(node: exp.Expression) -> exp.Expression:
        return node.transform(rename_part, copy=True)

    clause.correlated = [each for each in clause.correlated if each not in mixed]
    if not names:
        clause.filter(mixed)
        return rename
    node = plan_of_tree(outer.builder, outer.tree)
    if not isinstance(outer.tree, Leaf):
        # Planning moves conditions within the tree, so that it is done once; both readers share its plan.
        outer.tree = Leaf(node)
    block = exp.select(*(name_item(make_column(own), new) for own, new in names.items()))
    values = Leaf(outer.builder.over(block.distinct().from_("joined"), node, set()))
    on = [rename(each) for each in mixed]
    clause.tree = JoinedParts("inner", values, clause.tree, on)
    # Where a condition drops rows with NULL, no pair has one, and a plain equality is enough.
    never = {name for each in mixed for name in never_null(each)}
    for own, new in names.items():
        kind = exp.EQ if own in never else exp.NullSafeEQ
        clause.correlated.append(kind(this=make_column(new), expression=make_column(own)))
    return rename
