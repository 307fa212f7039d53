"""Messages of the Kafka sink: what is written is read back, in JSON and Avro, and what a format cannot say."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kafka_messages import sent
from schema_registry import Registry

from aggloom.errors import SchemaRegistryError, SinkError, SpecError
from aggloom.runtime.connectors.kafka.encodings import FORMATS, IN_AVRO, UPSERTS
from aggloom.runtime.connectors.kafka.options import kafka_options
from aggloom.runtime.connectors.kafka.sink import KafkaSink
from aggloom.runtime.formats.decoder import decoder

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


def bare(
    form: str, schemas: Registry, topic: str = "t", key: Any = ("k",)
) -> tuple[KafkaSink, dict[str, Any]]:
    """A sink that is not connected, and what its messages are read with besides."""
    pytest.importorskip("confluent_kafka")
    told = {"registry": schemas.url} if form in IN_AVRO else {}
    options = kafka_options({"servers": "none:1", "topic": topic, "format": form, **told})
    return KafkaSink(options, key, True), told


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_written_is_read_back(form: str, schemas: Registry) -> None:
    made, more = bare(form, schemas)
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
        assert set(schemas.subjects) == ({"t-key", "t-value"})
        # Nobody asks for the key of what says its changes itself.
        assert len(schemas.asked) == 4 - (
            form == "avro-confluent"
        ), "each schema is registered once, and read once"


DOCUMENTS = ('{"a":[1.5,null],"b":"\\"%s\\\\"}', '"x"', '"[1]"', '"7"', "7", "1.5E300", "[]", None)
"""VARIANTs in their one form; some are texts that spell other documents."""


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in IN_AVRO])
def test_variants_are_read_back(form: str, schemas: Registry) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.json_(pa.string()))])
    texts = pa.array(DOCUMENTS, pa.string()).cast(schema.field("v").type)
    table = pa.table([pa.array(range(len(DOCUMENTS)), pa.int64()), texts], schema=schema)
    made, _ = bare(form, schemas)
    told = list(made.messages(table, np.zeros(len(DOCUMENTS), np.int8)))
    reader = decoder(form, schema, "k" if form in UPSERTS else None)
    found = pa.table(reader.decode([sent(*each) for each in told]).columns, schema=schema)
    assert found.sort_by("k").equals(table)


def test_what_avro_has_no_word_for(schemas: Registry) -> None:
    def write(dtype: Any, form: str = "debezium-avro", name: str = "v") -> Any:
        made, _ = bare(form, schemas, "9.a-b", None)
        table = pa.table([pa.array([None], dtype)], names=[name])
        return list(made.messages(table, np.array([0], np.int8)))

    assert write(pa.int8())
    assert json.loads(schemas.schemas[101]["schema"])["namespace"] == "_9.a_b"
    for dtype, form, name, said in (
        (pa.map_(pa.int32(), pa.int32()), "debezium-avro", "v", "no Avro for a column of type map"),
        (pa.duration("us"), "debezium-avro", "v", "no Avro for a column of type duration"),
        (pa.int32(), "avro-confluent", "a b", "column 'a b' has a name that Avro has not"),
        (pa.int32(), "avro-confluent", "_change_type", "what a message calls its kind of change"),
        (pa.struct([("a-b", pa.int32())]), "debezium-avro", "v", "column 'a-b' has a name"),
    ):
        with pytest.raises(SpecError, match=said):
            write(dtype, form, name)
    schemas.next = [(409, {"error_code": 409, "message": "Schema is incompatible"})]
    with pytest.raises(SinkError, match=r"subject 9.a-b-value does not take .* \(Schema is incomp"):
        write(pa.int16(), "avro-confluent")
    schemas.next = [(403, {"message": "no"})]
    with pytest.raises(SchemaRegistryError, match="answers 403"):
        write(pa.int64(), "avro-confluent")
    schemas.next = [(200, {})]
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
    schemas: Registry, form: str, dtype: pa.DataType, there: Any, said: str
) -> None:
    made, _ = bare(form, schemas)
    own = there if isinstance(there, list) else ["null", there]
    fields = [{"name": "k", "type": ["null", LONG]}, {"name": "v", "type": own}]
    schemas.add(of_columns(form, fields))
    known = dict(schemas.schemas)
    with pytest.raises(SinkError, match=rf"subject t-value has another schema .*{said}") as error:
        made.check_start(pa.schema([("k", pa.int64()), ("v", dtype)]))
    assert str(error.value).count("there and") == 1
    assert schemas.schemas == known


@pytest.mark.parametrize("form", IN_AVRO)
def test_a_subject_that_goes_with_the_result(form: str, schemas: Registry) -> None:
    """Its own schema, one of other names, one with more and less columns; nothing is registered by the look."""
    made, _ = bare(form, schemas)
    made.check_start(EVERY)
    assert schemas.subjects == {}
    rows = [pa.array(c, f.type) for c, f in zip(zip(*ROWS, strict=True), EVERY, strict=True)]
    list(made.messages(pa.table(rows, schema=EVERY), np.zeros(len(ROWS), np.int8)))
    known = dict(schemas.schemas)
    made.check_start(EVERY)
    text = {"type": "string", "avro.java.string": "String"}
    fields = [
        *({"name": "v", "type": ["null", DECIMAL]}, {"name": "note", "type": text}),
        *({"name": "t", "type": [MICROS, "null"]}, {"name": "c", "type": ["null", CLOCK]}),
    ]
    other, _ = bare(form, schemas, "u")
    schemas.add(of_columns(form, fields), "u-value")
    known = dict(schemas.schemas)
    more = [("v", pa.decimal128(10, 2)), ("t", pa.timestamp("us", "UTC")), ("new", pa.int8())]
    other.check_start(pa.schema([("k", pa.int64()), *more, ("c", pa.timestamp("us"))]))
    assert schemas.schemas == known


def test_what_a_subject_may_not_have(schemas: Registry) -> None:
    made, _ = bare("upsert-avro", schemas)
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    schemas.add(of_columns("upsert-avro", [{"name": "v", "type": "string"}]))
    with pytest.raises(
        SinkError, match=r"'v' may be NULL in the result .* \[\"null\", \"string\"\]"
    ):
        made.check_start(schema)
    schemas.subjects.clear()
    schemas.add({"type": "string"}, "t-key")
    with pytest.raises(
        SinkError, match=r"subject t-key has .* the whole is string there and record"
    ):
        made.check_start(schema)
    schemas.subjects.clear()
    schemas.add("{}")
    with pytest.raises(SinkError, match="subject t-value: its schema cannot be read"):
        made.check_start(schema)
    schemas.subjects.clear()
    schemas.add("{}", schemaType="PROTOBUF")
    with pytest.raises(SinkError, match="the newest version of t-value is PROTOBUF, not Avro"):
        made.check_start(schema)
    schemas.subjects.clear()
    schemas.add(of_columns("upsert-avro", [{"name": "old", "type": "string"}]))
    schemas.compatibility = {"is_compatible": False, "messages": ["READER_FIELD_MISSING: old"]}
    with pytest.raises(SinkError, match=r"does not take .* \(READER_FIELD_MISSING: old\). Keep to"):
        made.check_start(schema)
    schemas.compatibility = {"is_compatible": True}
    made.check_start(schema)
    for status, code in ((404, 40401), (404, 40402)):
        schemas.next = [(status, {"error_code": code, "message": "not found"})] * 2
        made.check_start(schema)
    schemas.next = [(404, {"message": "no such page"})]
    with pytest.raises(SchemaRegistryError, match=r"answers 404 .*is the URL right"):
        made.check_start(schema)


@pytest.mark.parametrize("form", FORMATS)
def test_columns_that_a_format_has_no_words_for_are_refused_at_the_start(
    form: str, schemas: Registry
) -> None:
    made, _ = bare(form, schemas)
    with pytest.raises(SpecError, match="for a column of type duration"):
        made.check_start(pa.schema([("k", pa.int32()), ("v", pa.duration("us"))]))
    schema = pa.schema([("k", pa.int32()), ("_change_type", pa.string())])
    if form in ("jsonl", "avro-confluent"):
        with pytest.raises(SpecError, match="what a message calls its kind of change; rename it"):
            made.check_start(schema)
    else:
        made.check_start(schema)
