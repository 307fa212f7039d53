"""The rows that two tables of the same columns do not share, each as often as it is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.values.changelog import same_value
from aggloom.runtime.values.row_groups import first_places, row_groups
from aggloom.runtime.values.scalars import from_places


def row_difference(left: pa.Table, right: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows that only the left table has, and those that only the right one has; their order means nothing.

    A row that is there twice on one side and once on the other comes once. NULLs are equal, as NaNs are.

    Example:
        >>> left, right = (pa.table({"a": values}) for values in ([1, 2, 2], [2, 3]))
        >>> [part.column("a").to_pylist() for part in row_difference(left, right)]
        [[1, 2], [3]]
    """
    # Columns are numbered: two of them may have one name.
    names = [str(place) for place in range(left.num_columns)]
    both = pa.concat_tables(
        [each.rename_columns(names).replace_schema_metadata(None) for each in (left, right)]
    )
    # One numbering over both tables: a group's number means the same row on either side.
    groups = row_groups([comparable_values(column) for column in both.columns], both.num_rows)
    firsts = first_places(groups)
    sums = np.zeros(len(firsts), np.int64)
    # A row of the left counts 1, one of the right -1: what is left over is on the side of the sign.
    weights = np.where(np.arange(both.num_rows) < left.num_rows, 1, -1)
    np.add.at(sums, groups, weights)
    return _take(both, firsts, sums, left.schema), _take(both, firsts, -sums, right.schema)


def _take(both: pa.Table, firsts: Any, sums: Any, schema: pa.Schema) -> pa.Table:
    """The rows whose sum is above 0, as often as it says."""
    times = np.maximum(sums, 0)
    rows = both.take(from_places(np.repeat(firsts, times)))
    return rows.rename_columns(schema.names)


def comparable_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that Arrow can group by: for arrays, structs and maps, numbers that are equal where these are."""
    if not pa.types.is_nested(column.type):
        return column
    numbers: dict[Any, int] = {}
    # Python's values, since Arrow can neither group nor compare nested columns.
    marks = [numbers.setdefault(same_value(value), len(numbers)) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(marks, pa.int64())])
