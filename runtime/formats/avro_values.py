"""Values of Avro as values of a column, by the writer's type: nothing is rounded, cut or guessed."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from aggloom.runtime.avro.schemas import SchemaNode
from aggloom.runtime.formats.base import FormatSettings
from aggloom.runtime.formats.connect import check_list, named_reader, refuse_value
from aggloom.runtime.formats.values import Reader, fit_decimal, reader, variant_reader
from aggloom.type_layout import is_variant

_MAP_ENTRY = ("key", "value")


def avro_readers(
    columns: pa.Schema, row: SchemaNode | None, settings: FormatSettings
) -> list[Reader]:
    """The readers of a row's columns; row: the node of its record. They refuse values of columns that it lacks."""
    fields = row.fields if row is not None else {}
    lower = {name.lower(): node for name, node in fields.items()}
    nodes = (fields.get(one.name) or lower.get(one.name.lower()) for one in columns)
    return [
        refuse_value if node is None else avro_reader(node, one.type, settings)
        for one, node in zip(columns, nodes, strict=True)
    ]


def avro_reader(node: SchemaNode, dtype: pa.DataType, settings: FormatSettings) -> Reader:
    """Return a reader of a type of Avro for a column; it raises ValueError for a value that the column cannot have."""
    # The meaning goes before the type: a long may be a time in any of three units.
    named = named_reader(node.name, node.scale, dtype)
    if named is not None:
        return named
    if node.kind == "union":
        return refuse_value
    if node.kind == "bytes":
        return _as_it_is if pt.is_binary(dtype) else refuse_value
    if node.kind in ("float", "double") and not pt.is_boolean(dtype):
        return _make_float_reader(node.kind, dtype)
    if node.kind == "array" and node.items is not None:
        if pt.is_map(dtype) and tuple(node.items.fields) == _MAP_ENTRY:
            return _entries(node.items, dtype, settings)
        return _list(node.items, dtype, settings)
    if node.kind == "map" and pt.is_map(dtype) and node.items is not None:
        return _map(node.items, dtype, settings)
    if node.kind == "record" and pt.is_struct(dtype):
        return _struct(node, dtype, settings)
    if is_variant(dtype):
        return variant_reader(texts=True) if node.kind in ("string", "enum") else refuse_value
    # A text is no bytes, though it may look like base64: the writer would have used the type bytes.
    return refuse_value if pt.is_binary(dtype) else reader(dtype, settings)


def _as_it_is(value: Any) -> Any:
    return value


def _make_float_reader(kind: str, dtype: pa.DataType) -> Reader:
    """Return a reader of floats; as decimals and texts, those of 32 bits have the fewest digits that identify them."""

    def format_float(value: float) -> str:
        return str(np.float32(value)) if kind == "float" else repr(value)

    if pt.is_decimal(dtype):
        return lambda value: fit_decimal(Decimal(format_float(value)), dtype)
    if pt.is_string(dtype):
        return format_float
    if pt.is_float32(dtype) and kind == "double":
        return _narrow_float
    return _as_it_is if pt.is_floating(dtype) else refuse_value


def _narrow_float(value: float) -> float:
    # A number out of range becomes infinity without a warning, and is refused below as a different number.
    with np.errstate(over="ignore"):
        narrow = float(np.float32(value))
    # NaN differs from itself, and is no error.
    if narrow != value and value == value:
        raise ValueError(value)
    return narrow


def _list(items: SchemaNode, dtype: pa.DataType, settings: FormatSettings) -> Reader:
    if not pt.is_list(dtype):
        return reader(dtype, settings) if pt.is_string(dtype) else refuse_value
    item = avro_reader(items, dtype.value_type, settings)
    return lambda value: [None if one is None else item(one) for one in check_list(value)]


def _map(items: SchemaNode, dtype: pa.DataType, settings: FormatSettings) -> Reader:
    # Keys of Avro's maps are texts, whatever type the keys of the column have.
    key = reader(dtype.key_type, settings, texts=True)
    item = avro_reader(items, dtype.item_type, settings)
    return lambda value: [(key(n), None if one is None else item(one)) for n, one in value.items()]


def _entries(entry: SchemaNode, dtype: pa.DataType, settings: FormatSettings) -> Reader:
    """A reader of Kafka Connect's maps with keys that are no texts: arrays of records of a key and a value."""
    types = zip(_MAP_ENTRY, (dtype.key_type, dtype.item_type), strict=True)
    key, item = (avro_reader(entry.fields[name], each, settings) for name, each in types)

    def read_value(value: Any) -> list[tuple[Any, Any]]:
        pairs = [(key(each["key"]), each["value"]) for each in check_list(value)]
        return [(name, None if one is None else item(one)) for name, one in pairs]

    return read_value


def _struct(node: SchemaNode, dtype: pa.DataType, settings: FormatSettings) -> Reader:
    names: Sequence[str] = [each.name for each in dtype]
    readers = dict(zip(names, avro_readers(pa.schema(list(dtype)), node, settings), strict=True))

    def read_value(value: Any) -> dict[str, Any]:
        parts = {name: value.get(name) for name in names}
        return {n: None if one is None else readers[n](one) for n, one in parts.items()}

    return read_value
