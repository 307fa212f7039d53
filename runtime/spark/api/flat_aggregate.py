"""`flat_aggregate`: a DataFrame of rows or of changes in, the changelog of the rows of a table aggregate out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from aggloom.codegen import flat_aggregate_sql
from aggloom.runtime.spark.api.query import sql


def flat_aggregate(
    df: DataFrame,
    function: str,
    arguments: str | Sequence[str] = (),
    *,
    group_by: str | Sequence[str] = (),
    columns: str | Sequence[str] = (),
    where: str | None = None,
    **options: Any,
) -> DataFrame:
    """The rows that a table aggregate emits for each key of a DataFrame, as a changelog.

    `flat_aggregate(df, "TOP2", "amount", group_by="customer", columns=("amount", "place"))`. See `flat_aggregate_sql`
    for what each says, and `sql` for the other keywords. Streaming and batch DataFrames.
    """
    query = flat_aggregate_sql(function, arguments, group_by=group_by, columns=columns, where=where)
    return sql(query, tables={"t": df}, **options)
