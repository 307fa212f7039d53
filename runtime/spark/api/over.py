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

    df: streaming or batch. calls, partition_by, order_by, frame: as of `over_sql`. options: the other keywords of
    `sql`. Raises SpecError and its kin.

    Example:
        >>> import aggloom as al
        >>> spark = al.session()
        >>> sales = spark.createDataFrame([("a", 1, 3)], "shop STRING, day INT, n INT")
        >>> al.over(sales, {"total": "SUM(n)"}, partition_by="shop", order_by="day").columns
        ['shop', 'day', 'n', 'total', '_change_type']
    """
    query = over_sql(calls, partition_by=partition_by, order_by=order_by, frame=frame)
    return sql(query, tables={"t": df}, **options)
