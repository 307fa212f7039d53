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

    df: streaming or batch. function, arguments, group_by, columns, where: as of `flat_aggregate_sql`. options: the
    other keywords of `sql`. Raises SpecError and its kin.

    Example:
        >>> import aggloom as al
        >>> @al.table_aggregate("HIGHEST", arguments={"v": "INT"}, columns={"value": "INT"})
        ... class Highest:
        ...     def create():
        ...         return []
        ...     def accumulate(state, v):
        ...         state.append(v)
        ...     def rows(state):
        ...         return sorted(state)[-2:]
        >>> spark = al.session()
        >>> sales = spark.createDataFrame([("a", 3)], "shop STRING, n INT")
        >>> al.flat_aggregate(sales, "HIGHEST", "n", group_by="shop").columns
        ['shop', 'value', '_change_type']
        >>> al.unregister("HIGHEST")
    """
    query = flat_aggregate_sql(function, arguments, group_by=group_by, columns=columns, where=where)
    return sql(query, tables={"t": df}, **options)
