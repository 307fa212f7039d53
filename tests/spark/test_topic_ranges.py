"""Topics fetched in workers: Spark's part of the protocol is played, then Spark itself goes on with either reader."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import rows_of_table, run_to_end

import aggloom as al
from aggloom.errors import CheckpointError, DataError, SpecError
from aggloom.job import complete
from aggloom.runtime.connectors.kafka import fetch as fetching
from aggloom.runtime.connectors.kafka.broker import TopicPlace
from aggloom.runtime.connectors.kafka.clients import ColumnClient, ObjectClient
from aggloom.runtime.connectors.kafka.fetch import MessageFetcher, OffsetRange
from aggloom.runtime.connectors.kafka.offsets import (
    OffsetPlanner,
    cut_ranges,
    find_ranges,
    read_offsets,
    write_offsets,
)
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.kafka.reader_choice import describe_reader, find_connector_reason
from aggloom.tables import table_source

pytest.importorskip("pyspark")


def source_of(broker: Any, topic: str, **more: Any) -> KafkaSource:
    return KafkaSource(servers=broker.servers, topic=topic, **more)


class PlayedSpark:
    """A log of offsets, of which the last entry may be planned and not done, and the messages of each batch.

    knows_start: whether a source is told the offset that is asked from, as since Spark 4.2.
    """

    def __init__(self, source: KafkaSource, *, knows_start: bool) -> None:
        self.source, self.knows_start = source, knows_start
        self.offsets: list[Any] = []
        self.batches: list[list[tuple[int, int, bytes]]] = []
        self._objects = MessageFetcher(source, "a test")
        self._columns = MessageFetcher(source, "a test", {"partition", "offset"})

    def begin(self) -> None:
        """Start the query once more; a batch that was planned runs again, and has the same messages."""
        from aggloom.runtime.spark.read.topic_ranges import RangeStream

        self.stream = RangeStream(self.source, 3)
        if self.offsets:
            # Spark asks so when a query goes on.
            self.stream.partitions(self.offsets[-1], self.offsets[-1])
            again = self._read(self._start(len(self.offsets) - 1), self.offsets[-1])
            assert again == self.batches[-1]

    def batch(self) -> bool:
        """Plan and read a batch; False if nothing is new."""
        start = self._start(len(self.offsets))
        limit = self.stream.getDefaultReadLimit() if self.knows_start else None
        end = self.stream.latestOffset(start, limit) if limit else self.stream.latestOffset()
        if json.dumps(end) == json.dumps(start):
            return False
        self.offsets.append(json.loads(json.dumps(end)))
        self.batches.append(self._read(start, end))
        return True

    def _start(self, number: int) -> Any:
        return self.offsets[number - 1] if number else self.stream.initialOffset()

    def _read(self, start: Any, end: Any) -> list[tuple[int, int, bytes]]:
        found, in_columns = [], list[tuple[int, int, bytes]]()
        for each in self.stream.partitions(start, end):
            ((text,),) = self.stream.read(each)
            ranges = [OffsetRange(TopicPlace(t, p), a, b) for t, p, a, b in json.loads(text)]
            for block in self._objects.fetch_objects(ranges):
                found += [(m.partition(), m.offset(), m.value()) for m in block]
            for some in self._columns.fetch(ranges):
                places = some.read_fact("partition"), some.read_fact("offset")
                in_columns += zip(*places, some.values, strict=True)
        assert in_columns == found
        return found

    @property
    def values(self) -> list[int]:
        """The values of all batches, each partition's in order."""
        messages = [message for batch in self.batches for message in batch]
        for partition in {message[0] for message in messages}:
            own = [offset for number, offset, _ in messages if number == partition]
            assert own == sorted(own)
        return sorted(int(value) for _, _, value in messages)


@pytest.fixture
def played(broker: Any) -> Iterator[Any]:
    def play(topic: str, *, knows_start: bool = True, **more: Any) -> PlayedSpark:
        made = PlayedSpark(source_of(broker, topic, **more), knows_start=knows_start)
        made.begin()
        return made

    yield play


@pytest.mark.parametrize("room", [64 << 20, 200_000])
def test_messages_in_columns_are_those_of_objects(
    broker: Any, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Values and keys that are not there, are empty, long, or have ends of lines in them; facts, and places.

    room: bytes that may wait for those of partitions before them.
    """
    if is_tight := room < 1 << 20:
        monkeypatch.setattr(fetching, "AT_ONCE", 100)
        monkeypatch.setattr(fetching, "_KEPT_BYTES", room)
    rng, topic = random.Random(3), broker.topic(f"ranges.columns.{room}", 3)
    texts = (None, b"", b"x", b"\n", b"a\nb\n", b"0123456789ab", b"0123456789abc", b"\x00" * 70_000)
    producer = broker.producer()
    for number in range(3_000):
        # At first nothing is odd, as is usual.
        both = rng.choices(texts if number > 1_000 else (b"{}", b'{"id": 7}'), k=2)
        producer.produce(topic, *both, partition=rng.randrange(3))
        producer.poll(0)
    assert producer.flush(60) == 0
    source = source_of(broker, topic)
    planned = OffsetPlanner(source, "a test").plan_whole()
    ranges = [OffsetRange(place, 5, end - 5) for place, end in sorted(planned.ends.items())]
    objects = chain.from_iterable(MessageFetcher(source, "a test").fetch_objects(ranges))
    expected = [(m.value(), m.key(), m.topic(), m.partition(), m.offset()) for m in objects]
    fetcher = MessageFetcher(source, "a test", {"offset"})
    assert isinstance(fetcher._client, ColumnClient)
    found, places, assigned = [], [], list[int]()
    assign = fetcher._assign
    monkeypatch.setattr(
        fetcher, "_assign", lambda parts: (assigned.append(len(parts)), assign(parts))
    )
    # A range may be read once more by the same client.
    for block in [*fetcher.fetch(ranges), *fetcher.fetch(ranges)]:
        facts = map(block.read_fact, ("topic", "partition", "offset"))
        found += zip(block.values, [each.key for each in block], *facts, strict=True)
        places += [block[at].place for at in range(len(block))]
        assert [each.key for each in block[:2]] == [block[at].key for at in range(len(block))][:2]
    assert found == 2 * expected
    assert ((1 in assigned[:3]) and (2 in assigned)) == is_tight
    assert places[-1] == "topic {}, partition {}, offset {}".format(*expected[-1][2:])
    # What a topic says besides is told by objects, and so are settings that the library does not know.
    assert isinstance(MessageFetcher(source, "a test", {"timestamp"})._client, ObjectClient)
    with pytest.raises(SpecError, match="properties are not those of librdkafka"):
        MessageFetcher(replace(source, properties={"no.such": 1}), "a test", ())


@pytest.mark.parametrize("knows_start", [True, False], ids=["4.2", "4.1"])
def test_each_message_once_over_restarts(knows_start: bool, broker: Any, played: Any) -> None:
    """Random messages in and out of transactions, new partitions, restarts before and after a batch is done."""
    from confluent_kafka import Producer

    rng, topic = random.Random(7 + knows_start), f"ranges.once.{knows_start}"
    broker.topic(topic, 2)
    told = {"bootstrap.servers": broker.servers, "transactional.id": topic, "linger.ms": 0}
    producer = Producer(told)
    producer.init_transactions(30)
    limits = {"max_messages_per_trigger": 9} if knows_start else {}
    spark, sent, partitions = played(topic, knows_start=knows_start, **limits), list[int](), 2
    for step in range(8):
        producer.begin_transaction()
        for _ in range(rng.choice((0, 3, 30))):
            sent.append(len(sent))
            producer.produce(topic, str(sent[-1]), partition=rng.randrange(2))
        producer.commit_transaction(30)
        producer.begin_transaction()
        producer.produce(topic, b"-1")
        producer.flush(30)
        producer.abort_transaction(30)
        if step in (2, 5):
            partitions += 1
            broker.partitions(topic, partitions)
            # A planner looks for new partitions once a second.
            spark.begin()
        for number in range(2, partitions):
            sent.append(len(sent))
            broker.send(topic, (None, str(sent[-1]), number))
        for _ in range(rng.randrange(4)):
            spark.batch()
        if rng.random() < 0.5:
            spark.begin()
    spark.begin()
    while spark.batch():
        pass
    assert spark.values == sent
    if knows_start:
        assert max(map(len, spark.batches)) <= 9 + partitions


@pytest.mark.parametrize("knows_start", [True, False], ids=["4.2", "4.1"])
def test_a_first_batch_begins_where_it_did(knows_start: bool, broker: Any, played: Any) -> None:
    """A batch that runs again before anything is done begins at the same offset, whatever has come or gone since."""
    for number, (start, wanted) in enumerate(
        [
            ("earliest", [1, 2, 3]),
            ("latest", [3]),
            ({0: 1}, [2, 3]),
            ({0: -2}, [1, 2, 3]),
            ({0: -1}, [3]),
            ("behind", [3]),
            ("far behind", [3]),
        ]
    ):
        name = f"ranges.first.{knows_start}.{number}"
        broker.topic(name, 1)
        broker.send(name, "1", "2")
        given: Any = start
        if isinstance(start, str) and "behind" in start:
            time.sleep(0.02)
            given = int(time.time() * 1000) + (3_600_000 if "far" in start else 0)
            time.sleep(0.02)
        spark = played(name, knows_start=knows_start, start=given)
        spark.batch()
        spark.begin()
        broker.send(name, "3")
        spark.begin()
        spark.batch()
        assert spark.values == wanted, start
        assert not spark.batch()


def test_available_now(broker: Any, played: Any) -> None:
    """Messages that come after the start of such a run are left for the next, whatever the limits."""
    broker.topic("ranges.now", 1)
    broker.send("ranges.now", *map(str, range(10)))
    spark = played("ranges.now", max_messages_per_trigger=4)
    spark.stream.prepareForTriggerAvailableNow()
    broker.send("ranges.now", *map(str, range(10, 20)))
    while spark.batch():
        pass
    assert (spark.values, len(spark.batches)) == (list(range(10)), 3)
    spark.begin()
    while spark.batch():
        pass
    assert spark.values == list(range(20))


def test_what_is_gone(broker: Any, played: Any) -> None:
    """Deleted messages, a topic made again under way, and no topic: refused, or passed over where that is asked."""
    from confluent_kafka import TopicPartition

    broker.topic("ranges.gone")
    broker.send("ranges.gone", *map(str, range(6)))
    strict = played("ranges.gone", max_messages_per_trigger=2)
    lenient = played("ranges.gone", max_messages_per_trigger=2, lost_data="ignore")
    assert strict.batch() and lenient.batch()
    place = TopicPartition("ranges.gone", 0, 4)
    admin = broker.admin()
    admin.delete_records([place])[place].result()
    with pytest.raises(
        DataError, match=r"ranges.gone-0 has offsets 4 to 6.*read from 2.*lost_data"
    ):
        strict.batch()
    while lenient.batch():
        pass
    assert lenient.values == [0, 1, 4, 5]
    with pytest.raises(SpecError, match=r"there is no topic 'ranges.never'"):
        played("ranges.never").batch()
    with pytest.raises(CheckpointError, match="another kind of source"):
        strict.stream.latestOffset({"table": "x", "version": 3}, None)
    again = played("ranges.gone")
    assert again.batch()
    admin.delete_topics(["ranges.gone"])["ranges.gone"].result()
    broker.again("ranges.gone")
    broker.send("ranges.gone", *map(str, range(9)))
    again.stream._planner._refreshed_at = float("-inf")
    with pytest.raises(CheckpointError, match=r"ranges.gone was deleted and made again"):
        again.batch()


def test_offsets_are_those_of_the_connector() -> None:
    a, b = TopicPlace("a.b", 0), TopicPlace("a.b", 11)
    kept = write_offsets({a: 5, b: 7}, {a: 0, b: 3})
    assert kept == {"a.b": {"0": 5, "11": 7, "-12": 3}}
    assert read_offsets(kept, "a test") == ({a: 5, b: 7}, {b: 3})
    assert find_ranges({}, kept, "a test") == [OffsetRange(a, 0, 5), OffsetRange(b, 3, 7)]
    assert find_ranges(kept, {"a.b": {"0": 6, "11": 7, "2": 1}}, "a test") == [
        OffsetRange(a, 5, 6),
        OffsetRange(TopicPlace("a.b", 2), 0, 1),
        OffsetRange(b, 7, 7),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_tasks_have_all_messages_in_order(seed: int) -> None:
    rng = random.Random(seed)
    ranges = [
        OffsetRange(TopicPlace("t", number), at := rng.randrange(50), at + rng.choice((0, 1, 70)))
        for number in range(rng.randrange(6))
    ]
    most, least = rng.randrange(1, 6), rng.randrange(1, 40)
    tasks = list(cut_ranges(ranges, most, least))
    assert 1 <= len(tasks) <= most
    assert [(p, n) for task in tasks for p, a, b in task for n in range(a, b)] == [
        (p, n) for p, a, b in ranges for n in range(a, b)
    ]
    sizes = [sum(b - a for _, a, b in task) for task in tasks]
    assert all(size >= least for size in sizes[:-1])
    assert max(sizes) <= max(least, -(-sum(sizes) // most))


def test_who_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each case that stays with the connector says why; what workers are told to do and cannot is refused."""
    from aggloom.runtime.connectors.kafka import reader_choice

    def reason(is_cluster: bool = False, **more: Any) -> str | None:
        source = KafkaSource(servers="h:1", topic="t", **more)
        return find_connector_reason(source, "read_kafka", is_cluster=is_cluster)

    assert reason() is None
    assert reason(properties={"isolation.level": "read_uncommitted"}) is None
    assert "Java's client" in str(reason(properties={"security.protocol": "SSL"}))
    assert reason(properties={"security.protocol": "SSL"}, fetch="workers") is None
    assert "confluent-kafka" in str(reason(is_cluster=True))
    assert reason(is_cluster=True, fetch="workers") is None
    assert reason(fetch="connector") == 'fetch is "connector"'
    monkeypatch.setattr(reader_choice, "version", lambda _: "4.1.3")
    limited = {"max_messages_per_trigger": 5}
    assert "Spark 4.2" in str(reason(**limited))
    with pytest.raises(SpecError, match=r'fetch is "workers": max_messages.* Spark 4.2'):
        reason(fetch="workers", **limited)
    assert reason(streaming=False, **limited) is None
    monkeypatch.setattr(reader_choice, "find_spec", lambda _: None)
    assert "pip install" in str(reason())
    source = KafkaSource(servers="h:1", topic="t")
    assert describe_reader(source, "t").startswith("t: read by Spark's connector: the package")
    whole = replace(source, topic="s.t", transaction_topic="s.transaction")
    assert "not read, for transaction_topic needs workers" in describe_reader(whole, "t")
    with pytest.raises(SpecError, match="transaction_topic needs workers that fetch: the package"):
        find_connector_reason(whole, "read_kafka", is_cluster=False)
    monkeypatch.setattr(reader_choice, "find_spec", lambda name: name)
    said = describe_reader(whole, "t")
    assert "in batches of whole transactions by s.transaction; on a cluster with fetch=" in said
    with pytest.raises(SpecError, match="fetch is 'worker'; known are auto, workers, connector"):
        KafkaSource(servers="h:1", topic="t", fetch="worker").check("read_kafka")


def test_a_plan_says_who_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aggloom.job import Job
    from aggloom.job_frames import settings_of
    from aggloom.job_plan import explain_job
    from aggloom.script import jobs_of

    text = """CREATE TABLE t (id INT, v INT) WITH ('connector' = 'kafka', 'topic' = 'x', 'format' = 'json',
      'properties.bootstrap.servers' = 'h:1', 'fetch' = 'connector', 'scan.startup.mode' = 'earliest-offset');
      SELECT id, SUM(v) AS s FROM t GROUP BY id"""
    (job,), _ = jobs_of(Job(text, ()), tmp_path)
    assert explain_job(job).endswith(
        'topics on Spark\n  t: read by Spark\'s connector: fetch is "connector"\n'
    )
    assert "topics on Spark" not in explain_job(job, on_spark=False)
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    assert set(settings_of([job])) == {"spark.jars.packages"}
    (job,), _ = jobs_of(Job(text.replace("'fetch' = 'connector', ", ""), ()), tmp_path)
    assert settings_of([job]) == {}, "nothing is downloaded that nobody reads with"


def test_what_waits_is_told_by_offsets() -> None:
    from aggloom.runtime.spark.watch.records import _lag

    def source(end: Any, last: Any) -> dict[str, Any]:
        return {"metrics": {}, "endOffset": json.dumps(end), "latestOffset": json.dumps(last)}

    topics = source({"a": {"0": 5, "-1": 2}}, {"a": {"0": 9, "1": 3}, "b": {"0": 1}})
    assert _lag([topics, topics]) == {"offsets": 16}
    assert _lag([source({"table": "x", "version": 1}, None), source(None, 3)]) == {}


SUMS = "SELECT id, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY id"
WINDOWS = (
    "SELECT window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND)) "
    "GROUP BY window_start, window_end"
)


def run(spark: Any, broker: Any, place: Path, sql: str, fetch: str, **more: Any) -> list[Any]:
    told = {"format": "jsonl", "schema": "id INT, v INT, at TIMESTAMP, ms BIGINT"} | more
    time = told.pop("time", "at")
    df = al.read_kafka(spark, broker.servers, fetch=fetch, **told)
    moves = (
        {"watermarks": {"t": (time, "1 s")}, "input_changes": "append"} if "TUMBLE" in sql else {}
    )
    out = al.sql(sql, t=df, buckets=1, backend="python", dialect="flink", **moves)
    plan = out._jdf.queryExecution().toString()
    assert ("PackRanges" in plan) == (fetch == "workers")
    query = al.write_changes(out, "table", place)
    al.await_end(query)
    return sorted(tuple(each.values()) for each in al.read_table(place).to_pylist())


def run_locally(broker: Any, place: Path, sql: str, **given: Any) -> list[Any]:
    told = {"connector": "kafka", "servers": broker.servers, "format": "jsonl", "changes": "append"}
    tables = (table_source("t", {**told, "watermark": "at 1 second", **given}, "a test"),)
    entries = {"sql": sql, "tables": tables, "sink": "table", "backend": "python"}
    run_to_end(complete({**entries, "dialect": "flink", "checkpoint": place}, "a test"))
    return rows_of_table(place)


def send(broker: Any, topic: str, numbers: Iterable[int]) -> None:
    rows = []
    for n in numbers:
        at = f"2026-01-01 00:00:{n:02}"
        rows.append({"id": n % 3, "v": n, "at": at, "ms": 1_767_225_600_000 + 1000 * n})
    broker.send(topic, *[(None, json.dumps(row), row["v"] % 2) for row in rows])


@pytest.mark.spark
def test_a_checkpoint_goes_on_with_either_reader(spark: Any, broker: Any, tmp_path: Path) -> None:
    """The log of offsets is the same; but a first batch of the connector's that is not done is its own."""
    broker.topic("ranges.either", 2)
    done = 0
    for upto, fetch in ((9, "connector"), (18, "workers"), (25, "connector"), (31, "workers")):
        send(broker, "ranges.either", range(done, upto))
        done = upto
        found = run(spark, broker, tmp_path / "a", SUMS, fetch, topic="ranges.either")
        wanted = [[n for n in range(done) if n % 3 == id] for id in range(3)]
        assert found == [(id, len(own), sum(own)) for id, own in enumerate(wanted)], fetch
        if fetch == "connector" and upto == 9:
            shutil.copytree(tmp_path / "a", tmp_path / "b")
    for file in (tmp_path / "b" / "commits").glob("*0*"):
        file.unlink()
    with pytest.raises(CheckpointError, match=r'first batch was begun by Spark.*fetch="connector"'):
        run(spark, broker, tmp_path / "b", SUMS, "workers", topic="ranges.either")


@pytest.mark.spark
def test_rows_with_a_watermark(spark: Any, broker: Any, tmp_path: Path) -> None:
    """Windows close as with the connector and on the local engine, over a restart; a time may be computed.

    A partition is idle, some rows are late; rows that the query drops, and of which it reads no time, move time, too.
    """
    broker.topic("ranges.times", 3)
    told = {"topic": "ranges.times", "unreadable": "drop"}
    kept = "CREATE VIEW w AS SELECT * FROM t WHERE v < 47; " + WINDOWS.replace("TABLE t", "TABLE w")
    computed = kept.replace("SELECT *", "SELECT v, TO_TIMESTAMP_LTZ(ms, 3) AS at")
    for numbers in (range(24), [*range(3, 6), *range(22, 49)]):
        send(broker, "ranges.times", numbers)
        broker.send("ranges.times", (None, "{broken", 1))
        workers, timed, connector = (
            run(spark, broker, tmp_path / name, sql, fetch, time=time, **told)
            for name, sql, fetch, time in (
                ("workers", kept, "workers", "at"),
                ("computed", computed, "workers", "TO_TIMESTAMP_LTZ(ms, 3)"),
                ("connector", kept, "connector", "at"),
            )
        )
        schema = "id INT, v INT, at TIMESTAMP"
        local = run_locally(broker, tmp_path / "local", kept, schema=schema, **told)
        assert workers == timed == connector == local
    assert [n for _, n, _ in workers] == [10, 10, 12, 10]
    batch = al.read_kafka(
        *(spark, broker.servers, "ranges.times", "jsonl", "id INT, v INT"),
        streaming=False,
        unreadable="drop",
        start={0: 2, 1: 0, 2: 0},
        end={0: 5, 1: 3, 2: 0},
    )
    assert sorted(row.v for row in batch.collect()) == [1, 3, 4, 5, 6, 8]
