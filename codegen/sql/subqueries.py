"""Sub-queries in expressions: where they stand, and how a condition is written so that they stand alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp

from aggloom.codegen.catalogue.registry import find
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import refusal
from aggloom.codegen.sql.numbering_range import conjuncts
from aggloom.codegen.sql.scope import bare

_OPPOSITE: dict[type[exp.Binary], type[exp.Binary]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.GTE: exp.LT,
    exp.GT: exp.LTE,
    exp.LTE: exp.GT,
}
_MIRRORED: dict[type[exp.Binary], type[exp.Binary]] = {
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
}
_ZERO = ("COUNT", "COUNT_IF", "SUM0", "REGR_COUNT", "APPROX_COUNT_DISTINCT")
"""Aggregates that are 0 over no rows."""


def queries(node: exp.Expression) -> Iterator[exp.Expression]:
    """The outermost queries in an expression."""
    for part in node.walk(prune=lambda each: isinstance(each, exp.Query)):
        if isinstance(part, exp.Query):
            yield part


def has_queries(tree: exp.Select) -> bool:
    """Tell whether there are sub-queries in the expressions of a SELECT or in the conditions of its joins."""
    clauses = [*tree.expressions, *(tree.args.get(key) for key in ("where", "group", "having"))]
    clauses += [join.args.get("on") for join in tree.args.get("joins") or []]
    return any(any(queries(each)) for each in clauses if each is not None)


def simplify_condition(node: exp.Expression) -> list[exp.Expression]:
    """The conjuncts of a condition; NOT stands directly before sub-queries, and quantifiers are what they stand for.

    `x = ANY (..)` is IN, `x <> ALL (..)` is NOT IN, and `NOT (a OR EXISTS ..)` is `NOT a AND NOT EXISTS ..`.
    """
    if not any(queries(node)):
        return conjuncts(node)
    return [part for each in conjuncts(_push_negation(node, False)) for part in [bare(each)]]


def split_quantifier(node: exp.Expression) -> tuple[exp.Expression, str, exp.Expression] | None:
    """A comparison with ANY or ALL rows of a query: (the comparison with NULL for a value, the word, the query)."""
    if not isinstance(node, exp.Binary) or type(node) not in _OPPOSITE:
        return None
    for side, other in (("expression", "this"), ("this", "expression")):
        operand = bare(node.args[side])
        if isinstance(operand, exp.Any | exp.All) and any(queries(operand)):
            kind = type(node) if side == "expression" else _MIRRORED.get(type(node), type(node))
            word = "ANY" if isinstance(operand, exp.Any) else "ALL"
            compared = kind(this=node.args[other].copy(), expression=exp.null())
            return compared, word, next(queries(operand))
    return None


def as_membership(node: exp.Expression) -> exp.Expression:
    """`= ANY` as IN and `<> ALL` as NOT IN; other expressions as they are."""
    comparison = split_quantifier(node)
    if comparison is None:
        return node
    compared, word, query = comparison
    whole = exp.In(this=compared.this, query=_subquery(query))
    if isinstance(compared, exp.EQ) and word == "ANY":
        return whole
    return exp.Not(this=whole) if isinstance(compared, exp.NEQ) and word == "ALL" else node


def is_test(condition: exp.Expression) -> bool:
    """Tell whether a condition, or its opposite, only asks which rows a sub-query has."""
    inner = bare(condition.this) if isinstance(condition, exp.Not) else condition
    if isinstance(inner, exp.Exists):
        # An aggregate without GROUP BY has one row in any case: it is a value to compare, and no rows to look for.
        return not is_single(inner.this)
    if isinstance(inner, exp.In) and inner.args.get("query"):
        return not is_single(inner.args["query"])
    comparison = split_quantifier(inner)
    return comparison is not None and not is_single(comparison[2])


class Extremes(NamedTuple):
    """The ends of the rows of a query for ANY and ALL: the least and the greatest value, the count of values that are
    not NULL, and that of rows.
    """

    least: exp.Expression
    greatest: exp.Expression
    valid: exp.Expression
    rows: exp.Expression


def quantified_value(comparison: exp.Expression, word: str, of: Extremes) -> exp.Expression:
    """A comparison with ANY or ALL rows as a value, by the least and the greatest of them.

    comparison: as `split_quantifier` returns it. TRUE and FALSE are decided by one row; what is left is NULL if a side
    of a comparison was.
    """
    left, kind = comparison.this, type(comparison)
    # `x < ALL` and `x > ANY` are about the least row, their opposites about the greatest, = and <> about both.
    by_least = isinstance(comparison, exp.LT | exp.LTE) == (word == "ALL")
    ends = [of.least if by_least else of.greatest]
    if kind in (exp.EQ, exp.NEQ):
        ends = [of.least, of.greatest]
    tests = [exp.paren(kind(this=left.copy(), expression=end.copy())) for end in ends]
    is_null = exp.or_(
        exp.Is(this=left.copy(), expression=exp.null()),
        exp.LT(this=of.valid, expression=of.rows.copy()),
    )
    is_empty = exp.EQ(this=of.rows, expression=exp.Literal.number(0))
    is_any = word == "ANY"
    decided = exp.or_(*tests) if is_any else exp.not_(exp.and_(*tests))
    return exp.Case(
        ifs=[
            exp.If(this=is_empty, true=exp.false() if is_any else exp.true()),
            exp.If(this=decided, true=exp.true() if is_any else exp.false()),
            exp.If(this=is_null, true=exp.cast(exp.null(), "BOOLEAN", dialect="spark")),
        ],
        default=exp.false() if is_any else exp.true(),
    )


def extremes_of(query: exp.Expression) -> Extremes | None:
    """The extremes as sub-queries of their own; None for a query whose one item cannot be replaced by an aggregate.

    That is so for a UNION, for a star, and where the rows are those of GROUP BY, HAVING, LIMIT or OVER.
    """
    query = unwrap_query(query).copy()
    if not isinstance(query, exp.Select) or not query.args.get("from_"):
        return None
    if len(query.expressions) != 1 or isinstance(query.expressions[0], exp.Star):
        return None
    clauses = ("group", "having", "limit", "offset", "qualify")
    if any(query.args.get(key) for key in clauses) or has_windows(query):
        return None
    column = query.expressions[0].unalias()
    # The least, the greatest, and whether there are rows are the same with equal rows and in any order.
    query.set("distinct", None)
    query.set("order", None)
    calls = (("MIN", column), ("MAX", column), ("COUNT", column), ("COUNT", exp.Star()))
    return Extremes(*(_aggregate(query, function, argument) for function, argument in calls))


def _aggregate(source: exp.Select, function: str, argument: exp.Expression) -> exp.Expression:
    """The sub-query of one aggregate over the rows of a query."""
    query = source.copy()
    query.set("expressions", [CallNode(this=function, expressions=[argument.copy()])])
    return exp.Subquery(this=query)


def empty_value(call: CallNode) -> exp.Expression:
    """Return the value of an aggregate call over no rows: 0 or NULL.

    Raises UnsupportedSqlError for a function that gives another value then.
    """
    entry = find(call.name)
    if entry is not None and entry.name in _ZERO:
        return exp.Literal.number(0)
    # Only of functions that are NULL over no rows in both dialects is it known here.
    if entry is None or entry.append.empty is None or len(entry.empty_in) < 2:
        what = f"{call.name.upper()} in a sub-query that is correlated, or beside a value, is"
        fix = "join the grouped query with LEFT JOIN, and say with COALESCE what no rows give"
        raise refusal(call, what, fix)
    return exp.null()


def is_single(query: exp.Expression) -> bool:
    """Tell whether a query is an aggregate without GROUP BY: one row, over no rows too, unless HAVING drops it."""
    query = unwrap_query(query)
    if not isinstance(query, exp.Select) or query.args.get("group") or not query.args.get("from_"):
        return False
    # LIMIT 0 has no row, whatever the query aggregates.
    if query.args.get("limit") or query.args.get("offset"):
        return False
    # HAVING without GROUP BY makes one group of all rows, also where no item is an aggregate.
    if query.args.get("having"):
        return True
    return any(isinstance(part, CallNode) for item in query.expressions for part in _own(item))


def has_windows(query: exp.Select) -> bool:
    """Tell whether items of a SELECT have OVER."""
    return any(isinstance(part, exp.Window) for item in query.expressions for part in _own(item))


def unwrap_query(query: exp.Expression) -> exp.Expression:
    """The query without parentheses around it that say no more."""
    while isinstance(query, exp.Subquery) and not any(
        value for key, value in query.args.items() if key != "this"
    ):
        query = query.this
    return query


def _own(item: exp.Expression) -> Iterator[exp.Expression]:
    """The parts of an expression but for those of its sub-queries and of OVER."""
    for part in item.walk(prune=lambda each: isinstance(each, exp.Query | exp.Window)):
        if not isinstance(part, exp.Query):
            yield part


def _subquery(query: exp.Expression) -> exp.Expression:
    # A copy, for a node of a tree has one parent.
    return query.copy() if isinstance(query, exp.Subquery) else exp.Subquery(this=query.copy())


def _push_negation(node: exp.Expression, negative: bool) -> exp.Expression:
    """A condition, or its opposite, with NOT only where no AND or OR with a sub-query is below it."""
    node = bare(node)
    if not any(queries(node)):
        return exp.Not(this=exp.paren(node.copy())) if negative else node.copy()
    if isinstance(node, exp.Not):
        return _push_negation(node.this, not negative)
    if isinstance(node, exp.And | exp.Or):
        # De Morgan's laws hold with NULL, too.
        kind = exp.Or if isinstance(node, exp.And) == negative else exp.And
        sides = [
            _parenthesise(_push_negation(side, negative), kind)
            for side in (node.this, node.expression)
        ]
        return kind(this=sides[0], expression=sides[1])
    comparison = split_quantifier(node)
    if comparison is not None and negative:
        compared, word, query = comparison
        # NOT (x < ANY q) is x >= ALL q.
        opposite = _OPPOSITE[type(compared)]
        other = exp.All if word == "ANY" else exp.Any
        node, negative = (
            opposite(this=compared.this, expression=other(this=_subquery(query))),
            False,
        )
    node = as_membership(node.copy())
    if negative:
        return node.this if isinstance(node, exp.Not) else exp.Not(this=exp.paren(node))
    return node


def _parenthesise(node: exp.Expression, kind: type[exp.Expression]) -> exp.Expression:
    inner = isinstance(node, exp.And | exp.Or) and not isinstance(node, kind)
    return exp.paren(node) if inner else node
