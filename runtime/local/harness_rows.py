"""The rows that a user feeds a harness, as a record batch with its kinds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from aggloom.codegen.planner import Scan
from aggloom.errors import DataError
from aggloom.runtime.formats.time_digits import cut_times
from aggloom.runtime.handlers.columns import rows_to_batch
from aggloom.runtime.local.arrow_rows import arrow_rows
from aggloom.runtime.local.dict_rows import are_dicts, rows_of_dicts
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.changelog import KIND_NAMES, Kinds, parse_kinds
from aggloom.runtime.values.columns import to_python
from aggloom.runtime.values.type_fit import plain_type


def scanned_rows(rows: Any, kinds: Kinds | None, scan: Scan) -> tuple[pa.RecordBatch, Array]:
    """Return `read_rows` of a table, its times with the digits that are declared."""
    batch, codes = read_rows(rows, kinds, scan.schema)
    return cut_times(batch, scan.digits), codes


def read_rows(rows: Any, kinds: Kinds | None, schema: pa.Schema) -> tuple[pa.RecordBatch, Array]:
    """(kind, value, ...) tuples, dicts, or a table of Arrow or pandas with its kinds (default: by its change column).

    Raises DataError naming the first row that is none, TypeMismatchError for values of another type.
    """
    if is_table(rows):
        return arrow_rows(to_arrow(rows), kinds, schema, "process")
    if kinds is not None:
        raise DataError(
            "process: kinds go with Arrow's rows; tuples begin with theirs, dicts have it as 'op'"
        )
    if are_dicts(rows):
        rows = rows_of_dicts(rows, schema.names)
    # Before anything is converted: Arrow's own error would not say which row it is.
    _refuse_no_rows(rows, schema.names)
    codes = parse_kinds(pa.array([row[0] for row in rows], pa.string()), "harness rows")
    return rows_to_batch([tuple(row[1:]) for row in rows], schema), codes


def is_table(rows: Any) -> bool:
    """Tell whether an object is a table: of Arrow, pandas, Polars, or another library with Arrow's interface."""
    return hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__")


def table_schema(table: Any) -> pa.Schema:
    """The columns of a table of Arrow as a query declares them, without those that say what a change is.

    Raises DataError for an object that is no table, and for a column without a type, as of NULLs alone.
    """
    if not isinstance(table, pa.RecordBatch | pa.Table):
        raise DataError(
            f"a {type(table).__name__} has no types; give schema=, such as 'name STRING, cnt INT'"
        )
    words = ChangeWords()
    fields = [
        field.with_type(plain_type(field.type))
        for field in table.schema
        if not words.says_change(field.name)
    ]
    for field in fields:
        if pa.types.is_null(field.type):
            raise DataError(
                f"column {field.name!r} has no type, as all of it is NULL; give schema="
            )
    return pa.schema(fields)


def to_arrow(rows: Any) -> pa.RecordBatch | pa.Table:
    """A table of pandas, or of another library, as Arrow's; raises DataError."""
    if isinstance(rows, pa.RecordBatch | pa.Table):
        return rows
    try:
        return pa.table(rows)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"process: rows cannot be read as Arrow's: {error}") from None


def _refuse_no_rows(rows: Any, names: list[str]) -> None:
    """Raise DataError, naming the first row that is none, unless each is a kind with values."""
    if not isinstance(rows, list | tuple):
        raise DataError(
            f"process: rows is a {type(rows).__name__}; give a list of (kind, value, ...) tuples or of dicts, or a "
            "table of Arrow or pandas"
        )
    form = ", ".join(["'+I'", *names])
    for number, row in enumerate(rows):
        # None is let through as a kind, for whose absence `parse_kinds` has an error of its own.
        if not isinstance(row, list | tuple) or not row or not isinstance(row[0], str | None):
            raise DataError(
                f"process: row {number} is {row!r:.200}; a row is its kind of change, then its values in the table's "
                f"order, such as ({form})"
            )


def change_tuples(rows: Rows) -> list[tuple[Any, ...]]:
    """Return changes as (kind, value, ...) tuples, the kinds in Flink's short words."""
    batch, kinds = rows
    names = [KIND_NAMES[k] for k in kinds]
    # A result without columns has rows, of which only the kinds are left.
    if not batch.num_columns:
        return [(name,) for name in names]
    return list(zip(names, *to_python(batch), strict=True))
