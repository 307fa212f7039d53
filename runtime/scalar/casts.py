"""Casts as ANSI mode has them: what the type cannot hold is an error, a fraction is cut off or rounded half up.

`sql` is the expression that an error names. Where it is None, as in TRY_CAST, what would be an error is NULL.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import InvalidCastError
from aggloom.runtime.scalar import java_numbers
from aggloom.runtime.scalar.dates import parse_date, parse_timestamp
from aggloom.runtime.scalar.decimals import fit, half_up, no_room, round_half_up
from aggloom.runtime.scalar.numbers import to_bigint
from aggloom.runtime.scalar.values import (
    Value,
    any_true,
    apply_to_arrays,
    failure,
    row_by_row,
    run_checked,
    where_valid,
)
from aggloom.runtime.scalar.zones import to_instant

# Spark trims control characters as it trims blanks.
_SPACE: Final = "".join(map(chr, [*range(0x21), 0x7F]))
_INTEGER: Final = r"^[+-]?[0-9]+$"
_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
# Java's parser takes the ending of a literal, as in 1.5d and 2f, and so does Spark.
_SUFFIX: Final = r"^(.*[0-9.])[dDfF]$"
_FAR_YEAR: Final = r"[+-]?\d{5,7}(?:-.*)?|[+-]\d{4}(?:-.*)?"
_ONLY_SPARK: Final = {
    pa.int32(): re.compile(_FAR_YEAR),
    pa.int64(): re.compile(
        rf"{_FAR_YEAR}|T?\d{{1,2}}:\d{{1,2}}.*|\d{{4}}-\d{{1,2}}-\d{{1,2}}[ T]\d{{1,2}}:.*[A-Za-z].*"
    ),
}
"""Texts that may be dates, or times, to Spark alone: of years beyond four digits, of today, and of zones by name."""
_BEYOND: Final = (
    "the text may be a time that only Spark reads; filter such rows, or give the harness a Spark session."
)
_OFFSET: Final = r":[0-9.]*\s*(Z|UTC|[+-][0-9]{1,2}(:[0-9]{1,2})?)$"
_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")
_EXACT_DIGITS: Final = 15


def cast(value: Value, dtype: pa.DataType, sql: str | None) -> Value:
    """Integers, and decimals that get more digits, as a type that may be too small."""
    return run_checked(
        lambda v: pc.cast(v, dtype), (value,), sql, InvalidCastError, _describe_misfit(dtype)
    )


def round_decimal(value: Value, dtype: pa.DataType, sql: str | None) -> Value:
    """A decimal as a decimal type, rounded half up."""
    return run_checked(
        lambda v: round_half_up(v, dtype), (value,), sql, InvalidCastError, no_room(dtype)
    )


def round_whole(value: Value, digits: int, dtype: pa.DataType, sql: str | None) -> Value:
    """A decimal rounded half up to so many digits before the point, as a decimal type without a fraction."""
    return run_checked(
        lambda v: pc.cast(half_up(v, -digits), dtype),
        (value,),
        sql,
        InvalidCastError,
        no_room(dtype),
    )


def double_to_integer(value: Value, dtype: pa.DataType, sql: str | None) -> Value:
    """A float or a decimal without its fraction, as an integer."""
    if pa.types.is_decimal(value.type):
        whole_numbers = pc.round(value, 0, round_mode="towards_zero")
        return cast(pc.cast(whole_numbers, pa.decimal128(38, 0)), dtype, sql)
    whole_numbers = pc.trunc(value)
    if dtype != pa.int64():
        return cast(whole_numbers, dtype, sql)
    limit = pa.scalar(2.0**63, value.type)
    # Spark lets 2^63 itself pass and makes the largest BIGINT of it.
    fits = pc.and_(
        pc.less_equal(whole_numbers, limit), pc.greater_equal(whole_numbers, pc.negate(limit))
    )
    return to_bigint(_keep(fits, whole_numbers, value, sql, _describe_misfit(dtype)))


def double_to_decimal(value: Value, dtype: pa.DataType, sql: str | None) -> Value:
    """A float, by its shortest decimal digits, as a decimal rounded half up; NaN and infinities become NULL."""

    def convert(number: float) -> decimal.Decimal | None:
        exact = decimal.Decimal(repr(number))
        return _fit(exact, dtype, sql, number) if exact.is_finite() else None

    return row_by_row(convert, dtype, pc.cast(value, pa.float64()))


def decimal_to_double(value: Value) -> Value:
    """The DOUBLE nearest to a decimal; Arrow's own cast may be off by a last bit."""
    kind = value.type
    if kind.precision > _EXACT_DIGITS:
        return row_by_row(float, pa.float64(), value)

    def convert(decimals: pa.Array) -> pa.Array:
        # Up to 15 digits are exact as a DOUBLE, and so is the power of ten: the division rounds once.
        digits = pc.cast(pc.multiply(decimals, _power(kind.scale)), pa.int64())
        return pc.divide(pc.cast(digits, pa.float64()), pa.scalar(10.0**kind.scale))

    return apply_to_arrays(convert, value)


def decimal_to_text(value: Value) -> Value:
    """A decimal without an exponent."""
    # Up to six digits neither Arrow nor Java's BigDecimal writes an exponent.
    if value.type.scale <= 6:
        return pc.cast(value, pa.string())
    return row_by_row(lambda number: f"{number:f}", pa.string(), value)


def float_to_text(value: Value) -> Value:
    """A FLOAT or a DOUBLE as Java writes it, with the fewest digits that no other number of its type has."""
    if value.type == pa.float32():
        return row_by_row(java_numbers.float_to_text, pa.string(), value)
    return row_by_row(java_numbers.double_to_text, pa.string(), value)


def text_to_integer(value: Value, dtype: pa.DataType, sql: str | None) -> Value:
    """A text of digits, perhaps with a sign and spaces around it."""
    text = pc.utf8_trim(value, _SPACE)
    right = pc.match_substring_regex(text, _INTEGER)
    text = _keep(right, text, value, sql, _describe_misread(dtype))
    # Arrow's parser takes no plus sign.
    bare = pc.replace_substring_regex(text, r"^\+?(-?)0*([0-9])", r"\1\2")
    return run_checked(
        lambda _, v: pc.cast(v, dtype),
        (value, bare),
        sql,
        InvalidCastError,
        _describe_misfit(dtype),
    )


def text_to_float(value: Value, dtype: pa.DataType, sql: str | None) -> Value:
    """A text as a float: digits with a point and an exponent, or NaN and infinity by name."""
    text = pc.replace_substring_regex(pc.utf8_trim(value, _SPACE), _SUFFIX, r"\1")
    named = pc.match_substring_regex(text, r"^(?i)([+-]?inf(inity)?|nan)$")
    right = pc.or_(pc.match_substring_regex(text, _NUMBER), named)
    text = _keep(right, text, value, sql, _describe_misread(dtype))
    return pc.cast(pc.replace_substring_regex(text, r"^\+", ""), dtype)


def text_to_decimal(value: Value, dtype: pa.DataType, sql: str | None) -> Value:
    """A text as a decimal, rounded half up."""
    text = pc.utf8_trim(value, _SPACE)
    right = pc.match_substring_regex(text, _NUMBER)
    text = _keep(right, text, value, sql, _describe_misread(dtype))
    return row_by_row(lambda t: _fit(decimal.Decimal(t), dtype, sql, t), dtype, text)


def text_to_bool(value: Value, sql: str | None) -> Value:
    """t, true, y, yes, 1 and their opposites, whatever their case."""
    text = pc.utf8_lower(pc.utf8_trim(value, _SPACE))
    true = pc.is_in(text, value_set=pa.array(_TRUE))
    known = pc.or_(true, pc.is_in(text, value_set=pa.array(_FALSE)))
    # is_in says false of NULL, where SQL does not know.
    known = pc.if_else(pc.is_valid(value), known, pa.scalar(None, pa.bool_()))
    true = pc.if_else(pc.is_valid(value), true, pa.scalar(None, pa.bool_()))
    return _keep(known, true, value, sql, _describe_misread(pa.bool_()))


def text_to_date(value: Value, sql: str | None) -> Value:
    """yyyy[-m[m][-d[d]]], with anything after a space or a T."""
    return _by_grammar(value, parse_date, pa.int32(), pa.date32(), sql)


def text_to_timestamp(value: Value, dtype: pa.DataType, sql: str | None) -> Value:
    """A date, perhaps with a time of day and an offset; `dtype`: the wall clock, or the instant in UTC."""
    local = dtype.tz is None
    return _by_grammar(value, lambda t: parse_timestamp(t, local), pa.int64(), dtype, sql)


def text_to_instant(value: Value, zone: str, sql: str | None) -> Value:
    """A date, perhaps with a time of day, by the clocks of a zone unless the text has an offset."""
    clocks = text_to_timestamp(value, pa.timestamp("us"), sql)
    parsed = text_to_timestamp(value, pa.timestamp("us", "UTC"), sql)
    offset = pc.match_substring_regex(pc.utf8_trim(value, _SPACE), _OFFSET)
    return pc.if_else(offset, parsed, to_instant(clocks, zone))


def date_to_text(value: Value) -> Value:
    """A date, with a sign before a year of more than four digits."""
    # Arrow writes all but the sign as Spark does, the minus of years before 0 included.
    return pc.replace_substring_regex(pc.cast(value, pa.string()), r"^([0-9]{5})", r"+\1")


def timestamp_to_text(value: Value) -> Value:
    """A wall clock's time without the zeros at the end of its fraction; its date as `date_to_text` writes it."""
    text = date_to_text(value)
    bare = pc.replace_substring_regex(text, r"\.0+$", "")
    return pc.replace_substring_regex(bare, r"(\.[0-9]*[1-9])0+$", r"\1")


def try_parse(
    text: str, parse: Callable[[str], int | None], number: pa.DataType, sql: str
) -> int | None:
    """The days (int32) or microseconds (int64) of a text; None if it is no time.

    Raises InvalidCastError for a text that Spark might read: NULL would be a wrong answer without a word.
    """
    bare = text.strip(_SPACE)
    parsed = parse(bare)
    if parsed is None and _ONLY_SPARK[number].fullmatch(bare):
        raise failure(InvalidCastError, sql, (text,), _BEYOND)
    return parsed


def _by_grammar(
    value: Value, parse: Any, number: pa.DataType, dtype: pa.DataType, sql: str | None
) -> Value:
    def convert(text: str) -> int | None:
        if sql is None:
            return try_parse(text, parse, number, "TRY_CAST")
        parsed = parse(text.strip(_SPACE))
        if parsed is None:
            raise failure(InvalidCastError, sql, (text,), _describe_misread(dtype))
        return int(parsed)

    return pc.cast(row_by_row(convert, number, value), dtype)


def _fit(
    number: decimal.Decimal, dtype: pa.DataType, sql: str | None, number_text: Any
) -> decimal.Decimal | None:
    exact = fit(number, dtype)
    if exact is None and sql is not None:
        raise failure(InvalidCastError, sql, (number_text,), no_room(dtype))
    return exact


def _keep(right: Value, result: Value, value: Value, sql: str | None, what: str) -> Value:
    """The result where a condition holds; elsewhere it is NULL if no expression is named, else that is an error."""
    wrong = pc.invert(right)
    if not any_true(wrong):
        return result
    if sql is not None:
        raise failure(InvalidCastError, sql, where_valid(wrong, value), what)
    return pc.if_else(right, result, pa.scalar(None, result.type))


def _power(digits: int) -> pa.Scalar:
    return pa.scalar(decimal.Decimal(10**digits), pa.decimal128(digits + 1, 0))


def _describe_misfit(dtype: pa.DataType) -> str:
    return f"the value does not fit {dtype}; cast to a wider type, filter such rows, or make it NULL by TRY_CAST."


def _describe_misread(dtype: pa.DataType) -> str:
    return f"the text is no {dtype}; filter such rows, or make it NULL by TRY_CAST."
