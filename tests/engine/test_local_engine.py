"""The local engine: its tables beside the harness and DuckDB, over restarts, kills at every step, and damage."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from engine_jobs import (
    QUERIES,
    changes_in,
    expected_rows,
    job_over,
    random_changes,
    rows_of_table,
    run_to_end,
    write_files,
)

from aggloom.durable_files import write_whole
from aggloom.errors import AggloomError, CheckpointError, StateMismatchError
from aggloom.run import run
from aggloom.run_local import open_query
from aggloom.runtime.engine import checkpoint as checkpoint_module
from aggloom.runtime.engine import file_log, file_sink


class Killed(BaseException):
    """The end of a process, played."""


@pytest.mark.parametrize("query", QUERIES)
def test_tables_are_those_of_the_harness(query: str, tmp_path: Path) -> None:
    changes = random_changes(7, 120, retracts=query != "windows")
    write_files(tmp_path / "in", changes, 5)
    job = job_over(tmp_path / "in", query, tmp_path / "state")
    counts = run_to_end(job).counts
    assert rows_of_table(tmp_path / "state") == expected_rows(job)
    assert counts.rows == 120
    # Windows take a batch by the watermark of the last file, and one by which they close.
    assert counts.batches == (7 if query == "windows" else 5)


def test_a_table_is_that_of_duckdb(tmp_path: Path) -> None:
    changes = random_changes(11, 400)
    write_files(tmp_path / "in", changes, 7)
    run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "state"))
    weights = Counter({row: 0 for _, row in changes})
    for kind, row in changes:
        weights[row] += 1 if kind == "insert" else -1
    live = [row for row, weight in weights.items() if weight]
    with duckdb.connect() as db:
        db.execute('CREATE TABLE orders (id INT, customer TEXT, amount INT, "at" TIMESTAMP)')
        db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", live)
        found = db.execute(QUERIES["sums"] + " ORDER BY customer NULLS FIRST").fetchall()
    assert rows_of_table(tmp_path / "state") == found


@pytest.mark.parametrize("query", ["sums", "join", "windows", "filter"])
def test_restarts_between_files_change_nothing(query: str, tmp_path: Path) -> None:
    changes = random_changes(3, 90, retracts=query != "windows")
    job = job_over(tmp_path / "in", query, tmp_path / "state", keep_open=True)
    for number in range(3):
        write_files(tmp_path / "in", changes[number * 30 : number * 30 + 30], 2, start=2 * number)
        run_to_end(job)
    run_to_end(job_over(tmp_path / "in", query, tmp_path / "state"))
    assert rows_of_table(tmp_path / "state") == expected_rows(job)
    # Once more: nothing is new.
    again = run_to_end(job_over(tmp_path / "in", query, tmp_path / "state"))
    assert again.counts.batches == 0


def killing(after: int, step: str) -> Callable[..., None]:
    """A `write_whole` that ends the process at its n-th call: before the file is there, half of it, or after."""
    left = after

    def write(file: Path, pieces: Any) -> None:
        nonlocal left
        left -= 1
        if left:
            write_whole(file, pieces)
            return
        if step == "half":
            file.with_name(file.name + ".new").write_bytes(b"".join(map(bytes, pieces))[:10])
        if step == "after":
            write_whole(file, pieces)
        raise Killed

    return write


@pytest.mark.parametrize("step", ["before", "half", "after"])
@pytest.mark.parametrize("query", ["sums", "windows"])
@pytest.mark.sampled(2)
def test_a_kill_at_any_file_leaves_each_change_once(
    query: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = random_changes(5, 40, retracts=query != "windows")
    write_files(tmp_path / "in", changes, 3)
    whole = job_over(tmp_path / "in", query, tmp_path / "whole", f"jsonl:{tmp_path / 'all'}")
    run_to_end(whole)
    wanted = list(changes_in(tmp_path / "all"))
    assert wanted
    for after in range(1, 100):
        state, out = tmp_path / f"state {after}", tmp_path / f"out {after}"
        job = job_over(tmp_path / "in", query, state, f"jsonl:{out}")
        with monkeypatch.context() as patch:
            write = killing(after, step)
            for module in (checkpoint_module, file_log, file_sink):
                patch.setattr(module, "write_whole", write)
            try:
                run_to_end(job)
            except Killed:
                killed = True
            else:
                killed = False
        run_to_end(job)
        assert list(changes_in(out)) == wanted, after
        if not killed:
            break
    assert 10 < after < 99


def test_old_commits_go_and_idle_buckets_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_module, "_RENEWED_AFTER", 8)
    first = [("insert", (n, f"once {n}", 1, "2026-01-01 00:00:00")) for n in range(20)]
    later = [("insert", (n, "often", 1, "2026-01-01 00:00:00")) for n in range(60)]
    write_files(tmp_path / "in", first, 1)
    write_files(tmp_path / "in", later, 60, start=1)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state")
    run_to_end(job)
    commits = sorted(int(file.name) for file in (tmp_path / "state" / "commits").iterdir())
    assert commits[-1] == 60 and len(commits) <= 25
    assert len(list((tmp_path / "state" / "plans").iterdir())) <= 25
    write_files(tmp_path / "in", [("insert", (99, "once 3", 5, "2026-01-01 00:00:00"))], 1, 61)
    run_to_end(job)
    assert rows_of_table(tmp_path / "state") == expected_rows(job)


def test_large_snapshots_are_files_that_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aggloom.runtime.hosting import bucket_store

    monkeypatch.setattr(checkpoint_module, "IN_COMMIT", 100)
    monkeypatch.setattr(bucket_store, "LOG_MAXIMUM_ENTRIES", 2)
    write_files(tmp_path / "in", random_changes(2, 300), 40)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state")
    run_to_end(job)
    assert rows_of_table(tmp_path / "state") == expected_rows(job)
    snapshots = list((tmp_path / "state" / "snapshots").iterdir())
    assert 1 <= len(snapshots) <= 40
    write_files(tmp_path / "in", random_changes(4, 30, retracts=False), 1, start=40)
    run_to_end(job)
    assert rows_of_table(tmp_path / "state") == expected_rows(job)


def test_damage_is_named_and_gives_no_wrong_table(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(9, 60), 3)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state")
    run_to_end(job)
    write_files(tmp_path / "in", random_changes(10, 20, retracts=False), 1, start=3)
    wanted = expected_rows(job)
    root = tmp_path / "state"
    files = [file for file in sorted(root.rglob("*")) if file.is_file() and file.name != "lock"]
    originals = {file: file.read_bytes() for file in files}
    draw, refused = random.Random(1), 0
    for round_ in range(120):
        for file in root.rglob("*"):
            if file.is_file() and file not in originals and file.name != "lock":
                file.unlink()
        for file, data in originals.items():
            file.write_bytes(data)
        file = draw.choice(files)
        data = bytearray(originals[file])
        if round_ % 3 == 0:
            file.unlink()
        elif round_ % 3 == 1:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            file.write_bytes(data)
        else:
            file.write_bytes(data[: draw.randrange(len(data))])
        try:
            run_to_end(job)
        except AggloomError:
            refused += 1
            continue
        # Files that nothing needs any more may be damaged.
        assert rows_of_table(root) == wanted, file
    assert refused > 40


def test_another_query_and_another_run_are_refused(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(1, 10), 1)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state")
    run_to_end(job)
    with pytest.raises(StateMismatchError):
        run_to_end(job_over(tmp_path / "in", "join", tmp_path / "state"))
    with pytest.raises(StateMismatchError):
        run_to_end(job_over(tmp_path / "in", "distinct", tmp_path / "state"))
    query = open_query(job, tmp_path / "state")
    with pytest.raises(CheckpointError, match="another run has this checkpoint"):
        open_query(job, tmp_path / "state")
    query.close()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match=r"notes\.txt"):
        open_query(job_over(tmp_path / "in", "sums", tmp_path / "other"), tmp_path / "other")
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["notes.txt"]


def test_a_checkpoint_belongs_to_its_engine(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(1, 10), 1)
    run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "state"))
    before = {file: file.read_bytes() for file in (tmp_path / "state").rglob("*") if file.is_file()}
    with pytest.raises(CheckpointError, match="--engine local"):
        run(job_over(tmp_path / "in", "sums", tmp_path / "state", engine="spark"))
    after = {file: file.read_bytes() for file in (tmp_path / "state").rglob("*") if file.is_file()}
    assert after == before
    for name in ("offsets", "commits"):
        (tmp_path / "of spark" / name).mkdir(parents=True)
    (tmp_path / "of spark" / "metadata").touch()
    with pytest.raises(CheckpointError, match="--engine spark"):
        run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "of spark"))
