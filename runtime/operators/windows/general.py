"""The window operator for every windowing: any assigner under any trigger, with evictors, after Flink's WindowOperator.

It asks the trigger about each row and each timer; vectorised operators of single windowings give the same changes
faster. Differences from Flink: a timer registered for a time that has come fires
after the row, not with the next watermark; the timer by which a window ends is not the trigger's to delete; no timer
outlives its window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen import ORPHAN_POLICIES, OrphanPolicy
from aggloom.codegen.planner import Bounds
from aggloom.codegen.windows import (
    Aligned,
    Evictor,
    EvictorContext,
    Trigger,
    TriggerResult,
    Window,
    Windowing,
)
from aggloom.errors import AggloomError, DataError, StateCorruptError
from aggloom.runtime.operators.base import StoredKeyState, check_choice
from aggloom.runtime.operators.slot_state import SlotState
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.operators.windows.base import PROCESSING, STAGGER, WATERMARK, WindowOperator
from aggloom.runtime.operators.windows.elements import ElementStore, Eviction
from aggloom.runtime.operators.windows.function_calls import FunctionCalls
from aggloom.runtime.operators.windows.general_assignment import Placer
from aggloom.runtime.operators.windows.general_changes import FiringChanges
from aggloom.runtime.operators.windows.general_ledger import Ledger, Source, WindowState, orphan
from aggloom.runtime.operators.windows.general_merging import merge_windows
from aggloom.runtime.operators.windows.general_registry import LiveWindow, Pane, WindowRegistry
from aggloom.runtime.operators.windows.general_trigger import Columns, TriggerCalls
from aggloom.runtime.operators.windows.key_state import of_windows
from aggloom.runtime.operators.windows.stagger import stagger_offset
from aggloom.runtime.storage.arena import Array, FlagArray
from aggloom.runtime.values.changelog import Kinds
from aggloom.runtime.values.clock import Clock

_AT_ONCE = 1 << 20
"""Rows that are written down before they are added up."""
_WINDOWS, _EMITTED, _ELEMENTS = "window.book", "window.emitted", "window.elements"


class GeneralWindowOperator(WindowOperator):
    """One bucket's operator. Deterministic: the same bundles in the same order give the same changes.

    Triggers are asked about retractions as about other rows, so that count windows count changes. on_orphan_retraction
    is judged for each window; with an evictor, which has rows to keep and not numbers, "keep" is "drop". With
    windowing.updates, a firing of a window that holds no row retracts what it emitted. row_schema: all columns of
    rows, if they are more than the spec's handler_schema. bucket: by which windows are staggered.
    """

    def __init__(
        self,
        handler_class: type[Any],
        windowing: Windowing,
        bounds: Bounds,
        *,
        row_schema: pa.Schema | None = None,
        on_orphan_retraction: OrphanPolicy = "drop",
        update_before: bool = True,
        is_chained: bool = False,
        bucket: int = 0,
        directory: Path | None = None,
    ) -> None:
        check_choice("on_orphan_retraction", on_orphan_retraction, ORPHAN_POLICIES)
        super().__init__(handler_class, windowing, bounds, is_chained, update_before)
        if windowing.assigner.merges and windowing.evictor is None and windowing.function is None:
            self.require_merge("sessions")
        self.on_orphan_retraction, self._bucket = on_orphan_retraction, bucket
        self.counters |= {"merged": 0, "evicted": 0}
        window_column = self.spec.group_by[-1]
        fields = row_schema or self.spec.handler_schema
        self._row_schema = pa.schema([f for f in fields if f.name != window_column])
        self._placer = Placer(windowing.assigner, window_column)
        self._source: Source = _no_rows
        self.state = WindowState(handler_class, directory)
        self.rebuild_derived()

    @property
    def states(self) -> Sequence[SlotState]:
        return (self.state,)

    @property
    def keys(self) -> int:
        """The number of live windows of all keys."""
        return len(self._registry.windows)

    def windows_at(self, slot: int) -> list[LiveWindow]:
        """The live windows of the key at a slot."""
        key = self._registry.keys.get(slot)
        return [*key.windows.values()] if key else []

    def key_columns(self) -> list[pa.Array]:
        return self.state.key_columns(self.state.used_slots())[:-1]

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        return of_windows(self, key)

    def next_timers(self) -> tuple[int | None, int | None]:
        """The earliest timers, by the watermark and by the clock."""
        return self._registry.event.first(), self._registry.processing.first()

    def contents(self) -> Rows:
        """Return the rows that have been emitted and may still change: each row an insertion."""
        return self._changes.contents(self._registry.windows.values())

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        self._sync()
        return super().snapshot()

    def flush_files(self) -> None:
        """Write the whole state to the mapped files."""
        self._sync()
        super().flush_files()

    def _advance(self) -> Rows:
        """Return the rows that are due now that the clock has moved."""
        self._registry.clock = self._time()
        self._fire_due()
        return self._finish_bundle()

    def _take(
        self, batch: pa.RecordBatch, kinds: Kinds, partials: Sequence[bytes | memoryview]
    ) -> Rows:
        """Add every row to its windows, ask the triggers, and return the changes of the windows that fire."""
        if partials:
            raise AggloomError("accumulators say nothing of single rows, which triggers must see")
        retracts = self.retractions(kinds)
        times = self._placer.times(batch, self._registry.clock)
        slots = self.state.key_slots(batch)
        rows = batch.select(self._row_schema.names)
        put = self._row_putter(rows, retracts, times)
        columns, ask = Columns(rows, retracts.tolist()), self._calls.element
        slot_of, time_of = slots.tolist(), times.tolist()
        assigned, accepted = np.zeros((2, len(times)), np.bool_)
        last = -1
        for row, local, window in self._placer.windows(batch, times, self._stagger()):
            if row != last:
                self._between_rows()
                last, assigned[row] = row, True
            live = self._find_window(slot_of[row], local, window)
            if live is None:
                continue
            accepted[row] = True
            put(live, row)
            result = ask(live, columns, row, time_of[row])
            if result is not TriggerResult.CONTINUE:
                self._apply_result(live, result)
        self._between_rows()
        self.drop_late(batch, kinds, assigned & ~accepted)
        return self._finish_bundle(np.unique(slots).tolist())

    def _stagger(self) -> int:
        """Return how much later staggered windows start; the first row decides it once and for all."""
        assigner = self.windowing.assigner
        if not self.clock[STAGGER] and isinstance(assigner, Aligned):
            now, digest = self._registry.clock.processing, self.spec.digest
            self.clock[STAGGER] = 1 + stagger_offset(assigner, now, digest, self._bucket)
        return max(0, int(self.clock[STAGGER]) - 1)

    def _row_putter(
        self, rows: pa.RecordBatch, retracts: FlagArray, times: Array
    ) -> Callable[[LiveWindow, int], None]:
        """Return the function that puts a row into a window; sets what the ledger means by the number of a row."""
        handler, ledger = self.state.handler, self._ledger
        if self._store is not None:
            store, first = self._store, self._store.add(rows, times)
            retract_flags = retracts.tolist()
            return lambda live, row: self._apply_element(
                live, store, first + row, retract_flags[row]
            )
        inputs = handler.bind(rows)
        self._source = lambda numbers: (handler.pick(inputs, numbers), retracts[numbers])
        return lambda live, row: ledger.add(row, live.pane)

    def _between_rows(self) -> None:
        if self._registry.due:
            self._fire_due()
        if self._ledger.size > _AT_ONCE:
            self._ledger.run(self._source)

    def _find_window(
        self, slot: int, local: tuple[int, int], window: tuple[int, int]
    ) -> LiveWindow | None:
        """Return the live window of a row of the key at a slot, opened if it is new; None if it is over."""
        registry, assigner = self._registry, self.windowing.assigner
        key = registry.keys.get(slot)
        live = None if key is None else key.windows.get(local)
        if live is not None:
            return live
        own, instants = Window(*local), Window(*window)
        if assigner.merges:
            return merge_windows(assigner, registry, self._merge_windows, slot, (own, instants))
        return None if registry.is_late(instants) else registry.open_window(slot, own, instants)

    def _merge_windows(
        self, touched: list[LiveWindow], local: Window, window: Window
    ) -> LiveWindow:
        """Merge windows of a key, and return the window that replaces them."""
        touched.sort(key=lambda live: live.local)
        first, *others = touched
        if not others and first.local == local:
            return first
        merged = self._registry.open_window(first.key.slot, local, window, first.pane)
        self._calls.merge(merged, touched)
        for live in touched:
            self._changes.retract_emitted(live)
        for live in touched:
            self._calls.clear(live)
            self._registry.close(live)
        for other in others:
            self._merge_panes(first.pane, other.pane)
        self.counters["merged"] += len(others)
        return merged

    def _merge_panes(self, into: Pane, other: Pane) -> None:
        if self._store is None:
            self._ledger.merge(into, other)
        else:
            # In the order of their numbers, that of their arrival.
            into.rows = sorted(into.rows + other.rows)

    def _apply_element(
        self, live: LiveWindow, store: ElementStore, number: int, retracts: bool
    ) -> None:
        """Add a row to the rows of a window with an evictor, or retract the first one that equals it."""
        numbers = live.pane.rows
        if not retracts:
            numbers.append(number)
            return
        at = store.find(numbers, number)
        if at is not None:
            del numbers[at]
        elif self.on_orphan_retraction == "error":
            raise orphan(self.state.place(live.key.slot))
        else:
            self.counters["orphans_dropped"] += 1

    def _fire_due(self) -> None:
        """Fire all timers that have come due, those in event time first."""
        registry, calls, fired = self._registry, self._calls, set()
        registry.due = False
        while True:
            ask, timers = calls.event_time, registry.event
            due = timers.pop(registry.clock.watermark)
            if due is None:
                ask, timers = calls.processing_time, registry.processing
                due = timers.pop(registry.clock.processing)
            if due is None:
                return
            if (timers, due) in fired:
                raise DataError(
                    f"trigger {calls.text} registers its timer of {due[0]} ms again when that fires; "
                    "register a later one"
                )
            fired.add((timers, due))
            self._fire_timer(registry.windows[due[1]], due[0], ask, timers is registry.cleanups)

    def _fire_timer(
        self,
        live: LiveWindow,
        time: int,
        ask: Callable[[LiveWindow, int], TriggerResult],
        ends: bool,
    ) -> None:
        self._apply_result(live, ask(live, time))
        if ends and time == live.cleanup:
            self._calls.clear(live)
            self._registry.close(live)
            self._ledger.gone.append(live.pane)

    def _apply_result(self, live: LiveWindow, result: TriggerResult) -> None:
        if result.fires:
            pane = live.pane if self._eviction is None else self._evict_rows(live, self._eviction)
            self._ledger.fire(pane, self._changes.fire(live))
        if result.purges:
            # The old accumulators wait until their result is read.
            self._ledger.gone.append(live.pane)
            live.pane = self._registry.pane(live.key)

    def _evict_rows(self, live: LiveWindow, eviction: Eviction) -> Pane:
        """A pane with the rows that the evictor leaves."""
        clock = self._registry.clock
        ctx = EvictorContext(clock.watermark, clock.processing)
        rows = eviction.before(live.pane.rows, live.window, ctx)
        if self._function is not None:
            self._function.fire(live, rows, ctx)
        pane = self._registry.pane(live.key)
        for number in rows:
            self._ledger.add(number, pane)
        self._ledger.gone.append(pane)
        live.pane.rows = list(eviction.after(rows, live.window, ctx))
        return pane

    def _finish_bundle(self, window_ids: Sequence[int] = ()) -> Rows:
        """Run the ledger, forget windows that are over, and return the changes; window_ids: slots of the rows' keys."""
        registry, ledger = self._registry, self._ledger
        ledger.run(self._source)
        records, results = ledger.take()
        if self._function is not None:
            results = [*results, *self._function.take()]
        changes = self._changes.take(records, results, registry.windows.values())
        self.counters["fired"] += int((records > 0).sum())
        self.counters["orphans_dropped"] += ledger.dropped
        ledger.dropped = 0
        moved = ledger.forget(sorted({*window_ids, *registry.emptied} - registry.keys.keys()))
        registry.emptied = set()
        if moved is not None:
            registry.renumber(moved)
        if self._store is None:
            self._source = _no_rows
        else:
            self._store.tidy(live.pane for live in registry.windows.values())
        return changes

    def rebuild_derived(self) -> None:
        """Rebuild the Python objects of the state from the arena."""
        windowing, trigger = self.windowing, self.windowing.trigger
        assert isinstance(trigger, Trigger)
        lateness = int(windowing.allowed_lateness)
        self._registry = WindowRegistry(windowing.assigner.event_time, lateness)
        self._registry.clock = self._time()
        self._ledger = Ledger(self.state, self.on_orphan_retraction)
        self._calls = TriggerCalls(trigger, self._registry)
        self._changes = FiringChanges(
            self._output,
            self.state,
            updates=bool(windowing.updates),
            update_before=self.update_before,
        )
        self._store: ElementStore | None = None
        self._eviction: Eviction | None = None
        self._source = _no_rows
        self._function: FunctionCalls | None = None
        if windowing.evictor is not None or windowing.function is not None:
            self._store = ElementStore(self._row_schema, codes=self.handler_class.RETRACTING)
            self._eviction = Eviction(windowing.evictor or Evictor(), self._store, self.counters)
            self._source = self._elements
            if windowing.function is not None:
                self._function = FunctionCalls(windowing.function, self.state, self._store)
        if _WINDOWS in self.state.arena:
            self._load()

    def _time(self) -> Clock:
        return Clock(int(self.clock[PROCESSING]), int(self.clock[WATERMARK]))

    def _elements(self, numbers: Array) -> tuple[Any, Array]:
        assert self._store is not None
        rows = self._store.take(numbers)
        return self.state.handler.bind(rows), np.zeros(len(numbers), np.bool_)

    def _sync(self) -> None:
        """Write the Python objects of the state into the arena."""
        windows = self._registry.windows.values()
        self._changes.tidy(windows, wholly=True)
        parts = {_EMITTED: self._changes.dump()}
        if self._store is not None:
            self._store.tidy((live.pane for live in windows), wholly=True)
            parts[_ELEMENTS] = self._store.dump()
        parts[_WINDOWS] = self._registry.dump()
        for name, data in parts.items():
            self.state.arena.array(name, 0, "u1")
            self.state.arena.replace(name, len(data))[:] = np.frombuffer(data, np.uint8)

    def _load(self) -> None:
        arena = self.state.arena
        try:
            self._registry.load(arena.array(_WINDOWS, 0, "u1").tobytes())
            self._changes.load(arena.array(_EMITTED, 0, "u1").tobytes())
            if self._store is not None:
                self._store.load(arena.array(_ELEMENTS, 0, "u1").tobytes())
            used = set(self.state.index.used_slots().tolist())
            self._registry.check_numbers(used, 0 if self._store is None else len(self._store))
            self._changes.check_numbers(self._registry.windows.values())
        except (ValueError, KeyError, TypeError, RecursionError, OSError, pa.ArrowException) as e:
            raise StateCorruptError(
                f"the windows of a snapshot cannot be read: {e}. Restart from an older checkpoint."
            ) from e


def _no_rows(numbers: Array) -> tuple[Any, Array]:
    raise AggloomError("there are no rows to add up")
