"""Keys and their accumulators in one arena: the state of every operator with a handler, and how two are merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.handlers.handler import AWAY_FROM_ZERO
from aggloom.runtime.operators.slot_state import SlotState
from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.storage.arena import FIRST_SLOTS, Arena, Array, NumberArray, SlotArray
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.key_index import KeyIndex
from aggloom.runtime.storage.pool import Pool

__all__ = ["AWAY_FROM_ZERO", "KeyedState"]


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

    @property
    def index(self) -> KeyIndex:
        """The index in which the keys are found."""
        return self.table.index

    def stamps(self, name: str) -> Array:
        """The times of this name, by slot."""
        return self.table.stamps(name)

    @property
    def windows(self) -> Array:
        """The last key column by slot, which in windows is BIGINT."""
        return np.asarray(self.index.arrays.words[:, -1])

    @property
    def capacity(self) -> int:
        """The number of slots with reserved space."""
        return self.table.capacity

    def __len__(self) -> int:
        return len(self.table)

    def lookup(self, batch: pa.RecordBatch) -> Array:
        """Return the slot of each row's key, the first columns; new keys get a new slot."""
        slots = self.table.lookup(batch)
        self._fit()
        return slots

    def lookup_only(self) -> Array:
        """Return the slot of the key without columns."""
        return self._slots(np.empty((1, 0), np.int64), np.zeros(1, self.index.mask_type))

    def find(self, key: pa.RecordBatch) -> int:
        """Return the slot of a key, given as a row of its columns; -1 if there is none."""
        return int(self.table.find(key)[0])

    def lookup_keys_of(
        self, other: KeyedState, others: SlotArray | None = None, windows: NumberArray | None = None
    ) -> Array:
        """Return the slots in this state of another state's keys at slots `others`; `windows`: their last column."""
        slots = other.index.used_slots() if others is None else others
        words, nulls = other.table.words_for(self.pool, slots)
        if windows is not None:
            # The key here is the same group in another window.
            words[:, -1] = windows
        return self._slots(words, nulls)

    def find_keys_of(self, other: KeyedState, others: SlotArray, windows: NumberArray) -> Array:
        """Find slots like `lookup_keys_of`, but with -1 for unknown keys."""
        words, nulls = other.table.words_for(self.pool, others)
        words[:, -1] = windows
        return self.index.find(words, nulls)

    def key_numbers(self, slots: SlotArray) -> Array:
        """Return numbers from 0 on that are equal for slots whose keys differ only in the last column."""
        # An index for this call alone, in whose pool the words mean the same: no key has to be decoded.
        index = KeyIndex(Arena(), self.pool, self.index.pooled[:-1].tolist())
        words, nulls = self.index.keys(slots)
        last = words.shape[1] - 1
        numbers = index.lookup(np.ascontiguousarray(words[:, :-1]), nulls & ((1 << last) - 1))
        # Its keys hold their texts in the pool, which outlives it.
        index.remove(index.used_slots())
        return numbers

    def used_slots(self) -> Array:
        return self.index.used_slots()

    @property
    def key_texts(self) -> int:
        return int(self.index.pooled.sum())

    def key_columns(self, slots: SlotArray) -> list[pa.Array]:
        """The keys of slots as columns."""
        return self.table.key_columns(slots)

    def place(self, slot: int) -> str:
        """Return a key as text, for messages."""
        return self.table.place(slot)

    def forget(self, slots: SlotArray) -> None:
        """Remove keys whose accumulators are in their initial state, and free memory."""
        self.table.forget(slots)
        # The table has shrunk: its arrays and those of the accumulators go by one slot.
        if self.table.capacity < self.accumulators.slots:
            self.accumulators.resize(self.table.capacity)
        # Once all references are given back, those of keys and of accumulators.
        self.pool.sweep()
        self.accumulators.sweep()
        if self.handler.COMPACTS and (self.table.is_airy or self.accumulators.is_airy):
            self._compact()

    def compact(self) -> None:
        """Copy the remaining keys into smaller arrays, if the accumulators can be copied."""
        if self.handler.COMPACTS:
            self._compact()

    def check_restored(self, audit: Audit) -> None:
        """Raise StateCorruptError unless the parts of a snapshot fit together."""
        super().check_restored(audit)
        self.table.check_restored(audit)
        right = self.table.capacity <= self.accumulators.slots
        audit.require(right, "keys", "there are more than accumulators")

    def _open(self, arena: Arena) -> None:
        super()._open(arena)
        self.table = KeyTable(arena, self.pool, self.key_fields, self.stamp_names)

    def _slots(self, words: Array, nulls: Array) -> Array:
        slots = self.table.lookup_words(words, nulls)
        self._fit()
        return slots

    def _fit(self) -> None:
        """Reserve accumulators for every slot."""
        if self.table.capacity > self.accumulators.slots:
            self.accumulators.resize(self.table.capacity)

    def _compact(self) -> None:
        """Copy the remaining keys into smaller arrays, by merging them into new accumulators."""
        old, keys = self.accumulators, len(self.table)
        arena = Arena()
        new = self.handler.accumulators_type(type(self.handler), arena, FIRST_SLOTS)
        table, moved = self.table.copy_into(arena, getattr(new, "pool", None) or Pool(arena))
        # One slot more than there are keys: what nothing uses is merged into it.
        table.reserve(1)
        new.resize(table.capacity)
        # Merging clears slots without rows: those with debts are moved away from zero. Insertions have no debts.
        in_debt = self.used_slots() if self.handler.RETRACTING else np.zeros(0, np.int64)
        in_debt = in_debt[old.records[in_debt] == 0]
        if in_debt.size:
            old.shift_records(in_debt, AWAY_FROM_ZERO)
        self.handler.merge_slots(new, np.where(moved < 0, keys, moved), old)
        if in_debt.size:
            new.shift_records(moved[in_debt], -AWAY_FROM_ZERO)
        new.trim()
        new.sync()
        self.arena.adopt(arena)
        self._open(self.arena)
