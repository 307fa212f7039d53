"""Topics of a Debezium that is played: what it tells of transactions, when it arrives, and a client that reads it."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from aggloom.runtime.connectors.kafka import offsets
from aggloom.runtime.connectors.kafka.broker import TopicFacts, TopicPlace
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.kafka.transactions import planner

ENDS = "shop.transaction"


class Sent(NamedTuple):
    """A message as librdkafka's client gives it."""

    place: TopicPlace
    at: int
    body: bytes | None

    def topic(self) -> str:
        return self.place.topic

    def partition(self) -> int:
        return self.place.partition

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes | None:
        return self.body


class PlayedTopics:
    """Partitions that have messages, and messages that are on their way to them, in order of each partition."""

    def __init__(self, partitions: dict[str, int], rng: random.Random) -> None:
        self.rng = rng
        self.places = [TopicPlace(t, p) for t, n in partitions.items() for p in range(n)]
        self.logs: dict[TopicPlace, list[Sent]] = {place: [] for place in self.places}
        self.lows = dict.fromkeys(self.places, 0)
        self.sent: dict[TopicPlace, deque[bytes | None]] = {p: deque() for p in self.places}
        self.policy = "delete"
        self.fetched = 0

    def send(self, topic: str, body: Any, partition: int | None = None) -> None:
        """Send a message on its way, to any partition."""
        own = [place for place in self.places if place.topic == topic]
        place = self.rng.choice(own) if partition is None else own[partition]
        self.sent[place].append(None if body is None else json.dumps(body).encode())

    def arrive(self, share: float = 1.0) -> None:
        """Have messages arrive: of each partition a random part of those that were sent."""
        for place, sent in self.sent.items():
            for _ in range(len(sent) if share == 1 else self.rng.randrange(len(sent) + 1)):
                log = self.logs[place]
                # Marks of Kafka's own transactions leave gaps.
                at = (log[-1].at + 1 if log else 0) + (self.rng.random() < 0.1)
                log.append(Sent(place, at, sent.popleft()))

    def end(self, place: TopicPlace) -> int:
        """The offset behind a partition's last message."""
        log = self.logs[place]
        return log[-1].at + 1 if log else 0

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Put these topics in place of brokers."""
        topics = self

        class Broker:
            def __init__(self, source: KafkaSource, where: str) -> None:
                self.names = source.topics

            def topics(self) -> dict[str, TopicFacts]:
                own: dict[str, list[int]] = {}
                for place in topics.places:
                    own.setdefault(place.topic, []).append(place.partition)
                return {n: TopicFacts(n, tuple(own[n])) for n in self.names if n in own}

            def earliest(self, places: Sequence[TopicPlace]) -> dict[TopicPlace, int]:
                return {place: topics.lows[place] for place in places}

            def latest(self, places: Sequence[TopicPlace]) -> dict[TopicPlace, int]:
                return {place: topics.end(place) for place in places}

            def list_compacted(self, names: Sequence[str]) -> list[str]:
                return [name for name in names if topics.policy == "compact"]

        class Fetcher:
            def __init__(self, source: KafkaSource, where: str) -> None:
                pass

            def fetch_objects(self, ranges: Sequence[Any]) -> Iterator[list[Sent]]:
                block = [
                    each
                    for place, start, end in ranges
                    for each in topics.logs[place]
                    if start <= each.at < end
                ]
                topics.fetched += len(block)
                for at in range(0, len(block), 7):
                    yield block[at : at + 7]

        patch.setattr(offsets, "TopicBroker", Broker)
        patch.setattr(planner, "TopicBroker", Broker)
        patch.setattr(planner, "MessageFetcher", Fetcher)


class PlayedDebezium:
    """Tells topics of transactions, in the order of their commits; after a crash some of it once more.

    tables: that a snapshot has. told: what it has sent so far: topic, body, partition. events: by transaction the
    tables that it has changed, and how often. states: after each commit the last transaction by partition.
    """

    def __init__(self, topics: PlayedTopics, tables: Sequence[str], like_postgres: bool) -> None:
        self.topics, self.tables, self.like_postgres = topics, tables, like_postgres
        self.told: list[tuple[str, Any, int]] = []
        self.events: dict[str, dict[str, int]] = {}
        self.states: list[dict[TopicPlace, str]] = [{}]
        self.has_crashed = False

    def snapshot(self, rows: int) -> None:
        """Send rows of a snapshot, which are of no transaction."""
        for _ in range(rows):
            topic = f"shop.public.{self.topics.rng.choice(self.tables)}"
            self.topics.send(topic, {"op": "r", "after": {"v": 1}, "transaction": None})

    def commit(self, tables: Sequence[str]) -> None:
        """Send a transaction that has changed tables, one after the other."""
        key = str(700 + len(self.events))
        counts: dict[str, int] = {}
        state = dict(self.states[-1])
        self._tell(ENDS, {"status": "BEGIN", "id": self._id(key), "event_count": None})
        for number, table in enumerate(tables, 1):
            counts[table] = counts.get(table, 0) + 1
            mark = {
                "id": self._id(key),
                "total_order": number,
                "data_collection_order": counts[table],
            }
            body = {"op": "c", "after": {"transaction": {"id": "row"}}, "transaction": mark}
            place = TopicPlace(f"shop.public.{table}", self._tell(f"shop.public.{table}", body))
            if place in self.topics.places:
                state[place] = self.key(key)
        listed = [{"data_collection": f"public.{t}", "event_count": n} for t, n in counts.items()]
        end = {"status": "END", "event_count": len(tables), "data_collections": listed}
        self._tell(ENDS, {**end, "id": self._id(key)})
        self.events[key] = counts
        self.states.append(state)

    def key(self, name: str) -> str:
        """The text by which a transaction is known."""
        return name if self.like_postgres else f"gtid:{name}"

    def _id(self, key: str) -> str:
        return f"{key}:{self.topics.rng.randrange(10_000)}" if self.like_postgres else f"gtid:{key}"

    def _tell(self, topic: str, body: Any) -> int:
        """Send a message to a partition, which is returned."""
        own = [place for place in self.topics.places if place.topic == topic]
        partition = self.topics.rng.randrange(len(own)) if own else 0
        self.told.append((topic, body, partition))
        if own:
            self.topics.send(topic, body, partition)
            if topic != ENDS and self.topics.rng.random() < 0.2:
                # A tombstone.
                self.topics.send(topic, None, partition)
        return partition

    def crash(self, lost: int) -> None:
        """Send the last messages once more, each to its partition."""
        self.has_crashed = True
        for topic, body, partition in self.told[-lost:]:
            if any(place.topic == topic for place in self.topics.places):
                self.topics.send(topic, body, partition)
