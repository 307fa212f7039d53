"""The Kafka sink: what it writes is read back exactly, each batch once, over kills, restarts and a second run."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields
from decimal import Decimal
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from schema_registry import Registry, serving

from aggloom.errors import CheckpointError, SchemaRegistryError, SinkError, SpecError
from aggloom.runtime.connectors.kafka.encodings import FORMATS, IN_AVRO, UPSERTS
from aggloom.runtime.connectors.kafka.options import (
    KafkaSource,
    job_types,
    kafka_options,
    own_words,
)
from aggloom.runtime.connectors.kafka.sink import KafkaSink
from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.decoder import decoder
from aggloom.tables import table_source

DOCS = Path(__file__).parents[2] / "docs"
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


EVERY = pa.schema(
    [
        *(("k", pa.int64()), ("t", pa.string()), ("d", pa.decimal128(38, 4)), ("f", pa.float64())),
        *(("b", pa.bool_()), ("y", pa.binary()), ("n", pa.timestamp("us"))),
        *(("z", pa.timestamp("us", "UTC")), ("day", pa.date32()), ("at", pa.time64("us"))),
        *(("l", pa.list_(pa.float64())), ("m", pa.map_(pa.string(), pa.int32()))),
        ("s", pa.struct([("x", pa.decimal128(5, 1)), ("y", pa.string())])),
    ]
)
ROWS: list[tuple[Any, ...]] = [
    (
        *((1 << 62) + 1, 'a"\\\n\u2028é\0', Decimal("-1234567890123456789012345678901234.5670")),
        *(0.1, True, b"\0\xff", dt.datetime(2026, 1, 2, 3, 4, 5, 6)),
        *(dt.datetime(1, 1, 1, 0, 0, 0, 1, dt.UTC), dt.date(9999, 12, 31), dt.time(23, 59, 59, 1)),
        *([1.5, None, math.inf], [("a b", 1), ("", None)], {"x": Decimal("0.5"), "y": None}),
    ),
    (-1, *(None,) * 12),
]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    pytest.importorskip("fastavro")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as made:
        yield made


def bare(
    form: str, registry: Registry, topic: str = "t", key: Any = ("k",)
) -> tuple[KafkaSink, dict[str, Any]]:
    """A sink that is not connected, and what its messages are read with besides."""
    pytest.importorskip("confluent_kafka")
    told = {"registry": registry.url} if form in IN_AVRO else {}
    options = kafka_options({"servers": "none:1", "topic": topic, "format": form, **told})
    return KafkaSink(options, key, True), told


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_written_is_read_back(form: str, registry: Registry) -> None:
    made, more = bare(form, registry)
    columns = [pa.array(c, f.type) for c, f in zip(zip(*ROWS, strict=True), EVERY, strict=True)]
    table = pa.table(columns, schema=EVERY)
    told = list(made.messages(table, np.array([0, 0], np.int8)))
    if form in UPSERTS:
        told.reverse()
    reader = decoder(form, EVERY, "k" if form in UPSERTS else None, **more)
    found = reader.decode([sent(*each) for each in told])
    assert pa.table(found.columns, schema=EVERY).to_pylist() == table.to_pylist()
    gone = list(made.messages(table.slice(0, 1), np.array([3], np.int8)))
    (deleted,) = gone
    assert (deleted[1] is None) == (form in UPSERTS)
    assert reader.decode([sent(*deleted)]).words.to_pylist() == ["delete"]
    if more:
        assert set(registry.subjects) == ({"t-key", "t-value"})
        # Nobody asks for the key of what says its changes itself.
        assert len(registry.asked) == 4 - (
            form == "avro-confluent"
        ), "each schema is registered once, and read once"


def sent(key: Any, value: Any) -> Message:
    """A message as a broker has it."""
    told = [part.encode() if isinstance(part, str) else part for part in (value, key)]
    return Message(*told)


def test_what_avro_has_no_word_for(registry: Registry) -> None:
    def write(dtype: Any, form: str = "debezium-avro", name: str = "v") -> Any:
        made, _ = bare(form, registry, "9.a-b", None)
        table = pa.table([pa.array([None], dtype)], names=[name])
        return list(made.messages(table, np.array([0], np.int8)))

    assert write(pa.int8())
    assert json.loads(registry.schemas[101]["schema"])["namespace"] == "_9.a_b"
    for dtype, form, name, said in (
        (pa.map_(pa.int32(), pa.int32()), "debezium-avro", "v", "no Avro for a column of type map"),
        (pa.duration("us"), "debezium-avro", "v", "no Avro for a column of type duration"),
        (pa.int32(), "avro-confluent", "a b", "column 'a b' has a name that Avro has not"),
        (pa.int32(), "avro-confluent", "_change_type", "what a message calls its kind of change"),
        (pa.struct([("a-b", pa.int32())]), "debezium-avro", "v", "column 'a-b' has a name"),
    ):
        with pytest.raises(SpecError, match=said):
            write(dtype, form, name)
    registry.next = [(409, {"error_code": 409, "message": "Schema is incompatible"})]
    with pytest.raises(SinkError, match=r"subject 9.a-b-value does not take .* \(Schema is incomp"):
        write(pa.int16(), "avro-confluent")
    registry.next = [(403, {"message": "no"})]
    with pytest.raises(SchemaRegistryError, match="answers 403"):
        write(pa.int64(), "avro-confluent")
    registry.next = [(200, {})]
    with pytest.raises(SchemaRegistryError, match="its answer to a schema has no id"):
        write(pa.int64(), "avro-confluent")


INT, LONG = "int", "long"
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
FIXED = {
    "type": "fixed",
    "name": "F",
    "size": 8,
    "logicalType": "decimal",
    "precision": 10,
    "scale": 2,
}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
CLOCK = {"type": "long", "logicalType": "local-timestamp-micros"}


def of_columns(form: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """The schema of values in a format, as another program may have registered it."""
    row = {"type": "record", "name": "Order", "fields": fields}
    if form != "debezium-avro":
        return row
    before, after = (
        {"name": name, "type": ["null", kind], "default": None}
        for name, kind in (("before", row), ("after", "Order"))
    )
    more = [{"name": "op", "type": "string"}, {"name": "ts_ms", "type": "long", "default": 0}]
    return {"type": "record", "name": "Change", "fields": [before, after, *more]}


@pytest.mark.parametrize("form", IN_AVRO)
@pytest.mark.parametrize(
    ("dtype", "there", "said"),
    [
        (
            pa.int64(),
            INT,
            r"'v' is int there and long in the result: CAST\(v AS INT\) in the query",
        ),
        (pa.int32(), LONG, r"'v' is long there and int in the result: CAST\(v AS BIGINT\)"),
        (
            pa.decimal128(10, 3),
            DECIMAL,
            r"decimal\(10, 2\) there and decimal\(10, 3\) .*DECIMAL\(10,2\)",
        ),
        (
            pa.decimal128(12, 2),
            DECIMAL,
            r"decimal\(10, 2\) there and decimal\(12, 2\) .*DECIMAL\(10,2\)",
        ),
        (
            pa.decimal128(10, 2),
            FIXED,
            r"decimal\(10, 2\) in fixed\(8\) there and decimal\(10, 2\) in the",
        ),
        (
            pa.timestamp("us", "UTC"),
            MILLIS,
            "timestamp-millis there and timestamp-micros in the result",
        ),
        (pa.timestamp("us"), MICROS, r"local-timestamp-micros in .*CAST\(v AS TIMESTAMP\)"),
        (pa.timestamp("us", "UTC"), LONG, r"long there and timestamp-micros .*CAST\(v AS BIGINT\)"),
        (pa.int64(), MICROS, r"timestamp-micros there and long in .*CAST\(v AS TIMESTAMP\)"),
        (pa.date32(), INT, "int there and date in the result"),
        (pa.string(), {"type": "enum", "name": "E", "symbols": ["a"]}, "enum there and string in"),
        (pa.string(), [INT, "string"], "is one of int, string there and string in the result"),
        (
            pa.list_(pa.decimal128(10, 3)),
            {"type": "array", "items": ["null", DECIMAL]},
            r"field 'v.items' is decimal\(10, 2\) there and decimal\(10, 3\) in the result(?!: CAST)",
        ),
        (
            pa.struct([("a", pa.int64())]),
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", INT]}]},
            "field 'v.a' is int there and long in the result",
        ),
    ],
)
def test_a_subject_with_another_schema_is_refused_before_the_start(
    registry: Registry, form: str, dtype: pa.DataType, there: Any, said: str
) -> None:
    made, _ = bare(form, registry)
    own = there if isinstance(there, list) else ["null", there]
    fields = [{"name": "k", "type": ["null", LONG]}, {"name": "v", "type": own}]
    registry.add(of_columns(form, fields))
    known = dict(registry.schemas)
    with pytest.raises(SinkError, match=rf"subject t-value has another schema .*{said}") as error:
        made.check_start(pa.schema([("k", pa.int64()), ("v", dtype)]))
    assert str(error.value).count("there and") == 1
    assert registry.schemas == known


@pytest.mark.parametrize("form", IN_AVRO)
def test_a_subject_that_goes_with_the_result(form: str, registry: Registry) -> None:
    """Its own schema, one of other names, one with more and less columns; nothing is registered by the look."""
    made, _ = bare(form, registry)
    made.check_start(EVERY)
    assert registry.subjects == {}
    rows = [pa.array(c, f.type) for c, f in zip(zip(*ROWS, strict=True), EVERY, strict=True)]
    list(made.messages(pa.table(rows, schema=EVERY), np.zeros(len(ROWS), np.int8)))
    known = dict(registry.schemas)
    made.check_start(EVERY)
    text = {"type": "string", "avro.java.string": "String"}
    fields = [
        *({"name": "v", "type": ["null", DECIMAL]}, {"name": "note", "type": text}),
        *({"name": "t", "type": [MICROS, "null"]}, {"name": "c", "type": ["null", CLOCK]}),
    ]
    other, _ = bare(form, registry, "u")
    registry.add(of_columns(form, fields), "u-value")
    known = dict(registry.schemas)
    more = [("v", pa.decimal128(10, 2)), ("t", pa.timestamp("us", "UTC")), ("new", pa.int8())]
    other.check_start(pa.schema([("k", pa.int64()), *more, ("c", pa.timestamp("us"))]))
    assert registry.schemas == known


def test_what_a_subject_may_not_have(registry: Registry) -> None:
    made, _ = bare("upsert-avro", registry)
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    registry.add(of_columns("upsert-avro", [{"name": "v", "type": "string"}]))
    with pytest.raises(
        SinkError, match=r"'v' may be NULL in the result .* \[\"null\", \"string\"\]"
    ):
        made.check_start(schema)
    registry.subjects.clear()
    registry.add({"type": "string"}, "t-key")
    with pytest.raises(
        SinkError, match=r"subject t-key has .* the whole is string there and record"
    ):
        made.check_start(schema)
    registry.subjects.clear()
    registry.add("{}")
    with pytest.raises(SinkError, match="subject t-value: its schema cannot be read"):
        made.check_start(schema)
    registry.subjects.clear()
    registry.add("{}", schemaType="PROTOBUF")
    with pytest.raises(SinkError, match="the newest version of t-value is PROTOBUF, not Avro"):
        made.check_start(schema)
    registry.subjects.clear()
    registry.add(of_columns("upsert-avro", [{"name": "old", "type": "string"}]))
    registry.compatibility = {"is_compatible": False, "messages": ["READER_FIELD_MISSING: old"]}
    with pytest.raises(SinkError, match=r"does not take .* \(READER_FIELD_MISSING: old\). Keep to"):
        made.check_start(schema)
    registry.compatibility = {"is_compatible": True}
    made.check_start(schema)
    for status, code in ((404, 40401), (404, 40402)):
        registry.next = [(status, {"error_code": code, "message": "not found"})] * 2
        made.check_start(schema)
    registry.next = [(404, {"message": "no such page"})]
    with pytest.raises(SchemaRegistryError, match=r"answers 404 .*is the URL right"):
        made.check_start(schema)


@pytest.mark.parametrize("form", FORMATS)
def test_columns_that_a_format_has_no_words_for_are_refused_at_the_start(
    form: str, registry: Registry
) -> None:
    made, _ = bare(form, registry)
    with pytest.raises(SpecError, match="for a column of type duration"):
        made.check_start(pa.schema([("k", pa.int32()), ("v", pa.duration("us"))]))
    schema = pa.schema([("k", pa.int32()), ("_change_type", pa.string())])
    if form in ("jsonl", "avro-confluent"):
        with pytest.raises(SpecError, match="what a message calls its kind of change; rename it"):
            made.check_start(schema)
    else:
        made.check_start(schema)


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
    with pytest.raises(CheckpointError, match=r"has batch 2 .* comes to batch 4"):
        sink(broker, "once").write(*batch(), 4, "c1")
    with pytest.raises(CheckpointError, match="is at 1 again"):
        sink(broker, "once").write(*batch(("+I", 7, "x")), 1, "c1")
    with pytest.raises(SinkError, match="messages that this checkpoint did not write"):
        sink(broker, "once").write(*batch(("+I", 7, "x")), 0, "c2")
    with pytest.raises(CheckpointError, match="has no batch of this checkpoint"):
        sink(broker, "once").write(*batch(("+I", 7, "x")), 5, "c3")
    assert sink(broker, "once", existing="keep").write(*batch(("+I", 7, "x")), 5, "c3")
    with pytest.raises(SinkError, match="no such topic"):
        sink(broker, "absent", create=False).write(*batch(), 0, "c1")


def test_upserts_in_avro(broker: Any, registry: Registry) -> None:
    told = {"format": "upsert-avro", "registry": registry.url, "partitions": 1}
    one = sink(broker, "in.avro", **told)
    assert one.write(*batch(("+I", 1, "a"), ("+I", 2, "b")), 0, "c1")
    again = sink(broker, "in.avro", **told)
    assert not again.write(*batch(("+I", 2, "b"), ("+I", 1, "a")), 0, "c1")
    assert again.write(*batch(("-U", 1, "a"), ("+U", 1, "c"), ("-D", 2, "b")), 1, "c1")
    reader = decoder("upsert-avro", SCHEMA, "k", registry=registry.url)
    found = reader.decode([sent(key, value) for key, value in broker.read("in.avro")])
    assert [
        *zip(*(column.to_pylist() for column in (*found.columns, found.words)), strict=True)
    ] == [
        *((1, "a", "update_postimage"), (2, "b", "update_postimage")),
        *((1, "c", "update_postimage"), (2, None, "delete")),
    ]
    assert set(registry.subjects) == {"in.avro-key", "in.avro-value"}


def test_a_changelog_and_messages_without_transactions(broker: Any) -> None:
    changes = batch(("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, None))
    made = sink(broker, "changes", None, format="debezium-json", partitions=1)
    assert made.write(*changes, 0, "c")
    with pytest.raises(CheckpointError, match="comes to it again with other rows"):
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


def test_the_keywords_of_the_reader_are_the_options_of_the_source() -> None:
    """An option of topics is a keyword, an entry of a job's table, a word of a script, and documented."""
    pytest.importorskip("pyspark")
    from aggloom.runtime.connectors.kafka.source import read_kafka

    keywords = signature(read_kafka).parameters
    for option in fields(KafkaSource):
        default = Parameter.empty if option.default is MISSING else option.default
        assert keywords[option.name].default == default
        assert keywords[option.name].annotation == option.type
    of_messages = {"spark", "format", "schema", "keys", "unreadable", "side", "options"}
    assert keywords.keys() - of_messages == {option.name for option in fields(KafkaSource)}
    pages = [(DOCS / name).read_text() for name in ("sources.md", "scripts.md")]
    for name in job_types():
        assert re.search(rf"\b{name}\b", pages[0])
    for name in own_words():
        assert f"`{name}`" in pages[1]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"lost_data": "ignroe"}, "table t: lost_data is 'ignroe'; known are error, ignore"),
        ({"start": "lately"}, "table t: it cannot start at 'lately'"),
        ({"start": {0: 1}, "topic": ["a", "b"]}, "table t: it cannot start at {0: 1}"),
        ({"pattern": "true", "topic": ["a", "b"]}, "a pattern is one regular expression"),
        ({"pattern": "ture"}, "table t: pattern is 'ture'; it must be true or false"),
        ({"max_messages_per_trigger": "many"}, "must be a whole number"),
        ({"properties": "x"}, "properties is 'x'; it must be a mapping"),
        ({"properties": {"group.id": "x"}}, "'group.id' is not for properties"),
        ({"servers": ""}, "a topic of Kafka needs servers"),
        ({"end": "latest"}, "there is no entry 'end'"),
    ],
)
def test_entries_of_a_table_are_checked_before_spark_starts(
    entries: dict[str, Any], said: str
) -> None:
    given = {
        "connector": "kafka",
        "servers": "h:1",
        "topic": "t",
        "format": "jsonl",
        "schema": "k INT",
    }
    assert table_source("t", given, "table t").kafka == {"servers": "h:1", "topic": "t"}
    with pytest.raises(SpecError, match=re.escape(said)):
        table_source("t", {**given, **entries}, "table t")
