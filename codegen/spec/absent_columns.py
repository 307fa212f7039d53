"""The column in which an upsert names the columns that it leaves out, so that they keep their values."""

from __future__ import annotations

import pyarrow as pa

ABSENT = "_absent_columns"
"""Its name: a JSON list of names as a text, or NULL of a row that has all columns."""

WHOLE_IMAGES = (
    "send full row images (MySQL: binlog_row_image=FULL; Oracle GoldenGate: ADD TRANDATA .. ALLCOLS; PostgreSQL: "
    "REPLICA IDENTITY FULL)"
)
"""The advice where a source should not leave columns out."""


def with_absent(columns: pa.Schema) -> pa.Schema:
    """The columns, and after them the one that says which of them a row leaves out."""
    return columns.append(pa.field(ABSENT, pa.string()))


def without_absent(columns: pa.Schema) -> pa.Schema:
    """The columns of a table's rows alone."""
    return pa.schema([field for field in columns if field.name != ABSENT])
