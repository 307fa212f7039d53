"""Slices of windows: rows are added to the accumulators of their key and slice."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen.planner import Bounds
from aggloom.codegen.windows import (
    Aligned,
    Windowing,
    count_up,
    distinct_times,
    to_instants,
    to_local,
)
from aggloom.runtime.operators.base import StoredKeyState
from aggloom.runtime.operators.bundle import Applier, refuse_orphans
from aggloom.runtime.operators.keyed_state import KeyedState
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.operators.windows.base import PROCESSING, STAGGER, WATERMARK, WindowOperator
from aggloom.runtime.operators.windows.key_state import of_slices
from aggloom.runtime.operators.windows.stagger import stagger_offset
from aggloom.runtime.storage.arena import Array, SlotArray
from aggloom.runtime.storage.audit import corrupt_snapshot


class SlicedRows(WindowOperator):
    """The half of an operator of windows at fixed places that takes rows; the other half fires windows.

    slices: by key and end of a slice. windows: what was emitted last, by key and end, if windows can fire again.
    """

    keeps_calls = ""

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
        bucket: int = 0,
        directory: Path | None = None,
    ) -> None:
        assigner = windowing.assigner
        assert isinstance(assigner, Aligned)
        super().__init__(handler_class, windowing, bounds, is_chained, update_before, per_record)
        # A row that several windows share is added up once, and its slice is merged into each of them.
        if windowing.updates or assigner.slice_ms != assigner.size_ms:
            self.require_merge("windows that overlap or fire again")
        self.on_orphan_retraction = on_orphan_retraction
        self._bucket = bucket
        self._early = getattr(windowing.trigger, "early", None)
        self._late_delay = getattr(windowing.trigger, "late", None) or 0
        self._applier = Applier()
        self.slices = KeyedState(handler_class, directory and directory / "slices")
        self.windows: KeyedState | None = None
        if windowing.updates:
            place = directory and directory / "windows"
            self.windows = KeyedState(handler_class, place, stamps=("next", "fired"))
        self._merges_in_order = any(self.spec.entry(c).by_arrival for c in self.spec.calls)
        self.rebuild_derived()

    @property
    def states(self) -> list[KeyedState]:
        return [self.slices, *([self.windows] if self.windows is not None else [])]

    @property
    def keys(self) -> int:
        """Slices, and windows that were emitted, of all keys."""
        return sum(len(state) for state in self.states)

    def key_columns(self) -> list[pa.Array]:
        return self.slices.key_columns(self.slices.used_slots())[:-1]

    def count_key_rows(self) -> Array | None:
        return self.slices.count_key_rows()

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        return of_slices(self, key)

    def start_with(self, other: WindowOperator) -> None:
        super().start_with(other)
        self.rebuild_derived()

    def take_over(self, old: WindowOperator) -> None:
        self.clock[:] = old.clock
        self.rebuild_derived()

    def _take(
        self, batch: pa.RecordBatch, kinds: Array, partials: Sequence[bytes | memoryview]
    ) -> Rows:
        batch, kinds = self._place_rows(batch, kinds)
        state = self.slices
        retracts = self.retractions(kinds)
        slots = state.lookup(batch)
        if self.on_orphan_retraction == "error":
            refuse_orphans(state, slots, retracts)
        merged = [each for each in map(self._open_partial, partials) if len(each[0])]
        every = np.concatenate([slots, *(targets for targets, _, _ in merged)])
        touched = self._applier.distinct(state, every)
        keep = self.on_orphan_retraction == "keep"
        rows = batch, slots, retracts
        dropped = self._applier.apply(state, touched, rows, merged, keep=keep)
        self._applier.forget_counts(touched)
        self.counters["orphans_dropped"] += dropped
        changes = self._after_rows(touched)
        records = state.records[touched]
        # Kept orphans are a debt: with a negative count the slot stays.
        gone = touched[records == 0 if keep else records <= 0]
        state.reset(gone)
        state.forget(gone)
        return changes

    @abstractmethod
    def _after_rows(self, touched: Array) -> Rows:
        """Handle what rows bring at once: late updates, early results, and the times that are waited for."""

    def _place_rows(self, batch: pa.RecordBatch, kinds: Array) -> Rows:
        """The rows that are not late, with the end of their slice in the window's column."""
        place = len(self.spec.group_by) - 1
        if batch.column(place).null_count:
            # Rows without a time go before the log is written: this one has been changed.
            raise corrupt_snapshot("log: a row of a window has no time")
        slices = np.asarray(batch.column(place))
        if batch.num_rows and not self.clock[STAGGER]:
            now = int(self.clock[PROCESSING])
            # The first row decides it, and the state keeps it: a bucket's windows never move afterwards.
            offset = stagger_offset(self._assigner, now, self.spec.digest, self._bucket)
            self.clock[STAGGER] = 1 + offset
            self.rebuild_derived()
        if not self._event_time and batch.num_rows:
            local = to_local(self.clock[PROCESSING : PROCESSING + 1], self._assigner.zone)
            slices = np.repeat(self._assigner.slices(local), batch.num_rows)
        elif not self.windowing.is_sliced:
            slices = self._assigner.slices(to_local(slices, self._assigner.zone))
        stays = self._stays(slices)
        if stays is not None:
            self._drop_late(batch, kinds, slices, stays)
            batch, kinds, slices = batch.filter(pa.array(stays)), kinds[stays], slices[stays]
        slice_keys = self._find_slices(slices)
        if slice_keys is not slices or not self.windowing.is_sliced:
            batch = batch.set_column(place, batch.schema.field(place), pa.array(slice_keys))
        return batch, kinds

    def _find_slices(self, slices: Array) -> Array:
        """Return the slices in which rows are added up: in a cumulating window that has fired, its first slice."""
        if self.windows is not None or not self._assigner.cumulates or not len(slices):
            return slices
        if self._fires(slices.min(keepdims=True))[0] > self.now:
            return slices
        first = self._assigner.starts(slices) + self._assigner.slice_ms
        return np.where(self._fires(slices) <= self.now, first, slices)

    def _drop_late(self, batch: pa.RecordBatch, kinds: Array, slices: Array, stays: Array) -> None:
        """Rows that do not stay are late, unless they lie in a gap between windows."""
        self.drop_late(batch, kinds, ~stays & (self._assigner.last_ends(slices) >= slices))

    def _stays(self, slices: Array) -> Array | None:
        """Return which slices still belong to a window that takes rows; None: all."""
        if not len(slices):
            return None
        last = self._assigner.last_ends(slices)
        gaps = last < slices
        if not self._event_time:
            return ~gaps if gaps.any() else None
        if not gaps.any() and self._cleanup(last.min(keepdims=True))[0] > self.clock[WATERMARK]:
            return None
        # Rows share few window ends: zones are looked up once for each.
        ends, places = distinct_times(last, self._assigner.step_ms)
        return ~gaps & (self._cleanup(ends) > self.clock[WATERMARK])[places]

    def _open_partial(self, partial: bytes | memoryview) -> tuple[Array, KeyedState, Array]:
        """Accumulators by slice that a local aggregate sent: target slots, their state, its slots."""
        other = KeyedState(self.handler_class)
        other.restore(partial)
        slots = other.index.used_slots()
        stays = self._stays(other.windows[slots])
        if stays is not None:
            self.counters["late_dropped"] += int(np.abs(other.records[slots[~stays]]).sum())
            slots = slots[stays]
        self.counters["rows"] += int(np.abs(other.records[slots]).sum())
        slice_keys = self._find_slices(other.windows[slots])
        return self.slices.lookup_keys_of(other, slots, slice_keys), other, slots

    def _merge(self, into: Any, targets: Array, slots: SlotArray, ends: Array) -> None:
        """Merge slices into accumulators, in order of time; a slice may go to several windows."""
        handler = self.slices.handler
        if self._merges_in_order or handler.VIEWS:
            # Room is made for each slice once, so that windows of one end go together.
            # By time within a window: aggregates by arrival take the rows of an earlier slice as the earlier ones.
            order = np.lexsort((self.slices.windows[slots], ends))
            targets, slots, ends = targets[order], slots[order], ends[order]
            cuts = np.flatnonzero(np.diff(ends)) + 1
        else:
            cuts = np.zeros(0, np.int64)
        parts = zip(np.split(targets, cuts), np.split(slots, cuts), strict=True)
        for target, slot in parts:
            handler.merge_slots(into, target, self.slices.accumulators, slot)

    def _slices_of(self, ends: Array) -> tuple[Array, Array]:
        """(number of the window, end of the slice) of all slices of windows."""
        step = self._assigner.slice_ms
        starts = self._assigner.starts(ends)
        counts = (ends - starts) // step
        rows = np.repeat(np.arange(len(ends), dtype=np.int64), counts)
        return rows, starts[rows] + (count_up(counts) + 1) * step

    def _forget_slices(self) -> None:
        state = self.slices
        used = state.index.used_slots()
        ends, places = distinct_times(state.windows[used], self._assigner.slice_ms)
        over = used[(self._cleanup(self._assigner.last_ends(ends)) <= self.now)[places]]
        state.reset(over)
        state.forget(over)

    def _fires(self, ends: Array) -> Array:
        """Return the times at which windows with these ends are due: their last millisecond."""
        # A window's end is not in it: its last millisecond is what the watermark has to pass, as Flink's maxTimestamp
        # says.
        return to_instants(ends - 1, self._assigner.zone)

    def _cleanup(self, ends: Array) -> Array:
        """Return the times from which windows with these ends take no more rows."""
        return self._fires(ends) + self.windowing.allowed_lateness

    def rebuild_derived(self) -> None:
        assigner = self.windowing.assigner
        assert isinstance(assigner, Aligned)
        self._event_time = assigner.event_time
        self._assigner = assigner.shift_windows(max(0, int(self.clock[STAGGER]) - 1))
