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

    left, right: streaming or batch. on, match, as_of, how, select: as of `asof_join_sql`. options: the other keywords
    of `sql`. With `match` the row before each row is corrected when a nearer one comes; with `as_of` the version that
    was valid then is emitted once the watermark has passed. Raises SpecError and its kin.

    Example:
        >>> import aggloom as al
        >>> spark = al.session()
        >>> trades = spark.createDataFrame([], "symbol STRING, t INT")
        >>> quotes = spark.createDataFrame([], "symbol STRING, t INT, price INT")
        >>> al.asof_join(trades, quotes, "symbol", match="l.t >= r.t", select="symbol, l.t, price").columns
        ['symbol', 't', 'price', '_change_type']
    """
    query = asof_join_sql(on, match=match, as_of=as_of, how=how, select=select)
    return sql(query, tables={"l": left, "r": right}, **options)
