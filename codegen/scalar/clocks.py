"""Times made of numbers, moved by units or between zones, and the units between two of them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.casts import from_units, from_wall_clock, is_utc
from aggloom.codegen.scalar.entry import entry, literal_text
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, quoted, type_text
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.promotion import INTEGERS, is_decimal
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.spec.dtypes import INSTANT, WALL_CLOCK
from aggloom.codegen.spec.zones import spell_zone
from aggloom.errors import OptionError

_DATE: Final = pa.date32()
_INT: Final = pa.int32()
_SECOND: Final = pa.decimal128(16, 6)
# Spark's DAYOFYEAR counts days here as DAY does.
_UNITS: Final = {
    **{name.upper(): name for name in ("microsecond", "millisecond", "second", "minute", "hour")},
    **{name.upper(): name for name in ("day", "week", "month", "quarter", "year")},
    "DAYOFYEAR": "day",
}
_WEEKDAYS: Final = {
    name: place
    for place, names in enumerate(
        (
            "MO MON MONDAY",
            "TU TUE TUESDAY",
            "WE WED WEDNESDAY",
            "TH THU THURSDAY",
            "FR FRI FRIDAY",
            "SA SAT SATURDAY",
            "SU SUN SUNDAY",
        )
    )
    for name in names.split()
}


def _unit(node: exp.Anonymous) -> str:
    # With two arguments DATEADD and DATEDIFF are functions of days.
    if len(node.expressions) != 3 or node.expressions[0].name.upper() not in _UNITS:
        raise unsupported_error(node, NEEDS_SPARK)
    return _UNITS[node.expressions[0].name.upper()]


def _time(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    """A wall clock's time, of a date its midnight."""
    value = low.lower(node)
    if value.type == pa.string() or not is_utc(low.zone):
        # Spark takes it for an instant, which a time that the clocks skip is not.
        value = low.cast(value, INSTANT, node)
    return low.cast(value, WALL_CLOCK, node)


def _shift(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """TIMESTAMPADD(unit, count, time)."""
    unit = _unit(node)
    _, count, time = node.expressions
    value, number = low.lower(time), low.lower(count)
    if value.type not in (INSTANT, WALL_CLOCK, _DATE) or number.type not in INTEGERS:
        raise unsupported_error(node, NEEDS_SPARK)
    # A day of a zone with summer time may have 23 hours: what Spark adds there is its calendar's affair.
    if value.type != WALL_CLOCK and not is_utc(low.zone):
        raise unsupported_error(node, NEEDS_SPARK)
    text = "scalar.clocks.shift_time({0}, {1}, {unit}, {sql})"
    sql = quoted(spark_text(node))
    moved = call(
        text,
        WALL_CLOCK,
        low.cast(value, WALL_CLOCK, node),
        number,
        unit=quoted(unit),
        sql=sql,
        raises=True,
    )
    return moved if value.type == WALL_CLOCK else from_wall_clock(low, moved)


def _lower_difference(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """TIMESTAMPDIFF(unit, start, end)."""
    unit = _unit(node)
    # Whole units between wall clocks, as Spark counts them.
    times = [_time(low, each) for each in node.expressions[1:]]
    text = "scalar.clocks.units_between({0}, {1}, {unit})"
    return call(text, pa.int64(), *times, unit=quoted(unit))


def _months_between(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    times = [_time(low, each) for each in node.expressions[:2]]
    rounded = ""
    if len(node.expressions) > 2:
        if not isinstance(node.expressions[2], exp.Boolean):
            raise unsupported_error(node, NEEDS_SPARK)
        rounded = f", {bool(node.expressions[2].this)}"
    return call(f"scalar.clocks.months_between({{0}}, {{1}}{rounded})", pa.float64(), *times)


def _next_day(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    date, name = node.expressions
    # Spark gives NULL or an error for other names, by its mode.
    weekday = _WEEKDAYS.get(literal_text(name, node).strip().upper())
    if weekday is None:
        raise unsupported_error(node, NEEDS_SPARK)
    value = low.as_type(date, _DATE)
    return call(f"scalar.clocks.next_day({{0}}, {weekday})", _DATE, value)


def _make(dtype: pa.DataType, tries: bool) -> Rule:
    """MAKE_TIMESTAMP(year, month, day, hour, minute, second [, zone])."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        parts_of_call = node.expressions
        # A wall clock has no zone to be given in.
        if not 6 <= len(parts_of_call) <= 6 + (dtype == INSTANT):
            raise unsupported_error(node, NEEDS_SPARK)
        # Seconds are DECIMAL(16, 6), which has microseconds.
        kinds = (*(_INT for _ in range(5)), _SECOND)
        parts = [low.as_type(each, kind) for each, kind in zip(parts_of_call, kinds, strict=False)]
        places = ", ".join(f"{{{place}}}" for place in range(6))
        if tries:
            wall_clock = call(f"scalar.clocks.try_make_timestamp({places})", WALL_CLOCK, *parts)
        else:
            text = f"scalar.clocks.make_timestamp({places}, {{sql}})"
            wall_clock = call(text, WALL_CLOCK, *parts, sql=quoted(spark_text(node)), raises=True)
        if dtype == WALL_CLOCK:
            return wall_clock
        zone = _zone(parts_of_call[6], node) if len(parts_of_call) > 6 else low.zone
        return from_wall_clock(low, wall_clock, zone)

    return rule


def _of_number(unit: str) -> Rule:
    """TIMESTAMP_MILLIS(n) and its kin."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        value = low.lower(node.expressions[0])
        # Only seconds may have a fraction.
        if unit == "s" and (is_decimal(value.type) or value.type in (pa.float32(), pa.float64())):
            value = low.cast(value, pa.float64(), node) if value.type == pa.float32() else value
            text = (
                "scalar.by_row(scalar.clocks.seconds_to_microseconds, pa.int64(), {0}, sql={sql})"
            )
            value = call(text, pa.int64(), value, sql=quoted(spark_text(node)), raises=True)
            return call(f"pc.cast({{0}}, {type_text(INSTANT)})", INSTANT, value)
        if value.type not in INTEGERS:
            raise unsupported_error(node, NEEDS_SPARK)
        # In 64 bits: a number that is too large is an error.
        size = {"s": 1_000_000, "ms": 1000, "us": 1}[unit]
        return from_units(low.cast(value, pa.int64(), node), size, quoted(spark_text(node)))

    return rule


def _zone(node: exp.Expression, whole: exp.Expression) -> str:
    """A zone that is a literal, in the spelling of Arrow."""
    try:
        return spell_zone(literal_text(node, whole))
    except OptionError:
        raise unsupported_error(whole, NEEDS_SPARK) from None


def _utc_shift(source: bool) -> Rule:
    """FROM_UTC_TIMESTAMP and TO_UTC_TIMESTAMP, which take an instant for UTC's wall clock."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        time, zone = node.expressions
        pair = ("UTC", _zone(zone, node)) if source else (_zone(zone, node), "UTC")
        value = low.as_type(time, INSTANT)
        # The instant's own wall clock in UTC is moved between zones, and then taken for UTC's again.
        text = "scalar.zones.shift_zone(pc.local_timestamp({0}), {source}, {target})"
        moved = call(text, WALL_CLOCK, value, source=quoted(pair[0]), target=quoted(pair[1]))
        return call('pc.assume_timezone({0}, "UTC")', INSTANT, moved)

    return rule


def _convert(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """CONVERT_TIMEZONE([from,] to, time)."""
    *zones, time = node.expressions
    names = [_zone(each, node) for each in zones]
    source = names[0] if len(names) > 1 else low.zone
    text = "scalar.zones.shift_zone({0}, {source}, {target})"
    value = low.as_type(time, WALL_CLOCK)
    return call(text, WALL_CLOCK, value, source=quoted(source), target=quoted(names[-1]))


_PARTS: Final = "2020, 2, b * 0 + 29, 1, 2"
ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        ("timestampadd", "dateadd", "date_add"),
        (
            *("timestampadd(MONTH, b, n)", "timestampadd(HOUR, -3, w)", "timestampadd(DAY, 1, d)"),
            *("dateadd(QUARTER, 1, n)", "date_add(YEAR, -1, w)", "dateadd(MICROSECOND, l, n)"),
        ),
        _shift,
    ),
    entry(
        ("timestampdiff", "datediff", "date_diff"),
        (
            *(
                "timestampdiff(MONTH, n, w)",
                "timestampdiff(HOUR, w, n)",
                "timestampdiff(DAY, d, u)",
            ),
            *("datediff(YEAR, n, d)", "date_diff(SECOND, w, d)", "timestampdiff(QUARTER, u, n)"),
            "timestampdiff(WEEK, d, n)",
        ),
        _lower_difference,
    ),
    entry(
        "months_between",
        ("months_between(d, u)", "months_between(n, d)", "months_between(n, w, false)"),
        _months_between,
    ),
    entry("next_day", ("next_day(d, 'MO')", "next_day(u, 'sunday')"), _next_day),
    entry(
        ("make_timestamp", "make_timestamp_ltz"),
        (
            f"make_timestamp({_PARTS}, 3.5)",
            f"make_timestamp({_PARTS}, 60)",
            f"make_timestamp_ltz({_PARTS}, 3, 'Europe/Berlin')",
        ),
        _make(INSTANT, False),
    ),
    entry("make_timestamp_ntz", f"make_timestamp_ntz({_PARTS}, 3.25)", _make(WALL_CLOCK, False)),
    entry(
        ("try_make_timestamp", "try_make_timestamp_ltz"),
        ("try_make_timestamp(2020, b, 1, 2, 3, 4)", f"try_make_timestamp_ltz({_PARTS}, 61)"),
        _make(INSTANT, True),
    ),
    entry(
        "try_make_timestamp_ntz",
        "try_make_timestamp_ntz(2020, 1, b, 2, 3, 4)",
        _make(WALL_CLOCK, True),
    ),
    entry(
        "timestamp_seconds",
        ("timestamp_seconds(i)", "timestamp_seconds(m)", "timestamp_seconds(g)"),
        _of_number("s"),
    ),
    entry("timestamp_millis", "timestamp_millis(l)", _of_number("ms")),
    entry("timestamp_micros", "timestamp_micros(l)", _of_number("us")),
    entry(
        "from_utc_timestamp",
        ("from_utc_timestamp(w, 'Europe/Berlin')", "from_utc_timestamp(n, '+05:30')"),
        _utc_shift(True),
    ),
    entry(
        "to_utc_timestamp",
        (
            "to_utc_timestamp(w, 'Europe/Berlin')",
            "to_utc_timestamp('2020-03-29 02:30:00', 'Europe/Berlin')",
        ),
        _utc_shift(False),
    ),
    entry(
        "convert_timezone",
        ("convert_timezone('UTC', 'Asia/Tokyo', n)", "convert_timezone('America/New_York', n)"),
        _convert,
    ),
)
