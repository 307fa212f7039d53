"""Casts: the text that turns a value into another type as Spark's ANSI mode does."""

from __future__ import annotations

import datetime
import decimal
import re
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.lowered_expression import (
    LoweredExpression,
    call,
    constant,
    quoted,
    type_text,
)
from aggloom.codegen.scalar.lowering import ExpressionLowering
from aggloom.codegen.scalar.nested_texts import nested_to_text
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.promotion import FLOATS, INTEGERS, is_decimal, is_number, wider
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.scalar.time_digits import digits_of_type, floor_time
from aggloom.codegen.scalar.variant_casts import from_variant, to_variant
from aggloom.codegen.spec.dtypes import (
    INSTANT,
    TIME_OF_DAY,
    VARIANT,
    WALL_CLOCK,
    parse_type,
    type_name,
)
from aggloom.errors import SpecError

_EXACT: Final = decimal.Context(prec=200)
"""More digits than a literal and a type have together."""
_UTC: Final = ("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "Zulu")


def explicit(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    """CAST(value AS type) and TRY_CAST, which has NULL where the other has an error."""
    try:
        dtype = parse_type(spark_text(node.to), is_cut=True)
    except SpecError as error:
        raise unsupported_error(node, f"cannot be cast so: {error}") from None
    digits = digits_of_type(node.to)
    value = cast(low, low.lower(node.this), dtype, node, tries=bool(node.args.get("safe")))
    # A literal that was folded has no fraction.
    return value if digits is None or value.literal else floor_time(value, digits)


def cast(
    low: ExpressionLowering,
    value: LoweredExpression,
    dtype: pa.DataType,
    node: exp.Expression,
    tries: bool = False,
) -> LoweredExpression:
    """The value as another type; raises UnsupportedExpressionError for a pair that only Spark casts alike.

    tries: what does not fit is NULL.
    """
    if value.type == dtype:
        # Most operands have the type already. The text of the expression costs as much as the expression is long.
        return value
    if tries:
        # Its errors would name an expression; without one they are NULL.
        return replace(_cast(low, value, dtype, node, "None"), raises=value.raises)
    return _cast(low, value, dtype, node, quoted(spark_text(node)))


def _cast(
    low: ExpressionLowering,
    value: LoweredExpression,
    dtype: pa.DataType,
    node: exp.Expression,
    sql: str,
) -> LoweredExpression:
    source = value.type
    if source == dtype:
        return value
    # NULL has every type, also those that nothing else can be cast to.
    if value.is_null:
        return constant(None, dtype)
    # RAISE_ERROR(..) has no type of its own.
    if pa.types.is_null(source):
        return call("pc.cast({0}, {to})", dtype, value, to=type_text(dtype))
    if VARIANT in (source, dtype):
        return _cast_variant(low, value, dtype, node, (), sql)
    folded = _fold_literal(value, dtype)
    if folded is not None:
        return folded
    to = type_text(dtype)
    if is_number(source) and is_number(dtype):
        return _number(value, dtype, sql, to)
    # Arrow casts a BOOLEAN to no decimal: it goes by way of an integer.
    if source == pa.bool_() and is_number(dtype):
        small = call("pc.cast({0}, pa.int8())", pa.int8(), value)
        return _cast(low, small, dtype, node, sql)
    if dtype == pa.bool_() and is_number(source):
        # Arrow compares only values of one type.
        zero = decimal.Decimal(0) if is_decimal(source) else 0.0 if source in FLOATS else 0
        return call("pc.not_equal({0}, {zero})", dtype, value, zero=constant(zero, source).text)
    if source == pa.string():
        return _from_text(low, value, dtype, node, sql, to)
    if dtype == pa.string():
        return _to_text(low, value, node)
    if source == INSTANT and is_number(dtype):
        return _to_number(value, dtype, sql, to)
    # A number of seconds since 1970, as Spark reads it.
    if source in INTEGERS and dtype == INSTANT:
        return from_units(cast(low, value, pa.int64(), node), 1_000_000, sql)
    if pa.types.is_timestamp(source) or pa.types.is_timestamp(dtype):
        return _time(low, value, dtype, node, to)
    if _is_widened(source, dtype):
        return call("pc.cast({0}, {to})", dtype, value, to=to)
    raise _cast_error(value, dtype, node)


def _is_widened(source: pa.DataType, dtype: pa.DataType) -> bool:
    """Tell whether each number within an array, map or row fits into the type of the same place."""
    if source == dtype or pa.types.is_null(source):
        return True
    # No check is needed where every value fits, so that Arrow may cast all levels at once.
    if source.id == dtype.id and pa.types.is_nested(dtype):
        fields = [(source.field(place), dtype.field(place)) for place in range(source.num_fields)]
        return all(
            one.name == other.name and _is_widened(one.type, other.type) for one, other in fields
        )
    return is_number(source) and is_number(dtype) and wider(source, dtype, texts=False) == dtype


def cast_part(
    low: ExpressionLowering,
    value: LoweredExpression,
    dtype: pa.DataType,
    node: exp.Expression,
    steps: tuple[str | int, ...],
    tries: bool,
) -> LoweredExpression:
    """The part of a VARIANT at the end of these steps as a type; tries: what does not fit is NULL."""
    sql = "None" if tries else quoted(spark_text(node))
    return _cast_variant(low, value, dtype, node, steps, sql)


def _cast_variant(
    low: ExpressionLowering,
    value: LoweredExpression,
    dtype: pa.DataType,
    node: exp.Expression,
    steps: tuple[str | int, ...],
    sql: str,
) -> LoweredExpression:
    if value.type != VARIANT:
        return to_variant(value, node, sql, has_names=False)

    def try_cast(part: LoweredExpression, kind: pa.DataType) -> LoweredExpression:
        return _cast(low, part, kind, node, "None")

    return from_variant(value, dtype, steps, sql, try_cast, node)


def is_utc(zone: str) -> bool:
    """Tell whether a session's time zone is UTC under one of its names."""
    return zone in _UTC


def wall_clock(low: ExpressionLowering, value: LoweredExpression) -> LoweredExpression:
    """A timestamp as the clocks of the session's zone show it."""
    if value.type == WALL_CLOCK:
        return value
    if is_utc(low.zone):
        return call("pc.local_timestamp({0})", WALL_CLOCK, value)
    return call("scalar.zones.to_wall_clock({0}, {zone})", WALL_CLOCK, value, zone=quoted(low.zone))


def from_wall_clock(
    low: ExpressionLowering, value: LoweredExpression, zone: str | None = None
) -> LoweredExpression:
    """The instant at which the clocks of a zone, the session's by default, show a time."""
    zone = low.zone if zone is None else zone
    if is_utc(zone):
        return call('pc.assume_timezone({0}, "UTC")', INSTANT, value)
    return call("scalar.zones.to_instant({0}, {zone})", INSTANT, value, zone=quoted(zone))


def from_units(value: LoweredExpression, microseconds: int, sql: str) -> LoweredExpression:
    """The instant so many units of so many microseconds after 1970; `value` is a BIGINT."""
    if microseconds > 1:
        text = f"scalar.multiply({{0}}, pa.scalar({microseconds}), {{sql}})"
        value = call(text, pa.int64(), value, sql=sql, raises=True)
    return call(f"pc.cast({{0}}, {type_text(INSTANT)})", INSTANT, value)


def _to_number(
    value: LoweredExpression, dtype: pa.DataType, sql: str, to: str
) -> LoweredExpression:
    """The seconds of an instant since 1970, which integers have without their fraction."""
    if dtype in INTEGERS:
        seconds = call('scalar.units_since_epoch({0}, "s")', pa.int64(), value)
    else:
        seconds = call("scalar.seconds_since_epoch({0})", pa.float64(), value)
    return seconds if seconds.type == dtype else _number(seconds, dtype, sql, to)


def _number(value: LoweredExpression, dtype: pa.DataType, sql: str, to: str) -> LoweredExpression:
    source = value.type
    if dtype in INTEGERS:
        # A wider integer holds every value.
        if source in INTEGERS and INTEGERS.index(source) < INTEGERS.index(dtype):
            return call("pc.cast({0}, {to})", dtype, value, to=to)
        word = "cast" if source in INTEGERS else "double_to_integer"
        text = f"scalar.{word}({{0}}, {{to}}, {{sql}})"
        return call(text, dtype, value, to=to, sql=sql, raises=True)
    if dtype in FLOATS:
        if not is_decimal(source):
            # safe=False: a BIGINT that DOUBLE does not hold exactly is rounded, as in Java.
            return call("pc.cast({0}, {to}, safe=False)", dtype, value, to=to)
        # Arrow's own cast may be off by a last bit.
        double = call("scalar.decimal_to_double({0})", pa.float64(), value)
        return double if dtype == pa.float64() else _number(double, dtype, sql, to)
    if source in FLOATS:
        text = "scalar.double_to_decimal({0}, {to}, {sql})"
        return call(text, dtype, value, to=to, sql=sql, raises=True)
    return _as_decimal(value, dtype, sql, to)


def _as_decimal(
    value: LoweredExpression, dtype: pa.DataType, sql: str, to: str
) -> LoweredExpression:
    source = value.type
    digits = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
    whole, scale = (
        (source.precision - source.scale, source.scale)
        if is_decimal(source)
        else (digits[source], 0)
    )
    # Wider on both sides of the point: nothing can be lost, and no check is needed.
    if dtype.precision - dtype.scale >= whole and dtype.scale >= scale:
        return call("pc.cast({0}, {to})", dtype, value, to=to)
    if not is_decimal(source):
        # First a decimal that holds every integer of the type, then the check that names the expression.
        exact = pa.decimal128(digits[source], 0)
        value = call("pc.cast({0}, {to})", exact, value, to=type_text(exact))
    text = "scalar.round_decimal({0}, {to}, {sql})"
    return call(text, dtype, value, to=to, sql=sql, raises=True)


def _from_text(
    low: ExpressionLowering,
    value: LoweredExpression,
    dtype: pa.DataType,
    node: exp.Expression,
    sql: str,
    to: str,
) -> LoweredExpression:
    if dtype == pa.binary():
        return call("pc.cast({0}, pa.binary())", dtype, value)
    if dtype == TIME_OF_DAY:
        text = "scalar.times_of_day.text_to_time({0}, {sql})"
        return call(text, dtype, value, sql=sql, raises=True)
    # A text without a zone is on the clocks of the session's.
    if dtype == INSTANT and not is_utc(low.zone):
        text = "scalar.text_to_instant({0}, {zone}, {sql})"
        return call(text, dtype, value, zone=quoted(low.zone), sql=sql, raises=True)
    words = {pa.bool_(): "bool", pa.date32(): "date", INSTANT: "timestamp", WALL_CLOCK: "timestamp"}
    words |= dict.fromkeys(INTEGERS, "integer") | dict.fromkeys(FLOATS, "float")
    word = "decimal" if is_decimal(dtype) else words.get(dtype)
    if word is None:
        raise _cast_error(value, dtype, node)
    # BOOLEAN and DATE have one form each; the others need the type.
    typed = "" if word in ("bool", "date") else ", {to}"
    text = f"scalar.text_to_{word}({{0}}{typed}, {{sql}})"
    return call(text, dtype, value, to=to, sql=sql, raises=True)


def _to_text(
    low: ExpressionLowering, value: LoweredExpression, node: exp.Expression
) -> LoweredExpression:
    if value.type in INTEGERS or value.type == pa.bool_():
        return call("pc.cast({0}, pa.string())", pa.string(), value)
    if value.type == pa.date32():
        return call("scalar.date_to_text({0})", pa.string(), value)
    # Spark takes the bytes for UTF-8.
    if value.type == pa.binary():
        return call("pc.cast({0}, pa.string())", pa.string(), value)
    if is_decimal(value.type):
        return call("scalar.decimal_to_text({0})", pa.string(), value)
    if value.type in FLOATS:
        return call("scalar.float_to_text({0})", pa.string(), value)
    if pa.types.is_timestamp(value.type):
        return call("scalar.timestamp_to_text({0})", pa.string(), wall_clock(low, value))
    if value.type == TIME_OF_DAY:
        return call("scalar.times_of_day.time_to_text({0})", pa.string(), value)
    if pa.types.is_nested(value.type):
        return nested_to_text(value, lambda part: cast(low, part, pa.string(), node))
    raise _cast_error(value, pa.string(), node)


def _time(
    low: ExpressionLowering,
    value: LoweredExpression,
    dtype: pa.DataType,
    node: exp.Expression,
    to: str,
) -> LoweredExpression:
    if dtype == WALL_CLOCK and value.type == INSTANT:
        return wall_clock(low, value)
    if dtype == pa.date32():
        return call("scalar.date_of({0})", dtype, wall_clock(low, value))
    if dtype == TIME_OF_DAY and value.type in (INSTANT, WALL_CLOCK):
        return call("scalar.times_of_day.time_of({0})", dtype, wall_clock(low, value))
    if dtype == WALL_CLOCK and value.type == pa.date32():
        return call("pc.cast({0}, {to})", dtype, value, to=to)
    if dtype == INSTANT and value.type in (WALL_CLOCK, pa.date32()):
        return from_wall_clock(low, cast(low, value, WALL_CLOCK, node))
    raise _cast_error(value, dtype, node)


def _fold_literal(value: LoweredExpression, dtype: pa.DataType) -> LoweredExpression | None:
    """A literal of the other type, if its value is the same or is plainly rounded."""
    # The value is known now, so that no row has to be cast. What does not fit is left to the cast, whose error names
    # it.
    number: Any = value.literal[0] if value.literal else None
    if number is None or isinstance(number, bool):
        return None
    if isinstance(number, str) and dtype == pa.date32():
        return _date(number)
    if isinstance(number, str) and dtype == TIME_OF_DAY:
        return _time_of_day(number)
    if isinstance(number, str) and dtype in INTEGERS and number.isascii() and number.isdigit():
        number = int(number)
    if not isinstance(number, int | decimal.Decimal):
        return None
    if dtype == pa.float64():
        return constant(float(number), dtype)
    if dtype == pa.float32():
        # Spark reads a FLOAT literal from its text; Java and NumPy both round once.
        return constant(float(np.float32(str(number))), dtype)
    if dtype in INTEGERS and isinstance(number, int):
        # From -2**(n-1) to 2**(n-1) - 1 in one comparison.
        fits = abs(2 * number + 1) < 2**dtype.bit_width
        return constant(number, dtype) if fits else None
    exact = decimal.Decimal(number)
    if is_decimal(dtype) and exact == _EXACT.quantize(
        exact, decimal.Decimal(1).scaleb(-dtype.scale)
    ):
        # Digits before the point: those after it are known to fit.
        fits = exact.copy_abs() < 10 ** (dtype.precision - dtype.scale)
        return constant(exact, dtype) if fits else None
    return None


def _date(text: str) -> LoweredExpression | None:
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        return None
    # Python reads 20200203 as well, Spark does not.
    return constant(day, pa.date32()) if text == day.isoformat() else None


def _time_of_day(text: str) -> LoweredExpression | None:
    """A time without a fraction, of which TIME(n) may keep less."""
    if not re.fullmatch(r"[0-9]{2}:[0-9]{2}(:[0-9]{2})?", text):
        return None
    with suppress(ValueError):
        return constant(datetime.time.fromisoformat(text), TIME_OF_DAY)
    return None


def _cast_error(value: LoweredExpression, dtype: pa.DataType, node: exp.Expression) -> Exception:
    return unsupported_error(
        node,
        f"casts {type_name(value.type)} to {type_name(dtype)}, which is outside what runs without Spark; "
        "give the harness a Spark session.",
    )
