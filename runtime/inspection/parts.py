"""What an operator holds of one key: all of it, or its open windows with what their slices come to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.codegen.planner import Bounds
from aggloom.codegen.windows import Aligned, to_instants, to_local
from aggloom.runtime.inspection.accumulators import Layout
from aggloom.runtime.inspection.keys import distinct, matching
from aggloom.runtime.inspection.report import Part, Row
from aggloom.runtime.operators.keyed_state import KeyedState, key_words
from aggloom.runtime.operators.windows.assign import bound_columns
from aggloom.runtime.operators.windows.base import PROCESSING, STAGGER, WATERMARK
from aggloom.runtime.operators.windows.general import GeneralWindowOperator
from aggloom.runtime.operators.windows.sessions import SessionWindowOperator
from aggloom.runtime.operators.windows.slicing import SlicingWindowOperator
from aggloom.runtime.storage.arena import Array


class _Held(NamedTuple):
    """Accumulators of a handler at a slot (None: no rows are added up), and what else is known of them."""

    handler: Any
    slot: int | None
    window: tuple[int, int] | None = None
    given: tuple[Any, int] | None = None
    records: int | None = None
    written: int = 0


def parts_of(operator: Any, key: pa.RecordBatch) -> list[Part]:
    """What an operator holds of a key, its windows in order of time; without accumulators."""
    return [part for part, _ in _parts(operator, key)]


def described(operator: Any, key: pa.RecordBatch, limit: int | None = None) -> list[Part]:
    """As parts_of, with accumulators and views by name; of views the first `limit` values."""
    layout = Layout(operator.handler_class)
    found = []
    for part, held in _parts(operator, key):
        more: dict[str, Any] = {}
        if held.slot is not None:
            kept = held.handler.accumulators
            more["accumulators"] = tuple(layout.accumulators(kept, held.slot))
            more["views"] = tuple(layout.views(kept, held.slot, limit))
        found.append(Part(**{**vars(part), **more}))
    return found


def counts_rows(handler_class: type[Any]) -> bool:
    """Whether accumulators count their rows: where rows only come, perhaps only that there are some."""
    return bool(handler_class.FIELDS[0][1] == "i8")


def keys_of(operator: Any) -> tuple[int, list[pa.Array]]:
    """How many keys an operator holds, and the columns of all that it holds, a key perhaps several times."""
    columns = _key_columns(operator)
    names = [str(place) for place in range(len(columns))]
    if not columns:
        return int(operator.keys > 0), []
    return (distinct(columns, names) if len(columns[0]) else 0), columns


def _key_columns(operator: Any) -> list[pa.Array]:
    if isinstance(operator, SessionWindowOperator):
        return operator.live.key_columns(operator.live.sessions.live())
    state = operator.slices if isinstance(operator, SlicingWindowOperator) else operator.state
    columns = state.key_columns(state.index.used_slots())
    windowed = isinstance(operator, SlicingWindowOperator | GeneralWindowOperator)
    return columns[:-1] if windowed else columns


def _parts(operator: Any, key: pa.RecordBatch) -> Iterator[tuple[Part, _Held]]:
    for held in _held(operator, key):
        window = None
        if held.window is not None:
            zone = operator.windowing.assigner.zone
            window = _bounds(operator.bounds, held.window, zone)
        records = held.records
        if records is None:
            records = 0 if held.slot is None else int(held.handler.accumulators.records[held.slot])
        counts = counts_rows(operator.handler_class) or held.records is not None
        part = Part(
            window,
            records if counts else None,
            None if held.slot is None or records <= 0 else _results(held.handler, held.slot),
            None if held.given is None else _results(*held.given),
            dt.datetime.fromtimestamp(held.written / 1000, dt.UTC) if held.written else None,
        )
        yield part, held


def _held(operator: Any, key: pa.RecordBatch) -> Iterator[_Held]:
    if isinstance(operator, SlicingWindowOperator):
        return _of_slices(operator, key)
    if isinstance(operator, SessionWindowOperator):
        return _of_sessions(operator, key)
    if isinstance(operator, GeneralWindowOperator):
        return _of_windows(operator, key)
    return _of_key(operator, key)


def _of_key(operator: Any, key: pa.RecordBatch) -> Iterator[_Held]:
    state: KeyedState = operator.state
    slot = int(state.index.find(*key_words(key, state.key_fields, state.index))[0])
    if slot >= 0:
        written = int(state.stamps("written")[slot]) if operator.state_ttl_ms else 0
        yield _Held(state.handler, slot, written=written)


def _of_slices(operator: SlicingWindowOperator, key: pa.RecordBatch) -> Iterator[_Held]:
    slots, ends = _slots_and_windows(operator.slices, key)
    given: dict[int, int] = {}
    if operator.windows is not None:
        pairs = zip(*_slots_and_windows(operator.windows, key), strict=True)
        given = {int(end): int(slot) for slot, end in pairs}
    assigner = operator.windowing.assigner
    assert isinstance(assigner, Aligned)
    assigner = assigner.staggered(max(0, int(operator.clock[STAGGER]) - 1))
    _, windows = assigner.spans(ends)
    windows = np.unique(np.concatenate([windows, np.array(list(given), np.int64)]))
    last = to_instants(windows - 1, assigner.zone) + int(operator.windowing.allowed_lateness)
    for end in windows[last > _now(operator)].tolist():
        start = int(assigner.starts(np.array([end]))[0])
        inside = slots[(ends > start) & (ends <= end)]
        before = None
        if end in given and operator.windows is not None:
            shown = operator.windows.records[given[end]] > 0
            before = (operator.windows.handler, given[end]) if shown else None
        yield _Held(*_merged(operator.slices, inside), (start, end), before)


def _merged(state: KeyedState, slots: Array) -> tuple[Any, int | None]:
    """The accumulators of slices together: a handler and a slot, None if there is no slice."""
    if len(slots) < 2:
        return state.handler, int(slots[0]) if len(slots) else None
    scratch = state.handler.create(1)
    for slot in slots:
        one = np.array([slot], np.int64)
        state.handler.merge_slots(scratch, np.zeros(1, np.int64), state.accumulators, one)
    handler = type(state.handler)()
    handler.set(scratch, np.zeros(1, np.int64))
    return handler, 0


def _of_sessions(operator: SessionWindowOperator, key: pa.RecordBatch) -> Iterator[_Held]:
    live = operator.live
    slots = live.sessions.live()
    slots = slots[matching(live.key_columns(slots), key, len(slots))]
    zone, arrays, given = operator.windowing.assigner.zone, live.sessions.arrays, operator.given
    for slot in slots[np.argsort(arrays.start[slots])].tolist():
        bounds = to_local(np.array([arrays.start[slot], arrays.end[slot]], np.int64), zone)
        before = None
        if given is not None and given.records[slot] > 0:
            before = given.handler, slot
        yield _Held(live.handler, slot, (int(bounds[0]), int(bounds[1])), before)


def _of_windows(operator: GeneralWindowOperator, key: pa.RecordBatch) -> Iterator[_Held]:
    slots, windows = _slots_and_windows(operator.state, key)
    for slot in slots[windows == 0].tolist():
        for live in sorted(operator.windows_at(slot), key=lambda live: live.local):
            pane = live.pane
            rows = len(pane.rows) if operator.windowing.evictor is not None else None
            place = pane.slot if pane.slot >= 0 and rows is None else None
            yield _Held(
                operator.state.handler, place, (live.local.start, live.local.end), None, rows
            )


def _slots_and_windows(state: KeyedState, key: pa.RecordBatch) -> tuple[Array, Array]:
    """The slots of a key in a state by key and window, in order of the windows; the windows."""
    slots = state.index.used_slots()
    slots = slots[matching(state.key_columns(slots)[:-1], key, len(slots))]
    windows = state.windows[slots]
    order = np.argsort(windows, kind="stable")
    return slots[order], windows[order]


def _now(operator: Any) -> int:
    """The last millisecond that is over, by the clock that windows fire by."""
    if operator.windowing.assigner.event_time:
        return int(operator.clock[WATERMARK])
    return int(operator.clock[PROCESSING]) - 1


def _results(handler: Any, slot: int) -> Row:
    spec = handler.spec()
    fields = list(spec.aggregate_schema)[len(spec.group_by) :]
    columns = handler.to_arrow(handler.values(np.array([slot], np.int64)), fields)
    return {f.name: column[0].as_py() for f, column in zip(fields, columns, strict=True)}


def _bounds(bounds: Bounds, window: tuple[int, int], zone: str) -> tuple[Any, Any]:
    """A window's start and end as the query shows them."""
    start, end = (np.array([each], np.int64) for each in window)
    columns = bound_columns(bounds, start, end, zone)
    return columns[0][0].as_py(), columns[1][0].as_py()
