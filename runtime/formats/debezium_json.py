"""debezium-json: envelopes with the old and the new row, as Debezium's connectors write them.

With or without the schema that Kafka Connect adds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from aggloom.runtime.formats.base import CAPTURED, Change, Fact, FormatSettings, Message, Unreadable
from aggloom.runtime.formats.blocks import MessageBlock
from aggloom.runtime.formats.cdc_json import CapturedJson, refuse_twice
from aggloom.runtime.formats.connect import connect_readers
from aggloom.runtime.formats.documents import document_key, with_documents
from aggloom.runtime.formats.envelope_facts import DEBEZIUM
from aggloom.runtime.formats.envelopes import Envelopes, Key, Readers, has_no_row
from aggloom.runtime.formats.json_text import Object, scalar_or_object, text_of
from aggloom.runtime.formats.plain_envelopes import PlainEnvelopes


class DebeziumJson(CapturedJson):
    """Envelopes of Debezium."""

    name: ClassVar[str] = "debezium-json"
    facts: ClassVar[Mapping[str, Fact]] = DEBEZIUM
    summary: ClassVar[str] = (
        "an envelope of Debezium, with or without its schema; tombstones are passed over"
    )

    options: ClassVar[tuple[str, ...]] = (*CAPTURED, "snapshot")
    text_documents: ClassVar[bool] = True

    def __init__(self, settings: FormatSettings) -> None:
        super().__init__(settings)
        self._envelopes = Envelopes(self, self.rows, partial(_key_of, keys=settings.keys))
        self._by_schema: dict[str, Readers] = {}
        self._plain = PlainEnvelopes(self, self.rows, self._envelopes, self._readers)

    def block(self, messages: Sequence[Message]) -> MessageBlock | None:
        """The changes of plain envelopes."""
        return self._plain.read(messages)

    def _message(self, content: Object, message: Message) -> list[Change]:
        body: Any = content.get("payload")
        schema = content.get("schema")
        if body is None:
            # A tombstone in its wrapper: the schema is there, and the payload is null.
            if schema is not None and "payload" in content and content.get("op") is None:
                return []
            body = content
        if not isinstance(body, Object):
            raise Unreadable("`payload` is no object")
        refuse_twice(body)
        if has_no_row(body):
            # Rows of a table that is dropped are retracted by no message.
            statement = str(body.get("ddl") or "")
            source = body.get("source")
            table = source if isinstance(source, Object) else Object()
            is_other = self.is_other(table.get("db"), table.get("table"))
            return self.empty_table("`ddl`") if _EMPTYING.match(statement) and not is_other else []
        readers = self._readers(schema) if isinstance(schema, Object) else {}
        body = with_documents(body)
        return self._envelopes.changes(body, message, readers)

    def _readers(self, schema: Object) -> Readers:
        """The readers of the images by the schema that arrived with them."""
        # Each message brings its schema anew, as an object of its own: its text shows that it is the same.
        identity = repr(schema)
        if identity not in self._by_schema:
            fields = {f.get("field"): f for f in schema.get("fields") or () if isinstance(f, dict)}
            columns, plain = self.settings.columns, self.rows.readers
            if len(self._by_schema) > _SCHEMAS:
                self._by_schema.clear()
            self._by_schema[identity] = {
                image: connect_readers(columns, fields.get(image), self.settings, plain)
                for image in ("before", "after")
            }
        return self._by_schema[identity]


_SCHEMAS = 100
_EMPTYING = re.compile(r"\s*(DROP\s+(TABLE|DATABASE|SCHEMA)|TRUNCATE)\b", re.IGNORECASE)


def _key_of(message: Message, keys: tuple[str, ...]) -> Key | None:
    """The key of a message, out of its wrapper; None if there is none that is an object."""
    if not message.key:
        return None
    key = scalar_or_object(text_of(message.key))
    if isinstance(key, Object) and isinstance(key.get("payload"), Object) and "schema" in key:
        key = key["payload"]
    return (document_key(key, keys), None) if isinstance(key, Object) else None
