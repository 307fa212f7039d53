"""Plain envelopes: blocks of Debezium's messages, of which the rows before and after are read, and little else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from aggloom.runtime.formats.base import Format, Message, texts_of
from aggloom.runtime.formats.blocks import MessageBlock
from aggloom.runtime.formats.envelopes import Envelopes, Readers
from aggloom.runtime.formats.json_fields import FieldValues, find_fields, index_names
from aggloom.runtime.formats.json_scan import Fields, KnownNames, begin_with
from aggloom.runtime.formats.json_text import DECODER, Object
from aggloom.runtime.formats.json_tokens import ABSENT, OBJECT, ODD
from aggloom.runtime.formats.plain_columns import PlainColumns
from aggloom.runtime.formats.plain_images import Image, Images, is_nested, is_untold
from aggloom.runtime.formats.rows import ImageReader
from aggloom.runtime.formats.texts import MOST_BYTES, Bytes, Texts, Words
from aggloom.runtime.formats.values import ColumnUnits
from aggloom.runtime.storage.arena import FlagArray
from aggloom.runtime.values.scalars import buffer_of

_SCHEMA, _PAYLOAD = '{"schema":', ',"payload":'
_TOP = ("op", "before", "after", "source", "schema", "payload")
_OP, _BEFORE, _AFTER, _SOURCE, *_WRAPPER = range(len(_TOP))


class _Head(NamedTuple):
    """The beginning of a block's messages: with a schema, and the readers of their columns by it."""

    text: bytes
    readers: Readers

    @property
    def bytes(self) -> Bytes:
        """The text as kernels take it; uint8[n]."""
        return np.frombuffer(self.text, np.uint8)


class PlainEnvelopes:
    """Reads blocks of a format's messages; readers_of: what reads the columns of the images, by a schema."""

    def __init__(
        self, format: Format, rows: ImageReader, envelopes: Envelopes, readers_of: Any
    ) -> None:
        self.format, self.rows, self.envelopes = format, rows, envelopes
        self._columns = PlainColumns(format.settings, rows.readers)
        self._readers_of, self._head = readers_of, _Head(b"", {})
        settings = format.settings
        self._is_filtered = not (settings.database is None and settings.table is None)
        self._top = index_names(_TOP, is_unique=True)
        self._names = index_names(rows.names, ())
        self._source = index_names(("db", "table"))

    def read(self, messages: Sequence[Message]) -> MessageBlock | None:
        """Return the block of messages; None where their values are none that a block may have."""
        texts = texts_of(messages)
        if texts.size > MOST_BYTES:
            return None
        starts, ends = self._bodies(texts)
        fields = find_fields(texts.buffer, starts, ends, self._top)
        left = (fields.marks & ODD != 0) | (fields.kinds[_WRAPPER] != ABSENT).any(axis=0)
        is_there = texts.lengths > 0
        # What does not begin as the others do.
        left |= is_there & (starts == ends)
        others = self._of_other_tables(FieldValues(fields, _SOURCE), left)
        units = ColumnUnits(self.rows.readers)
        images = [
            self._read_image(FieldValues(fields, place), name, others, left)
            for place, name in ((_BEFORE, "before"), (_AFTER, "after"))
        ]
        block = None
        if images[0] is not None and images[1] is not None:
            both = Images(self.format, self.envelopes, messages, images[0], images[1])
            block = both.block(FieldValues(fields, _OP).letters, others, left)
            # What is not there, or empty, says nothing.
            block.left[~is_there] = False
        if block is None or (block.left.any() and units.are_new):
            # Messages that are read later may be of another unit, and were here before.
            units.restore()
            return None
        return block

    def _bodies(self, texts: Texts) -> tuple[Words, Words]:
        """The first bytes of envelopes and those behind them; nothing of a message that has something else around."""
        starts, ends = texts.starts, texts.ends
        # The first that is there says how the others begin.
        there = np.flatnonzero(texts.lengths > 0)
        first = texts[there[0]] if len(there) else b""
        if first[: len(_SCHEMA)] != _SCHEMA.encode():
            self._head = _Head(b"", {})
        elif not self._head.text or not first.startswith(self._head.text):
            # The schema of the last block most likely begins this one, too, and is not read again then.
            self._head = self._begin(first)
        if not self._head.text:
            return starts, ends
        has_head = np.zeros(len(texts), np.bool_)
        begin_with(texts.buffer, starts, ends, self._head.bytes, has_head)
        # The brace that closes the wrapper goes with it.
        bodies = np.where(has_head, starts + len(self._head.text), starts)
        return bodies, np.where(has_head, ends - 1, starts)

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

    def _of_other_tables(self, source: FieldValues, left: FlagArray) -> FlagArray:
        """The messages of tables that are not asked for; bool[messages]."""
        is_stated = (source.kinds == OBJECT) & ~left
        if not self._is_filtered or not is_stated.any():
            return np.zeros(len(left), np.bool_)
        fields = self._within(source, is_stated, self._source, left)
        names = []
        for place in range(2):
            name = FieldValues(fields, place)
            left |= name.is_valid & ~name.is_text
            texts, _ = name.texts(name.is_text & ~left)
            names.append(texts.dictionary_encode("encode"))
        own, tables = names
        # Each pair of names is judged once.
        pairs = buffer_of(own.indices, np.int32).astype(np.int64) * len(tables.dictionary)
        pairs += buffer_of(tables.indices, np.int32)
        known, places = np.unique(pairs, return_inverse=True)
        listed = [each.dictionary.to_pylist() for each in names]
        is_other = [
            self.format.is_other(
                listed[0][pair // len(listed[1])], listed[1][pair % len(listed[1])]
            )
            for pair in known.tolist()
        ]
        return np.array(is_other, np.bool_)[places] & is_stated & ~left

    def _within(
        self, field: FieldValues, mask: FlagArray, names: KnownNames, left: FlagArray
    ) -> Fields:
        """The fields of the objects that a field has."""
        starts, ends = field.spans
        # The message is UTF-8, and so is each part of it.
        bounds = starts, np.where(mask, ends, starts)
        fields = find_fields(field.buffer, *bounds, names, is_text=True)
        left |= fields.marks & ODD != 0
        return fields

    def _read_image(
        self, field: FieldValues, name: str, others: FlagArray, left: FlagArray
    ) -> Image | None:
        """The rows before or after; None where their values are none that a block may have."""
        is_row = (field.kinds == OBJECT) & ~others
        # Neither a row nor NULL: the reader of single messages says what it is.
        left |= field.is_valid & ~is_row & ~others
        fields = self._within(field, is_row & ~left, self._names, left)
        readers = self._head.readers.get(name) or self.rows.readers
        own = [FieldValues(fields, place) for place in range(len(self.rows.names))]
        columns = []
        for place, (each, reader) in enumerate(zip(own, readers, strict=True)):
            left |= is_nested(each) | is_untold(each)
            column = self._columns.values(place, each, reader, left)
            if column is None:
                return None
            columns.append(column)
        return Image(is_row, own, columns)
