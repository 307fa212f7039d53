"""The part that operators share which remember rows of keys, without a handler."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar

import pyarrow as pa

from aggloom.runtime.operators.base import OneInput, Operator
from aggloom.runtime.state.identified_rows import IdentifiedRows
from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.state.row_layout import lay_out
from aggloom.runtime.state.row_store import RowStore
from aggloom.runtime.storage.arena import Arena, Array, SlotArray
from aggloom.runtime.storage.audit import Audit, reading_snapshot
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values.pool_checks import check_pooled_values

Stores = Sequence[RowStore | IdentifiedRows]
"""The stores of rows of a state, always in the same order."""


class StoredEntries(NamedTuple):
    """Things of which a key may have several: how many, the texts of each in the pool, the bytes of all others.

    most: the most that a key has; None: any number.
    """

    live: int
    pooled: int
    text_bytes: int
    most: int | None = None


class RowState(ABC):
    """The stored keys, each with the time at which it was written, and their rows, in one arena."""

    handler = None
    arena: Arena
    pool: Pool
    table: KeyTable

    @property
    def key_texts(self) -> int:
        """Number of columns of a slot's key that are texts."""
        return int(self.table.index.pooled.sum())

    def used_slots(self) -> Array:
        """The slots in use."""
        return self.table.used_slots()

    def lookup(self, batch: pa.RecordBatch) -> Array:
        """The slot of each row's key; new keys get one."""
        # New keys may have made the table larger, and what is stored by slot follows.
        slots = self.table.lookup(batch)
        self._fit()
        return slots

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        return self.arena.snapshot()

    def restore(self, data: bytes | memoryview) -> None:
        """Replace the state by a snapshot's; raises StateCorruptError."""
        self.arena.restore(data)
        # A damaged snapshot may fail at any line below, with any exception of Python's.
        with reading_snapshot():
            self._open(self.arena)
            audit = Audit(self.pool)
            self.check_restored(audit, self.table.check_restored(audit))
            audit.finish()
            # Texts are read only after the audit has found their places in the pool right.
            check_pooled_values(audit)

    @property
    @abstractmethod
    def stores(self) -> Stores:
        """The stores of its rows."""

    def take_narrower(self, old: Self) -> None:
        """Take over the keys and rows of a state whose rows may lack columns; they have NULL in them.

        Ids and slots stay as they are, and so does all that leads to them; what is found by a hash of all columns is
        entered anew.
        """
        arena = Arena()
        pairs = list(zip(self.stores, old.stores, strict=True))
        laid_out = {
            name for store, was in pairs for name in lay_out(arena, rows_in(store), rows_in(was))
        }
        for name, array in old.arena:
            if name not in laid_out:
                columns = array.shape[1] if array.ndim == 2 else 0
                arena.array(name, len(array), array.dtype.str, columns)[:] = array
        self.arena.adopt(arena)
        self._open(self.arena)
        for store in self.stores:
            if isinstance(store, IdentifiedRows):
                store.enter_anew()

    def flush_files(self) -> None:
        """Bring everything into the mapped files."""
        self.arena.flush()

    @abstractmethod
    def forget(self, slots: SlotArray) -> None:
        """Remove keys with their rows, and give memory back."""

    def compact(self) -> None:
        """Copy what is left into arrays of its size."""
        self._compact()

    @abstractmethod
    def _compact(self) -> None:
        """Copy what is left into arrays of its size, in the same arena."""

    @abstractmethod
    def check_restored(self, audit: Audit, used: Array) -> None:
        """Raise StateCorruptError unless the parts of a snapshot fit each other; used: uint8[slots], 1: in use."""

    @abstractmethod
    def _open(self, arena: Arena) -> None:
        """Create its arrays in an arena, or find them there again."""

    @abstractmethod
    def _fit(self) -> None:
        """Have as many places as the table has slots."""


S = TypeVar("S", bound=RowState)


class KeyedRows(Operator, Generic[S]):
    """An operator with one state of keys and rows, whatever its inputs are."""

    state: S

    @property
    def states(self) -> list[S]:
        return [self.state]

    @property
    def keys(self) -> int:
        """Keys that the state holds."""
        return len(self.state.table)

    def take_narrower(self, old: Any) -> None:
        self.state.take_narrower(old.state)
        with reading_snapshot():
            self.rebuild_derived()
            self.check_restored()
        self.take_over(old)

    def key_columns(self) -> list[pa.Array]:
        return self.state.table.key_columns(self.state.used_slots())


class KeyedRowsOperator(KeyedRows[S], OneInput):
    """One of one input. The state's key table stamps keys as `written`."""

    def expire(self, now: int, ttl: int) -> None:
        """Forget the keys that were written so many milliseconds ago."""
        used = self.state.used_slots()
        expired = used[now >= self.state.table.stamps("written")[used] + ttl]
        if len(expired):
            self.counters["expired"] += len(expired)
            self.state.forget(expired)


def rows_in(store: RowStore | IdentifiedRows) -> RowStore:
    """The rows themselves of a store."""
    return store.rows if isinstance(store, IdentifiedRows) else store
