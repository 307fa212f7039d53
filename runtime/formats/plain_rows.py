"""Plain rows: blocks of flat objects with columns of the table and no other field, which are insertions."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from aggloom.runtime.formats.base import Message, values_of
from aggloom.runtime.formats.blocks import (
    WORDS,
    Block,
    all_whole,
    has_names,
    is_whole,
    read_block,
    token,
)
from aggloom.runtime.formats.plain_columns import PlainColumns
from aggloom.runtime.formats.rows import Rows
from aggloom.runtime.values.changelog import INSERT


class PlainRows:
    """Reads blocks of a format's messages."""

    def __init__(self, columns: PlainColumns, rows: Rows) -> None:
        self._columns, self._rows = columns, rows
        self._tokens = list(map(token, rows.names))

    def read(self, messages: Sequence[Message]) -> Block | None:
        """The rows of messages, one each; None if one of them is not plain."""
        if not self._columns.possible:
            return None
        texts = [value for value in values_of(messages) if value is not None]
        if len(texts) != len(messages) or not (all_whole(texts) or all(map(is_whole, texts))):
            return None
        table = self._read(texts) if texts else None
        if table is None and self._columns.learn(some_objects(texts)):
            table = self._read(texts)
        if table is None:
            return None
        found = []
        left = np.zeros(len(texts), np.bool_)
        for place, own in enumerate(self._tokens):
            read = table.column(place).combine_chunks()
            column = self._columns.values(place, read, self._rows.readers)
            if column is None:
                return None
            found.append(column)
            if column.null_count:
                for at in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
                    # Or else it may not be there, which is no NULL.
                    left[at] |= not has_names(texts[at], own, 1)
        owners = np.flatnonzero(~left)
        if left.any():
            found = [column.take(pa.array(owners)) for column in found]
        return Block(owners, pa.repeat(WORDS[INSERT], len(owners)), found, left)

    def _read(self, texts: list[bytes]) -> pa.Table | None:
        readers = self._rows.readers
        row, bare = self._columns.row(readers), self._columns.row(readers, numbers=False)
        table = read_block(texts, pa.schema(list(row)), "error")
        if table is None or bare == row:
            return table
        shown = read_block(texts, pa.schema(list(bare)), "infer")
        if shown is None or not self._columns.are_numbers(readers, pa.struct(list(shown.schema))):
            return None
        return table


def some_objects(texts: Sequence[bytes]) -> list[dict[str, object]]:
    """The first objects of texts."""
    found = []
    for text in texts[:50]:
        try:
            one = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(one, dict):
            found.append(one)
    return found
