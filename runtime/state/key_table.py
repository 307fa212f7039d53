"""The key table: key columns -> slot, and times by slot. It needs no handler.

A slot is a small number: what an operator remembers of a key stands at that place of its arrays. Slots of forgotten
keys are reused.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from aggloom.runtime.storage.arena import FIRST_SLOTS, Arena, Array, KeyArray, NullArray, SlotArray
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.index_audit import check_key_index
from aggloom.runtime.storage.key_index import KeyIndex
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values import columns
from aggloom.type_layout import is_pooled


class KeyTable:
    """Keys of some columns in an arena, created there or found there again.

    fields: the key columns, at most 64. stamps: names of times that are kept for each key, zero for a new one.
    prefix: what the names of its arrays begin with, where an arena has several tables.
    """

    def __init__(
        self,
        arena: Arena,
        pool: Pool,
        fields: list[pa.Field],
        stamps: tuple[str, ...] = (),
        prefix: str = "",
    ) -> None:
        self.arena, self.pool, self.fields = arena, pool, fields
        self.stamp_names, self.prefix = stamps, prefix
        self.index = KeyIndex(arena, pool, [is_pooled(f.type) for f in fields], f"{prefix}index")
        for name in stamps:
            arena.array(self._stamp(name), self.index.capacity, "i8")

    def __len__(self) -> int:
        return len(self.index)

    @property
    def capacity(self) -> int:
        """Slots that there is room for: arrays by slot need as many places."""
        return self.index.capacity

    @property
    def is_airy(self) -> bool:
        """True if copying the keys that are left would give much memory back."""
        return self.index.is_airy

    @property
    def key_bytes(self) -> int:
        """Bytes that a key takes in arrays that are full, without those of its strings in the pool."""
        nulls = self.index.arrays.nulls.itemsize
        # Words, nulls, the mark of a slot in use, and a cell: 8 bytes in a table that is two thirds full.
        return 8 * len(self.fields) + nulls + 1 + 12 + 8 * len(self.stamp_names)

    def check_restored(self, audit: Audit) -> Array:
        """Raise StateCorruptError unless the arrays of a snapshot are a table; the slots in use (uint8[slots])."""
        check_key_index(self.index, audit)
        self._note_types(audit)
        for name in self.stamp_names:
            audit.require_length(self.capacity, self._stamp(name), self.stamps(name))
        used: Array = self.index.arrays.used
        return used

    def _note_types(self, audit: Audit) -> None:
        if not self.index.pooled.any():
            return
        words, nulls = self.index.keys(self.used_slots())
        for c in np.flatnonzero(self.index.pooled):
            # NumPy has no uint64 >> int64.
            valid = (nulls >> nulls.dtype.type(c)) & 1 == 0
            audit.note_type(self.fields[c].type, words[valid, c])

    def lookup(self, batch: pa.RecordBatch) -> Array:
        """The slot of each row's key, which are the first columns; new keys get one."""
        return self.lookup_words(*key_words(batch, self.fields, self.index))

    def lookup_words(self, words: KeyArray, nulls: NullArray) -> Array:
        """Look up keys that are (words, nulls) of this table's pool."""
        slots = self.index.lookup(words, nulls)
        self._fit_stamps()
        return slots

    def find(self, batch: pa.RecordBatch) -> Array:
        """The slot of each row's key, which are the first columns; -1 for keys that are not there."""
        return self.index.find(*key_words(batch, self.fields, self.index))

    def used_slots(self) -> Array:
        """The slots of all keys, rising."""
        return self.index.used_slots()

    def stamps(self, name: str) -> Array:
        """The times of this name, by slot."""
        return self.arena.array(self._stamp(name), 0, "i8")

    def key_columns(self, slots: SlotArray) -> list[pa.Array]:
        """The keys of slots as columns."""
        return key_columns(self.index, self.fields, slots)

    def place(self, slot: int) -> str:
        """A key in words, for messages."""
        return place_of(self.index, self.fields, slot)

    def reserve(self, keys: int) -> None:
        """Make room for so many more keys."""
        self.index.reserve(keys)
        self._fit_stamps()

    def forget(self, slots: SlotArray) -> None:
        """Remove keys; their slots are free. Gives the memory back where none is left: `capacity` is less then."""
        self.index.remove(slots)
        for name in self.stamp_names:
            # A slot that is given out again has to look new.
            self.stamps(name)[slots] = 0
        if len(self.index) == 0 and self.index.capacity > FIRST_SLOTS:
            self.index.reset()
            self._fit_stamps()

    def words_for(self, pool: Pool, slots: SlotArray) -> tuple[Array, Array]:
        """The (words, nulls) of the keys at slots, as words of another pool."""
        words, nulls = self.index.keys(slots)
        pool.reserve_import(self.pool)
        for column in np.flatnonzero(self.index.pooled):
            words[:, column] = pool.import_ids(self.pool, words[:, column])
        return words, nulls

    def copy_into(self, arena: Arena, pool: Pool) -> tuple[KeyTable, Array]:
        """Copy what is left into another arena: the new table, and by old slot the new one, -1 where none was used."""
        used = self.used_slots()
        new = KeyTable(arena, pool, self.fields, self.stamp_names, self.prefix)
        slots = new.lookup_words(*self.words_for(pool, used))
        for name in self.stamp_names:
            new.stamps(name)[slots] = self.stamps(name)[used]
        moved = np.full(self.capacity, -1, np.int64)
        moved[used] = slots
        return new, moved

    def _stamp(self, name: str) -> str:
        return f"{self.prefix}stamp.{name}"

    def _fit_stamps(self) -> None:
        for name in self.stamp_names:
            if len(self.stamps(name)) != self.index.capacity:
                self.arena.resize(self._stamp(name), self.index.capacity)


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
        encoded, valid = columns.words(column, index.pool)
        if column.null_count:
            nulls |= (~valid).astype(nulls.dtype) << c
        if len(fields) == 1:
            # The words of the only column are the keys: nothing is copied.
            return encoded.reshape(n, 1), nulls
        words[:, c] = encoded
    return words, nulls


def key_columns(index: KeyIndex, fields: list[pa.Field], slots: SlotArray) -> list[pa.Array]:
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
    values = (f"{f.name}={k[0].as_py()!r}" for f, k in zip(fields, keys, strict=True))
    return "key " + ", ".join(values) if keys else "the only group"
