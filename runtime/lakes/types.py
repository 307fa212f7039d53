"""The columns that tables of files have, and their types."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from aggloom.errors import SpecError, UnknownColumnError, nearest
from aggloom.runtime.values.changelog import CHANGE_COLUMNS
from aggloom.type_layout import is_variant

CHANGE = CHANGE_COLUMNS["spark"]
"""The column of a changelog that has the kind of change."""
_PLAIN = (
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.float32(), pa.float64(), pa.date32()),
)


def stored_type(dtype: pa.DataType, name: str, where: str) -> pa.DataType:
    """The type of a column as tables store it: instants in UTC, texts and bytes with 32-bit offsets.

    Raises SpecError for a type that they do not have.
    """
    # One type for all instants: two zones of a column are two types of Arrow, though the values are the same.
    if pt.is_timestamp(dtype):
        return pa.timestamp("us", "UTC" if dtype.tz else None)
    if pt.is_string(dtype) or pt.is_large_string(dtype) or dtype == pa.string_view():
        return pa.string()
    if pt.is_binary(dtype) or pt.is_large_binary(dtype) or dtype == pa.binary_view():
        return pa.binary()
    if pt.is_map(dtype):
        pair = (stored_type(each, name, where) for each in (dtype.key_type, dtype.item_type))
        return pa.map_(*pair)
    if pt.is_list(dtype) or pt.is_large_list(dtype):
        return pa.list_(stored_type(dtype.value_type, name, where))
    if pt.is_struct(dtype):
        return pa.struct([(f.name, stored_type(f.type, name, where)) for f in dtype])
    if dtype in _PLAIN or pt.is_decimal128(dtype):
        return dtype
    if is_variant(dtype):
        raise SpecError(
            f"{where}: column {name!r} is VARIANT, which its library does not store; write TO_JSON({name}) in the "
            "query, or declare a STRING that the query reads with PARSE_JSON"
        )
    raise SpecError(
        f"{where}: there is no type for column {name!r} of type {dtype}; cast it in the query"
    )


def choose_columns(there: pa.Schema, schema: pa.Schema, where: str) -> pa.Schema:
    """The columns of a table with these names; raises SpecError if the table lacks one, or has it in another type."""
    for field in stored_schema(schema, where):
        if field.name not in there.names:
            hint = nearest(field.name, there.names)
            raise UnknownColumnError(f"{where}: there is no column {field.name!r}. {hint}")
        if there.field(field.name).type != field.type:
            raise SpecError(
                f"{where}: column {field.name!r} is {there.field(field.name).type} in the table, not {field.type}; "
                "declare it as it is, and CAST it in the query"
            )
    return pa.schema([there.field(name) for name in schema.names])


def stored_schema(schema: pa.Schema, where: str) -> pa.Schema:
    """The columns in the types in which tables store them."""
    return pa.schema([pa.field(f.name, stored_type(f.type, f.name, where)) for f in schema])


def describe_difference(table: pa.Schema, column: pa.Field) -> str:
    """Return the way in which a table has a column no longer, as the end of a sentence; empty if it has it."""
    if column.name not in table.names:
        return "is gone"
    dtype = table.field(column.name).type
    return "" if dtype == column.type else f"is {dtype}, not {column.type}"
