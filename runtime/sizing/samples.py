"""Samples of tables as users have them, Arrow, pandas or Spark, as batches of a schema with a row kind each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen import tables_read, to_schema, type_name
from aggloom.errors import (
    DataError,
    SpecError,
    TypeMismatchError,
    UnknownColumnError,
    UnknownTableError,
    nearest,
)
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.values.batches import empty_columns
from aggloom.runtime.values.changelog import CHANGE_COLUMNS, parse_kinds


def name_samples(sample: Any, query: str | list[str]) -> dict[str, Any]:
    """Samples by table name, as Arrow tables or as Spark has them; one alone is that of the only table."""
    if isinstance(sample, Mapping):
        return {str(name): _arrow(each, str(name)) for name, each in sample.items()}
    if not isinstance(query, str | list):
        raise SpecError(
            f"estimate: the query is a {type(query).__name__}; give SQL, or an AggSpec."
        )
    # A sample without a name belongs to the only table that there is.
    names = tables_read(query) if isinstance(query, str) else query
    if len(names) != 1:
        examples = ", ".join(f"{name!r}: ..." for name in names)
        raise SpecError(f"estimate: the query reads {len(names)} tables; give {{{examples}}}.")
    return {names[0]: _arrow(sample, names[0])}


def schema_of(table: pa.Table) -> pa.Schema:
    """The columns of a sample without that of its changes."""
    change = _change_column(table, [])
    # The column of changes is no column of the table.
    return to_schema(pa.schema([field for field in table.schema if field.name != change]))


def changes_of(samples: Mapping[str, pa.Table]) -> dict[str, str]:
    """Return the changes of each table: a sample without a column of changes has insertions only."""
    return {
        name: "append" if _change_column(table, []) is None else "retract"
        for name, table in samples.items()
    }


def rows_of(name: str, samples: Mapping[str, pa.Table], schema: pa.Schema) -> Rows:
    """The rows of a table's sample in the types of its schema, and their kinds."""
    if name not in samples:
        raise UnknownTableError(f"estimate: no sample of {name!r}. {nearest(name, samples)}")
    table = samples[name]
    if not table.num_rows:
        raise DataError(f"estimate: the sample of {name!r} is empty; give some rows of it.")
    columns = [_column(table, name, field) for field in schema]
    change = _change_column(table, schema.names)
    kinds = np.zeros(table.num_rows, np.int8)
    if change is not None:
        kinds = parse_kinds(table.column(change), f"estimate: the sample of {name!r}")
    if not columns:
        # A query such as COUNT(*) reads no column, only rows.
        return empty_columns(table.num_rows), kinds
    return pa.RecordBatch.from_arrays(columns, schema=schema), kinds


def _arrow(sample: Any, name: str) -> pa.Table:
    if hasattr(sample, "toArrow"):
        # A Spark DataFrame; recognised by its method, since nothing here imports Spark.
        sample = sample.toArrow()
    if isinstance(sample, pa.RecordBatch):
        return pa.Table.from_batches([sample])
    try:
        return sample if isinstance(sample, pa.Table) else pa.table(sample)
    except (TypeError, ValueError, pa.ArrowException) as e:
        raise TypeMismatchError(
            f"estimate: the sample of {name!r} is a {type(sample).__name__}, which is no table ({e}); "
            "give an Arrow table or batch, a pandas or a Spark DataFrame."
        ) from e


def _change_column(table: pa.Table, columns: list[str]) -> str | None:
    """The column that says what each row does, if it is none of the table's own."""
    # A column of that name that the schema declares is data.
    columns_of_change = [name for name in CHANGE_COLUMNS.values() if name in table.column_names]
    return next((name for name in columns_of_change if name not in columns), None)


def _column(table: pa.Table, name: str, field: pa.Field) -> pa.Array:
    if field.name not in table.column_names:
        raise UnknownColumnError(
            f"estimate: the sample of {name!r} has no column {field.name!r}. "
            f"{nearest(field.name, table.column_names)}"
        )
    column = table.column(field.name)
    try:
        values = column.cast(field.type).combine_chunks()
    except pa.ArrowException as e:
        raise TypeMismatchError(
            f"estimate: column {field.name!r} of the sample of {name!r} is {column.type} and cannot be read as "
            f"{type_name(field.type)}: {e}; convert it, or give the table's types in tables=...."
        ) from e
    return values
