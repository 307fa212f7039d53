"""Plain rows: blocks of flat objects with columns of the table, perhaps the kind of change, and other fields."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.formats.base import Message, texts_of
from aggloom.runtime.formats.blocks import MessageBlock, kind_words
from aggloom.runtime.formats.json_fields import FieldValues, find_fields, index_names
from aggloom.runtime.formats.json_scan import Fields
from aggloom.runtime.formats.json_tokens import ABSENT, ODD
from aggloom.runtime.formats.plain_columns import PlainColumns
from aggloom.runtime.formats.rows import ImageReader
from aggloom.runtime.formats.texts import MOST_BYTES
from aggloom.runtime.formats.values import ColumnUnits
from aggloom.runtime.storage.arena import FlagArray
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.changelog import INSERT
from aggloom.runtime.values.scalars import from_places, validity

_WRAPPER = ("schema", "payload")
"""The fields of Kafka Connect's objects around a row."""


class PlainRows:
    """Reads blocks of a format's messages.

    names: those of fields that may say what kind of change a row is. changes: what their words mean.
    """

    def __init__(
        self, columns: PlainColumns, rows: ImageReader, names: Sequence[str], changes: ChangeWords
    ) -> None:
        self._changes, self._columns, self._rows = changes, columns, rows
        self._words = range(len(rows.names), len(rows.names) + len(names))
        is_bare = not {name.lower() for name in rows.names}.isdisjoint(_WRAPPER)
        refused = [*changes.list_markers(rows.names), *(() if is_bare else _WRAPPER)]
        self._names = index_names([*rows.names, *names], refused)
        # Without a change column a row without a word is an insertion; with one, what the empty word means.
        self._unsaid = (
            kind_words()[INSERT].as_py() if changes.column is None else changes.kind(None)
        )

    def read(self, messages: Sequence[Message]) -> MessageBlock | None:
        """The rows of messages, one each; None where their values are none that a block may have."""
        texts = texts_of(messages)
        if texts.size > MOST_BYTES:
            return None
        fields = find_fields(texts.buffer, texts.starts, texts.ends, self._names)
        left = fields.marks & ODD != 0
        if self._rows.names and not self._rows.lenient:
            # An object without any of the columns is of another table.
            left |= (fields.kinds[: len(self._rows.names)] == ABSENT).all(axis=0)
        words = self._kinds(fields, left)
        columns = list[pa.Array]()
        units = ColumnUnits(self._rows.readers)
        for place, reader in enumerate(self._rows.readers):
            column = self._columns.values(place, FieldValues(fields, place), reader, left)
            if column is None:
                units.restore()
                return None
            columns.append(column)
        is_there = texts.lengths > 0
        left &= is_there
        if left.any() and units.are_new:
            # Messages that are read later may be of another unit, and were here before.
            units.restore()
            return None
        owners = np.flatnonzero(is_there & ~left)
        if len(owners) < len(left):
            places = from_places(owners)
            words, columns = words.take(places), [each.take(places) for each in columns]
        return MessageBlock(owners, words, columns, left)

    def _kinds(self, fields: Fields, left: FlagArray) -> pa.Array:
        """The words of changes; left: bool[objects], set where one is unknown, or there are two."""
        words: pa.Array | None = None
        is_said = np.zeros(len(left), np.bool_)
        for place in self._words:
            field = FieldValues(fields, place)
            own = field.is_valid if self._changes.column is not None else ~field.is_absent
            if not own.any():
                continue
            left |= own & (is_said | ~field.is_text)
            is_said |= own
            kinds = self._changes.known_kinds(field.texts(own & ~left)[0])
            words = kinds if words is None else pc.coalesce(words, kinds)
        if words is None:
            words = pa.nulls(len(left), pa.string())
        if not is_said.all():
            unsaid = pa.scalar(self._unsaid, pa.string())
            words = (
                pc.if_else(pa.array(is_said), words, unsaid)
                if is_said.any()
                else pa.repeat(unsaid, len(left))
            )
        left |= ~validity(words)
        return words
