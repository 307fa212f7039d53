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

    df: streaming or batch. order_by, last, partition_by, first, function, number: as of `rank_sql`. options: the other
    keywords of `sql`. Raises SpecError and its kin.

    Example:
        >>> import aggloom as al
        >>> spark = al.session()
        >>> sales = spark.createDataFrame([("a", 3)], "shop STRING, n INT")
        >>> al.rank(sales, partition_by="shop", order_by="n DESC", last=3, number="place").columns
        ['shop', 'n', 'place', '_change_type']
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
