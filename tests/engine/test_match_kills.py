"""MATCH_RECOGNIZE on the local engine, killed at any write: the table of a run without kills, and the model's."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import match_model
import pytest
from engine_jobs import rows_of_table

from aggloom.durable_files import write_whole
from aggloom.job import Job
from aggloom.run_local import open_query
from aggloom.runtime.engine import checkpoint, file_log
from tests.engine.test_local_oracle import Killed
from tests.engine.test_match_local import KINDS, NAMES, job_over, write_rows


def run_to_end(job: Job, folder: Path) -> int:
    """Run a job to the end of its files, as often as it is killed; how often it was."""
    kills = 0
    while True:
        try:
            query = open_query(job, folder)
            try:
                query.run()
                return kills
            finally:
                query.close()
        except Killed:
            kills += 1


@pytest.mark.parametrize("changes", ["append", "retract"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sampled(4)
def test_kills_change_nothing(
    seed: int, changes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(100 + seed)
    query, rows = match_model.random_query(rng), match_model.random_rows(rng, 60)
    lines = rows
    if changes == "retract":
        waiting, live, lines = rows, dict[int, Any](), list[dict[str, Any]]()
        while waiting:
            for kind, *values in match_model.change_rows(rng, live, waiting):
                lines.append({**dict(zip(NAMES, values, strict=True)), "_change_type": KINDS[kind]})
        rows = list(live.values())
    write_rows(tmp_path / "in", lines)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run_to_end(job_over(tmp_path / "in", query, whole, changes), whole) == 0
    left = [rng.randint(1, 12) for _ in range(5)]

    def write_or_die(file: Path, pieces: Any) -> None:
        if left:
            left[0] -= 1
            if not left[0]:
                left.pop(0)
                if rng.random() < 0.5:
                    write_whole(file, pieces)
                raise Killed
        write_whole(file, pieces)

    for module in (checkpoint, file_log):
        monkeypatch.setattr(module, "write_whole", write_or_die)
    assert run_to_end(job_over(tmp_path / "in", query, killed, changes), killed) > 0
    wanted = sorted(map(str, match_model.expected(query, rows, None)))
    assert sorted(map(str, rows_of_table(killed))) == wanted
    assert rows_of_table(killed) == rows_of_table(whole)
