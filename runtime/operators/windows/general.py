"""The window operator for every windowing: any assigner under any trigger, with evictors, after Flink's WindowOperator.

It asks the trigger about each row and each timer; the operators for windowings that are
vectorised give the same changes faster. Where it differs from Flink: a timer registered for a time that has come fires
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
from aggloom.runtime.operators.base import StoredKeyState
from aggloom.runtime.operators.slot_state import SlotState
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.operators.windows.base import PROCESSING, STAGGER, WATERMARK, WindowOperator
from aggloom.runtime.operators.windows.elements import ElementStore, Eviction
from aggloom.runtime.operators.windows.function_calls import FunctionCalls
from aggloom.runtime.operators.windows.general_assignment import Placer
from aggloom.runtime.operators.windows.general_changes import FiringChanges
from aggloom.runtime.operators.windows.general_ledger import Ledger, Source, WindowState, orphan
from aggloom.runtime.operators.windows.general_merging import place
from aggloom.runtime.operators.windows.general_registry import Live, Pane, WindowRegistry
from aggloom.runtime.operators.windows.general_trigger import Asker, Columns
from aggloom.runtime.operators.windows.key_state import of_windows
from aggloom.runtime.operators.windows.stagger import stagger_offset
from aggloom.runtime.storage.arena import Array, FlagArray
from aggloom.runtime.values.changelog import Kinds
from aggloom.runtime.values.clock import Clock

_AT_ONCE = 1 << 20
"""Rows that are written down before they are added up."""
_BOOK, _EMITTED, _ELEMENTS = "window.book", "window.emitted", "window.elements"


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
        _check(on_orphan_retraction)
        super().__init__(handler_class, windowing, bounds, is_chained, update_before)
        if windowing.assigner.merges and windowing.evictor is None and windowing.function is None:
            self.require_merge("sessions")
        self.on_orphan_retraction, self._bucket = on_orphan_retraction, bucket
        self.counters |= {"merged": 0, "evicted": 0}
        window_column = self.spec.group_by[-1]
        fields = [f for f in row_schema or self.spec.handler_schema if f.name != window_column]
        self._row_schema = pa.schema(fields)
        self._placer = Placer(windowing.assigner, window_column)
        self._source: Source = _no_rows
        self.state = WindowState(handler_class, directory)
        self.rebuild_derived()

    @property
    def states(self) -> Sequence[SlotState]:
        return (self.state,)

    @property
    def keys(self) -> int:
        """Live windows of all keys."""
        return len(self._book.windows)

    def windows_at(self, slot: int) -> list[Live]:
        """The live windows of the key at a slot."""
        key = self._book.keys.get(slot)
        return [] if key is None else list(key.windows.values())

    def key_columns(self) -> list[pa.Array]:
        return self.state.key_columns(self.state.used_slots())[:-1]

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        return of_windows(self, key)

    def next_timers(self) -> tuple[int | None, int | None]:
        """The earliest timers, by the watermark and by the clock."""
        return self._book.event.first(), self._book.processing.first()

    def contents(self) -> Rows:
        """Return the rows that have been emitted and may still change: each row an insertion."""
        return self._changes.contents(self._book.windows.values())

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        self._sync()
        return super().snapshot()

    def flush_files(self) -> None:
        """Bring everything into the mapped files."""
        self._sync()
        super().flush_files()

    # Rows.

    def _advance(self) -> Rows:
        """Return the rows that are due now that the clock has moved."""
        self._book.clock = self._time()
        self._fire_due()
        return self._carry_out()

    def _take(
        self, batch: pa.RecordBatch, kinds: Kinds, partials: Sequence[bytes | memoryview]
    ) -> Rows:
        """Bring every row into its windows, and fire what that makes fire."""
        if partials:
            raise AggloomError("accumulators say nothing of single rows, which triggers must see")
        retracts = self.retractions(kinds)
        times = self._placer.times(batch, self._book.clock)
        slots = self.state.key_slots(batch)
        rows = batch.select(self._row_schema.names)
        put = self._row_putter(rows, retracts, times)
        columns, ask = Columns(rows, retracts.tolist()), self._asker.element
        slot_of, time_of = slots.tolist(), times.tolist()
        assigned, accepted = np.zeros((2, len(times)), np.bool_)
        last = -1
        for row, local, window in self._placer.windows(batch, times, self._stagger()):
            if row != last:
                self._between_rows()
                last, assigned[row] = row, True
            live = self._live(slot_of[row], local, window)
            if live is None:
                continue
            accepted[row] = True
            put(live, row)
            result = ask(live, columns, row, time_of[row])
            if result is not TriggerResult.CONTINUE:
                self._obey(live, result)
        self._between_rows()
        self.drop_late(batch, kinds, assigned & ~accepted)
        return self._carry_out(np.unique(slots).tolist())

    def _stagger(self) -> int:
        """Return how much later staggered windows start; the first row decides it once and for all."""
        assigner = self.windowing.assigner
        if not self.clock[STAGGER] and isinstance(assigner, Aligned):
            now, digest = self._book.clock.processing, self.spec.digest
            self.clock[STAGGER] = 1 + stagger_offset(assigner, now, digest, self._bucket)
        return max(0, int(self.clock[STAGGER]) - 1)

    def _row_putter(
        self, rows: pa.RecordBatch, retracts: FlagArray, times: Array
    ) -> Callable[[Live, int], None]:
        """Return the function that puts a row into a window; sets what the ledger means by the number of a row."""
        handler, ledger = self.state.handler, self._ledger
        if self._store is not None:
            store, first = self._store, self._store.add(rows, times)
            retract_flags = retracts.tolist()
            return lambda live, row: self._keep(live, store, first + row, retract_flags[row])
        inputs = handler.bind(rows)
        self._source = lambda numbers: (handler.pick(inputs, numbers), retracts[numbers])
        return lambda live, row: ledger.add(row, live.pane)

    def _between_rows(self) -> None:
        if self._book.due:
            self._fire_due()
        if self._ledger.size > _AT_ONCE:
            self._ledger.run(self._source)

    # Windows.

    def _live(self, slot: int, local: tuple[int, int], window: tuple[int, int]) -> Live | None:
        """The live window of a key that a row belongs to, made if it is not there; None if it is over."""
        key = self._book.keys.get(slot)
        live = None if key is None else key.windows.get(local)
        if live is not None:
            return live
        own, instants = Window(*local), Window(*window)
        assigner = self.windowing.assigner
        if assigner.merges:
            return place(assigner, self._book, self._merge_windows, slot, (own, instants))
        return None if self._book.is_late(instants) else self._book.open_window(slot, own, instants)

    def _merge_windows(self, touched: list[Live], local: Window, window: Window) -> Live:
        """The window that takes the place of others."""
        touched.sort(key=lambda live: live.local)
        first, *others = touched
        if not others and first.local == local:
            return first
        merged = self._book.open_window(first.key.slot, local, window, first.pane)
        self._asker.merge(merged, touched)
        for live in touched:
            self._changes.take_back(live)
        for live in touched:
            self._asker.clear(live)
            self._book.close(live)
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

    def _keep(self, live: Live, store: ElementStore, number: int, retracts: bool) -> None:
        """With an evictor: a row comes to a window's rows, or retracts the first that equals it."""
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

    # Firing.

    def _fire_due(self) -> None:
        """Fire all timers that have come due, those in event time first."""
        book, asker, fired = self._book, self._asker, set()
        book.due = False
        while True:
            ask, timers = asker.event_time, book.event
            due = timers.pop(book.clock.watermark)
            if due is None:
                ask, timers = asker.processing_time, book.processing
                due = timers.pop(book.clock.processing)
            if due is None:
                return
            if (timers, due) in fired:
                raise DataError(
                    f"trigger {asker.text} registers its timer of {due[0]} ms again when that fires; "
                    "register a later one"
                )
            fired.add((timers, due))
            self._fire_timer(book.windows[due[1]], due[0], ask, timers is book.cleanups)

    def _fire_timer(
        self, live: Live, time: int, ask: Callable[[Live, int], TriggerResult], ends: bool
    ) -> None:
        self._obey(live, ask(live, time))
        if ends and time == live.cleanup:
            self._asker.clear(live)
            self._book.close(live)
            self._ledger.gone.append(live.pane)

    def _obey(self, live: Live, result: TriggerResult) -> None:
        if result.fires:
            pane = live.pane if self._eviction is None else self._evict_rows(live, self._eviction)
            self._ledger.fire(pane, self._changes.fire(live))
        if result.purges:
            # The old accumulators wait until their result is read.
            self._ledger.gone.append(live.pane)
            live.pane = self._book.pane(live.key)

    def _evict_rows(self, live: Live, eviction: Eviction) -> Pane:
        """A pane with the rows that the evictor leaves."""
        clock = self._book.clock
        ctx = EvictorContext(clock.watermark, clock.processing)
        rows = eviction.before(live.pane.rows, live.window, ctx)
        if self._function is not None:
            self._function.fire(live, rows, ctx)
        pane = self._book.pane(live.key)
        for number in rows:
            self._ledger.add(number, pane)
        self._ledger.gone.append(pane)
        live.pane.rows = list(eviction.after(rows, live.window, ctx))
        return pane

    def _carry_out(self, window_ids: Sequence[int] = ()) -> Rows:
        """Do what was decided, and forget what is over; window_ids: slots of keys that rows had."""
        book, ledger = self._book, self._ledger
        ledger.run(self._source)
        records, results = ledger.take()
        if self._function is not None:
            results = [*results, *self._function.take()]
        changes = self._changes.take(records, results, book.windows.values())
        self.counters["fired"] += int((records > 0).sum())
        self.counters["orphans_dropped"] += ledger.dropped
        ledger.dropped = 0
        moved = ledger.forget(sorted({*window_ids, *book.emptied} - book.keys.keys()))
        book.emptied = set()
        if moved is not None:
            book.renumber(moved)
        if self._store is None:
            self._source = _no_rows
        else:
            self._store.tidy(live.pane for live in book.windows.values())
        return changes

    # State.

    def rebuild_derived(self) -> None:
        """Go on with what the arena holds."""
        windowing, trigger = self.windowing, self.windowing.trigger
        assert isinstance(trigger, Trigger)
        self._book = WindowRegistry(windowing.assigner.event_time, int(windowing.allowed_lateness))
        self._book.clock = self._time()
        self._ledger = Ledger(self.state, self.on_orphan_retraction)
        self._asker = Asker(trigger, self._book)
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
        if _BOOK in self.state.arena:
            self._load()

    def _time(self) -> Clock:
        return Clock(int(self.clock[PROCESSING]), int(self.clock[WATERMARK]))

    def _elements(self, numbers: Array) -> tuple[Any, Array]:
        assert self._store is not None
        rows = self._store.take(numbers)
        return self.state.handler.bind(rows), np.zeros(len(numbers), np.bool_)

    def _sync(self) -> None:
        """Write what is kept in Python into the arena."""
        windows = self._book.windows.values()
        self._changes.tidy(windows, wholly=True)
        parts = {_EMITTED: self._changes.dump()}
        if self._store is not None:
            self._store.tidy((live.pane for live in windows), wholly=True)
            parts[_ELEMENTS] = self._store.dump()
        parts[_BOOK] = self._book.dump()
        for name, data in parts.items():
            self.state.arena.array(name, 0, "u1")
            self.state.arena.replace(name, len(data))[:] = np.frombuffer(data, np.uint8)

    def _load(self) -> None:
        arena = self.state.arena
        try:
            self._book.load(arena.array(_BOOK, 0, "u1").tobytes())
            self._changes.load(arena.array(_EMITTED, 0, "u1").tobytes())
            if self._store is not None:
                self._store.load(arena.array(_ELEMENTS, 0, "u1").tobytes())
            used = set(self.state.index.used_slots().tolist())
            self._book.check_numbers(used, 0 if self._store is None else len(self._store))
            self._changes.check_numbers(self._book.windows.values())
        except (ValueError, KeyError, TypeError, RecursionError, OSError, pa.ArrowException) as e:
            raise StateCorruptError(
                f"the windows of a snapshot cannot be read: {e}. Restart from an older checkpoint."
            ) from e


def _check(policy: str) -> None:
    if policy not in ORPHAN_POLICIES:
        known = ", ".join(ORPHAN_POLICIES)
        raise AggloomError(f"on_orphan_retraction={policy!r} does not exist; use one of {known}")


def _no_rows(numbers: Array) -> tuple[Any, Array]:
    raise AggloomError("there are no rows to add up")
