"""Damage to the files of the local engine's checkpoints: the right result, or a typed error; nothing comes twice.

`make damage ENGINE=local COUNT=1000` plays so many instead of a few.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
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
from aggloom.job import Job
from aggloom.runtime.engine import checkpoint as checkpoint_module
from aggloom.runtime.engine.checkpoint import LocalCheckpoint
from aggloom.runtime.hosting import bucket_store

_DAMAGES = int(os.environ.get("AGGLOOM_LOCAL_DAMAGES", "60"))
_WAYS = ("flip", "cut", "empty", "delete", "swap", "grow")
_QUERIES = ("sums", "join", "windows", "rank", "filter")
_FILES = 5


class Killed(BaseException):
    """The end of a process, played."""


def harm(draw: random.Random, file: Path, others: list[Path]) -> str:
    """Damage a file in one of the ways; the way."""
    data, way = bytearray(file.read_bytes()), draw.choice(_WAYS)
    if way == "delete":
        file.unlink()
    elif way == "swap":
        # The contents of another file of the same directory, whose checksum is right.
        beside = [
            each for each in others if each.parent == file.parent and each != file and each.exists()
        ]
        file.write_bytes(draw.choice(beside).read_bytes() if beside else b"x")
    elif way == "flip" and data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        file.write_bytes(data)
    elif way == "grow":
        file.write_bytes(data + bytes(draw.randrange(256) for _ in range(draw.randint(1, 9))))
    else:
        file.write_bytes(data[: draw.randrange(len(data))] if way == "cut" and data else b"")
    return way


def files_of(root: Path) -> list[Path]:
    """The files of a checkpoint, but for its lock."""
    return [file for file in sorted(root.rglob("*")) if file.is_file() and file.name != "lock"]


def make_checkpoint(job: Job, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a job over its files so far; every other seed is killed between its last sink and commit."""
    if seed % 2:
        run_to_end(job)
        return
    commit = LocalCheckpoint.commit

    def die_at_last(self: LocalCheckpoint, batch: int, **known: Any) -> None:
        if batch == _FILES - 2:
            raise Killed
        commit(self, batch, **known)

    with monkeypatch.context() as patch:
        patch.setattr(LocalCheckpoint, "commit", die_at_last)
        with pytest.raises(Killed):
            run_to_end(job)


def folded_changes(out: Path) -> Counter[tuple[Any, ...]]:
    """The rows that the changes of sink `jsonl` make; raises AssertionError for a row that is taken back too often."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for change in changes_in(out):
        *row, word = change.values()
        rows[tuple(row)] += 1 if word in ("insert", "update_postimage") else -1
    assert min(rows.values(), default=0) >= 0
    return +rows


def one_of_each(rounds: int) -> Iterator[tuple[int, str, str]]:
    """Yield a seed, a query and a sink for each checkpoint that is made."""
    for seed in range(-(-rounds // 20)):
        yield seed, _QUERIES[seed % len(_QUERIES)], ("table", "jsonl")[seed // 2 % 2]


@pytest.mark.parametrize(("seed", "query", "sink"), list(one_of_each(_DAMAGES)))
def test_damage_gives_no_wrong_result(
    seed: int, query: str, sink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(checkpoint_module, "IN_COMMIT", draw.choice([100, 1 << 20]))
    monkeypatch.setattr(bucket_store, "LOG_MAXIMUM_ENTRIES", draw.choice([2, 256]))
    root, out = tmp_path / "state", tmp_path / "out"
    changes = random_changes(seed, 100, retracts=query != "windows")
    write_files(tmp_path / "in", changes[:80], _FILES - 1)
    given = "table" if sink == "table" else f"jsonl:{out}"
    job = job_over(tmp_path / "in", query, root, given, keep_open=True)
    make_checkpoint(job, seed, monkeypatch)
    write_files(tmp_path / "in", changes[80:], 1, start=_FILES - 1)
    shutil.copytree(root, tmp_path / "whole")
    if out.exists():
        shutil.copytree(out, tmp_path / "whole out")
    run_to_end(job)
    wanted: Any = rows_of_table(root) if sink == "table" else folded_changes(out)
    if sink == "table" and query != "windows":
        assert wanted == expected_rows(job)
    refused = 0
    for _ in range(20):
        for place, whole in ((root, "whole"), (out, "whole out")):
            shutil.rmtree(place, ignore_errors=True)
            if (tmp_path / whole).exists():
                shutil.copytree(tmp_path / whole, place)
        files = files_of(root)
        harmed = [
            (each, harm(draw, each, files)) for each in draw.sample(files, draw.choice([1, 1, 2]))
        ]
        try:
            run_to_end(job)
        except AggloomError as error:
            assert len(str(error).splitlines()) <= 4, error
            refused += 1
            continue
        found: Any = rows_of_table(root) if sink == "table" else folded_changes(out)
        assert found == wanted, harmed
    assert refused
