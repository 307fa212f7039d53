"""Queries on the local engine that change over a checkpoint, and state that is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_jobs import (
    QUERIES,
    expected_rows,
    job_over,
    random_changes,
    rows_of_table,
    run_to_end,
    write_files,
)

from aggloom.errors import StateMismatchError
from aggloom.run_local import open_query
from aggloom.runtime.engine import query as query_module
from aggloom.runtime.engine.checkpoint import load_state

MORE = QUERIES["sums"].replace("SUM(amount) AS s, ", "SUM(amount) AS s, MIN(id) AS low, ")
LESS = QUERIES["sums"].replace("SUM(amount) AS s, ", "")


def start(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(1, 60, retracts=False), 2)
    run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "state", changes="append"))


def test_a_call_is_removed_and_its_rows_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(tmp_path)
    monkeypatch.setitem(QUERIES, "sums", LESS)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state", changes="append")
    write_files(tmp_path / "in", random_changes(2, 30, retracts=False), 1, start=2)
    run_to_end(job)
    kept = [(customer, n, m) for customer, n, m in rows_of_table(tmp_path / "state") if n]
    assert kept == expected_rows(job)


def test_an_added_call_is_refused_where_it_cannot_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "in", random_changes(1, 60), 2)
    run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "state"))
    monkeypatch.setitem(QUERIES, "sums", MORE)
    with pytest.raises(StateMismatchError, match="MIN"):
        run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "state"))
    options = {"added_calls": "empty"}
    job = job_over(tmp_path / "in", "sums", tmp_path / "state", options=options)
    write_files(tmp_path / "in", [("insert", (900, "new", 4, "2026-01-01 00:00:00"))], 1, start=2)
    run_to_end(job)
    rows = rows_of_table(tmp_path / "state")
    assert ("new", 1, 4, 900, 4) in rows
    assert {row[0] for row in rows} == {row[0] for row in expected_rows(job)}


def test_idle_keys_are_forgotten_after_their_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_800_000_000_000
    monkeypatch.setattr(query_module.time, "time_ns", lambda: now * 1_000_000)
    options = {"table.exec.state.ttl": "1 min"}
    rows = [("insert", (n, f"c{n}", 1, "2026-01-01 00:00:00")) for n in range(12)]
    write_files(tmp_path / "in", rows, 1)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state", options=options)
    assert run_to_end(job).counts.keys == 12
    now += 200_000
    query = open_query(job, tmp_path / "state")
    query.run()
    assert (query.counts.keys, query.counts.expired) == (0, 12)
    query.close()
    # A key that comes again begins anew.
    write_files(tmp_path / "in", [("insert", (99, "c3", 7, "2026-01-01 00:00:00"))], 1, start=1)
    query = open_query(job, tmp_path / "state")
    query.run()
    assert query.counts.keys == 1
    query.close()


def test_the_number_of_buckets_stays(tmp_path: Path) -> None:
    start(tmp_path)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state", changes="append")
    write_files(tmp_path / "in", [("insert", (99, "c3", 7, "2026-01-01 00:00:00"))], 1, start=2)
    query = open_query(job, tmp_path / "state", buckets=2)
    query.run()
    query.close()
    # The checkpoint has four, and keeps them.
    heads = load_state(tmp_path / "state")[1]
    assert max(bucket for _, bucket in heads) > 1
    assert rows_of_table(tmp_path / "state") == expected_rows(job)
