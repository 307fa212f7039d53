"""Plain rows: blocks of flat objects with columns of the table, perhaps the kind of change, and other fields."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.formats.base import Message, values_of
from aggloom.runtime.formats.blocks import (
    MessageBlock,
    all_whole,
    has_names,
    is_whole,
    join_texts,
    kind_words,
    make_token,
    read_block,
)
from aggloom.runtime.formats.plain_columns import PlainColumns
from aggloom.runtime.formats.rows import ImageReader
from aggloom.runtime.formats.values import units_of
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.changelog import INSERT


class PlainRows:
    """Reads blocks of a format's messages.

    names: those of fields that may say what kind of change a row is. changes: what their words mean.
    """

    def __init__(
        self, columns: PlainColumns, rows: ImageReader, names: Sequence[str], changes: ChangeWords
    ) -> None:
        self._changes = changes
        self._columns, self._rows = columns, rows
        self._tokens = list(map(make_token, rows.names))
        # With none of them rows are insertions; what was there last is looked for first.
        self._words: list[str | None] = [None, *names]
        # In any case, since the rules for single messages take names so. Kafka Connect has its schema beside the row.
        meaningful = (*rows.names, *names, *changes.list_markers(rows.names), "schema", "payload")
        self._meaningful = frozenset(name.lower() for name in meaningful)

    def read(self, messages: Sequence[Message]) -> MessageBlock | None:
        """The rows of messages, one each; None if one of them is not plain."""
        if not self._columns.possible:
            return None
        texts = [value for value in values_of(messages) if value is not None]
        if len(texts) != len(messages) or not (all_whole(texts) or all(map(is_whole, texts))):
            return None
        text = join_texts(texts)
        if text is None or not texts:
            return None
        table = self._table(text, len(texts))
        if table is None and self._columns.learn(some_objects(texts)):
            table = self._table(text, len(texts))
        if table is None:
            return None
        restore = units_of(self._rows.readers)
        block = self._block(table, texts)
        if block is None:
            restore()
        return block

    def _block(self, table: pa.Table, texts: list[bytes]) -> MessageBlock | None:
        columns = []
        left = np.zeros(len(texts), np.bool_)
        for place, own in enumerate(self._tokens):
            read = table.column(place).combine_chunks()
            column = self._columns.values(place, read, self._rows.readers)
            if column is None:
                return None
            columns.append(column)
            if column.null_count:
                for at in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
                    # Or else it may not be there, which is no NULL.
                    left[at] |= not has_names(texts[at], own, 1)
        words = self._kinds(table, len(columns))
        left |= words.is_null().to_numpy(zero_copy_only=False)
        owners = np.flatnonzero(~left)
        if left.any():
            columns, words = [c.take(pa.array(owners)) for c in columns], words.take(
                pa.array(owners)
            )
        return MessageBlock(owners, words, columns, left)

    def _kinds(self, table: pa.Table, place: int) -> pa.Array:
        """The words of changes; NULL of rows that another reading has to tell, or refuse. place: their column."""
        if self._words[0] is None:
            return pa.repeat(kind_words()[INSERT], len(table))
        return self._changes.known_kinds(table.column(place).combine_chunks())

    def _table(self, text: bytes, count: int) -> pa.Table | None:
        """The rows in columns, and behind them their words, if they say them."""
        for word in list(self._words):
            if word is None and self._changes.column is not None:
                # Rows without the change column are not as plain as they look.
                continue
            more = [] if word is None else [(word, pa.string())]
            table = self._read(text, count, more)
            # A field that is in no row is not there, or NULL, which is no word: another reading knows.
            if table is not None and (word is None or table.column(word).null_count < count):
                # What fitted is tried first for the next block.
                self._words.sort(key=lambda each: each != word)
                return table
        return None

    def _read(self, text: bytes, count: int, more: list[Any]) -> pa.Table | None:
        readers = self._rows.readers
        row, bare = self._columns.row(readers), self._columns.row(readers, numbers=False)
        known = pa.schema([*row, *more])
        table = read_block(text, count, known, "error")
        if table is None:
            table = self._leave_others(read_block(text, count, known, "infer"), known)
        if table is None or bare == row:
            return table
        as_written = read_block(text, count, pa.schema([*bare, *more]), "infer")
        if as_written is None or not self._columns.are_numbers(
            readers, pa.struct(list(as_written.schema))
        ):
            return None
        return table

    def _leave_others(self, table: pa.Table | None, known: pa.Schema) -> pa.Table | None:
        """The known columns of a table; None if another field has a meaning."""
        if table is None:
            return None
        others = set(table.schema.names) - set(known.names)
        if any(name.lower() in self._meaningful for name in others):
            return None
        return table.select(known.names)


def some_objects(texts: Sequence[bytes]) -> list[dict[str, object]]:
    """The first objects of texts."""
    contents = []
    for text in texts[:10]:
        try:
            one = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(one, dict):
            contents.append(one)
    return contents
