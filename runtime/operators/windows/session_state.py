"""Sessions with their accumulators, in one arena."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.slot_state import SlotState
from aggloom.runtime.operators.windows.session_table import SessionTable
from aggloom.runtime.state.key_table import key_columns, key_words, place_of
from aggloom.runtime.storage.arena import FIRST_SLOTS, Arena, Array, NumberArray, SlotArray
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.index_audit import check_key_index
from aggloom.runtime.storage.key_index import KeyIndex
from aggloom.type_layout import is_pooled


class SessionState(SlotState):
    """The accumulators of a handler class by session; the keys are all group keys but the last."""

    def __init__(self, handler_class: type[Any], directory: Path | None = None) -> None:
        spec = handler_class.spec()
        # Before super(), which opens the arena and needs them for the index.
        self.key_fields: list[pa.Field] = list(spec.aggregate_schema)[: len(spec.group_by) - 1]
        super().__init__(handler_class, directory)

    def __len__(self) -> int:
        return len(self.sessions)

    @property
    def capacity(self) -> int:
        """Slots that there is room for."""
        return self.sessions.capacity

    def enter(
        self, batch: pa.RecordBatch, starts: NumberArray, ends: NumberArray, closed: int
    ) -> tuple[Array, Array]:
        """(the session of each row or -1 if it is late, sessions merged away); see SessionTable.place."""
        keys = self.index.lookup(*key_words(batch, self.key_fields, self.index))
        slots, merged = self.sessions.place(keys, self.index.capacity, starts, ends, closed)
        if self.capacity > self.accumulators.slots:
            self.resize(self.capacity)
        # The lookup has entered keys of late rows, too, which have no session.
        self._drop_keys(keys[slots < 0])
        return slots, merged

    def gather(self, merged: SlotArray) -> None:
        """Move the contents of merged sessions to the sessions that they are part of now."""
        if len(merged):
            self.move(merged, self.sessions.roots(merged))

    def forget(self, slots: SlotArray) -> None:
        """Forget sessions whose accumulators are as new, and give memory back."""
        if not len(slots):
            return
        # Read first: a freed session has lost its key.
        keys = self.sessions.arrays.key[slots].astype(np.int64)
        self.sessions.free(slots)
        self._drop_keys(keys)
        if len(self.sessions) == 0 and self.capacity > FIRST_SLOTS:
            self.sessions.reset()
            self.index.reset()
            self.resize(FIRST_SLOTS)
        self.pool.sweep()
        self.accumulators.sweep()

    def used_slots(self) -> Array:
        return self.sessions.live()

    @property
    def key_texts(self) -> int:
        return int(self.index.pooled.sum())

    def key_columns(self, slots: SlotArray) -> list[pa.Array]:
        """The keys of sessions as columns."""
        keys = self.sessions.arrays.key[slots].astype(np.int64)
        return key_columns(self.index, self.key_fields, keys)

    def place(self, slot: int) -> str:
        """A session's key in words, for messages."""
        return place_of(self.index, self.key_fields, int(self.sessions.arrays.key[slot]))

    def _drop_keys(self, keys: NumberArray) -> None:
        """Remove the keys among these that have no session."""
        keys = np.unique(keys)
        self.index.remove(keys[self.sessions.arrays.head[keys] == 0])

    def check_restored(self, audit: Audit) -> None:
        """Raise StateCorruptError unless the parts of a snapshot fit each other."""
        super().check_restored(audit)
        check_key_index(self.index, audit)
        self.sessions.check_restored(audit, self.index.arrays.used)
        right = self.capacity <= self.accumulators.slots
        audit.require(right, "sessions", "there are more than accumulators")

    def _open(self, arena: Arena) -> None:
        super()._open(arena)
        pooled = [is_pooled(field.type) for field in self.key_fields]
        self.index = KeyIndex(arena, self.pool, pooled, "keys")
        self.sessions = SessionTable(arena)
