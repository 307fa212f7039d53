"""Rows in Avro: the schema of a table's columns, with Avro's own logical types, and values in Confluent's frame."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from aggloom.errors import SpecError
from aggloom.runtime.avro.client import IncompatibleSchemaError, client_of
from aggloom.runtime.avro.settings import SchemaRegistry
from aggloom.runtime.avro.subjects import incompatible
from aggloom.runtime.avro.wire import library
from aggloom.type_layout import is_variant

Schema = dict[str, Any]
Converter = Callable[[Any], Any]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TIME = {"type": "long", "logicalType": "time-micros"}
_INSTANT = {"type": "long", "logicalType": "timestamp-micros"}
_WALL_CLOCK = {"type": "long", "logicalType": "local-timestamp-micros"}


def record(name: str, columns: pa.Schema, space: str | None = None) -> Schema:
    """The schema of rows, of which each column may be NULL; raises SpecError for a name or type that Avro lacks."""
    fields = []
    for field in columns:
        if not _NAME.fullmatch(field.name):
            raise SpecError(
                f"column {field.name!r} has a name that Avro has not (letters, digits and _); rename it in the query"
            )
        fields.append(
            {
                "name": field.name,
                "type": _nullable(field.type, f"{name}_{field.name}"),
                # By a default, readers with this schema can read older messages, which lack the column.
                "default": None,
            }
        )
    schema = {"type": "record", "name": name, "fields": fields}
    return schema if space is None else {**schema, "namespace": space}


def namespace(topic: str) -> str:
    """The namespace of Avro for a topic: its name, with _ for characters that Avro does not allow."""
    parts = (re.sub(r"\W", "_", part, flags=re.ASCII) for part in topic.split("."))
    return ".".join(f"_{part}" if not part or part[0].isdigit() else part for part in parts)


def frame_values(registry: SchemaRegistry, subject: str, schema: Schema) -> Callable[[Any], bytes]:
    """Return a writer of values of a schema, which is registered first; raises SinkError and SchemaRegistryError."""
    fastavro = library()
    try:
        number = client_of(registry).register(subject, schema)
    except IncompatibleSchemaError as error:
        raise incompatible(registry, subject, str(error)) from None
    # The byte 0 and the id in four bytes: Confluent's frame.
    frame = b"\0" + number.to_bytes(4, "big")
    parsed = fastavro.parse_schema(schema, named_schemas={})

    def write(value: Any) -> bytes:
        out = BytesIO()
        out.write(frame)
        fastavro.schemaless_writer(out, parsed, value)
        return out.getvalue()

    return write


def row_maker(columns: pa.Schema) -> Callable[[Sequence[Any]], Mapping[str, Any]]:
    """Return a function from a row's values, as Arrow has them in Python, to the record that the library writes."""
    converters = [(field.name, _make_converter(field.type)) for field in columns]

    def row(values: Sequence[Any]) -> Mapping[str, Any]:
        return {
            name: value if make is None or value is None else make(value)
            for (name, make), value in zip(converters, values, strict=True)
        }

    return row


def _nullable(dtype: pa.DataType, name: str) -> list[Any]:
    return ["null", _type(dtype, name)]


def _type(dtype: pa.DataType, name: str) -> Any:
    if pt.is_boolean(dtype):
        return "boolean"
    if pt.is_integer(dtype):
        # Avro has two types of integers, and the narrower ones of SQL fit into the first.
        return "int" if dtype.bit_width <= 32 else "long"
    if pt.is_floating(dtype):
        return "double" if dtype.bit_width == 64 else "float"
    if pt.is_decimal(dtype):
        about = {"precision": dtype.precision, "scale": dtype.scale}
        return {"type": "bytes", "logicalType": "decimal", **about}
    if pt.is_string(dtype) or pt.is_large_string(dtype):
        return "string"
    if pt.is_binary(dtype) or pt.is_large_binary(dtype):
        return "bytes"
    if pt.is_date(dtype):
        return {"type": "int", "logicalType": "date"}
    if pt.is_time(dtype):
        return _TIME
    if pt.is_timestamp(dtype):
        return _INSTANT if dtype.tz else _WALL_CLOCK
    if pt.is_map(dtype) and pt.is_string(dtype.key_type):
        return {"type": "map", "values": _nullable(dtype.item_type, name)}
    if pt.is_list(dtype) or pt.is_large_list(dtype):
        return {"type": "array", "items": _nullable(dtype.value_type, name)}
    if pt.is_struct(dtype):
        return record(name, pa.schema(list(dtype)))
    fix = "write TO_JSON around it" if is_variant(dtype) else "cast it"
    raise SpecError(f"there is no Avro for a column of type {dtype}; {fix} in the query")


def _make_converter(dtype: pa.DataType) -> Converter | None:
    """Return the function that converts values of a type for the library; None if it needs no conversion."""
    if pt.is_map(dtype):
        item = _make_converter(dtype.item_type)
        # Arrow has the entries of a map as pairs, and the library expects a dictionary.
        return lambda value: {n: v if item is None or v is None else item(v) for n, v in value}
    if pt.is_list(dtype) or pt.is_large_list(dtype):
        part = _make_converter(dtype.value_type)
        return None if part is None else lambda value: [v if v is None else part(v) for v in value]
    if pt.is_struct(dtype):
        row = row_maker(pa.schema(list(dtype)))
        return lambda value: row([value[field.name] for field in dtype])
    return None
