"""Rows of a database's table as Arrow has them: the way back from what the sink writes for each type."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from aggloom.type_layout import is_variant

Read = Callable[[Any], Any]


def read_rows(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """The rows that a statement has given, in the types of a result that wrote them.

    Raises ArrowInvalid or ValueError for a value that the sink would not have written.

    Example: SQLite has texts for decimals and times, and JSON for what is nested.
        >>> schema = pa.schema([("price", pa.decimal128(4, 2)), ("sizes", pa.list_(pa.int64()))])
        >>> read_rows([("1.50", "[3, null]")], schema).to_pylist()
        [{'price': Decimal('1.50'), 'sizes': [3, None]}]
    """
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = []
    for column, field in zip(columns, schema, strict=True):
        read = _reader_of(field.type)
        values = [None if value is None else read(value) for value in column]
        arrays.append(pa.array(values, field.type))
    return pa.table(arrays, schema=schema)


def _reader_of(dtype: pa.DataType) -> Read:
    """Return the function that reads a column's values as drivers give them, of which none is NULL."""
    if pt.is_nested(dtype):
        inner = _from_json(dtype)
        return lambda value: inner(json.loads(value) if isinstance(value, str | bytes) else value)
    if is_variant(dtype):
        # Loaded where there are any: the functions of expressions take long to load.
        from aggloom.runtime.scalar.variant_columns import shown_document

        return shown_document
    if pt.is_boolean(dtype):
        return bool
    if pt.is_binary(dtype) or pt.is_large_binary(dtype):
        return bytes
    if pt.is_decimal(dtype) or pt.is_temporal(dtype):
        return _from_text(dtype)
    return lambda value: value


def _from_json(dtype: pa.DataType) -> Read:
    """Return the function that reads the values of a type as a JSON document has them, of which none is NULL."""
    if pt.is_map(dtype):
        key, item = _from_text(dtype.key_type), _from_json(dtype.item_type)
        return lambda value: [(key(k), None if v is None else item(v)) for k, v in value.items()]
    if pt.is_struct(dtype):
        fields = {field.name: _from_json(field.type) for field in dtype}
        return lambda value: {
            name: None if value[name] is None else read(value[name])
            for name, read in fields.items()
        }
    if pt.is_list(dtype):
        item = _from_json(dtype.value_type)
        return lambda value: [None if one is None else item(one) for one in value]
    if pt.is_binary(dtype) or pt.is_large_binary(dtype):
        return lambda value: bytes.fromhex(value) if isinstance(value, str) else bytes(value)
    return _from_text(dtype) if pt.is_decimal(dtype) or pt.is_temporal(dtype) else lambda v: v


def _from_text(dtype: pa.DataType) -> Read:
    """Return the function that reads a value from its text, if it is one."""
    if pt.is_string(dtype) or pt.is_large_string(dtype):
        return lambda value: value
    if pt.is_time(dtype):
        return _time_of_day
    return lambda value: (
        pa.scalar(value).cast(dtype).as_py() if isinstance(value, str) else _exact(value)
    )


def _exact(value: Any) -> Any:
    """A value; a float that holds a decimal of few digits has them in its shortest text."""
    return decimal.Decimal(repr(value)) if isinstance(value, float) else value


def _time_of_day(value: Any) -> Any:
    """A time of day, which some drivers give as the time since midnight, and some as a text."""
    if isinstance(value, dt.timedelta):
        if not dt.timedelta(0) <= value < dt.timedelta(days=1):
            raise ValueError(f"{value} is no time of day")
        return (dt.datetime.min + value).time()
    return dt.time.fromisoformat(value) if isinstance(value, str) else value
