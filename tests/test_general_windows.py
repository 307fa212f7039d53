"""The window operator for any trigger and evictor: a model, Flink's worked example, restarts, and users' own rules."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from handlers import Backend, handler_class
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from window_model import Change, Input, Unjudged, WindowModel, to_local

from aggloom.codegen import AggSpec
from aggloom.codegen.dtypes import INSTANT, WALL_CLOCK
from aggloom.codegen.planner import Bounds
from aggloom.codegen.windows import (
    ContinuousTrigger,
    CountEvictor,
    CountTrigger,
    CountWindow,
    Cumulate,
    DeltaEvictor,
    Elements,
    EventTimeTrigger,
    Evictor,
    GlobalWindow,
    Hop,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Session,
    TimeEvictor,
    Trigger,
    TriggerContext,
    TriggerResult,
    Tumble,
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
from aggloom.runtime.changelog import KIND_NAMES
from aggloom.runtime.clock import AFTER_ALL, NO_TIME, Clock
from aggloom.runtime.windows import general
from aggloom.runtime.windows.general import GeneralWindowOperator

SCHEMA = "k STRING, w BIGINT, v BIGINT"
SPEC = AggSpec.from_sql(
    "SELECT k, w, SUM(v) AS s, COUNT(*) AS n, MAX(v) AS m, COUNT(DISTINCT v) AS d FROM t GROUP BY k, w",
    SCHEMA,
)
SUM = AggSpec.from_sql("SELECT k, w, SUM(v) AS s FROM t GROUP BY k, w", SCHEMA)
LOCAL = Bounds("window_start", "window_end", "window_time", WALL_CLOCK, INSTANT)
some = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))

CONTINUE, FIRE, PURGE, FIRE_AND_PURGE = TriggerResult


def batch_of(rows: Iterable[Input]) -> tuple[pa.RecordBatch, Any]:
    """Rows as the operator takes them."""
    listed = list(rows)
    columns = [
        pa.array([row.key for row in listed], pa.string()),
        pa.array([row.time for row in listed], pa.int64()),
        pa.array([row.value for row in listed], pa.int64()),
    ]
    kinds = np.array([0 if row.adds else 3 for row in listed], np.int8)
    return pa.RecordBatch.from_arrays(columns, names=["k", "w", "v"]), kinds


def operator(
    windowing: Windowing, spec: AggSpec = SPEC, backend: Backend = "python", **options: Any
) -> GeneralWindowOperator:
    return GeneralWindowOperator(handler_class(spec, backend), windowing, LOCAL, **options)


def shown(changes: tuple[pa.RecordBatch, Any]) -> list[Change]:
    """Changes as (kind, key, start, end, results), times in milliseconds."""
    batch, kinds = changes
    rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return [
        (KIND_NAMES[kind], key, _ms(start), _ms(end), *results)
        for kind, (key, start, end, _, *results) in zip(kinds.tolist(), rows, strict=True)
    ]


def _ms(time: dt.datetime | None) -> int | None:
    return None if time is None else round((time - dt.datetime(1970, 1, 1)).total_seconds() * 1000)


def feed(
    op: GeneralWindowOperator, rows: Iterable[Input], clock: Clock = NO_TIME
) -> list[Change]:
    """The changes that rows bring."""
    return shown(op.process(*batch_of(rows), clock))


def adds(*values: int, key: str = "a", time: int = 0) -> list[Input]:
    return [Input(True, key, time, value) for value in values]


def takes(*values: int, key: str = "a", time: int = 0) -> list[Input]:
    return [Input(False, key, time, value) for value in values]


def sums(changes: Iterable[Change]) -> list[Any]:
    """(kind, first result) of changes."""
    return [(change[0], change[4]) for change in changes]


# The examples that Flink's documentation and the notes give.


def test_sliding_count_window_of_four_that_fires_every_two() -> None:
    op = operator(Windowing(CountWindow(4, 2)), SUM)
    fired = [feed(op, adds(value)) for value in (2, 5, 7, 9, 4, 2)]
    assert [sums(each) for each in fired] == [
        [],
        [("+I", 7)],  # the first firing: 5 comes in
        [],
        [("+I", 23)],
        [],
        [("+I", 22)],  # the third: 2 comes in; 2 and 5 are evicted, 7, 9, 4, 2 stay
    ]
    assert fired[5] == [("+I", "a", None, None, 22)]
    assert sums(feed(op, adds(1, 1))) == [("+I", 8)]  # 4, 2, 1, 1


def test_tumbling_count_window_starts_anew_after_each_firing() -> None:
    op = operator(Windowing(CountWindow(3)), SUM)
    assert sums(feed(op, adds(1, 2, 3, 4, 5, 6, 7))) == [("+I", 6), ("+I", 15)]
    assert sums(feed(op, adds(8, 9))) == [("+I", 24)]
    assert op.contents()[0].num_rows == 0


def test_count_windows_count_changes() -> None:
    op = operator(Windowing(CountWindow(3)), SUM)
    assert sums(feed(op, [*adds(1, 2), *takes(1)])) == [("+I", 2)]


def test_a_late_row_that_bridges_a_live_session_survives() -> None:
    op = operator(Windowing(Session(10, on="ts"), late_rows=True), SUM)
    feed(op, [Input(True, "a", 100, 1)], Clock(0, 50))
    changes = feed(op, [Input(True, "a", 91, 2), Input(True, "a", 30, 4)], Clock(0, 105))
    assert changes == [] and op.counters["late_dropped"] == 1
    ((late, _),) = op.take_late()
    assert late.column("v").to_pylist() == [4] and op.take_late() == []
    assert feed(op, [], Clock(0, 200)) == [("+I", "a", 91, 110, 3)]


def test_sessions_that_grow_after_they_fired_take_their_rows_back() -> None:
    windowing = Windowing(Session(10, on="ts"), trigger=EventTimeTrigger(early=0))
    op = operator(windowing, SUM)
    assert feed(op, [Input(True, "a", 0, 1), Input(True, "a", 20, 2)]) == [
        ("+I", "a", 0, 10, 1),
        ("+I", "a", 20, 30, 2),
    ]
    assert feed(op, [Input(True, "a", 10, 4)]) == [
        ("-D", "a", 0, 10, 1),
        ("-D", "a", 20, 30, 2),
        ("+I", "a", 0, 30, 7),
    ]
    assert op.counters["merged"] == 1
    assert shown(op.contents()) == [("+I", "a", 0, 30, 7)]


def test_a_watermark_that_jumps_to_the_end_fires_a_continuous_trigger_once() -> None:
    op = operator(Windowing(GlobalWindow(on="ts"), trigger=ContinuousTrigger("1 s")), SUM)
    assert feed(op, adds(1)) == []
    assert feed(op, [], Clock(0, AFTER_ALL)) == [("+I", "a", None, None, 1)]


# The model.

TUMBLE, HOP = Tumble(10, on="ts"), Hop(10, 4, on="ts", offset=1)
WINDOWINGS = {
    "tumble": Windowing(TUMBLE),
    "tumble, late": Windowing(TUMBLE, allowed_lateness=7),
    "tumble, early": Windowing(TUMBLE, EventTimeTrigger(early=5)),
    "tumble, early and late": Windowing(TUMBLE, EventTimeTrigger(early=0, late=3), None, 9),
    "tumble, each late row": Windowing(TUMBLE, EventTimeTrigger(early=4, late=0), None, 9),
    "hop": Windowing(HOP, allowed_lateness=3),
    "hop with gaps": Windowing(Hop(5, 8, on="ts"), EventTimeTrigger(early=0)),
    "cumulate": Windowing(Cumulate(12, 4, on="ts", offset=2)),
    "session": Windowing(Session(5, on="ts")),
    "session, early": Windowing(Session(5, on="ts"), EventTimeTrigger(early=3)),
    "session, late": Windowing(Session(5, on="ts"), EventTimeTrigger(early=0, late=4), None, 11),
    "session, counted": Windowing(Session(5, on="ts"), CountTrigger(3)),
    "session, continuous": Windowing(Session(5, on="ts"), ContinuousTrigger(3)),
    "session by the clock": Windowing(Session(5), ProcessingTimeTrigger(early=2)),
    "tumble by the clock": Windowing(Tumble(10)),
    "hop by the clock": Windowing(Hop(10, 5), ProcessingTimeTrigger(early=3)),
    "counted": Windowing(TUMBLE, CountTrigger(2)),
    "counted, purging": Windowing(TUMBLE, PurgingTrigger(CountTrigger(2))),
    "purging updates": Windowing(TUMBLE, PurgingTrigger(ContinuousTrigger(3)), updates=True),
    "continuous": Windowing(HOP, ContinuousTrigger(3), None, 4),
    "continuous, repeated": Windowing(TUMBLE, ContinuousTrigger(3), updates=False),
    "continuous by the clock": Windowing(TUMBLE, ContinuousTrigger(3, event_time=False)),
    "clock windows, continuous": Windowing(Tumble(10), ContinuousTrigger(3, event_time=False)),
    "count": Windowing(CountWindow(3)),
    "global": Windowing(GlobalWindow(on="ts"), ContinuousTrigger(4)),
}

Bundle = tuple[list[Input], Clock]


@st.composite
def bundles(draw: st.DrawFn, retracting: bool) -> list[Bundle]:
    """Rows in bundles with a clock each; what is retracted was added before."""
    made: list[Bundle] = []
    held: list[Input] = []
    now = watermark = 0
    for _ in range(draw(st.integers(1, 6))):
        now += draw(st.integers(0, 9))
        watermark += draw(st.integers(-2, 9))
        rows = []
        for _ in range(draw(st.integers(0, 7))):
            if retracting and held and draw(st.integers(0, 2)) == 0:
                row = held.pop(draw(st.integers(0, len(held) - 1)))._replace(adds=False)
            else:
                row = Input(
                    True,
                    draw(st.sampled_from("ab")),
                    draw(st.integers(max(0, watermark - 15), watermark + 25)),
                    draw(st.sampled_from([None, 1, 2, 5])),
                )
                held.append(row)
            rows.append(row)
        made.append((rows, Clock(now, watermark)))
    return [*made, ([], Clock(now + 100, watermark + 100))]


def in_order(changes: list[Change]) -> Any:
    """Changes, and their order for each key and window: timers of one time may fire in any order of windows."""
    by_window: dict[Any, list[Change]] = {}
    for change in changes:
        by_window.setdefault(change[1:4], []).append(change)
    return by_window


def open_ended(changes: list[Change]) -> list[Change]:
    """The model's changes, with the global window's bounds as the operator gives them out."""
    return [(*c[:2], *(None if abs(t) == 2**62 else t for t in c[2:4]), *c[4:]) for c in changes]


def agree(name: str, made: list[Bundle], backend: Backend, **options: Any) -> None:
    """The operator gives the model's changes, bundle by bundle, with a restart after each."""
    windowing = WINDOWINGS[name]
    model = WindowModel(windowing, options.get("update_before", True))
    op, again = (operator(windowing, SPEC, backend, **options) for _ in range(2))
    for rows, clock in made:
        try:
            expected = open_ended(model.process(rows, clock))
        except Unjudged:
            assume(False)
        data = op.snapshot()
        again.restore(data)
        found = feed(op, rows, clock)
        assert in_order(found) == in_order(expected)
        assert feed(again, rows, clock) == found
        assert again.next_timers() == op.next_timers()
        contents = [change[1:] for change in shown(op.contents())]
        assert Counter(contents) == Counter(
            c[1:] for c in open_ended([("", *c) for c in model.contents()])
        )
        assert op.keys == len(model.panes)
    assert op.counters["late_dropped"] == len(model.late)
    assert op.counters["orphans_dropped"] == model.orphans
    if not isinstance(windowing.assigner, GlobalWindow):
        assert op.keys == 0 and len(op.state) == 0 and op.next_timers() == (None, None)


@pytest.mark.parametrize("name", WINDOWINGS)
@some
@given(made=bundles(retracting=False))
def test_rows_that_are_added_give_what_the_model_says(name: str, made: list[Bundle]) -> None:
    agree(name, made, "python")


@pytest.mark.parametrize("name", [n for n in WINDOWINGS if "purging" not in n and n != "count"])
@some
@given(made=bundles(retracting=True), update_before=st.booleans())
def test_changes_give_what_the_model_says(
    name: str, made: list[Bundle], update_before: bool
) -> None:
    agree(name, made, "numba", update_before=update_before)


@pytest.mark.parametrize("name", ["tumble, each late row", "session, counted", "counted, purging"])
@some
@given(made=bundles(retracting=False))
def test_rows_may_be_added_up_at_any_time(name: str, made: list[Bundle]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(general, "_AT_ONCE", 2)
        agree(name, made, "python")


ZONED = [
    ("Europe/Berlin", Tumble("1 h", on="ts", time_zone="Europe/Berlin")),
    ("America/New_York", Hop("2 h", "1 h", on="ts", time_zone="America/New_York")),
    ("Australia/Lord_Howe", Tumble("45 min", on="ts", time_zone="Australia/Lord_Howe")),
]
CHANGES_OF_CLOCKS = {
    "Europe/Berlin": ["2024-03-31T01:00", "2024-10-27T01:00"],
    "America/New_York": ["2024-03-10T07:00", "2024-11-03T06:00"],
    "Australia/Lord_Howe": ["2024-04-06T15:00", "2024-10-05T15:30"],
}


@pytest.mark.parametrize(("zone", "assigner"), ZONED)
@pytest.mark.parametrize("change", [0, 1])
def test_windows_where_clocks_are_changed(zone: str, assigner: Any, change: int) -> None:
    text = CHANGES_OF_CLOCKS[zone][change]
    middle = round(dt.datetime.fromisoformat(text + "+00:00").timestamp() * 1000)
    windowing = Windowing(assigner)
    model, op = WindowModel(windowing), operator(windowing)
    minutes = range(-180, 181, 15)
    for minute in minutes:
        time = middle + minute * 60_000
        rows = [Input(True, "a", time, minute), Input(True, "a", time + 899_999, 1)]
        clock = Clock(0, time - 1)
        assert in_order(feed(op, rows, clock)) == in_order(model.process(rows, clock))
    end = Clock(0, middle + 10**9)
    assert in_order(feed(op, [], end)) == in_order(model.process([], end))
    assert op.keys == 0 and to_local(middle, zone) != to_local(middle - 1, zone) + 1


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

    def evict_before(self, elements: Elements, window: Window, watermark: int) -> Any:
        return elements.rows.column("v").to_numpy() % 2 == 0

    def evict_after(self, elements: Elements, window: Window, watermark: int) -> Any:
        return np.zeros(len(elements.times), np.bool_)


def test_an_evictor_of_ones_own() -> None:
    op = operator(Windowing(GlobalWindow(), CountTrigger(3), KeepEven(), updates=False), SUM)
    assert sums(feed(op, adds(2, 3, 4, 6, 7, 9))) == [("+I", 6), ("+I", 6)]
    assert feed(op, adds(1, 1, 1)) == []


class Wrong(Evictor):
    """Answers with numbers, or not at all."""

    def evict_before(self, elements: Elements, window: Window, watermark: int) -> Any:
        return elements.rows.column("v").to_numpy()

    def evict_after(self, elements: Elements, window: Window, watermark: int) -> Any:
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
    chained, alone = operator(windowing, SUM, chained=True), operator(windowing, SUM)
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


# State.


@pytest.mark.parametrize("name", ["session, late", "hop", "counted", "count"])
@pytest.mark.parametrize("backend", ["python", "numba"])
@given(made=bundles(retracting=False))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_mapped_directory_is_the_state(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    backend: Backend,
    made: list[Bundle],
) -> None:
    windowing, directory = WINDOWINGS[name], tmp_path_factory.mktemp("arena")
    op = operator(windowing, SPEC, backend)
    for rows, clock in made:
        mapped = operator(windowing, SPEC, backend, directory=directory)
        assert feed(mapped, rows, clock) == feed(op, rows, clock)
        mapped.close()


@pytest.mark.parametrize("stagger", ["random", "natural"])
def test_staggered_windows_stay_where_they_were_put(stagger: Literal["random", "natural"]) -> None:
    windowing = Windowing(Tumble("1 min", stagger=stagger))
    op = operator(windowing, SUM, bucket=3)
    feed(op, adds(1), Clock(70_123))
    again = operator(windowing, SUM, bucket=3)
    again.restore(op.snapshot())
    later = [feed(each, adds(2), Clock(500_000)) for each in (op, again)]
    assert later[0] == later[1] and sums(later[0]) == [("+I", 1)]
    ((_, _, start, end, _),) = later[0]
    assert end - start == 60_000 and start <= 70_123 < end
    if stagger == "natural":
        assert start == 70_123
    ((_, _, start, end, _),) = feed(again, [], Clock(900_000))
    assert (start - later[0][0][2]) % 60_000 == 0


@pytest.mark.parametrize("backend", ["python", "numba"])
def test_windows_are_found_again_after_the_state_was_compacted(backend: Backend) -> None:
    op = operator(Windowing(TUMBLE, allowed_lateness=10**6), SUM, backend)
    short = operator(Windowing(TUMBLE), SUM, backend)
    many = [Input(True, f"k{n}", 5, n) for n in range(6000)]
    stay = [Input(True, f"s{n}", 500_005, n) for n in range(20)]
    for each in (op, short):
        feed(each, [*many, *stay])
    capacity = short.state.capacity
    assert len(feed(short, [], Clock(0, 1000))) == 6000
    assert short.keys == 20 and len(short.state) == 40
    if backend == "numba":
        assert short.state.capacity < capacity
    feed(short, stay)
    assert sorted(feed(short, [], Clock(0, 10**6)))[-1] == ("+I", "s9", 500_000, 500_010, 18)


def test_nothing_is_kept_of_windows_that_are_over() -> None:
    fresh = operator(Windowing(TUMBLE), SUM, "numba")
    fresh.flush_files()
    op = operator(Windowing(TUMBLE, EventTimeTrigger(early=0), CountEvictor(3)), SUM, "numba")
    for round_ in range(3):
        feed(op, [Input(True, f"key {n}", 100 * round_ + n % 40, n) for n in range(3000)])
        feed(op, [], Clock(0, 100 * round_ + 99))
        assert op.keys == 0 and len(op.state) == 0
    op.flush_files()
    assert op.state_bytes < fresh.state_bytes + 2000


def test_a_snapshot_that_was_damaged_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    op = operator(Windowing(TUMBLE), SUM)
    feed(op, adds(1))
    monkeypatch.setattr(op._book, "dump", lambda: b"{}")
    with pytest.raises(AggloomError, match="the windows of a snapshot cannot be read"):
        operator(Windowing(TUMBLE), SUM).restore(op.snapshot())


def test_results_of_all_types_are_compared(tmp_path: Path) -> None:
    spec = AggSpec.from_sql(
        "SELECT k, w, MAX(t) AS t, AVG(x) AS x, COLLECT_LIST(t) AS l FROM t GROUP BY k, w",
        "k STRING, w BIGINT, t STRING, x DOUBLE",
    )
    op = operator(Windowing(TUMBLE, CountTrigger(1)), spec)
    names = ["k", "w", "t", "x"]
    rows = [["a", "a", "a"], [0, 0, 0], ["p", None, None], [float("nan"), None, 1.0]]
    batch = pa.RecordBatch.from_arrays([pa.array(column) for column in rows], names=names)
    made, kinds = op.process(batch, np.zeros(3, np.int8), Clock())
    assert [KIND_NAMES[kind] for kind in kinds] == ["+I"]
    assert made.column("l").to_pylist() == [["p"]]
