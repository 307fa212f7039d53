"""`asof_join`: each row of a DataFrame with one row of another, the nearest or the version of its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from aggloom.codegen import asof_join_sql
from aggloom.runtime.spark.api.query import sql


def asof_join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str] = (),
    *,
    match: str | None = None,
    as_of: str | None = None,
    how: str = "inner",
    select: str | Sequence[str] = "*",
    **options: Any,
) -> DataFrame:
    """The rows of a DataFrame, each with one row of another, as a changelog; they are `l` and `r` in SQL.

    `asof_join(trades, quotes, "symbol", match="l.t >= r.t")` gives the last quote before each trade, and corrects it;
    `asof_join(orders, rates, "currency", as_of="l.at", keys={"r": ["currency"]})` the rate that held then, once the
    watermark has passed. See `asof_join_sql` for what each says, and `sql` for the other keywords.
    """
    query = asof_join_sql(on, match=match, as_of=as_of, how=how, select=select)
    return sql(query, tables={"l": left, "r": right}, **options)
