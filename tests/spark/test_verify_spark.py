"""`aggloom verify` on checkpoints of Spark: equal where they are right, and what was changed in the table is found."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import job_over, random_changes, write_files

from aggloom.errors import CheckpointError, MissingFileError
from aggloom.job_note import note_job
from aggloom.move import move_checkpoint
from aggloom.verify import verify
from tests.engine.test_verify import plant_in_table
from tests.spark.test_move import run_on_spark

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("query", ["sums", "windows"])
@pytest.mark.sampled(1)
def test_a_checkpoint_of_spark_is_verified(query: str, spark: Any, tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(11, 80, retracts=query != "windows"), 4)
    job = job_over(tmp_path / "in", query, tmp_path / "state")
    job = replace(job, keep_open=True, dialect="spark")
    run_on_spark(spark, job)
    with pytest.raises(CheckpointError, match="Give the job"):
        verify(tmp_path / "state", spark=spark)
    note_job(tmp_path / "state", job)
    report = verify(tmp_path / "state", spark=spark)
    assert report.is_equal, report.text()
    assert [place.keys > 0 for place in report.places] == [True, True]
    if query == "sums":
        shutil.copytree(tmp_path / "state", tmp_path / "copy")
        move_checkpoint(tmp_path / "copy", tmp_path / "moved", "local")
        moved = verify(tmp_path / "moved")
        assert moved.is_equal, moved.text()
    plant_in_table(tmp_path / "state", random.Random(1))
    report = verify(tmp_path / "state", spark=spark)
    assert [bool(place.differences) for place in report.places] == [False, True]
    lost = next((tmp_path / "in").iterdir())
    lost.unlink()
    with pytest.raises(MissingFileError, match=lost.name):
        verify(tmp_path / "state", spark=spark)
