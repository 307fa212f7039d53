"""Arithmetic on integers and floats as ANSI mode has it: nothing wraps, zero divides nothing."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import ArithmeticOverflowError, DivisionByZeroError
from aggloom.runtime.scalar.values import (
    Value,
    any_true,
    apply_to_arrays,
    failure,
    row_by_row,
    run_checked,
    where_valid,
)


def add(left: Value, right: Value, sql: str) -> Value:
    """left + right."""
    return run_checked(pc.add_checked, (left, right), sql)


def subtract(left: Value, right: Value, sql: str) -> Value:
    """left - right."""
    return run_checked(pc.subtract_checked, (left, right), sql)


def multiply(left: Value, right: Value, sql: str) -> Value:
    """left * right."""
    return run_checked(pc.multiply_checked, (left, right), sql)


def negate(value: Value, sql: str) -> Value:
    """-value."""
    return run_checked(pc.negate_checked, (value,), sql)


def absolute(value: Value, sql: str) -> Value:
    """The value without its sign."""
    return run_checked(pc.abs_checked, (value,), sql)


def divide(left: Value, right: Value, sql: str) -> Value:
    """left / right, of floats."""
    refuse_zero(left, right, sql)
    return pc.divide(left, right)


def integer_divide(left: Value, right: Value, sql: str) -> Value:
    """left DIV right, of integers, towards zero."""
    refuse_zero(left, right, sql)
    # Where the left side is NULL the right one may be zero.
    divisor = pc.if_else(pc.is_null(left), pa.scalar(None, right.type), right)
    return run_checked(pc.divide_checked, (left, divisor), sql)


def remainder(left: Value, right: Value, sql: str) -> Value:
    """left % right, with the sign of the left side."""
    refuse_zero(left, right, sql)
    return apply_to_arrays(_remainder, left, right)


def nonnegative_remainder(left: Value, right: Value, sql: str) -> Value:
    """pmod(left, right): the remainder, made positive by adding the right side where it is negative."""
    first = remainder(left, right, sql)
    # What is negative, plus the divisor, cannot overflow.
    again = remainder(pc.add(first, right), right, sql)
    return pc.if_else(pc.less(first, pa.scalar(0, first.type)), again, first)


def to_bigint(value: Value) -> Value:
    """A float without fraction as BIGINT, the nearest that there is; NaN becomes 0."""

    def convert(floats: pa.Array) -> pa.Array:
        nulls = floats.is_null().to_numpy(zero_copy_only=False)
        numbers = floats.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64)
        numbers = np.where(np.isnan(numbers), 0.0, numbers)
        above, below = numbers >= 2.0**63, numbers < -(2.0**63)
        # NumPy casts what does not fit to whatever the processor makes of it.
        whole_numbers = np.where(above | below, 0.0, numbers).astype(np.int64)
        whole_numbers[above], whole_numbers[below] = 2**63 - 1, -(2**63)
        return pa.array(whole_numbers, mask=nulls)

    return apply_to_arrays(convert, value)


def whole_to_bigint(value: Value, sql: str) -> Value:
    """Return a float without fraction as BIGINT, NaN as 0; raises ArithmeticOverflowError for what does not fit."""
    outside = pc.or_(
        pc.greater_equal(value, pa.scalar(2.0**63)), pc.less(value, pa.scalar(-(2.0**63)))
    )
    if any_true(outside):
        what = "the result does not fit into BIGINT; cast to a DECIMAL before."
        raise failure(ArithmeticOverflowError, sql, where_valid(outside, value), what)
    return to_bigint(value)


def round_double(value: Value, digits: int) -> Value:
    """ROUND of a DOUBLE, half away from zero by its shortest decimal digits."""
    quantum = decimal.Decimal(1).scaleb(-digits)

    def convert(number: float) -> float:
        exact = decimal.Decimal(repr(number))
        if not exact.is_finite():
            return number
        return float(exact.quantize(quantum, decimal.ROUND_HALF_UP, _EXACT))

    return row_by_row(convert, pa.float64(), value)


def refuse_zero(left: Value, right: Value, sql: str) -> None:
    """Raise DivisionByZeroError where the right side is zero and the left one is not NULL."""
    nothing = decimal.Decimal(0) if pa.types.is_decimal(right.type) else 0
    zero = pc.and_(pc.equal(right, pa.scalar(nothing, right.type)), pc.is_valid(left))
    if any_true(zero):
        raise failure(
            DivisionByZeroError,
            sql,
            where_valid(zero, left, right),
            "division by zero; guard it with NULLIF(..., 0).",
        )


def _remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    nulls = pc.or_(pc.is_null(left), pc.is_null(right)).to_numpy(zero_copy_only=False)
    dividend = left.fill_null(0).to_numpy(zero_copy_only=False)
    # Beside a NULL the divisor may be zero, which nothing may be divided by.
    divisor = np.where(nulls, 1, right.fill_null(1).to_numpy(zero_copy_only=False))
    with np.errstate(invalid="ignore"):
        result = np.fmod(dividend, divisor.astype(dividend.dtype))
    return pa.array(result, left.type, mask=nulls.astype(bool))


_EXACT = decimal.Context(prec=1200)
