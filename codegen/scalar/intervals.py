"""Times that are moved by MAKE_INTERVAL(..) and its kin, and the bucket of an interval's length in which a time is.

No column is an interval: one is beside a time, by which it is moved.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.casts import is_utc
from aggloom.codegen.scalar.dates import microseconds_of, months_of
from aggloom.codegen.scalar.entry import entry
from aggloom.codegen.scalar.interval_forms import OF_DATES, PLACES
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, constant, quoted
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.spec.dtypes import INSTANT, WALL_CLOCK

_SECONDS: Final = pa.decimal128(18, 6)
_INT: Final = pa.int32()


def shift_by_made(
    low: ExpressionLowering, node: exp.Binary, time: exp.Expression, interval: exp.Anonymous
) -> LoweredExpression:
    """A time plus or minus an interval that is made of numbers."""
    value = low.lower(time)
    name = interval.name.upper()
    is_date = value.type == pa.date32() and name in OF_DATES
    if value.type == pa.date32() and not is_date:
        # Hours are added to the instant at which the day begins.
        value = low.cast(value, INSTANT, time)
    # On the clocks of a zone with summer time a day has not always 24 hours.
    if not (is_date or value.type == WALL_CLOCK or (value.type == INSTANT and is_utc(low.zone))):
        raise unsupported_error(node, NEEDS_SPARK)
    sign = -1 if isinstance(node, exp.Sub) else 1
    length = _make(low, interval, name)
    text = "scalar.intervals.shift_time({0}, {1}, {sign}, {sql})"
    sql = quoted(spark_text(node))
    return call(text, value.type, value, length, sign=str(sign), sql=sql, raises=True)


def _bucket(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """TIME_BUCKET(length, time [, origin]), the length a literal."""
    length, time, *origin = node.expressions
    value = low.lower(time)
    # On the clocks of a zone with summer time a bucket of days has not always as many hours.
    plain = value.type == WALL_CLOCK or (value.type == INSTANT and is_utc(low.zone))
    if not plain or not isinstance(length, exp.Interval):
        raise unsupported_error(node, NEEDS_SPARK)
    months = months_of(length)
    if months is not None and months > 0 and not origin:
        return call(f"scalar.intervals.find_months({{0}}, {months})", value.type, value)
    size = microseconds_of(length)
    start = [low.lower(each) for each in origin]
    if size is None or size <= 0 or any(each.type != value.type for each in start):
        raise unsupported_error(node, NEEDS_SPARK)
    anchor = "{1}" if origin else "None"
    text = f"scalar.intervals.find_bucket({{0}}, {size}, {anchor})"
    return call(text, value.type, value, *start)


def _make(low: ExpressionLowering, node: exp.Anonymous, name: str) -> LoweredExpression:
    """An interval as a row of numbers, which no expression has for a value."""
    if len(node.expressions) > len(PLACES[name]):
        raise unsupported_error(node, NEEDS_SPARK)
    parts = [constant(0, _INT) for _ in range(6)] + [constant(0, _SECONDS)]
    for place, argument in zip(PLACES[name], node.expressions, strict=False):
        parts[place] = low.as_type(argument, _SECONDS if place == 6 else _INT)
    places = ", ".join(f"{{{place}}}" for place in range(7))
    tries = name.startswith("TRY_")
    sql = "None" if tries else quoted(spark_text(node))
    text = f"scalar.intervals.make_interval({places}, {{sql}})"
    return call(text, pa.null(), *parts, sql=sql, raises=not tries)


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        "time_bucket",
        (
            "time_bucket(INTERVAL '15' MINUTE, n)",
            "time_bucket(INTERVAL 2 DAYS, w)",
            "time_bucket(INTERVAL '5' MONTH, n)",
            "time_bucket(INTERVAL '1' HOUR, n, TIMESTAMP_NTZ '2020-01-01 00:20:00')",
        ),
        _bucket,
    ),
)
MOVED: Final = (
    *("n + make_dt_interval(1, 2, b, 4.5)", "w - make_dt_interval(0, b)"),
    *("n + make_ym_interval(1, b)", "d - make_ym_interval(0, b)", "make_ym_interval(1) + w"),
    *("n - make_interval(1, b, 2, 3, 4, 5, 6.25)", "d + make_interval(0, b, 1, -3)"),
    *("n + try_make_interval(0, 1, 0, b)", "w + try_make_interval(2147483647)"),
)
"""Samples of times that are moved by intervals made of numbers."""
