"""METADATA columns on Spark: what its connector says of messages, by rows and packed, beside the local engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import aggloom as al
from aggloom import local
from aggloom.errors import SpecError
from aggloom.job import Job
from aggloom.script import jobs_of

SCHEMA = (
    "id INT, v INT, `at` TIMESTAMP, p INT, o BIGINT, topic STRING, kind STRING, "
    "h MAP<STRING, BINARY>, shop STRING, sent TIMESTAMP, db STRING"
)
METADATA = {
    "at": "timestamp",
    "p": "partition",
    "o": "offset",
    "topic": "topic",
    "kind": "timestamp-type",
    "h": "headers",
    "shop": "key.shop",
    "sent": "value.ingestion-timestamp",
    "db": "value.source.database",
}
QUERY = """SELECT id, v, CAST(`at` AS STRING) AS a, p, o, topic, kind, h['a'] AS h, shop, CAST(sent AS STRING) AS s, db
  FROM t WHERE id > 0"""
COUNTS = (
    "SELECT p, db, shop, COUNT(*) AS n, MAX(`at`) AS a, MAX(o) AS o FROM t GROUP BY p, db, shop"
)


def send(broker: Any, topic: str) -> None:
    producer = broker.producer()
    for number in range(12):
        source = {"db": f"d{number % 2}", "ts_ms": 1_700_000_000_000}
        body = {"op": "c", "before": None, "after": {"id": number, "v": number * number}}
        value = json.dumps({**body, "source": source, "ts_ms": 1_700_000_000_001 + number})
        key = json.dumps({"id": number, "shop": f"s{number % 3}"}) if number % 4 else None
        headers: list[Any] = [("a", b"x"), ("a", str(number).encode())] if number % 2 else []
        time = 1_700_000_100_000 + 10 * number
        producer.produce(topic, value, key, number % 2, timestamp=time, headers=headers)
    assert producer.flush(30) == 0


def test_both_engines_say_the_same_of_a_topic(spark: Any, broker: Any, tmp_path: Path) -> None:
    topic = "metadata.spark"
    broker.topic(topic, 2)
    send(broker, topic)
    told = {"metadata": METADATA}
    mine = local.read_kafka(
        broker.servers, topic, "debezium-json", SCHEMA, changes="append", **told
    )
    given = (spark, broker.servers, topic, "debezium-json", SCHEMA)
    for name, sql in (("rows", QUERY), ("counts", COUNTS)):
        out = al.sql(
            sql,
            t=al.read_kafka(*given, **told),
            input_changes="append",
            backend="python",
            buckets=1,
        )
        query = al.write_changes(out, "table", tmp_path / name)
        al.await_end(query)
        found = al.read_table(tmp_path / name).to_pylist()
        expected = local.collect(local.sql(sql, t=mine, input_changes="append")).to_pylist()
        assert sorted(map(str, found)) == sorted(map(str, expected))
        assert len(found) == (11 if name == "rows" else 7)
    batch = al.read_kafka(*given, streaming=False, **told)
    assert batch.columns == [
        *(part.split()[0].strip("`") for part in SCHEMA.split(", ")[:7]),
        "h",
        "shop",
        "sent",
        "db",
        "_change_type",
    ]
    assert {(row.o, row.p) for row in batch.collect()} == {(o, p) for o in range(6) for p in (0, 1)}


def test_what_spark_does_not_say(spark: Any, broker: Any, tmp_path: Path) -> None:
    broker.topic("metadata.none", 1)
    given = (spark, broker.servers, "metadata.none", "jsonl", "v INT, e INT")
    with pytest.raises(SpecError, match="'leader-epoch' Spark's connector does not say"):
        al.read_kafka(*given, metadata={"e": "leader-epoch"}, fetch="connector")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("{}")
    text = """CREATE TABLE t (id INT, p STRING METADATA FROM 'file.path')
      WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json'); SELECT * FROM t"""
    (job,), _ = jobs_of(Job(text, ()), tmp_path)
    with pytest.raises(SpecError, match="run with --engine local"):
        job.tables[0].frame(spark)
