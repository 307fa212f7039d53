"""Temporal filters on the local engine: a steered clock, batches without rows, restarts, `state` and `why`."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from engine_jobs import rows_of_table
from temporal_queries import BEGIN, CONDITIONS, Row, milliseconds, random_steps, visible

from aggloom.job import Job
from aggloom.job_plan import feed_job
from aggloom.run_local import open_query
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.engine import query as engine_query
from aggloom.runtime.inspection.checkpoint import state, why
from aggloom.script import jobs_of

TABLE = """CREATE TABLE t (id INT, k INT, ts TIMESTAMP_LTZ, w TIMESTAMP_NTZ, d DATE)
  WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'changes' = 'retract');"""
KINDS = {"+I": "insert", "-U": "update_preimage", "+U": "update_postimage", "-D": "delete"}


class Steered:
    """The clock of the engine."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = BEGIN
        clock = SimpleNamespace(time_ns=lambda: milliseconds(self.now) * 1_000_000)
        patch.setattr(engine_query, "time", clock)


def job(folder: Path, query: str) -> Job:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "nothing.json").write_text("")
    base = Job(TABLE + query, (), checkpoint=folder / "c", sink="table", backend="python")
    (found,), _ = jobs_of(base, folder)
    return found


def write(folder: Path, number: int, changes: list[Row]) -> None:
    """Write a file of changes, later than those before it."""
    names = ("id", "k", "ts", "w", "d")
    lines = []
    for kind, *values in changes:
        texts = [None if value is None else str(value) for value in values[2:]]
        row = dict(zip(names, [*values[:2], *texts], strict=True))
        lines.append(json.dumps({**row, "_change_type": KINDS[kind]}) + "\n")
    file = folder / "in" / f"{number:03d}.json"
    file.write_text("".join(lines))
    os.utime(file, (1_700_000_000 + number,) * 2)


def table_of(checkpoint: Path) -> Counter[Row]:
    found = Counter(tuple(row.values()) for row in read_table(checkpoint).to_pylist())
    return Counter({row: count for row, count in found.items() if count})


@pytest.mark.parametrize("seed", range(2))
def test_each_batch_has_what_its_time_says(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Steered(monkeypatch)
    condition = next(each for each in CONDITIONS if each.sql.startswith("ts BETWEEN"))
    asked = job(tmp_path, f"SELECT * FROM t WHERE {condition.sql}")
    query = open_query(asked, tmp_path / "c")
    for number, step in enumerate(random_steps(seed, 16)):
        clock.now = step.now
        if step.changes:
            write(tmp_path, number, step.changes)
        while query.run_batch():
            pass
        assert table_of(tmp_path / "c") == visible(condition, step), number
        if number % 5 == 4:
            query.close()
            query = open_query(asked, tmp_path / "c")
    query.close()


def test_rows_leave_in_a_batch_without_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Steered(monkeypatch)
    query = """SELECT k, COUNT(*) AS n FROM t WHERE ts > NOW() - INTERVAL '10' SECOND GROUP BY k"""
    asked = job(tmp_path, query)
    write(
        tmp_path,
        0,
        [("+I", n, n % 2, BEGIN - dt.timedelta(seconds=n), None, None) for n in range(8)],
    )
    running = open_query(asked, tmp_path / "c")
    assert running.run_batch() and not running.run_batch()
    assert rows_of_table(tmp_path / "c") == [(0, 4), (1, 4)]
    clock.now += dt.timedelta(seconds=5)
    assert running.run_batch() and not running.run_batch()
    assert rows_of_table(tmp_path / "c") == [(0, 3), (1, 2)]
    running.close()
    clock.now += dt.timedelta(hours=1)
    # The next run finds that the rest is over, although nothing has come.
    running = open_query(asked, tmp_path / "c")
    assert running.run_batch() and not running.run_batch()
    running.close()
    assert rows_of_table(tmp_path / "c") == []


def test_a_planned_batch_keeps_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Steered(monkeypatch)
    asked = job(tmp_path, "SELECT id FROM t WHERE ts > NOW()")
    write(tmp_path, 0, [("+I", 1, 0, BEGIN + dt.timedelta(seconds=1), None, None)])
    running = open_query(asked, tmp_path / "c")
    assert running._plan_batch() is not None
    running.close()
    clock.now += dt.timedelta(minutes=1)
    running = open_query(asked, tmp_path / "c")
    assert running.run_batch()
    # It is the batch that was planned, at whose time the row was there.
    assert rows_of_table(tmp_path / "c") == [(1,)]
    assert running.run_batch()
    assert rows_of_table(tmp_path / "c") == []
    running.close()


def test_the_shell_answers_for_now(tmp_path: Path) -> None:
    asked = job(tmp_path, "SELECT id FROM t WHERE ts BETWEEN NOW() - INTERVAL '1' HOUR AND NOW()")
    now = dt.datetime.now(dt.UTC)
    hours = (-2, -0.5, 1)
    write(
        tmp_path,
        0,
        [("+I", n, 0, now + dt.timedelta(hours=h), None, None) for n, h in enumerate(hours)],
    )
    harness = feed_job(asked)
    assert [tuple(row) for row in harness.table()] == [(1,)]
    harness.close()


def test_state_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Steered(monkeypatch)
    asked = job(tmp_path, "SELECT id, k FROM t WHERE ts > NOW()")
    write(
        tmp_path, 0, [("+I", n, 7, BEGIN + dt.timedelta(seconds=n), None, None) for n in range(9)]
    )
    running = open_query(asked, tmp_path / "c")
    running.run_batch()
    clock.now += dt.timedelta(seconds=3)
    running.run_batch()
    running.close()
    (operator,) = state(tmp_path / "c").operators
    assert operator.keys == 5
    key: dict[str, Any] = {"id": 5, "k": 7}
    (found,) = state(tmp_path / "c", key=key).operators
    assert found.key is not None and [part.records for part in found.key.parts] == [1]
    assert "rows by the clock: ts > NOW()" in state(tmp_path / "c").text()
    (gone,) = state(tmp_path / "c", key={"id": 2, "k": 7}).operators
    assert gone.key is not None and not gone.key.parts
    story = why(tmp_path / "c", key={"id": 2, "k": 7})
    assert [kind for bundle in story.bundles for kind, _ in bundle.emitted] == ["+I", "-D"]
    assert story.agrees
