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
    """Which of the rows of key columns are the key."""
    found = np.ones(rows, np.bool_)
    for column, wanted in zip(columns, key.columns, strict=True):
        found &= _equal(column, wanted[0])
    return found


def _equal(column: pa.Array, wanted: pa.Scalar) -> Array:
    if not wanted.is_valid:
        return ~validity(column)
    if is_nested(column.type):
        value = wanted.as_py()
        return np.array([each == value for each in column.to_pylist()], np.bool_)
    if pa.types.is_floating(column.type) and wanted.as_py() != wanted.as_py():
        same = pc.is_nan(column)
    else:
        same = pc.equal(column, wanted)
    return truths(pc.fill_null(same, False))
