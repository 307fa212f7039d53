"""Sort keys: the order of rows by several columns as one comparable word, and a tier for nulls.

The word of one column of a scalar type is the value's own, inverted where it descends. Words of 64 bits leave no room
for a null: it has the outermost word and a tier, -1 before the values or 1 behind them, which counts after the word.
Everything else is bytes in the pool (rows.py) that sort as the rows do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values import columns, rows
from aggloom.type_layout import is_pooled

_LIMITS = np.iinfo(np.int64)


@dataclass(frozen=True)
class SortColumn:
    """A column, by number, by which rows are sorted."""

    column: int
    descending: bool = False
    nulls_first: bool = True


class ComparedKeys(NamedTuple):
    """Sort keys of a bundle, to be compared among themselves: by words, tiers, then bytes. None of them is in the pool.

    Keys of words have no bytes, and those of bytes only zeros for words.
    """

    words: Array  # int64[rows]
    tiers: Array  # int64[rows]
    starts: Array  # int64[rows + 1]
    data: Array  # uint8[size]


class SortKeyEncoder:
    """The order of rows with these fields."""

    def __init__(self, fields: Sequence[pa.Field], columns: Sequence[SortColumn]) -> None:
        self.columns = tuple(columns)
        self.types = [fields[each.column].type for each in columns]
        if not self.columns:
            self._plain, self.by_bytes = True, False
            return
        first = self.columns[0]
        alone, pooled = len(self.columns) == 1, is_pooled(self.types[0])
        # The bytes of the pool are a value's own, and none of them come before all others.
        self._plain = alone and not (pooled and (first.descending or not first.nulls_first))
        self.by_bytes = pooled or not alone
        """True if words are ids of the pool, to be compared by their bytes."""

    def words(self, batch: pa.RecordBatch, pool: Pool) -> tuple[Array, Array]:
        """(word, tier) of each row."""
        arrays = self._arrays(batch)
        tiers = np.zeros(batch.num_rows, np.int64)
        if not arrays:
            return np.zeros(batch.num_rows, np.int64), tiers
        if not self._plain:
            return columns.words(self._bytes(arrays), pool)[0], tiers
        words, valid = columns.words(arrays[0], pool)
        first = self.columns[0]
        if first.descending:
            # `~` turns the order of all 64-bit numbers round; `-` would leave the least one where it is.
            words = ~words
        if arrays[0].null_count:
            outermost = _LIMITS.min if first.nulls_first else _LIMITS.max
            words = np.where(valid, words, 0 if self.by_bytes else outermost)
            tiers[~valid] = -1 if first.nulls_first else 1
        return words, tiers

    def read_keys(self, batch: pa.RecordBatch, pool: Pool) -> ComparedKeys:
        """The keys of rows that are compared with one another before any is stored; bytes stay out of the pool."""
        count = batch.num_rows
        if not self.by_bytes:
            words, tiers = self.words(batch, pool)
            return ComparedKeys(words, tiers, np.zeros(count + 1, np.int64), np.zeros(0, np.uint8))
        data, starts = columns.text_bytes(self._bytes(self._arrays(batch)))
        zeros = np.zeros(count, np.int64)
        return ComparedKeys(zeros, zeros, starts, data)

    def _arrays(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns that rows are sorted by, in the types of the state."""
        arrays = [batch.column(each.column) for each in self.columns]
        return [a if a.type == t else a.cast(t) for a, t in zip(arrays, self.types, strict=True)]

    def _bytes(self, arrays: list[pa.Array]) -> pa.BinaryArray:
        """Byte strings that sort as the rows do."""
        parts = [rows.ColumnOrder(each.descending, each.nulls_first) for each in self.columns]
        return rows.encode(arrays, parts)
