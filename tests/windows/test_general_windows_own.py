"""Triggers and evictors that users write, and rows that a window cannot take: orphans, late ones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from general_windows import (
    CONTINUE,
    FIRE,
    PURGE,
    SCHEMA,
    SUM,
    TUMBLE,
    adds,
    batch_of,
    feed,
    operator,
    shown,
    sums,
    takes,
)
from handlers import Backend, handler_class
from window_model import Change, Input

from aggloom.codegen import AggSpec
from aggloom.codegen.windows import (
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    Elements,
    Evictor,
    EvictorContext,
    GlobalWindow,
    Session,
    TimeEvictor,
    Trigger,
    TriggerContext,
    TriggerResult,
    Window,
    Windowing,
)
from aggloom.errors import (
    AggloomError,
    DataError,
    NotMergeableError,
    OrphanRetractionError,
    SpecError,
)
from aggloom.runtime.operators.windows.general import GeneralWindowOperator
from aggloom.runtime.values.clock import Clock

# What users write.


@dataclass(frozen=True)
class OnLarge(Trigger):
    """Fires with a value over a limit, and a while after the first row by the watermark."""

    limit: int

    def on_element(
        self, row: Mapping[str, Any], time: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        ctx.state["seen"] = ctx.state.get("seen", 0) + 1
        if ctx.state["seen"] == 1:
            ctx.register_event_time_timer(time + 5)
        assert set(row) == {"k", "v"} and len(row) == 2 and row["k"] == "a"
        return FIRE if row["v"] > self.limit else CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return PURGE if time == window.max_timestamp else FIRE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE


def test_a_trigger_of_ones_own_sees_rows_and_keeps_state() -> None:
    op = operator(Windowing(TUMBLE, OnLarge(50), updates=False), SUM)
    assert sums(feed(op, adds(1, 99, 2, time=2))) == [("+I", 100)]
    again = operator(op.windowing, SUM)
    again.restore(op.snapshot())
    assert again.next_timers() == (7, None)
    assert sums(feed(again, adds(60, time=3), Clock(0, 7))) == [("+I", 102), ("+I", 162)]
    assert feed(again, [], Clock(0, 9)) == []
    assert again.keys == 0 and again.next_timers() == (None, None)


def test_a_timer_for_a_time_that_has_come_fires_after_the_row() -> None:
    op = operator(Windowing(TUMBLE, OnLarge(50), updates=False), SUM)
    assert sums(feed(op, adds(1, 2, time=1), Clock(0, 8))) == [("+I", 1)]


class Broken(OnLarge):
    """Does whatever the test says."""

    def on_element(
        self, row: Mapping[str, Any], time: int, window: Window, ctx: TriggerContext
    ) -> Any:
        how = row["v"]
        if how == 1:
            raise RuntimeError("oh")
        if how == 2:
            return True
        if how == 3:
            ctx.state["when"] = dt.date(2020, 1, 1)
        if how == 4:
            return row["nothing"]
        ctx.register_event_time_timer(0)
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        ctx.register_event_time_timer(time)
        return CONTINUE


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            1,
            "trigger Broken failed in on_element for the window from 1970-01-01 .*: RuntimeError: oh",
        ),
        (2, "trigger Broken: on_element returned True; return a TriggerResult"),
        (3, r"trigger Broken: ctx.state\['when'\] is a date; state is int, float"),
        (4, "KeyError: .*'nothing'; the query reads k, v"),
        (5, "trigger Broken registers its timer of 0 ms again"),
    ],
)
def test_a_trigger_that_fails_is_named(how: int, message: str) -> None:
    op = operator(Windowing(TUMBLE, Broken(1), updates=False), SUM)
    with pytest.raises(DataError, match=message):
        feed(op, adds(how), Clock(0, 1))
    with pytest.raises(AggloomError, match="restore it from a snapshot"):
        feed(op, [])


def test_a_trigger_without_on_merge_is_refused_where_sessions_merge() -> None:
    op = operator(Windowing(Session(10, on="ts"), OnLarge(50)), SUM)
    feed(op, adds(1))
    with pytest.raises(SpecError, match="OnLarge cannot be used with sessions"):
        feed(op, adds(1, time=5))


class KeepEven(Evictor):
    """Adds up rows with even values only; keeps the others for later, and no even one."""

    def evict_before(self, elements: Elements, window: Window, ctx: EvictorContext) -> Any:
        return elements.rows.column("v").to_numpy() % 2 == 0

    def evict_after(self, elements: Elements, window: Window, ctx: EvictorContext) -> Any:
        return np.zeros(len(elements.times), np.bool_)


def test_an_evictor_of_ones_own() -> None:
    op = operator(Windowing(GlobalWindow(), CountTrigger(3), KeepEven(), updates=False), SUM)
    assert sums(feed(op, adds(2, 3, 4, 6, 7, 9))) == [("+I", 6), ("+I", 6)]
    assert feed(op, adds(1, 1, 1)) == []


class Wrong(Evictor):
    """Answers with numbers, or not at all."""

    def evict_before(self, elements: Elements, window: Window, ctx: EvictorContext) -> Any:
        return elements.rows.column("v").to_numpy()

    def evict_after(self, elements: Elements, window: Window, ctx: EvictorContext) -> Any:
        raise RuntimeError("no")


def test_an_evictor_that_fails_is_named() -> None:
    op = operator(Windowing(GlobalWindow(), CountTrigger(1), Wrong(), updates=False), SUM)
    with pytest.raises(
        DataError, match="evictor Wrong: evict_before must return a boolean for each"
    ):
        feed(op, adds(1))


EVICTED = {
    "time": (TimeEvictor(5), [("+I", 1), ("+I", 3), ("+I", 6), ("+I", 8)]),
    "time, after": (TimeEvictor(5, after=True), [("+I", 1), ("+I", 3), ("+I", 7), ("+I", 14)]),
    "delta": (DeltaEvictor(2, "v"), [("+I", 1), ("+I", 3), ("+I", 4), ("+I", 8)]),
    "delta, after": (
        DeltaEvictor(2, "v", after=True),
        [("+I", 1), ("+I", 3), ("+I", 7), ("+I", 12)],
    ),
    "count, after": (CountEvictor(1, after=True), [("+I", 1), ("+I", 3), ("+I", 6), ("+I", 12)]),
}


@pytest.mark.parametrize("name", EVICTED)
def test_evictors(name: str) -> None:
    evictor, expected = EVICTED[name]
    windowing = Windowing(GlobalWindow(on="ts"), CountTrigger(1), evictor, updates=False)
    op = operator(windowing, SUM)
    times = zip((1, 2, 4, 8), (0, 2, 6, 12), strict=True)
    assert sums(c for v, t in times for c in feed(op, adds(v, time=t))) == expected


def test_a_retraction_removes_the_first_equal_row_of_an_evicting_window() -> None:
    windowing = Windowing(GlobalWindow(on="ts"), CountTrigger(4), CountEvictor(2), updates=False)
    op = operator(windowing, SUM)
    rows = [*adds(1, 2, time=1), *adds(1, time=2), *takes(1, time=1), *adds(8, time=3)]
    assert sums(feed(op, rows)) == [("+I", 3)]
    again = operator(windowing, SUM)
    again.restore(op.snapshot())
    rows = [*takes(1, time=2), *takes(1, time=2), *adds(4)]
    assert feed(again, rows) == feed(op, rows)
    assert again.counters["orphans_dropped"] == 1


def test_sessions_with_an_evictor_keep_rows_as_they_came() -> None:
    windowing = Windowing(Session(5, on="ts"), evictor=CountEvictor(2))
    op = operator(windowing, SUM)
    feed(op, [Input(True, "a", t, v) for t, v in ((10, 1), (0, 2), (5, 4), (11, 8))])
    assert feed(op, [], Clock(0, 100)) == [("+I", "a", 0, 16, 12)]
    assert op.keys == 0 and len(op.state) == 0


def test_evicting_windows_with_updates_take_back_what_they_gave_out() -> None:
    windowing = Windowing(GlobalWindow(), CountTrigger(1), CountEvictor(2))
    op = operator(windowing, SUM)
    assert sums(feed(op, [*adds(1, 2, 3), *takes(3), *takes(2)])) == [
        ("+I", 1),
        ("-U", 1),
        ("+U", 3),
        ("-U", 3),
        ("+U", 5),
        ("-U", 5),
        ("+U", 2),
        ("-D", 2),
    ]


# Orphans, late rows, chains.


@pytest.mark.parametrize("evictor", [None, CountEvictor(9)])
def test_orphans_by_policy(evictor: Evictor | None) -> None:
    windowing = Windowing(TUMBLE, CountTrigger(2), evictor)
    rows = [*takes(5), *adds(7)]
    op = operator(windowing, SUM)
    assert sums(feed(op, rows)) == [("+I", 7)] and op.counters["orphans_dropped"] == 1
    strict = operator(windowing, SUM, on_orphan_retraction="error")
    with pytest.raises(OrphanRetractionError, match="a window of key k='a' that does not hold it"):
        feed(strict, rows)
    kept = operator(windowing, SUM, on_orphan_retraction="keep")
    assert sums(feed(kept, rows)) == ([] if evictor is None else [("+I", 7)])


@pytest.mark.parametrize("backend", ["python", "numba"])
def test_kept_orphans_wait_for_their_rows(backend: Backend) -> None:
    op = operator(Windowing(TUMBLE, CountTrigger(3)), SUM, backend, on_orphan_retraction="keep")
    assert feed(op, takes(5)) == []
    assert sums(feed(op, adds(7, 5))) == [("+I", 7)]


def test_rows_of_a_chain_come_before_their_watermark() -> None:
    windowing = Windowing(TUMBLE)
    chained, alone = operator(windowing, SUM, is_chained=True), operator(windowing, SUM)
    rows, clock = adds(1, time=5), Clock(0, 100)
    assert sums(feed(chained, rows, clock)) == [("+I", 1)]
    assert feed(alone, rows, clock) == [] and alone.counters["late_dropped"] == 1
    assert feed(chained, rows, clock) == [] and chained.counters["late_dropped"] == 1


def test_a_window_takes_late_rows_as_long_as_it_waits() -> None:
    op = operator(Windowing(TUMBLE, allowed_lateness=5), SUM)
    assert sums(feed(op, adds(1, time=5))) == []
    assert sums(feed(op, [], Clock(0, 9))) == [("+I", 1)]
    assert sums(feed(op, adds(2, time=6), Clock(0, 13))) == [("-U", 1), ("+U", 3)]
    assert feed(op, adds(4, time=7), Clock(0, 14)) == []
    assert op.counters["late_dropped"] == 1 and op.keys == 0


def test_a_row_without_event_time_is_refused() -> None:
    batch, kinds = batch_of(adds(1))
    batch = batch.set_column(1, "w", pa.array([None], pa.int64()))
    with pytest.raises(DataError, match="row 0 has no event time"):
        operator(Windowing(TUMBLE)).process(batch, kinds, Clock())


def test_a_session_gap_by_row() -> None:
    schema = pa.schema([*SUM.handler_schema, ("gap", pa.int64())])
    op = operator(Windowing(Session(on="ts", gap_column="gap")), SUM, row_schema=schema)
    batch, kinds = batch_of([*adds(1, time=0), *adds(2, time=8), *adds(4, time=30)])
    batch = batch.append_column("gap", pa.array([10, 3, 5]))
    op.process(batch, kinds, Clock())
    assert feed_rows(op, batch.slice(0, 0), Clock(0, 99)) == [
        ("+I", "a", 0, 11, 3),
        ("+I", "a", 30, 35, 4),
    ]
    batch = batch.set_column(3, "gap", pa.array([10, 0, 5]))
    with pytest.raises(DataError, match="row 1: the session gap `gap` is 0"):
        op.process(batch, kinds, Clock())


def feed_rows(op: GeneralWindowOperator, batch: pa.RecordBatch, clock: Clock) -> list[Change]:
    return shown(op.process(batch, np.zeros(batch.num_rows, np.int8), clock))


def test_what_cannot_work_is_refused_at_once() -> None:
    with pytest.raises(AggloomError, match="on_orphan_retraction='ignore'"):
        operator(Windowing(TUMBLE), on_orphan_retraction="ignore")
    appended = AggSpec.from_sql(
        "SELECT k, w, SUM(v) AS s FROM t GROUP BY k, w", SCHEMA, input_changes="append"
    )
    with pytest.raises(DataError, match="row 1 retracts"):
        feed(operator(Windowing(TUMBLE), appended), [*adds(1), *takes(1)])
    with pytest.raises(AggloomError, match="accumulators say nothing"):
        operator(Windowing(TUMBLE)).process(*batch_of(adds(1)), Clock(), [b""])


def test_sessions_need_functions_that_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_class(SUM, "python"), "UNMERGEABLE", ("my_sum",))
    with pytest.raises(NotMergeableError, match="my_sum has no merge"):
        operator(Windowing(Session(5, on="ts")), SUM)
    operator(Windowing(Session(5, on="ts"), evictor=CountEvictor(2)), SUM)
