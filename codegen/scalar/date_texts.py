"""Dates and times as texts by a pattern, and read from texts."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.casts import from_wall_clock, is_utc
from aggloom.codegen.scalar.entry import CLOCK, clock, entry, kernel, literal_text
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, quoted
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.scalar.time_patterns import reader_of, template_of
from aggloom.codegen.spec.dtypes import INSTANT, WALL_CLOCK

_DATE: Final = pa.date32()
_TEXT: Final = pa.string()
_USUAL: Final = "yyyy-MM-dd HH:mm:ss"


def _date_format(low: ExpressionLowering, node: exp.TimeToStr) -> LoweredExpression:
    # sqlglot puts a cast around the time, of which Spark knows nothing.
    operand = node.this.this if isinstance(node.this, exp.TimeStrToTime) else node.this
    return _write(low, node, _clock_or_text(low, operand), literal_text(node.args["format"], node))


def _to_char(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """TO_CHAR of a date or a timestamp; of numbers it has patterns of its own."""
    operand, pattern = node.expressions
    if low.lower(operand).type not in (_DATE, INSTANT, WALL_CLOCK):
        raise unsupported_error(node, NEEDS_SPARK)
    return _write(low, node, clock(low, operand), literal_text(pattern, node))


def _from_unixtime(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    seconds, *pattern = node.expressions
    number = low.as_type(seconds, pa.int64())
    instant = call(
        'pc.cast(pc.cast({0}, pa.timestamp("s")), pa.timestamp("us", "UTC"))', INSTANT, number
    )
    value = low.cast(instant, WALL_CLOCK, node)
    return _write(low, node, value, literal_text(pattern[0], node) if pattern else _USUAL)


def _write(
    low: ExpressionLowering, node: exp.Expression, value: LoweredExpression, pattern: str
) -> LoweredExpression:
    # The finest unit says to which part times are rounded down before they are written.
    template, unit = template_of(pattern, node, is_utc(low.zone))
    text = "scalar.date_format({0}, {template}, {unit})"
    return call(text, _TEXT, value, template=quoted(template), unit=quoted(unit))


def _clock_or_text(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    """A wall clock's time; of a text, that which it says."""
    value = low.lower(node)
    if value.type != _TEXT:
        return clock(low, node)
    return low.cast(low.cast(value, INSTANT, node), WALL_CLOCK, node)


def _lower_reader(dtype: pa.DataType, tries: bool = False) -> Rule:
    """TO_DATE, TO_TIMESTAMP and their kin: a text by a pattern, or anything by a cast."""

    def rule(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
        operand, *pattern = _check_given(node)
        value = low.lower(operand)
        # Without a pattern Spark casts, by rules that are more lenient than any pattern.
        if not pattern or value.type != _TEXT:
            kind = exp.TryCast if tries else exp.Cast
            name = {_DATE: "DATE", WALL_CLOCK: "TIMESTAMP_NTZ"}.get(dtype, "TIMESTAMP")
            return low.lower(
                kind(this=operand.copy(), to=exp.DataType.build(name, "spark"), safe=tries)
            )
        read = _read(low, node, value, literal_text(pattern[0], node), tries, dtype == WALL_CLOCK)
        if dtype == INSTANT:
            return from_wall_clock(low, read)
        return low.cast(read, dtype, node)

    return rule


def _check_given(node: exp.Expression) -> list[exp.Expression]:
    if isinstance(node, exp.StrToTime):
        return [node.this, node.args["format"]]
    return list(node.expressions)


def _read(
    low: ExpressionLowering,
    node: exp.Expression,
    value: LoweredExpression,
    pattern: str,
    tries: bool,
    local: bool = False,
) -> LoweredExpression:
    reader = reader_of(pattern, node)
    # An offset says the instant, which a wall clock has not.
    if "<offset>" in reader and (local or not is_utc(low.zone)):
        raise unsupported_error(node, NEEDS_SPARK)
    if tries:
        return call(
            "scalar.try_parse_times({0}, {reader})", WALL_CLOCK, value, reader=quoted(reader)
        )
    text = "scalar.parse_times({0}, {reader}, {sql})"
    sql = quoted(spark_text(node))
    return call(text, WALL_CLOCK, value, reader=quoted(reader), sql=sql, raises=True)


def _unix_timestamp(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """Seconds since 1970 of a text by a pattern, of a date, or of a timestamp."""
    if not node.expressions:
        raise unsupported_error(node, NEEDS_SPARK)
    operand, *pattern = node.expressions
    value = low.lower(operand)
    if value.type == _TEXT:
        read = _read(low, node, value, literal_text(pattern[0], node) if pattern else _USUAL, False)
        # A text is on the clocks of the session's zone.
        value = from_wall_clock(low, read)
    # Arrow divides integers toward zero, as Spark does here: before 1970, too.
    text = "pc.divide(pc.cast({0}, pa.int64()), pa.scalar(1000000))"
    return call(text, pa.int64(), low.cast(value, INSTANT, node))


_READ: Final = (
    *("to_timestamp('29.02.2020 1:02', 'dd.MM.yyyy H:mm')", "to_timestamp('2020-02', 'yyyy-MM')"),
    *(
        "to_timestamp('Feb 9 20 11:30 PM', 'MMM d yy hh:mm a')",
        "to_timestamp('2020-060', 'yyyy-DDD')",
    ),
    *("to_timestamp('20200229T010203.25Z', \"yyyyMMdd'T'HHmmss.SSSX\")", "to_timestamp(d, 'yyyy')"),
    *("to_timestamp('2020-02-29', 'yyyy-MM-dd[ HH:mm]')",),
)
ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        exp.TimeToStr,
        (
            "date_format(w, 'yyyy-MM-dd')",
            "date_format(n, 'HH:mm')",
            "date_format(d, \"yyyy/MM/dd'T'HH.mm.ss\")",
            "date_format(n, 'EEEE, d MMMM y, h:mm a')",
            "date_format(w, 'E D DDD Q QQQ MMM yy S SSS SSSSSSSSS XXX')",
            "date_format('2020-02-29 23:59', 'k K hh L')",
        ),
        _date_format,
        "format",
    ),
    entry(("to_char", "to_varchar"), ("to_char(d, 'MMM yy')", "to_varchar(w, 'HH:mm')"), _to_char),
    entry(
        "from_unixtime",
        ("from_unixtime(i)", "from_unixtime(l % 100000000000, 'dd.MM.yyyy')"),
        _from_unixtime,
    ),
    entry(exp.StrToTime, _READ, _lower_reader(INSTANT), "format"),
    entry(
        "to_date",
        ("to_date('29/02/2020', 'dd/MM/yyyy')", "to_date(w, 'yyyy')"),
        _lower_reader(_DATE),
    ),
    entry(
        "to_timestamp_ltz",
        ("to_timestamp_ltz('2020-02-29')", "to_timestamp_ltz('2020-02', 'yyyy-MM')"),
        _lower_reader(INSTANT),
    ),
    entry(
        "to_timestamp_ntz",
        ("to_timestamp_ntz('2020-02-29 1:02')", "to_timestamp_ntz('28.2.', 'd.M.')"),
        _lower_reader(WALL_CLOCK),
    ),
    entry(
        ("try_to_timestamp", "try_to_date"),
        (
            *("try_to_timestamp(s)", "try_to_timestamp('2020-02-30', 'yyyy-MM-dd')"),
            *(
                "try_to_timestamp(s, 'yyyy')",
                "try_to_date(t)",
                "try_to_date('29.2.2020', 'd.M.yyyy')",
            ),
        ),
        lambda low, node: _lower_reader(_DATE if "date" in node.name.lower() else INSTANT, True)(
            low, node
        ),
    ),
    entry(
        ("unix_timestamp", "to_unix_timestamp"),
        (
            *("unix_timestamp('2020-02-29 01:02:03')", "unix_timestamp('2020', 'yyyy')"),
            *("unix_timestamp(w)", "to_unix_timestamp(d)", "to_unix_timestamp('2.2020', 'M.yyyy')"),
        ),
        _unix_timestamp,
    ),
    entry("dayname", "dayname(d)", kernel("scalar.short_weekday({0})", _TEXT, CLOCK)),
    entry("monthname", "monthname(n)", kernel("scalar.short_month({0})", _TEXT, CLOCK)),
)
