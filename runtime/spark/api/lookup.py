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

    `lookup(orders, al.lookup_table("shop INT, city STRING", connect=..., table="shops"), "shop")`. The table may be a
    batch DataFrame as well. See `lookup_sql` for what each says, and `sql` for the other keywords.
    """
    query = lookup_sql(on, condition=condition, how=how, select=select)
    return sql(query, tables={"l": df}, lookups={"r": table}, **options)
