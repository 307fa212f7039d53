"""Blocks of messages: bounded by their bytes, and fetched ahead in a thread without another order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_jobs import changes_in, run_to_end

from aggloom.errors import InputFormatError
from aggloom.job import complete
from aggloom.runtime.connectors.kafka import fetch
from aggloom.runtime.connectors.kafka.broker import TopicPlace
from aggloom.runtime.connectors.kafka.clients import ColumnClient
from aggloom.runtime.connectors.kafka.fetch import MessageFetcher, OffsetRange
from aggloom.runtime.connectors.kafka.fetched import ColumnPiece
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.engine import topic_source
from aggloom.runtime.engine.read_ahead import ReadAhead
from aggloom.runtime.formats.texts import Texts
from aggloom.tables import table_source

pytest.importorskip("confluent_kafka")
PLACE = TopicPlace("wide", 0)


class WideMessages:
    """A client whose every message has a thousand bytes, and comes alone."""

    def assign(self, starts: dict[TopicPlace, int]) -> None:
        self.next = starts[PLACE]

    def unassign(self) -> None:
        pass

    def consume(self, most: int, seconds: float) -> list[Any]:
        offsets, self.next = np.array([self.next]), self.next + 1
        return [ColumnPiece(PLACE, Texts.copy([b"x" * 1_000]), Texts.copy([None]), offsets)]


def test_wide_messages_are_handed_on_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MOST_BYTES", 3_500)
    fetcher = MessageFetcher(KafkaSource(servers="127.0.0.1:9", topic="wide"), "a test", ())
    monkeypatch.setattr(fetcher, "_client", WideMessages())
    assert [len(block) for block in fetcher.fetch([OffsetRange(PLACE, 0, 10)])] == [4, 4, 2]


def job(broker: Any, place: Path, topic: str) -> Any:
    about = {"servers": broker.servers, "topic": topic, "schema": "id INT", "format": "jsonl"}
    table = table_source("t", {"connector": "kafka", "changes": "append", **about}, "a test")
    sink = f"jsonl:{place / 'out'}"
    entries = {"sql": "SELECT id FROM t", "tables": (table,), "sink": sink, "backend": "python"}
    return complete({**entries, "checkpoint": place / "checkpoint"}, "a test")


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so short that a topic of a test has many, all but the first of which a thread fetches."""
    for module in (fetch, topic_source):
        monkeypatch.setattr(module, "AT_ONCE", 40)


@pytest.mark.usefixtures("short_blocks")
def test_blocks_fetched_ahead_keep_their_order(broker: Any, tmp_path: Path) -> None:
    broker.topic("blocks.order", 2)
    broker.send("blocks.order", *((None, f'{{"id": {n}}}', n % 2) for n in range(1_000)))
    assert run_to_end(job(broker, tmp_path, "blocks.order")).counts.rows == 1_000
    ids = [each["id"] for each in changes_in(tmp_path / "out")]
    assert ids == [*range(0, 1_000, 2), *range(1, 1_000, 2)]


@pytest.mark.usefixtures("short_blocks")
def test_a_message_that_cannot_be_read_stops_the_thread(broker: Any, tmp_path: Path) -> None:
    broker.topic("blocks.bad")
    texts = [f'{{"id": {n}}}' for n in range(1_000)]
    texts[500] = "{"
    broker.send("blocks.bad", *((None, text) for text in texts))
    with pytest.raises(InputFormatError, match="offset 500"):
        run_to_end(job(broker, tmp_path, "blocks.bad"))
    assert not list(tmp_path.glob("out/*.json*"))


def test_a_fetch_that_ends_early_is_closed_with_its_client(broker: Any) -> None:
    """librdkafka ends the process where it is asked by a client that is closed."""
    broker.topic("blocks.early")
    broker.send("blocks.early", *((None, f'{{"id": {n}}}') for n in range(10)))
    source = KafkaSource(servers=broker.servers, topic="blocks.early")
    fetcher = MessageFetcher(source, "a test", ())
    client = fetcher._client
    assert isinstance(client, ColumnClient)
    blocks = fetcher.fetch([OffsetRange(TopicPlace("blocks.early", 0), 0, 10)])
    assert len(next(blocks)) == 10
    client.close()
    client.unassign()
    assert not list(blocks)


def test_what_is_read_ahead_is_closed_at_once() -> None:
    ends = []

    def numbers() -> Iterator[int]:
        try:
            yield from range(1_000)
        finally:
            ends.append(threading.current_thread())

    ahead = ReadAhead(numbers(), lambda number: True)
    assert [next(ahead), next(ahead)] == [0, 1]
    ahead.close()
    assert ends == [threading.current_thread()]
