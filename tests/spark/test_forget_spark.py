"""`aggloom forget` on Spark's checkpoints: no byte of the subject is left, all else is right, and the query goes on."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import expected_rows, rows_of_table, write_files

from aggloom.errors import CheckpointError, SpecError
from aggloom.forget import forget
from aggloom.forget.note import list_receipts
from aggloom.job import Job
from aggloom.job_note import note_job
from aggloom.runtime.hosting.checkpoint_paths import FORGET_FILE, MOVED_FILE
from aggloom.runtime.inspection.checkpoint import open_state, state
from aggloom.runtime.inspection.comparison import open_nodes
from tests.engine.test_forget import SUBJECT, Killed, draw_changes, job_of, kill_at, rows_without
from tests.spark.test_move import run_on_spark

pytestmark = pytest.mark.spark
STEPS = [int(step) for step in os.environ.get("AGGLOOM_FORGET_STEPS", "3,67").split(",")]
"""The writes and deletions at which a process ends: in the move, and between the receipt and the end of the note."""
KEY: dict[str, str | None] = {"customer": SUBJECT}


def run_query(spark: Any, root: Path, query: str, rows: int = 90) -> Job:
    write_files(root / "in", draw_changes(5, rows), 3)
    job = job_of(root / "in", query, root / "state")
    run_on_spark(spark, job)
    note_job(root / "state", job)
    return job


def places_with(spark: Any, root: Path) -> set[str]:
    """Every file that has the subject, also within archives, and every array of a state."""

    def texts() -> Iterator[tuple[str, bytes]]:
        for file in root.rglob("*"):
            if file.is_file():
                yield str(file.relative_to(root)), file.read_bytes()
                if zipfile.is_zipfile(file):
                    with zipfile.ZipFile(file) as archive:
                        for name in archive.namelist():
                            yield f"{file.name}/{name}", archive.read(name)
        for place, node in open_nodes(open_state(str(root), spark), None, False).items():
            for bucket in node.files:
                fragment = node.fragment(bucket)
                assert fragment is not None
                for operator in fragment.operators:
                    operator.snapshot()
                    for arena in operator.arenas:
                        for name, array in arena:
                            yield f"{place}, bucket {bucket}, {name}", array.tobytes()

    return {name for name, data in texts() if SUBJECT.encode() in data}


def beside(root: Path) -> list[str]:
    """The directories that stand beside a checkpoint."""
    return sorted(each.name for each in root.iterdir() if each.name.startswith("state."))


@pytest.mark.parametrize("query", ["nested", "join"])
@pytest.mark.thorough
def test_all_else_is_as_if_the_subject_had_never_come(
    spark: Any, query: str, tmp_path: Path
) -> None:
    job = run_query(spark, tmp_path, query)
    changes = draw_changes(5, 90)
    assert places_with(spark, tmp_path / "state")
    receipt = forget(tmp_path / "state", KEY)
    assert places_with(spark, tmp_path / "state") == set()
    assert beside(tmp_path) == []
    assert rows_of_table(tmp_path / "state") == rows_without(tmp_path, query, changes)
    assert sum(part.keys for part in receipt.removed) > 0
    assert receipt == list_receipts(tmp_path / "state")[f"forget-{receipt.batch}.json"]
    assert any(name.startswith("state/") for name in receipt.checksums) and receipt.deleted > 0
    # The state is read as of any other checkpoint, before and after the query goes on.
    assert state(tmp_path / "state", spark=spark).operators
    more = [("insert", (900, SUBJECT, 3, "2026-01-02 00:00:00"))]
    for folder in ("in", "others"):
        write_files(tmp_path / folder, more, 1, start=6)
    run_on_spark(spark, job)
    wanted = expected_rows(job_of(tmp_path / "others", query, tmp_path / "unused"))
    assert sorted(map(repr, rows_of_table(tmp_path / "state"))) == sorted(map(repr, wanted))


WRITERS = ("aggloom.move", "aggloom.forget.on_spark", "aggloom.runtime.spark.moving.begin")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.thorough
def test_a_kill_is_made_good(spark: Any, tmp_path: Path, step: int) -> None:
    job = run_query(spark, tmp_path, "sums")
    wanted = rows_without(tmp_path, "sums", draw_changes(5, 90))
    killed = False
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, step, *WRITERS)
        try:
            forget(tmp_path / "state", KEY)
        except Killed:
            killed = True
    assert killed or step > STEPS[-1]
    if (tmp_path / "state" / FORGET_FILE).exists():
        with pytest.raises(CheckpointError, match="interrupted"):
            run_on_spark(spark, job)
        with pytest.raises(CheckpointError, match="another subject"):
            forget(tmp_path / "state", {"customer": "Ada"})
    if killed:
        forget(tmp_path / "state", KEY)
    assert places_with(spark, tmp_path / "state") == set()
    assert beside(tmp_path) == []
    assert rows_of_table(tmp_path / "state") == wanted
    run_on_spark(spark, job)
    assert rows_of_table(tmp_path / "state") == wanted


def test_what_cannot_be_forgotten_is_refused_and_nothing_changes(
    spark: Any, tmp_path: Path
) -> None:
    job = run_query(spark, tmp_path, "sums", 30)
    rows = rows_of_table(tmp_path / "state")
    with pytest.raises(SpecError, match="Did you mean 'customer'"):
        forget(tmp_path / "state", {"custmer": "Ada"})
    (tmp_path / "state.forgotten").mkdir()
    with pytest.raises(CheckpointError, match="is there already"):
        forget(tmp_path / "state", KEY)
    (tmp_path / "state.forgotten").rmdir()
    assert beside(tmp_path) == []
    assert not (tmp_path / "state" / FORGET_FILE).exists()
    assert not (tmp_path / "state" / MOVED_FILE).exists()
    run_on_spark(spark, job)
    assert rows_of_table(tmp_path / "state") == rows
