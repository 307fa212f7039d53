"""The end of finite input: `aggloom run` gives the table of `aggloom sql`, once, and says what comes too late."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import aggloom as al
from aggloom import run as running
from aggloom.cli import main
from aggloom.job import Job, read_job
from aggloom.job_plan import feed_job
from aggloom.runtime.sinks.stop import STOP
from aggloom.tables import TableSource

pytestmark = pytest.mark.spark

pytest.importorskip("pyspark")

TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECONDS))"
SUMS = f"""SELECT k, window_start, SUM(v) AS s, COUNT(*) AS n FROM {TUMBLE.format('a')}
    GROUP BY k, window_start, window_end"""
QUERIES = {
    "tumble": SUMS,
    "hop": SUMS.replace("TUMBLE(", "HOP(").replace("INTERVAL", "INTERVAL '5' SECONDS, INTERVAL"),
    "cumulate": SUMS.replace("TUMBLE(", "CUMULATE(").replace(
        "INTERVAL", "INTERVAL '5' SECONDS, INTERVAL"
    ),
    "session": SUMS.replace("TUMBLE(TABLE a", "SESSION(TABLE a PARTITION BY k"),
    "early and late": f"""SET 'table.exec.emit.early-fire.enabled' = 'true';
        SET 'table.exec.emit.allow-lateness' = '1 min'; {SUMS}""",
    "a total above": f"SELECT k, SUM(s) AS s, MAX(n) AS n FROM ({SUMS}) GROUP BY k",
    "windows over windows": f"""CREATE VIEW small AS SELECT k, window_time AS ts, SUM(v) AS v
        FROM {TUMBLE.format('a')} GROUP BY k, window_start, window_end, window_time;
        SELECT window_start, SUM(v) AS s FROM
        TABLE(TUMBLE(TABLE small, DESCRIPTOR(ts), INTERVAL '30' SECONDS)) GROUP BY window_start, window_end""",
    "window top": f"""SELECT k, v, window_start FROM (SELECT *, ROW_NUMBER() OVER
        (PARTITION BY window_start, window_end ORDER BY v DESC, k, ts) AS r FROM {TUMBLE.format('a')}) WHERE r <= 2""",
    "window join": f"""SELECT l.k AS k, l.v AS v, r.v AS w FROM {TUMBLE.format('a')} l
        FULL JOIN (SELECT * FROM {TUMBLE.format('b')}) r
        ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end""",
    "interval join": """SELECT a.k AS k, a.v AS v, b.v AS w FROM a FULL JOIN b
        ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '5' SECONDS AND a.ts + INTERVAL '5' SECONDS""",
    "temporal join": """SELECT a.k AS k, a.v AS v, b.v AS w FROM a
        LEFT JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.k = b.k""",
    "over": """SET 'over_insert_only' = 'true';
        SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts) AS s FROM a""",
    "first row": """SET 'deduplicate_insert_only' = 'true';
        SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS r FROM a) WHERE r = 1""",
}


def put(folder: Path, name: str, number: int, rows: list[tuple[str, int, int]]) -> None:
    """Write a file of table `name`: (k, v, seconds) a row."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    lines = [
        {"k": k, "v": v, "ts": f"2026-01-01T00:{second // 60:02}:{second % 60:02}"}
        for k, v, second in rows
    ]
    file = place / f"{number}.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    # Files are read in the order of their times.
    os.utime(file, (1_700_000_000 + number,) * 2)


def fill(folder: Path) -> None:
    """Two files for each table, none of whose rows is late."""
    rng = random.Random(7)
    for name in "ab":
        for number in range(2):
            first = 20 * number
            seconds = sorted(rng.randrange(first, first + 20) for _ in range(12))
            rows = [(rng.choice("xyz"), rng.randrange(100), second) for second in seconds]
            put(folder, name, number, rows)


def written(folder: Path, query: str, sink: str = "table", more: str = "") -> Path:
    """A job file over both tables."""
    file = folder / "job.yaml"
    settings = {
        name: {
            "path": name,
            "format": "jsonl",
            "schema": "k STRING, v INT, ts TIMESTAMP",
            "watermark": "ts 2 seconds",
            "maxFilesPerTrigger": 1,
            "changes": "append",
            **({"keys": ["k"]} if name == "b" and "SYSTEM_TIME" in query else {}),
        }
        for name in "ab"
        if f" {name}" in f"{query} "
    }
    job = {
        "sql": query,
        "tables": settings,
        "dialect": "flink",
        "backend": "python",
        "sink": sink,
        "checkpoint": "state",
    }
    file.write_text(json.dumps(job)[:-1] + f"{more}}}")
    return file


LIKE_ANOTHER = {
    *("hop", "cumulate", "session", "early and late", "a total above", "window top", "first row"),
}
"""Queries that end as another one does on Spark; they run on the local engine."""


def call(job: Path, *options: str) -> Result:
    """Run a job in this process."""
    return CliRunner().invoke(main, ["run", str(job), *options])


def table(folder: Path) -> list[str]:
    return sorted(map(repr, al.read_table(folder / "state").to_pylist()))


def wanted(job: Path) -> list[str]:
    """The table of `aggloom sql`."""
    return sorted(map(repr, feed_job(read_job(job)).to_arrow().to_pylist()))


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.sampled(2)
def test_a_run_gives_the_table_of_the_shell(spark: Any, tmp_path: Path, name: str) -> None:
    query = QUERIES[name]
    engine = ("--engine", "local" if name in LIKE_ANOTHER else "spark")
    fill(tmp_path)
    job = written(tmp_path, query)
    result = call(job, *engine)
    assert result.exit_code == 0, result.output
    assert table(tmp_path) == wanted(job)
    assert "still open" not in result.stderr and "late" not in result.stderr
    assert query != SUMS or "closed at the end of the input: " in result.stderr
    # What has been closed is closed: another run finds nothing to do.
    again = call(job, *engine)
    assert "0 batches: 0 rows in" in again.stderr
    # Rows that come now are dropped and counted.
    rows = [("x", 1, 45), ("x", 5, 46), ("q", 1, 3599)]
    for name in "ab":
        put(tmp_path, name, 2, rows)
    before = table(tmp_path)
    late = call(job, *engine)
    assert late.exit_code == 0, late.output
    assert table(tmp_path) == before
    assert "late rows dropped: an earlier run with this checkpoint closed" in late.stderr


def changes(folder: Path) -> list[str]:
    """The lines that a sink of files has been given."""
    files = [file for file in (folder / "out").glob("*.json") if file.stat().st_size]
    return sorted(line for file in files for line in file.read_text().splitlines())


@pytest.mark.parametrize("killed", ["before it is planned", "planned", "written"])
@pytest.mark.sampled(1)
def test_a_run_that_is_killed_before_its_last_batch_is_completed_by_the_next(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    for name in ("once", "twice"):
        fill(tmp_path / name)
    assert call(written(tmp_path / "once", SUMS, "jsonl:out")).exit_code == 0
    home = tmp_path / "twice"
    job = written(home, SUMS, "jsonl:out")
    with monkeypatch.context() as patched:
        if killed == "written":
            _fail_after_the_last_batch(patched)
        else:
            _fail_at_the_start_of_the_last_batch(patched, planned=killed == "planned")
        assert call(job).exit_code != 0
    assert (len(changes(home)) < len(changes(tmp_path / "once"))) == (killed != "written")
    done = call(job)
    assert done.exit_code == 0, done.output
    assert changes(home) == changes(tmp_path / "once")


def _fail_at_the_start_of_the_last_batch(patched: pytest.MonkeyPatch, planned: bool) -> None:
    def fail(*_: Any) -> bool:
        raise OSError("killed")

    if not planned:
        patched.setattr("aggloom.runtime.spark.last_batch.plan_last_batch", fail)
        return
    write = running._Run._start_sink

    def written_once(self: Any, trigger: Any) -> Any:
        return fail() if trigger == {"once": True} else write(self, trigger)

    patched.setattr(running._Run, "_start_sink", written_once)


def _fail_after_the_last_batch(patched: pytest.MonkeyPatch) -> None:
    """The sink has the batch, and Spark has not committed it."""
    from aggloom.runtime.connectors.files.sink import FileSink
    from aggloom.runtime.spark.last_batch import has_ended

    write = FileSink.__call__

    def fail(self: FileSink, batch: Any, number: int) -> None:
        write(self, batch, number)
        if has_ended(self.checkpoint):
            raise OSError("killed")

    patched.setattr(FileSink, "__call__", fail)


def test_what_is_kept_open_goes_on_until_a_run_that_closes(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path)
    job = written(tmp_path, SUMS, more=', "keep_open": true')
    first = call(job)
    assert "a run without --keep-open closes all" in first.stderr
    assert len(table(tmp_path)) < len(wanted(job))
    put(tmp_path, "a", 2, [("x", 7, 39), ("x", 5, 46)])
    job = written(tmp_path, SUMS)
    assert call(job, "--keep-open").exit_code == 0
    assert call(job).exit_code == 0
    assert table(tmp_path) == wanted(job)


def test_ctrl_c_closes_nothing(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    job = written(tmp_path, SUMS)
    watch = running._watch

    def interrupted(runs: Any, interrupts: Any) -> None:
        watch(runs, interrupts)
        interrupts.pressed.set()

    with monkeypatch.context() as patched:
        patched.setattr(running, "_watch", interrupted)
        assert call(job).exit_code == 130
    STOP.reset()
    assert len(table(tmp_path)) < len(wanted(job))
    assert call(job).exit_code == 0
    assert table(tmp_path) == wanted(job)


def test_only_what_has_an_end_is_closed() -> None:
    files = TableSource("t", "in", "csv", "k STRING")
    assert Job("SELECT 1", (files,)).ends
    assert not Job("SELECT 1", (files,), continuous=True).ends
    assert not Job("SELECT 1", (files,), keep_open=True).ends
    assert not Job("SELECT 1", (files, replace(files, kafka={"topic": "t"}))).ends
