"""debezium-avro: envelopes of Debezium's connectors with Confluent's converter, with their schemas in a registry."""

from __future__ import annotations

from typing import Any, ClassVar

from aggloom.runtime.formats.avro_messages import AvroMessages
from aggloom.runtime.formats.base import AVRO, Change, Format, FormatSettings, Message, Unreadable
from aggloom.runtime.formats.envelopes import Envelopes, Key
from aggloom.runtime.formats.json_text import Object
from aggloom.runtime.formats.rows import ImageReader

_IMAGES = ("before", "after")


class DebeziumAvro(Format):
    """Envelopes of Debezium in Avro; a message without a value has no change."""

    name: ClassVar[str] = "debezium-avro"
    summary: ClassVar[str] = "an envelope of Debezium in Avro, its schema in a registry"
    options: ClassVar[tuple[str, ...]] = (
        *(*AVRO, "truncate", "snapshot", "database", "table", "images"),
    )
    in_lines: ClassVar[bool] = False
    sends_notices: ClassVar[bool] = True

    def __init__(self, settings: FormatSettings) -> None:
        super().__init__(settings)
        self._avro = AvroMessages(settings)
        self._envelopes = Envelopes(self, ImageReader(self._avro.settings), self._key_of)

    def changes(self, message: Message) -> list[Change]:
        """The changes of the message's row."""
        if not message.value:
            return []
        number, node, body = self._avro.record(message.value)
        if "op" not in node.fields:
            raise Unreadable(f"schema {number} is no envelope: it has no `op`; was it flattened?")
        for image in _IMAGES:
            row: Any = body.get(image)
            if isinstance(row, dict):
                body[image] = Object(row)
        readers = {image: self._avro.readers(number, node, image) for image in _IMAGES}
        return self._envelopes.changes(body, message, readers)

    def _key_of(self, message: Message) -> Key | None:
        """The key of a message; None if there is none that is a record."""
        if not message.key:
            return None
        number, node, value = self._avro.value(message.key, "the key: ")
        if node.kind != "record" or not isinstance(value, dict):
            return None
        return Object(value), self._avro.readers(number, node)
