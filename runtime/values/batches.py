"""Batches of Arrow that know their number of rows even without a column."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def empty_columns(rows: int) -> pa.RecordBatch:
    """A batch of no columns that still has rows, as COUNT(*) without keys reads it."""
    # Arrow takes the number of rows from the columns, and would make no rows without any.
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def make_batch(columns: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Columns as a batch of a schema, cast where they have other types; without any it has so many rows."""
    if not columns:
        return empty_columns(rows)
    fitted = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(fitted, schema=schema)
