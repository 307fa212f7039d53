"""`rank`: a DataFrame of rows or of changes in, the changelog of its first rows by key out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from aggloom.codegen import rank_sql
from aggloom.runtime.spark.api.query import sql


def rank(
    df: DataFrame,
    *,
    order_by: str | Sequence[str],
    last: int | str,
    partition_by: str | Sequence[str] = (),
    first: int = 1,
    function: str = "ROW_NUMBER",
    number: str | None = None,
    **options: Any,
) -> DataFrame:
    """The rows of each key whose number in an order is from `first` to `last`, as a changelog.

    `rank(df, partition_by="category", order_by="sales DESC", last=10, number="place")`. See `rank_sql` for what each
    says, and `sql` for the other keywords. Streaming and batch DataFrames.
    """
    query = rank_sql(
        order_by=order_by,
        last=last,
        partition_by=partition_by,
        first=first,
        function=function,
        number=number,
    )
    return sql(query, tables={"t": df}, **options)
