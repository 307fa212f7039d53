"""Session windows, whole columns at a time: rows find or make their session, sessions merge, and fire at their end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen.planner import Bounds
from aggloom.codegen.windows import Session, Windowing, to_local
from aggloom.errors import AggloomError, DataError
from aggloom.runtime.operators.base import StoredKeyState
from aggloom.runtime.operators.bundle import Applier, refuse_orphans
from aggloom.runtime.operators.slot_state import SlotState
from aggloom.runtime.operators.steps import Rows, concat_changes
from aggloom.runtime.operators.windows.base import DUE, PROCESSING, WindowOperator
from aggloom.runtime.operators.windows.key_state import of_sessions
from aggloom.runtime.operators.windows.session_state import SessionState
from aggloom.runtime.storage.arena import Array, SlotArray
from aggloom.runtime.storage.audit import corrupt_snapshot
from aggloom.runtime.values.changelog import Kinds
from aggloom.runtime.values.clock import AFTER_ALL

_EMITTED = ("emitted.start", "emitted.end")


class SessionWindowOperator(WindowOperator):
    """One bucket's operator for sessions that fire at their end and, with allowed lateness, with each late row.

    A retraction goes to the session of its row, which keeps its bounds: where sessions may split, another operator runs
    (`Windowing.can_split`).
    """

    def __init__(
        self,
        handler_class: type[Any],
        windowing: Windowing,
        bounds: Bounds,
        *,
        on_orphan_retraction: str = "drop",
        update_before: bool = True,
        is_chained: bool = False,
        per_record: bool = False,
        directory: Path | None = None,
    ) -> None:
        assert isinstance(windowing.assigner, Session)
        super().__init__(handler_class, windowing, bounds, is_chained, update_before, per_record)
        self.require_merge("sessions")
        self._assigner = windowing.assigner
        self.on_orphan_retraction = on_orphan_retraction
        self._applier = Applier()
        self.live = SessionState(handler_class, directory and directory / "sessions")
        self.emitted: SlotState | None = None
        if windowing.updates:
            self.emitted = SlotState(handler_class, directory and directory / "emitted")
        self.rebuild_derived()

    @property
    def states(self) -> list[SlotState]:
        return [self.live, *([self.emitted] if self.emitted is not None else [])]

    @property
    def keys(self) -> int:
        """Sessions that the state holds."""
        return len(self.live)

    def contents(self) -> Rows:
        """Return the rows that have been emitted and may still change: each row an insertion."""
        if self.emitted is None:
            return self.nothing
        slots = np.flatnonzero(self._was_emitted(np.arange(self.live.capacity)))
        return self._emit_emitted(slots, np.ones(len(slots), np.bool_))

    def key_columns(self) -> list[pa.Array]:
        return self.live.key_columns(self.live.used_slots())

    def count_key_rows(self) -> Array | None:
        return self.live.count_key_rows()

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        return of_sessions(self, key)

    def next_timers(self) -> tuple[int | None, int | None]:
        """The next time at which something is due, by the watermark and by the clock."""
        due = int(self.clock[DUE]) if self.clock[DUE] < AFTER_ALL else None
        if self._assigner.event_time:
            return due, None
        # By the clock a millisecond is over only when the next one begins.
        return None, None if due is None else due + 1

    # A bundle of rows.

    def _take(
        self, batch: pa.RecordBatch, kinds: Kinds, partials: Sequence[bytes | memoryview]
    ) -> Rows:
        if partials:
            raise AggloomError("sessions are not aggregated locally; plan them in one phase")
        retracts = self.retractions(kinds)
        starts, ends = self._windows_of(batch)
        closed = self.now - self.windowing.allowed_lateness + 1
        slots, merged = self.live.enter(batch, starts, ends, closed)
        self._resize_emitted()
        late = slots < 0
        if late.any():
            self.drop_late(batch, kinds, late)
            batch, slots, retracts = batch.filter(pa.array(~late)), slots[~late], retracts[~late]
        # Before the rows, which go to the sessions that the merged ones are part of now.
        self.live.gather(merged)
        if self.on_orphan_retraction == "error":
            refuse_orphans(self.live, slots, retracts)
        touched = self._applier.distinct(self.live, slots)
        keep = self.on_orphan_retraction == "keep"
        rows = batch, slots, retracts
        self.counters["orphans_dropped"] += self._applier.apply(self.live, touched, rows, keep=keep)
        self._applier.forget_counts(touched)
        changes = self._after_rows(touched, merged)
        # Last: to retract what was emitted for them, their keys were needed until here.
        self.live.forget(merged)
        return changes

    def _windows_of(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """The window of each row: from its time as long as its gap."""
        times = np.asarray(batch.column(len(self.spec.group_by) - 1))
        if not self._assigner.event_time:
            times = np.full(batch.num_rows, self.clock[PROCESSING], np.int64)
        name, gaps = self._assigner.gap_column, None
        if name is not None:
            column = batch.column(name).cast(pa.int64())
            gaps = column.to_numpy(zero_copy_only=False) if not column.null_count else None
            if gaps is None or (gaps <= 0).any():
                raise DataError(
                    f"column {name!r}: a session's gap must be a positive number of milliseconds; "
                    "filter the other rows out, or give them a gap"
                )
        _, starts, ends = self._assigner.assign(times, gaps)
        return starts, ends

    def _after_rows(self, touched: Array, merged: Array) -> Rows:
        """Return the rows that come at once: corrections of sessions that were emitted already."""
        ends = self.live.sessions.arrays.end[touched]
        due = ends - 1
        self.be_due_at(due[due > self.now])
        if self.emitted is None:
            return self.nothing
        passed = due <= self.now
        self.be_due_at(due[passed] + self.windowing.allowed_lateness)
        arrays = self.live.sessions.arrays
        moved = (self._emitted_start[touched] != arrays.start[touched]) | (
            self._emitted_end[touched] != ends
        )
        gone = np.concatenate([touched[self._was_emitted(touched) & moved], merged])
        # Deletions go first: what follows may have the same key and bounds.
        retracted = self._retract_emitted(gone)
        return concat_changes([retracted, self._fire(touched[passed])], self.schema)

    # The clock moves.

    def _advance(self) -> Rows:
        if self.clock[DUE] > self.now:
            return self.nothing
        live, arrays = self.live.sessions.live(), self.live.sessions.arrays
        due = arrays.end[live] - 1
        fresh = due <= self.now
        if self.emitted is not None:
            fresh &= ~(self._was_emitted(live) & (self._emitted_end[live] == arrays.end[live]))
        changes = self._fire(live[fresh])
        over = live[due + self.windowing.allowed_lateness <= self.now]
        if self.emitted is not None:
            self._forget_emitted(over)
        self.live.reset(over)
        self.live.forget(over)
        self._resize_emitted()
        self.clock[DUE] = AFTER_ALL
        live, arrays = self.live.sessions.live(), self.live.sessions.arrays
        due = arrays.end[live] - 1
        self.be_due_at(np.where(due > self.now, due, due + self.windowing.allowed_lateness))
        return changes

    def _fire(self, slots: SlotArray) -> Rows:
        """Give out sessions, or what has changed of them since they were."""
        n = len(slots)
        if not n:
            return self.nothing
        self.counters["fired"] += n
        state, arrays = self._result_state, self.live.sessions.arrays
        before, was = None, np.zeros(n, np.bool_)
        windows = arrays.start[slots], arrays.end[slots]
        if self.emitted is not None:
            # Read before the accumulators as they are now replace those that were emitted.
            before, was = state.handler.values(slots), self.emitted.records[slots] > 0
            self.emitted.reset(slots)
            self.emitted.merge(slots, self.live, slots)
            self._emitted_start[slots], self._emitted_end[slots] = windows
        after, now = state.handler.values(slots), state.records[slots] > 0
        state.handler.refuse_overflow(after, self.live.place)
        return self._changes(slots, windows, (before or after, after), (was, now))

    def _retract_emitted(self, slots: SlotArray) -> Rows:
        """Delete the results that were emitted for sessions whose bounds are others now."""
        slots = slots[self._was_emitted(slots)]
        changes = self._emit_emitted(slots, np.zeros(len(slots), np.bool_))
        self._forget_emitted(slots)
        return changes

    def _emit_emitted(self, slots: SlotArray, now: Array) -> Rows:
        """Results that were emitted, as insertions (now) or deletions."""
        assert self.emitted is not None
        values = self.emitted.handler.values(slots)
        is_emitted = self.emitted.records[slots] > 0
        windows = self._emitted_start[slots], self._emitted_end[slots]
        live = (is_emitted & ~now, is_emitted & now)
        return self._changes(slots, windows, (values, values), live)

    def _forget_emitted(self, slots: SlotArray) -> None:
        assert self.emitted is not None
        self.emitted.reset(slots)
        self.emitted.accumulators.sweep()
        self._emitted_start[slots] = self._emitted_end[slots] = 0

    def _resize_emitted(self) -> None:
        if self.emitted is not None and self.emitted.accumulators.slots != self.live.capacity:
            self.emitted.resize(self.live.capacity)
            for name in _EMITTED:
                self.emitted.arena.resize(name, self.live.capacity)

    def check_restored(self) -> None:
        super().check_restored()
        if self.emitted is None:
            return
        lengths = {
            len(self._emitted_start),
            len(self._emitted_end),
            self.emitted.accumulators.slots,
        }
        if min(lengths) < self.live.capacity:
            raise corrupt_snapshot("there are more sessions than results of them")

    def rebuild_derived(self) -> None:
        if self.emitted is not None:
            for name in _EMITTED:
                self.emitted.arena.array(name, self.live.capacity, "i8")

    def _changes(
        self,
        slots: SlotArray,
        windows: tuple[Array, Array],
        results: Any,
        live: tuple[Array, Array],
    ) -> Rows:
        keys = lambda items: self.live.key_columns(slots[items])  # noqa: E731
        local = to_local(windows[0], self._assigner.zone), to_local(windows[1], self._assigner.zone)
        return self._give_out(self._result_state.handler, keys, local, results, live)

    def _was_emitted(self, slots: SlotArray) -> Array:
        """Return for which sessions a result was emitted, and not retracted."""
        return np.asarray(self._emitted_end[slots] > self._emitted_start[slots])

    @property
    def _result_state(self) -> SlotState:
        """Whose results are emitted: strings in them are known by their numbers in its pool."""
        return self.live if self.emitted is None else self.emitted

    @property
    def _emitted_start(self) -> Array:
        assert self.emitted is not None
        return self.emitted.arena.array(_EMITTED[0], 0, "i8")

    @property
    def _emitted_end(self) -> Array:
        assert self.emitted is not None
        return self.emitted.arena.array(_EMITTED[1], 0, "i8")
