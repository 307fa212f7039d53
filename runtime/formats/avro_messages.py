"""The common part of Avro's formats: messages as records, and the readers of their columns by schema."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aggloom.runtime.avro.schemas import SchemaNode
from aggloom.runtime.avro.wire import AvroReader, NotInAvro
from aggloom.runtime.formats.avro_values import avro_readers
from aggloom.runtime.formats.base import FormatSettings, Unreadable
from aggloom.runtime.formats.json_text import Object
from aggloom.runtime.formats.values import Reader

_SCHEMAS = 1_000


class AvroMessages:
    """The messages of a table in Avro."""

    def __init__(self, settings: FormatSettings) -> None:
        assert settings.registry is not None
        # A text that looks like a decimal is a text: decimals of Avro are bytes.
        self.settings = replace(settings, decimals="text")
        self._reader = AvroReader(settings.registry)
        self._readers: dict[tuple[int, str], list[Reader]] = {}

    def record(self, data: bytes, what: str = "") -> tuple[int, SchemaNode, Object]:
        """(id of the schema, its node, the record) of a message; what: begins messages. Raises Unreadable."""
        number, node, value = self.value(data, what)
        if node.kind != "record" or not isinstance(value, dict):
            raise Unreadable(f"{what}is no record (schema {number})")
        return number, node, Object(value)

    def value(self, data: bytes, what: str = "") -> tuple[int, SchemaNode, Any]:
        """(id of the schema, its node, the value) of a message, whose value may have any type; raises Unreadable."""
        try:
            number, schema, value = self._reader.read(data)
        except NotInAvro as error:
            raise Unreadable(f"{what}{error}") from None
        return number, schema.node, value

    def readers(self, number: int, node: SchemaNode, image: str = "") -> list[Reader]:
        """The readers of the columns; image: the field of the record that has them, if it is not the record itself."""
        readers = self._readers.get((number, image))
        if readers is None:
            # Bounded, for writers that register schemas without end.
            if len(self._readers) > _SCHEMAS:
                self._readers.clear()
            row = node.fields.get(image) if image else node
            readers = avro_readers(self.settings.columns, row, self.settings)
            self._readers[number, image] = readers
        return readers
