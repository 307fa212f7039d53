"""Large blobs between two stages of a batch: through files, without a trace, and with the same results."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import aggloom as al
from aggloom.errors import MissingFileError
from aggloom.runtime.spark.node import blob_files
from aggloom.runtime.spark.node.blob_files import fetch_blob, put_aside
from aggloom.runtime.spark.plan import lower

BLOB = b"\xff\xff\xff\xff rows"


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, int]:
    """A task of a streaming query, whose batch a test may change."""
    at = {"batch": 7}
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    monkeypatch.setattr(blob_files, "query_id", lambda: "query")
    monkeypatch.setattr(blob_files, "batch_number", lambda: at["batch"])
    return at


def files_in(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def test_a_blob_goes_through_a_file(task: dict[str, int], tmp_path: Path) -> None:
    first, second = put_aside(BLOB), put_aside(BLOB * 2)
    assert len(files_in(tmp_path)) == 2
    assert (fetch_blob(first)[0], fetch_blob(memoryview(second))[0]) == (BLOB, BLOB * 2)
    # A retry of the stage behind reads it once more.
    assert fetch_blob(first)[0] == BLOB


def test_files_of_earlier_batches_are_deleted(task: dict[str, int], tmp_path: Path) -> None:
    old = put_aside(BLOB)
    (tmp_path / "aggloom-packed" / "query" / "kept").mkdir()
    task["batch"] = 8
    new = put_aside(BLOB)
    assert fetch_blob(new)[0] == BLOB and len(files_in(tmp_path)) == 1
    assert (tmp_path / "aggloom-packed" / "query" / "kept").is_dir()
    with pytest.raises(
        MissingFileError, match=r"query/7/\w+, with rows .*: No such file .*Start the query again"
    ):
        fetch_blob(old)


@pytest.mark.parametrize("size", [0, 3, len(BLOB) + 1])
def test_a_changed_file_is_refused(task: dict[str, int], tmp_path: Path, size: int) -> None:
    reference = put_aside(BLOB)
    files_in(tmp_path)[0].write_bytes(b"x" * size)
    with pytest.raises(MissingFileError, match=f"{size} bytes, and 9 were written"):
        fetch_blob(reference)


def test_without_a_file_the_blob_stays(
    task: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, data: bytes) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write)
    assert put_aside(BLOB) == BLOB == fetch_blob(BLOB)[0]
    assert files_in(tmp_path) == []
    monkeypatch.undo()
    # On the driver, and in a batch query.
    assert put_aside(BLOB) == BLOB


@pytest.mark.parametrize("blob", [b"", b"AGLP", b"AGLA and more", b"\0" * 40])
def test_other_blobs_are_no_references(blob: bytes) -> None:
    assert fetch_blob(blob) == (blob, None)


def packed_files(spark: Any) -> list[Path]:
    """The files that there are in the local directory of Spark's workers."""

    def look(_: Any) -> Any:
        yield pa.record_batch({"place": [os.environ["SPARK_LOCAL_DIRS"].split(",")[0]]})

    place = spark.range(1).mapInArrow(look, "place STRING").first()["place"]
    return files_in(Path(place) / "aggloom-packed")


def write_rows(folder: Path, number: int) -> None:
    folder.mkdir(exist_ok=True)
    rows = [(f"k{n % 7}", n * number, f"{'é' * (n % 5)}{n}") for n in range(200)]
    keys, values, texts = zip(*rows, strict=True)
    table = pa.table({"k": keys, "v": pa.array(values, pa.int64()), "s": texts})
    pq.write_table(table, folder / f"part-{number}.parquet")


QUERY = """SELECT t.k, n, v, s FROM t JOIN (SELECT k, COUNT(*) AS n, MAX(v) AS most FROM t GROUP BY k) AS m
ON t.k = m.k AND t.v = m.most"""


@pytest.mark.spark
def test_a_stream_over_restarts(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each blob of three nodes goes through a file, and what is left is that of the last batch."""
    monkeypatch.setattr(lower, "LARGE_BYTES", 1)
    before = set(packed_files(spark))
    for number in range(1, 4):
        write_rows(tmp_path / "in", number)
        rows = al.read_changes(spark, tmp_path / "in", "parquet", "k STRING, v BIGINT, s STRING")
        out = al.sql(QUERY, t=rows, backend="python")
        run = al.write_changes(out, f"jsonl:{tmp_path / 'out'}", tmp_path / "checkpoint")
        al.await_end(run)
        query, left = str(run.id), set(packed_files(spark)) - before
        assert left and {path.parts[-3] for path in left} == {query}
        assert len({path.parts[-2] for path in left}) == 1
    changes = [
        json.loads(line) for file in (tmp_path / "out").glob("*.json") for line in file.open()
    ]
    table: Counter[tuple[Any, ...]] = Counter()
    for change in changes:
        row = tuple(change[name] for name in ("k", "n", "v", "s"))
        table[row] += 1 if change["_change_type"] in ("insert", "update_postimage") else -1
    oracle = duckdb.connect()
    oracle.execute(
        f"CREATE VIEW t AS SELECT * FROM read_parquet('{tmp_path / 'in' / '*.parquet'}')"
    )
    expected = Counter(oracle.execute(QUERY).fetchall())
    assert {row: n for row, n in table.items() if n} == expected and len(expected) > 6


@pytest.mark.spark
def test_a_batch_is_read_twice(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two actions on the rows of a batch use the files of its shuffle twice."""
    monkeypatch.setattr(lower, "LARGE_BYTES", 1)
    write_rows(tmp_path / "in", 1)
    rows = al.read_changes(spark, tmp_path / "in", "parquet", "k STRING, v BIGINT, s STRING")
    out = al.sql("SELECT k, SUM(v) AS total FROM t GROUP BY k", t=rows, backend="python")
    seen: list[list[tuple[Any, ...]]] = []

    def look(batch: Any, _: int) -> None:
        seen.extend(sorted(map(tuple, batch.collect())) for _ in range(2))

    writer = out.writeStream.foreachBatch(look).trigger(availableNow=True)
    al.await_end(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start())
    assert len(seen) == 2 and seen[0] == seen[1] and len(seen[0]) == 7


@pytest.mark.spark
def test_only_a_local_stream_has_files(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lower, "LARGE_BYTES", 1)
    before = packed_files(spark)
    write_rows(tmp_path / "in", 1)
    rows = spark.read.parquet(str(tmp_path / "in"))
    out = al.sql("SELECT k, COUNT(*) AS n FROM t GROUP BY k", t=rows, backend="python")
    assert len(out.collect()) == 7
    monkeypatch.setenv("AGGLOOM_PLATFORM", "plain")
    rows = al.read_changes(spark, tmp_path / "in", "parquet", "k STRING, v BIGINT, s STRING")
    out = al.sql("SELECT k, COUNT(*) AS n FROM t GROUP BY k", t=rows, backend="python")
    al.await_end(al.write_changes(out, f"jsonl:{tmp_path / 'out'}", tmp_path / "checkpoint"))
    assert packed_files(spark) == before
