"""The daemon that Spark's Python workers come from."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from aggloom.runtime.platform import workers as daemon
from aggloom.runtime.platform.workers import without_archives


def test_archives_of_an_installed_spark_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    inside = [str(tmp_path / "pyspark" / name) for name in ("python/lib/pyspark.zip", "jars/a.jar")]
    kept = ["", str(tmp_path), "/elsewhere/pyspark.zip"]
    assert without_archives([*inside, *kept]) == kept


def test_an_archive_stays_where_spark_is_not_installed(tmp_path: Path) -> None:
    path = [str(tmp_path / "pyspark/python/lib/pyspark.zip"), str(tmp_path)]
    assert without_archives(path) == path


@pytest.mark.spark
@pytest.mark.shortcut
def test_workers_have_what_they_need_when_they_start(spark: Any) -> None:
    def told(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        has_host = "aggloom.runtime.spark.node.host" in sys.modules
        from pyspark import serializers

        yield pa.record_batch({"has_host": [has_host], "file": [serializers.__file__]})

    one = spark.range(1).repartition(1)
    ((has_host, file),) = one.mapInArrow(told, "has_host BOOLEAN, file STRING").collect()
    assert has_host
    assert ".zip" not in file


@pytest.mark.spark
def test_workers_of_all_kinds_of_nodes_come_from_one_daemon(spark: Any) -> None:
    def told(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"parent": [os.getppid()]})

    ((parent,),) = spark.range(0, 1, 1, 1).mapInArrow(told, "parent BIGINT").collect()
    # Spark tells these as little as it tells stateful workers.
    bare = spark.sparkContext.parallelize([0], 1).map(lambda _: os.getppid())
    assert bare.collect() == [parent]


def test_garbage_is_collected_for_no_more_than_a_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, collections = 0.0, []

    def collect() -> int:
        nonlocal now
        collections.append(now)
        now += 0.1
        return 7

    monkeypatch.setattr(daemon.time, "process_time", lambda: now)
    monkeypatch.setattr(daemon.gc, "collect", collect)
    collector = daemon.SparingCollector()
    found = []
    for _ in range(100):
        found.append(collector.collect())
        now += 0.1
    assert set(found) == {0, 7}
    assert 0.04 * now < 0.1 * len(collections) < 0.06 * now


@pytest.mark.spark
@pytest.mark.shortcut
def test_what_was_imported_before_a_worker_is_no_garbage_to_look_for(spark: Any) -> None:
    def told(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc

        from pyspark import daemon

        yield pa.record_batch({"kept": [gc.get_freeze_count()], "how": [type(daemon.gc).__name__]})

    one = spark.range(1).repartition(1)
    ((kept, how),) = one.mapInArrow(told, "kept BIGINT, how STRING").collect()
    assert kept > 50_000
    assert how == "SparingCollector"


def test_a_worker_acknowledges_what_java_writes_at_once() -> None:
    told = []

    def task(infile: BinaryIO, outfile: BinaryIO) -> None:
        with socket.socket(fileno=os.dup(infile.fileno())) as ours:
            told.append(ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        _echoed(infile, outfile)

    with socket.create_server(("127.0.0.1", 0)) as server:
        java = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    with java, ours, ours.makefile("rb") as infile, ours.makefile("wb") as outfile:
        java.sendall(b"rows!")
        daemon.answering_at_once(task)(infile, outfile)
        outfile.flush()
        assert java.recv(5) == b"rows!"
    assert told == [1]


def _echoed(infile: BinaryIO, outfile: BinaryIO) -> None:
    outfile.write(infile.read(5))


def test_a_worker_of_another_kind_of_socket_works_as_ever() -> None:
    java, ours = socket.socketpair(socket.AF_UNIX)
    with java, ours, ours.makefile("rb") as infile, ours.makefile("wb") as outfile:
        java.sendall(b"rows!")
        daemon.answering_at_once(_echoed)(infile, outfile)
        outfile.flush()
        assert java.recv(5) == b"rows!"
