"""Files as a source of the local engine: their order by name, options of Spark's, files that change or go."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import (
    ORDERS,
    QUERIES,
    expected_rows,
    random_changes,
    rows_of_table,
    run_to_end,
    write_files,
)

from aggloom.errors import FileOrderError, MissingFileError, SpecError
from aggloom.job import Job, complete
from aggloom.run_local import open_query
from aggloom.runtime.engine.sources import AheadSource
from aggloom.runtime.local.file_reader import FileReader
from aggloom.tables import table_source


def job_of(tmp_path: Path, **options: Any) -> Job:
    entries = {
        "path": str(tmp_path / "in"),
        "format": "jsonl",
        "schema": ORDERS,
        "options": options,
    }
    tables = (table_source("orders", entries, "a test"),)
    given = {"sql": QUERIES["sums"], "tables": tables, "backend": "python", "sink": "table"}
    return complete({**given, "checkpoint": tmp_path / "state"}, "a test")


def test_files_by_name_come_in_order_or_not_at_all(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(1, 40), 4, start=5)
    job = job_of(tmp_path, order="name")
    assert run_to_end(job).counts.batches == 1
    write_files(tmp_path / "in", [("insert", (70, "x", 1, "2026-01-01 00:00:00"))], 1, start=9)
    run_to_end(job)
    assert rows_of_table(tmp_path / "state") == expected_rows(job)
    write_files(tmp_path / "in", [("insert", (71, "y", 1, "2026-01-01 00:00:00"))], 1, start=2)
    with pytest.raises(
        FileOrderError, match=r"part-002\.json is new, and by name it stands before"
    ):
        run_to_end(job)


@pytest.mark.parametrize(
    "option", [{"latestFirst": "true"}, {"maxFileAge": "1d"}, {"cleanSource": "delete"}]
)
def test_what_only_spark_s_source_does_is_refused(option: dict[str, str], tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(1, 5), 1)
    with pytest.raises(SpecError, match="--engine spark"):
        run_to_end(job_of(tmp_path, **option))


@pytest.mark.parametrize("change", ["gone", "written again"])
def test_a_planned_file_that_is_another_is_named(change: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(1, 20), 2)
    job = job_of(tmp_path)
    query = open_query(job, tmp_path / "state")
    query._plan_batch()
    query.close()
    file = tmp_path / "in" / "part-001.json"
    before = file.read_bytes()
    if change == "gone":
        file.unlink()
    else:
        file.write_bytes(before + before)
    with pytest.raises(MissingFileError, match=rf"{change}[^\n]*part-001\.json"):
        run_to_end(job)
    assert not list((tmp_path / "state" / "commits").iterdir())


def test_a_file_that_is_written_again_is_named_and_read_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_files(tmp_path / "in", random_changes(1, 20), 2)
    job = job_of(tmp_path)
    run_to_end(job)
    table = rows_of_table(tmp_path / "state")
    file = tmp_path / "in" / "part-000.json"
    file.write_bytes(file.read_bytes() * 2)
    (tmp_path / "in" / "part-001.json").rename(tmp_path / "in" / "renamed.json")
    with caplog.at_level(logging.WARNING, "aggloom"):
        query = open_query(job, tmp_path / "state")
    query.close()
    assert "written again since they were read" in caplog.text and "part-000.json" in caplog.text
    assert "their rows count twice" in caplog.text and "renamed.json" in caplog.text
    assert rows_of_table(tmp_path / "state") == table


@pytest.mark.parametrize("change", ["none", "written again", "one before it"])
def test_files_read_ahead_are_those_of_the_next_batch(change: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(1, 20), 3)
    query = open_query(job_of(tmp_path, maxFilesPerTrigger=1), tmp_path / "state")
    source = query._sources["orders"]
    assert isinstance(source, AheadSource)
    try:
        list(source.read(source.plan(0, None)))
        source.read_ahead(0)
        file = tmp_path / "in" / "part-001.json"
        if change == "written again":
            file.write_text(file.read_text() * 2)
            os.utime(file, (2_000, 2_000))
        elif change == "one before it":
            first = tmp_path / "in" / "part-000.json"
            os.utime(shutil.copy(first, first.with_name("early.json")), (1, 1))
        planned = source.plan(1, 0)
        rows = [row for batch, *_ in source.read(planned) for row in batch.to_pylist()]
    finally:
        query.close()
    (read,) = source._log.files_of(1)
    expected = FileReader(read.path, "jsonl", query.plan.scans["orders"], {})
    assert rows == [
        row for batch, *_ in expected.read([Path(read.path)]) for row in batch.to_pylist()
    ]
    assert rows and Path(read.path).name != "part-000.json"
