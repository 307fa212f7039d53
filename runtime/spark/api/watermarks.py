"""Watermarks of DataFrames: the time that they go by, and queries that wait for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import TimestampNTZType

from aggloom.codegen import (
    columns_of,
    infer_type,
    is_expression,
    lower_calc,
    milliseconds,
    quicken_expression,
    quoted_text,
    spell_zone,
    to_schema,
)
from aggloom.codegen.planner import Plan, walk
from aggloom.errors import OptionError, SpecError, UnknownColumnError, nearest
from aggloom.runtime.connectors.files.source_log import same_files
from aggloom.runtime.connectors.kafka.topics import same_topics
from aggloom.runtime.spark.node.packed_counts import EventTime
from aggloom.runtime.spark.plan.column_frames import InputTable
from aggloom.runtime.spark.plan.expressions import is_ansi, quote, refusals, unused_name
from aggloom.runtime.spark.read.files import remember_watermark

_DELAY = "spark.watermarkDelayMs"
_TIME = "event time"


def add_watermark(
    df: DataFrame, change_column: str | None, watermark_of: tuple[str, Any] | None
) -> InputTable:
    """A DataFrame with a watermark (its column, and how far rows may be out of order).

    Raises UnknownColumnError, OptionError for what is no duration, and SpecError if it has another one already.
    """
    own = next((f.name for f in df.schema.fields if _DELAY in (f.metadata or {})), None)
    if watermark_of is None:
        return InputTable(df, change_column, own)
    if (
        isinstance(watermark_of, str)
        or not isinstance(watermark_of, Sequence)
        or len(watermark_of) != 2
    ):
        raise OptionError(
            f"watermark is {watermark_of!r}; give the column, and how far rows may be out of order: ('ts', '5 s')"
        )
    column, delay = watermark_of
    computed = is_expression(column, df.columns)
    if not computed and column not in df.columns:
        raise UnknownColumnError(
            f"watermark: there is no column {column!r}. {nearest(column, df.columns)}"
        )
    if own is not None:
        raise SpecError(
            f"watermark: the DataFrame has one already, on {own!r}, and Spark allows one; take withWatermark out, "
            "or do not give watermark"
        )
    ms = milliseconds("watermark", delay)
    if ms < 0:
        raise OptionError(f"watermark is {delay!r}; rows are late by 0 or more")
    timed, time = df, column
    if computed:
        column = unused_name(_TIME, df.columns)
        with refusals(f"watermark {time}"):
            timed = df.withColumn(column, F.expr(quicken_expression(quoted_text(time))))
    if isinstance(timed.schema[column].dataType, TimestampNTZType):
        # Spark's watermarks are of instants: a wall clock is taken for that of UTC, as windows take it.
        instant = f"CAST(convert_timezone('UTC', current_timezone(), `{column}`) AS TIMESTAMP)"
        column = unused_name(_TIME, timed.columns)
        timed = timed.withColumn(column, F.expr(instant))
    delay = f"{ms} milliseconds"
    # The helping column goes, and the watermark stays: it is a step of the plan below.
    moving = timed.withWatermark(quote(column), delay).select(*map(quote, df.columns))
    event_time = _event_time(df, time, delay)
    if event_time is not None:
        remember_watermark(df, moving, event_time)
    return InputTable(same_topics(df, same_files(df, moving)), change_column, time)


def _event_time(df: DataFrame, time: str, delay: str) -> EventTime | None:
    """The event time that workers find where they pack rows; None of an expression that only Spark evaluates."""
    if not is_expression(time, df.columns):
        return EventTime((time,), delay)
    # Expressions that workers compute have the meaning of ANSI mode, whatever the session says.
    if not is_ansi(df.sparkSession):
        return None
    columns = columns_of(time)
    schema = to_schema(df)
    rows = pa.schema([schema.field(name) for name in columns if name in schema.names])
    zone = spell_zone(str(df.sparkSession.conf.get("spark.sql.session.timeZone")))
    try:
        result = pa.schema([(_TIME, infer_type(time, rows))])
        calc = lower_calc(None, ((_TIME, time),), result, rows, zone=zone)
    except SpecError:
        return None
    return EventTime(tuple(columns), delay, calc)


def require_watermarks(plan: Plan, tables: Mapping[str, InputTable]) -> None:
    """Raise SpecError if an operator waits for the watermark of a stream, and none of its rows can move it."""
    for node in walk(plan.root):
        if not node.awaits_watermark:
            continue
        for scan in (each for each in walk(node) if hasattr(each, "table")):
            table = tables[scan.table]
            if table.df.isStreaming and not table.has_watermark:
                raise SpecError(
                    f"table {scan.table}: windows and first rows in event time need a watermark; call "
                    "df.withWatermark('ts', '10 minutes') before, or give watermark=...."
                )
