"""Conditions of joins, conjunct by conjunct: which are equalities, and which no row with NULLs can pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from aggloom.codegen.sql.scope import bare, text_of

_STRICT = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.ILike),
    *(exp.Neg, exp.Paren, exp.Add, exp.Sub, exp.Mul, exp.Cast, exp.Lower, exp.Upper),
)
"""Operations of which NULL among the operands makes NULL."""


@dataclass(frozen=True)
class Equality:
    """Two expressions that a condition sets equal; null_safe: NULL equals NULL."""

    sides: tuple[exp.Expression, exp.Expression]
    null_safe: bool = False


def column_names(node: exp.Expression) -> set[str]:
    """The columns that an expression reads."""
    return {column.name for column in node.find_all(exp.Column)}


def connect_all(
    conditions: list[exp.Expression], connect: Callable[..., exp.Expression]
) -> exp.Expression:
    """The conditions connected as a balanced tree, so that a long list does not nest deeply; connect: And or Or."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    left, right = (
        connect_all(part, connect) for part in (conditions[:middle], conditions[middle:])
    )
    return connect(this=exp.paren(left, copy=False), expression=exp.paren(right, copy=False))


def equality(node: exp.Expression) -> Equality | None:
    """The equality that a condition is; None for other conditions."""
    node = bare(node)
    if isinstance(node, exp.EQ | exp.NullSafeEQ):
        sides = bare(node.this), bare(node.expression)
        return Equality(sides, isinstance(node, exp.NullSafeEQ))
    # Null-safe equality as databases without an operator for it write it.
    if isinstance(node, exp.Or):
        return _null_safe(*_disjuncts(node))
    return None


def _null_safe(*parts: exp.Expression) -> Equality | None:
    """`a = b OR (a IS NULL AND b IS NULL)`, in either order, is a null-safe equality."""
    if len(parts) != 2:
        return None
    for equal, both in (parts, parts[::-1]):
        if not isinstance(equal, exp.EQ) or not isinstance(both, exp.And):
            continue
        sides = bare(equal.this), bare(equal.expression)
        nulls = [bare(each) for each in (both.this, both.expression)]
        tested = {text_of(bare(each.this)) for each in nulls if _is_null(each)}
        if tested == {text_of(side) for side in sides} and len(tested) == 2:
            return Equality(sides, True)
    return None


def never_null(node: exp.Expression) -> set[str]:
    """The columns that are not NULL in any row that passes a condition, as far as its form says."""
    node = bare(node)
    if isinstance(node, exp.And):
        return never_null(node.this) | never_null(node.expression)
    # Either side may be the one that is true: only what both need is known.
    if isinstance(node, exp.Or):
        return never_null(node.this) & never_null(node.expression)
    if isinstance(node, exp.Not):
        inner = bare(node.this)
        if _is_null(inner):
            return _find_needed_columns(inner.this)
        # NOT of what is NULL is NULL, and passes no row.
        return _find_needed_columns(inner)
    # x IN (..) is NULL for a NULL, whatever is listed.
    if isinstance(node, exp.In) and not node.args.get("query"):
        return _find_needed_columns(node.this)
    if isinstance(node, exp.Between):
        return {name for each in node.iter_expressions() for name in _find_needed_columns(each)}
    return _find_needed_columns(node)


def _find_needed_columns(node: exp.Expression) -> set[str]:
    """The columns of which NULL makes the expression NULL."""
    if isinstance(node, exp.Column):
        return {node.name}
    if not isinstance(node, _STRICT):
        return set()
    return {name for child in node.iter_expressions() for name in _find_needed_columns(child)}


def _is_null(node: exp.Expression) -> bool:
    return isinstance(node, exp.Is) and isinstance(bare(node.expression), exp.Null)


def _disjuncts(node: exp.Expression) -> list[exp.Expression]:
    node = bare(node)
    if not isinstance(node, exp.Or):
        return [node]
    return [part for side in (node.this, node.expression) for part in _disjuncts(side)]
