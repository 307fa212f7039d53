"""Windows through plans and the harness: phases, buckets, cuts, several tables, and what is hostile."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import aggloom as al
from aggloom.codegen.planner import LocalAggregate, PlanOptions, walk
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.storage import key_index

DDL = "k STRING, ts TIMESTAMP, v INT"
BASE = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
START = int(BASE.timestamp() * 1000)
CALLS = "SUM(v) AS s, COUNT(*) AS n, MAX(v) AS m, COUNT(DISTINCT v) AS d, COUNT(*) FILTER (WHERE v > 2) AS f"
TABLES = {
    "tumble": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
    "hop": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)",
    "cumulate": "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)",
    "session": "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '7' SECOND)",
}
UNITED = """
    CREATE TEMPORARY VIEW u AS SELECT ts FROM a UNION ALL SELECT ts FROM b;
    SELECT window_start, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
"""
WAYS: list[tuple[dict[str, Any], dict[str, int]]] = [
    ({"agg_phase_strategy": "ONE_PHASE"}, {}),
    ({"agg_phase_strategy": "TWO_PHASE"}, {"partitions": 3}),
    ({}, {"buckets": 4, "partitions": 2}),
    ({"mini_batch_enabled": False}, {"buckets": 2}),
]


def at(seconds: float) -> dt.datetime:
    return BASE + dt.timedelta(seconds=seconds)


def query(window: str) -> str:
    return (
        f"SELECT k, window_start, window_end, {CALLS} FROM TABLE({TABLES[window]}) "
        "GROUP BY k, window_start, window_end"
    )


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[list[Any], int]]:
    """Rows and then a watermark, again and again; some rows are taken back, some come late."""
    story: list[tuple[list[Any], int]] = []
    there: list[Any] = []
    mark = START - 60_000
    for turn in range(draw(st.integers(1, 6))):
        rows = []
        for _ in range(draw(st.integers(0, 10))):
            if there and draw(st.integers(0, 4)) == 0:
                rows.append(("-D", *there.pop(draw(st.integers(0, len(there) - 1)))))
                continue
            time = at(turn * 10 + draw(st.integers(-25, 14)))
            row = (draw(st.sampled_from(["a", "b", "größe", None])), time, draw(st.integers(0, 4)))
            there.append(row)
            rows.append(("+I", *row))
        mark = max(mark, START + turn * 10_000 + draw(st.integers(-20_000, 5_000)))
        story.append((rows, mark))
    return story


def told(sql: str, story: list[Any], cut: int, **ways: Any) -> tuple[list[Counter[Any]], int]:
    """The changes after each watermark, and how many rows were late."""
    harness = Harness.from_sql(sql, {"t": DDL}, backend="python", **ways)
    out = []
    for rows, mark in story:
        for start in range(0, len(rows), cut):
            harness.process(rows[start : start + cut])
            harness.flush()
        harness.watermark(mark)
        out.append(Counter(harness.changes()))
    harness.end_of_input()
    out.append(Counter(harness.changes()))
    return out, harness.counters["late_dropped"]


@pytest.mark.parametrize("window", TABLES)
@examples(12)
@given(story=stories(), cut=st.integers(1, 12))
@pytest.mark.sampled(2)
def test_every_plan_gives_the_same_windows(window: str, story: list[Any], cut: int) -> None:
    # What comes too early is kept, so that two phases are sound; here nothing does.
    keep = {"on_orphan_retraction": "keep"}
    wanted, late = told(query(window), story, 100, options={**keep, **WAYS[0][0]})
    for options, parts in WAYS:
        got, dropped = told(query(window), story, cut, options={**keep, **options}, **parts)
        assert got == wanted
        # Rows that cancel before they are sent are none.
        assert dropped == late if "ONE_PHASE" in options.values() else dropped <= late


def test_two_phases_are_planned_where_they_are_told() -> None:
    for window in TABLES:
        harness = Harness.from_sql(
            query(window), {"t": DDL}, input_changes="append", agg_phase_strategy="TWO_PHASE"
        )
        local = any(isinstance(node, LocalAggregate) for node in walk(harness.plan.root))
        assert local == (window != "session")


@pytest.mark.parametrize("window", TABLES)
@examples(10)
@given(story=stories())
@pytest.mark.sampled(2)
def test_corrections_add_up_in_every_plan(window: str, story: list[Any]) -> None:
    """With allowed lateness messages depend on the cut; the table after each watermark does not."""
    keep = {"on_orphan_retraction": "keep", "allow_lateness": "15 s"}

    def tables(**ways: Any) -> list[Any]:
        harness = Harness.from_sql(query(window), {"t": DDL}, backend="python", **ways)
        found = []
        for rows, mark in story:
            harness.process(rows)
            harness.watermark(mark)
            found.append(harness.table())
        return found

    wanted = tables(options=keep)
    for options, parts in WAYS:
        assert tables(options={**keep, **options}, **parts) == wanted


def test_windows_over_a_changelog() -> None:
    """Orders are corrected; their total by the hour is, too, as long as the hour is open."""
    sql = """
        WITH latest AS (SELECT id, MAX(ts) AS ts, SUM(v) AS v FROM t GROUP BY id)
        SELECT window_start, SUM(v) AS s, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE latest, DESCRIPTOR(ts), INTERVAL '1' HOUR))
        GROUP BY window_start, window_end
    """
    harness = Harness.from_sql(sql, {"t": "id INT, ts TIMESTAMP, v INT"}, backend="python")
    harness.process([("+I", 1, at(10), 5), ("+I", 2, at(20), 7), ("-D", 1, at(10), 5)])
    harness.flush()
    harness.process([("+I", 2, at(30), 1), ("+I", 3, at(4000), 9)])
    harness.watermark(START + 3_600_000)
    assert harness.changes() == [("+I", BASE, 8, 1)]
    harness.end_of_input()
    assert harness.changes() == [("+I", at(3600), 9, 1)]


def test_the_least_watermark_of_tables_that_are_not_idle() -> None:
    harness = Harness.from_sql(
        UNITED,
        {"a": "ts TIMESTAMP", "b": "ts TIMESTAMP"},
        input_changes="append",
        watermarks={"a": ("ts", "1 s"), "b": ("ts", "1 s")},
        source_idle_timeout="1 min",
    )
    harness.processing_time(0)
    harness.process([("+I", at(1)), ("+I", at(25))], table="a")
    assert harness.changes() == []
    harness.process([("+I", at(13))], table="b")
    assert harness.changes() == [("+I", BASE, 1)]
    harness.processing_time(59_999)
    harness.process([("+I", at(26))], table="a")
    assert harness.changes() == []
    harness.processing_time(60_000)
    assert harness.changes() == [("+I", at(10), 1)]
    harness.process([("+I", at(14))], table="b")
    assert (harness.changes(), harness.counters["late_dropped"]) == ([], 1)


def test_a_table_may_be_said_to_be_idle() -> None:
    tables = {"a": "ts TIMESTAMP", "b": "ts TIMESTAMP"}
    harness = Harness.from_sql(UNITED, tables, input_changes="append", backend="python")
    harness.process([("+I", at(1))], table="a")
    harness.watermark(START + 30_000, "a")
    assert harness.changes() == []
    harness.idle("b")
    assert harness.changes() == [("+I", BASE, 1)]


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [("America/New_York", (2020, 3, 8), 23), ("America/New_York", (2020, 11, 1), 25)],
)
def test_days_have_as_many_hours_as_the_clocks_say(zone: str, day: Any, hours: int) -> None:
    from zoneinfo import ZoneInfo

    start = dt.datetime(*day, tzinfo=ZoneInfo(zone))
    spec = al.AggSpec("ts TIMESTAMP", (), (al.AggCall("COUNT", alias="n"),), "append")
    harness = Harness(spec, window=al.Tumble("1 day", on="ts", time_zone=zone), backend="python")
    first = start.astimezone(dt.UTC)
    harness.process([("+I", first + dt.timedelta(minutes=30 * i)) for i in range(-4, 60)])
    harness.end_of_input()
    found = {row[1]: row[4] for row in harness.changes()}
    assert found[first] == 2 * hours
    assert first + dt.timedelta(hours=hours) in found


@pytest.mark.parametrize(
    ("written", "zone"),
    [
        ("GMT+08:00", "+08:00"),
        ("UTC+8", "+08:00"),
        ("UT-0330", "-03:30"),
        ("+8", "+08:00"),
        ("Z", "UTC"),
        ("Etc/GMT-8", "Etc/GMT-8"),
    ],
)
def test_a_distance_from_utc_is_written_as_in_java(written: str, zone: str) -> None:
    window = al.Tumble("1 day", on="ts", time_zone=written)
    assert window.zone == zone
    assert window == al.Tumble("1 day", on="ts", time_zone=zone)
    with pytest.raises(al.errors.OptionError, match=r"no time zone .GMT\+19"):
        al.Tumble("1 day", on="ts", time_zone="GMT+19")


def test_the_stagger_of_processing_time() -> None:
    spec = al.AggSpec("v INT", (), (al.AggCall("COUNT", alias="n"),), "append")
    starts = {}
    for stagger in ("aligned", "random", "natural"):
        window = al.Tumble("1 min", stagger=stagger)
        harness = Harness(spec, window=window, backend="python")
        harness.processing_time(START + 12_345)
        harness.process([("+I", 1)])
        state = harness.snapshot()
        harness = Harness(spec, window=window, backend="python")
        harness.restore(state)
        harness.processing_time(START + 200_000)
        ((_, start, end, _, n),) = harness.changes()
        assert (end - start, n) == (dt.timedelta(minutes=1), 1)
        assert start <= at(12.345) < end
        starts[stagger] = start
    assert starts["aligned"] == BASE
    assert starts["natural"] == at(12.345)
    assert starts["random"] not in (starts["aligned"], starts["natural"])


def test_a_gap_of_its_own_for_each_row() -> None:
    spec = al.AggSpec(
        "k STRING, ts TIMESTAMP, gap BIGINT, v INT", ("k",), (al.AggCall("SUM", "v", alias="s"),)
    )
    for backend in ("python", "numba"):
        harness = Harness(spec, window=al.Session(gap_column="gap", on="ts"), backend=backend)  # type: ignore[arg-type]
        harness.process(
            [
                ("+I", "a", at(0), 5_000, 1),
                ("+I", "a", at(6), 1_000, 2),
                ("+I", "a", at(20), 60_000, 4),
                ("+I", "a", at(70), 1_000, 8),
                ("-D", "a", at(70), 1_000, 8),
            ]
        )
        harness.end_of_input()
        assert sorted((r[2], r[3], r[5]) for r in harness.changes()) == [
            (at(0), at(5), 1),
            (at(6), at(7), 2),
            (at(20), at(80), 4),
        ]
        bad = Harness(spec, window=al.Session(gap_column="gap", on="ts"), backend=backend)  # type: ignore[arg-type]
        bad.process([("+I", "a", at(0), None, 1)])
        with pytest.raises(al.errors.DataError, match="column 'gap': a session's gap"):  # type: ignore[attr-defined]
            bad.flush()


def test_rows_without_a_time_are_an_error() -> None:
    harness = Harness.from_sql(query("tumble"), {"t": DDL}, backend="python")
    harness.process([("+I", "a", at(0), 1), ("+I", "a", None, 1)])
    with pytest.raises(al.errors.DataError, match=r"'ts': 1 of 2 rows have no event time"):  # type: ignore[attr-defined]
        harness.flush()


def test_times_far_away() -> None:
    harness = Harness.from_sql(query("hop"), {"t": DDL}, input_changes="append", backend="numba")
    far = [dt.datetime(1, 1, 2, tzinfo=dt.UTC), dt.datetime(9999, 12, 30, tzinfo=dt.UTC), BASE]
    harness.process([("+I", "a" * 10_000, time, 1) for time in far])
    harness.flush()
    harness.process([])
    harness.end_of_input()
    assert Counter(row[4] for row in harness.changes()) == {1: 12}
    assert harness.counters["keys"] == 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: al.Tumble("0 s", on="ts"), "longer than nothing"),
        (lambda: al.Tumble("1 fortnight", on="ts"), "must be a duration"),
        (lambda: al.Tumble("20000000 days", on="ts"), "ten thousand years"),
        (lambda: al.Tumble("1 h", on="ts", time_zone="Mars/Base"), "no time zone 'Mars/Base'"),
        (lambda: al.Windowing(al.Tumble("1 h"), late_rows=True), "by the clock no row is late"),
        (
            lambda: al.Windowing(al.GlobalWindow(on="ts"), allowed_lateness="1 h"),
            "a global window never ends",
        ),
        (
            lambda: al.Windowing(al.Tumble("1 h"), al.PurgingTrigger(al.EventTimeTrigger())),
            "needs event time",
        ),
        (
            lambda: al.Windowing(al.Tumble("1 h"), al.ContinuousTrigger("5 min")),
            "would never fire",
        ),
        (
            lambda: al.Windowing(
                al.Tumble("1 h", on="t"), al.PurgingTrigger(al.EventTimeTrigger(late="1 s"))
            ),
            "allowed_lateness",
        ),
        (lambda: al.PurgingTrigger(3), "give a Trigger"),  # type: ignore[arg-type]
        (lambda: al.Cumulate("10 s", "3 s", on="ts"), "multiple"),
        (lambda: al.Session(on="ts"), "either gap"),
        (lambda: al.CountWindow(0), "number of rows"),
        (lambda: al.Windowing(al.Tumble("1 h"), allowed_lateness="1 h"), "event time"),
        (
            lambda: al.Windowing(al.Tumble("1 h", on="t"), al.EventTimeTrigger(late="1 s")),
            "allowed_lateness",
        ),
        (lambda: al.Windowing("1 hour"), "give an assigner"),  # type: ignore[arg-type]
        (lambda: al.CountTrigger(True), "number of rows"),
    ],
)
def test_wrong_windows_are_refused_with_the_fix(make: Any, said: str) -> None:
    with pytest.raises(al.errors.SpecError, match=said):  # type: ignore[attr-defined]
        make()


def test_wrong_columns_are_refused() -> None:
    spec = al.AggSpec("k STRING, ts TIMESTAMP, v INT", ("k",), (al.AggCall("COUNT"),))
    errors: Any = al.errors
    with pytest.raises(errors.UnknownColumnError, match="Did you mean 'ts'"):
        Harness(spec, window=al.Tumble("1 h", on="tss"))
    with pytest.raises(errors.TypeMismatchError, match="'v'"):
        Harness(spec, window=al.Tumble("1 h", on="v"))
    named = al.AggSpec("k STRING, ts TIMESTAMP", ("k",), (al.AggCall("COUNT", alias="window_end"),))
    with pytest.raises(errors.DuplicateNameError, match="window_end"):
        Harness(named, window=al.Tumble("1 h", on="ts"))
    with pytest.raises(errors.SpecError, match="window_spec"):
        other = al.load(al.generate(al.window_spec(spec, al.Tumble("1 h", on="ts"))))
        wider = al.AggSpec(spec.schema, ("k",), (al.AggCall("SUM", "v"),))
        Harness(wider, window=al.Tumble("1 h", on="ts"), handler=other)


def test_a_handler_of_your_own_file_is_plugged_in() -> None:
    spec = al.AggSpec("k STRING, ts TIMESTAMP, v INT", ("k",), (al.AggCall("SUM", "v", alias="s"),))
    window = al.Hop("20 s", "10 s", on="ts")
    source = al.generate(al.window_spec(spec, window))
    harness = Harness(spec, window=window, handler=source.path)
    assert harness.handler.__name__ == "NamespaceAggsHandler"
    harness.process([("+I", "a", at(1), 1), ("+I", "a", at(12), 2)])
    harness.end_of_input()
    assert [row[-1] for row in harness.changes()] == [1, 3, 2]


def test_names_that_are_hostile() -> None:
    name = 'a"); import os; ("`\n'
    spec = al.AggSpec({name: "TIMESTAMP", "$window": "INT"}, ("$window",), (al.AggCall("COUNT"),))
    harness = Harness(spec, window=al.Tumble("1 h", on=name), backend="numba")
    harness.process([("+I", at(0), 7)])
    harness.end_of_input()
    assert [row[1] for row in harness.changes()] == [7]


def test_options_of_plans_name_the_windows() -> None:
    options = PlanOptions.of({"table.exec.emit.allow-lateness": "1 h"})
    harness = Harness.from_sql(query("tumble"), {"t": DDL}, options=options, backend="python")
    harness.process([("+I", "a", at(1), 1)])
    harness.watermark(START + 20_000)
    harness.process([("+I", "a", at(2), 1), ("-D", "a", at(1), 1)])
    harness.flush()
    assert [(row[0], row[4]) for row in harness.changes()] == [("+I", 1)]
    harness.process([("-D", "a", at(2), 1)])
    harness.flush()
    assert [row[0] for row in harness.changes()] == ["-D"]


@pytest.mark.parametrize("backend", ["python", "numba"])
@pytest.mark.parametrize("window", ["tumble", "session"])
def test_windows_over_insertions_are_the_same_when_every_batch_copies_the_state(
    backend: Any, window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> list[Any]:
        marks = {"t": ("ts", "0 s")}
        plan = {"input_changes": "append", "watermarks": marks, "backend": backend}
        # Nothing here counts rows.
        sql = query(window).replace(CALLS, "MAX(v) AS m")
        with Harness.from_sql(sql, {"t": DDL}, **plan) as harness:
            for second in (1, 2, 12, 13, 25, 40, 80):
                rows = [("+I", f"k{second % n}", at(second), n) for n in (1, 2, 3)]
                harness.process(rows)
                harness.flush()
            return sorted(harness.changes())

    undisturbed = told()
    monkeypatch.setattr(key_index, "airy", lambda live, high: True)
    assert told() == undisturbed
    assert len(undisturbed) > 6
