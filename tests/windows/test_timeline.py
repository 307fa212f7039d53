"""Timelines: what they tell of windows is what the operators did, and their pictures are SVG that holds any text."""

from __future__ import annotations

import datetime as dt
import re
import xml.etree.ElementTree as ET
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from aggloom.codegen import AggSpec
from aggloom.codegen.windows import (
    Assigner,
    CountEvictor,
    CountTrigger,
    CountWindow,
    Cumulate,
    DeltaEvictor,
    EventTimeTrigger,
    GlobalWindow,
    Hop,
    PurgingTrigger,
    Session,
    Tumble,
)
from aggloom.errors import AggloomError, UnknownColumnError
from aggloom.runtime.local.harness import Change, Harness
from aggloom.runtime.local.timeline_marks import TimeAxis, clip_text, wide
from aggloom.runtime.local.timeline_story import Row, Span, Story

SCHEMA = "name STRING, amount INT, ts TIMESTAMP, gap BIGINT"
SPEC = AggSpec.from_sql("SELECT name, SUM(amount) AS total FROM t GROUP BY name", SCHEMA)
COUNTED = [2, 5, 7, 9, 4, 2]


def at(minutes: float) -> dt.datetime:
    return dt.datetime(2024, 5, 1, 9, tzinfo=dt.UTC) + dt.timedelta(minutes=minutes)


def run(
    window: Assigner, rows: list[tuple[str, str | None, int | None, float]], **options: Any
) -> Harness:
    """A harness that has taken the rows, one by one, the watermark a minute behind them."""
    spec = options.pop("spec", SPEC)
    h = Harness(spec, window=window, backend="python", watermarks={"t": ("ts", "1 min")}, **options)
    for kind, name, amount, minute in rows:
        h.process([(kind, name, amount, at(minute), 300_000)])
    return h


def counted(window: Assigner, amounts: list[int] = COUNTED, **options: Any) -> Harness:
    return run(window, [("+I", "ann", amount, 0) for amount in amounts], **options)


def story(h: Harness) -> Story:
    return h.timeline().story


def results(h: Harness) -> list[tuple[str, tuple[int, ...]]]:
    """The results of windows of rows, each with the numbers of its rows."""
    return [(f.text, f.rows) for span in story(h).spans for f, _ in span.results]


def minutes(span: Span) -> tuple[int, int]:
    start = int(at(0).timestamp() * 1000)
    return (span.start - start) // 60_000, (span.end - start) // 60_000


def svg(h: Harness, **options: Any) -> ET.Element:
    return ET.fromstring(h.timeline(**options).svg)


def words(picture: ET.Element) -> list[str]:
    return [node.text or "" for node in picture.iter("{http://www.w3.org/2000/svg}text")]


def titles(picture: ET.Element) -> list[str]:
    return [node.text or "" for node in picture.iter("{http://www.w3.org/2000/svg}title")]


# What happened


def test_rows_go_to_windows_that_fire() -> None:
    h = run(
        Tumble("10 min", on="ts"), [("+I", "ann", 3, 1), ("+I", "ann", 2, 12), ("+I", "bob", 4, 3)]
    )
    told = story(h)
    assert [(row.key, row.label, row.late) for row in told.rows] == [
        (("ann",), "3", False),
        (("ann",), "2", False),
        (("bob",), "4", True),
    ]
    assert [(span.key, minutes(span), span.rows) for span in told.spans] == [
        (("ann",), (0, 10), 1),
        (("ann",), (10, 20), 1),
    ]
    assert [(f.kind, f.text, f.after) for f in told.spans[0].firings] == [("+I", "3", 2)]
    assert [mark.after for mark in told.marks] == [1, 2]


def test_a_corrected_result_does_not_hold() -> None:
    rows = [("+I", "ann", 3, 1), ("+I", "ann", 2, 12), ("+I", "ann", 4, 3)]
    h = run(Tumble("10 min", on="ts"), rows, allowed_lateness="1 h")
    first = story(h).spans[0]
    assert [(f.kind, f.text) for f in first.firings] == [("+I", "3"), ("-U", "3"), ("+U", "7")]
    assert [(f.text, holds) for f, holds in first.results] == [("3", False), ("7", True)]
    assert "3 → 7" in words(svg(h))


def test_a_session_that_a_row_makes_of_two() -> None:
    h = run(Session("5 min", on="ts"), [("+I", "ann", 1, m) for m in (0, 5.5, 3)])
    (span,) = story(h).spans
    assert minutes(span) == (0, 10) and span.rows == 3
    assert [(m.end - m.start, m.row) for m in span.merges] == [(300_000, 3), (300_000, 3)]
    h.end_of_input()
    (fired,) = story(h).spans
    assert [f.text for f, _ in fired.results] == ["3"]


def test_a_session_that_grows_after_its_result() -> None:
    rows = [("+I", "ann", 1, 0), ("+I", "bob", 1, 20), ("+I", "ann", 2, 4)]
    h = run(Session("5 min", on="ts"), rows, allowed_lateness="1 h")
    ann = story(h).spans[0]
    assert minutes(ann) == (0, 9)
    assert [(f.kind, f.text) for f in ann.firings] == [("+I", "1"), ("-D", "1"), ("+I", "3")]
    assert [holds for _, holds in ann.results] == [False, True]


def test_gaps_of_rows() -> None:
    h = run(Session(on="ts", gap_column="gap"), [("+I", "ann", 1, 0), ("+I", "ann", 1, 4)])
    assert [minutes(span) for span in story(h).spans] == [(0, 9)]


def test_the_worked_example_of_sliding_counts() -> None:
    """Every two rows the last four: the third result is of 7, 9, 4 and 2, which is 22."""
    h = counted(CountWindow(4, slide=2))
    assert results(h) == [("7", (1, 2)), ("23", (1, 2, 3, 4)), ("22", (3, 4, 5, 6))]


def test_rows_of_results() -> None:
    assert results(counted(CountWindow(2))) == [("7", (1, 2)), ("16", (3, 4)), ("6", (5, 6))]
    every = counted(GlobalWindow(), trigger=CountTrigger(3))
    assert results(every) == [("14", (1, 2, 3)), ("29", (1, 2, 3, 4, 5, 6))]
    near = DeltaEvictor(4, "amount", delta=lambda values, last: abs(values - last))
    h = counted(GlobalWindow(), trigger=CountTrigger(2), evictor=near)
    assert results(h) == [("7", (1, 2)), ("16", (3, 4)), ("6", (5, 6))]
    after = counted(GlobalWindow(), trigger=CountTrigger(2), evictor=CountEvictor(1, after=True))
    assert results(after) == [("7", (1, 2)), ("21", (2, 3, 4)), ("15", (4, 5, 6))]


def test_rows_of_results_by_key_and_with_retractions() -> None:
    rows = [("+I", "a", 1, 0), ("+I", "b", 2, 0), ("-D", "a", 1, 0), ("+I", "b", 3, 0)]
    h = run(GlobalWindow(), rows, trigger=PurgingTrigger(CountTrigger(2)))
    assert results(h) == [("5", (2, 4))]
    h = run(GlobalWindow(), rows, trigger=CountTrigger(1), evictor=CountEvictor(9))
    assert [covers for _, covers in results(h)] == [(1,), (2,), (2, 4)]


def test_processing_time() -> None:
    h = Harness(SPEC, window=Tumble("10 s"), backend="python")
    for second in (0, 4, 12):
        h.processing_time(1000 * second)
        h.process([("+I", "ann", 1, at(0), 1)])
    told = story(h)
    assert [row.place for row in told.rows] == [0, 4000, 12_000]
    assert [(s.start, s.end, [f.text for f, _ in s.results]) for s in told.spans] == [
        (0, 10_000, ["2"]),
        (10_000, 20_000, []),
    ]
    assert "arrival" not in words(svg(h))


def test_staggered_windows_are_known_by_what_they_give_out() -> None:
    h = Harness(SPEC, window=Tumble("10 s", stagger="natural"), backend="python")
    for second in (3, 14):
        h.processing_time(1000 * second)
        h.process([("+I", "ann", 1, at(0), 1)])
    assert [(span.start, span.end) for span in story(h).spans] == [(3000, 13_000)]


def test_a_row_in_a_gap_between_windows() -> None:
    h = run(Hop("2 min", "10 min", on="ts"), [("+I", "ann", 1, 1), ("+I", "ann", 2, 5)])
    assert [(row.outside, row.late) for row in story(h).rows] == [(False, False), (True, False)]
    assert "in no window" in words(svg(h))


def test_windows_of_a_day_in_which_clocks_change() -> None:
    h = Harness(SPEC, window=Tumble("1 day", on="ts", time_zone="Europe/Berlin"), backend="python")
    midnight = dt.datetime(2024, 3, 30, 23, tzinfo=dt.UTC)
    h.process([("+I", "ann", 1, midnight + dt.timedelta(hours=n), 1) for n in (0, 22)])
    h.end_of_input()
    (span,) = story(h).spans
    assert (span.end - span.start) // 3_600_000 == 23 and span.rows == 2
    assert [f.text for f, _ in span.results] == ["2"]


def test_the_buffered_rows_are_drawn() -> None:
    h = Harness(SPEC, window=Tumble("10 min", on="ts"), backend="python")
    h.process([("+I", "ann", 1, at(0), 1)])
    assert len(story(h).rows) == 1


def test_it_goes_on_from_a_restore() -> None:
    h = run(Tumble("10 min", on="ts"), [("+I", "ann", 3, 1)])
    data = h.snapshot()
    other = Harness(SPEC, window=Tumble("10 min", on="ts"), backend="python")
    other.process([("+I", "bob", 9, at(1), 1)])
    other.restore(data)
    other.process([("+I", "ann", 4, at(2), 1)])
    other.end_of_input()
    (span,) = story(other).spans
    assert [f.text for f, _ in span.results] == ["7"]
    assert [row.label for row in story(other).rows] == ["4"]


# SQL

TVF = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES))"


def from_sql(sql: str, **options: Any) -> Harness:
    h = Harness.from_sql(sql, {"t": SCHEMA}, backend="python", **options)
    h.process([("+I", "ann", n, at(n), 1) for n in (1, 2, 11)])
    h.process([("-D", "ann", 2, at(2), 1)])
    h.end_of_input()
    return h


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize("buckets", [1, 3])
def test_a_query_with_expressions_around_its_windows(dialect: str, buckets: int) -> None:
    h = from_sql(
        f"SELECT UPPER(name) AS n, SUM(amount * 2) + 1 AS s FROM {TVF} WHERE amount < 9 OR amount > 10 "
        "GROUP BY UPPER(name), window_start, window_end HAVING SUM(amount * 2) > 5",
        dialect=dialect,
        buckets=buckets,
        partitions=2,
    )
    told = story(h)
    assert [(row.key, row.label, row.kind) for row in told.rows] == [
        (("ANN",), "2", "+I"),
        (("ANN",), "4", "+I"),
        (("ANN",), "22", "+I"),
        (("ANN",), "4", "-D"),
    ]
    assert [minutes(span) for span in told.spans] == [(0, 10), (10, 20)]
    # HAVING stands above what is drawn.
    assert [f.text.split("=")[-1] for span in told.spans for f, _ in span.results] == ["2", "22"]


def test_windows_over_a_group_aggregate() -> None:
    h = from_sql(
        "WITH last AS (SELECT name, MAX(ts) AS seen FROM t GROUP BY name) SELECT COUNT(*) AS n FROM "
        "TABLE(TUMBLE(TABLE last, DESCRIPTOR(seen), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end"
    )
    told = story(h)
    assert [row.kind for row in told.rows] == ["+I"] and told.keys == [()]
    assert "all rows" in words(svg(h))


def test_a_result_that_an_aggregate_reads() -> None:
    h = from_sql(
        f"WITH w AS (SELECT name, SUM(amount) AS s FROM {TVF} GROUP BY name, window_start, window_end) "
        "SELECT MAX(s) AS m FROM w"
    )
    assert [f.text for span in story(h).spans for f, _ in span.results] == ["1", "11"]


# Against the operators

ASSIGNERS: list[tuple[Assigner, dict[str, Any]]] = [
    (Tumble("10 min", on="ts"), {}),
    (Tumble("10 min", on="ts"), {"allowed_lateness": "7 min"}),
    (
        Tumble("10 min", on="ts"),
        {"trigger": EventTimeTrigger(early=0), "allowed_lateness": "4 min"},
    ),
    (Tumble("10 min", on="ts"), {"trigger": CountTrigger(2)}),
    (Hop("10 min", "4 min", on="ts", offset="1 min"), {}),
    (Hop("4 min", "10 min", on="ts"), {}),
    (Cumulate("12 min", "4 min", on="ts"), {}),
    (Session("4 min", on="ts"), {}),
    (Session("4 min", on="ts"), {"allowed_lateness": "9 min"}),
    (Session("4 min", on="ts"), {"trigger": CountTrigger(2)}),
    (CountWindow(3), {}),
    (CountWindow(3, 2), {}),
    (GlobalWindow(), {"trigger": CountTrigger(2)}),
]
BATCHES = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["+I", "+I", "-D"]),
            st.sampled_from(["ann", "bob", None]),
            st.integers(1, 3),
            st.integers(0, 40),
        ),
        max_size=4,
    ),
    max_size=8,
)


@pytest.mark.parametrize(("assigner", "options"), ASSIGNERS, ids=lambda each: str(each)[:60])
@examples(12)
@given(batches=BATCHES)
def test_it_tells_what_the_operator_did(
    assigner: Assigner, options: dict[str, Any], batches: list[list[Any]]
) -> None:
    h = Harness(
        SPEC,
        window=assigner,
        backend="python",
        watermarks={"t": ("ts", "2 min")},
        on_orphan_retraction="keep",
        **options,
    )
    for rows in batches:
        # Windows of rows are played row by row: what is taken back must be there.
        kept = rows if assigner.event_time else [("+I", *row[1:]) for row in rows]
        h.process([(k, name, amount, at(m), 1) for k, name, amount, m in kept])
    h.end_of_input()
    told = story(h)
    assert sum(row.late for row in told.rows) == h.counters["late_dropped"]
    assert len(told.rows) == sum(map(len, batches))
    given_out = Counter(_result(change) for change in h.changes())
    drawn = Counter(
        (firing.kind, span.key[0], firing.text) for span in told.spans for firing in span.firings
    )
    assert drawn == given_out
    if not told.by_order:
        assert all(span.rows for span in told.spans if span.firings)
    ET.fromstring(h.timeline().svg)


def _result(change: Change) -> tuple[str, str | None, str]:
    kind, name, *_, total = change
    return kind, name, "NULL" if total is None else str(total)


# The picture


def test_the_picture_is_the_same_each_time() -> None:
    rows = [("+I", "ann", 3, 1), ("+I", "bob", 2, 12), ("-D", "ann", 3, 1)]
    one, two = (run(Hop("10 min", "5 min", on="ts"), rows).timeline().svg for _ in range(2))
    assert one == two


def test_a_notebook_shows_it_and_a_file_holds_it(tmp_path: Path) -> None:
    picture = counted(CountWindow(2)).timeline()
    assert picture._repr_svg_() == picture.svg
    assert picture.svg in picture._repr_html_()
    picture.save(tmp_path / "windows.svg")
    assert (tmp_path / "windows.svg").read_text(encoding="utf-8") == picture.svg
    assert "<script" not in picture.svg and " id=" not in picture.svg


def test_a_name_is_text_whatever_it_holds() -> None:
    evil = "</svg><script>alert(1)</script>"
    h = run(Tumble("10 min", on="ts"), [("+I", evil, 1, 1), ("+I", "a\x00b\x1b", 1, 1)])
    picture = svg(h, title=evil + "&\"'", label="name")
    assert any(evil in title for title in titles(picture))
    assert not list(picture.iter("{http://www.w3.org/2000/svg}script"))
    assert "<script" not in h.timeline(title=evil).svg


def test_it_says_what_it_shows() -> None:
    h = run(
        Tumble("10 min", on="ts"), [("+I", "ann", 3, 1), ("+I", "ann", 2, 12), ("+I", "ann", 4, 3)]
    )
    picture = svg(h, title="Sales")
    assert titles(picture)[0] == "Sales" and "Sales" in words(picture)
    told = picture.find("{http://www.w3.org/2000/svg}desc")
    assert told is not None and told.text == picture.get("aria-label")
    assert "3 rows of 1 keys, 1 of them late, 1 results emitted" in str(told.text)
    found = titles(picture)
    assert any(re.match(r"row 3: \+I name=ann, amount=4.*too late", each) for each in found)
    assert "window 2024-05-01 09:00 to 2024-05-01 09:10, 1 row: +I 3" in found
    assert "window 2024-05-01 09:10 to 2024-05-01 09:20, 1 row: not emitted" in found
    assert any(each.startswith("the watermark, at last 2024-05-01 09:10:59.999") for each in found)


def test_only_so_many_keys_and_rows_are_drawn() -> None:
    rows = [("+I", f"user {n % 12}", n, n) for n in range(60)]
    picture = svg(run(Tumble("10 min", on="ts"), rows), keys=3, rows=24)
    assert [each for each in words(picture) if each.startswith("user")] == [
        "user 0",
        "user 1",
        "user 2",
    ]
    assert "Not drawn: 9 more keys, 36 earlier rows." in words(picture)
    assert sum(each.startswith("row ") for each in titles(picture)) == 2 * 6


def test_many_rows_are_dots_without_values() -> None:
    picture = svg(run(Hop("60 min", "1 min", on="ts"), [("+I", "ann", 777, n) for n in range(80)]))
    assert "777" not in words(picture)


def test_without_rows_there_is_a_picture() -> None:
    for window in (Tumble("1 h", on="ts"), CountWindow(2), Tumble("1 h"), Session("1 h", on="ts")):
        svg(Harness(SPEC, window=window, backend="python"))


def test_other_values_and_several_results() -> None:
    spec = AggSpec.from_sql(
        "SELECT COUNT(*) AS n, AVG(amount) AS mean, MAX(name) FILTER (WHERE gap = 0) AS top FROM t",
        SCHEMA,
    )
    h = run(Tumble("10 min", on="ts"), [("+I", "ann", 1, 1), ("+I", None, 2, 2)], spec=spec)
    h.end_of_input()
    assert "n=2, mean=1.5, top=NULL" in words(svg(h))
    assert {"ann", "NULL"} <= set(words(svg(h, label="name")))


@pytest.mark.parametrize("span", [1, 90, 5000, 60_000, 3_600_000, 10**9, 10**11, 10**13])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_ticks_are_round_and_apart(span: int, zone: str) -> None:
    axis = TimeAxis(1_711_800_000_123, 1_711_800_000_123 + span, 80, 744, zone)
    ticks = axis.ticks()
    assert 0 < len(ticks) < 11 or span == 1
    for (a, left), (b, right) in pairwise(ticks):
        assert b - a > (wide(left) + wide(right)) / 2


def test_texts_are_cut_to_their_room() -> None:
    assert clip_text("short", 100) == "short"
    assert wide(clip_text("x" * 50, 100)) <= 100 and clip_text("x" * 50, 100).endswith("…")
    assert wide(clip_text("長い名前の利用者", 60)) <= 60


@pytest.mark.parametrize(
    ("harness", "error", "message"),
    [
        (
            lambda: Harness(SPEC, backend="python"),
            AggloomError,
            "no window aggregates; give window",
        ),
        (
            lambda: from_sql(
                f"WITH w AS (SELECT window_time AS at, SUM(amount) AS s FROM {TVF} "
                "GROUP BY window_start, window_end, window_time) SELECT COUNT(*) AS n FROM "
                "TABLE(TUMBLE(TABLE w, DESCRIPTOR(at), INTERVAL '1' HOUR)) GROUP BY window_start, window_end"
            ),
            AggloomError,
            "2 window aggregates; draw each",
        ),
    ],
)
def test_plans_without_one_window_are_refused(harness: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        harness().timeline()


def test_options_are_checked() -> None:
    h = counted(CountWindow(2))
    with pytest.raises(AggloomError, match=r"no option 'widht'. Did you mean 'width'"):
        h.timeline(widht=3)
    with pytest.raises(UnknownColumnError, match=r"no column 'amout'. Did you mean 'amount'"):
        h.timeline(label="amout")


def test_a_row_knows_whether_it_adds() -> None:
    kinds = {kind: Row(1, kind, (), 0, "", "").adds for kind in ("+I", "-U", "+U", "-D")}
    assert kinds == {"+I": True, "-U": False, "+U": True, "-D": False}
