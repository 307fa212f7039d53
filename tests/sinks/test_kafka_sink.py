"""The Kafka sink: each batch once, over kills, restarts and a second run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kafka_messages import sent
from schema_registry import Registry

from aggloom.errors import CheckpointError, SinkError, SpecError
from aggloom.runtime.connectors.kafka.options import kafka_options
from aggloom.runtime.connectors.kafka.sink import KafkaSink
from aggloom.runtime.formats.decoder import decoder

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def sink(broker: Any, topic: str, key: Any = ("k",), before: bool = True, **more: Any) -> KafkaSink:
    return KafkaSink(
        kafka_options({"servers": broker.servers, "topic": topic, **more}), key, before
    )


def batch(*rows: tuple[int, Any, str | None]) -> tuple[pa.Table, Any]:
    """Rows with their kinds first."""
    words = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
    kinds = np.array([words[str(row[0])] for row in rows], np.int8)
    columns = zip(*[row[1:] for row in rows], strict=True) if rows else ([], [])
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA), kinds


def test_what_options_say() -> None:
    told = {"servers": "h:1", "topic": "t"}
    for more, said in (
        ({"tpoic": "x"}, "Did you mean 'topic'"),
        ({"format": "avro"}, "known are upsert-json"),
        ({"format": "debezium-avro"}, "has its schemas in a registry; say where"),
        ({"registry": "http://h"}, "a registry has the schemas of Avro; upsert-json has no use"),
        ({"guarantee": "none"}, "known are exactly-once"),
        ({"replay": "maybe"}, "must be true or false"),
        ({"partitions": "many"}, "must be a whole number"),
        ({"properties": {"group.id": "x"}}, "the sink's own"),
        ({"topic": ""}, "give it topic"),
    ):
        with pytest.raises(SpecError, match=said):
            kafka_options(told | more)
    assert kafka_options(told | {"partitions": "3", "create": "false"}).partitions == 3


def test_each_batch_once(broker: Any) -> None:
    one = sink(broker, "once", partitions=1)
    assert one.write(*batch(("+I", 1, "a"), ("+I", 2, "b")), 0, "c1")
    again = sink(broker, "once")
    assert not again.write(*batch(("+I", 2, "b"), ("+I", 1, "a")), 0, "c1")
    assert again.write(*batch(("-U", 1, "a"), ("+U", 1, "c"), ("-D", 2, "b")), 1, "c1")
    assert again.write(*batch(), 2, "c1")
    found = [(b'{"k": 1}', b'{"k": 1, "v": "a"}'), (b'{"k": 2}', b'{"k": 2, "v": "b"}')]
    found += [(b'{"k": 1}', b'{"k": 1, "v": "c"}'), (b'{"k": 2}', None)]
    assert broker.read("once") == found
    with pytest.raises(CheckpointError, match="another run of this checkpoint"):
        one.write(*batch(("+I", 9, "z")), 3, "c1")
    assert broker.read("once") == found
    with pytest.raises(CheckpointError, match=r"has batch 2 .* batch 4 is next"):
        sink(broker, "once").write(*batch(), 4, "c1")
    with pytest.raises(CheckpointError, match="runs batch 1 again"):
        sink(broker, "once").write(*batch(("+I", 7, "x")), 1, "c1")
    with pytest.raises(SinkError, match="messages that this checkpoint did not write"):
        sink(broker, "once").write(*batch(("+I", 7, "x")), 0, "c2")
    with pytest.raises(CheckpointError, match="has no batch of this checkpoint"):
        sink(broker, "once").write(*batch(("+I", 7, "x")), 5, "c3")
    assert sink(broker, "once", existing="keep").write(*batch(("+I", 7, "x")), 5, "c3")
    with pytest.raises(SinkError, match="no such topic"):
        sink(broker, "absent", create=False).write(*batch(), 0, "c1")


def test_upserts_in_avro(broker: Any, schemas: Registry) -> None:
    told = {"format": "upsert-avro", "registry": schemas.url, "partitions": 1}
    one = sink(broker, "in.avro", **told)
    assert one.write(*batch(("+I", 1, "a"), ("+I", 2, "b")), 0, "c1")
    again = sink(broker, "in.avro", **told)
    assert not again.write(*batch(("+I", 2, "b"), ("+I", 1, "a")), 0, "c1")
    assert again.write(*batch(("-U", 1, "a"), ("+U", 1, "c"), ("-D", 2, "b")), 1, "c1")
    reader = decoder("upsert-avro", SCHEMA, "k", registry=schemas.url)
    found = reader.decode([sent(key, value) for key, value in broker.read("in.avro")])
    assert [
        *zip(*(column.to_pylist() for column in (*found.columns, found.words)), strict=True)
    ] == [
        *((1, "a", "update_postimage"), (2, "b", "update_postimage")),
        *((1, "c", "update_postimage"), (2, None, "delete")),
    ]
    assert set(schemas.subjects) == {"in.avro-key", "in.avro-value"}


def test_a_changelog_and_messages_without_transactions(broker: Any) -> None:
    changes = batch(("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, None))
    made = sink(broker, "changes", None, format="debezium-json", partitions=1)
    assert made.write(*changes, 0, "c")
    with pytest.raises(CheckpointError, match="runs this batch again with other rows"):
        made.write(*batch(("+I", 1, "a")), 0, "c")
    assert [value for _, value in broker.read("changes")] == [
        b'{"before": null, "after": {"k": 1, "v": "a"}, "op": "c"}',
        b'{"before": {"k": 1, "v": "a"}, "after": null, "op": "d"}',
        b'{"before": null, "after": {"k": 1, "v": null}, "op": "c"}',
    ]
    loose = sink(broker, "loose", None, format="jsonl", guarantee="at-least-once", partitions=1)
    for _ in range(2):
        assert loose.write(*changes, 0, "c")
    assert len(broker.read("loose")) == 6
    with pytest.raises(SinkError, match="MSG_SIZE_TOO_LARGE"):
        loose.write(*batch(("+I", 1, "x" * 2_000_000)), 1, "c")


KILLED = """
    import os, signal, sys
    sys.path[:0] = [{root!r}, {root!r} + "/tests/support"]
    import tests.sinks.test_kafka_sink as own
    class Broker: servers = {servers!r}
    made = own.sink(Broker, "killed", partitions=1)
    opened = made._open_producer
    def killing(name):
        # Producers take no attributes: one that wraps it stands in for it.
        producer = own.Wrapped(opened(name))
        producer.commit_transaction = lambda *_: (producer.flush(30), os.kill(os.getpid(), signal.SIGKILL))
        return producer
    made._open_producer = killing
    made.write(*own.batch(("+I", 1, "a")), 0, "c")
"""


def test_a_kill_within_a_transaction_leaves_nothing(broker: Any) -> None:
    text = textwrap.dedent(KILLED).format(
        root=str(Path(__file__).parents[2]), servers=broker.servers
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, env=os.environ)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert broker.read(
        "killed", "read_uncommitted"
    ), "its messages are there, in an open transaction"
    after = sink(broker, "killed")
    assert after.write(*batch(("+I", 1, "b")), 0, "c")
    assert broker.read("killed") == [(b'{"k": 1}', b'{"k": 1, "v": "b"}')]
    assert not sink(broker, "killed").write(*batch(("+I", 1, "b")), 0, "c")


def test_a_broker_that_was_away(broker: Any) -> None:
    waits = sink(broker, "waits", partitions=1)
    assert waits.write(*batch(("+I", 1, "a")), 0, "c")
    struck = sink(broker, "struck", partitions=1, timeout=3)
    produce = struck._produce

    def strike(producer: Any, messages: Any) -> None:
        produce(producer, messages)
        producer.flush(30)
        broker.stop()

    struck._produce = strike  # type: ignore[method-assign]
    with pytest.raises(SinkError, match="no answer of the group's coordinator within 3 seconds"):
        struck.write(*batch(("+I", 2, "b")), 0, "c")
    broker.start()
    assert waits.write(*batch(("+I", 3, "c")), 1, "c"), "the client looks for it again"
    assert sink(broker, "struck").write(*batch(("+I", 2, "b")), 0, "c")
    found = {topic: [key for key, _ in broker.read(topic)] for topic in ("waits", "struck")}
    assert found == {"waits": [b'{"k": 1}', b'{"k": 3}'], "struck": [b'{"k": 2}']}


class Wrapped:
    """A producer that can be given other methods."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)
