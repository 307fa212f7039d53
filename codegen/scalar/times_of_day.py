"""Times of day: TIME values made of numbers and texts, cut off, and the units between two of them."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import arguments, entry, literal_text
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, quoted
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.promotion import INTEGERS, is_number
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.scalar.time_patterns import reader_of
from aggloom.codegen.spec.dtypes import TIME_OF_DAY

_TEXT: Final = pa.string()
_INT: Final = pa.int32()
_BIG: Final = pa.int64()
_SECOND: Final = pa.decimal128(16, 6)
_UNITS: Final = ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_OF_DAYS: Final = frozenset(
    ("year", "year2", "month", "month_name", "day", "day_of_year", "offset")
)
_SIZES: Final = {"seconds": 1_000_000, "millis": 1000, "micros": 1}


def _time(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    """An argument that is a TIME; raises UnsupportedExpressionError for another."""
    value = low.lower(node)
    if value.type != TIME_OF_DAY:
        raise unsupported_error(node, NEEDS_SPARK)
    return value


def _unit(node: exp.Expression, whole: exp.Expression) -> str:
    unit = literal_text(node, whole).upper()
    if unit not in _UNITS:
        raise unsupported_error(whole, f"{unit!r} is not one of {', '.join(_UNITS)}.")
    return unit


def _make(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """MAKE_TIME(hour, minute, second)."""
    kinds = (_INT, _INT, _SECOND)
    parts = [low.as_type(each, kind) for each, kind in zip(node.expressions, kinds, strict=True)]
    text = (
        "scalar.times_of_day.from_microseconds(scalar.by_row(scalar.times_of_day.make_time, pa.int64(), "
        "{0}, {1}, {2}, sql={sql}))"
    )
    return call(text, TIME_OF_DAY, *parts, sql=quoted(spark_text(node)), raises=True)


def _read(tries: bool) -> Rule:
    """TO_TIME(text [, pattern]) and TRY_TO_TIME."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        operand, *pattern = node.expressions
        value = low.lower(operand)
        if value.type != _TEXT:
            raise unsupported_error(node, NEEDS_SPARK)
        sql = "None" if tries else quoted(spark_text(node))
        if not pattern:
            text = "scalar.times_of_day.text_to_time({0}, {sql})"
            return call(text, TIME_OF_DAY, value, sql=sql, raises=not tries)
        reader = reader_of(literal_text(pattern[0], node), node)
        if set(re.findall(r"\(\?P<(\w+)>", reader)) & _OF_DAYS:
            raise unsupported_error(
                node, "has a pattern with parts of a date; write those of a time alone."
            )
        text = "scalar.times_of_day.parse_by({0}, {reader}, {sql})"
        return call(text, TIME_OF_DAY, value, reader=quoted(reader), sql=sql, raises=not tries)

    return rule


def _cast(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """TIME(x), another form of CAST(x AS TIME)."""
    (operand,) = node.expressions
    return low.as_type(operand, TIME_OF_DAY)


def _from_number(unit: str) -> Rule:
    """TIME_FROM_SECONDS, of which seconds alone may have a fraction, and its kin."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        value = low.lower(node.expressions[0])
        fits = is_number(value.type) if unit == "seconds" else value.type in INTEGERS
        if not fits:
            raise unsupported_error(node, NEEDS_SPARK)
        if value.type == pa.float32():
            value = low.cast(value, pa.float64(), node)
        text = "scalar.times_of_day.of_units({0}, {size}, {sql})"
        sql = quoted(spark_text(node))
        return call(text, TIME_OF_DAY, value, size=str(_SIZES[unit]), sql=sql, raises=True)

    return rule


def _to_number(unit: str) -> Rule:
    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        value = _time(low, node.expressions[0])
        if unit == "seconds":
            return call("scalar.times_of_day.to_seconds({0})", pa.decimal128(14, 6), value)
        text = "scalar.times_of_day.whole_units({0}, {size})"
        return call(text, _BIG, value, size=str(_SIZES[unit]))

    return rule


def _truncate(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    unit, operand = arguments(node)
    text = "scalar.times_of_day.cut_off({0}, {unit})"
    return call(text, TIME_OF_DAY, _time(low, operand), unit=quoted(_unit(unit, node)))


def _difference(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    unit, start, end = arguments(node)
    text = "scalar.times_of_day.units_between({0}, {1}, {unit})"
    times = (_time(low, start), _time(low, end))
    return call(text, _BIG, *times, unit=quoted(_unit(unit, node)))


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry("make_time", ("make_time(12, b * 0 + 30, 5.25)", "make_time(0, 0, 0)"), _make),
    entry(
        "to_time",
        ("to_time('9:05')", "to_time(CAST(h AS STRING))", "to_time('05.09 PM', 'mm.hh a')"),
        _read(tries=False),
    ),
    entry(
        "try_to_time",
        ("try_to_time(s)", "try_to_time('9:05:07.25')", "try_to_time(s, 'HH:mm')"),
        _read(tries=True),
    ),
    entry("time", ("time(h)", "time('23:59:59.999999')"), _cast),
    *(
        entry(f"time_from_{unit}", samples, _from_number(unit))
        for unit, samples in {
            "seconds": ("time_from_seconds(b * 0 + 86399)", "time_from_seconds(1.5)"),
            "millis": ("time_from_millis(b * 0 + 1001)",),
            "micros": ("time_from_micros(b * 0 + 1000001)",),
        }.items()
    ),
    *(entry(f"time_to_{unit}", f"time_to_{unit}(h)", _to_number(unit)) for unit in _SIZES),
    entry("time_trunc", ("time_trunc('MINUTE', h)", "time_trunc('millisecond', h)"), _truncate),
    entry(
        "time_diff",
        (
            "time_diff('HOUR', h, make_time(12, 0, 0))",
            "time_diff('SECOND', make_time(12, 0, 0), h)",
        ),
        _difference,
    ),
)
