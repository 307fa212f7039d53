"""The step of operators: the part of processing a bundle that all operators share.

A bundle is checked, then it changes the state, then it is counted. An error of the check leaves the state as it was;
one of the change closes the operator. Operators that act with each bundle forget old keys and apply rows (`KeyedStep`);
those that may keep rows until a time move a clock before the rows or after them (`ClockedStep`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import pyarrow as pa

from aggloom.runtime.operators.base import InputBatch, OneInput, Operator
from aggloom.runtime.operators.steps import Rows, concat_changes, no_rows
from aggloom.runtime.storage.arena import NumberArray
from aggloom.runtime.values.changelog import Kinds
from aggloom.runtime.values.clock import Clock

P = TypeVar("P")


class Step(Operator, Generic[P]):
    """An operator that checks a bundle, and changes its state by what the check returns (P)."""

    def run(self, inputs: Sequence[InputBatch], clock: Clock) -> Rows:
        """Check a bundle of each input, change the state, and count; return the changes of the result.

        Raises what `check` and `change` raise. After an error of `check` the state is as it was; after one of `change`
        the operator refuses further work. No clock of the operator goes back.
        """
        self.refuse_after_failure()
        # Outside of `changing_state`: an error of the input leaves the operator usable, its state as it was.
        checked = self.check(inputs, clock)
        with self.changing_state():
            changes = self.change(checked, clock)
        # Not before the change has succeeded: a bundle that is refused counts nowhere.
        self.counters["rows"] += sum(each.batch.num_rows for each in inputs)
        self.counters["emitted"] += len(changes[1])
        return changes

    @abstractmethod
    def check(self, inputs: Sequence[InputBatch], clock: Clock) -> P:
        """Return the part of a bundle that changes the state; raises DataError for a row that is not allowed."""

    @abstractmethod
    def change(self, checked: P, clock: Clock) -> Rows:
        """Apply a bundle and the clock to the state; return the emitted changes."""


class KeyedStep(OneInput, Step[Rows]):
    """An operator of one input that defines which rows are allowed (`check_rows`) and what they change (`apply`).

    state_ttl_ms: a key that was not written for so long is forgotten, without an emission; 0: never.
    """

    state_ttl_ms: int

    def check(self, inputs: Sequence[InputBatch], clock: Clock) -> Rows:
        (bundle,) = inputs
        return self.check_rows(bundle.batch, bundle.kinds)

    def change(self, checked: Rows, clock: Clock) -> Rows:
        # Before the rows are applied: a key whose time is over begins anew with its next row.
        if self.state_ttl_ms:
            self.expire(clock.processing, self.state_ttl_ms)
        batch, kinds = checked
        return self.apply(batch, kinds, clock) if batch.num_rows else no_rows(self.schema)

    def check_rows(self, batch: pa.RecordBatch, kinds: Kinds) -> Rows:
        """Return the rows of a bundle that count; raises DataError for a row that may not come."""
        return batch, kinds

    @abstractmethod
    def apply(self, batch: pa.RecordBatch, kinds: Kinds, clock: Clock) -> Rows:
        """Bring the rows of a bundle, at least one, into the state; return the changes that this brings."""

    @abstractmethod
    def expire(self, now: int, ttl: int) -> None:
        """Forget the keys that were written `ttl` milliseconds ago."""


class JoinStep(Step[Sequence[InputBatch]]):
    """An operator of several inputs that acts with each bundle: it forgets old rows, then it applies new ones."""

    def check(self, inputs: Sequence[InputBatch], clock: Clock) -> Sequence[InputBatch]:
        return inputs

    def change(self, checked: Sequence[InputBatch], clock: Clock) -> Rows:
        # Before the rows: what is forgotten meets none of them.
        self.expire(clock.processing)
        if not any(each.batch.num_rows for each in checked):
            return no_rows(self.schema)
        return self.apply(checked, clock.processing)

    @abstractmethod
    def apply(self, inputs: Sequence[InputBatch], now: int) -> Rows:
        """Bring the rows of all inputs, at least one, into the state; return the changes that this brings."""

    @abstractmethod
    def expire(self, now: int) -> None:
        """Forget what was not written for as long as it lives; now: milliseconds."""


class ClockedStep(Step[P]):
    """An operator that may hold rows until a clock has come to them.

    is_chained: its rows come from an operator that waits for the same clock, so that they are judged by the time before
    this bundle's. Parts of the step that bring no changes return None.
    """

    @property
    @abstractmethod
    def is_chained(self) -> bool: ...

    def change(self, checked: P, clock: Clock) -> Rows:
        parts = [self.drop_unwritten(clock.processing)]
        # Rows of a source are judged by the watermark that comes with them. An operator below emits its rows by the
        # same watermark: by it all of them would be late.
        if not self.is_chained:
            parts.append(self.move_clock(clock))
        parts.append(self.take(checked, clock))
        if self.is_chained:
            parts.append(self.move_clock(clock))
        parts.append(self.emit_due(clock.processing))
        return concat_changes([part for part in parts if part is not None], self.schema)

    def drop_unwritten(self, now: int) -> Rows | None:
        """Forget what was not written for as long as it lives; now: milliseconds."""
        return None

    @abstractmethod
    def move_clock(self, clock: Clock) -> Rows | None:
        """Move the operator's own clock, which never goes back, and return what is due by it alone."""

    @abstractmethod
    def take(self, checked: P, clock: Clock) -> Rows | None:
        """Bring the rows of a bundle, perhaps none, into the state."""

    def emit_due(self, now: int) -> Rows | None:
        """Return the rows that are certain now that rows have come and the clock has moved."""
        return None


def advance_time(stored: NumberArray, time: int, place: int = 0) -> None:
    """Move a stored time (int64[n], at a place) to another one, if that is later.

    Example:
        >>> import numpy as np
        >>> stored = np.array([7])
        >>> advance_time(stored, 5)
        >>> advance_time(stored, 9)
        >>> stored.tolist()
        [9]
    """
    # A replayed bundle brings the clock of its time, and time does not go back.
    stored[place] = max(int(stored[place]), time)
