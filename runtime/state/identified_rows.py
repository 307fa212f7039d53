"""Rows that are known by their identity: what a bag of rows and sorted rows have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from aggloom.runtime.state.row_index import RowIndex
from aggloom.runtime.state.row_kernels import Encoded
from aggloom.runtime.state.row_store import RowStore
from aggloom.runtime.storage.arena import Arena, Array, RowIdArray, SlotArray
from aggloom.runtime.storage.pool import Pool


class IdentifiedRows(ABC):
    """A store of rows with an index of their identities: the columns of a unique key, or all columns.

    single: whether a slot has one row at most, which any other replaces. only_added: whether no row is ever retracted
    or looked for. In both cases the index says the slot of each row, and names none.
    """

    def __init__(
        self,
        arena: Arena,
        pool: Pool,
        name: str,
        fields: Sequence[pa.Field],
        unique: Sequence[int],
        single: bool = False,
        only_added: bool = False,
    ) -> None:
        self.arena, self.pool, self.name = arena, pool, name
        self.unique, self.single, self.only_added = tuple(unique), single, only_added
        self.rows = RowStore(arena, f"{name}.rows", fields)
        # The only row of a slot is found without looking at its columns: its identity may be empty.
        is_found_by_part = bool(unique) or single
        identity = np.array(unique, np.int64) if is_found_by_part else self.rows.every_column
        self.index = RowIndex(arena, f"{name}.index", identity)

    def fit(self) -> None:
        """Bring what is beside rows to their number, after rows were stored that no index names."""
        self._fit()

    @abstractmethod
    def _fit(self) -> None:
        """Bring what is beside rows to their capacity."""

    @property
    def is_indexed(self) -> bool:
        """True if the index names rows by their identities."""
        return not (self.single or self.only_added)

    @property
    def replaces(self) -> bool:
        """True if a row takes the place of the one with its identity, which may differ from it."""
        return bool(self.unique) or self.single

    def find(self, slots: SlotArray, batch: pa.RecordBatch) -> Array:
        """The row of each slot with the identity of the row beside it, of several the first to come, or -1."""
        return self.find_encoded(slots, self.rows.encode(batch))

    def find_encoded(self, slots: SlotArray, batch: Encoded) -> Array:
        """Find rows that were encoded."""
        if self.only_added:
            return np.full(len(slots), -1, np.int64)
        return self.index.find(self.rows.arrays, slots, batch)

    def free(self, ids: RowIdArray) -> None:
        """Forget rows that are gone."""
        self.rows.delete(ids)
        if len(self.rows) == 0:
            self._shrink()

    def enter_anew(self) -> None:
        """Have the index name the same rows by the hashes of their identities, which have changed."""
        if self.is_indexed:
            self.index.enter_anew(self.rows.arrays)

    def trim(self) -> None:
        """Give back the room that no row has used yet."""
        self.rows.trim()
        self._fit()
        self.index.trim(len(self.rows) if self.is_indexed else 0, self.rows.capacity)

    def _reserve(self, batch: Encoded, start: int, stop: int) -> None:
        """Make room for the rows of a stretch and for their texts."""
        # Texts first: only they can be refused for want of room, and then nothing else has grown.
        self.rows.reserve_texts(batch, np.arange(start, stop))
        self._make_room(stop - start)

    def _make_room(self, rows: int) -> None:
        """Make room for so many more rows, without that for their texts."""
        self.rows.reserve(rows)
        self._fit()
        # A table that names no row stays as small as it is made; the slots of rows grow without it.
        entries = len(self.rows) + rows if self.is_indexed else 0
        self.index.reserve(entries, self.rows.capacity)

    def _shrink(self) -> None:
        self.rows.shrink()
        self._fit()
        self.index.reset(self.rows.capacity)
