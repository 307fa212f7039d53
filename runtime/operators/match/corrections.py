"""MATCH_RECOGNIZE over changes: what a change touches is matched again, and the difference is emitted.

All rows of a key are kept, and by row how far the search had looked when it reached the row. A change among matched
rows leads to the first search that looked at its place. Matches are sought again from there, until the search reaches
a place, behind all changed rows, where an earlier search began. The old matches are not stored: they are found again
in the rows as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.operators.differences import pair_marks
from aggloom.runtime.operators.match.operator import MatchOperator, SortedStretches
from aggloom.runtime.operators.match.search import Matches
from aggloom.runtime.operators.match.settings import MatchSettings
from aggloom.runtime.operators.row_changes import AppliedRows, SlotChanges, apply_changes
from aggloom.runtime.operators.steps import Rows, concat_changes
from aggloom.runtime.operators.timed_rows import TimedRows
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray, RowIdArray, SlotArray
from aggloom.runtime.storage.audit import corrupt_snapshot
from aggloom.runtime.values.changelog import DELETE, INSERT, is_retraction
from aggloom.runtime.values.clock import BEFORE_ALL, Clock
from aggloom.runtime.values.row_difference import comparable_values
from aggloom.runtime.values.row_groups import row_groups

_FAR = np.int64(1 << 60)
"""A place that no row has."""
_ROOM = 64
"""Rows behind the last change among which the search is expected to come to a known place."""


class _Touched(NamedTuple):
    """Keys of which matched rows change; places are those of rows among the key's.

    starts: where the search begins again. floors: the first row that is read. ids: the rows from there on as they were,
    key by key; numbers: the key of each. unchanged: the place behind the last change. shifts: how many rows more there
    are before it now.
    """

    slots: SlotArray  # int64[keys]
    starts: Array  # int64[keys]
    floors: Array  # int64[keys]
    numbers: Array  # int64[rows]
    ids: Array  # int64[rows]
    unchanged: Array  # int64[keys]
    shifts: Array  # int64[keys]

    def some(self, which: FlagArray) -> _Touched:
        """Some of the keys (bool[keys])."""
        renumbered = np.cumsum(which) - 1
        rows = which[self.numbers]
        return _Touched(
            slots=self.slots[which],
            starts=self.starts[which],
            floors=self.floors[which],
            numbers=renumbered[self.numbers[rows]],
            ids=self.ids[rows],
            unchanged=self.unchanged[which],
            shifts=self.shifts[which],
        )


class CorrectingMatchOperator(MatchOperator):
    """One bucket's operator over rows that come and go. See MatchSettings."""

    _touched: _Touched | None
    _gone: Array  # int64[rows]
    _left: Array  # int64[slots]

    def __init__(
        self, spec: MatchSettings, handler_class: Any, directory: Path | None = None
    ) -> None:
        super().__init__(spec, handler_class, directory)
        self.counters = {"rows": 0, "orphans_dropped": 0, "expired": 0, "searched": 0, "emitted": 0}
        self._judged = BEFORE_ALL
        self._forget_bundle()

    @property
    def is_chained(self) -> bool:
        # No row is late: it does not matter whether the clock moves before rows or after them.
        return False

    def check(self, inputs: Sequence[InputBatch], clock: Clock) -> TimedRows:
        """Return rows with their times; raises DataError for one that has none."""
        (bundle,) = inputs
        return TimedRows(bundle.batch, bundle.kinds, self._due(bundle.batch, clock.processing))

    def contents(self) -> Rows:
        """The matches that stand, each an insertion."""
        slots = self.state.used_slots()
        numbers, ids = self.state.rows_of(slots)
        none = np.zeros(len(slots), np.int64)
        rows = self._stretches(slots, numbers, ids, none, self._now)
        rows = _searched_until(rows, self.state.number("passed")[slots])
        return self._match_rows(rows, self._search(rows), none)

    def move_clock(self, clock: Clock) -> None:
        self._judged = self._now
        super().move_clock(clock)

    def take(self, checked: TimedRows, clock: Clock) -> None:
        """Store rows and retract rows. Raises OrphanRetractionError (policy error)."""
        batch, kinds, due = checked
        if not len(due):
            return
        state, retracts = self.state, is_retraction(kinds)
        slots = state.lookup(batch)
        self._begin_keys(slots)
        matched = due <= self._judged
        touched = self._find_touched(slots[matched], batch.filter(pa.array(matched)))
        bundle = SlotChanges(batch, slots, retracts, np.arange(len(due)))
        applied = apply_changes(state.sorted, bundle, self._ledger(self.spec.on_orphan_retraction))
        state.fit_rows()
        # Rows that are still to come are looked at when the watermark has come to them.
        np.minimum.at(state.number("due"), slots[~matched], due[~matched])
        state.table.stamps("written")[slots] = clock.processing
        self._gone, self._left = applied.gone, np.unique(slots[retracts])
        self._touched = self._locate_changes(touched, slots, matched, applied)

    def emit_due(self, now: int) -> Rows:
        """The matches that stand no more and those that are new, each in order of their last rows."""
        state = self.state
        parts = [] if self._touched is None else [self._correct(self._touched)]
        parts.append(super().emit_due(now))
        state.free(self._gone)
        self._leave(self._left)
        self._forget_bundle()
        state.tidy()
        return concat_changes(parts, self.schema)

    def check_restored(self) -> None:
        """Raise StateCorruptError unless rows were looked at that are there."""
        super().check_restored()
        looked = self.state.row_number("looked")
        live = np.zeros(len(looked), np.bool_)
        live[self.state.sorted.rows.live()] = True
        if (looked < 0).any() or looked[~live].any():
            raise corrupt_snapshot("a search has looked at rows that are not there")

    def _forget_bundle(self) -> None:
        self._touched = None
        self._gone = self._left = np.zeros(0, np.int64)

    def _floors(self, passed: NumberArray) -> Array:
        # The row before the search is read in any case: it says how far earlier searches have looked.
        return np.maximum(passed - max(self.spec.reach, 1), 0)

    def _find_touched(self, slots: SlotArray, batch: pa.RecordBatch) -> _Touched:
        """The keys of changes among matched rows, before these changes are applied."""
        state, rows = self.state, self.state.sorted
        every, owners = np.unique(slots, return_inverse=True)
        words, tiers = rows.key.words(batch, state.pool)
        changed = np.full(len(every), _FAR)
        np.minimum.at(changed, owners, rows.before(slots, words, tiers, equals=False))
        starts = self._first_search(every, changed)
        floors = self._floors(starts)
        numbers, ids = rows.collect_between(every, floors, rows.sizes(every)[0])
        none = np.zeros(len(every), np.int64)
        return _Touched(every, starts, floors, numbers, ids, unchanged=none, shifts=none)

    def _first_search(self, slots: SlotArray, changed: NumberArray) -> Array:
        """The place by key of the first search that has looked at a place, or of the next search (int64[n])."""
        low, high = np.zeros(len(slots), np.int64), self.state.number("passed")[slots]
        looked = self.state.row_number("looked")
        # How far searches have looked never falls from one row to the next.
        while len(some := np.flatnonzero(low < high)):
            middle = (low[some] + high[some]) // 2
            _, ids = self.state.sorted.collect_within(slots[some], middle, middle + 1)
            saw = middle + (looked[ids] >> 1) > changed[some]
            high[some[saw]] = middle[saw]
            low[some[~saw]] = middle[~saw] + 1
        return low

    def _locate_changes(
        self, touched: _Touched, slots: SlotArray, matched: FlagArray, applied: AppliedRows
    ) -> _Touched | None:
        """The keys whose matched rows the applied changes have changed; None: there is none."""
        # A row that was inserted and removed in one bundle changes no match.
        brief = np.intersect1d(applied.inserted, applied.gone)
        count = len(touched.slots)
        unchanged, shifts = np.zeros(count, np.int64), np.zeros(count, np.int64)
        changes = np.zeros(count, np.int64)
        for ids, places, step in (
            (applied.inserted, applied.inserted_by, 1),
            (applied.gone, applied.gone_by, -1),
        ):
            counts = matched[places] & ~np.isin(ids, brief)
            ids, own = ids[counts], np.searchsorted(touched.slots, slots[places[counts]])
            np.maximum.at(unchanged, own, self.state.sorted.positions(ids) + (step > 0))
            np.add.at(shifts, own, step)
            np.add.at(changes, own, 1)
        changed = touched._replace(unchanged=unchanged, shifts=shifts).some(changes > 0)
        return changed if len(changed.slots) else None

    def _correct(self, touched: _Touched) -> Rows:
        """The difference that changes among matched rows make."""
        parts, room = [], _ROOM
        while len(touched.slots):
            rows, matches, is_open = self._search_again(touched, room)
            if not is_open.any():
                parts.append(self._difference(touched, rows, matches))
            elif not is_open.all():
                closed = touched.some(~is_open)
                parts.append(self._difference(closed, *self._search_again(closed, room)[:2]))
            touched, room = touched.some(is_open), room * 8
        return concat_changes(parts, self.schema)

    def _search_again(
        self, touched: _Touched, room: int
    ) -> tuple[SortedStretches, Matches, FlagArray]:
        """Search keys again in the rows as they are, as far as some rows behind the changes: which have to see more."""
        slots, floors = touched.slots, touched.floors
        sizes = self.state.sorted.sizes(slots)[0]
        unchanged = touched.unchanged + self.spec.reach
        ends = np.minimum(unchanged + room, sizes)
        numbers, ids = self.state.sorted.collect_between(slots, floors, ends)
        rows = self._stretches(slots, numbers, ids, touched.starts - floors, self._now)
        cut, every = ends < sizes, rows.stretches
        # Where the numbers of matches are shown, all that follows is another match.
        goals = every.starts + unchanged - floors
        every = every._replace(
            # Behind a cut there are more rows.
            known=np.where(cut, BEFORE_ALL, every.known),
            ended=every.ended & ~cut,
            unchanged=np.full(len(slots), _FAR) if self.spec.counts_matches else goals,
        )
        rows = rows._replace(stretches=every)
        matches = self._search(rows)
        return rows, matches, cut & ~every.met

    def _difference(self, touched: _Touched, rows: SortedStretches, matches: Matches) -> Rows:
        """The matches of keys that stand no more, and those that stand now; note where the search has come to."""
        state, slots = self.state, touched.slots
        was = self._rows_before(touched, rows)
        former = self._search(was)
        counts = state.number("matches")
        before = counts[slots] - np.bincount(former.keys, minlength=len(slots))
        old = self._match_rows(was, former, before)[0]
        new = self._match_rows(rows, matches, before)[0]
        counts[slots] = before + np.bincount(matches.keys, minlength=len(slots))
        met, passed = rows.stretches.met, state.number("passed")[slots] + touched.shifts
        due = state.number("due")[slots]
        self._note_progress(rows, touched.floors)
        # Behind the place that was known all is as it was.
        state.number("passed")[slots[met]] = passed[met]
        state.number("due")[slots[met]] = due[met]
        return _changed_rows(old, new)

    def _rows_before(self, touched: _Touched, rows: SortedStretches) -> SortedStretches:
        """The rows of keys as they were, to be searched as far as the search has been sought again."""
        every = rows.stretches
        place = every.at - every.starts - touched.shifts
        marks = np.zeros(len(place), np.int64)
        marks[every.met] = every.marks[every.at[every.met]] >> 1
        passed = self.state.number("passed")[touched.slots] - touched.floors
        # The searches before a known place have looked no further than is noted there.
        ends = np.where(every.met, place + marks, _FAR)
        opens = np.searchsorted(touched.numbers, np.arange(len(place)))
        in_reach = np.arange(len(touched.ids)) - opens[touched.numbers] < ends[touched.numbers]
        was = self._stretches(
            touched.slots,
            touched.numbers[in_reach],
            touched.ids[in_reach],
            touched.starts - touched.floors,
            self._judged,
        )
        return _searched_until(was, np.where(every.met, place, passed))

    def _stretches(
        self, slots: SlotArray, numbers: NumberArray, ids: RowIdArray, passed: NumberArray, now: int
    ) -> SortedStretches:
        rows = super()._stretches(slots, numbers, ids, passed, now)
        marks, every = self.state.row_number("looked")[rows.ids], rows.stretches
        looked = every.starts.copy()
        begun = np.flatnonzero(every.at > every.starts)
        last = every.at[begun] - 1
        looked[begun] = last + (marks[last] >> 1)
        return rows._replace(stretches=every._replace(marks=marks, looked=looked))

    def _search(self, rows: SortedStretches) -> Matches:
        first = rows.stretches.at.copy()
        matches = super()._search(rows)
        self.counters["searched"] += int((rows.stretches.at - first).sum())
        return matches

    def _note_progress(self, rows: SortedStretches, floors: NumberArray) -> None:
        state, every = self.state, rows.stretches
        self._note_due(rows)
        state.number("passed")[rows.slots] = floors + every.at - every.starts
        ends = np.where(every.met, every.stops, every.at)
        void = np.arange(len(rows.ids)) >= np.repeat(ends, every.stops - every.starts)
        state.row_number("looked")[rows.ids] = np.where(void, 0, every.marks)


def _searched_until(rows: SortedStretches, places: NumberArray) -> SortedStretches:
    """Rows in which matches are found again that begin before these places (int64[keys])."""
    every = rows.stretches
    until = np.minimum(every.starts + places, every.stops)
    return rows._replace(stretches=every._replace(until=until, marks=np.zeros(0, np.int64)))


def _changed_rows(old: pa.RecordBatch, new: pa.RecordBatch) -> Rows:
    """Rows as they were and are: those that are there no more, then those that were not; what stays is no change."""
    both = pa.Table.from_batches([old, new])
    comes = np.arange(both.num_rows) >= old.num_rows
    groups = row_groups([comparable_values(each) for each in both.columns], both.num_rows)
    differs = pair_marks(np.zeros(len(groups), np.int64), groups, comes) < 0
    rows = both.filter(pa.array(differs)).combine_chunks().to_batches()
    kinds = np.where(comes[differs], INSERT, DELETE).astype(np.int8)
    return rows[0] if rows else old.slice(0, 0), kinds
