"""Sinks of the local engine: each batch once, where every batch is killed between its sink and its commit."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from engine_jobs import expected_rows, job_over, random_changes, run_to_end, write_files

from aggloom.errors import CheckpointError, SinkError
from aggloom.job import Job
from aggloom.runtime.engine.checkpoint import LocalCheckpoint
from aggloom.verify import verify

BATCHES = 4


class Killed(Exception):
    """The end of a process, played."""


def run_killed(job: Job, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a job to its end, killed once before the commit of each batch; how often it was killed."""
    commit, kills, calls = LocalCheckpoint.commit, 0, 0

    def die_every_other_time(self: LocalCheckpoint, batch: int, **known: Any) -> None:
        nonlocal calls
        calls += 1
        if calls % 2:
            raise Killed
        commit(self, batch, **known)

    with monkeypatch.context() as patch:
        patch.setattr(LocalCheckpoint, "commit", die_every_other_time)
        while True:
            try:
                run_to_end(job)
            except Killed:
                kills += 1
            else:
                return kills


def killed_job(sink: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Run the sums of random changes into a sink, killed at every batch; the job."""
    write_files(tmp_path / "in", random_changes(11, 120), BATCHES)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state", sink)
    assert run_killed(job, monkeypatch) == BATCHES
    return job


def same(rows: Any, job: Job) -> bool:
    """Tell whether rows are those of the harness."""
    return Counter(map(tuple, rows)) == Counter(map(tuple, expected_rows(job)))


def check_verified(job: Job, plant: Callable[[], Any]) -> None:
    """See that `verify` finds the sink right, and a difference once one is planted."""
    assert job.checkpoint is not None
    report = verify(job.checkpoint, job)
    assert report.is_equal, report.text()
    assert report.places[-1].keys == len(expected_rows(job))
    plant()
    found = verify(job.checkpoint, job).places[-1]
    assert found.differences, found


def test_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "db"
    sink = {"kind": "database", "table": "sums", "connect": str(file), "driver": "sqlite3"}
    job = killed_job(sink, tmp_path, monkeypatch)
    with closing(sqlite3.connect(file)) as db:
        assert same(db.execute("SELECT customer, n, s, m FROM sums").fetchall(), job)
        assert db.execute("SELECT batch FROM aggloom_batches").fetchall() == [(BATCHES - 1,)]

    def plant() -> None:
        with closing(sqlite3.connect(file)) as db:
            db.execute("UPDATE sums SET n = n + 1 WHERE n > 1")
            db.commit()

    check_verified(job, plant)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    from postgres import server

    with server() as made:
        yield made


def test_postgresql(postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = {"kind": "database", "table": "sums", "connect": postgres.dsn}
    job = killed_job(sink, tmp_path, monkeypatch)
    with postgres.connect() as db:
        assert same(db.execute("SELECT customer, n, s, m FROM sums").fetchall(), job)

    def plant() -> None:
        with postgres.connect() as db:
            db.execute("UPDATE sums SET n = n + 1 WHERE n > 1")

    check_verified(job, plant)
    other = job_over(tmp_path / "in", "sums", tmp_path / "other", sink)
    with pytest.raises(SinkError, match="existing"):
        run_to_end(other)


def test_mysql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mysql_server import server

    with server() as mysql:
        sink = {"kind": "database", "table": "sums", "connect": mysql.url, "driver": "pymysql"}
        job = killed_job(sink, tmp_path, monkeypatch)
        assert same(mysql.ask("SELECT customer, n, s, m FROM sums"), job)
        check_verified(job, lambda: mysql.ask("UPDATE sums SET n = n + 1 WHERE n > 1"))


def test_delta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deltalake = pytest.importorskip("deltalake")
    job = killed_job({"kind": "delta", "path": str(tmp_path / "t")}, tmp_path, monkeypatch)
    table = deltalake.DeltaTable(tmp_path / "t")
    rows = pa.table(table.to_pyarrow_table()).select(["customer", "n", "s", "m"]).to_pylist()
    assert same([each.values() for each in rows], job)
    check_verified(job, lambda: deltalake.DeltaTable(tmp_path / "t").delete("n > 1"))


def test_iceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = pytest.importorskip("pyiceberg.catalog")
    place = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/c.db",
        "warehouse": f"file://{tmp_path}/w",
    }
    job = killed_job({"kind": "iceberg", "table": "db.t", "connect": place}, tmp_path, monkeypatch)
    table = library.load_catalog("default", **place).load_table("db.t")
    rows = table.scan().to_arrow().select(["customer", "n", "s", "m"]).to_pylist()
    assert same([each.values() for each in rows], job)
    check_verified(job, lambda: table.delete("n > 1"))


def test_kafka(broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = {
        "kind": "kafka",
        "servers": broker.servers,
        "topic": "local.sums",
        "format": "debezium-json",
    }
    job = killed_job(sink, tmp_path, monkeypatch)
    rows: Counter[tuple[Any, ...]] = Counter()
    for _, value in broker.read("local.sums"):
        told = json.loads(value)
        image = told["after"] or told["before"]
        rows[tuple(image[n] for n in ("customer", "n", "s", "m"))] += 1 if told["op"] == "c" else -1
        assert min(rows.values()) >= 0
        assert max(rows.values()) <= 1
    assert same([row for row, count in rows.items() if count], job)
    again = next(each for each in broker.read("local.sums") if json.loads(each[1])["op"] == "c")
    check_verified(job, lambda: broker.send("local.sums", again))


def test_upserts_of_kafka(broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = {"kind": "kafka", "servers": broker.servers, "topic": "sums.upserts"}
    job = killed_job(sink, tmp_path, monkeypatch)
    assert job.checkpoint is not None
    # A customer is NULL, for which upserts have no row.
    assert "NULL" in verify(job.checkpoint, job).places[-1].note
    sql = job.sql.replace("FROM orders", "FROM orders WHERE customer IS NOT NULL")
    job = replace(job, sql=sql, sink={**sink, "topic": "sums.named"}, checkpoint=tmp_path / "named")
    run_to_end(job)
    key = next(about for about, _ in broker.read("sums.named"))
    check_verified(job, lambda: broker.send("sums.named", (key, None)))


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    job = killed_job(f"parquet:{tmp_path / 'out'}", tmp_path, monkeypatch)
    files = sorted((tmp_path / "out").glob("part-*.parquet"))
    assert len(files) == BATCHES
    rows: Counter[tuple[Any, ...]] = Counter()
    for file in files:
        for *row, word in (each.values() for each in pq.read_table(file).to_pylist()):
            rows[tuple(row)] += 1 if word in ("insert", "update_postimage") else -1
    assert same([row for row, count in rows.items() if count], job)


def test_console_prints_a_batch_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    killed_job("console", tmp_path, monkeypatch)
    lines = [line for line in capsys.readouterr().out.splitlines() if line[:1] in "+-"]
    assert lines
    # It keeps nothing by which it could know that it has a batch.
    assert all(times % 2 == 0 for times in Counter(lines).values())


def test_a_checkpoint_that_went_back(tmp_path: Path) -> None:
    """A copy of an older checkpoint comes to a batch that the database has behind it."""
    import shutil

    file = tmp_path / "db"
    sink = {"kind": "database", "table": "sums", "connect": str(file), "driver": "sqlite3"}
    changes = random_changes(3, 90)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state", sink)
    write_files(tmp_path / "in", changes[:30], 1)
    run_to_end(job)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    for number in (1, 2):
        write_files(tmp_path / "in", changes[30 * number : 30 * number + 30], 1, start=number)
        run_to_end(job)
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "copy", tmp_path / "state")
    with pytest.raises(CheckpointError, match="older copy"):
        run_to_end(job)


def test_files_of_spark_in_the_output_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark calls the files of one batch part-00000, part-00001: the numbers are no batches."""
    out = tmp_path / "out"
    write_files(tmp_path / "in", random_changes(11, 60), 1)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state", f"jsonl:{out}")
    run_to_end(job)
    entry = out / "_spark_metadata" / "0"
    (named,) = out.glob("part-*.json")
    moved = out / "part-00001-of-spark.json"
    named.rename(moved)
    entry.write_text(entry.read_text().replace(named.name, moved.name))
    left = out / "part-00001-of-a-killed-run.json"
    left.write_text("{}")
    write_files(tmp_path / "in", random_changes(12, 30, retracts=False), 1, start=1)
    run_to_end(job)
    assert moved.exists() and not left.exists()
    assert len(list(out.glob("part-*.json"))) == 2


@pytest.mark.parametrize("change", ["elsewhere", "deleted", "none"])
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_files_that_lack_earlier_batches_are_reported(
    kind: str, change: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The files of such a directory fold to another table than the result."""
    out = tmp_path / "out"
    write_files(tmp_path / "in", random_changes(11, 60), 1)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state", f"{kind}:{out}")
    run_to_end(job)
    if change == "deleted":
        shutil.rmtree(out)
    elif change == "elsewhere":
        out = tmp_path / "other"
        job = replace(job, sink=f"{kind}:{out}")
    write_files(tmp_path / "in", random_changes(12, 30, retracts=False), 1, start=1)
    with caplog.at_level(logging.WARNING, "aggloom"):
        run_to_end(job)
    text = f"sink {kind}: {out} has no batch before 1 of its checkpoint: what is written there is not the whole"
    assert (text in caplog.text) == (change != "none")
    caplog.clear()
    write_files(tmp_path / "in", random_changes(13, 30, retracts=False), 1, start=2)
    run_to_end(job)
    assert "not the whole" not in caplog.text


def test_an_output_without_batches_becomes_that_of_the_checkpoint(tmp_path: Path) -> None:
    """A run of another checkpoint that was killed before its first file leaves only the mark."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "_aggloom").write_text("another checkpoint")
    write_files(tmp_path / "in", random_changes(11, 60), 1)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state", f"jsonl:{out}")
    run_to_end(job)
    write_files(tmp_path / "in", random_changes(12, 30, retracts=False), 1, start=1)
    run_to_end(job)
    assert len(list(out.glob("part-*.json"))) == 2
