"""jsonl: flat objects, with the kind of change in `_change_type` (Spark, Delta) or `op` (Flink), or plain appends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from aggloom.runtime.formats.base import (
    FLAT,
    SHARED,
    Change,
    Format,
    FormatSettings,
    Message,
    Unreadable,
)
from aggloom.runtime.formats.blocks import MessageBlock
from aggloom.runtime.formats.connect import connect_readers, connect_schema
from aggloom.runtime.formats.flat_rows import FlatRows
from aggloom.runtime.formats.json_text import Object, objects, text_of
from aggloom.runtime.formats.plain_columns import PlainColumns
from aggloom.runtime.formats.plain_rows import PlainRows
from aggloom.runtime.formats.rows import ImageReader


class JsonLines(Format):
    """Flat objects."""

    name: ClassVar[str] = "jsonl"
    summary: ClassVar[str] = (
        "a flat object; `_change_type` or `op` if it is there, else an insertion"
    )
    options: ClassVar[tuple[str, ...]] = (*SHARED, *FLAT)
    takes_keys: ClassVar[bool] = False

    def __init__(self, settings: FormatSettings) -> None:
        super().__init__(settings)
        self.rows = ImageReader(settings)
        self._flat = FlatRows(self.rows, settings.change_words)
        columns = PlainColumns(settings, self.rows.readers)
        self._plain = PlainRows(columns, self.rows, self._flat.names, settings.change_words)

    def changes(self, message: Message) -> list[Change]:
        """The rows of the message's objects."""
        contents = objects(text_of(message.value or b""), self.settings.concatenated == "split")
        return [self._change(one) for one in contents]

    def _change(self, content: Object) -> Change:
        schema = connect_schema(content, self.rows.names)
        if schema is None:
            return self._flat.change(content)
        row = content["payload"]
        if not isinstance(row, Object):
            raise Unreadable(
                "`payload` is no object; a tombstone names no row: read it with upsert-json"
            )
        columns, plain = self.settings.columns, self.rows.readers
        return self._flat.change(row, connect_readers(columns, schema, self.settings, plain))

    def block(self, messages: Sequence[Message]) -> MessageBlock | None:
        """The rows of plain objects."""
        return self._plain.read(messages)
