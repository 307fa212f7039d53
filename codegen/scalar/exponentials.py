"""Exponentials, logarithms, powers and angles with the bits of Java's StrictMath, which for most are Spark's."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import entry, kernel
from aggloom.codegen.scalar.lowered_expression import LoweredExpression
from aggloom.codegen.scalar.lowering import ExpressionLowering, LoweringEntry, Rule

_DOUBLE: Final = pa.float64()
_CIRCULAR: Final = {"sin": "f", "cos": "g", "tan": "f", "cot": "i", "csc": "m", "sec": "l"}
"""An argument for each of the circular functions."""


def _of_one(function: str) -> Rule:
    return kernel(f"scalar.of_doubles(scalar.{function}, {{0}})", _DOUBLE, _DOUBLE)


def _of_two(function: str) -> Rule:
    text = f"scalar.of_doubles(scalar.{function}, {{0}}, {{1}})"
    return kernel(text, _DOUBLE, _DOUBLE, _DOUBLE)


def _logarithm(function: str, bound: float = 0.0) -> Rule:
    """A logarithm, which is NULL at its bound and below."""
    text = f"scalar.of_doubles(scalar.strict_math.{function}, scalar.above({{0}}, {bound}))"
    return kernel(text, _DOUBLE, _DOUBLE)


_TO_BASE: Final = kernel(
    "scalar.of_doubles(scalar.strict_math.log_to_base, scalar.above({0}, 0.0), scalar.above({1}, 0.0))",
    *(_DOUBLE, _DOUBLE, _DOUBLE),
)


def _log(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    rule = _TO_BASE if len(node.expressions) > 1 else _logarithm("log")
    return rule(low, node)


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry("exp", ("exp(f)", "exp(m)", "exp(i)"), _of_one("strict_math.exp")),
    entry("expm1", "expm1(g)", _of_one("strict_math.expm1")),
    entry("ln", ("ln(f)", "ln(i)", "ln(x38)"), _logarithm("log")),
    entry("log", ("log(f)", "log(2, l)", "log(g, f)"), _log),
    entry("log2", ("log2(f)", "log2(l)"), _logarithm("log2")),
    entry("log10", ("log10(f)", "log10(n9)"), _logarithm("log10")),
    entry("log1p", ("log1p(f)", "log1p(b)"), _logarithm("log1p", -1.0)),
    entry(
        ("pow", "power"),
        ("pow(f, g)", "power(i, 2)", "power(m, 0.5)", "pow(1.01, r)"),
        _of_two("strict_powers.power"),
    ),
    entry("cbrt", ("cbrt(f)", "cbrt(l)"), _of_one("strict_powers.cbrt")),
    entry("hypot", ("hypot(f, g)", "hypot(i, 4)"), _of_two("strict_powers.hypot")),
    entry("sinh", "sinh(f)", _of_one("strict_math.sinh")),
    entry("cosh", "cosh(f)", _of_one("strict_math.cosh")),
    entry("tanh", ("tanh(f)", "tanh(r)"), _of_one("strict_math.tanh")),
    entry("asinh", ("asinh(f)", "asinh(i)"), _of_one("strict_math.asinh")),
    entry("acosh", ("acosh(f)", "acosh(l)"), _of_one("strict_math.acosh")),
    entry("atanh", ("atanh(f)", "atanh(0.5)"), _of_one("strict_math.atanh")),
    entry("asin", ("asin(f)", "asin(0.75)"), _of_one("strict_angles.asin")),
    entry("acos", ("acos(f)", "acos(-0.25)"), _of_one("strict_angles.acos")),
    entry("atan", ("atan(f)", "atan(m)"), _of_one("strict_angles.atan")),
    *(
        entry(name, f"{name}({argument})", _of_one(f"strict_circles.{name}"))
        for name, argument in _CIRCULAR.items()
    ),
    entry("atan2", ("atan2(f, g)", "atan2(i, l)"), _of_two("strict_angles.angle")),
)
