"""`window_aggregate`: a DataFrame of rows or of changes in, the changelog of its aggregates in windows out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import TimestampNTZType

from aggloom.codegen import (
    MODES,
    AggSpec,
    Backend,
    is_expression,
    milliseconds,
    quicken_expression,
    quoted_text,
)
from aggloom.codegen.planner import Plan, PlanOptions, plan_windows, walk
from aggloom.codegen.windows import Assigner, Evictor, Trigger, Windowing
from aggloom.errors import OptionError, SpecError, UnknownColumnError, nearest
from aggloom.runtime.connectors.files.source_log import same_files
from aggloom.runtime.connectors.kafka.topics import same_topics
from aggloom.runtime.local.handler_choice import window_handler
from aggloom.runtime.spark.api.group_aggregate import (
    check_frame,
    check_host_settings,
    find_change_column,
    handler_text,
)
from aggloom.runtime.spark.plan.column_frames import InputTable
from aggloom.runtime.spark.plan.expressions import quote, refusals, unused_name
from aggloom.runtime.spark.plan.lower import LATE_ROW, SparkLowering
from aggloom.runtime.spark.read.files import remember_watermark
from aggloom.runtime.spark.sessions.session import ensure_query_settings

_DELAY = "spark.watermarkDelayMs"
_TIME = "event time"


def window_aggregate(
    df: DataFrame,
    spec: AggSpec,
    *,
    window: Assigner | Windowing,
    trigger: Trigger | None = None,
    evictor: Evictor | None = None,
    allowed_lateness: Any = 0,
    late_rows: bool = False,
    watermark: Any = None,
    handler: type[Any] | str | Path | None = None,
    backend: Backend = "numba",
    change_column: str | None = "",
    buckets: int | None = None,
    mode: str = "mini_batch",
    update_before: bool = True,
    on_orphan_retraction: str = "drop",
    output_profile: str = "spark",
    state_directory: str | Path | None = None,
    state_limit: str | int | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The changelog of a spec's calls in windows: its keys, window_start, window_end, window_time, its calls.

    window: an assigner such as Tumble("1 hour", on="ts"), or a whole Windowing. watermark: by how much rows of a stream
    may be out of order, such as "10 minutes"; without it, what `df.withWatermark` said. handler: the class to run, or
    its module's path, made from `window_spec` (default: generated). late_rows: rows that come too late are among the
    changes, in the column late_row; `on_time` and `late_rows` tell them apart, in foreachBatch for instance. The rest
    is as in `group_aggregate`. Raises SpecError and its kin.
    """
    if mode not in MODES:
        raise SpecError(f"mode {mode!r}: known are {' and '.join(MODES)}")
    check_frame("window_aggregate", df)
    windowing = Windowing.of(window, trigger, evictor, allowed_lateness, late_rows)
    if windowing is None or not isinstance(spec, AggSpec):
        raise SpecError(
            "window_aggregate: give an AggSpec, and a window such as Tumble('1 hour', on='ts')"
        )
    if change_column == "":
        change_column = find_change_column(df, spec.schema.names)
    if change_column is not None and change_column not in df.columns:
        raise UnknownColumnError(
            f"the DataFrame has no change column {change_column!r}. {nearest(change_column, df.columns)}"
        )
    chosen = PlanOptions.of(
        options or {},
        mini_batch_enabled=mode == "mini_batch",
        update_before=update_before,
        on_orphan_retraction=on_orphan_retraction,
    )
    plan = plan_windows(spec, windowing, options=chosen, inserts_only=change_column is None)
    on = windowing.assigner.columns[0] if windowing.assigner.event_time else None
    asked = None if watermark is None or on is None else (on, watermark)
    table = add_watermark(df, change_column, asked)
    require_watermarks(plan, {"t": table})
    text = handler_text(window_handler(plan, handler, backend))
    settings = check_host_settings(buckets, output_profile, state_directory, state_limit)
    ensure_query_settings(df.sparkSession, timers=on is None, watermarks=on is not None)
    return SparkLowering(plan, {"t": table}, lambda _: text, settings).result()


def add_watermark(
    df: DataFrame, change_column: str | None, asked: tuple[str, Any] | None
) -> InputTable:
    """A DataFrame with the watermark that is asked for (its column, and how far rows may be out of order).

    Raises UnknownColumnError, OptionError for what is no duration, and SpecError if it has another one already.
    """
    own = next((f.name for f in df.schema.fields if _DELAY in (f.metadata or {})), None)
    if asked is None:
        return InputTable(df, change_column, own)
    if isinstance(asked, str) or not isinstance(asked, Sequence) or len(asked) != 2:
        raise OptionError(
            f"watermark is {asked!r}; give the column, and how far rows may be out of order: ('ts', '5 s')"
        )
    column, delay = asked
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
    moving = timed.withWatermark(quote(column), delay).select(*map(quote, df.columns))
    if not computed:
        remember_watermark(df, moving, time, delay)
    return InputTable(same_topics(df, same_files(df, moving)), change_column, time)


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


def on_time(changes: DataFrame) -> DataFrame:
    """The changes of windows that were asked for late_rows, without the rows that came too late."""
    _check_late("on_time", changes)
    return changes.where(F.col(LATE_ROW).isNull()).drop(LATE_ROW)


def late_rows(changes: DataFrame) -> DataFrame:
    """The rows that came too late for their windows, with their change column, of a result that has late_rows."""
    _check_late("late_rows", changes)
    kind = changes.columns[-1]
    word = F.regexp_replace(F.col(kind), "^late_", "").alias(kind)
    return changes.where(F.col(LATE_ROW).isNotNull()).select(f"{LATE_ROW}.*", word)


def _check_late(call: str, changes: Any) -> None:
    """Raise SpecError unless these are changes with the rows that came too late."""
    check_frame(call, changes)
    if LATE_ROW not in changes.columns:
        raise SpecError(f"{call}: there is no column {LATE_ROW!r}; ask for it: late_rows=True")
