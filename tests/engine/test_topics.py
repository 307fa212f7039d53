"""Topics of Kafka as sources of the local engine, on a real broker: plain Python adds up the same messages."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from engine_jobs import changes_in, rows_of_table, run_to_end

from aggloom.errors import CheckpointError, DataError, InputFormatError, SpecError
from aggloom.job import Job, complete
from aggloom.run_local import open_query
from aggloom.runtime.engine.checkpoint import LocalCheckpoint
from aggloom.tables import table_source

DDL = "id INT, v INT"
SUMS = "SELECT COUNT(*) AS n, SUM(v) AS s FROM t"


class Killed(Exception):
    """The end of a process, played."""


def _die(*_: Any, **__: Any) -> None:
    raise Killed


def job(broker: Any, checkpoint: Path, topic: str, sql: str = SUMS, **given: Any) -> Job:
    own = ("sink", "continuous", "key", "keep_open", "dialect")
    about = {name: given.pop(name) for name in own if name in given}
    told = {"connector": "kafka", "servers": broker.servers, "topic": topic, "schema": DDL}
    tables = (table_source("t", {**told, "format": "jsonl", **given}, "a test"),)
    entries = {"sql": sql, "tables": tables, "sink": "table", "backend": "python", **about}
    return complete({**entries, "checkpoint": checkpoint}, "a test")


def table_of(asked: Job) -> tuple[list[Any], Any]:
    """The rows of a job's table after a run, and the run's counts."""
    counts = run_to_end(asked).counts
    assert asked.checkpoint is not None
    return rows_of_table(asked.checkpoint), counts


def envelope(op: str, before: Any, after: Any) -> str:
    return json.dumps({"op": op, "before": before, "after": after})


def row(number: int, v: int) -> dict[str, int]:
    return {"id": number, "v": v}


def line(number: int, v: int, kind: str = "insert") -> str:
    return json.dumps({**row(number, v), "_change_type": kind})


def test_a_topic_of_changes(broker: Any, tmp_path: Path) -> None:
    broker.topic("local.orders", 2)
    key = [json.dumps({"id": n}) for n in range(5)]
    broker.send(
        "local.orders",
        (key[1], envelope("r", None, row(1, 10))),
        (key[2], envelope("c", None, row(2, 5))),
        (key[1], envelope("u", None, row(1, 11))),
        # A change of key: a deletion, a tombstone, an insertion.
        (key[2], envelope("d", row(2, 5), None)),
        (key[2], None),
        (key[3], envelope("c", None, row(3, 5))),
    )
    told = {"format": "debezium-json", "changes": "upsert", "keys": "id"}
    asked = job(broker, tmp_path / "c", "local.orders", **told)
    table, counts = table_of(asked)
    assert (table, counts.rows) == ([(2, 16)], 5), "the tombstone says nothing"
    broker.partitions("local.orders", 3)
    broker.send("local.orders", (key[4], envelope("c", None, row(4, 100)), 2))
    table, counts = table_of(asked)
    assert (table, counts.rows) == ([(3, 116)], 1)
    assert table_of(asked)[1].batches == 0
    broker.send(
        "local.orders", (key[4], "{broken", 2), (key[4], envelope("d", row(4, 100), None), 2)
    )
    with pytest.raises(InputFormatError, match=r"topic local.orders, partition 2, offset 1"):
        table_of(asked)
    drops = job(broker, tmp_path / "c", "local.orders", **told, unreadable="drop")
    table, counts = table_of(drops)
    assert (table, counts.refused) == ([(2, 16)], 1)


def test_where_reading_starts(broker: Any, tmp_path: Path) -> None:
    broker.topic("local.upserts", 1)
    broker.send("local.upserts", ("1", '{"id": 1, "v": 7}'), ("2", '{"id": 2, "v": 1}'))
    time.sleep(0.02)
    moment = int(time.time() * 1000)
    time.sleep(0.02)
    broker.send("local.upserts", ("1", None), ("3", '{"id": 3, "v": 4}'))
    told: dict[str, Any] = {"format": "upsert-json", "keys": "id"}
    for name, start, wanted in (
        ("earliest", {}, [(2, 5)]),
        ("offset", {"start": {0: 1}}, [(2, 5)]),
        ("first of all", {"start": {0: -2}}, [(2, 5)]),
        ("end", {"start": {0: -1}}, [(0, None)]),
        ("latest", {"start": "latest"}, [(0, None)]),
        ("time", {"start": moment}, [(1, 4)]),
        ("late", {"start": moment + 3_600_000}, [(0, None)]),
    ):
        asked = job(broker, tmp_path / name, "local.upserts", **told, **start)
        assert table_of(asked)[0] == wanted, name
    # From then on the checkpoint says where reading goes on.
    broker.send("local.upserts", ("5", '{"id": 5, "v": 50}'))
    latest = job(broker, tmp_path / "latest", "local.upserts", **told, start="latest")
    assert table_of(latest)[0] == [(1, 50)]
    pattern = {**told, "pattern": True}
    assert table_of(job(broker, tmp_path / "p", r"local\.up.*", **pattern))[0] == [(3, 55)]
    with pytest.raises(SpecError, match=r"start has offsets of local.upserts-0, local.upserts-7"):
        table_of(job(broker, tmp_path / "x", "local.upserts", **told, start={0: 2, 7: 0}))
    with pytest.raises(DataError, match="to be read from 99"):
        table_of(job(broker, tmp_path / "y", "local.upserts", **told, start={0: 99}))
    with pytest.raises(SpecError, match=r"librdkafka.*--engine spark"):
        own = {"properties": {"ssl.truststore.location": "t.jks"}}
        table_of(job(broker, tmp_path / "z", "local.upserts", **told, **own))


def test_messages_that_are_gone(broker: Any, tmp_path: Path) -> None:
    """A topic that is made anew; messages that are deleted, before a plan and after it; no topic."""
    from confluent_kafka import TopicPartition

    values = [line(number, 1) for number in range(3)]
    broker.topic("local.gone")
    broker.send("local.gone", *values)
    asked = job(broker, tmp_path / "a", "local.gone")
    assert table_of(asked)[0] == [(3, 3)]
    admin = broker.admin()
    admin.delete_topics(["local.gone"])["local.gone"].result()
    broker.again("local.gone")
    broker.send("local.gone", *values, *values)
    with pytest.raises(CheckpointError, match=r"topic local.gone was deleted and made again"):
        table_of(asked)
    ignores = job(broker, tmp_path / "a", "local.gone", lost_data="ignore")
    assert table_of(ignores)[0] == [(6, 6)]
    planned = job(broker, tmp_path / "b", "local.gone")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalCheckpoint, "commit", _die)
        with pytest.raises(Killed):
            table_of(planned)
    admin.delete_records([TopicPartition("local.gone", 0, 2)])[
        TopicPartition("local.gone", 0)
    ].result()
    with pytest.raises(DataError, match=r"local.gone-0 has no offset 0 any more.*lost_data"):
        table_of(planned)
    with pytest.raises(DataError, match=r"Kafka does not have .*local.gone-0.*lost_data"):
        table_of(job(broker, tmp_path / "c", "local.gone", start={0: 1}))
    assert table_of(job(broker, tmp_path / "d", "local.gone"))[0] == [(4, 4)]
    with pytest.raises(SpecError, match="there is no topic 'never' at"):
        table_of(job(broker, tmp_path / "e", "never"))


def test_a_position_of_another_source_is_refused(broker: Any, tmp_path: Path) -> None:
    broker.topic("local.moved")
    broker.send("local.moved", line(1, 1))
    table_of(job(broker, tmp_path / "a", "local.moved"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1, "v": 1}\n')
    files = {"path": str(tmp_path / "in"), "format": "jsonl", "schema": DDL}
    told = {"sql": SUMS, "sink": "table", "backend": "python"}
    tables = (table_source("t", files, "a test"),)
    other = complete({**told, "tables": tables, "checkpoint": tmp_path / "a"}, "a test")
    with pytest.raises(CheckpointError, match="another kind of source"):
        run_to_end(other)


@pytest.fixture
def producer(broker: Any) -> Iterator[Any]:
    from confluent_kafka import Producer

    made = Producer(
        {"bootstrap.servers": broker.servers, "transactional.id": "local", "linger.ms": 0}
    )
    made.init_transactions(30)
    yield made


def test_transactions(broker: Any, producer: Any, tmp_path: Path) -> None:
    """Marks at the end of a range do not hang; aborted messages are not there; open ones are waited for."""
    broker.topic("local.whole", 2)

    def send(values: range, commits: bool | None) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce("local.whole", line(value, value), partition=value % 2)
        producer.flush(30)
        if commits is not None:
            (producer.commit_transaction if commits else producer.abort_transaction)(30)

    send(range(4), True)
    asked = job(broker, tmp_path / "a", "local.whole")
    began = time.monotonic()
    assert table_of(asked)[0] == [(4, 6)]
    send(range(100, 110), False)
    # Nothing but an aborted transaction is new.
    table, counts = table_of(asked)
    assert (table, counts.rows) == ([(4, 6)], 0)
    send(range(10, 14), None)
    table, counts = table_of(asked)
    assert (table, counts.batches) == ([(4, 6)], 0)
    producer.commit_transaction(30)
    assert table_of(asked)[0] == [(8, 6 + 46)]
    uncommitted = job(
        broker, tmp_path / "b", "local.whole", properties={"isolation.level": "read_uncommitted"}
    )
    assert table_of(uncommitted)[0] == [(18, 6 + 46 + sum(range(100, 110)))]
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("seed", range(2))
def test_each_message_once(seed: int, broker: Any, producer: Any, tmp_path: Path) -> None:
    """Random messages in and out of transactions, batches of few messages, kills after the sink, new partitions."""
    rng, topic = random.Random(seed), f"local.each.{seed}"
    broker.topic(topic, 2)
    counts: Counter[int] = Counter()
    sums: Counter[int] = Counter()
    live: list[tuple[int, int]] = []
    partitions, sql = 2, "SELECT id, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY id"
    for step in range(6):
        some = []
        for _ in range(rng.choice((0, 3, 40))):
            # A retraction is in the partition of its row, behind it.
            if live and rng.random() < 0.3:
                number, v = live.pop(rng.randrange(len(live)))
                some.append((number, v, "delete"))
            else:
                number, v = rng.randrange(8), rng.randrange(100)
                live.append((number, v))
                some.append((number, v, "insert"))
        producer.begin_transaction()
        for number, v, kind in some:
            producer.produce(topic, line(number, v, kind), partition=number % 2)
            counts[number] += 1 if kind == "insert" else -1
            sums[number] += v if kind == "insert" else -v
        producer.commit_transaction(30)
        producer.begin_transaction()
        producer.produce(topic, line(0, 1_000_000))
        producer.flush(30)
        producer.abort_transaction(30)
        if step == 3:
            partitions += 1
            broker.partitions(topic, partitions)
        more = {"max_messages_per_trigger": 7, "sink": f"jsonl:{tmp_path / 'out'}"}
        asked = job(broker, tmp_path / "state", topic, sql, **more)
        with pytest.MonkeyPatch.context() as patch:
            if rng.random() < 0.6:
                patch.setattr(LocalCheckpoint, "commit", _die)
            with suppress(Killed):
                run_to_end(asked)
        run_to_end(asked)
        rows: Counter[tuple[int, int, int]] = Counter()
        for each in changes_in(tmp_path / "out"):
            back = each["_change_type"] in ("delete", "update_preimage")
            rows[each["id"], each["n"], each["s"]] += -1 if back else 1
            assert min(rows.values()) >= 0
        wanted = {(n, counts[n], sums[n]) for n in counts if counts[n]}
        assert {each for each, times in rows.items() if times} == wanted


def test_batches_and_order(broker: Any, tmp_path: Path) -> None:
    """Limits by trigger, large ranges in blocks, and the order within and among partitions."""
    broker.topic("local.many", 3)
    sent = [(None, line(n, n), n % 3) for n in range(3_000)]
    broker.send("local.many", *sent)
    sink = f"jsonl:{tmp_path / 'out'}"
    told = {"max_messages_per_trigger": 900, "sink": sink, "changes": "append"}
    counts = run_to_end(
        job(broker, tmp_path / "a", "local.many", "SELECT id FROM t", **told)
    ).counts
    assert (counts.rows, counts.batches) == (3_000, 4)
    ids = [each["id"] for each in changes_in(tmp_path / "out")]
    assert sorted(ids) == list(range(3_000))
    for part in range(3):
        own = [n for n in ids if n % 3 == part]
        assert own == sorted(own)
    assert ids[:300] == list(range(0, 900, 3)), "partition after partition in a batch"


def test_a_query_that_goes_on(broker: Any, tmp_path: Path) -> None:
    """New messages, and a topic that a pattern finds later."""
    broker.topic("local.goes.a")
    broker.send("local.goes.a", line(1, 1))
    asked = job(broker, tmp_path / "a", r"local\.goes\..", pattern=True, continuous=True)
    query = open_query(asked, tmp_path / "a")
    assert query.run_batch() and not query.run_batch()
    broker.send("local.goes.a", line(2, 10))
    assert query.run_batch() and not query.run_batch()
    broker.topic("local.goes.b")
    broker.send("local.goes.b", line(3, 100))
    end = time.monotonic() + 90
    while not query.run_batch():
        assert time.monotonic() < end
        time.sleep(0.1)
    query.close()
    assert rows_of_table(tmp_path / "a") == [(3, 111)]


def test_a_topic_that_was_compacted(broker: Any, tmp_path: Path) -> None:
    """Offsets that are not there any more are passed over; the planned range ends where it did."""
    eager = {"segment.ms": "50", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0"}
    broker.topic("local.compact", 1, **{"cleanup.policy": "compact", **eager})
    for v in range(4):
        broker.send("local.compact", *[(str(n), json.dumps(row(n, v))) for n in range(5)])
        time.sleep(0.1)
    broker.send("local.compact", ("9", json.dumps(row(9, 1))))
    end = time.monotonic() + 60
    while len(broker.read("local.compact")) >= 21:
        assert time.monotonic() < end, "the broker has not compacted its topic"
        time.sleep(0.2)
    asked = job(broker, tmp_path / "a", "local.compact", format="upsert-json", keys="id")
    table, counts = table_of(asked)
    assert table == [(6, 5 * 3 + 1)]
    assert counts.rows < 21


def test_a_broker_that_goes_and_comes_back(tmp_path: Path) -> None:
    import kafka

    with kafka.broker() as own:
        own.topic("local.back")
        own.send("local.back", line(1, 1))
        query = open_query(job(own, tmp_path / "a", "local.back", continuous=True), tmp_path / "a")
        running = Thread(target=query.run)
        running.start()
        own.stop(signal.SIGKILL)
        own.start()
        own.send("local.back", line(2, 10))
        end = time.monotonic() + 60
        while query.counts.rows < 2:
            assert running.is_alive()
            assert time.monotonic() < end
            time.sleep(0.1)
        query.stop()
        running.join()
        query.close()
    assert rows_of_table(tmp_path / "a") == [(2, 11)]


def test_the_door_in_python(broker: Any) -> None:
    from aggloom import local

    broker.topic("local.door")
    broker.send("local.door", ("1", '{"id": 1, "v": 7}'), ("2", '{"id": 2, "v": 1}'), ("1", None))
    table = local.read_kafka(broker.servers, "local.door", "upsert-json", DDL, ["id"])
    assert local.collect(local.sql(SUMS, t=table)).to_pylist() == [{"n": 1, "s": 1}]
    later = local.read_kafka(broker.servers, "local.door", "upsert-json", DDL, "id", start={0: 1})
    assert local.collect(local.sql("SELECT id FROM t", t=later)).to_pylist() == [{"id": 2}]


def test_windows_of_a_topic_stay_open(broker: Any, tmp_path: Path) -> None:
    broker.topic("local.times")
    moments = ["2026-01-01 00:00:01", "2026-01-01 00:00:02", "2026-01-01 00:00:25"]
    broker.send("local.times", *[json.dumps({"id": 1, "at": each}) for each in moments])
    sql = (
        "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND)) "
        "GROUP BY window_start, window_end"
    )
    told = {"schema": "id INT, at TIMESTAMP", "watermark": "at 5 seconds", "changes": "append"}
    asked = job(broker, tmp_path / "a", "local.times", sql, dialect="flink", **told)
    run_to_end(asked)
    broker.send("local.times", json.dumps({"id": 1, "at": "2026-01-01 00:00:26"}))
    run_to_end(asked)
    broker.send("local.times", json.dumps({"id": 1, "at": "2026-01-01 00:00:41"}))
    run_to_end(asked)
    broker.send("local.times", json.dumps({"id": 1, "at": "2026-01-01 00:00:42"}))
    run_to_end(asked)
    assert [n for _, n in rows_of_table(tmp_path / "a")] == [2, 2]
