"""Encodings of the messages of a topic: keys, rows and changes as JSON, or in Avro with a schema registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from aggloom.errors import SpecError
from aggloom.runtime.avro.encoder import frame_values, namespace, record, row_maker
from aggloom.runtime.avro.settings import SchemaRegistry
from aggloom.runtime.avro.subjects import ENVELOPE, ROWS, check_subject
from aggloom.runtime.connectors.kafka.json_rows import object_writer
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
        _check_change_column(format, columns)
        self._flat, self._columns = format in FLAT, columns
        # A text would be read as the document that it spells.
        in_texts = format in ENVELOPES
        self.key, self.row = object_writer(key), object_writer(columns, text_documents=in_texts)

    def change(self, values: Row, kind: int, gone: bool) -> Part:
        """A change."""
        text = self.row(values)
        if self._flat:
            comma = ", " if len(self._columns) else ""
            return f'{text[:-1]}{comma}"{_CHANGE}": "{CHANGE_TYPES[kind]}"}}'
        if gone:
            return f'{{"before": {text}, "after": null, "op": "d"}}'
        return f'{{"before": null, "after": {text}, "op": "c"}}'


def _check_change_column(format: str, columns: pa.Schema) -> None:
    """Raise SpecError where a message would have a column by the name of its kind of change."""
    if format in FLAT and _CHANGE in columns.names:
        raise SpecError(f"column {_CHANGE!r} is what a message calls its kind of change; rename it")


def avro_schemas(
    format: str, columns: pa.Schema, key: pa.Schema, topic: str
) -> dict[str, dict[str, Any]]:
    """The schemas of a topic's values and, if there are columns of a key, of its keys, by subject.

    Raises SpecError for a column that Avro has no name or type for.
    """
    _check_change_column(format, columns)
    space = namespace(topic)
    schema = record("Value", columns, space)
    if format in ENVELOPES:
        rows: list[Any] = [schema, f"{space}.Value"]
        fields = [
            {"name": name, "type": ["null", row], "default": None}
            for name, row in zip(ROWS, rows, strict=True)
        ]
        fields.append({"name": "op", "type": "string"})
        schema = {"type": "record", "name": ENVELOPE, "namespace": space, "fields": fields}
    elif format in FLAT:
        schema["fields"].append({"name": _CHANGE, "type": "string"})
    keys = {f"{topic}-key": record("Key", key, space)} if len(key) else {}
    return {f"{topic}-value": schema, **keys}


class AvroEncoding:
    """Messages in Avro, whose schemas are registered under TOPIC-key and TOPIC-value."""

    def __init__(
        self, format: str, columns: pa.Schema, key: pa.Schema, topic: str, registry: SchemaRegistry
    ) -> None:
        self._flat = format in FLAT
        self._row, self._own = row_maker(columns), row_maker(key)
        value, *keys = avro_schemas(format, columns, key, topic).items()
        self._write = frame_values(registry, *value)
        if keys:
            self._write_key = frame_values(registry, *keys[0])

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
        fields = (
            {"before": row, "after": None, "op": "d"}
            if gone
            else {"before": None, "after": row, "op": "c"}
        )
        return self._write(fields)


def make_encoding(
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


def check_columns(
    format: str,
    columns: pa.Schema,
    key: Sequence[str] | None,
    topic: str,
    registry: SchemaRegistry | None,
) -> None:
    """Raise SpecError for columns that a format has no words for, SinkError where a subject has another schema.

    Nothing is registered. Raises SchemaRegistryError where the registry does not answer.
    """
    own = pa.schema([columns.field(name) for name in key or ()])
    if registry is None:
        JsonEncoding(format, columns, own)
        return
    for subject, schema in avro_schemas(format, columns, own, topic).items():
        check_subject(registry, subject, schema)
