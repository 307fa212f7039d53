"""`lookup`: rows or changes of a DataFrame in, and out each with what a table says to it when it comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from aggloom.codegen import LookupTable, lookup_sql
from aggloom.runtime.spark.api.query import sql


def lookup(
    df: DataFrame,
    table: LookupTable | DataFrame,
    on: str | Sequence[str] = (),
    *,
    condition: str | None = None,
    how: str = "left",
    select: str | Sequence[str] = "*",
    **options: Any,
) -> DataFrame:
    """The rows of a DataFrame, which is `l` in SQL, with those of a table, `r`, as it is when they come; a changelog.

    df: streaming or batch. table: what `lookup_table` gives, or a batch DataFrame. on, condition, how, select: as of
    `lookup_sql`. options: the other keywords of `sql`. Raises SpecError and its kin.

    Example:
        >>> import aggloom as al
        >>> spark = al.session()
        >>> orders = spark.createDataFrame([(7, 2)], "id INT, shop INT")
        >>> shops = al.lookup_table("shop INT, city STRING", rows=[(2, "Köln")], key="shop")
        >>> al.lookup(orders, shops, "shop", change_column=None).columns
        ['shop', 'id', 'city', '_change_type']
    """
    query = lookup_sql(on, condition=condition, how=how, select=select)
    return sql(query, tables={"l": df}, lookups={"r": table}, **options)
