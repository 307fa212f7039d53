"""The holdings of window operators for one key: its open windows, with what their slices come to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen.windows import Aligned, to_instants, to_local
from aggloom.runtime.operators.base import StoredKeyState
from aggloom.runtime.operators.keyed_state import KeyedState
from aggloom.runtime.operators.windows.base import STAGGER
from aggloom.runtime.storage.arena import Array, SlotArray
from aggloom.runtime.values.key_match import match_key


def of_slices(operator: Any, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
    """The windows of a key that are not over, from the slices of a SlicingWindowOperator."""
    slots, ends = slots_and_windows(operator.slices, key)
    emitted: dict[int, int] = {}
    if operator.windows is not None:
        pairs = zip(*slots_and_windows(operator.windows, key), strict=True)
        emitted = {int(end): int(slot) for slot, end in pairs}
    assigner = operator.windowing.assigner
    assert isinstance(assigner, Aligned)
    assigner = assigner.shift_windows(max(0, int(operator.clock[STAGGER]) - 1))
    _, windows = assigner.spans(ends)
    windows = np.unique(np.concatenate([windows, np.array(list(emitted), np.int64)]))
    # A window is over with its last millisecond, which is one before its end.
    last = to_instants(windows - 1, assigner.zone) + int(operator.windowing.allowed_lateness)
    for end in windows[last > operator.now].tolist():
        start = int(assigner.starts(np.array([end]))[0])
        inside = slots[(ends > start) & (ends <= end)]
        before = None
        if end in emitted and operator.windows is not None:
            is_emitted = operator.windows.records[emitted[end]] > 0
            before = (operator.windows.handler, emitted[end]) if is_emitted else None
        yield StoredKeyState(*merge_slots(operator.slices, inside), (start, end), before)


def of_horizons(operator: Any, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
    """The horizons of a key in a RollingWindowOperator, the shortest first, and what has not come into any yet."""
    slots, ends = slots_and_windows(operator.slices, key)
    places, spans = slots_and_windows(operator.emitted, key)
    emitted = dict(zip(spans.tolist(), places.tolist(), strict=True))
    edge = operator.edge
    for span in operator.spans:
        inside = slots[(ends > edge - span) & (ends <= edge)]
        place = int(emitted.get(span, -1))
        is_emitted = place >= 0 and operator.emitted.records[place] > 0
        before = (operator.emitted.handler, place) if is_emitted else None
        if len(inside) or before:
            yield StoredKeyState(*merge_slots(operator.slices, inside), (edge - span, edge), before)
    for slot, end in zip(slots[ends > edge].tolist(), ends[ends > edge].tolist(), strict=True):
        start = end - operator.windowing.assigner.slice_ms
        yield StoredKeyState(operator.slices.handler, slot, (start, end))


def merge_slots(state: KeyedState, slots: SlotArray) -> tuple[Any, int | None]:
    """The accumulators of several slots together: a handler and a slot, None if there are none."""
    if len(slots) < 2:
        return state.handler, int(slots[0]) if len(slots) else None
    # In accumulators of its own: looking at a key must not change it.
    scratch = state.handler.create(1)
    for slot in slots:
        one = np.array([slot], np.int64)
        state.handler.merge_slots(scratch, np.zeros(1, np.int64), state.accumulators, one)
    handler = type(state.handler)()
    handler.set(scratch, np.zeros(1, np.int64))
    return handler, 0


def of_sessions(operator: Any, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
    """The sessions of a key in a SessionWindowOperator."""
    live = operator.live
    slots = live.sessions.live()
    slots = slots[match_key(live.key_columns(slots), key, len(slots))]
    zone, arrays, emitted = operator.windowing.assigner.zone, live.sessions.arrays, operator.emitted
    for slot in slots[np.argsort(arrays.start[slots])].tolist():
        bounds = to_local(np.array([arrays.start[slot], arrays.end[slot]], np.int64), zone)
        before = None
        if emitted is not None and emitted.records[slot] > 0:
            before = emitted.handler, slot
        yield StoredKeyState(live.handler, slot, (int(bounds[0]), int(bounds[1])), before)


def of_windows(operator: Any, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
    """The live windows of a key in a GeneralWindowOperator."""
    slots, windows = slots_and_windows(operator.state, key)
    for slot in slots[windows == 0].tolist():
        for live in sorted(operator.windows_at(slot), key=lambda live: live.local):
            pane = live.pane
            rows = len(pane.rows) if operator.windowing.evictor is not None else None
            place = pane.slot if pane.slot >= 0 and rows is None else None
            yield StoredKeyState(
                operator.state.handler, place, (live.local.start, live.local.end), None, rows
            )


def slots_and_windows(state: KeyedState, key: pa.RecordBatch) -> tuple[Array, Array]:
    """The slots of a key in a state by key and window, in order of the windows; the windows."""
    slots = state.index.used_slots()
    # The last key column is the window.
    slots = slots[match_key(state.key_columns(slots)[:-1], key, len(slots))]
    windows = state.windows[slots]
    order = np.argsort(windows, kind="stable")
    return slots[order], windows[order]
