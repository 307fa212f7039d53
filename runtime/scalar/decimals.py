"""Decimal arithmetic with Spark's result types: exact, then rounded half up to the scale, never wrapped.

Arrow's 76 digits hold almost everything; what they do not hold is computed row by row.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import ArithmeticOverflowError
from aggloom.runtime.scalar.numbers import refuse_zero
from aggloom.runtime.scalar.values import Value, any_true, failure, row_by_row, where_valid

Number = decimal.Decimal
EXACT: Final = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)
_PRODUCT: Final = decimal.Context(prec=39, rounding=decimal.ROUND_HALF_UP)
_QUOTIENT_SCALE: Final = 39
_WIDE: Final = 76
_NO_ROOM: Final = "the result does not fit {}; cast to a wider type."


def add_decimals(left: Value, right: Value, dtype: pa.DataType, sql: str) -> Value:
    """left + right."""
    return _sum(pc.add, EXACT.add, left, right, dtype, sql)


def subtract_decimals(left: Value, right: Value, dtype: pa.DataType, sql: str) -> Value:
    """left - right."""
    return _sum(pc.subtract, EXACT.subtract, left, right, dtype, sql)


def multiply_decimals(left: Value, right: Value, dtype: pa.DataType, sql: str) -> Value:
    """left * right; Spark rounds a product of more than 39 digits to 39 first."""
    digits = left.type.precision + right.type.precision + 1
    if digits <= 38:
        return _fit_result(pc.multiply(left, right), dtype, (left, right), sql)
    if digits <= _WIDE:
        product = pc.multiply(_wide(left), _wide(right))
        limit = pa.scalar(Number(10).scaleb(38 - product.type.scale), product.type)
        if digits <= 40 or not any_true(pc.greater_equal(pc.abs(product), limit)):
            return _fit_result(product, dtype, (left, right), sql)
    return _by_row(_PRODUCT.multiply, left, right, dtype, sql)


def divide_decimals(left: Value, right: Value, dtype: pa.DataType, sql: str) -> Value:
    """left / right; Spark rounds a quotient to 39 digits after the point first."""
    refuse_zero(left, right, sql)
    precision, scale = left.type.precision, left.type.scale
    # Arrow cuts a quotient off after max(4, s1 + p2 - s2 + 1) digits: one more than Spark's 39 are wanted.
    scale = max(scale, _QUOTIENT_SCALE - right.type.precision + right.type.scale)
    wide = precision - left.type.scale + scale
    cut = scale + right.type.precision - right.type.scale + 1
    if wide <= _WIDE and wide - scale + right.type.scale + cut <= _WIDE:
        divisor = pc.if_else(pc.is_null(left), pa.scalar(None, right.type), right)
        quotient = pc.divide(_wide(left, wide, scale), _wide(divisor))
        return _fit_result(half_up(quotient, _QUOTIENT_SCALE), dtype, (left, right), sql)
    return _by_row(_divide, left, right, dtype, sql)


def remainder_decimals(left: Value, right: Value, dtype: pa.DataType, sql: str) -> Value:
    """left % right, with the sign of the left side."""
    refuse_zero(left, right, sql)
    return _by_row(EXACT.remainder, left, right, dtype, sql)


def integer_divide_decimals(left: Value, right: Value, sql: str) -> Value:
    """left DIV right, towards zero, as BIGINT."""
    refuse_zero(left, right, sql)

    def divide(one: Number, other: Number) -> int:
        result = int(EXACT.divide_int(one, other))
        if not -(2**63) <= result < 2**63:
            raise failure(ArithmeticOverflowError, sql, (one, other), _NO_ROOM.format("BIGINT"))
        return result

    return row_by_row(divide, pa.int64(), left, right)


def round_half_up(value: Value, dtype: pa.DataType) -> Value:
    """A decimal as another decimal type; raises ArrowInvalid where it does not fit."""
    return pc.cast(half_up(value, dtype.scale), dtype)


def half_up(value: Value, scale: int) -> Value:
    """A decimal rounded to so many digits after the point (before it: negative), of a type with room for the carry."""
    if value.type.scale <= scale:
        return value
    # Whatever is rounded to more digits than it has is zero.
    scale = max(scale, value.type.scale - value.type.precision - 1)
    roomy = _wide(value, min(_WIDE, value.type.precision + (2 if scale < 0 else 1)))
    return pc.round(roomy, scale, round_mode="half_towards_infinity")


def fit(number: Number, dtype: pa.DataType) -> Number | None:
    """A number rounded half up to a type's scale; None if it needs more digits."""
    limit = Number(10) ** (dtype.precision - dtype.scale)
    if not number.is_finite() or abs(number) >= limit:
        return None
    exact = number.quantize(Number(1).scaleb(-dtype.scale), decimal.ROUND_HALF_UP, EXACT)
    return None if abs(exact) >= limit else exact


def no_room(dtype: pa.DataType) -> str:
    """The end of the error about a number that needs more digits than a type has."""
    return _NO_ROOM.format(f"DECIMAL({dtype.precision},{dtype.scale})")


def _sum(
    kernel: Callable[..., Value],
    operation: Callable[[Any, Any], Any],
    left: Value,
    right: Value,
    dtype: pa.DataType,
    sql: str,
) -> Value:
    scale = max(left.type.scale, right.type.scale)
    whole = max(each.type.precision - each.type.scale for each in (left, right))
    if whole + scale + 1 <= 38:
        return _fit_result(kernel(left, right), dtype, (left, right), sql)
    if whole + scale + 1 <= _WIDE:
        return _fit_result(kernel(_wide(left), _wide(right)), dtype, (left, right), sql)
    return _by_row(operation, left, right, dtype, sql)


def _fit_result(value: Value, dtype: pa.DataType, operands: tuple[Value, ...], sql: str) -> Value:
    if value.type == dtype:
        return value
    try:
        return round_half_up(value, dtype)
    except pa.ArrowInvalid:
        limit = pa.scalar(Number(10) ** (dtype.precision - dtype.scale), pa.decimal256(39, 0))
    beyond = pc.greater_equal(pc.abs(half_up(value, dtype.scale)), limit)
    raise failure(ArithmeticOverflowError, sql, where_valid(beyond, *operands), no_room(dtype))


def _by_row(
    operation: Callable[[Any, Any], Any], left: Value, right: Value, dtype: pa.DataType, sql: str
) -> Value:
    def apply(one: Number, other: Number) -> Number:
        exact = fit(operation(one, other), dtype)
        if exact is None:
            raise failure(ArithmeticOverflowError, sql, (one, other), no_room(dtype))
        return exact

    return row_by_row(apply, dtype, left, right)


def _divide(left: Number, right: Number) -> Number:
    # Cut off, not rounded, so that it is rounded once.
    quotient = decimal.Context(prec=160, rounding=decimal.ROUND_DOWN).divide(left, right)
    return quotient.quantize(Number(1).scaleb(-_QUOTIENT_SCALE), context=EXACT)


def _wide(value: Value, precision: int = 0, scale: int | None = None) -> Value:
    """The same decimals with up to 76 digits."""
    kind = value.type
    return pc.cast(
        value,
        pa.decimal256(precision or kind.precision, kind.scale if scale is None else scale),
    )
