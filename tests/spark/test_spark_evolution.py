"""On real Spark: a query that goes on from its checkpoint with other calls, and with other numbers of partitions."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from versions import repartitions

import aggloom as al
from aggloom.errors import AggloomError, CheckpointError, StateMismatchError

pytestmark = pytest.mark.spark

pytest.importorskip("pyspark")

from aggloom.runtime.connectors.files.table_file import TABLE_FILE, read_table  # noqa: E402
from aggloom.runtime.hosting.checkpoint_paths import batches  # noqa: E402
from aggloom.runtime.spark.watch.repartition import hint, partitions_of  # noqa: E402

DDL = "name STRING, cnt INT, city STRING"
Row = tuple[str, int, str]


class Job:
    """A query over files of changes that is started again and again from one checkpoint, and its net input."""

    def __init__(self, spark: Any, path: Path) -> None:
        self.spark, self.path = spark, path
        self.checkpoint = path / "checkpoint"
        self.net: Counter[Row] = Counter()
        self._last: list[Row] = []
        (path / "in").mkdir()

    def batch(self, number: int) -> None:
        """Rows of every key; some take back what the batch before has brought."""
        new = [(f"k{k}", 10 * number + k, f"c{(k + number) % 3}") for k in range(12)]
        changes = [("+I", row) for row in new] + [("-D", row) for row in self._last[::3]]
        lines = [
            json.dumps({"op": op, "name": n, "cnt": c, "city": t}) for op, (n, c, t) in changes
        ]
        file = self.path / "in" / f"{number:04d}.jsonl"
        file.write_text("\n".join(lines) + "\n")
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
        self.net.update(new)
        self.net.subtract(self._last[::3])
        self._last = new

    def run(self, query: str, **options: Any) -> list[tuple[Any, ...]]:
        """The table after what is there was processed."""
        source = al.read_changes(self.spark, str(self.path / "in"), "jsonl", DDL)
        out = al.sql(query, t=source, backend="python", **options)
        al.await_end(al.write_changes(out, "table", self.checkpoint))
        return sorted(tuple(row.values()) for row in read_table(self.checkpoint).to_pylist())

    def expected(self, query: str) -> list[tuple[Any, ...]]:
        """DuckDB's answer over all input."""
        connection = duckdb.connect()
        connection.execute("CREATE TABLE t (name TEXT, cnt INT, city TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [*self.net.elements()])
        return sorted(connection.execute(query).fetchall())


@pytest.fixture
def job(spark: Any, tmp_path: Path) -> Job:
    made = Job(spark, tmp_path)
    made.batch(0)
    return made


ONE = "SELECT name, SUM(cnt) AS total, MAX(cnt) AS top, COUNT(DISTINCT city) AS cities FROM t GROUP BY name"
TWO = (
    "SELECT COUNT(*) AS n, name, MIN(cnt) AS low, COUNT(DISTINCT city) AS towns, SUM(cnt) AS total "
    "FROM t GROUP BY name"
)


def test_a_query_goes_on_with_other_calls(job: Job) -> None:
    assert job.run(ONE, buckets=3) == job.expected(ONE)
    job.batch(1)
    assert job.run(TWO, buckets=3) == job.expected(TWO)
    job.batch(2)
    assert job.run(TWO, buckets=3) == job.expected(TWO)


def test_another_query_is_refused_in_its_first_batch(job: Job) -> None:
    job.run(ONE, buckets=3)
    table = read_table(job.checkpoint)
    job.batch(1)
    with pytest.raises(StateMismatchError, match=r"differs .* in GROUP BY and WHERE") as raised:
        job.run("SELECT city, SUM(cnt) AS total FROM t WHERE cnt > 1 GROUP BY city", buckets=3)
    assert "\n  - GROUP BY: name -> city\n  - WHERE: none -> " in str(raised.value)
    assert read_table(job.checkpoint).equals(table)
    assert job.run(ONE, buckets=3) == job.expected(ONE)


BEST = (
    "SELECT city, name, cnt FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY cnt DESC, name) AS n FROM t) "
    "AS r WHERE n <= 3"
)


@repartitions
@pytest.mark.thorough
def test_a_rank_is_repartitioned(job: Job, spark: Any) -> None:
    assert job.run(BEST, buckets=5) == job.expected(BEST)
    al.repartition(spark, job.checkpoint, 3)
    job.batch(1)
    assert job.run(BEST, buckets=5) == job.expected(BEST)


@repartitions
@pytest.mark.thorough
def test_a_database_goes_on_after_a_repartition(job: Job, spark: Any) -> None:
    file = job.path / "database"
    sink = {"kind": "database", "driver": "sqlite3", "connect": str(file), "table": "totals"}

    def run() -> list[Any]:
        source = al.read_changes(spark, str(job.path / "in"), "jsonl", DDL)
        out = al.sql(ONE, t=source, backend="python", buckets=5)
        al.await_end(al.write_changes(out, sink, job.checkpoint))
        connection = sqlite3.connect(file)
        found = connection.execute("SELECT * FROM totals ORDER BY 1").fetchall()
        connection.close()
        return found

    assert run() == job.expected(ONE)
    older = file.read_bytes()
    al.repartition(spark, job.checkpoint, 3)
    job.batch(1)
    assert run() == job.expected(ONE)
    job.batch(2)
    newest = file.read_bytes()
    file.write_bytes(older)
    with pytest.raises(
        CheckpointError, match=r"it has batch 0 of this checkpoint, and batch \d+ is next"
    ):
        run()
    file.write_bytes(newest)
    assert run() == job.expected(ONE)


@repartitions
@pytest.mark.thorough
def test_repartitions_of_which_spark_keeps_one_batch(job: Job, spark: Any) -> None:
    retain = "spark.sql.streaming.minBatchesToRetain"
    before = spark.conf.get(retain)
    spark.conf.set(retain, "1")
    try:
        assert job.run(ONE, buckets=5) == job.expected(ONE)
        for number in (1, 2):
            job.batch(number)
            assert job.run(ONE, buckets=5) == job.expected(ONE)
        older = (job.checkpoint / TABLE_FILE).read_bytes()
        for number, partitions in enumerate(((3,), (1, 2), ()), 3):
            for each in partitions:
                al.repartition(spark, job.checkpoint, each)
            job.batch(number)
            assert job.run(ONE, buckets=5) == job.expected(ONE)
        # Of the six batches and three repartitions the log has two, and the table of batch 2 is too old.
        (job.checkpoint / TABLE_FILE).write_bytes(older)
        job.batch(6)
        with pytest.raises(
            CheckpointError, match="has batch 2, and the checkpoint's next batch is"
        ):
            job.run(ONE, buckets=5)
        assert len(batches(job.checkpoint / "offsets")) == 2
    finally:
        spark.conf.set(retain, before)


@repartitions
def test_a_checkpoint_is_repartitioned(job: Job, spark: Any) -> None:
    job.run(ONE, buckets=5)
    assert partitions_of(job.checkpoint) == 2
    assert hint(spark, job.checkpoint) == ""
    for number, partitions in enumerate((3, 1), 1):
        al.repartition(spark, job.checkpoint, partitions)
        assert partitions_of(job.checkpoint) == partitions
        assert "--partitions 2" in hint(spark, job.checkpoint)
        job.batch(number)
        assert job.run(ONE, buckets=5) == job.expected(ONE)
        if number == 1:
            shutil.copy(job.checkpoint / TABLE_FILE, job.path / "older")
    shutil.copy(job.checkpoint / TABLE_FILE, job.path / "newest")
    shutil.copy(job.path / "older", job.checkpoint / TABLE_FILE)
    job.batch(3)
    with pytest.raises(CheckpointError, match="has batch 2, and the checkpoint's next batch is 5"):
        job.run(ONE, buckets=5)
    shutil.copy(job.path / "newest", job.checkpoint / TABLE_FILE)
    assert job.run(ONE, buckets=5) == job.expected(ONE)
    with pytest.raises(AggloomError, match="has 1 partitions already"):
        al.repartition(spark, job.checkpoint, 1)
    with pytest.raises(
        AggloomError, match=r"nothing cannot be repartitioned: .*NO_COMMITTED_BATCH"
    ):
        al.repartition(spark, job.path / "nothing", 3)
