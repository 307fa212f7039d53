"""`join`: two DataFrames of rows or of changes in, the changelog of their join out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from aggloom.codegen import join_sql
from aggloom.runtime.spark.api.query import sql


def join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str] = (),
    *,
    condition: str | None = None,
    how: str = "inner",
    select: str | Sequence[str] = "*",
    ttl: tuple[str | None, str | None] = (None, None),
    **options: Any,
) -> DataFrame:
    """The join of two DataFrames, which are `l` and `r` in SQL, as a changelog.

    `join(orders, customers, "customer", how="left")`, or `join(a, b, condition="l.id = r.id AND l.at >= r.since")`. See
    `join_sql` for what each says, and `sql` for the other keywords, of which `keys={"r": ["customer"]}` makes the state
    small. Streaming and batch DataFrames.
    """
    query = join_sql(on, condition=condition, how=how, select=select, ttl=ttl)
    return sql(query, tables={"l": left, "r": right}, **options)
