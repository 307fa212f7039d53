"""Kafka on Spark: topics that grow, poison, keys that change; and a driver that is killed between two commits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import kafka_driver
import pytest

import aggloom as al
from aggloom.errors import AggloomError, CheckpointError, DataError, SpecError

pytestmark = pytest.mark.spark

DDL = "id INT, v INT"
WITHIN = 300


def envelope(op: str, before: Any, after: Any) -> str:
    return json.dumps({"op": op, "before": before, "after": after})


def row(number: int, v: int) -> dict[str, int]:
    return {"id": number, "v": v}


SUMS = "SELECT COUNT(*) AS n, SUM(v) AS s FROM t"


def run(
    spark: Any, broker: Any, place: Path, sql: str = SUMS, **more: Any
) -> tuple[list[Any], Any]:
    told = {"format": "debezium-json", "schema": DDL, "keys": "id"} | more
    df = al.read_kafka(spark, broker.servers, **told)
    out = al.sql(sql, t=df, buckets=1, backend="python")
    query = al.write_changes(out, "table", place)
    al.await_end(query)
    return [tuple(each.values()) for each in al.read_table(place).to_pylist()], al.progress(query)


def test_a_topic_of_changes(spark: Any, broker: Any, tmp_path: Path) -> None:
    broker.topic("orders", 2)
    key = [json.dumps({"id": n}) for n in range(5)]
    broker.send(
        "orders",
        (key[1], envelope("r", None, row(1, 10))),
        (key[2], envelope("c", None, row(2, 5))),
        (key[1], envelope("u", None, row(1, 11))),
        # A change of key: a deletion, a tombstone, an insertion.
        (key[2], envelope("d", row(2, 5), None)),
        (key[2], None),
        (key[3], envelope("c", None, row(3, 5))),
    )
    table, counts = run(spark, broker, tmp_path / "c", topic="orders")
    assert table == [(2, 16)]
    assert counts.rows == 5, "the tombstone says nothing"
    broker.partitions("orders", 3)
    broker.send("orders", (key[4], envelope("c", None, row(4, 100)), 2))
    table, counts = run(spark, broker, tmp_path / "c", topic="orders")
    assert ((table, counts.rows) == [(3, 116)] and counts.rows == 1) or (table == [(3, 116)])
    broker.send("orders", (key[4], "{broken", 2), (key[4], envelope("d", row(4, 100), None), 2))
    with pytest.raises(AggloomError, match="topic orders, partition 2, offset 1"):
        run(spark, broker, tmp_path / "c", topic="orders")
    side = {"unreadable": "side", "side": str(tmp_path / "side")}
    table, counts = run(spark, broker, tmp_path / "c", topic="orders", **side)
    assert (table, counts.refused) == ([(2, 16)], 1)
    kept = spark.read.parquet(str(tmp_path / "side")).collect()
    assert [(bytes(each.value), bytes(each.key)) for each in kept] == [
        (b"{broken", key[4].encode())
    ]
    # A task without a readable message counts, too.
    broker.send("orders", (key[4], "{broken", 2))
    table, counts = run(spark, broker, tmp_path / "c", topic="orders", unreadable="drop")
    assert (table, counts.refused) == ([(2, 16)], 1)


def test_where_reading_starts(spark: Any, broker: Any, tmp_path: Path) -> None:
    broker.topic("upserts.a", 1)
    broker.send("upserts.a", ("1", '{"id": 1, "v": 7}'), ("2", '{"id": 2, "v": 1}'), ("1", None))
    told: dict[str, Any] = {"topic": "upserts.a", "format": "upsert-json"}
    assert run(spark, broker, tmp_path / "b", **told, start={0: 1})[0] == [(1, 1)]
    pattern = {"topic": r"upserts\..*", "pattern": True, "format": "upsert-json"}
    assert run(spark, broker, tmp_path / "e", **pattern)[0] == [(1, 1)]
    for more, said in (
        ({"start": "first"}, "cannot start at 'first'"),
        ({"start": {0: 1}, "pattern": True}, "cannot start at"),
        ({"end": "latest"}, "end is for a batch"),
        ({"lost_data": "maybe"}, "known are error, ignore"),
        ({"properties": {"group.id": "x"}}, "is not for properties"),
        ({"format": "csv"}, "no format of messages"),
    ):
        with pytest.raises(SpecError, match=said):
            run(spark, broker, tmp_path / "f", **(told | more))


def test_messages_that_are_gone(spark: Any, broker: Any, tmp_path: Path) -> None:
    """A topic that is made anew, with as many messages as were read; messages that are deleted; none such."""
    from confluent_kafka import TopicPartition

    told: dict[str, Any] = {"topic": "gone", "format": "jsonl", "keys": None}
    values = [json.dumps(row(number, 1)) for number in range(3)]
    broker.topic("gone")
    broker.send("gone", *values)
    assert run(spark, broker, tmp_path / "a", **told)[0] == [(3, 3)]
    admin = broker.admin()
    admin.delete_topics(["gone"])["gone"].result()
    broker.again("gone")
    broker.send("gone", *values, *values)
    with pytest.raises(CheckpointError, match="topic gone was deleted and made again"):
        run(spark, broker, tmp_path / "a", **told)
    assert run(spark, broker, tmp_path / "a", **told, lost_data="ignore")[0] == [(6, 6)]
    admin.delete_records([TopicPartition("gone", 0, 2)])[TopicPartition("gone", 0)].result()
    with pytest.raises(DataError, match=r"Kafka does not have .*gone-0.*lost_data"):
        run(spark, broker, tmp_path / "b", **told, start={0: 1})
    with pytest.raises(
        SpecError, match="start has offsets of gone-0, gone-7, and there are gone-0"
    ):
        run(spark, broker, tmp_path / "c", **told, start={0: 2, 7: 0})
    with pytest.raises(SpecError, match="there is no topic 'never' at"):
        run(spark, broker, tmp_path / "d", **(told | {"topic": "never"}))


def numbers(broker: Any) -> dict[int, int]:
    """Write what the driver adds up; the sums."""
    broker.topic("numbers", 2)
    rows = [{"k": n % 5, "v": n} for n in range(100)]
    rows += [{"k": n % 5, "v": n, "_change_type": "delete"} for n in range(0, 100, 7)]
    broker.send("numbers", *[(str(each["k"]), json.dumps(each)) for each in rows])
    sums: Counter[int] = Counter()
    for each in rows:
        sums[int(str(each["k"]))] += int(str(each["v"])) * (-1 if "_change_type" in each else 1)
    return dict(sums)


@pytest.mark.thorough
def test_a_driver_that_is_killed(spark: Any, broker: Any, tmp_path: Path) -> None:
    """Between the sink's commit and Spark's; AGGLOOM_KILLS=all: before that in an open transaction, too."""
    everything = os.environ.get("AGGLOOM_KILLS") == "all"
    expected = numbers(broker)
    program = [sys.executable, str(Path(kafka_driver.__file__))]
    for strike in ("0 before", "1 before", "1 after") if everything else ("1 after",):
        (tmp_path / "strike").unlink(missing_ok=True)
        with (tmp_path / "log").open("ab") as log:
            driver = subprocess.Popen(
                [*program, broker.servers, str(tmp_path), strike],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + WITHIN
        while driver.poll() is None and not (tmp_path / "strike").exists():
            assert time.monotonic() < end, (tmp_path / "log").read_text()[-3000:]
            time.sleep(0.1)
        assert driver.poll() is None, (tmp_path / "log").read_text()[-3000:]
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait(WITHIN)
    kafka_driver.run(spark, broker.servers, str(tmp_path))
    rows: Counter[tuple[int, int]] = Counter()
    for key, value in broker.read("sums"):
        told = json.loads(value)
        image = told["after"] or told["before"]
        assert json.loads(key) == {"k": image["k"]}
        rows[image["k"], image["s"]] += 1 if told["op"] == "c" else -1
        assert min(rows.values()) >= 0, "nothing is taken back twice"
        assert max(rows.values()) <= 1, "nothing is there twice"
    assert {k: s for (k, s), count in rows.items() if count} == expected
    if everything:
        uncommitted = broker.read("sums", "read_uncommitted")
        assert len(uncommitted) > len(broker.read("sums")), "the first strike left messages behind"
