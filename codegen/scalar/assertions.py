"""Errors that a query raises itself: RAISE_ERROR and ASSERT_TRUE."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import entry
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, quoted
from aggloom.codegen.scalar.lowering import ExpressionLowering, LoweringEntry
from aggloom.codegen.scalar.spark_text import spark_text


def _raise_error(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """RAISE_ERROR(message), whose value nobody sees; the input says for how many rows it is computed."""
    (message,) = node.expressions
    text = "scalar.assertions.raise_error({0}, {rows}, {sql})"
    return _call(low, node, text, low.text(message))


def _assert_true(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """ASSERT_TRUE(condition [, message]): NULL where the condition is true."""
    condition, *message = node.expressions
    values = [low.boolean(condition), *map(low.text, message)]
    places = "".join(f", {{{place}}}" for place in range(1, len(values)))
    text = f"scalar.assertions.assert_true({{0}}, {{rows}}, {{sql}}{places})"
    return _call(low, node, text, *values)


def _call(
    low: ExpressionLowering, node: exp.Anonymous, text: str, *values: LoweredExpression
) -> LoweredExpression:
    rows, sql = next(iter(low.inputs)), quoted(spark_text(node))
    return call(text, pa.null(), *values, rows=rows, sql=sql, raises=True)


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        "raise_error",
        (
            "CASE WHEN length(s) < 0 THEN raise_error('too short') ELSE b END",
            "COALESCE(i, CASE WHEN i > 0 THEN raise_error(s) ELSE 0 END)",
        ),
        _raise_error,
    ),
    entry(
        "assert_true",
        ("CAST(assert_true(b * 0 IS NULL OR b * 0 = 0) AS INT)", "assert_true(TRUE, s) IS NULL"),
        _assert_true,
    ),
)
