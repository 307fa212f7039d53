"""Large rows of the state in files of the checkpoint: read back whole, deleted in time, and their damage named."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import aggloom as al
from aggloom.errors import StateCorruptError, StateError
from aggloom.runtime.hosting.bucket_store import Blob
from aggloom.runtime.hosting.framing import LOG, SNAPSHOT, Owner, seal, unseal
from aggloom.runtime.spark.node import state_files
from aggloom.runtime.spark.node.list_state import Row
from aggloom.runtime.spark.node.state_files import StateFiles, fetch_row
from aggloom.runtime.spark.plan import lower

OWNER = Owner("a sum", "0123456789abcdef", 3, 4)
SMALL, LARGE = seal(b"few", OWNER, LOG), seal(b"\0\xff" * 100, OWNER, LOG)


class Rows:
    """The list of Spark's store."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def get(self) -> Iterator[Row]:
        return iter(self.rows)

    def put(self, rows: list[Row]) -> None:
        self.rows = list(rows)

    def appendList(self, rows: list[Row]) -> None:  # noqa: N802
        self.rows += rows


class Bucket:
    """A bucket whose batches follow one another, each with an object of its own, as in tasks."""

    def __init__(self, root: Path, kept: int = 2) -> None:
        self.root, self.kept, self.batch, self.token = root, kept, -1, ""
        self.store = Rows()
        self.versions: list[list[Row]] = []

    def open(self, *blobs: Blob) -> StateFiles:
        return StateFiles(self.store, 0, OWNER.bucket, len(LARGE), blobs)  # type: ignore[arg-type]

    def write(self, snapshot: bool = False, counts: bool = True) -> StateFiles:
        """A batch adds a row or replaces all of them by a snapshot; counts: whether Spark takes this attempt."""
        before = list(self.store.rows)
        self.batch += 1
        files, token = self.open(), f"{self.batch}of{counts}"
        rows = [(seal(os.urandom(200), OWNER, SNAPSHOT if snapshot else LOG),)]
        (files.put if snapshot else files.appendList)(rows)
        files.delete_superseded(self.token, token)
        if counts:
            self.token = token
            self.versions.append(list(self.store.rows))
        else:
            self.store.rows = before
            self.batch -= 1
        return files

    def check_versions(self) -> None:
        """Every version that is kept can be read."""
        for version in self.versions[-self.kept - 1 :]:
            for row in version:
                fetch_row(row[0], self.root)

    @property
    def names(self) -> list[str]:
        """The batches of the files that there are, then the marks."""
        files = [path.name for path in (self.root / "aggloom-state/0.3").iterdir()]
        return sorted(name if "." in name else name.split("-")[0] for name in files)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bucket:
    made = Bucket(tmp_path)
    monkeypatch.setattr(state_files, "checkpoint_root", lambda: made.root)
    monkeypatch.setattr(state_files, "batch_number", lambda: max(made.batch, 0))
    monkeypatch.setattr(state_files, "batches_kept", lambda: made.kept)
    return made


def test_large_rows_lie_in_files(bucket: Bucket) -> None:
    bucket.batch = 7
    files = bucket.open()
    files.put([(SMALL,), (LARGE,)])
    files.appendList([(LARGE,), (SMALL,)])
    assert list(files.get()) == [(SMALL,), (LARGE,), (LARGE,), (SMALL,)]
    inside = [row[0] for row in bucket.store.rows]
    assert inside[0] == inside[3] == SMALL and len(inside[1]) < len(LARGE)
    assert bucket.names == ["7", "7"]
    # What inspection takes from the store without opening a file: the kind of a row.
    assert inside[1][6] == LARGE[6] == LOG


def test_a_file_that_is_there_gets_a_second_name(bucket: Bucket, tmp_path: Path) -> None:
    payload = bytes(unseal(LARGE, OWNER, LOG).payload)
    there = tmp_path / "packed"
    there.write_bytes(payload)
    other = Blob(0, 0, 1, payload[:-1] + b"!", tmp_path / "missing")
    same = Blob(0, 0, 2, memoryview(payload), there)
    gone = Blob(0, 0, 3, payload, tmp_path / "missing")
    for blobs, links in ((other, same), 2), ((other, gone), 1), ((gone, same), 2):
        files = bucket.open(*blobs)
        files.put([(LARGE,)])
        assert list(files.get()) == [(LARGE,)]
        name = bucket.store.rows[0][0].rpartition(b"/")[2].decode()
        path = bucket.root / "aggloom-state/0.3" / name
        assert path.stat().st_nlink == links
        path.unlink()


def test_files_go_with_the_versions_that_need_them(bucket: Bucket) -> None:
    for snapshot in (False, False, True, False):
        bucket.write(snapshot)
        bucket.check_versions()
    # The snapshot of batch 2 counts, as batch 3 has seen. Versions since batch 1 are kept.
    assert bucket.names == ["0", "1", "2", "2.snapshot", "3"]
    bucket.write()
    bucket.check_versions()
    assert bucket.names == ["0", "1", "2", "2.snapshot", "3", "4"]
    bucket.write()
    bucket.check_versions()
    assert bucket.names == ["2", "2.snapshot", "3", "4", "5"]
    for _ in range(9):
        bucket.write(snapshot=True)
        bucket.check_versions()
    assert len(bucket.names) < 10


def test_only_the_attempt_counts_that_spark_has_taken(bucket: Bucket) -> None:
    bucket.write()
    # An attempt that Spark does not take writes a snapshot, and the one that it takes writes a log.
    bucket.write(snapshot=True, counts=False)
    for _ in range(6):
        bucket.write()
        bucket.check_versions()
    assert not any("snapshot" in name for name in bucket.names)
    assert len(bucket.store.rows) == 7 and "0" in bucket.names


def test_what_the_state_refers_to_stays(bucket: Bucket) -> None:
    """A mark of a snapshot from another copy of the checkpoint takes no file that is in use."""
    bucket.write()
    bucket.write()
    (bucket.root / "aggloom-state/0.3/2.snapshot").touch()
    (bucket.root / "aggloom-state/0.3" / ("0-" + "a" * 32)).touch()
    bucket.batch = 9
    files = bucket.write()
    assert len(list(files.get())) == 3
    # A file that nothing refers to goes.
    assert bucket.names == ["0", "1", "10", "2.snapshot"]


def test_without_room_rows_stay_in_the_store(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, data: bytes) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write)
    files = bucket.open()
    files.put([(LARGE,)])
    assert bucket.store.rows == [(LARGE,)] == list(files.get()) and bucket.names == []
    monkeypatch.setattr(state_files, "checkpoint_root", lambda: None)
    files = bucket.open()
    files.appendList([(LARGE,)])
    files.delete_superseded("", "token")
    assert bucket.store.rows == [(LARGE,)] * 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (b"0.3/0-" + b"0" * 32, "No such file"),
        (b"../../secret", "no file of a state"),
        (b"0.3/../../secret", "no file of a state"),
        (b"/etc/hostname", "no file of a state"),
        (b"\xff\xfe", "no file of a state"),
    ],
)
def test_a_wrong_reference_is_refused(bucket: Bucket, name: bytes, message: str) -> None:
    files = bucket.open()
    files.put([(LARGE,)])
    reference = bucket.store.rows[0][0]
    bucket.store.rows = [(reference[: state_files.REFERENCE_BYTES] + name,)]
    with pytest.raises(StateCorruptError, match=f"{message}.*Restore it from a copy"):
        list(files.get())
    with pytest.raises(StateCorruptError, match=r"not of Spark Connect|no file of a state"):
        fetch_row(bucket.store.rows[0][0], None)


@pytest.mark.parametrize("damage", [b"", b"\0\xff" * 99, b"\0\xfe" * 100, b"\0\xff" * 101])
def test_a_damaged_file_does_not_pass(bucket: Bucket, damage: bytes) -> None:
    files = bucket.open()
    files.put([(LARGE,)])
    next((bucket.root / "aggloom-state/0.3").iterdir()).write_bytes(damage)
    with pytest.raises(StateCorruptError, match="log state of a sum, bucket 3"):
        unseal(next(files.get())[0], OWNER, LOG)


DDL = "k STRING, v BIGINT, s STRING"
QUERY = """SELECT k, v, s FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM t) WHERE n <= 3"""

LAST = """SELECT k, s FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM t) WHERE n = 1"""


class Query:
    """A query over files that come one by one, each in a batch of its own and a start of its own."""

    def __init__(self, spark: Any, directory: Path) -> None:
        self.spark, self.directory = spark, directory
        self.checkpoint = directory / "checkpoint"
        self.number = 0

    def run(self, starts: int = 1, own_writer: bool = False) -> None:
        for _ in range(starts):
            folder = self.directory / "in"
            folder.mkdir(exist_ok=True)
            rows = [(f"k{n % 7}", n * 31 % 997 * 10 + self.number, "é" * n) for n in range(200)]
            keys, values, texts = zip(*rows, strict=True)
            table = pa.table({"k": keys, "v": pa.array(values, pa.int64()), "s": texts})
            pq.write_table(table, folder / f"part-{self.number}.parquet")
            self.number += 1
            t = al.read_changes(self.spark, folder, "parquet", DDL)
            live = self.directory / f"live-{self.number}"
            out = al.sql(QUERY, t=t, backend="python", buckets=2, state_directory=live)
            if own_writer:
                writer = out.writeStream.format("noop").trigger(availableNow=True)
                al.await_end(writer.option("checkpointLocation", str(self.checkpoint)).start())
            else:
                al.await_end(al.write_changes(out, "table", self.checkpoint))

    @property
    def files(self) -> list[Path]:
        return sorted((self.checkpoint / "aggloom-state").glob("*/*"))

    def check_table(self) -> None:
        got = Counter(
            map(tuple, (row.values() for row in al.read_table(self.checkpoint).to_pylist()))
        )
        t = duckdb.read_parquet(str(self.directory / "in" / "*.parquet"))  # noqa: F841
        assert got == Counter(duckdb.sql(QUERY).fetchall()) and len(got) == 21


@pytest.fixture
def query(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Query:
    monkeypatch.setattr(lower, "LARGE_BYTES", 1)
    return Query(spark, tmp_path)


@pytest.mark.spark
def test_a_query_over_restarts_and_copies(query: Query, tmp_path: Path) -> None:
    """Without live state each start reads the files; so does one from a copy of the checkpoint."""
    query.run(3)
    assert len(query.files) >= 6
    query.check_table()
    report = al.state(query.checkpoint, spark=query.spark)
    (operator,) = report.operators
    stored = sum(path.stat().st_size for path in query.files)
    # The description of each bucket is no part of the log, and each frame of it has a header.
    assert stored / 2 < operator.log_bytes < stored * 2 and operator.held == operator.keys == 7
    assert al.why(query.checkpoint, key={"k": "k3"}, spark=query.spark).key["k"] == "k3"
    whole = tmp_path / "whole"
    shutil.copytree(query.checkpoint, whole)
    shutil.rmtree(query.checkpoint)
    # Spark keeps whole paths in a checkpoint, so that the old path has to lead to it.
    query.checkpoint.symlink_to(whole)
    query.run()
    query.check_table()


@pytest.mark.spark
def test_a_plain_session_reads_them(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.run(2)
    before = query.files
    monkeypatch.setenv("AGGLOOM_PLATFORM", "plain")
    query.run()
    query.check_table()
    assert query.files == before


@pytest.mark.spark
def test_a_checkpoint_with_an_odd_name(query: Query, tmp_path: Path) -> None:
    query.checkpoint = tmp_path / "ä %20 b+c"
    query.run(2)
    assert len(query.files) >= 4
    query.check_table()


@pytest.mark.spark
def test_a_writer_of_ones_own(query: Query) -> None:
    query.run(2, own_writer=True)
    assert len(query.files) >= 4
    assert al.state(query.checkpoint, spark=query.spark).operators[0].keys == 7


@pytest.mark.spark
def test_repartitioned_state_has_its_files(query: Query) -> None:
    query.run(2)
    now = int(query.spark.conf.get("spark.sql.shuffle.partitions"))
    al.repartition(query.spark, query.checkpoint, now + 1)
    query.run()
    query.check_table()


@pytest.mark.spark
@pytest.mark.parametrize("harm", ["delete", "cut", "flip", "link"])
def test_damage_ends_the_query(query: Query, tmp_path: Path, harm: str) -> None:
    query.run(2)
    victim = max(query.files, key=lambda path: path.stat().st_size)
    data = bytearray(victim.read_bytes())
    victim.unlink()
    data[len(data) // 2] ^= 1
    if harm == "link":
        (tmp_path / "elsewhere").write_bytes(data)
        victim.symlink_to(tmp_path / "elsewhere")
    elif harm != "delete":
        victim.write_bytes(data[:-9] if harm == "cut" else data)
    with pytest.raises(StateError) as raised:
        query.run()
    assert "from a copy" in str(raised.value) or "without links" in str(raised.value)


@pytest.mark.spark
def test_files_are_deleted_while_a_query_runs(spark: Any, tmp_path: Path) -> None:
    """The last row of each key: the log outgrows the state again and again, and is replaced by a snapshot."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    rng = random.Random(3)
    expected: dict[int, str] = {}
    retained = "spark.sql.streaming.minBatchesToRetain"
    spark.conf.set(retained, 2)
    try:
        # The second start has no live state, and reads what the first one has left in files.
        for start, sizes in enumerate([[20_000] * 9, [1]]):
            for number, size in enumerate(sizes, start * 9):
                rows = {n % 50: f"{rng.getrandbits(1200):x}" for n in range(min(size, 50))}
                expected |= rows
                texts = [f"{rng.getrandbits(1200):x}" for _ in range(size - len(rows))]
                keys = [n % 50 for n in range(len(texts))]
                table = {
                    "k": pa.array([*keys, *rows], pa.int64()),
                    "v": pa.array(range(number * 20_000, number * 20_000 + size), pa.int64()),
                    "s": [*texts, *rows.values()],
                }
                pq.write_table(pa.table(table), folder / f"part-{number}.parquet")
            ddl = "k BIGINT, v BIGINT, s STRING"
            t = al.read_changes(spark, folder, "parquet", ddl, max_files_per_trigger=1)
            live = tmp_path / f"live-{start}"
            out = al.sql(LAST, t=t, buckets=2, state_directory=live, input_changes="append")
            al.await_end(al.write_changes(out, "table", checkpoint))
    finally:
        spark.conf.unset(retained)
    assert {row["k"]: row["s"] for row in al.read_table(checkpoint).to_pylist()} == expected
    names = [path.name for path in (checkpoint / "aggloom-state").glob("*/*-*")]
    batches = {int(name.split("-")[0]) for name in names if "." not in name}
    assert 8 in batches and not batches & {0, 1, 2}
