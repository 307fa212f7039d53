"""`deduplicate`: a DataFrame in, the changelog of one row of each key out. Streaming and batch alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import DataFrame

from aggloom.codegen import TableChanges
from aggloom.codegen.planner import PlanOptions, plan_deduplicate
from aggloom.errors import SpecError
from aggloom.runtime.hosting.handler_text import handler_texts
from aggloom.runtime.spark.api.inputs import check_frame, check_host_settings, columns_of, table_of
from aggloom.runtime.spark.api.watermarks import require_watermarks
from aggloom.runtime.spark.plan.expressions import use_analyser
from aggloom.runtime.spark.plan.lower import SparkLowering
from aggloom.runtime.spark.sessions.session import ensure_query_settings


def deduplicate(
    df: DataFrame,
    keys: str | Sequence[str],
    *,
    keep: Literal["first", "last"] = "last",
    order_by: str | None = None,
    insert_only: bool = False,
    watermark: tuple[str, Any] | None = None,
    change_column: str | None = "",
    input_changes: TableChanges | None = None,
    buckets: int | None = None,
    output_profile: str = "spark",
    state_directory: str | Path | None = None,
    state_limit: str | int | None = None,
    options: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> DataFrame:
    """The changelog of the first or last row of each key of a DataFrame, streaming or batch.

    df: rows or changes. keys: the columns of the key. keep: "first" or "last". order_by: the time column by which rows
    come first or last; by default the order in which they come. Of equal times the first keeps the earlier row, the
    last takes the later; NULL comes before every time. insert_only: the first row waits for the watermark and then
    stays, and rows behind the watermark are dropped and counted. watermark: the event-time column and how far rows may
    be out of order, unless `df.withWatermark` said so. input_changes: what the change column says, append, retract, or
    upsert: a row replaces the one before with these keys, and a deletion need not say more than them. Over rows that
    may be retracted all rows are kept, so that the next one takes the place of one that goes; of equal times the
    earlier row stays, as in a Top-N. change_column, buckets, output_profile, state_directory, state_limit: as of
    `sql`. options, keywords: the planner's, by Flink's names or as keywords (see PlanOptions). Raises SpecError and
    its kin.

    Example:
        >>> import aggloom as al
        >>> spark = al.session()
        >>> orders = spark.createDataFrame([("a", 3)], "shop STRING, n INT")
        >>> al.deduplicate(orders, "shop").columns
        ['shop', 'n', '_change_type']
    """
    check_frame("deduplicate", df, upserts=input_changes == "upsert")
    if insert_only and (keep != "first" or order_by is None):
        raise SpecError(
            "deduplicate: insert_only is of the first row by time; say keep='first' and order_by=..., "
            "or take insert_only out"
        )
    table = table_of("t", df, change_column, watermark)
    with use_analyser(df.sparkSession):
        plan = plan_deduplicate(
            columns_of(table),
            (keys,) if isinstance(keys, str) else keys,
            keep=keep,
            order_by=order_by,
            options=PlanOptions.of(options or {}, **keywords, deduplicate_insert_only=insert_only),
            input_changes=input_changes or ("append" if table.change_column is None else "retract"),
        )
    settings = check_host_settings(buckets, output_profile, state_directory, state_limit)
    require_watermarks(plan, {"t": table})
    awaits = plan.awaits_watermark
    ensure_query_settings(df.sparkSession, plan.forgets and not awaits, awaits)
    return SparkLowering(plan, {"t": table}, handler_texts("python"), settings).result()
