"""Sessions over changes: what is emitted is what the rows that are left make, in whatever order they came and went."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import Any

import pytest
from handlers import Backend
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import aggloom as al
from aggloom.errors import OrphanRetractionError
from aggloom.runtime.local.harness import Harness

SPEC = al.AggSpec.from_sql(
    "SELECT k, COUNT(*) AS n, SUM(v) AS s, COUNT(DISTINCT v) AS d FROM t GROUP BY k",
    "k STRING, v INT, ts TIMESTAMP",
)
GAP = 5
BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
Row = tuple[Any, int, int]


def at(minute: float) -> dt.datetime:
    return BEGIN + dt.timedelta(minutes=minute)


def sessions(delay: str = "1000 min", backend: Backend = "python", **options: Any) -> Harness:
    window = al.Session(f"{GAP} min", on="ts")
    return Harness(SPEC, window=window, watermarks={"t": ("ts", delay)}, backend=backend, **options)


def changes(*rows: tuple[str, Any, int, int]) -> list[tuple[Any, ...]]:
    return [(kind, key, value, at(minute)) for kind, key, value, minute in rows]


def model(rows: list[Row]) -> list[tuple[Any, ...]]:
    """(key, start, end, n, s, d) of the sessions that rows (key, value, minute) make."""
    found, by_key = [], defaultdict(list)
    for key, value, minute in rows:
        by_key[key].append((minute, value))
    for key, own in by_key.items():
        parts: list[list[tuple[int, int]]] = []
        for minute, value in sorted(own):
            if not parts or minute > parts[-1][-1][0] + GAP:
                parts.append([])
            parts[-1].append((minute, value))
        for part in parts:
            values = [value for _, value in part]
            bounds = at(part[0][0]), at(part[-1][0] + GAP)
            found.append((key, *bounds, len(part), sum(values), len(set(values))))
    return sorted(found, key=repr)


def table(h: Harness) -> list[tuple[Any, ...]]:
    """The rows of the result without the time of the row."""
    return sorted(((*row[:3], *row[4:]) for row in h.table()), key=repr)


@pytest.mark.parametrize("backend", ["python", "numba"])
def test_a_row_that_goes_splits_shortens_and_ends_sessions(backend: Backend) -> None:
    h = sessions(backend=backend)
    h.process(changes(*(("+I", "a", 1, minute) for minute in (0, 4, 8)), ("+I", "b", 1, 0)))
    h.process(changes(("-D", "a", 1, 4), ("-D", "b", 1, 0)))
    h.end_of_input()
    assert table(h) == [("a", at(0), at(5), 1, 1, 1), ("a", at(8), at(13), 1, 1, 1)]


def test_what_is_left_of_a_session_that_is_over_fires_when_the_watermark_moves() -> None:
    h = sessions("0 min")
    h.process(changes(("+I", "a", 1, 0), ("+I", "a", 1, 4), ("+I", "b", 1, 6)))
    # The session of 0 and 4 ends at 9, what is left of it ended at 5.
    h.process(changes(("-D", "a", 1, 4)))
    h.flush()
    assert h.table() == []
    due, _ = h.operator.next_timers()
    assert due == h.operator.now + 1, "due when the watermark moves, and not before"
    # Until then a row that touches it joins it.
    h.process(changes(("+I", "a", 2, 1), ("+I", "b", 2, 7)))
    h.process(changes(("+I", "a", 1, 1), ("-D", "a", 1, 0), ("+I", "b", 3, 8)))
    h.flush()
    assert table(h) == [("a", at(0), at(6), 2, 3, 2)]
    assert h.counters["late_dropped"] == 2
    h.end_of_input()
    assert table(h)[1:] == [("b", at(6), at(13), 3, 6, 3)]


def test_a_row_behind_the_watermark_joins_what_is_open_by_way_of_those_before_it() -> None:
    h = sessions("0 min")
    h.process(changes(("+I", "a", 1, 10)))
    # 6 touches 10, and 1 touches 6; the row of b touches none.
    h.process(changes(("+I", "a", 1, 1), ("+I", "a", 1, 6), ("+I", "a", 1, 1), ("+I", "b", 1, 1)))
    assert h.counters["late_dropped"] == 2
    h.end_of_input()
    assert table(h) == [("a", at(1), at(15), 3, 3, 1)]


def test_orphans() -> None:
    dropped, kept = sessions(), sessions(on_orphan_retraction="keep")
    for h in (dropped, kept):
        h.process(changes(("-D", "a", 1, 4), ("+I", "a", 1, 0), ("+I", "a", 1, 8)))
        h.process(changes(("+I", "a", 1, 4)))
        h.end_of_input()
    assert table(dropped) == [("a", at(0), at(13), 3, 3, 1)]
    assert table(kept) == [("a", at(0), at(5), 1, 1, 1), ("a", at(8), at(13), 1, 1, 1)]
    assert dropped.counters["orphans_dropped"] == 1
    h = sessions(on_orphan_retraction="error")
    with pytest.raises(OrphanRetractionError):
        h.process(changes(("+I", "a", 1, 0), ("-D", "a", 1, 4)))
        h.flush()


STEPS = st.lists(
    st.lists(
        st.tuples(
            st.booleans(), st.sampled_from(["a", "b", None]), st.integers(1, 3), st.integers(0, 40)
        ),
        max_size=6,
    ),
    max_size=6,
)


@examples(25)
@given(steps=STEPS, keeps=st.booleans())
def test_the_result_is_that_of_the_rows_that_are_left(
    steps: list[list[tuple[bool, Any, int, int]]], keeps: bool
) -> None:
    options = {"on_orphan_retraction": "keep"} if keeps else {}
    h, left = sessions(**options), []
    for step in steps:
        bundle = []
        for adds, key, value, minute in step:
            if adds or not left:
                left.append((key, value, minute))
                bundle.append(("+I", key, value, minute))
            else:
                bundle.append(("-D", *left.pop(minute % len(left))))
        h.process(changes(*bundle))
        after = sessions(**options)
        after.restore(h.snapshot())
        h = after
    h.end_of_input()
    assert table(h) == model(left)


@pytest.mark.parametrize("kind", ["append", "retract"])
def test_sessions_go_by_milliseconds(kind: str) -> None:
    """W14: microseconds are cut off, so rows 1.0008 seconds apart are in one session of a gap of a second."""
    sql = """SELECT k, session_window.start AS since, session_window.end AS until, COUNT(*) AS n FROM t
        GROUP BY k, session_window(ts, '1 second')"""
    rows = [BEGIN + dt.timedelta(microseconds=us) for us in (100, 1_000_900, 2_001_000)]
    with al.Harness.from_sql(
        sql,
        {"t": "k INT, ts TIMESTAMP"},
        input_changes=kind,
        backend="python",
        watermarks={"t": ("ts", "1 day")},
    ) as harness:
        harness.process([("+I", 1, ts) for ts in rows])
        harness.end_of_input()
        ends = [BEGIN + dt.timedelta(milliseconds=ms) for ms in (0, 2000, 2001, 3001)]
        assert harness.table() == [(1, ends[0], ends[1], 2), (1, ends[2], ends[3], 1)]
