"""Damage to the files of a checkpoint, by kind: flipped, truncated, emptied, deleted.

A query that starts from a damaged checkpoint must end with the right table, or with a typed error of a few lines that
says what is wrong and what to do.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

from chaos.workload import DDL, QUERIES, Batch, Workload, by_duckdb, plain, write_file

from aggloom.errors import AggloomError
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.spark import await_end, read_changes, sql, write_changes
from aggloom.runtime.spark.plan import lower

KINDS = {
    "query id": r"metadata",
    "offsets": r"offsets/\d+",
    "commits": r"commits/\d+",
    "source log": r"sources/\d+/\d+(\.compact)?",
    "operator metadata": r"state/\d+/_metadata/.*",
    "state schema": r"state/\d+/_stateSchema/.*",
    "state changes": r"state/\d+/\d+/.*\.changelog",
    "state manifest": r"state/\d+/\d+/.*\.zip",
    "state table": r"state/\d+/\d+/.*\.sst",
    "state rows": r"aggloom-state/\d+\.\d+/\d+-\w+",
    "table": r"aggloom-table\.arrow",
    "query": r"aggloom-query\.json",
    "sources": r"aggloom-sources\.json",
    "plan": r"aggloom-plan\.json",
    "progress": r"aggloom-progress\.jsonl",
    "last changes": r"aggloom-changes/\d+",
}
SPOKEN = ("query id", "offsets", "commits", "source log", "operator metadata", "state schema")
DAMAGES = ("flip", "truncate", "empty", "delete", "delete all")
_FILES = 4
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_QUERY = QUERIES["grouped"]


def kind_of(path: str) -> str:
    """The kind of a file, by its path in the checkpoint; raises ValueError for one that is not known."""
    for kind, pattern in KINDS.items():
        if re.fullmatch(pattern, path):
            return kind
    raise ValueError(f"no kind of checkpoint file is known for {path}")


def by_kind(checkpoint: Path) -> dict[str, list[Path]]:
    """The files of a checkpoint by kind, oldest first; checksums go with the files that they are of."""
    found: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    files = [path for path in checkpoint.rglob("*") if path.is_file() and path.suffix != ".crc"]
    for path in sorted(files, key=lambda path: (path.stat().st_mtime_ns, path)):
        found[kind_of(path.relative_to(checkpoint).as_posix())].append(path)
    return {kind: files for kind, files in found.items() if files}


def harm(file: Path, kind: str, damage: str) -> None:
    """Damage one file, and delete its checksums, so that nothing but the contents can tell.

    The logs of Spark's own, of which each is a few words of JSON, keep theirs when a bit is flipped: without, 3 for 2
    is no damage but another history.
    """
    if not (damage == "flip" and kind in SPOKEN):
        for beside in (f".{file.name}.crc", f"{file.name}.crc", f".{file.name}.crc.crc"):
            (file.parent / beside).unlink(missing_ok=True)
    data = bytearray(file.read_bytes())
    if damage.startswith("delete"):
        file.unlink()
    elif damage == "flip":
        data[_place(data)] ^= 0x01
        file.write_bytes(data)
    else:
        file.write_bytes(data[: len(data) // 2] if damage == "truncate" else b"")


def _place(data: bytearray) -> int:
    """The last digit of text, which says how far the query is; the middle of anything else."""
    text = data.decode("latin1")
    digits = [found.start() for found in re.finditer(r"\d", text)]
    return digits[-1] if text.isascii() and digits else len(data) // 2


class Patient:
    """A query with a checkpoint of some batches, damaged again and again; one session runs them all."""

    def __init__(self, spark: Any, directory: Path) -> None:
        self.spark = spark
        self.directory = directory
        self.checkpoint = directory / "checkpoint"
        self._changes = Workload(0, "grouped", _FILES).changes()
        self._count = 0
        # State is whole tables at first and changes to them later, so that there are files of every kind.
        for number, changes in enumerate(self._changes):
            write_file(directory / "in", number, changes)
            if number in (1, _FILES - 2):
                self.spark.conf.set(_CHANGELOG, number > 1)
                with patch.object(lower, "LARGE_BYTES", 1 if number > 1 else lower.LARGE_BYTES):
                    self._run(directory / "live")
        shutil.copytree(self.checkpoint, directory / "whole")

    def _run(self, live: Path) -> None:
        # What an earlier run has loaded must not serve this one.
        self.spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
        t = read_changes(
            self.spark, str(self.directory / "in"), "jsonl", DDL, max_files_per_trigger=1
        )
        out = sql(_QUERY.text, t=t, state_directory=live, buckets=2)
        await_end(write_changes(out, "table", self.checkpoint))

    def treat(self, kind: str, damage: str, place: int = -1) -> AggloomError | None:
        """Damage the checkpoint and start from it; the error if it is refused.

        Raises AssertionError for a wrong table.
        """
        self._count += 1
        # In the same place: the operators' metadata hold whole paths.
        shutil.rmtree(self.checkpoint)
        shutil.copytree(self.directory / "whole", self.checkpoint)
        files = by_kind(self.checkpoint)[kind]
        for file in files if damage == "delete all" else [files[place]]:
            harm(file, kind, damage)
        try:
            self._run(self.directory / f"live-{self._count}")
        except AggloomError as refused:
            return refused
        rows = read_table(self.checkpoint).to_pylist()
        got = Counter(tuple(map(plain, row.values())) for row in rows)
        assert got == self.table(), f"{kind}, {damage}: a wrong table"
        return None

    def table(self) -> Batch:
        """Return DuckDB's table of all files."""
        return by_duckdb(_QUERY.oracle, [row for batch in self._changes for row in batch])
