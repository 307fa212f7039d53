"""debezium-avro on Spark: a topic whose schema changes, poison in a side table, a registry that goes and comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from avro_events import DDL, FIELDS, KEY, row
from schema_registry import envelope, event, serving

from aggloom.errors import SchemaRegistryError
from tests.spark.test_spark_kafka import run

pytestmark = pytest.mark.spark


def test_a_topic_in_avro(
    spark: Any, broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    topic = broker.topic("avro", 1)
    with serving() as registry:
        number, key = registry.add(envelope(FIELDS)), registry.add(KEY, "avro-key")
        own = [registry.frame(key, {"id": n}) for n in range(3)]
        more = [*FIELDS[:2], {"name": "cnt", "type": "long"}, {"name": "x", "type": "string"}]
        wider = registry.add(envelope(more))
        broker.send(
            topic,
            (own[0], registry.frame(number, event("r", None, row(0, "a", 5)))),
            (own[1], registry.frame(number, event("c", None, row(1, "b", 7)))),
            (own[0], registry.frame(wider, event("u", None, {**row(0, "c", 50), "x": "y"}))),
            (own[1], registry.frame(number, event("d", row(1, "b", 7)))),
            (own[1], None),
            (own[2], b"\0broken"),
        )
        registry.login = "Bearer s3cret"
        told = {"topic": topic, "format": "debezium-avro", "schema": DDL, "unreadable": "side"}
        told["side"] = str(tmp_path / "side")
        address = {"url": registry.url, "attempts": 2, "token": "s3cret"}
        assert query(spark, broker, tmp_path, registry=address, **told) == ([(1, 50)], 1)
    kept = spark.read.parquet(str(tmp_path / "side")).collect()
    assert [(bytes(each.value), bytes(each.key)) for each in kept] == [(b"\0broken", own[2])]
    assert "has no schema" in kept[0].reason or "less than" in kept[0].reason
    broker.send(topic, (own[0], b"\0\0\0\0\x09x"))
    with pytest.raises(SchemaRegistryError, match=f"{registry.url}: cannot be reached"):
        query(spark, broker, tmp_path, registry=address, **told)
    assert "s3cret" not in "".join(
        path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()
    )


def query(spark: Any, broker: Any, place: Path, **told: Any) -> tuple[list[Any], int]:
    """The table over the topic so far, and how many messages this run refused."""
    sql = "SELECT COUNT(*) AS n, SUM(cnt) AS s FROM t"
    table, counts = run(spark, broker, place / "c", sql, **told)
    return table, counts.refused
