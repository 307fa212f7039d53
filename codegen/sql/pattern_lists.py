"""Lists of patterns, `x LIKE ANY ('a%', 'b%')` and `x NOT LIKE ALL (..)`, written out as a condition each."""

from __future__ import annotations

from sqlglot import exp

from aggloom.codegen.sql.conditions import connect_all
from aggloom.codegen.sql.errors import place_error
from aggloom.codegen.sql.scope import bare, replace_expression
from aggloom.errors import SqlError


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


def _like(node: exp.Expression, pattern: exp.Expression) -> exp.Expression:
    like = type(node)(this=node.this.copy(), expression=pattern.copy())
    return exp.not_(like, copy=False) if node.args.get("negate") else like
