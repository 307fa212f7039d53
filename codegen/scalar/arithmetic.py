"""Arithmetic: integers that do not wrap, decimals of Spark's types, rounding, bits."""

from __future__ import annotations

import decimal
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.dates import by_days, by_interval
from aggloom.codegen.scalar.entry import entry, kernel, whole_number
from aggloom.codegen.scalar.interval_forms import is_interval
from aggloom.codegen.scalar.intervals import shift_by_made
from aggloom.codegen.scalar.logic import number
from aggloom.codegen.scalar.lowered_expression import (
    LoweredExpression,
    call,
    constant,
    quoted,
    type_text,
)
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import decimal_rounded, unsupported_error
from aggloom.codegen.scalar.promotion import (
    FLOATS,
    INTEGERS,
    as_decimal,
    common_type,
    decimal_result,
    is_decimal,
    is_number,
)
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.scalar.time_digits import lower_cut

_WORDS: Final = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "%": "remainder"}
_PLAIN: Final = {
    "+": "pc.add({0}, {1})",
    "-": "pc.subtract({0}, {1})",
    "*": "pc.multiply({0}, {1})",
}


def _binary(operator: str) -> Rule:
    def rule(low: ExpressionLowering, node: exp.Binary) -> LoweredExpression:
        if operator in "+-" and isinstance(node.right, exp.Interval):
            return by_interval(low, node)
        # The form of a TIMESTAMP with fewer digits is one Arrow function, not a subtraction.
        cut = lower_cut(low, node)
        if cut is not None:
            return cut
        if operator in "+-" and is_interval(node.right):
            return shift_by_made(low, node, node.left, node.right)
        if operator == "+" and is_interval(node.left):
            return shift_by_made(low, node, node.right, node.left)
        left, right = low.lower(node.left), low.lower(node.right)
        if operator in "+-" and left.type == pa.date32():
            return by_days(low, node, left, right)
        left, right = _numbers(node, left, right)
        # NULL by NULL has no type, and is cast by whoever reads it.
        if left.is_null:
            return left
        # A FLOAT beside a decimal makes both DOUBLEs.
        decimals = is_decimal(left.type) or is_decimal(right.type)
        if decimals and left.type not in FLOATS and right.type not in FLOATS:
            left, right = _decimals(low, node, left, right)
            dtype = decimal_result(operator, left.type, right.type)
            text = f"scalar.{_WORDS[operator]}_decimals({{0}}, {{1}}, {type_text(dtype)}, {{sql}})"
            raises = operator in "/%" or not _has_room(operator, left.type, right.type)
            sql = quoted(spark_text(node))
            return call(text, dtype, left, right, raises=raises, sql=sql)
        dtype = common_type([left.type, right.type])
        assert dtype is not None
        # In Spark / divides integers as DOUBLEs.
        dtype = pa.float64() if operator == "/" else dtype
        left, right = (low.cast(each, dtype, node) for each in (left, right))
        # Floats have no overflow that were an error, so that Arrow's own kernels do.
        if dtype in FLOATS and operator in _PLAIN:
            return call(_PLAIN[operator], dtype, left, right)
        return _call_failing(
            f"scalar.{_WORDS[operator]}({{0}}, {{1}}, {{sql}})", dtype, node, left, right
        )

    return rule


def _has_room(operator: str, left: pa.DataType, right: pa.DataType) -> bool:
    """Tell whether a sum or a product of decimals has at most 38 digits, whatever they are: it is exact then."""
    if operator == "*":
        return bool(left.precision + right.precision + 1 <= 38)
    whole = max(each.precision - each.scale for each in (left, right))
    return bool(whole + max(left.scale, right.scale) + 1 <= 38)


def _integer_divide(low: ExpressionLowering, node: exp.IntDiv) -> LoweredExpression:
    left, right = _numbers(node, low.lower(node.left), low.lower(node.right))
    if left.type in FLOATS or right.type in FLOATS:
        raise unsupported_error(node, NEEDS_SPARK)
    if left.is_null:
        return constant(None, pa.int64())
    if is_decimal(left.type) or is_decimal(right.type):
        left, right = _decimals(low, node, left, right)
        text = "scalar.integer_divide_decimals({0}, {1}, {sql})"
    else:
        # DIV gives a BIGINT, so that -2147483648 DIV -1 fits.
        left, right = (low.cast(each, pa.int64(), node) for each in (left, right))
        text = "scalar.integer_divide({0}, {1}, {sql})"
    return _call_failing(text, pa.int64(), node, left, right)


def _pmod(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    left, right = low.align_values(node.expressions, node, texts=False)
    # Smaller integers and decimals have types of their own in Spark, which follow other rules.
    if left.type not in (pa.int32(), pa.int64(), pa.float64()):
        raise unsupported_error(node, NEEDS_SPARK)
    return _call_failing(
        "scalar.nonnegative_remainder({0}, {1}, {sql})", left.type, node, left, right
    )


def _negate(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        # -2147483648 is an INT, though 2147483648 is none: the sign belongs to the literal.
        return number(node.this, -1)
    return _lower_sign(low, node, "negate")


def _absolute(low: ExpressionLowering, node: exp.Abs) -> LoweredExpression:
    return _lower_sign(low, node, "absolute")


def _lower_sign(low: ExpressionLowering, node: exp.Expression, word: str) -> LoweredExpression:
    value = low.lower(node.this)
    if not is_number(value.type):
        raise unsupported_error(node, NEEDS_SPARK)
    # The least integer has no opposite. Floats and decimals have one for every value.
    if value.type in INTEGERS:
        return _call_failing(f"scalar.{word}({{0}}, {{sql}})", value.type, node, value)
    return call(f"pc.{'abs' if word == 'absolute' else word}({{0}})", value.type, value)


def _round(low: ExpressionLowering, node: exp.Round) -> LoweredExpression:
    value = low.lower(node.this)
    digits = whole_number(node.args.get("decimals") or exp.Literal.number(0), node)
    # Whole places of integers may overflow.
    if digits < 0 and not is_decimal(value.type):
        raise unsupported_error(node, NEEDS_SPARK)
    if value.type in INTEGERS:
        return value
    if value.type == pa.float64():
        return call("scalar.round_double({0}, {digits})", value.type, value, digits=str(digits))
    if not is_decimal(value.type):
        raise unsupported_error(node, NEEDS_SPARK)
    dtype = decimal_rounded(value.type, digits)
    text = f"scalar.round_decimal({{0}}, {type_text(dtype)}, {{sql}})"
    if digits < 0:
        text = f"scalar.round_whole({{0}}, {-digits}, {type_text(dtype)}, {{sql}})"
    return _call_failing(text, dtype, node, value)


def _to_whole(word: str) -> Rule:
    def rule(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
        value = low.lower(node.this)
        if value.type in INTEGERS:
            return low.cast(value, pa.int64(), node)
        if value.type in FLOATS:
            double = low.cast(value, pa.float64(), node)
            return _call_failing(
                f"scalar.whole_to_bigint(pc.{word}({{0}}), {{sql}})", pa.int64(), node, double
            )
        # 38 digits leave no room for the carry.
        if not is_decimal(value.type) or value.type.precision == 38:
            raise unsupported_error(node, NEEDS_SPARK)
        if value.type.scale == 0:
            return value
        # Arrow keeps the type when it rounds, so that the carry needs a digit before: 9.9 becomes 10.
        roomy = pa.decimal128(value.type.precision + 1, value.type.scale)
        dtype = pa.decimal128(value.type.precision - value.type.scale + 1, 0)
        text = f"pc.cast(pc.{word}(pc.cast({{0}}, {type_text(roomy)})), {type_text(dtype)})"
        return call(text, dtype, value)

    return rule


def _bits(word: str) -> Rule:
    def rule(low: ExpressionLowering, node: exp.Binary) -> LoweredExpression:
        left, right = low.align_values([node.left, node.right], node, texts=False)
        if left.type not in INTEGERS:
            raise unsupported_error(node, NEEDS_SPARK)
        return call(f"pc.{word}({{0}}, {{1}})", left.type, left, right)

    return rule


def _invert_bits(low: ExpressionLowering, node: exp.BitwiseNot) -> LoweredExpression:
    value = low.lower(node.this)
    if value.type not in INTEGERS:
        raise unsupported_error(node, NEEDS_SPARK)
    return call("pc.bit_wise_not({0})", value.type, value)


def _isnan(low: ExpressionLowering, node: exp.IsNan) -> LoweredExpression:
    value = low.as_type(node.this, pa.float64())
    return call("pc.coalesce(pc.is_nan({0}), pa.scalar(False))", pa.bool_(), value)


def _numbers(
    node: exp.Binary, left: LoweredExpression, right: LoweredExpression
) -> tuple[LoweredExpression, LoweredExpression]:
    """The operands, which are numbers; a NULL has the other's type."""
    # Two NULLs stay untyped.
    if left.is_null and not right.is_null:
        left = constant(None, right.type)
    if right.is_null and not left.is_null:
        right = constant(None, left.type)
    if not left.is_null and not (is_number(left.type) and is_number(right.type)):
        raise unsupported_error(node, NEEDS_SPARK)
    return left, right


def _decimals(
    low: ExpressionLowering, node: exp.Binary, left: LoweredExpression, right: LoweredExpression
) -> tuple[LoweredExpression, LoweredExpression]:
    """Both operands as decimals: a column by its type, a literal by its own digits."""
    return _decimal(low, node.left, left), _decimal(low, node.right, right)


def _decimal(
    low: ExpressionLowering, node: exp.Expression, value: LoweredExpression
) -> LoweredExpression:
    bare = node.this if isinstance(node, exp.Neg) else node
    if value.type in INTEGERS and isinstance(bare, exp.Literal) and value.literal:
        exact = decimal.Decimal(value.literal[0])
        return constant(exact, pa.decimal128(len(exact.as_tuple().digits), 0))
    return low.cast(value, as_decimal(value.type), node)


def _call_failing(
    text: str, dtype: pa.DataType, node: exp.Expression, *values: LoweredExpression
) -> LoweredExpression:
    return call(text, dtype, *values, sql=quoted(spark_text(node)), raises=True)


_DOUBLE: Final = pa.float64()
ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(exp.Add, ("b + 1", "i + l", "m + i", "m + 1.5", "f + 1", "r + r", "m + f"), _binary("+")),
    entry(exp.Sub, ("b - i", "m - n9", "f - g", "1 - m"), _binary("-")),
    entry(exp.Mul, ("b * 3", "m * m", "m * -2", "n9 * n9", "f * l", "x38 * m"), _binary("*")),
    entry(
        exp.Div,
        ("b / 4", "m / 3", "m / 1.7", "n9 / 7", "f / 3", "1 / 3.0"),
        _binary("/"),
        "typed",
        "safe",
    ),
    entry(exp.IntDiv, ("i DIV 3", "l DIV -7", "m DIV 0.3"), _integer_divide),
    entry(exp.Mod, ("i % 3", "l % -7", "m % 0.7", "f % 2", "mod(b, 5)"), _binary("%")),
    entry("pmod", ("pmod(b, 5)", "pmod(b, -5)", "pmod(f, 2.5D)"), _pmod),
    entry((exp.Neg, exp.Negative), ("-b", "-m", "-f", "negative(b)"), _negate),
    entry("positive", "positive(i)", kernel("{0}", None, None)),
    entry(exp.Abs, ("abs(b)", "abs(m)", "abs(f)"), _absolute),
    entry(
        exp.Sign,
        ("sign(f)", "signum(i)"),
        kernel("pc.cast(pc.sign({0}), pa.float64())", _DOUBLE, _DOUBLE),
    ),
    entry(exp.Sqrt, ("sqrt(b)", "sqrt(f)"), kernel("pc.sqrt({0})", _DOUBLE, _DOUBLE)),
    entry(exp.Rint, "rint(f)", kernel("pc.round({0})", _DOUBLE, _DOUBLE)),
    entry(
        exp.Round,
        ("round(m, 1)", "round(m)", "round(m, -1)", "round(f, 2)", "round(i)"),
        _round,
        "decimals",
    ),
    entry(exp.Floor, ("floor(f)", "floor(m)", "floor(i)"), _to_whole("floor")),
    entry(exp.Ceil, ("ceil(f)", "ceil(m)", "ceiling(i)"), _to_whole("ceil")),
    entry(exp.IsNan, ("isnan(f)", "isnan(b)"), _isnan),
    entry(exp.BitwiseAnd, "i & 6", _bits("bit_wise_and")),
    entry(exp.BitwiseOr, "i | l", _bits("bit_wise_or")),
    entry(exp.BitwiseXor, "i ^ l", _bits("bit_wise_xor")),
    entry(exp.BitwiseNot, "~i", _invert_bits),
)
