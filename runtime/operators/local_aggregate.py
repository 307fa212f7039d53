"""The local half of a two-phase aggregate: rows in, their accumulators out, nothing remembered between bundles.

It follows Flink's MiniBatchLocalGroupAggFunction. What it emits is merged by a GroupAggOperator of
the same handler, the global half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.keyed_state import AWAY_FROM_ZERO, KeyedState
from aggloom.runtime.storage.arena import SlotArray
from aggloom.runtime.values.changelog import Kinds, is_retraction
from aggloom.runtime.values.key_hash import key_hashes, sort_by_bucket


class LocalAggregator:
    """Accumulators of the rows of one bundle by key, as far as they go together in one blob."""

    def __init__(self, handler_class: type[Any]) -> None:
        self._class = handler_class
        self._state = KeyedState(handler_class)
        self._started = self.rows = 0

    @property
    def keys(self) -> int:
        """Keys since the last `take`."""
        return len(self._state)

    @property
    def entries(self) -> int:
        """Keys, and what their views hold: how much there is to send."""
        views = self._state.accumulators.views.values()
        return max(self.keys, *(int(getattr(view, "live", 0)) for view in views), 0)

    @property
    def state_bytes(self) -> int:
        """Bytes of the accumulators, free room included."""
        return self._state.arena.nbytes

    def add(self, batch: pa.RecordBatch, kinds: Kinds) -> None:
        """Accumulate and retract rows (columns of the spec's handler_schema, a row kind each)."""
        state = self._state
        slots = state.lookup(batch)
        # Accumulators away from zero: rows that are retracted may come before those that they retract.
        if self._class.RETRACTING and len(state) > self._started:
            self._shift(np.arange(self._started, len(state)), AWAY_FROM_ZERO)
            self._started = len(state)
        inputs = state.handler.bind(batch)
        state.handler.update(inputs, slots, is_retraction(kinds), keep_orphans=True)
        self.rows += len(slots)

    def take(self) -> bytes:
        """The accumulators so far, as bytes; the next row begins anew."""
        if self._class.RETRACTING:
            self._shift(np.arange(self._started), -AWAY_FROM_ZERO)
        # Where they were, so that whoever merges them counts rows.
        data = self._state.snapshot()
        self._state = KeyedState(self._class)
        self._started = self.rows = 0
        return data

    def spread(self, keys: Sequence[int], buckets: int) -> Iterator[tuple[int, LocalAggregator]]:
        """The accumulators by the bucket of the key columns at these places, in aggregators of their own."""
        if buckets == 1:
            yield 0, self
            return
        slots = self._state.used_slots()
        columns = self._state.key_columns(slots)
        hashes = key_hashes([columns[place] for place in keys], len(slots))
        order, bounds = sort_by_bucket(hashes, buckets)
        for bucket in range(buckets):
            chosen = slots[order[bounds[bucket] : bounds[bucket + 1]]]
            if len(chosen):
                part = LocalAggregator(self._class)
                part._absorb(self._state, chosen)
                yield bucket, part

    def _absorb(self, other: KeyedState, slots: SlotArray) -> None:
        """Take accumulators of another aggregator, which has shifted them as this one does."""
        state = self._state
        targets = state.lookup_keys_of(other, slots)
        state.handler.merge_slots(state.accumulators, targets, other.accumulators, slots)
        self._started = len(state)

    def _shift(self, slots: SlotArray, by: int) -> None:
        self._state.accumulators.shift_records(slots, by)
