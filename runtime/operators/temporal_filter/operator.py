"""TemporalFilter: a row is inserted when the clock reaches its first time, and retracted when it reaches its end.

A row is stored only while the clock can still change its visibility: before its first time, and, if it has an end,
until then. Rows that stay visible for good are emitted and not stored, and so are their retractions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.codegen import OrphanPolicy
from aggloom.errors import DataError
from aggloom.runtime.operators.base import InputBatch, OneInput, StoredKeyState
from aggloom.runtime.operators.deduplicate.immediate import cast_rows
from aggloom.runtime.operators.orphans import OrphanLedger
from aggloom.runtime.operators.rows_by_key import KeyedRows
from aggloom.runtime.operators.step import ClockedStep
from aggloom.runtime.operators.steps import Rows, concat_changes, no_rows
from aggloom.runtime.operators.temporal_filter.state import TemporalState
from aggloom.runtime.operators.temporal_filter.visible_times import BoundSettings, visible_times
from aggloom.runtime.state.row_index import ORPHAN
from aggloom.runtime.state.row_kernels import Encoded
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray
from aggloom.runtime.values import scalars
from aggloom.runtime.values.changelog import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Kinds,
    is_retraction,
)
from aggloom.runtime.values.clock import AFTER_ALL, Clock


class _TimedRows(NamedTuple):
    """Rows, their kinds, and the milliseconds at which each becomes visible (first) and invisible (end)."""

    batch: pa.RecordBatch
    kinds: Kinds
    first: Array  # int64[rows]
    end: Array  # int64[rows]


class TemporalFilterOperator(KeyedRows[TemporalState], OneInput, ClockedStep[_TimedRows]):
    """One bucket's operator; the first `keys` columns of its rows are the key.

    schema: the columns of its result; `rows` has the columns of the bounds behind them. zone: the time zone of dates
    and of times without a zone. only_added: rows are not retracted. on_orphan_retraction: the policy for retractions
    of visible rows that never arrived.
    """

    handler_class = None
    keeps_calls = "it has no calls"
    update_before = True
    is_chained = False

    def __init__(
        self,
        schema: pa.Schema,
        keys: int,
        *,
        rows: pa.Schema,
        bounds: Sequence[BoundSettings],
        condition: str,
        zone: str = "UTC",
        only_added: bool = False,
        on_orphan_retraction: OrphanPolicy = "drop",
        directory: Path | None = None,
    ) -> None:
        self.schema, self._rows, self._bounds = schema, rows, tuple(bounds)
        self._condition, self._zone, self._only_added = condition, zone, only_added
        self._policy = on_orphan_retraction
        self.state = TemporalState(
            schema,
            keys,
            only_added=only_added,
            keeps_debts=on_orphan_retraction == "keep",
            directory=directory,
        )
        self.counters = {"rows": 0, "orphans_dropped": 0, "passed": 0, "emitted": 0}

    @property
    def name(self) -> str:
        return f"rows by the clock: {self._condition}"

    @property
    def now(self) -> int:
        """The clock of the last check of rows, in milliseconds."""
        return int(self.state.clock[0])

    def contents(self) -> Rows:
        """The stored rows that are visible, each an insertion; rows that stay visible for good are not stored."""
        rows = self.state.gather(self._present(self.state.bag.rows.live()))
        return rows, np.full(rows.num_rows, INSERT, np.int8)

    def count_key_rows(self) -> Array:
        return self.state.count_slot_rows(self.state.used_slots())

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        slots = self.state.table.find(key)
        if slots[0] < 0:
            return
        id_lists = [ids for _, ids in self.state.bag.walk(slots)]
        ids = np.concatenate([np.zeros(0, np.int64), *id_lists])
        records = int(self.state.bag.counts(ids).sum())
        rows = self.state.gather(self._present(ids)).to_pylist()
        for row in rows:
            yield StoredKeyState(None, None, records=records, results=row)
        if not rows:
            # All rows of the key wait.
            yield StoredKeyState(None, None, records=records, results={})

    def next_timers(self) -> tuple[int | None, int | None]:
        due = int(self.state.due[0])
        return None, None if due >= AFTER_ALL else due

    def check(self, inputs: Sequence[InputBatch], clock: Clock) -> _TimedRows:
        """Return rows with their times; raises DataError for a retraction if the plan says that there are none."""
        (bundle,) = inputs
        if self._only_added and is_retraction(bundle.kinds).any():
            row = int(np.argmax(is_retraction(bundle.kinds)))
            raise DataError(f"row {row} retracts a row; the plan says that rows are only added")
        batch = cast_rows(bundle.batch, self._rows)
        first, end = visible_times(batch, self._bounds, self._zone)
        return _TimedRows(batch.select(range(len(self.schema))), bundle.kinds, first, end)

    def move_clock(self, clock: Clock) -> Rows:
        """Move the clock. Return the deletions of rows that become invisible, then the insertions of visible ones."""
        state, before = self.state, self.now
        # The end of a batch query is no time of day: its answer is that of the time at which it ran.
        if clock.processing <= before or clock.processing >= AFTER_ALL:
            return no_rows(self.schema)
        now = state.clock[0] = clock.processing
        # No row changes before the earliest time of all rows.
        if now < state.due[0]:
            return no_rows(self.schema)
        ids = state.bag.rows.live()
        first, end = state.times(ids)
        left = ids[(end <= now) & (first <= before)]
        # A row whose time lies between two positions of the clock was never visible.
        entered = ids[(first > before) & (first <= now) & (end > now)]
        parts = [
            (rows, np.full(rows.num_rows, kind, np.int8))
            for kind, rows in ((DELETE, state.gather(left)), (INSERT, state.gather(entered)))
        ]
        # The clock no longer changes rows that have left, and rows that never leave.
        over = (end <= now) | ((first <= now) & (end >= AFTER_ALL))
        if over.any():
            state.drop(ids[over])
        state.drop_debts(now)
        state.due[0] = min(map(int, _next_times(first[~over], end[~over], now)), default=AFTER_ALL)
        return concat_changes(parts, self.schema)

    def take(self, checked: _TimedRows, clock: Clock) -> Rows | None:
        """Pass on the rows that are visible, and store those that wait or will leave.

        Raises OrphanRetractionError (policy error).
        """
        if not checked.batch.num_rows:
            return None
        now = self.now
        lives = (checked.end > now) & (checked.end > checked.first)
        self.counters["passed"] += int((~lives).sum())
        present = lives & (checked.first <= now)
        waiting = np.flatnonzero(lives & ~(present & (checked.end >= AFTER_ALL)))
        if len(waiting):
            present[self._store(checked, waiting)] = False
        visible = np.flatnonzero(present)
        rows = checked.batch
        if len(visible) < len(present):
            rows = rows.take(scalars.from_places(visible))
        return rows, _pair_kinds(checked.kinds, present)[visible]

    def _store(self, rows: _TimedRows, places: NumberArray) -> Array:
        """Apply rows at these places to the state; return the places of those that emit nothing."""
        state = self.state
        some = rows.batch.take(scalars.from_places(places))
        first, end, retracts = (
            rows.first[places],
            rows.end[places],
            is_retraction(rows.kinds[places]),
        )
        slots = state.lookup(some)
        encoded = state.bag.rows.encode(state.store(some, first, end))
        ledger = OrphanLedger(state.table, state.debts, policy=self._policy, counters=self.counters)
        # Debts first: a row whose retraction arrived before it pays that debt, and is not stored.
        left = ledger.cancel(slots, retracts, encoded.take)
        orphans = left[self._apply(slots[left], encoded.take(left), retracts[left])]
        silent = np.ones(len(places), np.bool_)
        silent[left] = False
        if len(orphans):
            ledger.report(places[orphans], slots[orphans])
            if ledger.keeps:
                # The row may follow later in this bundle.
                never = orphans[
                    self._apply(slots[orphans], encoded.take(orphans), retracts[orphans])
                ]
                ledger.add(slots[never], encoded.take(never))
                orphans = never
            silent[orphans] = True
        state.due[0] = min([int(state.due[0]), *_next_times(first, end, self.now)])
        # Insertions leave no key without rows.
        if retracts.any():
            state.leave(np.unique(slots))
        return places[silent]

    def _apply(self, slots: Array, encoded: Encoded, retracts: FlagArray) -> Array:
        """Apply changes to the rows; return the places of those that retract what is not there."""
        applied = self.state.bag.apply_encoded(slots, encoded, retracts)
        gone = applied.gone[applied.gone >= 0]
        if len(gone):
            self.state.bag.free(gone)
        return np.flatnonzero(applied.outcomes == ORPHAN)

    def _present(self, ids: Array) -> Array:
        """Those of stored rows that are there now."""
        first, end = self.state.times(ids)
        return ids[(first <= self.now) & (end > self.now)]


def _next_times(first: NumberArray, end: NumberArray, now: int) -> list[int]:
    """The next time at which one of these rows comes, and at which one leaves, if there are any."""
    waiting = first[first > now]
    return [int(times.min()) for times in (waiting, end) if len(times)]


def _pair_kinds(kinds: Kinds, visible: FlagArray) -> Kinds:
    """The kinds of rows of which only some are shown: half an update, next to its other half, is a change by itself."""
    before, after = kinds == UPDATE_BEFORE, kinds == UPDATE_AFTER
    whole = np.zeros(len(kinds), np.bool_)
    pairs = before[:-1] & after[1:] & visible[:-1] & visible[1:]
    whole[:-1] |= pairs
    whole[1:] |= pairs
    result = kinds.copy()
    result[before & ~whole] = DELETE
    result[after & ~whole] = INSERT
    return result
