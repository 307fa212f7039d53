"""Accumulators by slot in an arena: what every stateful operator's memory is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from aggloom.runtime.storage.arena import FIRST_SLOTS, Arena, Array, SlotArray
from aggloom.runtime.storage.audit import Audit, reading_snapshot
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values.pool_checks import check_pooled_values
from aggloom.type_layout import is_pooled

_PLAIN = frozenset(("COUNT", "MAX", "MIN"))
"""Functions that store the values of their argument as they are."""


class SlotState:
    """The accumulators of a handler class, by slot.

    directory: where the arena's arrays are mapped, created or reopened; None keeps them on the heap.
    """

    def __init__(self, handler_class: type[Any], directory: Path | None = None) -> None:
        self.handler = handler_class()
        self.spec = handler_class.spec()
        self._open(Arena(directory))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.used_slots()):,} in use; {self.accumulators!r})"

    @property
    def records(self) -> Array:
        """Number of rows that each slot holds."""
        return np.asarray(self.accumulators.records)

    def count_key_rows(self) -> Array | None:
        """Return how many rows each slot in use holds; None where rows only come, so that nobody counts them."""
        counts = self.handler.FIELDS[0].dtype == "i8"
        return self.records[self.used_slots()] if counts else None

    def used_slots(self) -> Array:
        """The slots in use."""
        return np.flatnonzero(self.records).astype(np.int64)

    @property
    def key_texts(self) -> int:
        """Number of columns of a slot's key that are texts."""
        return 0

    def merge(self, slots: SlotArray, other: SlotState, others: SlotArray | None = None) -> None:
        """Add another state's accumulators to the given slots: those at slots `others`, or 0, 1, ... in order."""
        self.handler.merge_slots(self.accumulators, slots, other.accumulators, others)

    def move(self, slots: SlotArray, targets: SlotArray) -> None:
        """Add the accumulators at slots to those at others, one for each, and make the slots as new."""
        handler, n = self.handler, len(slots)
        # By way of new accumulators: no function is written to read the views that it changes.
        moving = handler.create(n)
        handler.merge_slots(moving, np.arange(n), self.accumulators, slots)
        self.reset(slots)
        handler.merge_slots(self.accumulators, targets, moving)

    def reset(self, slots: SlotArray) -> None:
        """Make the accumulators at slots as new."""
        if len(slots):
            self.handler.KERNELS.reset(self.accumulators.state, slots)

    def resize(self, slots: int) -> None:
        """Make room for so many slots, or fewer when those beyond are as new."""
        self.accumulators.resize(slots)

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        self.accumulators.sync()
        return self.arena.snapshot()

    def restore(self, data: bytes | memoryview) -> None:
        """Replace the state by a snapshot's; raises StateCorruptError."""
        self.arena.restore(data)
        with reading_snapshot():
            self._open(self.arena)
            audit = Audit(self.pool)
            self.check_restored(audit)
            self._note_types(audit)
            audit.finish()
            check_pooled_values(audit)

    def check_restored(self, audit: Audit) -> None:
        """Raise StateCorruptError unless the parts of a snapshot fit each other."""
        self.accumulators.check_restored(audit)

    def _note_types(self, audit: Audit) -> None:
        """Note the type of all strings where the spec has one pooled type, and no call packs several values into one.

        Accumulators do not say the types of their strings.
        """
        types = {field.type for field in self.spec.handler_schema if is_pooled(field.type)}
        plain = all(
            call.function in _PLAIN and len(call.args) <= 1 and not call.order_by
            for call in self.spec.calls
        )
        if len(types) == 1 and plain and not self.spec.functions:
            # All strings that accumulators hold are then values of this one type.
            (dtype,) = types
            audit.note_type(dtype, np.flatnonzero(audit.references))

    def flush_files(self) -> None:
        """Bring everything into the mapped files."""
        self.accumulators.sync()
        self.arena.flush()

    def _open(self, arena: Arena) -> None:
        self.arena = arena
        self.accumulators = self.handler.accumulators_type(type(self.handler), arena, FIRST_SLOTS)
        self.pool: Pool = getattr(self.accumulators, "pool", None) or Pool(arena)
        self.handler.set(self.accumulators, None)
