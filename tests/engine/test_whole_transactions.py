"""Batches that cut no transaction of the database: random deliveries of what a played Debezium tells, and refusals."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest
from played_topics import ENDS, PlayedDebezium, PlayedTopics

from aggloom.errors import CheckpointError, DataError, SpecError
from aggloom.runtime.connectors.kafka.broker import TopicPlace
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.kafka.transactions.marks import TransactionMarks
from aggloom.runtime.connectors.kafka.transactions.planner import TransactionPlanner

SOURCE = KafkaSource(
    servers="h:1", topic=("shop.public.a", "shop.public.b"), transaction_topic=ENDS
)


class Reader:
    """A query that reads batches: its position, and the events of each transaction that it has seen, by table."""

    def __init__(self, topics: PlayedTopics) -> None:
        self.topics, self.position = topics, None
        self.seen: dict[str, dict[str, set[int]]] = {}
        self.rows: dict[TopicPlace, str] = {}
        """A row for each partition, which each event of it changes: the transaction that was the last to do so."""
        self.sizes: list[int] = []
        self.begin()

    def begin(self) -> None:
        """Start once more from the position, which the checkpoint has as text."""
        marks = TransactionMarks("debezium-json", None, "a test")
        self.planner, self._marks = TransactionPlanner(SOURCE, marks, "a test"), marks

    def batch(self, most: int | None = None) -> bool:
        """Read a batch; False if there is none."""
        planned = self.planner.plan(self.position, {}, most)
        size = 0
        for place, log in self.topics.logs.items():
            messages = [
                m for m in log if planned.starts.get(place, 0) <= m.at < planned.ends.get(place, 0)
            ]
            if place.topic in SOURCE.topics:
                size += len(messages)
                marks = self._marks.read_events(messages)
                for key, order in zip(*marks, strict=True):
                    if key is not None:
                        self.seen.setdefault(key, {}).setdefault(place.topic, set()).add(order)
                        self.rows[place] = key
        is_new = planned.ends != self.position
        self.position = dict(planned.ends)
        self.sizes.append(size)
        return is_new

    def check(self, debezium: PlayedDebezium, in_order: bool) -> None:
        """Compare what was seen with what was committed."""
        keys = []
        for name, counts in debezium.events.items():
            wanted = {
                f"shop.public.{table}": count for table, count in counts.items() if table in "ab"
            }
            key = debezium.key(name)
            has = {topic: len(orders) for topic, orders in self.seen.get(key, {}).items()}
            assert has in ({}, wanted), f"{key} is cut"
            if wanted:
                keys.append(bool(has))
        if in_order:
            assert keys == sorted(keys, reverse=True), "a commit was passed over"
        if in_order and not debezium.has_crashed:
            assert self.rows in debezium.states, "rows that were never so together"


@pytest.mark.parametrize("seed", range(40))
def test_no_batch_cuts_a_transaction(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over partitions that lag, events told twice, restarts and limits: all arrives at the end, and nothing in part."""
    rng = random.Random(seed)
    counts = {"shop.public.a": rng.randrange(1, 4), "shop.public.b": rng.randrange(1, 3)}
    topics = PlayedTopics({**counts, ENDS: rng.choice((1, 1, 2))}, rng)
    topics.install(monkeypatch)
    debezium = PlayedDebezium(topics, "ab", like_postgres=rng.random() < 0.5)
    debezium.snapshot(rng.randrange(30))
    reader = Reader(topics)
    in_order, most = len([p for p in topics.places if p.topic == ENDS]) == 1, rng.choice(
        (None, 5, 20)
    )
    for _ in range(rng.randrange(5, 20)):
        for _ in range(rng.randrange(4)):
            debezium.commit(rng.choices("abc", k=rng.choice((1, 2, 3, 12))))
        if rng.random() < 0.1:
            debezium.snapshot(2)
        if rng.random() < 0.15:
            debezium.crash(rng.randrange(1, 12))
        topics.arrive(0.5)
        if rng.random() < 0.3:
            reader.begin()
        if rng.random() < 0.2:
            reader.planner.stop_here()
        for _ in range(rng.randrange(4)):
            reader.batch(most)
            reader.check(debezium, in_order)
        if reader.planner._ends:
            reader.begin()
    topics.arrive()
    reader.begin()
    reader.planner.stop_here()
    while reader.batch(most):
        reader.check(debezium, in_order)
    reader.check(debezium, in_order)
    left = {p: topics.end(p) for p in topics.places if p.topic != ENDS}
    assert {p: at for p, at in (reader.position or {}).items() if p.topic != ENDS} == left
    if most is not None:
        assert max(reader.sizes) <= max(most, 200)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedTopics:
    topics = PlayedTopics({"shop.public.a": 1, "shop.public.b": 1, ENDS: 1}, random.Random(1))
    topics.install(monkeypatch)
    return topics


def test_a_transaction_longer_than_a_batch_is_one(played: PlayedTopics) -> None:
    """A batch grows for it, and has no more than it; others keep to the limit. Rows of a snapshot go before."""
    debezium = PlayedDebezium(played, "ab", like_postgres=True)
    debezium.snapshot(10)
    for tables in ("ab", "ab", "a" * 30 + "b" * 30, "a", "b"):
        debezium.commit(tables)
    played.arrive()
    reader = Reader(played)
    while reader.batch(4):
        reader.check(debezium, in_order=True)
    events = [size for size in reader.sizes if size]
    assert max(events[:-3]) <= 5 and 60 <= max(events) < 80
    assert sum(reader.sizes) == sum(len(played.logs[p]) for p in played.places if p.topic != ENDS)


def test_an_idle_table_costs_nothing(played: PlayedTopics) -> None:
    """Transactions of other tables are no batches, and each message is looked at once."""
    debezium = PlayedDebezium(played, "ab", like_postgres=False)
    debezium.commit("ab")
    played.arrive()
    reader = Reader(played)
    assert reader.batch()
    for _ in range(5):
        debezium.commit("c")
        played.arrive()
        assert not reader.batch()
    assert not reader.planner._window.transactions
    assert played.fetched == sum(map(len, played.logs.values()))
    debezium.commit("b")
    played.arrive()
    reader.begin()
    assert reader.batch()
    reader.check(debezium, in_order=True)


def _envelope(**parts: Any) -> dict[str, Any]:
    return {"op": "c", "before": None, "after": {"v": 1}, **parts}


def _mark(id: str, order: int) -> dict[str, Any]:
    return {"transaction": {"id": id, "total_order": order, "data_collection_order": order}}


def _end(id: str, **counts: int) -> dict[str, Any]:
    listed = [{"data_collection": f"public.{t}", "event_count": n} for t, n in counts.items()]
    return {
        "status": "END",
        "id": id,
        "event_count": sum(counts.values()),
        "data_collections": listed,
    }


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ([("a", _envelope())], r"topic shop.public.a, partition 0, offset 0 is a change without"),
        ([("a", _envelope(transaction=None))], "provide.transaction.metadata=true"),
        ([("a", _envelope(transaction={"id": "x"}))], "without its transaction"),
        ([("a", {"payload": _envelope()})], "let Debezium write new topics"),
        ([("a", "no envelope")], "offset 0 cannot be read .*Leave transaction_topic out"),
        ([("ends", {"status": "OPEN", "id": "x"})], "neither the beginning nor the end"),
        ([("ends", {"status": "END", "id": "x", "event_count": 2})], "with its counts"),
        # Events that were routed into a topic of another name.
        (
            [("a", _envelope(**_mark("x", 1))), ("ends", _end("x", other=1))],
            "has 1 events of transaction x, and its end in shop.transaction counts 0",
        ),
        # What was filtered, or deleted by retention: a later transaction shows that nothing more comes.
        (
            [
                ("a", _envelope(**_mark("x", 2))),
                ("ends", _end("x", a=2)),
                ("a", _envelope(**_mark("y", 1))),
                ("ends", _end("y", a=1)),
            ],
            "transaction x will never be whole: 1 of its 2 events in shop.public.a did not arrive",
        ),
        (
            [
                ("a", _envelope(**_mark("x", 1))),
                ("a", _envelope(**_mark("y", 1))),
                ("ends", _end("y", a=1)),
            ],
            "transaction x will never be whole: its end in shop.transaction did not arrive",
        ),
    ],
)
def test_what_cannot_be_decided_is_refused(
    sent: list[tuple[str, Any]], said: str, played: PlayedTopics
) -> None:
    for name, body in sent:
        played.send(ENDS if name == "ends" else f"shop.public.{name}", body)
    played.arrive()
    with pytest.raises(DataError, match=said):
        Reader(played).batch()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"transaction_topic": "transaction"}, "it is the topic to which Debezium writes"),
        ({"topic": "other.public.a"}, "which topic 'other.public.a' is not"),
        ({"topic": "shop.*", "pattern": True}, "name the topics"),
        ({"start": "latest"}, "begin at the earliest offsets"),
        ({"lost_data": "ignore"}, "keep the default"),
        ({"streaming": False}, "availableNow"),
        (
            {"properties": {"isolation.level": "read_uncommitted"}},
            "messages of aborted transactions",
        ),
        ({"fetch": "connector"}, 'pass fetch="workers"'),
    ],
)
def test_options_that_leave_transactions_open(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=re.escape(said)):
        replace(SOURCE, **more).check("table t")


def test_topics_that_do_not_say(played: PlayedTopics) -> None:
    """No topic of ends, topics that Kafka compacts, formats without marks, a checkpoint from before."""
    played.policy = "compact"
    with pytest.raises(
        SpecError, match=r"topic shop.public.a is compacted .*cleanup.policy=delete"
    ):
        Reader(played)
    played.policy = "delete"
    reader = Reader(played)
    with pytest.raises(CheckpointError, match="begun without transaction_topic"):
        reader.planner.plan({TopicPlace("shop.public.a", 0): 0}, {}, None)
    with pytest.raises(SpecError, match="is for debezium-json and debezium-avro"):
        TransactionMarks("canal-json", None, "table t")
    played.places = [place for place in played.places if place.topic != ENDS]
    with pytest.raises(SpecError, match=r"no topic 'shop.transaction' .*provide.transaction"):
        Reader(played)


def test_topics_that_debezium_names_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters that no topic has, and databases that some connectors leave out."""
    topics = PlayedTopics({"s.APP.my_table": 1, "s.transaction": 1}, random.Random(2))
    topics.install(monkeypatch)
    source = KafkaSource(servers="h:1", topic="s.APP.my_table", transaction_topic="s.transaction")
    marks = TransactionMarks("debezium-json", None, "a test")
    planner = TransactionPlanner(source, marks, "a test")
    topics.send("s.APP.my_table", _envelope(**_mark("5.6.641", 1)))
    end = _end("5.6.641")
    end["data_collections"] = [{"data_collection": "ORCL.APP.my table", "event_count": 1}]
    topics.send("s.transaction", {**end, "event_count": 1})
    topics.arrive()
    place = TopicPlace("s.APP.my_table", 0)
    assert planner.plan(None, {}, None).ends[place] == topics.end(place) > 0


def test_a_wait_is_said(played: PlayedTopics, caplog: pytest.LogCaptureFixture) -> None:
    """A run that ends says what it leaves, once."""
    played.send("shop.public.a", _envelope(**_mark("x", 1)))
    played.send(ENDS, _end("x", a=1, b=2))
    played.arrive()
    reader = Reader(played)
    reader.planner.stop_here()
    assert reader.batch() and not reader.batch(), "the first says where reading begins"
    (said,) = caplog.messages
    assert "left for the next run" in said and "0 of 2 events in shop.public.b" in said


def test_what_debezium_tells_again_is_said(
    played: PlayedTopics, caplog: pytest.LogCaptureFixture
) -> None:
    """After a crash it repeats the end of what it has told; that is read, and holds up nothing."""
    debezium = PlayedDebezium(played, "ab", like_postgres=True)
    for _ in range(3):
        debezium.commit("ab")
    played.arrive()
    reader = Reader(played)
    assert reader.batch() and not reader.batch()
    # From the middle of the second transaction on.
    debezium.crash(6)
    debezium.commit("a")
    played.arrive()
    assert reader.batch() and not reader.batch()
    assert set(reader.seen) == {"700", "701", "702", "703"}
    (said,) = caplog.messages
    assert "has the end of transaction 701 once more" in said
