"""OVER of insertions by time: each row is emitted once, with its values, when its time has come.

By row time rows wait for the watermark; by processing time they are emitted as they come. Frames look back only. Of a
frame with a first row the rows in it are kept; of one without, accumulators.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.base import StoredKeyState
from aggloom.runtime.operators.ordered_rows import OrderedRowsState
from aggloom.runtime.operators.over.bounds import Standing
from aggloom.runtime.operators.over.function_values import Computing
from aggloom.runtime.operators.over.retention import Keeping
from aggloom.runtime.operators.over.running_totals import Sums
from aggloom.runtime.operators.over.settings import OverSettings
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.operators.timed_rows import TimedRows, TimedRowsOperator
from aggloom.runtime.storage.arena import Array, NumberArray, SlotArray
from aggloom.runtime.storage.audit import corrupt_snapshot
from aggloom.runtime.values.changelog import INSERT
from aggloom.runtime.values.clock import Clock

_NUMBERS = ("emitted", "seen", "times", "last", "due")
"""Numbers by key: the kept rows that were emitted; how many ever were, and of how many times; the last time, + 1,
and the next, in milliseconds."""


class OverOnceOperator(TimedRowsOperator):
    """One bucket's operator over rows that are only added; its result is only added to. See OverSettings."""

    title = "OVER"
    keeps_calls = "it has emitted the values of its calls"
    spec: OverSettings

    def __init__(
        self, spec: OverSettings, handler_class: Any = None, directory: Path | None = None
    ) -> None:
        super().__init__(spec, spec.result)
        self.handler_class = handler_class
        self._keeping = Keeping.of(spec)
        self._sums = None
        if handler_class is not None and not self._keeping.slides:
            self._sums = Sums(handler_class, directory and directory / "sums")
        handler = None if handler_class is None or self._sums else handler_class()
        self._computing = Computing(spec, handler)
        self.state = OrderedRowsState(
            list(spec.schema),
            spec.keys,
            spec.sort,
            (),
            numbers=_NUMBERS,
            compacts=self._sums is None,
            directory=directory and directory / "rows",
        )

    @property
    def states(self) -> list[Any]:
        return [self.state] if self._sums is None else [self.state, self._sums.state]

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        slots = self.state.table.find(key)
        if slots[0] < 0:
            return
        slot = int(slots[0])
        records = int(self.state.sorted.sizes(slots)[0][0])
        written = int(self.state.table.stamps("written")[slot])
        if self._sums is not None:
            yield StoredKeyState(self._sums.state.handler, slot, written=written)
        else:
            row_counts = {"emitted": int(self.state.number("seen")[slot]), "kept": records}
            yield StoredKeyState(None, None, records=records, written=written, results=row_counts)

    def next_timers(self) -> tuple[int | None, int | None]:
        used = self.state.used_slots()
        waiting = used[self._count_waiting(used) > 0]
        times = [self.state.number("due")[waiting]] if self._waits else []
        times += [self._over(used)] if self._keeping.until is not None else []
        every = np.concatenate(times) if times else used[:0]
        first = int(every.min()) if len(every) else None
        return (first, None) if self._waits else (None, first)

    def check_restored(self) -> None:
        """Raise StateCorruptError unless no more rows are said to have been seen than there are."""
        state = self.state
        slots = np.arange(state.table.capacity, dtype=np.int64)
        emitted, sizes = state.number("emitted"), state.sorted.sizes(slots)[0]
        # The due time of a key is derived from its first row that waits, so a snapshot has it twice.
        if not ((emitted >= 0) & (emitted <= sizes)).all():
            raise corrupt_snapshot("more rows were emitted than there are")
        waiting = slots[emitted < sizes] if self._waits else slots[:0]
        if len(waiting):
            ids = state.sorted.collect_between(waiting, emitted[waiting], emitted[waiting] + 1)[1]
            first = self._times(state.sorted.rows.gather(ids))
            if not (first == state.number("due")[waiting]).all():
                raise corrupt_snapshot("a row is due at another time than its key says")

    def rebuild_derived(self) -> None:
        if self._sums is not None:
            self._sums.fit(self.state.table.capacity)

    def take(self, checked: TimedRows, clock: Clock) -> None:
        """Store rows that are in time."""
        state = self.state
        batch, _, due = self._drop_late(checked, self._is_late(checked.batch, checked.due))
        if not len(due):
            return
        batch = self._stamp_rows(batch, clock.processing)
        slots = state.lookup(batch)
        if self._sums is not None:
            self._sums.fit(state.table.capacity)
        none = self._count_waiting(slots) == 0
        times = state.number("due")
        # Nothing waits there: the time of rows that are out already must not win over those that come.
        times[slots[none]] = np.iinfo(np.int64).max
        # `minimum.at`, as plain assignment would take only one row of a slot that is there several times.
        np.minimum.at(times, slots, due)
        state.sorted.insert(slots, batch)
        state.table.stamps("written")[slots] = clock.processing

    def _is_late(self, batch: pa.RecordBatch, due: NumberArray) -> Array:
        """Tell whether rows come behind what was emitted: their key's last time, or, of all rows, the watermark."""
        if not self._waits:
            return np.zeros(len(due), np.bool_)
        clock = int(self.state.clock[0])
        if not self._keeping.by_last:
            return due <= clock
        slots = self.state.table.find(batch)
        known = slots >= 0
        # An unknown key has no last time, and no row is late for it.
        last = np.full(len(due), np.iinfo(np.int64).min)
        last[known] = np.where(
            self.state.number("seen")[slots[known]] > 0,
            self.state.number("last")[slots[known]],
            last[known],
        )
        if self._keeping.until is not None:
            # Of a key that is not known there may have been rows in the frame.
            last = np.where(known, last, clock - self._keeping.until)
        return due <= last

    def _count_waiting(self, slots: SlotArray) -> Array:
        """Return the number of rows of slots that were not emitted yet."""
        return self.state.sorted.sizes(slots)[0] - self.state.number("emitted")[slots]

    def emit_due(self, now: int) -> Rows:
        changes = self._emit_certain()
        self._clean()
        self.state.tidy()
        return changes

    def _emit_certain(self) -> Rows:
        """The rows whose time has come, in order of time and arrival, with their values."""
        state = self.state
        used = state.used_slots()
        waiting = self._count_waiting(used) > 0
        slots = used[waiting & (state.number("due")[used] <= int(state.clock[0]))]
        if not len(slots):
            return no_rows(self.schema)
        emitted = state.number("emitted")[slots]
        sizes = state.sorted.sizes(slots)[0]
        stretch, ids = state.sorted.collect_between(slots, emitted, sizes)
        rows = state.sorted.rows.gather(ids)
        due = self._times(rows)
        fired = due <= int(state.clock[0])
        if not fired.all():
            left = np.flatnonzero(~fired)
            # Backwards, so that the time of a key's first row is written last, and stays.
            state.number("due")[slots[stretch[left[::-1]]]] = due[left[::-1]]
            rows, stretch = rows.filter(pa.array(fired)), stretch[fired]
            ids, due = ids[fired], due[fired]
        counts = np.bincount(stretch, minlength=len(slots))
        opens = np.r_[0, np.cumsum(counts)[:-1]]
        position = np.arange(len(ids)) - opens[stretch] + emitted[stretch]
        standing = Standing(state.sorted, state.pool, slots[stretch], ids, position)
        values = self._values(rows, standing, stretch, due)
        # Before rows are dropped below, whose places would be given to others.
        arrivals = state.sorted.arrays.arrival[ids]
        self._mark_emitted(slots, counts, opens, due, stretch)
        order = pa.array(np.lexsort((arrivals, due)))
        whole = pa.RecordBatch.from_arrays([*rows.columns, *values], schema=self.schema)
        return whole.take(order), np.full(len(ids), INSERT, np.int8)

    def _times(self, rows: pa.RecordBatch) -> Array:
        return self._due(rows, self._now)

    def _values(
        self, rows: pa.RecordBatch, standing: Standing, stretch: Array, due: Array
    ) -> list[pa.Array]:
        """The values of rows whose time has come, key by key in their order."""
        state = self.state
        peers = self._peers(standing)
        numbers = self._number_rows(standing, stretch, peers)
        columns: list[Any] = [numbers.get(call.function) for call in self.spec.calls]
        if any(column is None for column in columns):

            def place(number: int) -> str:
                return state.table.place(int(standing.slots[np.searchsorted(stretch, number)]))

            if self._sums is not None:
                results = self._sums.add_rows(rows, standing.slots, peers, self.spec)
            else:
                _, dense = np.unique(stretch, return_inverse=True)
                results = self._computing.some(
                    state.sorted, standing, dense, place, [c is None for c in columns]
                )
            columns = [
                new if own is None else own for own, new in zip(columns, results, strict=True)
            ]
        return columns

    def _peers(self, standing: Standing) -> Array:
        """Return for each row the number of its key and time, rising."""
        new = np.ones(len(standing.ids), np.bool_)
        # Rows of one time are peers and get one value; without an event time no two rows are.
        if self._waits:
            words = standing.words[0]
            new[1:] = (standing.slots[1:] != standing.slots[:-1]) | (words[1:] != words[:-1])
        return np.cumsum(new) - 1

    def _number_rows(self, standing: Standing, stretch: Array, peers: Array) -> dict[str, pa.Array]:
        """Numbers and ranks, which go by how many rows there ever were."""
        state, slots = self.state, standing.slots
        n = len(slots)
        opens = np.r_[True, stretch[1:] != stretch[:-1]]
        begin = np.maximum.accumulate(np.where(opens, np.arange(n), 0))
        here = np.arange(n) - begin
        first = np.searchsorted(peers, peers) - begin
        row_counts, times = state.number("seen")[slots], state.number("times")[slots]
        return {
            "ROW_NUMBER": pa.array(row_counts + here + 1),
            "RANK": pa.array(row_counts + first + 1),
            "DENSE_RANK": pa.array(times + peers - peers[begin] + 1),
        }

    def _mark_emitted(
        self,
        slots: SlotArray,
        counts: NumberArray,
        opens: NumberArray,
        due: NumberArray,
        stretch: NumberArray,
    ) -> None:
        """Note what was emitted, and forget the rows that no frame reaches any more."""
        state = self.state
        row_counts, last, times = (state.number(name) for name in ("seen", "last", "times"))
        # Counted by different times, for DENSE_RANK; by rows for the other two.
        new = np.r_[True, (stretch[1:] != stretch[:-1]) | (due[1:] != due[:-1])]
        times[slots] += np.bincount(stretch, weights=new, minlength=len(slots)).astype(np.int64)
        row_counts[slots] += counts
        last[slots] = due[opens + counts - 1]
        state.number("emitted")[slots] += counts
        self._drop(slots, self._keeping.first(state, slots))

    def _drop(self, slots: SlotArray, until: Array) -> None:
        """Forget the rows of slots up to a position."""
        state = self.state
        # Rows that wait are never dropped, whatever the frame says of them.
        until = np.clip(until, 0, state.number("emitted")[slots])
        _, ids = state.sorted.collect_between(slots, np.zeros(len(slots), np.int64), until)
        state.number("emitted")[slots] -= until
        state.sorted.take(ids)
        state.free(ids)

    def _over(self, slots: SlotArray) -> Array:
        """Return when the kept rows of slots that have any are out of every frame, in milliseconds."""
        assert self._keeping.until is not None
        with_rows = slots[self.state.number("emitted")[slots] > 0]
        return self.state.number("last")[with_rows] + self._keeping.until + 1

    def _clean(self) -> None:
        """Let rows go that time has taken out of every frame, and keys that have nothing else."""
        if self._keeping.until is None:
            return
        state = self.state
        used = state.used_slots()
        with_rows = used[state.number("emitted")[used] > 0]
        if not len(with_rows):
            return
        over = with_rows[self._over(with_rows) <= int(state.clock[0])]
        if not len(over):
            return
        # Frames of rows may reach back to the last rows at any later time, so those stay.
        if not self._keeping.rows:
            self._drop(over, state.number("emitted")[over])
        if self._keeping.forgets:
            empty = over[state.sorted.sizes(over)[0] == 0]
            if len(empty):
                state.forget(empty)

    def drop_unwritten(self, now: int) -> None:
        """Forget keys that were not written for so long; those that wait stay."""
        if not self.spec.state_ttl_ms:
            return
        state = self.state
        used = state.used_slots()
        idle = now >= state.table.stamps("written")[used] + self.spec.state_ttl_ms
        expired = used[idle & (self._count_waiting(used) == 0)]
        if len(expired):
            self.counters["expired"] += len(expired)
            if self._sums is not None:
                self._sums.state.reset(expired)
            state.forget(expired)
            if self._sums is not None:
                self._sums.fit(state.table.capacity)
