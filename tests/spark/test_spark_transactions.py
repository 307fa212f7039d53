"""Topics read by transactions on Spark, on a real broker: two tables as one source, whose batches cut none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bank_topics import TOTAL, TOTALS, Bank

import aggloom as al
from aggloom import local
from aggloom.errors import SpecError
from aggloom.move import move_checkpoint

pytest.importorskip("pyspark")


def read(spark: Any, bank: Bank, table: str, **more: Any) -> Any:
    told = {"keys": "id", "fetch": "workers", "transaction_topic": bank.ends, **more}
    return al.read_kafka(
        *(spark, bank.broker.servers, bank.topic(table), "debezium-json", "id INT, v INT"), **told
    )


def lines(out: Path) -> list[dict[str, Any]]:
    """The changes that a sink of lines has."""
    return [json.loads(line) for file in out.glob("**/part-*.json") for line in file.open()]


@pytest.mark.spark
def test_joined_tables_show_no_torn_total(spark: Any, broker: Any, tmp_path: Path) -> None:
    """Batches of few messages over restarts; a transaction that is open at the end is left for the next run."""
    bank = Bank(broker, "spark.bank")
    limit = {} if spark.version < "4.2" else {"max_messages_per_trigger": 8}
    for first, last in ((), ("a",)), (("b", "end"), ()):
        if first:
            bank.transfer(*first)
        for _ in range(12):
            bank.transfer()
        if last:
            bank.transfer(*last)
        bank.flush()
        tables = {name: read(spark, bank, name, **limit) for name in "ab"}
        out = al.sql(TOTALS, tables=tables, buckets=1, backend="python")
        query = al.write_changes(out, f"jsonl:{tmp_path / 'out'}", tmp_path / "state")
        al.await_end(query)
        batches = [each for each in query.recentProgress if each["numInputRows"]]
        assert not limit or len(batches) > 1
        assert {len(each["sources"]) for each in batches} == {1}
    changes = lines(tmp_path / "out")
    assert changes and {each["total"] for each in changes} == {TOTAL}
    position = json.loads(batches[-1]["sources"][0]["endOffset"])
    assert position[bank.ends] == {"0": 25}
    assert sum(position[bank.topic("a")].values()) == 5 + 25


@pytest.mark.spark
def test_tables_that_cannot_be_read_together(spark: Any, broker: Any) -> None:
    """A table of the connector without the option, one that is made from another, another format: refused by name."""
    bank = Bank(broker, "spark.refused")
    bank.flush()
    a, b = (read(spark, bank, name) for name in "ab")
    alone = read(spark, bank, "b", transaction_topic=None)
    for other, said in (
        (alone, "table b: its topic is of the connector whose transactions table a is read by"),
        (b.where("v > 0"), "table b: it is made from what read_kafka returned"),
        (
            read(spark, bank, "b", properties={"client.id": "x"}),
            "table b: it has the transaction_topic of table a, and other servers, properties",
        ),
    ):
        with pytest.raises(SpecError, match=said):
            al.sql(TOTALS, a=a, b=other, input_changes="upsert", keys={"a": ["id"], "b": ["id"]})
    with pytest.raises(SpecError, match=r'fetch="connector": .* pass fetch="workers"'):
        read(spark, bank, "a", fetch="connector")
    with pytest.raises(SpecError, match="transaction_topic is for debezium-json and debezium-avro"):
        al.read_kafka(
            *(spark, broker.servers, bank.topic("a"), "upsert-json", "id INT, v INT"),
            keys="id",
            transaction_topic=bank.ends,
        )


@pytest.mark.spark
def test_tables_that_are_read_together_move(spark: Any, broker: Any, tmp_path: Path) -> None:
    """From engine to engine, where one has a source for each table and the other one for both."""
    bank = Bank(broker, "moved.bank")
    told = {"keys": "id", "transaction_topic": bank.ends}
    about = ("debezium-json", "id INT, v INT")
    for number, engine in enumerate(("local", "spark", "local")):
        for _ in range(4):
            bank.transfer()
        bank.flush()
        place = tmp_path / str(number)
        if number:
            move_checkpoint(tmp_path / str(number - 1), place, engine)
        if engine == "local":
            a, b = (
                local.read_kafka(broker.servers, bank.topic(name), *about, changes="upsert", **told)
                for name in "ab"
            )
            result = local.sql(TOTALS, a=a, b=b, backend="python")
            local.await_end(local.write_changes(result, "table", place))
        else:
            frames = {name: read(spark, bank, name) for name in "ab"}
            out = al.sql(TOTALS, tables=frames, backend="python")
            al.await_end(al.write_changes(out, "table", place))
        totals = al.read_table(place).column("total").to_pylist()
        assert totals == [TOTAL] * 5
