"""upsert-avro: a key with a row, or without a value (a tombstone), both in Avro, with their schemas in a registry.

Flink's upsert-kafka writes them with `avro-confluent`.
"""

from __future__ import annotations

from typing import ClassVar

from aggloom.runtime.avro.schemas import SchemaNode
from aggloom.runtime.formats.avro_messages import AvroMessages
from aggloom.runtime.formats.base import AVRO, FLAT, Change, Format, FormatSettings, Message
from aggloom.runtime.formats.json_text import Object
from aggloom.runtime.formats.rows import ImageReader
from aggloom.runtime.formats.upserts import UpsertPart, Upserts


class UpsertAvro(Format):
    """Keys with rows, and tombstones."""

    name: ClassVar[str] = "upsert-avro"
    summary: ClassVar[str] = (
        "as `upsert-json`, keys and values in Avro, their schemas in a registry"
    )
    options: ClassVar[tuple[str, ...]] = (*AVRO, "images", *FLAT)
    needs_keys: ClassVar[bool] = True
    in_lines: ClassVar[bool] = False

    def __init__(self, settings: FormatSettings) -> None:
        super().__init__(settings)
        self._avro = AvroMessages(settings)
        rows = ImageReader(self._avro.settings)
        self._upserts = Upserts(self, rows, rows)

    def changes(self, message: Message) -> list[Change]:
        """Return the changes that replace the row of the message's key, or delete it."""
        value = None
        if message.value:
            number, node, row = self._avro.record(message.value, "the value: ")
            value = UpsertPart(row, self._avro.readers(number, node))
        return self._upserts.changes(self._key(message.key), value)

    def _key(self, data: bytes | None) -> UpsertPart | None:
        """The key of a message; one that is no record is the value of the only key column."""
        if not data:
            return None
        number, node, value = self._avro.value(data, "the key: ")
        if node.kind != "record" or not isinstance(value, dict):
            node = SchemaNode("record", fields={self.settings.keys[0]: node})
            return UpsertPart(value, self._avro.readers(number, node))
        return UpsertPart(Object(value), self._avro.readers(number, node))
