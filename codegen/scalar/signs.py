"""Signs: which expressions, and which columns of rows that pass a filter, are never below zero.

NULL may be among them. What would be negative where a whole number does not fit, as in sessions without ANSI mode, is
not known to be non-negative: sums, products and ABS of whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.expressions import parse_scalar
from aggloom.codegen.scalar.promotion import is_inexact
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.sql.depth import deep
from aggloom.errors import AggloomError

_MIRRORED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}


@dataclass(frozen=True)
class Signs:
    """Facts known of columns: those that are never below zero, and the types of all."""

    known: frozenset[str]
    types: Mapping[str, pa.DataType]

    def where(self, condition: str | None) -> Signs:
        """Add the facts known of the rows for which a condition is true."""
        return self if condition is None else deep(lambda: self._where(parse_scalar(condition)))

    def holds(self, sql: str) -> bool:
        """Tell whether an expression is never below zero."""
        return deep(lambda: self._holds(parse_scalar(sql)))

    def _where(self, condition: exp.Expression) -> Signs:
        conjuncts = condition.flatten() if isinstance(condition, exp.And) else [condition]
        names = {name for each in conjuncts for name in _at_least_zero(each.unnest())}
        return replace(self, known=self.known | names)

    def _where_not(self, condition: exp.Expression) -> Signs:
        """Add the facts known of the rows for which a condition is false, or NULL because a column is."""
        # Where `x < 5` does not hold, x is 5 at least, or NULL.
        names = _columns_below(condition.unnest())
        return replace(self, known=self.known | set(names))

    def _holds(self, node: exp.Expression) -> bool:
        each = self._holds
        match node:
            case exp.Column():
                return node.name in self.known
            # NULL is not below zero, and neither is a length.
            case exp.Null() | exp.Length():
                return True
            case exp.Literal():
                return not node.is_string
            case exp.Paren() | exp.Alias() | exp.Round() | exp.Nullif():
                return each(node.this)
            case exp.Cast():
                return self._keeps_sign(node) and each(node.this)
            case exp.Abs():
                return self._is_real(node.this)
            # A literal number has no sign, and the greatest value is at least that.
            case exp.Greatest():
                arguments = [node.this, *node.expressions]
                return any(_is_number(a) for a in arguments) or all(map(each, arguments))
            case exp.Least() | exp.Coalesce():
                return all(map(each, [node.this, *node.expressions]))
            # The quotient of two non-negative numbers is one, whether they are whole or not.
            case exp.Div():
                return each(node.this) and each(node.expression)
            case exp.Add() | exp.Mul():
                return self._is_real(node) and each(node.this) and each(node.expression)
            case exp.If():
                return self._branches([node], node.args.get("false"))
            case exp.Case():
                return node.this is None and self._branches(node.args["ifs"], node.args["default"])
        return False

    def _branches(self, branches: list[exp.If], default: exp.Expression | None) -> bool:
        """Tell whether all that a CASE may give is never below zero; a branch sees what its condition says."""
        after = self
        for branch in branches:
            # A branch is reached where its own condition is true and those before it are not.
            if not after._where(branch.this)._holds(branch.args["true"]):
                return False
            after = after._where_not(branch.this)
        return default is None or after._holds(default)

    def _keeps_sign(self, node: exp.Cast) -> bool:
        """Tell whether a number stays what it is, or is too large to be one: never wraps."""
        to = self._type(node)
        return to is not None and (
            is_inexact(to) or (pa.types.is_int64(to) and self._is_integer(node.this))
        )

    def _is_integer(self, node: exp.Expression) -> bool:
        dtype = self._type(node)
        return dtype is not None and bool(pa.types.is_integer(dtype))

    def _is_real(self, node: exp.Expression) -> bool:
        dtype = self._type(node)
        return dtype is not None and is_inexact(dtype)

    def _type(self, node: exp.Expression) -> pa.DataType | None:
        try:
            return infer(node, self.types)
        # What has no type here is refused elsewhere; of its sign nothing is known.
        except (AggloomError, KeyError):
            return None


def _is_number(node: exp.Expression) -> bool:
    """Tell whether it is a number as it stands, without a sign."""
    return isinstance(node.unnest(), exp.Literal) and not node.unnest().is_string


def _at_least_zero(condition: exp.Expression) -> list[str]:
    """The column that a comparison with a number says to be at least zero."""
    if isinstance(condition, exp.Between):
        column, number, kind = condition.this, condition.args["low"], exp.GTE
    elif isinstance(condition, exp.GT | exp.GTE | exp.LT | exp.LTE | exp.EQ):
        column, number, kind = condition.this, condition.expression, type(condition)
        if _is_number(column):
            column, number, kind = number, column, _MIRRORED.get(kind, kind)
    else:
        return []
    says = kind in (exp.GT, exp.GTE, exp.EQ) and _is_number(number)
    return [column.name] if says and isinstance(column, exp.Column) else []


def _columns_below(condition: exp.Expression) -> list[str]:
    """The column that a comparison says to be below a number that is not negative."""
    if not isinstance(condition, exp.LT | exp.LTE) or not _is_number(condition.expression):
        return []
    return [condition.this.name] if isinstance(condition.this, exp.Column) else []
