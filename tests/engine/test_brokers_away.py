"""Brokers that do not answer: what is said of them, and for how long they are asked."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from server import free_port

from aggloom.errors import DataError
from aggloom.runtime.connectors.kafka import broker as asked_broker
from aggloom.runtime.connectors.kafka.broker import TopicBroker, describe_wait, unreachable
from aggloom.runtime.connectors.kafka.offsets import OffsetPlanner
from aggloom.runtime.connectors.kafka.options import KafkaSource


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr(asked_broker, "_PATIENCE_SECONDS", 1.5)
    monkeypatch.setattr(asked_broker, "_SECONDS", 1.0)


def test_nobody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    servers, waits = f"127.0.0.1:{free_port()}", []
    open_client = asked_broker.open_client

    def note_wait(*given: Any) -> Any:
        waits.append(describe_wait())
        return open_client(*given)

    monkeypatch.setattr(asked_broker, "open_client", note_wait)
    with pytest.raises(DataError, match=r"no Kafka can be reached at .*: Connection refused"):
        OffsetPlanner(KafkaSource(servers=servers, topic="t"), "a test")
    assert waits[0] == describe_wait() == ""
    assert waits[-1] == f"waiting for Kafka at {servers} (Connection refused)"


def test_somebody_else_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        servers = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(DataError, match=r"does not answer as it should.*Nothing is lost"):
            OffsetPlanner(KafkaSource(servers=servers, topic="t"), "a test")


def test_reasons_of_addresses() -> None:
    nobody = free_port()
    with socket.create_server(("127.0.0.1", 0)) as there:
        address = f"PLAINTEXT://127.0.0.1:{there.getsockname()[1]}"
        assert unreachable(f"127.0.0.1:{nobody}, {address}") == ""
    assert unreachable(f"127.0.0.1:{nobody},localhost:{nobody}") == "Connection refused"
    assert unreachable("none.invalid:9092")


def test_an_answer_that_is_late_is_asked_for_again(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A future of the client's without a result in time says nothing of the topic."""
    broker.topic("local.slow")
    asked = TopicBroker(KafkaSource(servers=broker.servers, topic="local.slow"), "a test")
    describe, times = asked._describe, iter(range(10))

    def answer_late(names: list[str]) -> Any:
        if not next(times):
            raise TimeoutError
        return describe(names)

    monkeypatch.setattr(asked, "_describe", answer_late)
    assert asked.topics()["local.slow"].partitions == (0,)
