"""The time of processing as a value: one for each batch, the same when it runs again; windows and joins by it."""

from __future__ import annotations

import datetime as dt
import json
import random
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import rows_of_table, run_to_end

import aggloom as al
from aggloom.errors import UnsupportedSqlError
from aggloom.job import Job
from aggloom.run_local import open_query
from aggloom.script import jobs_of

TABLES = {"t": "id INT, k INT", "u": "id INT, k INT"}
MINUTE = 60_000
BEGIN = 1_700_000_000_000 // MINUTE * MINUTE


def at(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=ms)


def wall(ms: int) -> dt.datetime:
    return at(ms).replace(tzinfo=None)


def fed(query: str, batches: list[tuple[int, str, list[Any]]], **more: Any) -> list[Any]:
    """The table of a query over append-only tables. batches: a time, a table, its rows."""
    about = {"input_changes": "append", "backend": "python", "dialect": "flink", **more}
    with al.Harness.from_sql(query, TABLES, **about) as harness:
        for ms, table, rows in batches:
            harness.processing_time(ms)
            if table in harness.plan.scans:
                harness.process([("+I", *row) for row in rows], table=table)
            harness.flush()
        return sorted(harness.table(), key=str)


def random_batches(seed: int) -> list[tuple[int, str, list[Any]]]:
    draw, now, found = random.Random(seed), BEGIN, []
    for number in range(12):
        now += draw.randrange(0, 90_000)
        rows = [(3 * number + n, draw.randrange(3)) for n in range(draw.randrange(1, 4))]
        found.append((now, draw.choice("tu"), rows))
    return found


def timed_rows(batches: list[tuple[int, str, list[Any]]], table: str) -> list[tuple[int, int, int]]:
    """The rows of a table with their times: (time, id, k)."""
    return [(ms, *row) for ms, name, rows in batches for row in rows if name == table]


def test_the_clock_has_several_names() -> None:
    query = """SELECT id, PROCTIME() AS p, CURRENT_TIMESTAMP, NOW() AS n, LOCALTIMESTAMP() AS l, CURRENT_DATE AS d,
      CAST(PROCTIME() AS STRING) AS s, CURDATE() AS e, CURRENT_TIMESTAMP() AS m, CURRENT_TIME() AS h, LOCALTIME() AS o,
      CURRENT_ROW_TIMESTAMP() AS r FROM t"""
    with al.Harness.from_sql(query, TABLES, input_changes="append") as harness:
        assert harness.plan.schema.names[2] == "current_timestamp"
        harness.processing_time(BEGIN)
        harness.process([("+I", 1, 1)])
        # A bundle has the time at which it runs.
        harness.flush()
        harness.processing_time(BEGIN + 5)
        harness.process([("+I", 2, 1)])
        harness.flush()
        for (id, p, c, n, local, date, text, *others), ms in zip(
            sorted(harness.table()), (BEGIN, BEGIN + 5), strict=True
        ):
            assert id in (1, 2) and p == c == n == at(ms) and local == wall(ms)
            assert date == wall(ms).date()
            assert others == [date, p, wall(ms).time(), wall(ms).time(), p]
            assert text.startswith(str(wall(BEGIN)))


def test_a_bundle_of_a_mini_batch_has_one_time() -> None:
    found = fed("SELECT id, PROCTIME() AS p FROM t", [(BEGIN, "t", [(1, 1), (2, 1)])])
    assert found == [(1, at(BEGIN)), (2, at(BEGIN))]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("window", "bounds"),
    [
        (
            "TUMBLE(TABLE v, DESCRIPTOR(p), INTERVAL '2' MINUTE)",
            lambda m: [(m // 2 * 2, m // 2 * 2 + 2)],
        ),
        (
            "HOP(TABLE v, DESCRIPTOR(p), INTERVAL '1' MINUTE, INTERVAL '3' MINUTE)",
            lambda m: [(m - 2, m + 1), (m - 1, m + 2), (m, m + 3)],
        ),
        (
            "CUMULATE(TABLE v, DESCRIPTOR(p), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)",
            lambda m: [(m // 2 * 2, end) for end in range(m + 1, m // 2 * 2 + 3)],
        ),
    ],
    ids=["tumble", "hop", "cumulate"],
)
def test_windows_without_a_group_by(window: str, bounds: Any, seed: int) -> None:
    query = f"""CREATE VIEW v AS SELECT *, PROCTIME() AS p FROM t;
      SELECT id, window_start, window_end FROM TABLE({window})"""
    batches = random_batches(seed)
    expected = [
        (id, wall(start * MINUTE), wall(end * MINUTE))
        for ms, id, _ in timed_rows(batches, "t")
        for start, end in bounds(ms // MINUTE)
    ]
    assert fed(query, batches) == sorted(expected, key=str)


VIEWS = """CREATE VIEW v AS SELECT *, PROCTIME() AS p FROM t; CREATE VIEW w AS SELECT *, PROCTIME() AS p FROM u;"""


@pytest.mark.parametrize("seed", range(4))
def test_joins_by_the_clock(seed: int) -> None:
    batches = random_batches(seed)
    left, right = timed_rows(batches, "t"), timed_rows(batches, "u")
    size = "INTERVAL '2' MINUTE"
    windows = f"""{VIEWS} SELECT a.id, b.id AS other FROM
      (SELECT * FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(p), {size}))) a
      JOIN (SELECT * FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(p), {size}))) b
      ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end"""
    same = [
        (a, b)
        for x, a, j in left
        for y, b, k in right
        if j == k and x // (2 * MINUTE) == y // (2 * MINUTE)
    ]
    assert fed(windows, batches) == sorted(same, key=str)
    between = f"""{VIEWS} SELECT a.id, b.id AS other FROM v a LEFT JOIN w b
      ON a.k = b.k AND a.p BETWEEN b.p - INTERVAL '1' MINUTE AND b.p + INTERVAL '2' MINUTE"""
    near: list[Any] = []
    for x, a, j in left:
        own = [(a, b) for y, b, k in right if j == k and y - MINUTE <= x <= y + 2 * MINUTE]
        near += own or [(a, None)]
    assert fed(between, batches) == sorted(near, key=str)


def test_a_batch_that_runs_again_has_the_same_time(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(json.dumps({"id": 1}) + "\n")
    text = """CREATE TABLE t (id INT, p AS PROCTIME())
      WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json'); SELECT id, p FROM t"""
    base = Job(text, (), checkpoint=tmp_path / "c", sink="table", backend="python")
    (job,), _ = jobs_of(base, tmp_path)
    query = open_query(job, tmp_path / "c")
    planned = query._plan_batch()
    query.close()
    assert planned is not None
    run_to_end(job)
    assert rows_of_table(tmp_path / "c") == [(1, at(planned.now))]


@pytest.mark.parametrize(
    ("query", "changes", "said"),
    [
        (
            "SELECT id, PROCTIME() AS p FROM t",
            "retract",
            "the time of processing of a table with changes is",
        ),
        (
            "SELECT id, NOW() AS p FROM t",
            "retract",
            "the time of processing of a table with changes is",
        ),
        (
            "SELECT k, COUNT(*) AS n, PROCTIME() AS p FROM t GROUP BY k",
            "append",
            "the time of processing over",
        ),
        (
            "SELECT COUNT(*) AS n FROM t GROUP BY PROCTIME()",
            "append",
            "PROCTIME() elsewhere than in SELECT",
        ),
        (
            "CREATE VIEW v AS SELECT *, PROCTIME() AS p FROM t; "
            "SELECT * FROM TABLE(SESSION(TABLE v, DESCRIPTOR(p), INTERVAL '1' MINUTE))",
            "retract",
            "SESSION in processing time over changes without a GROUP BY is",
        ),
    ],
)
def test_what_has_no_time_is_refused(query: str, changes: str, said: str) -> None:
    with pytest.raises(UnsupportedSqlError) as raised:
        al.Harness.from_sql(query, TABLES, input_changes=changes)
    assert said in str(raised.value).splitlines()[0]
    assert "At line 1" in str(raised.value)


def test_a_plan_says_it() -> None:
    text = al.explain("SELECT id, PROCTIME() AS p FROM t", tables=TABLES, input_changes="append")
    assert "fields=[id, k, (processing time)]" in text


def test_a_watermark_by_the_clock_is_refused() -> None:
    text = """CREATE TABLE d (id INT, ts AS LOCALTIMESTAMP, WATERMARK FOR ts AS ts)
      WITH ('connector' = 'datagen', 'number-of-rows' = '1'); SELECT id FROM d"""
    with pytest.raises(al.errors.SpecError, match="the clock; leave the WATERMARK out"):
        al.explain(text)
