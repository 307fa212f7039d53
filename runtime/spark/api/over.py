"""`over`: a DataFrame of rows or of changes in, the changelog of its rows with window functions beside them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from aggloom.codegen import over_sql
from aggloom.runtime.spark.api.query import sql


def over(
    df: DataFrame,
    calls: Mapping[str, str],
    *,
    partition_by: str | Sequence[str] = (),
    order_by: str | Sequence[str] = (),
    frame: str | None = None,
    **options: Any,
) -> DataFrame:
    """The rows with the values of window functions in new columns, as a changelog.

    `over(df, {"total": "SUM(amount)"}, partition_by="account", order_by="at", frame="ROWS 9 PRECEDING")`. See
    `over_sql` for what each says, and `sql` for the other keywords. Streaming and batch DataFrames.
    """
    query = over_sql(calls, partition_by=partition_by, order_by=order_by, frame=frame)
    return sql(query, tables={"t": df}, **options)
