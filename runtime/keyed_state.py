"""Keys and their accumulators in one arena: what every keyed operator remembers, and how two of them are added up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.physical import is_pooled
from aggloom.runtime import columns
from aggloom.runtime.arena import Arena, Array
from aggloom.runtime.keyindex import FIRST_SLOTS, KeyIndex
from aggloom.runtime.pool import Pool

# Accumulators reset themselves where no row is left. Where -1 +1 is a change of its own, or -1 comes before its +1,
# they are given more rows for a while than any bundle takes back.
AWAY_FROM_ZERO = 1 << 40


class KeyedState:
    """The accumulators of a handler class by key.

    directory: where the arena's arrays are mapped, created or reopened; None keeps them on the heap.
    stamped: a time is kept for each key (`written`), zero for a new one.
    """

    def __init__(
        self, handler_class: type[Any], directory: Path | None = None, *, stamped: bool = False
    ) -> None:
        self.handler = handler_class()
        self.spec = handler_class.spec()
        self.key_fields: list[pa.Field] = list(self.spec.aggregate_schema)[
            : len(self.spec.group_by)
        ]
        self._stamped = stamped
        self._open(Arena(directory))

    @property
    def records(self) -> Array:
        """How many rows each slot holds."""
        return np.asarray(self.accumulators.records)

    @property
    def written(self) -> Array:
        """The time kept for each slot."""
        return self.arena.array("ttl.written", 0, "i8")

    @property
    def capacity(self) -> int:
        """Slots that there is room for."""
        return self.index.capacity

    def __len__(self) -> int:
        return len(self.index)

    def lookup(self, batch: pa.RecordBatch) -> Array:
        """The slot of each row's key, which are the first columns; new keys get one."""
        n = batch.num_rows
        words = np.zeros((n, len(self.key_fields)), np.int64)
        nulls = np.zeros(n, self.index.mask_type)
        for c, field in enumerate(self.key_fields):
            column = batch.column(c)
            if column.type != field.type:
                column = column.cast(field.type)
            words[:, c], valid = columns.words(column, self.pool)
            nulls |= (~valid).astype(nulls.dtype) << c
        return self._slots(words, nulls)

    def lookup_keys_of(self, other: KeyedState) -> Array:
        """The slot here of each key of another state, in the order of its slots."""
        return self._slots(*other._keys_for(self.pool, other.index.used_slots(), self.index))

    def merge(self, slots: Array, other: KeyedState) -> None:
        """Add another state's accumulators, of which no key was ever removed, to the given slots."""
        self.handler.merge_slots(self.accumulators, slots, other.accumulators)

    def key_columns(self, slots: Array) -> list[pa.Array]:
        """The keys of slots as columns."""
        words, nulls = self.index.arrays.words[slots], self.index.arrays.nulls[slots]
        return [
            columns.from_words(words[:, c].copy(), (nulls >> c) & 1 == 0, field.type, self.pool)
            for c, field in enumerate(self.key_fields)
        ]

    def place(self, slot: int) -> str:
        """A key in words, for messages."""
        keys = self.key_columns(np.array([slot], np.int64))
        shown = (f"{f.name}={k[0].as_py()!r}" for f, k in zip(self.key_fields, keys, strict=True))
        return "key " + ", ".join(shown) if keys else "the only group"

    def forget(self, slots: Array) -> None:
        """Remove keys whose accumulators are as new, and give memory back."""
        self.index.remove(slots)
        if len(self.index) == 0 and self.index.capacity > FIRST_SLOTS:
            self.index.reset()
            self._resize(FIRST_SLOTS)
        self.pool.sweep()
        self.accumulators.sweep()
        if self.handler.COMPACTS and (self.index.is_airy or self.accumulators.is_airy):
            self._compact()

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        self.accumulators.sync()
        return self.arena.snapshot()

    def restore(self, data: bytes | memoryview) -> None:
        """Replace the state by a snapshot's; raises StateCorruptError."""
        self.arena.restore(data)
        self._open(self.arena)

    def flush_files(self) -> None:
        """Bring everything into the mapped files."""
        self.accumulators.sync()
        self.arena.flush()

    def _open(self, arena: Arena) -> None:
        self.arena = arena
        self.accumulators = self.handler.accumulators_type(type(self.handler), arena, FIRST_SLOTS)
        self.pool = getattr(self.accumulators, "pool", None) or Pool(arena)
        self.index = KeyIndex(arena, self.pool, [is_pooled(f.type) for f in self.key_fields])
        arena.array("ttl.written", self.index.capacity if self._stamped else 0, "i8")
        self.handler.set(self.accumulators, None)

    def _slots(self, words: Array, nulls: Array) -> Array:
        slots = self.index.lookup(words, nulls)
        if self.index.capacity > self.accumulators.slots:
            self._resize(self.index.capacity)
        return slots

    def _keys_for(self, pool: Pool, slots: Array, index: KeyIndex) -> tuple[Array, Array]:
        """The (words, nulls) by which another state's index knows the keys of these slots."""
        words, nulls = self.index.arrays.words[slots], self.index.arrays.nulls[slots]
        pool.reserve_import(self.pool)
        for column in np.flatnonzero(index.pooled):
            words[:, column] = pool.import_ids(self.pool, words[:, column])
        return words, nulls

    def _resize(self, slots: int) -> None:
        self.accumulators.resize(slots)
        if self._stamped:
            self.arena.resize("ttl.written", slots)

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
        if self._stamped:
            written = arena.array("ttl.written", index.capacity, "i8")
            written[slots] = self.written[used]
        self.arena.adopt(arena)
        self._open(self.arena)
