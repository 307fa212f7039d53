"""Rolling horizons: the aggregates of each key over the last hour, day and week, from one set of slices.

Rows are added up by key and slice, as of windows. The edge is the end of the last slice that the clock has passed; a
horizon holds the slices between the edge less its length and the edge. When the edge moves, the keys of which a slice
comes in or leaves are merged anew: the slices of the shortest horizon first, then those that the next one has more, so
that all horizons take the merges of the longest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.codegen.planner import Bounds, RollingLayout, rolling_schema
from aggloom.codegen.windows import Rolling, Windowing, count_up
from aggloom.runtime.operators.base import StoredKeyState
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.operators.windows.base import DUE, FIRED, WATERMARK
from aggloom.runtime.operators.windows.key_state import of_horizons
from aggloom.runtime.operators.windows.slices import SlicedRows
from aggloom.runtime.storage.arena import Array, SlotArray
from aggloom.runtime.values.changelog import transitions
from aggloom.runtime.values.clock import AFTER_ALL


class _KeySlices(NamedTuple):
    """Slices of some keys that are in the longest horizon.

    owners: a slot of each key. keys: the place in `owners` of each slice. slots, ends: the slices.
    """

    owners: SlotArray
    keys: Array  # int64[slices]
    slots: SlotArray
    ends: Array  # int64[slices]


class _Results(NamedTuple):
    """Results of keys before and after, a row for each key and horizon, by key and then by length.

    slots: in `windows`. was, now: which have rows.
    """

    slots: SlotArray
    before: Any
    after: Any
    was: Array  # bool[rows]
    now: Array  # bool[rows]


class RollingWindowOperator(SlicedRows):
    """One bucket's operator for rolling horizons; `windows` holds what was emitted last, by key and horizon.

    Deterministic: the same bundles in the same order give the same changes. After an error in the middle of a bundle
    it refuses further work: restore a snapshot. layout: the shape of the result.
    """

    def __init__(
        self,
        handler_class: type[Any],
        windowing: Windowing,
        bounds: Bounds,
        layout: RollingLayout,
        *,
        on_orphan_retraction: str = "drop",
        update_before: bool = True,
        is_chained: bool = False,
        directory: Path | None = None,
    ) -> None:
        super().__init__(
            handler_class,
            windowing,
            bounds,
            on_orphan_retraction=on_orphan_retraction,
            update_before=update_before,
            is_chained=is_chained,
            directory=directory,
        )
        assigner = windowing.assigner
        assert isinstance(assigner, Rolling) and self.windows is not None
        self.layout, self.emitted = layout, self.windows
        spans = sorted(zip(assigner.horizons, assigner.names, strict=True))
        self._spans = np.array([span for span, _ in spans], np.int64)
        self._names = pa.array([name for _, name in spans], pa.string())
        fields = self.spec.aggregate_schema
        self.schema = rolling_schema(fields, len(self.spec.group_by) - 1, layout)
        self.nothing = no_rows(self.schema)
        self._results = list(fields)[len(self.spec.group_by) :]
        calls = {field.name: place for place, field in enumerate(self._results)}
        self._result_places = [
            (calls[each.call], int(np.searchsorted(self._spans, each.horizon)))
            for each in layout.columns
        ]

    @property
    def edge(self) -> int:
        """The end of the last slice that is over: up to, without, this time rows count."""
        return self._edge_at(int(self.clock[FIRED]))

    @property
    def spans(self) -> list[int]:
        """The lengths of the horizons, ascending, in milliseconds."""
        return self._spans.tolist()

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        return of_horizons(self, key)

    def contents(self) -> Rows:
        """Return the rows that have been emitted and may still change: each row an insertion."""
        state = self.emitted
        slots = state.index.used_slots()
        slots = slots[np.lexsort((state.windows[slots], state.key_numbers(slots)))]
        values, now = state.handler.values(slots), state.records[slots] > 0
        return self._changes(_Results(slots, values, values, np.zeros_like(now), now))

    def next_timers(self) -> tuple[int | None, int | None]:
        due = int(self.clock[DUE])
        if due >= AFTER_ALL:
            return None, None
        return (due, None) if self._event_time else (None, due + 1)

    def _after_rows(self, touched: Array) -> Rows:
        """Correct the horizons that late rows are in, and wait for the slices of the others to be over."""
        ends, edge = self.slices.windows[touched], self.edge
        self.be_due_at(self._next_moves(ends, edge))
        return self._refire(touched[(ends <= edge) & (ends > edge - self._spans[-1])], edge)

    def _advance(self) -> Rows:
        if self._event_time and self.clock[WATERMARK] >= AFTER_ALL:
            # The end of input is no time that has passed: the horizons stay as they were, and wait for nothing.
            self.clock[DUE] = AFTER_ALL
            return self.nothing
        before, now = self.edge, self.now
        changes = self.nothing
        if self.clock[DUE] <= now:
            edge = self._edge_at(now)
            changes = self._move(before, edge)
            # After the results: slices that leave the longest horizon were what marks their keys.
            self._forget_slices_before(edge - int(self._spans[-1]))
            self.clock[DUE] = AFTER_ALL
            self.be_due_at(
                self._next_moves(self.slices.windows[self.slices.index.used_slots()], edge)
            )
        self.clock[FIRED] = now
        return changes

    def _move(self, before: int, edge: int) -> Rows:
        """Give out what has changed of the keys of which a slice comes into a horizon or leaves one."""
        used = self.slices.index.used_slots()
        ends = self.slices.windows[used]
        moves = (ends > before) & (ends <= edge)
        for span in self.spans:
            moves |= (ends > before - span) & (ends <= edge - span)
        return self._refire(used[moves], edge)

    def _refire(self, touched: SlotArray, edge: int) -> Rows:
        """Merge the horizons of the keys of some slices anew, and give out what has changed."""
        if not len(touched):
            return self.nothing
        state, parts = self.emitted, self._slices_of_keys(touched, edge)
        spans, keys = self._spans, len(parts.owners)
        owners = np.repeat(parts.owners, len(spans))
        slots = state.lookup_keys_of(self.slices, owners, np.tile(spans, keys))
        self.counters["fired"] += len(slots)
        # Both results come from one state: strings are known by their numbers in its pool.
        before, was = state.handler.values(slots), state.records[slots] > 0
        state.reset(slots)
        self._merge_horizons(parts, slots, edge)
        after, now = state.handler.values(slots), state.records[slots] > 0
        state.handler.refuse_overflow(after, state.place)
        changes = self._changes(_Results(slots, before, after, was, now))
        # After the changes are made: the texts of what goes lie in the pool.
        gone = np.repeat(~now.reshape(keys, -1).any(axis=1), len(spans))
        state.reset(slots[gone])
        state.forget(slots[gone])
        return changes

    def _merge_horizons(self, parts: _KeySlices, slots: SlotArray, edge: int) -> None:
        """Merge slices into the accumulators of each horizon, which are new; slots: by key and then by length."""
        state, count = self.emitted, len(self._spans)
        scratch = state.handler.create(len(parts.owners))
        newest = edge
        for place, span in enumerate(self.spans):
            if self._merges_in_order:
                # Older rows come before newer ones: what a shorter horizon has merged is of no use.
                scratch, newest = state.handler.create(len(parts.owners)), edge
            band = (parts.ends > edge - span) & (parts.ends <= newest)
            there = parts.keys[band]
            self._merge(scratch, there, parts.slots[band], np.zeros(len(there), np.int64))
            state.handler.merge_slots(state.accumulators, slots[place::count], scratch)
            newest = edge - span

    def _slices_of_keys(self, touched: SlotArray, edge: int) -> _KeySlices:
        """The slices in the longest horizon of the keys that have the touched slices."""
        state, span = self.slices, int(self._spans[-1])
        numbers = state.key_numbers(touched)
        _, firsts = np.unique(numbers, return_index=True)
        owners = touched[firsts]
        length = span // self._assigner.slice_ms
        if len(owners) * length < len(state.index.used_slots()):
            keys = np.repeat(np.arange(len(owners), dtype=np.int64), length)
            ends = edge - count_up(np.full(len(owners), length, np.int64)) * self._assigner.slice_ms
            slots = state.find_keys_of(state, owners[keys], ends)
            there = slots >= 0
            return _KeySlices(owners, keys[there], slots[there], ends[there])
        # Those of all keys: looking each possible slice up would take longer.
        used = state.index.used_slots()
        used = used[(state.windows[used] <= edge) & (state.windows[used] > edge - span)]
        numbers = state.key_numbers(np.concatenate([owners, used]))
        places = np.full(int(numbers.max()) + 1, -1, np.int64)
        places[numbers[: len(owners)]] = np.arange(len(owners))
        keys = places[numbers[len(owners) :]]
        mine = keys >= 0
        return _KeySlices(owners, keys[mine], used[mine], state.windows[used[mine]])

    def _changes(self, results: _Results) -> Rows:
        rows = self._long_changes if self.layout.horizon else self._wide_changes
        return rows(results) if len(results.slots) else self.nothing

    def _long_changes(self, results: _Results) -> Rows:
        """A row for each key and horizon that has rows."""
        state, n = self.emitted, len(results.slots)
        changed = state.handler.differ(results.before, results.after, n)
        item, after_it, kinds = transitions(results.was, results.now, changed, self.update_before)
        pair = state.handler.concatenate(results.before, results.after)
        values = state.handler.to_arrow(pair, self._results, item + n * after_it)
        slots = results.slots[item]
        names = self._names.take(pa.array(np.searchsorted(self._spans, state.windows[slots])))
        columns = [*state.key_columns(slots)[:-1], names, *values]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), kinds

    def _wide_changes(self, results: _Results) -> Rows:
        """One row for each key that has rows in any horizon."""
        state, n, count = self.emitted, len(results.slots), len(self._spans)
        changed = np.zeros(n // count, np.bool_)
        for call, place in self._result_places:
            parts = (
                (out[0], out[1 + 2 * call], out[2 + 2 * call])
                for out in (results.before, results.after)
            )
            changed |= state.handler.differ(*parts, n)[place::count]
        was, now = (
            np.asarray(each.reshape(-1, count).any(axis=1)) for each in (results.was, results.now)
        )
        item, after_it, kinds = transitions(was, now, changed, self.update_before)
        pair = state.handler.concatenate(results.before, results.after)
        values = {
            place: state.handler.to_arrow(pair, self._results, item * count + place + n * after_it)
            for place in {place for _, place in self._result_places}
        }
        keys = state.key_columns(results.slots[item * count])[:-1]
        columns = [*keys, *(values[place][call] for call, place in self._result_places)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), kinds

    def _next_moves(self, ends: Array, edge: int) -> Array:
        """Return the next times after the edge at which slices enter a horizon or leave one."""
        moves = (ends[:, None] + np.concatenate([[0], self._spans])).ravel()
        return self._fires(moves[moves > edge])

    def _forget_slices_before(self, last: int) -> None:
        used = self.slices.index.used_slots()
        over = used[self.slices.windows[used] <= last]
        self.slices.reset(over)
        self.slices.forget(over)

    def _cleanup(self, ends: Array) -> Array:
        # A horizon is shown until the next edge: up to then it takes late rows.
        return self._fires(ends + self._assigner.slice_ms)

    def _edge_at(self, now: int) -> int:
        """The edge when this millisecond is over."""
        return (
            int(self._assigner.slices(np.array([now + 1], np.int64))[0]) - self._assigner.slice_ms
        )
