"""The column with the names of the columns that an upsert leaves unchanged."""

from __future__ import annotations

import pyarrow as pa

ABSENT = "_absent_columns"
"""Its name. Its values: a JSON list of names, or NULL for a row with all columns."""

WHOLE_IMAGES = (
    "send full row images (MySQL: binlog_row_image=FULL; Oracle GoldenGate: ADD TRANDATA .. ALLCOLS; PostgreSQL: "
    "REPLICA IDENTITY FULL)"
)
"""The advice where a source should not leave columns out."""


def with_absent(columns: pa.Schema) -> pa.Schema:
    """The columns, followed by the one with the names of absent ones."""
    return columns.append(pa.field(ABSENT, pa.string()))


def without_absent(columns: pa.Schema) -> pa.Schema:
    """The columns of a table's rows alone."""
    return pa.schema([field for field in columns if field.name != ABSENT])
