"""The columns of a table as Kafka Connect's schema in a message of Debezium has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from aggloom.errors import SpecError

_TYPES = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "float32": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_NAMED = {
    **dict.fromkeys(
        (
            "io.debezium.time.Date",
            "org.apache.kafka.connect.data.Date",
            "io.debezium.time.IsoDate",
        ),
        pa.date32(),
    ),
    **dict.fromkeys(
        (
            "io.debezium.time.Timestamp",
            "io.debezium.time.MicroTimestamp",
            "io.debezium.time.NanoTimestamp",
            "io.debezium.time.IsoTimestamp",
            "org.apache.kafka.connect.data.Timestamp",
        ),
        pa.timestamp("us"),
    ),
    "io.debezium.time.ZonedTimestamp": pa.timestamp("us", "UTC"),
    **dict.fromkeys(
        (
            "io.debezium.time.Time",
            "io.debezium.time.MicroTime",
            "io.debezium.time.NanoTime",
            "io.debezium.time.IsoTime",
            "io.debezium.time.ZonedTime",
            "org.apache.kafka.connect.data.Time",
        ),
        pa.time64("us"),
    ),
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_AS_THEY_ARE = ("io.debezium.data.Enum", "io.debezium.data.Json", "io.debezium.data.Uuid")
"""Names that say more of a text, which stays one."""


def connect_columns(schema: Mapping[str, Any], where: str) -> pa.Schema:
    """The columns of an envelope's rows; raises SpecError for a type that has none here."""
    images = {f.get("field"): f for f in schema.get("fields") or () if isinstance(f, Mapping)}
    image = images.get("after") or images.get("before") or {}
    fields = [
        pa.field(str(field["field"]), _type(field, f"{where}: column {field['field']!r}"))
        for field in image.get("fields") or ()
    ]
    if not fields:
        raise SpecError(f"{where}: the schema in its messages has no columns; give schema=DDL.")
    return pa.schema(fields)


def _type(field: Mapping[str, Any], where: str) -> pa.DataType:
    name, kind = field.get("name"), field.get("type")
    if name == _DECIMAL:
        about = field.get("parameters") or {}
        return pa.decimal128(int(about.get("connect.decimal.precision", 38)), int(about["scale"]))
    if name in _NAMED:
        return _NAMED[name]
    if kind == "array":
        return pa.list_(_type(field.get("items") or {}, where))
    # A name gives a type another meaning, such as days for an INT32. Under a name that is not known the plain type
    # would read the values as numbers, and be wrong in silence.
    if kind not in _TYPES or not (name is None or name in _AS_THEY_ARE):
        raise SpecError(
            f"{where} is {name or kind}, of which a type does not follow; give schema=DDL."
        )
    return _TYPES[kind]
