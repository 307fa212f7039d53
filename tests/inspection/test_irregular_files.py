"""A pipe, a device or a link in the place of a file of a checkpoint is refused at once, by all who read one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark")

import page_checkpoint as made

from aggloom.checkpoint_file import open_file, read_file
from aggloom.cli import main
from aggloom.errors import AggloomError, CheckpointError
from aggloom.runtime.connectors.files.sink_log import LOG, read_committed
from aggloom.runtime.connectors.files.source_log import _entries, _offsets
from aggloom.runtime.hosting import query_record
from aggloom.runtime.hosting.checkpoint_paths import QUERY_FILE
from aggloom.runtime.hosting.journal_files import PLAN_FILE, PROGRESS_FILE, read_plan, read_progress
from aggloom.runtime.spark.checkpoint import (
    check_directory,
    check_records,
    id_of,
    require_directory,
)
from aggloom.runtime.spark.watch.repartition import partitions_of

SECRET = "aggloom keeps this to itself"


def put(file: Path, kind: str) -> None:
    """Put what is no regular file in the place of a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(file)
        return
    secret = file.parents[1] / "secret"
    secret.write_text(f"v1\n{SECRET}\n{SECRET}")
    file.symlink_to("/dev/zero" if kind == "device" else secret)


@pytest.mark.parametrize("kind", ["pipe", "device", "link"])
@pytest.mark.parametrize(
    "name",
    [PLAN_FILE, PROGRESS_FILE, QUERY_FILE, "metadata", "offsets/2", "commits/2", "sources/0/0"],
)
def test_what_is_no_regular_file_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    root = made.write(tmp_path / "sums", 3)
    put(root / name, kind)
    for check in (check_directory, lambda path: require_directory(str(path))):
        with pytest.raises(CheckpointError, match=f"{name}: this is no regular file"):
            check(root)
    page = tmp_path / "page.html"
    told = CliRunner().invoke(main, ["report", str(root), "--no-state", "-o", str(page)])
    assert told.exit_code == 0, told.output
    assert "this is no regular file" in page.read_text() and SECRET not in page.read_text()


READERS: dict[str, tuple[str, Any]] = {
    "records": ("commits/2", check_records),
    "id": ("metadata", id_of),
    "query": (QUERY_FILE, query_record.read_committed_query),
    "plan": (PLAN_FILE, read_plan),
    "partitions": ("offsets/2", partitions_of),
    "source offsets": ("offsets/2", lambda root: _offsets(root, 2)),
    "source log": ("sources/0/0", lambda root: list(_entries(root / "sources" / "0"))),
}


@pytest.mark.parametrize("reader", READERS)
def test_each_reader_refuses_a_link(tmp_path: Path, reader: str) -> None:
    root = made.write(tmp_path / "sums", 3)
    name, read = READERS[reader]
    put(root / name, "link")
    with pytest.raises(CheckpointError, match="this is no regular file"):
        read(root)


def test_a_log_of_progress_that_is_a_pipe_is_passed_over(tmp_path: Path) -> None:
    root = made.write(tmp_path / "sums", 3)
    put(root / PROGRESS_FILE, "pipe")
    assert read_progress(root).batches == {}


def test_a_log_of_a_file_sink_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    put(tmp_path / LOG / "0", "pipe")
    with pytest.raises(AggloomError, match="this is no regular file"):
        read_committed(tmp_path)


def test_a_link_of_a_directory_and_a_file_that_is_too_large(tmp_path: Path) -> None:
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "root"
    elsewhere.mkdir()
    root.mkdir()
    (elsewhere / "0").write_text(json.dumps(SECRET))
    (root / "offsets").symlink_to(elsewhere)
    (root / "0").write_text("123456")
    (tmp_path / "moved").symlink_to(root)
    with pytest.raises(CheckpointError, match="a link leads out of"):
        open_file(root, root / "offsets" / "0")
    with pytest.raises(CheckpointError, match="no more than 5 are read"):
        read_file(root, root / "0", 5)
    # The checkpoint itself may be a link.
    assert read_file(tmp_path / "moved", tmp_path / "moved" / "0") == b"123456"
