"""Lists beside ANY and ALL as a condition each: patterns, `x LIKE ANY ('a%', 'b%')`, and values, `x > ALL (1, y)`."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from aggloom.codegen.sql.conditions import connect_all
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error
from aggloom.codegen.sql.scope import bare, replace_expression
from aggloom.errors import SqlError

_QUANTIFIERS: Final = {"ANY": exp.Any, "SOME": exp.Any, "ALL": exp.All}
_COMPARED: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def write_pattern_lists(tree: exp.Expression) -> None:
    """Write out the lists of patterns of a tree: ANY and SOME by OR, ALL by AND; NOT belongs to each pattern.

    Raises SqlError for a list without patterns.
    """
    for node in list(tree.find_all(exp.Like, exp.ILike)):
        listed = node.expression
        if not isinstance(listed, exp.Any | exp.All):
            continue
        patterns = bare(listed.this)
        if isinstance(patterns, exp.Query | exp.Subquery):
            continue
        each = patterns.expressions if isinstance(patterns, exp.Tuple) else [patterns]
        if not each:
            raise place_error(SqlError("a list without patterns; write one, ('a%')."), node)
        parts = [_like(node, pattern) for pattern in each]
        connected = connect_all(parts, exp.Or if isinstance(listed, exp.Any) else exp.And)
        replace_expression(node, exp.paren(connected, copy=False))


def write_quantified_lists(tree: exp.Expression) -> None:
    """Write out comparisons with ANY, SOME and ALL of listed values; `x > ANY (VALUES ..)` asks a query.

    One value alone stays as it is: it may be an array.
    """
    for call in list(tree.find_all(CallNode, exp.Anonymous)):
        kind = _QUANTIFIERS.get(call.name.upper())
        whole = call.parent
        if kind is None or not isinstance(whole, _COMPARED) or call.arg_key != "expression":
            continue
        listed = call.expressions
        if len(listed) == 1 and isinstance(listed[0], exp.Values):
            query = exp.select(exp.Star()).from_(listed[0])
            call.replace(kind(this=exp.Subquery(this=query)))
        elif len(listed) > 1:
            parts = [type(whole)(this=whole.this.copy(), expression=each) for each in listed]
            connected = connect_all(parts, exp.Or if kind is exp.Any else exp.And)
            replace_expression(whole, exp.paren(connected, copy=False))


def _like(node: exp.Expression, pattern: exp.Expression) -> exp.Expression:
    like = type(node)(this=node.this.copy(), expression=pattern.copy())
    return exp.not_(like, copy=False) if node.args.get("negate") else like
