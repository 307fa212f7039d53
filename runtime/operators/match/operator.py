"""MATCH_RECOGNIZE over insertions: rows wait until their time has come, then the matches are sought among them.

A match is given out once it is certain: when no row that is still to come may lead to one that is preferred. Rows that
no match may have any more are forgotten, but those that conditions look back to.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.codegen import load_matcher
from aggloom.runtime.operators.base import StoredKeyState
from aggloom.runtime.operators.match.measures import MatchedRows, measure_columns
from aggloom.runtime.operators.match.navigation import KeyStretches
from aggloom.runtime.operators.match.search import Matches, search_rows
from aggloom.runtime.operators.match.settings import MatchSettings
from aggloom.runtime.operators.ordered_rows import OrderedRowsState
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.operators.timed_rows import TimedRows, TimedRowsOperator
from aggloom.runtime.storage.arena import Array, NumberArray, RowIdArray, SlotArray
from aggloom.runtime.storage.audit import corrupt_snapshot
from aggloom.runtime.values.changelog import INSERT
from aggloom.runtime.values.clock import AFTER_ALL, Clock

_NUMBERS = ("passed", "matches", "due")
"""Numbers by key: the stored rows at which no further match begins; how many matches there were; when, in milliseconds,
the key is looked at next."""
_NEVER = np.iinfo(np.int64).max


class SortedStretches(NamedTuple):
    """The rows of some slots whose time has come, in order.

    due: their times in milliseconds. coming: by slot that of the first row that is still to come.
    """

    slots: SlotArray
    batch: pa.RecordBatch
    ids: Array  # int64[rows]
    due: Array  # int64[rows]
    coming: Array  # int64[slots]
    stretches: KeyStretches


class MatchOperator(TimedRowsOperator):
    """One bucket's operator; its result is only added to. See MatchSettings."""

    title = "MATCH_RECOGNIZE"
    keeps_calls = "it has emitted the values of its measures"
    spec: MatchSettings

    def __init__(
        self, spec: MatchSettings, handler_class: Any, directory: Path | None = None
    ) -> None:
        super().__init__(spec, spec.result)
        self.handler_class = handler_class
        self._matcher = load_matcher(spec.definition, handler_class.BACKEND)
        self._handler = handler_class()
        self.state = OrderedRowsState(
            list(spec.schema),
            spec.keys,
            spec.sort,
            (),
            keeps_debts=spec.corrects and spec.on_orphan_retraction == "keep",
            numbers=_NUMBERS,
            row_numbers=("looked",) if spec.corrects else (),
            directory=directory and directory / "rows",
        )

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        slots = self.state.table.find(key)
        if slots[0] < 0:
            return
        slot = int(slots[0])
        records = int(self.state.sorted.sizes(slots)[0][0])
        passed = int(self.state.number("passed")[slot])
        results = {"waiting": records - passed, "before": passed}
        if self.spec.counts_matches:
            results["matches"] = int(self.state.number("matches")[slot])
        written = int(self.state.table.stamps("written")[slot])
        yield StoredKeyState(None, None, records=records, written=written, results=results)

    def next_timers(self) -> tuple[int | None, int | None]:
        due = self.state.number("due")[self.state.used_slots()]
        first = int(due.min()) if len(due) and due.min() < AFTER_ALL else None
        return (first, None) if self._waits else (None, first)

    def check_restored(self) -> None:
        """Raise StateCorruptError unless no more rows are said to be passed than there are."""
        state = self.state
        slots = np.arange(state.table.capacity, dtype=np.int64)
        passed = state.number("passed")
        if not ((passed >= 0) & (passed <= state.sorted.sizes(slots)[0])).all():
            raise corrupt_snapshot("more rows were passed than there are")

    def take(self, checked: TimedRows, clock: Clock) -> None:
        """Store rows that are in time."""
        state = self.state
        batch, _, due = self._drop_late(checked, self._waits & (checked.due <= self._now))
        if not len(due):
            return
        batch = self._stamp_rows(batch, clock.processing)
        slots = state.lookup(batch)
        # First, as the number of a new slot is 0, by which it would be due at once.
        self._begin_keys(slots)
        # `at`, because a slot stands here once for each of its rows.
        np.minimum.at(state.number("due"), slots, due)
        state.sorted.insert(slots, batch)
        state.table.stamps("written")[slots] = clock.processing

    def emit_due(self, now: int) -> Rows:
        """The matches that are certain, in order of their last rows."""
        state = self.state
        used = state.used_slots()
        slots = used[state.number("due")[used] <= self._now]
        if not len(slots):
            return no_rows(self.schema)
        passed = state.number("passed")[slots]
        floors = self._floors(passed)
        numbers, ids = state.sorted.collect_between(slots, floors, state.sorted.sizes(slots)[0])
        rows = self._stretches(slots, numbers, ids, passed - floors, self._now)
        matches = self._search(rows)
        changes = self._match_rows(rows, matches, state.number("matches")[slots])
        np.add.at(state.number("matches"), slots[matches.keys], 1)
        self._note_progress(rows, floors)
        return changes

    def drop_unwritten(self, now: int) -> None:
        """Forget keys that were not written for so long, with the rows of matches that have begun; others wait."""
        if not self.spec.state_ttl_ms:
            return
        state = self.state
        used = state.used_slots()
        idle = used[now >= state.table.stamps("written")[used] + self.spec.state_ttl_ms]
        # By row time a key stays for as long as a row of it waits for the watermark.
        if self._waits and len(idle):
            _, ids = state.sorted.collect_between(
                idle, (sizes := state.sorted.sizes(idle)[0]) - 1, sizes
            )
            last = np.full(len(idle), -_NEVER)
            last[sizes > 0] = self._due(state.sorted.rows.gather(ids), 0)
            idle = idle[last <= int(state.clock[0])]
        if len(idle):
            self.counters["expired"] += len(idle)
            state.forget(idle)

    def _begin_keys(self, slots: SlotArray) -> None:
        """Let keys without rows be due at no time."""
        empty = slots[self.state.sorted.sizes(slots)[0] == 0]
        self.state.number("due")[empty] = _NEVER

    def _floors(self, passed: NumberArray) -> Array:
        """The places of the first rows that are read to continue from these (int64[n]): of those that are left, all."""
        return np.zeros(len(passed), np.int64)

    def _stretches(
        self, slots: SlotArray, numbers: NumberArray, ids: RowIdArray, passed: NumberArray, now: int
    ) -> SortedStretches:
        """Stored rows of slots that had come at a time; numbers: the place of each one's slot.

        passed: by slot how many of its rows lie before the next search.
        """
        batch = self.state.sorted.rows.gather(ids)
        micros = _micros(batch.column(self.spec.sort[0].column))
        due = self._due(batch, 0) if self._waits else micros // 1000
        there = due <= now
        coming = np.full(len(slots), _NEVER)
        np.minimum.at(coming, numbers[~there], due[~there])
        if not there.all():
            batch, ids, numbers = batch.filter(pa.array(there)), ids[there], numbers[there]
            due, micros = due[there], micros[there]
        counts = np.bincount(numbers, minlength=len(slots))
        stops = np.cumsum(counts)
        starts = stops - counts
        # The ends of time have no microseconds in 64 bits.
        known = now * 1000 + 999 if abs(now) < AFTER_ALL // 1000 else now
        keys = len(slots)
        stretches = KeyStretches(
            due * 1000 + micros % 1000,
            starts,
            stops,
            at=np.minimum(starts + passed, stops),
            within=self.spec.definition.within,
            known=np.full(keys, known),
            ended=np.full(keys, now >= AFTER_ALL),
            until=stops,
            marks=np.zeros(0, np.int64),
            looked=starts.copy(),
            unchanged=stops,
            met=np.zeros(keys, np.bool_),
        )
        return SortedStretches(slots, batch, ids, due, coming, stretches)

    def _search(self, rows: SortedStretches) -> Matches:
        """The matches in rows; where each key's search goes on is noted in its stretches."""
        return search_rows(self._matcher, rows.batch, rows.stretches)

    def _match_rows(self, rows: SortedStretches, matches: Matches, before: NumberArray) -> Rows:
        """The rows of the result of some matches; before: by key how many there were (int64[keys])."""
        count = len(matches.keys)
        if not count:
            return no_rows(self.schema)
        spec, state = self.spec, self.state
        # Matches are numbered by key, from where the last search of the key has ended.
        opens = np.r_[True, matches.keys[1:] != matches.keys[:-1]]
        first = np.maximum.accumulate(np.where(opens, np.arange(count), 0))
        numbers = before[matches.keys] + np.arange(count) - first + 1
        all_rows = spec.shown is not None
        matched = MatchedRows.of(rows.batch, matches, rows.stretches.starts, all_rows=all_rows)
        results = matched.matches if all_rows else np.arange(count)

        def place(match: int) -> str:
            return state.table.place(int(rows.slots[matches.keys[match]]))

        measures = measure_columns(spec, self._handler, matched, numbers[results], place)
        row_places = pa.array(matched.rows[matched.lasts])
        plain = [
            rows.batch.column(at).take(row_places)
            for at in (*range(spec.keys), *(spec.shown or ()))
        ]
        whole = pa.RecordBatch.from_arrays([*plain, *measures], schema=self.schema)
        lasts = matches.firsts + matches.sizes - 1
        arrivals = state.sorted.arrays.arrival[rows.ids[lasts]]
        # Across keys: by the times of last rows, then by arrival, so that the order does not depend on slots.
        rank = np.empty(count, np.int64)
        rank[np.lexsort((np.arange(count), arrivals, rows.due[lasts]))] = np.arange(count)
        order = np.argsort(rank[results], kind="stable")
        return whole.take(pa.array(order)), np.full(len(order), INSERT, np.int8)

    def _note_due(self, rows: SortedStretches) -> None:
        """Note when keys are looked at next: with their next row, or when an open match is decided without one."""
        stops, at = rows.stretches.stops, rows.stretches.at
        open_ = np.flatnonzero(at < stops)
        times = rows.coming.copy()
        # A match that has begun is decided when its time is over, or with the end of the input, if no row decides it.
        ends = np.full(len(open_), AFTER_ALL)
        if self.spec.definition.within >= 0:
            ends = (rows.stretches.times[at[open_]] + self.spec.definition.within) // 1000
        times[open_] = np.minimum(times[open_], ends)
        self.state.number("due")[rows.slots] = times

    def _note_progress(self, rows: SortedStretches, floors: NumberArray) -> None:
        """Note where the search goes on, and forget the rows that nothing looks back to; floors: as in _floors."""
        self._note_due(rows)
        state, spec, slots = self.state, self.spec, rows.slots
        starts, stops, at = rows.stretches.starts, rows.stretches.stops, rows.stretches.at
        # Conditions look back by so many rows from where the search goes on.
        keep = np.maximum(at - spec.reach, starts)
        state.number("passed")[slots] = at - keep
        gone = np.arange(len(rows.ids)) < np.repeat(keep, stops - starts)
        ids = rows.ids[gone]
        state.sorted.take(ids)
        state.free(ids)
        if not spec.counts_matches:
            self._leave(slots)
        state.tidy()


def _micros(column: pa.Array) -> Array:
    """A column of times without NULLs in microseconds."""
    micros = pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz)), pa.int64())
    return np.asarray(micros.to_numpy(zero_copy_only=False))
