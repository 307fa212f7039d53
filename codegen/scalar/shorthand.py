"""Functions that stand for another form: casts by a type's name, tests for NULL, NULL or zero, errors."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import entry, kernel
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.promotion import FLOATS, is_number


def _cast(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """BIGINT(x) and its like."""
    (operand,) = node.expressions
    kind = exp.DataType.build(node.name, "spark")
    return low.lower(exp.Cast(this=operand.copy(), to=kind))


def _as(build: Rule, count: int) -> Rule:
    """A call of so many arguments as the expression that it stands for."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        # BINARY and DECIMAL are also names of other calls: what does not fit is left to Spark.
        if len(node.expressions) != count:
            raise unsupported_error(node, NEEDS_SPARK)
        return build(low, node)

    return rule


def _zero_if_null(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    (operand,) = (each.copy() for each in node.expressions)
    return low.lower(exp.Coalesce(this=operand, expressions=[exp.Literal.number(0)]))


def _null_if_zero(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    (operand,) = node.expressions
    # A text beside 0 would become a number by a cast that may fail.
    if not is_number(low.lower(operand).type):
        raise unsupported_error(node, NEEDS_SPARK)
    return low.lower(exp.Nullif(this=operand.copy(), expression=exp.Literal.number(0)))


def _nanvl(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    value, other = (low.lower(each) for each in node.expressions)
    dtype = pa.float32() if {value.type, other.type} == {pa.float32()} else pa.float64()
    if value.type not in FLOATS and not is_number(value.type):
        raise unsupported_error(node, NEEDS_SPARK)
    values = [low.cast(each, dtype, node) for each in (value, other)]
    # A condition that is NULL would choose the other.
    text = "pc.if_else(pc.fill_null(pc.is_nan({0}), False), {1}, {0})"
    return call(text, dtype, *values)


def _decode(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """DECODE(x, search, result, .. [, default])."""
    operand, *rest = node.expressions
    pairs = list(zip(rest[::2], rest[1::2], strict=False))
    arms = [
        exp.If(this=exp.NullSafeEQ(this=operand.copy(), expression=when.copy()), true=then.copy())
        for when, then in pairs
    ]
    # Where there is no default, Spark has a NULL of STRING, which widens integers.
    default = rest[-1].copy() if len(rest) % 2 else exp.cast(exp.null(), "string")
    return low.lower(exp.Case(ifs=arms, default=default))


def decode(coded: Rule) -> Rule:
    """DECODE by a character set (`coded`), or by pairs of values."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        return coded(low, node) if len(node.expressions) == 2 else _decode(low, node)

    return rule


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        ("bigint", "smallint", "tinyint", "decimal", "binary"),
        ("bigint(i)", "smallint(b)", "tinyint('5')", "decimal(i)", "binary(s)"),
        _as(_cast, 1),
    ),
    entry("isnull", "isnull(i)", kernel("pc.is_null({0})", pa.bool_(), None)),
    entry("isnotnull", "isnotnull(s)", kernel("pc.is_valid({0})", pa.bool_(), None)),
    entry("zeroifnull", ("zeroifnull(i)", "zeroifnull(l)", "zeroifnull(f)"), _as(_zero_if_null, 1)),
    entry("nullifzero", ("nullifzero(i)", "nullifzero(f)"), _as(_null_if_zero, 1)),
    entry("nanvl", ("nanvl(f, g)", "nanvl(r, r)", "nanvl(g, 1)"), _as(_nanvl, 2)),
)
