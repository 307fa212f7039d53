"""Plain envelopes: blocks of Debezium's messages, read by Arrow with the rows before and after as structs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.runtime.formats.base import Format, Message, values_of
from aggloom.runtime.formats.blocks import (
    MessageBlock,
    Places,
    all_whole,
    is_whole,
    join_texts,
    make_token,
    read_block,
)
from aggloom.runtime.formats.envelopes import Envelopes, Readers
from aggloom.runtime.formats.json_text import DECODER, Object
from aggloom.runtime.formats.plain_columns import PlainColumns
from aggloom.runtime.formats.plain_images import IMAGES, Images
from aggloom.runtime.formats.plain_rows import some_objects
from aggloom.runtime.formats.rows import ImageReader
from aggloom.runtime.formats.values import units_of

_SCHEMA, _PAYLOAD = '{"schema":', ',"payload":'
_SOURCE = pa.struct([("db", pa.string()), ("table", pa.string())])


class _Head(NamedTuple):
    """The beginning of a block's messages: with a schema, and the readers of their columns by it."""

    text: bytes
    readers: Readers


class PlainEnvelopes:
    """Reads blocks of a format's messages; readers_of: what reads the columns of the images, by a schema."""

    def __init__(
        self, format: Format, rows: ImageReader, envelopes: Envelopes, readers_of: Any
    ) -> None:
        self.format, self.rows, self.envelopes = format, rows, envelopes
        self.settings, self.names = format.settings, rows.names
        self._columns = PlainColumns(format.settings, rows.readers)
        self._readers_of, self._head = readers_of, _Head(b"", {})
        self.filtered = not (self.settings.database is None and self.settings.table is None)
        lower = [name.lower() for name in self.names]
        self.lower, self.tokens = set(lower), list(map(make_token, self.names))
        # Columns that differ in case alone are for the other reader, which knows which of them is meant.
        self._possible = self._columns.possible and len(self.lower) == len(lower)

    def read(self, messages: Sequence[Message]) -> MessageBlock | None:
        """Return the block of messages; None where there is nothing that Arrow could read."""
        if not self._possible:
            return None
        values = values_of(messages)
        places, texts = self._bodies(values)
        if not texts:
            return None
        table = self._table(texts)
        if table is None:
            return None
        images = Images(self, table, texts, lambda at: messages[places[at]])
        # A block that is given up may have set units of times, which the next reading must not inherit.
        restore = units_of(self.rows.readers)
        block = images.block()
        if block is None:
            restore()
            return None
        if len(texts) == len(values):
            return block
        left = np.array([bool(value) for value in values], np.bool_)
        left[places] = block.left
        return block._replace(owners=places[block.owners], left=left)

    def _bodies(self, values: Sequence[bytes | None]) -> tuple[Places, list[bytes]]:
        """The envelopes, out of what is around them, and where they are."""
        first = next(filter(None, values), b"")
        if first[: len(_SCHEMA)] != _SCHEMA.encode():
            self._head = _Head(b"", {})
        elif not self._head.text or not first.startswith(self._head.text):
            # The schema of the last block most likely begins this one, too, and is not read again then.
            self._head = self._begin(first)
        head, cut = self._head.text, len(self._head.text)
        if cut:
            bodies = [
                (place, value[cut:-1])
                for place, value in enumerate(values)
                if value and value.startswith(head)
                # The brace that closes the wrapper, and goes with it.
                and value[-1:] == b"}" and is_whole(value[cut:-1])
            ]
        elif all_whole(values):
            return np.arange(len(values)), list(filter(None, values))
        else:
            bodies = [(place, v) for place, v in enumerate(values) if v and is_whole(v)]
        return np.array([place for place, _ in bodies], np.int64), [text for _, text in bodies]

    def _begin(self, first: bytes) -> _Head:
        """The schema with which a message begins; none where it is not what it looks like."""
        try:
            text = first.decode()
            schema, end = DECODER.raw_decode(text, len(_SCHEMA))
        except (ValueError, RecursionError, ArithmeticError):
            return _Head(b"", {})
        if not isinstance(schema, Object) or not text.startswith(_PAYLOAD, end):
            return _Head(b"", {})
        return _Head(text[: end + len(_PAYLOAD)].encode(), self._readers_of(schema))

    def readers(self, image: str) -> Any:
        """Return the readers of an image's columns."""
        return self._head.readers.get(image) or self.rows.readers

    def _table(self, texts: list[bytes]) -> pa.Table | None:
        """The envelopes in columns."""
        text = join_texts(texts)
        if text is None:
            return None
        table = self._read(text, len(texts))
        if table is None and self._columns.learn(_some_images(texts)):
            table = self._read(text, len(texts))
        return table

    def _read(self, text: bytes, count: int) -> pa.Table | None:
        fields: list[Any] = [("op", pa.string()), *([("source", _SOURCE)] * self.filtered)]
        rows = {image: self._columns.row(self.readers(image)) for image in IMAGES}
        table = read_block(text, count, pa.schema([*rows.items(), *fields]), "infer")
        bare = {image: self._columns.row(self.readers(image), numbers=False) for image in IMAGES}
        if table is None or bare == rows:
            return table
        # Read once more without saying their type: then Arrow tells what they are in the text.
        as_written = read_block(text, count, pa.schema([*bare.items(), *fields]), "infer")
        if as_written is not None and all(
            self._columns.are_numbers(self.readers(image), as_written.schema.field(image).type)
            for image in IMAGES
        ):
            return table
        return None

    def values(self, image: str, place: int, read: pa.Array) -> pa.Array | None:
        """The values of a column of an image."""
        return self._columns.values(place, read, self.readers(image))


def _some_images(texts: Sequence[bytes]) -> list[Any]:
    return [body.get(image) for body in some_objects(texts) for image in reversed(IMAGES)]
