"""The window operator for any trigger and evictor: Flink's worked examples, a model, restarts, what is kept."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from general_windows import (
    SPEC,
    SUM,
    TUMBLE,
    WINDOWINGS,
    Bundle,
    adds,
    bundles,
    feed,
    operator,
    shown,
    some,
    sums,
    takes,
)
from handlers import Backend
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from window_model import Change, Input, Unjudged, WindowModel, to_local

from aggloom.codegen import AggSpec
from aggloom.codegen.windows import (
    ContinuousTrigger,
    CountEvictor,
    CountTrigger,
    CountWindow,
    EventTimeTrigger,
    GlobalWindow,
    Hop,
    Session,
    Tumble,
    Windowing,
)
from aggloom.errors import AggloomError
from aggloom.runtime.operators.windows import general
from aggloom.runtime.values.changelog import KIND_NAMES
from aggloom.runtime.values.clock import AFTER_ALL, Clock

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
    assert op.counters["evicted"] == 2
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
@pytest.mark.sampled(12)
def test_rows_that_are_added_give_what_the_model_says(name: str, made: list[Bundle]) -> None:
    agree(name, made, "python")


@pytest.mark.parametrize("name", [n for n in WINDOWINGS if "purging" not in n and n != "count"])
@some
@given(made=bundles(retracting=True), update_before=st.booleans())
@pytest.mark.sampled(10)
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
    monkeypatch.setattr(op._registry, "dump", lambda: b"{}")
    with pytest.raises(AggloomError, match="the windows of a snapshot cannot be read"):
        operator(Windowing(TUMBLE), SUM).restore(op.snapshot())


def test_results_of_all_types_are_compared() -> None:
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
