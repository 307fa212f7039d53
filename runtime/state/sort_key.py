"""Sort keys: the order of rows by several columns as one comparable word, and a tier for nulls.

The word of one column of a scalar type is the value's own, inverted where it descends. Words of 64 bits leave no room
for a null: it has the outermost word and a tier, -1 before the values or 1 behind them, which counts after the word.
Everything else is bytes in the pool (rows.py) that sort as the rows do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
        arrays = [batch.column(each.column) for each in self.columns]
        arrays = [a if a.type == t else a.cast(t) for a, t in zip(arrays, self.types, strict=True)]
        tiers = np.zeros(batch.num_rows, np.int64)
        if not arrays:
            return np.zeros(batch.num_rows, np.int64), tiers
        if not self._plain:
            parts = [rows.ColumnOrder(each.descending, each.nulls_first) for each in self.columns]
            return columns.words(rows.encode(arrays, parts), pool)[0], tiers
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
