"""Dates and times: their parts, arithmetic on them, and cutting them off; instants by the session's time zone."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar import casts
from aggloom.codegen.scalar.entry import CLOCK, clock, entry, kernel, literal_text
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, constant, quoted
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.spec.dtypes import INSTANT, TIME_OF_DAY, WALL_CLOCK

_INT: Final = pa.int32()
_DATE: Final = pa.date32()
# Arrow counts in 64 bits, Spark in 32.
_PARTS: Final = {
    "YEAROFWEEK": "pc.cast(pc.iso_year({0}), pa.int32())",
    "DOW": "pc.cast(pc.day_of_week({0}, count_from_zero=False, week_start=7), pa.int32())",
    "DOW_ISO": "pc.cast(pc.day_of_week({0}, count_from_zero=False), pa.int32())",
    "YEAR": "pc.cast(pc.year({0}), pa.int32())",
    "QUARTER": "pc.cast(pc.quarter({0}), pa.int32())",
    "MONTH": "pc.cast(pc.month({0}), pa.int32())",
    "WEEK": "pc.cast(pc.iso_week({0}), pa.int32())",
    "DAY": "pc.cast(pc.day({0}), pa.int32())",
    "DOY": "pc.cast(pc.day_of_year({0}), pa.int32())",
    "HOUR": "pc.cast(pc.hour({0}), pa.int32())",
    "MINUTE": "pc.cast(pc.minute({0}), pa.int32())",
    "SECOND": "pc.cast(pc.second({0}), pa.int32())",
}
_SYNONYMS: Final = {
    **dict.fromkeys(("Y", "YEARS", "YR", "YRS"), "YEAR"),
    "QTR": "QUARTER",
    **dict.fromkeys(("MON", "MONS", "MONTHS"), "MONTH"),
    **dict.fromkeys(("W", "WEEKS"), "WEEK"),
    **dict.fromkeys(("D", "DAYS"), "DAY"),
    "DAYOFWEEK": "DOW",
    "DAYOFWEEK_ISO": "DOW_ISO",
    **dict.fromkeys(("H", "HOURS", "HR", "HRS"), "HOUR"),
    **dict.fromkeys(("M", "MIN", "MINS", "MINUTES"), "MINUTE"),
    **dict.fromkeys(("S", "SEC", "SECONDS", "SECS"), "SECOND"),
}
_TIMES: Final = ("HOUR", "MINUTE", "SECOND")
_UNITS: Final = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    "QUARTER": "quarter",
    **dict.fromkeys(("MONTH", "MM", "MON"), "month"),
    "WEEK": "week",
    **dict.fromkeys(("DAY", "DD"), "day"),
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
}
_DATE_UNITS: Final = ("year", "quarter", "month", "week")
_MICROSECONDS: Final = {
    "WEEK": 7 * 86_400_000_000,
    "DAY": 86_400_000_000,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
}
_MONTHS: Final = {"MONTH": 1, "YEAR": 12}


def microseconds_of(interval: exp.Interval) -> int | None:
    """The length of an interval of whole weeks to seconds; None for others."""
    unit = interval.args.get("unit")
    text = interval.this.this if isinstance(interval.this, exp.Literal) else ""
    size = _MICROSECONDS.get(unit.name.upper().removesuffix("S") if unit is not None else "")
    # Months and years have no fixed length.
    return int(text) * size if size and str(text).lstrip("-").isdigit() else None


def months_of(interval: exp.Interval) -> int | None:
    """The months of an interval of whole months or years; None for others."""
    unit = interval.args.get("unit")
    text = interval.this.this if isinstance(interval.this, exp.Literal) else ""
    size = _MONTHS.get(unit.name.upper().removesuffix("S") if unit is not None else "")
    return int(text) * size if size and str(text).lstrip("-").isdigit() else None


def by_days(
    low: ExpressionLowering, node: exp.Binary, date: LoweredExpression, days: LoweredExpression
) -> LoweredExpression:
    """A date plus or minus a number of days."""
    # Spark takes no BIGINT for days.
    if days.type not in (pa.int8(), pa.int16(), pa.int32()):
        raise unsupported_error(node, NEEDS_SPARK)
    return _add_days(low, node, date, days, -1 if isinstance(node, exp.Sub) else 1)


def by_interval(low: ExpressionLowering, node: exp.Binary) -> LoweredExpression:
    """A date or a timestamp plus or minus an interval."""
    value, interval = low.lower(node.left), node.right
    sign = -1 if isinstance(node, exp.Sub) else 1
    unit = interval.args.get("unit")
    text = interval.this.this if isinstance(interval.this, exp.Literal) else ""
    name = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    if not str(text).lstrip("-").isdigit():
        raise unsupported_error(node, NEEDS_SPARK)
    count = sign * int(text)
    # A number of years becomes twelve times as many months, in 32 bits.
    days_fit = abs(count) < 2**31 // 12 if value.type == _DATE else True
    if not days_fit or abs(count * _MICROSECONDS.get(name, 1)) >= 2**63:
        raise unsupported_error(node, NEEDS_SPARK)
    if value.type == _DATE and name in ("DAY", "WEEK"):
        days = constant(count * (7 if name == "WEEK" else 1), _INT)
        return _add_days(low, node, value, days, 1)
    if value.type == _DATE and name in _MONTHS:
        months = constant(count * _MONTHS[name], _INT)
        return call("scalar.add_months({0}, {1})", _DATE, value, months)
    # A day of a zone with summer time has not always 24 hours.
    plain = value.type == WALL_CLOCK or name not in ("DAY", "WEEK") or casts.is_utc(low.zone)
    if value.type not in (WALL_CLOCK, INSTANT) or name not in _MICROSECONDS or not plain:
        raise unsupported_error(node, NEEDS_SPARK)
    return call(
        "scalar.add_duration({0}, {count}, {sql})",
        value.type,
        value,
        count=str(count * _MICROSECONDS[name]),
        sql=quoted(spark_text(node)),
        raises=True,
    )


def _add_days(
    low: ExpressionLowering,
    node: exp.Expression,
    date: LoweredExpression,
    days: LoweredExpression,
    sign: int,
) -> LoweredExpression:
    sql = quoted(spark_text(node))
    days = low.cast(days, _INT, node)
    # A literal is turned around now, a column by an operation that fails for the least INT.
    if sign < 0 and days.literal and days.literal[0] is not None:
        days = constant(-days.literal[0], _INT)
    elif sign < 0:
        days = call("scalar.negate({0}, {sql})", _INT, days, sql=sql, raises=True)
    return call("scalar.add_days({0}, {1}, {sql})", _DATE, date, days, sql=sql, raises=True)


def _date_add(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    days, sign = node.expression, 1
    if node.args["unit"].name.upper() != "DAY":
        raise unsupported_error(node, NEEDS_SPARK)
    if isinstance(days, exp.Mul) and days.expression == exp.Literal.number(-1):
        # So the parser writes date_sub.
        days, sign = days.this, -1
    number = low.lower(days)
    if number.type not in (pa.int8(), pa.int16(), _INT):
        raise unsupported_error(node, NEEDS_SPARK)
    return _add_days(low, node, low.as_type(node.this, _DATE), number, sign)


def _part(name: str) -> Rule:
    def rule(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
        return _of(low, node, node.this, name)

    return rule


def _extract(low: ExpressionLowering, node: exp.Extract) -> LoweredExpression:
    return _of(low, node, node.expression, node.this.name.upper(), fraction=True)


def _date_part(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    unit, argument = node.expressions
    return _of(low, node, argument, literal_text(unit, node).upper(), fraction=True)


def _of(
    low: ExpressionLowering,
    node: exp.Expression,
    argument: exp.Expression,
    name: str,
    fraction: bool = False,
) -> LoweredExpression:
    name = _SYNONYMS.get(name, name)
    value = low.lower(argument)
    if value.type == pa.string():
        # A text is read as the part needs it: a time of day is of an instant, a day of a date.
        value = low.cast(value, INSTANT if name in _TIMES else _DATE, node)
        value = casts.wall_clock(low, value) if name in _TIMES else value
    elif value.type == TIME_OF_DAY and name in _TIMES:
        # Of the first day of 1970, for Arrow has no parts of times alone.
        value = call('pc.cast(pc.cast({0}, pa.int64()), pa.timestamp("us"))', WALL_CLOCK, value)
    else:
        value = clock(low, argument)
    # A date has no time of day.
    if name not in _PARTS or (name in _TIMES and value.type == _DATE):
        raise unsupported_error(node, NEEDS_SPARK)
    # EXTRACT(SECOND ..) has microseconds, the function SECOND is whole.
    if fraction and name == "SECOND":
        return call("scalar.clocks.second_with_fraction({0})", pa.decimal128(8, 6), value)
    return call(_PARTS[name], _INT, value)


def _truncate(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    """trunc(date, unit)."""
    unit = _UNITS.get(literal_text(node.args["unit"], node).upper(), "")
    value = low.as_type(node.this, _DATE)
    # TRUNC of a date to hours is NULL in Spark.
    if unit not in _DATE_UNITS:
        raise unsupported_error(node, NEEDS_SPARK)
    return call(f'pc.floor_temporal({{0}}, unit="{unit}")', _DATE, value)


def _truncate_time(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    """date_trunc(unit, instant); days and wall clocks become instants first, as Spark has it."""
    unit = _UNITS.get(node.args["unit"].name.upper())
    value = low.as_type(node.this, INSTANT)
    # An hour that comes twice has two beginnings in a zone with summer time.
    if unit is None or (unit not in (*_DATE_UNITS, "day") and not casts.is_utc(low.zone)):
        raise unsupported_error(node, NEEDS_SPARK)
    if casts.is_utc(low.zone):
        return call(f'pc.floor_temporal({{0}}, unit="{unit}")', INSTANT, value)
    clock_time = casts.wall_clock(low, value)
    # Cut on the wall clock: days begin at the midnight of the zone.
    floored = call(f'pc.floor_temporal({{0}}, unit="{unit}")', WALL_CLOCK, clock_time)
    return casts.from_wall_clock(low, floored)


def _to_date(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    return low.as_type(node.this, _DATE)


def _since(unit: str) -> Rule:
    def rule(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
        value = low.lower(node.this)
        if value.type not in (INSTANT, WALL_CLOCK):
            raise unsupported_error(node, NEEDS_SPARK)
        value = low.cast(value, INSTANT, node)
        return call(f'scalar.units_since_epoch({{0}}, "{unit}")', pa.int64(), value)

    return rule


_MAKE: Final = "scalar.make_date({0}, {1}, {2}, {sql})"
ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(exp.TsOrDsToDate, ("to_date(w)", "to_date('2020-2-3')"), _to_date, "safe"),
    entry(exp.Year, ("year(d)", "year(n)", "year(w)", "year('2020-02-29')"), _part("YEAR")),
    entry(exp.Quarter, "quarter(d)", _part("QUARTER")),
    entry(exp.Month, ("month(d)", "month(n)"), _part("MONTH")),
    entry(exp.WeekOfYear, "weekofyear(d)", _part("WEEK")),
    entry((exp.Day, exp.DayOfMonth), ("day(d)", "dayofmonth(n)"), _part("DAY")),
    entry(exp.DayOfYear, "dayofyear(d)", _part("DOY")),
    entry(
        exp.DayOfWeek,
        "dayofweek(d)",
        kernel(
            "pc.cast(pc.day_of_week({0}, count_from_zero=False, week_start=7), pa.int32())",
            _INT,
            CLOCK,
        ),
    ),
    entry("weekday", "weekday(d)", kernel("pc.cast(pc.day_of_week({0}), pa.int32())", _INT, CLOCK)),
    entry(exp.Hour, ("hour(n)", "hour(w)", "hour(h)", "hour('2020-02-29 12:30')"), _part("HOUR")),
    entry(exp.Minute, ("minute(n)", "minute(h)"), _part("MINUTE")),
    entry(exp.Second, ("second(n)", "second(h)"), _part("SECOND")),
    entry(
        exp.Extract,
        (
            *(
                "EXTRACT(YEAR FROM d)",
                "EXTRACT(HOUR FROM w)",
                "EXTRACT(SECOND FROM n)",
                "EXTRACT(SECOND FROM h)",
            ),
            *("EXTRACT(DOW FROM d)", "EXTRACT(DOW_ISO FROM n)", "EXTRACT(YEAROFWEEK FROM u)"),
        ),
        _extract,
    ),
    entry(
        ("date_part", "datepart"),
        ("date_part('doy', d)", "datepart('SECONDS', w)", "date_part('week', '2020-02-29')"),
        _date_part,
    ),
    entry(
        exp.TsOrDsAdd, ("date_add(d, 30)", "date_sub(d, 2)", "date_sub(d, b)"), _date_add, "unit"
    ),
    entry(
        exp.DateDiff,
        "datediff(d, u)",
        kernel("scalar.days_between({0}, {1})", _INT, _DATE, _DATE),
    ),
    entry(
        exp.AddMonths,
        ("add_months(d, 1)", "add_months(d, b)"),
        kernel("scalar.add_months({0}, {1})", _DATE, _DATE, _INT),
    ),
    entry(exp.LastDay, "last_day(d)", kernel("scalar.last_day({0})", _DATE, _DATE)),
    entry(
        "make_date", "make_date(2020, 2, 29)", kernel(_MAKE, _DATE, _INT, _INT, _INT, raises=True)
    ),
    entry(
        exp.DateTrunc,
        ("trunc(d, 'MM')", "trunc(d, 'week')", "trunc(u, 'QUARTER')"),
        _truncate,
        "unit",
    ),
    entry(
        exp.TimestampTrunc,
        (
            *("date_trunc('month', w)", "date_trunc('hour', w)", "date_trunc('WEEK', w)"),
            *("date_trunc('hour', n)", "date_trunc('YEAR', d)"),
        ),
        _truncate_time,
        "unit",
    ),
    entry(exp.UnixDate, "unix_date(d)", kernel("pc.cast({0}, pa.int32())", _INT, _DATE)),
    entry(
        exp.DateFromUnixDate,
        "date_from_unix_date(i % 1000)",
        kernel("pc.cast({0}, pa.date32())", _DATE, _INT),
    ),
    entry(exp.UnixSeconds, ("unix_seconds(w)", "unix_seconds(n)"), _since("s")),
    entry(exp.UnixMillis, "unix_millis(w)", _since("ms")),
    entry(exp.UnixMicros, "unix_micros(w)", _since("us")),
)
_CUTS: Final = (("n", "1"), ("n", "0.001"), ("w", "0.1"), ("w", "0.0001"))
"""Times that are cut off, as CAST AS TIMESTAMP(p) does, each with the last digit that stays."""
SHIFTS: Final = (
    *("d + 7", "d - b", "d + INTERVAL 1 DAY", "d - INTERVAL '1' MONTH", "d + INTERVAL 2 YEARS"),
    *("n + INTERVAL '3' HOUR", "w - INTERVAL 1 DAY", "n - INTERVAL 90 SECONDS"),
    *(
        f"{time} - MAKE_DT_INTERVAL(0, 0, 0, EXTRACT(SECOND FROM {time}) % {step})"
        for time, step in _CUTS
    ),
)
