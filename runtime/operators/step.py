"""The step of operators with one input and keys: what they do alike with every bundle stands here, once."""

from __future__ import annotations

from abc import abstractmethod

import pyarrow as pa

from aggloom.runtime.operators.base import OneInput, Partials
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.values.changelog import Kinds
from aggloom.runtime.values.clock import NO_TIME, Clock


class KeyedStep(OneInput):
    """An operator that says which rows may come (`check`) and which changes they bring (`apply`).

    state_ttl_ms: a key that was not written for so long is forgotten, without a message; 0: never.
    """

    state_ttl_ms: int

    def process(
        self, batch: pa.RecordBatch, kinds: Kinds, clock: Clock = NO_TIME, partials: Partials = ()
    ) -> Rows:
        """Check a bundle, forget keys that are too old, apply the bundle, and count.

        kinds: int8[n]. Raises what `check` and `apply` raise. After an error of `check` the state is as it was; after
        one of `apply` the operator refuses further work.
        """
        self.refuse_after_failure()
        batch, kinds = self.check(batch, kinds)
        with self.changing_state():
            if self.state_ttl_ms:
                self.expire(clock.processing, self.state_ttl_ms)
            changes = no_rows(self.schema)
            if batch.num_rows:
                changes = self.apply(batch, kinds, clock)
        self.counters["rows"] += batch.num_rows
        self.counters["emitted"] += len(changes[1])
        return changes

    def check(self, batch: pa.RecordBatch, kinds: Kinds) -> Rows:
        """Return the rows of a bundle that count; raises DataError for a row that may not come."""
        return batch, kinds

    @abstractmethod
    def apply(self, batch: pa.RecordBatch, kinds: Kinds, clock: Clock) -> Rows:
        """Bring the rows of a bundle, at least one, into the state; return the changes that this brings."""

    @abstractmethod
    def expire(self, now: int, ttl: int) -> None:
        """Forget the keys that were written `ttl` milliseconds ago."""
