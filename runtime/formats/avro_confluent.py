"""avro-confluent: rows as records of Avro, with their schemas in a registry; otherwise as `jsonl`."""

from __future__ import annotations

from typing import ClassVar

from aggloom.runtime.formats.avro_messages import AvroMessages
from aggloom.runtime.formats.base import AVRO, FLAT, Change, Format, FormatSettings, Message
from aggloom.runtime.formats.flat_rows import FlatRows
from aggloom.runtime.formats.rows import ImageReader


class AvroConfluent(Format):
    """Flat records; a message without a value has no change."""

    name: ClassVar[str] = "avro-confluent"
    summary: ClassVar[str] = (
        "a flat record of Avro, as `jsonl` has objects; its schema in a registry"
    )
    options: ClassVar[tuple[str, ...]] = (*AVRO, *FLAT)
    takes_keys: ClassVar[bool] = False
    in_lines: ClassVar[bool] = False

    def __init__(self, settings: FormatSettings) -> None:
        super().__init__(settings)
        self._avro = AvroMessages(settings)
        self._flat = FlatRows(ImageReader(self._avro.settings), settings.change_words)

    def changes(self, message: Message) -> list[Change]:
        """The message's row."""
        if not message.value:
            return []
        number, node, record = self._avro.record(message.value)
        return [self._flat.change(record, self._avro.readers(number, node))]
