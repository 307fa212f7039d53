"""Deduplicate that waits for the watermark and then gives each row out once and for all.

Two forms wait. The first row by event time is certain once the watermark has come to its time: rows of the same key
that come later are not looked at. The first or the last row of a key in a window is certain when the window ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.base import InputBatch, StoredKeyState
from aggloom.runtime.operators.deduplicate.choice import (
    Keep,
    choose,
    event_numbers,
    milliseconds_of,
)
from aggloom.runtime.operators.deduplicate.immediate import (
    cast_rows,
    name_choice,
    read_row_state,
    refuse_retractions,
)
from aggloom.runtime.operators.deduplicate.state import EMITTED, NONE, DeduplicateState
from aggloom.runtime.operators.rows_by_key import KeyedRowsOperator
from aggloom.runtime.operators.step import ClockedStep, advance_time
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values.changelog import INSERT, Kinds
from aggloom.runtime.values.clock import Clock


class _TimedRows(NamedTuple):
    """Rows, when each is due (int64[n], milliseconds), and the times by which they are chosen, if they have any."""

    batch: pa.RecordBatch
    kinds: Kinds
    due: Array  # int64[rows]
    times: Array | None  # int64[rows]


class WaitingDeduplicateOperator(KeyedRowsOperator[DeduplicateState], ClockedStep[_TimedRows]):
    """One bucket's operator over rows that are only added; its result is only added to.

    order: the time column by which rows are chosen; None: by arrival. window_end: the key column at which a row's
    window ends; None: rows wait for their own times. zone: on whose clocks times without one lie. is_chained: rows come
    from another operator that waits for the same watermark, so that they are judged by the one before. state_ttl_ms:
    after how long a key whose row was emitted is forgotten. late_rows: whether rows that arrive too late are handed
    out; they are counted in any case.
    """

    handler_class = None
    keeps_calls = "it has no calls"
    update_before = True

    def __init__(
        self,
        schema: pa.Schema,
        keys: int,
        keep: Keep,
        *,
        order: str | None,
        window_end: str | None = None,
        zone: str = "UTC",
        is_chained: bool = False,
        late_rows: bool = False,
        state_ttl_ms: int = 0,
        directory: Path | None = None,
    ) -> None:
        self.schema, self.keep, self.order = schema, keep, order
        self._end, self._zone, self._is_chained = window_end, zone, is_chained
        self._ttl, self._hands_out = state_ttl_ms, late_rows
        # Without an order the window's end alone decides when a row is emitted, so no other time is stored.
        times = ("due",) if order is None else ("time", "due")
        self.state = DeduplicateState(schema, keys, True, times, directory)
        self._late: list[Rows] = []
        self.counters = {"rows": 0, "expired": 0, "late_dropped": 0, "emitted": 0}

    @property
    def name(self) -> str:
        return name_choice(self.keep, self.state)

    @property
    def is_chained(self) -> bool:
        return self._is_chained

    def check(self, inputs: Sequence[InputBatch], clock: Clock) -> _TimedRows:
        """Return rows with their times; raises DataError for one that retracts one, or has no time."""
        (bundle,) = inputs
        refuse_retractions(bundle.kinds, self.name)
        batch = cast_rows(bundle.batch, self.schema)
        due = milliseconds_of(batch, self._end or self.order or "", self._zone)
        times = None if self.order is None else event_numbers(batch, self.order)
        return _TimedRows(batch, bundle.kinds, due, times)

    def contents(self) -> Rows:
        """No row: what waits is not emitted yet, and what was emitted is not kept."""
        return no_rows(self.schema)

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        return read_row_state(self.state, key, bool(self._ttl))

    def next_timers(self) -> tuple[int | None, int | None]:
        waiting = self.state.with_rows()
        if not len(waiting):
            return None, None
        # The earliest of all keys: one timer serves the whole bucket.
        return int(self.state.time("due")[waiting].min()), None

    def take_late(self) -> list[Rows]:
        late, self._late = self._late, []
        return late

    def drop_unwritten(self, now: int) -> None:
        """Forget keys whose row was emitted so long ago; those that wait stay."""
        if not self._ttl:
            return
        used = self.state.used_slots()
        # Keys whose row waits stay: forgetting them would drop a row that was never emitted.
        used = used[self.state.row[used] == EMITTED]
        expired = used[now >= self.state.write_times[used] + self._ttl]
        if len(expired):
            self.counters["expired"] += len(expired)
            self.state.row[expired] = NONE
            self.state.forget(expired)

    def move_clock(self, clock: Clock) -> None:
        advance_time(self.state.clock, clock.watermark)

    def take(self, checked: _TimedRows, clock: Clock) -> None:
        """Put rows that are in time in the places of those that they are chosen over."""
        batch, kinds, due, times = checked
        state, now = self.state, int(self.state.clock[0])
        # A window is over with its last millisecond; a row at the watermark itself is still in time.
        due = due if self._end is None else due - 1
        late = due < now if self._end is None else due <= now
        self._drop_late(batch, kinds, late)
        rows = np.flatnonzero(~late)
        if not len(rows):
            return
        slots = state.lookup(batch.take(pa.array(rows)) if late.any() else batch)
        # A key whose row is out takes no other.
        opened = state.row[slots] != EMITTED
        rows, slots = rows[opened], slots[opened]
        order_times = None if times is None else times[rows]
        choice = choose(
            *state.group_slots(slots),
            order_times,
            self.keep,
            state.row,
            None if times is None else state.time("time"),
        )
        # Winners at or beyond the number of rows are rows that were stored already, and stay.
        fresh = choice.winners < len(slots)
        touched, winners = choice.slots[fresh], choice.winners[fresh]
        state.drop_rows(touched[state.row[touched] > 0])
        encoded = state.rows.encode(batch)
        # 0 is a key without a row, so ids are stored one higher.
        state.row[touched] = state.rows.insert(encoded, rows[winners]) + 1
        state.time("due")[touched] = due[rows[winners]]
        if order_times is not None:
            state.time("time")[touched] = order_times[winners]
        state.pool.sweep()

    def emit_due(self, now: int) -> Rows:
        """The rows that the watermark has come to, in order of their times.

        Rows of one time are in order of their ids, which are used again: that is not the order of arrival.
        """
        state = self.state
        waiting = state.with_rows()
        due = state.time("due")[waiting]
        over = due <= int(state.clock[0])
        slots = waiting[over]
        if not len(slots):
            return no_rows(self.schema)
        slots = slots[np.lexsort((state.row[slots], due[over]))]
        rows = state.gather(slots)
        # A window is over for good; without one the key is remembered, so that it takes no second row.
        if self._end is not None:
            state.forget(slots)
        else:
            state.drop_rows(slots)
            state.row[slots], state.write_times[slots] = EMITTED, now
            state.rows.shrink()
            state.tidy()
        return rows, np.full(rows.num_rows, INSERT, np.int8)

    def _drop_late(self, batch: pa.RecordBatch, kinds: Kinds, late: Array) -> None:
        """Count the rows that arrived too late, and keep them if they are asked for."""
        count = int(late.sum())
        self.counters["late_dropped"] += count
        if count and self._hands_out:
            self._late.append((batch.filter(pa.array(late)), kinds[late]))
