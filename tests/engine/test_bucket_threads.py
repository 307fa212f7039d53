"""Buckets in threads: the changes, their order, and the checkpoint are those of one thread."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import job_over, random_changes, write_files

from aggloom import run_local
from aggloom.run_local import open_query
from aggloom.runtime.engine import node, query
from aggloom.runtime.engine.bucket_threads import BucketThreads
from aggloom.runtime.engine.checkpoint import load_state
from aggloom.runtime.engine.state_rows import read_rows
from aggloom.runtime.lookup.batch import batch_scope, current_batch
from aggloom.runtime.operators import steps


@pytest.fixture
def threads_seen(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Let the smallest bundle be worth a thread, and stop the clock; the names of the threads that run buckets."""
    seen: set[str] = set()
    run = node.DurableBucket.run

    def run_named(bucket: Any, *given: Any) -> Any:
        seen.add(threading.current_thread().name)
        return run(bucket, *given)

    for module in (node, steps):
        monkeypatch.setattr(module, "MANY_ROWS", 1)
    monkeypatch.setattr(node.DurableBucket, "run", run_named)
    monkeypatch.setattr(query.time, "time_ns", lambda: 1_700_000_000_000_000_000)
    return seen


def run_in(threads: int, job: Any, place: Path) -> tuple[list[Any], dict[Any, Any]]:
    """The changes of a job by batch, and the rows of state of each bucket, without the random marks of commits."""
    taken: list[Any] = []
    opened = open_query(
        job, place, function=lambda rows, batch: taken.append((batch, rows)), threads=threads
    )
    try:
        opened.run()
    finally:
        opened.close()
    _, states = load_state(place)
    state = {
        key: (json.loads(rows.text)[1:], list(read_rows(place, rows.places)))
        for key, rows in states.items()
    }
    return taken, state


@pytest.mark.parametrize(
    "name", ["sums", "distinct", "join", "rank", "windows", "nested", "filter"]
)
@pytest.mark.sampled(3)
def test_threads_change_nothing(name: str, tmp_path: Path, threads_seen: set[str]) -> None:
    changes = random_changes(13, 400, retracts=name != "windows")
    write_files(tmp_path / "in", changes, 4)
    job = job_over(tmp_path / "in", name, tmp_path / "none", backend="numba")
    alone = run_in(1, job, tmp_path / "alone")
    assert not any(each.startswith("aggloom-bucket") for each in threads_seen)
    beside = run_in(4, job, tmp_path / "beside")
    assert any(each.startswith("aggloom-bucket") for each in threads_seen) == (name != "filter")
    assert alone == beside
    assert alone[0]


def test_functions_in_python_stay_under_its_lock(tmp_path: Path, threads_seen: set[str]) -> None:
    write_files(tmp_path / "in", random_changes(2, 40), 2)
    run_in(4, job_over(tmp_path / "in", "sums", tmp_path / "none"), tmp_path / "state")
    assert not any(each.startswith("aggloom-bucket") for each in threads_seen)


def test_threads_work_for_the_batch_of_the_query() -> None:
    with BucketThreads(4) as threads:
        with batch_scope("a batch"):
            assert threads.run([current_batch] * 8) == ["a batch"] * 8
        assert "a batch" not in threads.run([current_batch] * 8)


def test_the_first_error_is_raised_when_all_have_ended() -> None:
    ended = threading.Event()

    def fail(number: int) -> None:
        raise ValueError(f"bucket {number}")

    def end_late() -> None:
        ended.wait(0.1)
        ended.set()

    with BucketThreads(2) as threads, pytest.raises(ValueError, match="bucket 1"):
        threads.run([lambda: None, lambda: fail(1), lambda: fail(2), end_late])
    assert ended.is_set()


def test_the_command_keeps_memory_for_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(run_local, "keep_memory", lambda: asked.append(True))
    run_local.run_jobs([], lambda: None, None)
    assert asked == [True]
