"""Matching of key columns with a given key, by SQL's grouping: NULL is NULL, NaN is NaN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values.scalars import truths, validity
from aggloom.type_layout import is_nested


def match_key(columns: Sequence[pa.Array], key: pa.RecordBatch, rows: int) -> Array:
    """Return which of the rows of key columns have the key."""
    matches = np.ones(rows, np.bool_)
    for column, value_of_key in zip(columns, key.columns, strict=True):
        matches &= _equal(column, value_of_key[0])
    return matches


def _equal(column: pa.Array, value_of_key: pa.Scalar) -> Array:
    if not value_of_key.is_valid:
        return ~validity(column)
    if is_nested(column.type):
        value = value_of_key.as_py()
        return np.array([each == value for each in column.to_pylist()], np.bool_)
    # Only NaN differs from itself.
    if pa.types.is_floating(column.type) and value_of_key.as_py() != value_of_key.as_py():
        same = pc.is_nan(column)
    else:
        same = pc.equal(column, value_of_key)
    # A NULL is not the value, whatever comparing it gives.
    return truths(pc.fill_null(same, False))
