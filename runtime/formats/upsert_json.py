"""upsert-json: a key with a row, or with nothing, which takes its row away (a tombstone).

As in compacted topics, and in those that Flink's upsert-kafka writes. In a file a line is the key, a tab, the value.
"""

from __future__ import annotations

from typing import Any, ClassVar

from aggloom.runtime.formats.base import FLAT, SHARED, Change, Format, FormatSettings, Message
from aggloom.runtime.formats.connect import connect_readers, connect_schema
from aggloom.runtime.formats.json_text import Object, objects, scalar_or_object, text_of
from aggloom.runtime.formats.rows import ImageReader
from aggloom.runtime.formats.upserts import UpsertPart, Upserts


class UpsertJson(Format):
    """Keys with rows, and tombstones."""

    name: ClassVar[str] = "upsert-json"
    summary: ClassVar[str] = "a key and the row that it has from now on, or none (a tombstone)"
    options: ClassVar[tuple[str, ...]] = (*SHARED, "images", *FLAT)
    needs_keys: ClassVar[bool] = True
    separator: ClassVar[str | None] = "\t"

    def __init__(self, settings: FormatSettings) -> None:
        super().__init__(settings)
        # Keys of MAPs and of topics may be texts of numbers.
        self._upserts = Upserts(self, ImageReader(settings), ImageReader(settings, texts=True))

    def changes(self, message: Message) -> list[Change]:
        """Return the changes that give the key the row it has from now on."""
        key = None if message.key is None else UpsertPart(_key_of(message.key))
        contents = objects(text_of(message.value), False) if message.value else []
        return self._upserts.changes(key, self._value(contents[0]) if contents else None)

    def _value(self, content: Object) -> UpsertPart | None:
        """A value, out of its wrapper; None of a tombstone."""
        rows = self._upserts.rows
        schema = connect_schema(content, rows.names)
        if schema is None:
            return UpsertPart(content)
        if content["payload"] is None:
            return None
        readers = connect_readers(self.settings.columns, schema, self.settings, rows.readers)
        return UpsertPart(content["payload"], readers)


def _key_of(data: bytes) -> Any:
    """A key, out of its wrapper."""
    key: Any = scalar_or_object(text_of(data)) if data.strip() else None
    if isinstance(key, Object) and "payload" in key and "schema" in key:
        key = key["payload"]
    return key
