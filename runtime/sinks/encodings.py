"""Encodings of the messages of a topic: keys, rows and changes as JSON, or in Avro with a schema registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from aggloom.errors import SpecError
from aggloom.runtime.avro.settings import SchemaRegistry
from aggloom.runtime.avro.writing import frame_values, namespace, record, row_maker
from aggloom.runtime.sinks.json_rows import object_writer
from aggloom.runtime.values.changelog import CHANGE_COLUMNS, CHANGE_TYPES

Row = Sequence[Any]
Part = str | bytes
UPSERTS = ("upsert-json", "upsert-avro")
ENVELOPES = ("debezium-json", "debezium-avro")
FLAT = ("jsonl", "avro-confluent")
IN_AVRO = ("upsert-avro", "debezium-avro", "avro-confluent")
FORMATS = ("upsert-json", "debezium-json", "jsonl", *IN_AVRO)
"""The formats in which a topic can be written."""
_CHANGE = CHANGE_COLUMNS["spark"]


class Encoding(Protocol):
    """A maker of messages from the rows of a batch."""

    def key(self, values: Row) -> Part:
        """A key."""

    def row(self, values: Row) -> Part:
        """A row that a key has from now on."""

    def change(self, values: Row, kind: int, gone: bool) -> Part:
        """A change; gone: whether it takes its row away."""


class JsonEncoding:
    """Messages as JSON."""

    def __init__(self, format: str, columns: pa.Schema, key: pa.Schema) -> None:
        self._flat, self._columns = format in FLAT, columns
        self.key, self.row = object_writer(key), object_writer(columns)

    def change(self, values: Row, kind: int, gone: bool) -> Part:
        """A change."""
        text = self.row(values)
        if self._flat:
            comma = ", " if len(self._columns) else ""
            return f'{text[:-1]}{comma}"{_CHANGE}": "{CHANGE_TYPES[kind]}"}}'
        if gone:
            return f'{{"before": {text}, "after": null, "op": "d"}}'
        return f'{{"before": null, "after": {text}, "op": "c"}}'


class AvroEncoding:
    """Messages in Avro, whose schemas are registered under TOPIC-key and TOPIC-value."""

    def __init__(
        self, format: str, columns: pa.Schema, key: pa.Schema, topic: str, registry: SchemaRegistry
    ) -> None:
        space = namespace(topic)
        self._flat = format in FLAT
        schema = record("Value", columns, space)
        if format in ENVELOPES:
            schema = {
                "type": "record",
                "name": "Envelope",
                "namespace": space,
                "fields": [
                    {"name": "before", "type": ["null", schema], "default": None},
                    {"name": "after", "type": ["null", f"{space}.Value"], "default": None},
                    {"name": "op", "type": "string"},
                ],
            }
        elif self._flat:
            if _CHANGE in columns.names:
                raise SpecError(
                    f"column {_CHANGE!r} is what a message calls its kind of change; rename it"
                )
            schema["fields"].append({"name": _CHANGE, "type": "string"})
        self._row, self._own = row_maker(columns), row_maker(key)
        self._write = frame_values(registry, f"{topic}-value", schema)
        if len(key):
            self._write_key = frame_values(registry, f"{topic}-key", record("Key", key, space))

    def key(self, values: Row) -> Part:
        """A key."""
        return self._write_key(self._own(values))

    def row(self, values: Row) -> Part:
        """A row."""
        return self._write(self._row(values))

    def change(self, values: Row, kind: int, gone: bool) -> Part:
        """A change."""
        row = self._row(values)
        if self._flat:
            return self._write({**row, _CHANGE: CHANGE_TYPES[kind]})
        told = (
            {"before": row, "after": None, "op": "d"}
            if gone
            else {"before": None, "after": row, "op": "c"}
        )
        return self._write(told)


def encoding(
    format: str,
    columns: pa.Schema,
    key: Sequence[str] | None,
    topic: str,
    registry: SchemaRegistry | None,
) -> Encoding:
    """Return a format's encoding; raises SpecError for columns that it has no words for, and as Avro does."""
    own = pa.schema([columns.field(name) for name in key or ()])
    if registry is None:
        return JsonEncoding(format, columns, own)
    return AvroEncoding(format, columns, own, topic, registry)
