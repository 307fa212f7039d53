"""Logs that are too large for a commit: files that a thread writes while the batch runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import (
    changes_in,
    expected_rows,
    job_over,
    random_changes,
    rows_of_table,
    run_to_end,
    write_files,
)

from aggloom.errors import AggloomError
from aggloom.runtime.engine import log_file, state_rows
from aggloom.runtime.engine.log_file import LogFile
from aggloom.runtime.hosting import bucket_store


class Killed(BaseException):
    """The end of a process, played."""


@pytest.fixture(autouse=True)
def _large_logs() -> Iterator[None]:
    """Take every log for a large one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_rows, "LOG_IN_COMMIT", 0)
        yield


def test_a_large_log_lies_in_files_that_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_store, "LOG_MAXIMUM_ENTRIES", 2)
    write_files(tmp_path / "in", random_changes(2, 300), 40)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state")
    run_to_end(job)
    assert rows_of_table(tmp_path / "state") == expected_rows(job)
    files = sorted((tmp_path / "state" / "snapshots").iterdir())
    assert 1 <= len(files) <= 60
    assert not [file for file in files if file.suffix == ".new"]
    write_files(tmp_path / "in", random_changes(4, 30, retracts=False), 1, start=40)
    run_to_end(job)
    assert rows_of_table(tmp_path / "state") == expected_rows(job)


@pytest.mark.parametrize("step", ["before", "half", "after", "unnamed", "named"])
@pytest.mark.parametrize("query", ["sums", "windows"])
@pytest.mark.sampled(3)
def test_a_kill_at_any_log_leaves_each_change_once(
    query: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "in", random_changes(5, 40, retracts=query != "windows"), 3)
    run_to_end(job_over(tmp_path / "in", query, tmp_path / "whole", f"jsonl:{tmp_path / 'all'}"))
    wanted = list(changes_in(tmp_path / "all"))
    assert wanted
    for after in range(1, 100):
        state, out = tmp_path / f"state {after}", tmp_path / f"out {after}"
        job = job_over(tmp_path / "in", query, state, f"jsonl:{out}")
        with monkeypatch.context() as patch:
            _kill_at(patch, after, step)
            try:
                run_to_end(job)
            except Killed:
                is_killed = True
            else:
                is_killed = False
        run_to_end(job)
        assert list(changes_in(out)) == wanted, after
        if not is_killed:
            break
    assert 3 < after < 99


def _kill_at(patch: pytest.MonkeyPatch, after: int, step: str) -> None:
    """End the process at a write of a log, or where a log gets its name."""
    left = after
    write, finish = log_file._write_rows, LogFile.finish

    def write_some(file: Path, mode: str, rows: Any) -> None:
        nonlocal left
        left -= 1
        if left:
            write(file, mode, rows)
            return
        if step == "half":
            file.write_bytes(b"".join(rows)[:10])
        if step == "after":
            write(file, mode, rows)
        raise Killed

    def finish_some(log: LogFile) -> None:
        nonlocal left
        left -= 1
        if left or step == "named":
            finish(log)
        if not left:
            raise Killed

    if step in ("unnamed", "named"):
        patch.setattr(LogFile, "finish", finish_some)
    else:
        patch.setattr(log_file, "_write_rows", write_some)


def test_an_error_of_the_thread_is_that_of_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "in", random_changes(5, 40), 3)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state")
    with monkeypatch.context() as patch:
        patch.setattr(log_file, "_write_rows", _find_no_room)
        with pytest.raises(OSError, match="No space left"):
            run_to_end(job)
    assert not list((tmp_path / "state" / "commits").iterdir())
    run_to_end(job)
    assert rows_of_table(tmp_path / "state") == expected_rows(job)


def _find_no_room(file: Path, mode: str, rows: Any) -> None:
    raise OSError(28, "No space left on device")


def test_damage_is_named_and_gives_no_wrong_table(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(9, 60), 3)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state")
    run_to_end(job)
    write_files(tmp_path / "in", random_changes(10, 20, retracts=False), 1, start=3)
    root, draw = tmp_path / "state", random.Random(1)
    originals = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    logs = [file for file in sorted(originals) if file.parent.name == "snapshots"]
    assert logs
    for file in logs:
        data, place = originals[file], draw.randrange(len(originals[file]))
        for damaged in (None, data[:place], _flip_bit(data, place)):
            for each in root.rglob("*"):
                if each.is_file() and each not in originals:
                    each.unlink()
            for each, whole in originals.items():
                each.write_bytes(whole)
            file.unlink() if damaged is None else file.write_bytes(damaged)
            with pytest.raises(AggloomError):
                run_to_end(job)


def _flip_bit(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
