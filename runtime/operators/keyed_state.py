"""Keys and their accumulators in one arena: what every keyed operator remembers, and how two of them are added up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.physical import is_pooled
from aggloom.runtime.operators.slot_state import FIRST_SLOTS, SlotState
from aggloom.runtime.storage.arena import Arena, Array
from aggloom.runtime.storage.key_index import KeyIndex
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values import columns

# Accumulators reset themselves where no row is left. Where -1 +1 is a change of its own, or -1 comes before its +1,
# they are given more rows for a while than any bundle takes back.
AWAY_FROM_ZERO = 1 << 40


class KeyedState(SlotState):
    """The accumulators of a handler class by key.

    directory: where the arena's arrays are mapped, created or reopened; None keeps them on the heap.
    stamps: names of times that are kept for each key, zero for a new one.
    """

    def __init__(
        self,
        handler_class: type[Any],
        directory: Path | None = None,
        *,
        stamps: tuple[str, ...] = (),
    ) -> None:
        spec = handler_class.spec()
        self.key_fields: list[pa.Field] = list(spec.aggregate_schema)[: len(spec.group_by)]
        self.stamp_names = stamps
        super().__init__(handler_class, directory)

    def stamps(self, name: str) -> Array:
        """The times of this name, by slot."""
        return self.arena.array(f"stamp.{name}", 0, "i8")

    @property
    def windows(self) -> Array:
        """The last key column by slot, which in windows is BIGINT."""
        return np.asarray(self.index.arrays.words[:, -1])

    @property
    def capacity(self) -> int:
        """Slots that there is room for."""
        return self.index.capacity

    def __len__(self) -> int:
        return len(self.index)

    def lookup(self, batch: pa.RecordBatch) -> Array:
        """The slot of each row's key, which are the first columns; new keys get one."""
        return self._slots(*key_words(batch, self.key_fields, self.index))

    def lookup_only(self) -> Array:
        """The slot of the key without columns."""
        return self._slots(np.empty((1, 0), np.int64), np.zeros(1, self.index.mask_type))

    def lookup_keys_of(
        self, other: KeyedState, others: Array | None = None, windows: Array | None = None
    ) -> Array:
        """The slot here of another state's keys at slots `others` (all, in order); `windows`: their last column."""
        slots = other.index.used_slots() if others is None else others
        words, nulls = other._keys_for(self.pool, slots, self.index)
        if windows is not None:
            words[:, -1] = windows
        return self._slots(words, nulls)

    def find_keys_of(self, other: KeyedState, others: Array, windows: Array) -> Array:
        """As lookup_keys_of, but a key that is not here is -1."""
        words, nulls = other._keys_for(self.pool, others, self.index)
        words[:, -1] = windows
        return self.index.find(words, nulls)

    def key_numbers(self, slots: Array) -> Array:
        """Numbers from 0 on that are the same for slots whose keys differ in nothing but the last column."""
        index = KeyIndex(Arena(), self.pool, self.index.pooled[:-1].tolist())
        words, nulls = self.index.keys(slots)
        last = words.shape[1] - 1
        numbers = index.lookup(np.ascontiguousarray(words[:, :-1]), nulls & ((1 << last) - 1))
        index.remove(index.used_slots())
        return numbers

    def key_columns(self, slots: Array) -> list[pa.Array]:
        """The keys of slots as columns."""
        return key_columns(self.index, self.key_fields, slots)

    def place(self, slot: int) -> str:
        """A key in words, for messages."""
        return place_of(self.index, self.key_fields, slot)

    def forget(self, slots: Array) -> None:
        """Remove keys whose accumulators are as new, and give memory back."""
        self.index.remove(slots)
        for name in self.stamp_names:
            self.stamps(name)[slots] = 0
        if len(self.index) == 0 and self.index.capacity > FIRST_SLOTS:
            self.index.reset()
            self._resize(FIRST_SLOTS)
        self.pool.sweep()
        self.accumulators.sweep()
        if self.handler.COMPACTS and (self.index.is_airy or self.accumulators.is_airy):
            self._compact()

    def _open(self, arena: Arena) -> None:
        super()._open(arena)
        self.index = KeyIndex(arena, self.pool, [is_pooled(f.type) for f in self.key_fields])
        for name in self.stamp_names:
            arena.array(f"stamp.{name}", self.index.capacity, "i8")

    def _slots(self, words: Array, nulls: Array) -> Array:
        slots = self.index.lookup(words, nulls)
        if self.index.capacity > self.accumulators.slots:
            self._resize(self.index.capacity)
        return slots

    def _keys_for(self, pool: Pool, slots: Array, index: KeyIndex) -> tuple[Array, Array]:
        """The (words, nulls) by which another state's index knows the keys of these slots."""
        words, nulls = self.index.keys(slots)
        pool.reserve_import(self.pool)
        for column in np.flatnonzero(index.pooled):
            words[:, column] = pool.import_ids(self.pool, words[:, column])
        return words, nulls

    def _resize(self, slots: int) -> None:
        self.accumulators.resize(slots)
        for name in self.stamp_names:
            self.arena.resize(f"stamp.{name}", slots)

    def _compact(self) -> None:
        """Copy what is left into arrays of its size: merging into new accumulators is copying."""
        old, used = self.accumulators, self.index.used_slots()
        arena = Arena()
        new = self.handler.accumulators_type(type(self.handler), arena, FIRST_SLOTS)
        pool = getattr(new, "pool", None) or Pool(arena)
        index = KeyIndex(arena, pool, [is_pooled(f.type) for f in self.key_fields])
        slots = index.lookup(*self._keys_for(pool, used, index))
        # One slot more than there are keys: what nothing uses is merged into it.
        index.reserve(1)
        new.resize(index.capacity)
        target = np.full(old.slots, len(used), np.int64)
        target[used] = slots
        self.handler.merge_slots(new, target, old)
        new.trim()
        new.sync()
        for name in self.stamp_names:
            arena.array(f"stamp.{name}", index.capacity, "i8")[slots] = self.stamps(name)[used]
        self.arena.adopt(arena)
        self._open(self.arena)


def key_words(
    batch: pa.RecordBatch, fields: list[pa.Field], index: KeyIndex
) -> tuple[Array, Array]:
    """The (words, nulls) by which an index knows the keys of rows, which are the first columns."""
    n = batch.num_rows
    words = np.empty((n, len(fields)), np.int64)
    nulls = np.zeros(n, index.mask_type)
    for c, field in enumerate(fields):
        column = batch.column(c)
        if column.type != field.type:
            column = column.cast(field.type)
        found, valid = columns.words(column, index.pool)
        if column.null_count:
            nulls |= (~valid).astype(nulls.dtype) << c
        if len(fields) == 1:
            return found.reshape(n, 1), nulls
        words[:, c] = found
    return words, nulls


def key_columns(index: KeyIndex, fields: list[pa.Field], slots: Array) -> list[pa.Array]:
    """The keys at slots of an index as columns."""
    nulls = columns.take(index.arrays.nulls, slots)
    return [
        columns.from_words(
            columns.take(index.arrays.words[:, c], slots),
            (nulls >> c) & 1 == 0,
            field.type,
            index.pool,
        )
        for c, field in enumerate(fields)
    ]


def place_of(index: KeyIndex, fields: list[pa.Field], slot: int) -> str:
    """A key in words, for messages."""
    keys = key_columns(index, fields, np.array([slot], np.int64))
    shown = (f"{f.name}={k[0].as_py()!r}" for f, k in zip(fields, keys, strict=True))
    return "key " + ", ".join(shown) if keys else "the only group"
