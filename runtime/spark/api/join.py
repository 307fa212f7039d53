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
    ttl: tuple[int | str | None, int | str | None] = (None, None),
    **options: Any,
) -> DataFrame:
    """The join of two DataFrames, which are `l` and `r` in SQL, as a changelog.

    left, right: streaming or batch. on, condition, how, select, ttl: as of `join_sql`. options: the other keywords of
    `sql`, of which `keys={"r": ["customer"]}` makes the state small. Raises SpecError and its kin.

    Example:
        >>> import aggloom as al
        >>> spark = al.session()
        >>> orders = spark.createDataFrame([(7, 1)], "id INT, customer INT")
        >>> customers = spark.createDataFrame([(1, "Ada")], "customer INT, name STRING")
        >>> al.join(orders, customers, "customer", how="left", keys={"r": "customer"}).columns
        ['customer', 'id', 'name', '_change_type']
    """
    query = join_sql(on, condition=condition, how=how, select=select, ttl=ttl)
    return sql(query, tables={"l": left, "r": right}, **options)
