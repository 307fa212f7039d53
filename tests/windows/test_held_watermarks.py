"""table.exec.mini-batch.allow-latency by row time: watermarks wait for the end of an interval."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from engine_jobs import rows_of_table
from hypothesis import given
from hypothesis import strategies as st

import aggloom as al
from aggloom.job import Job
from aggloom.run_local import open_query
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL, find_held_time, hold_watermark
from aggloom.script import jobs_of

BEGIN = dt.datetime(2024, 1, 1)
WINDOWS = """SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND))
GROUP BY window_start, window_end"""
LATENCY = "SET 'table.exec.mini-batch.allow-latency' = '5 s'; "
SECONDS = (1, 2, 6, 3, 5, 9, 11)
EXPECTED = [[], [], [1, 2], [], [], [], [5, 6, 9], [11]]
"""The windows that fire after each row, and at the end: the row of second 3 is late, that of second 5 is not."""


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**4))
def test_the_least_watermark_that_is_let_through(due: int, interval: int) -> None:
    least = find_held_time(due, interval)
    assert hold_watermark(least, interval) >= due > hold_watermark(least - 1, interval)
    assert (least + 1) % interval == 0
    assert hold_watermark(due, 0) == find_held_time(due, 0) == due
    assert [hold_watermark(each, interval) for each in (BEFORE_ALL, AFTER_ALL)] == [
        BEFORE_ALL,
        AFTER_ALL,
    ]


def test_windows_fire_at_the_end_of_an_interval() -> None:
    harness = al.Harness.from_sql(
        LATENCY + WINDOWS,
        {"t": "ts TIMESTAMP_NTZ", "u": "at TIMESTAMP_NTZ"},
        input_changes="append",
        watermarks={"t": ("ts", 0), "u": ("at", 0)},
        backend="python",
    )
    fired = []
    for second in SECONDS:
        harness.process([("+I", BEGIN + dt.timedelta(seconds=second))])
        fired.append(sorted(row[1].second for row in harness.changes()))
    harness.end_of_input()
    assert [*fired, sorted(row[1].second for row in harness.changes())] == EXPECTED
    assert harness.operator.counters["late_dropped"] == 1


@pytest.mark.parametrize("restart", [False, True])
def test_the_local_engine_waits_too(tmp_path: Path, restart: bool) -> None:
    table = "CREATE TABLE t (ts TIMESTAMP_NTZ, WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', "
    text = f"{LATENCY}{table}'path' = 'in', 'format' = 'json'); {WINDOWS}"
    base = Job(text, (), checkpoint=tmp_path / "c", sink="table", backend="python")
    (tmp_path / "in").mkdir()
    (job,), _ = jobs_of(base, tmp_path)
    query, known = open_query(job, tmp_path / "c"), 0
    for number, (second, expected) in enumerate(zip(SECONDS, EXPECTED, strict=False)):
        line = json.dumps({"ts": str(BEGIN + dt.timedelta(seconds=second))})
        (tmp_path / "in" / f"{number}.json").write_text(line + "\n")
        while query.run_batch():
            pass
        known += len(expected)
        assert len(rows_of_table(tmp_path / "c")) == known
        if restart:
            query.close()
            query = open_query(job, tmp_path / "c")
