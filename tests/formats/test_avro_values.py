"""Values in Avro: as debezium-json reads the same events, types of Avro's own, what a converter has made."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from avro_events import KEY, KINDS, decoded, message, quick_registry, rows_of, some_history
from schema_registry import Registry, envelope, event, frame

from aggloom.errors import InputFormatError
from aggloom.runtime.formats.decoder import decoder

fastavro = pytest.importorskip("fastavro")

registry = quick_registry


@pytest.mark.parametrize("seed", range(12))
def test_as_debezium_json_reads_the_same_events(registry: Registry, seed: int) -> None:
    r = random.Random(seed)
    kinds = r.sample(KINDS, r.randrange(1, len(KINDS))) if seed else KINDS
    fields = [{"name": "id", "type": "int"}]
    told: list[dict[str, Any]] = [{"type": "int32", "field": "id"}]
    for at, kind in enumerate(kinds):
        fields.append({"name": f"c{at}", "type": ["null", kind.avro], "default": None})  # type: ignore[dict-item]
        told.append({**kind.connect, "field": f"c{at}", "optional": True})
    # A record stands once in a schema, and by its name after that.
    number, key = registry.add(envelope(fields)), registry.add(KEY, "t-key")
    images = [{"type": "struct", "field": image, "fields": told} for image in ("before", "after")]
    schema = {"type": "struct", "fields": images}
    avro, text = [], []
    for op, before, after in some_history(r, kinds):
        own = {"id": (after[0] or before[0])["id"]}
        avro.append(
            (registry.frame(key, own), registry.frame(number, event(op, before[0], after[0])))
        )
        body = {"schema": schema, "payload": event(op, before[1], after[1])}
        text.append((json.dumps(own).encode(), json.dumps(body).encode()))
        if op == "d":
            avro.append((registry.frame(key, own), None))  # type: ignore[arg-type]
            text.append((json.dumps(own).encode(), None))  # type: ignore[arg-type]
    ddl = ", ".join(["id INT", *(f"c{at} {kind.ddl}" for at, kind in enumerate(kinds))])
    avro_of = decoder("debezium-avro", ddl, None, "drop", registry=registry.url)
    text_of = decoder("debezium-json", ddl, None, "drop")
    for keys in ((), ("id",)):
        found = replace(avro_of, keys=keys).decode(map(message, avro))
        expected = replace(text_of, keys=keys).decode(map(message, text))
        assert rows_of(found) == rows_of(expected)
        assert [why for _, why in found.refused] == [why for _, why in expected.refused]
    assert len(registry.asked) == 2, "each schema is asked for once"


def test_avros_own_logical_types_and_maps_of_pairs(registry: Registry) -> None:
    entry = {
        "type": "record",
        "name": "MapEntry",
        "namespace": "io.confluent.connect.avro",
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": ["null", "string"]}],
    }
    types: dict[str, tuple[str, Any, Any, Any]] = {
        "a": ("TIMESTAMP", {"type": "long", "logicalType": "timestamp-millis"}, 1_000, 1_000_000),
        "b": ("TIMESTAMP_NTZ", {"type": "long", "logicalType": "local-timestamp-micros"}, 7, 7),
        "c": ("BIGINT", {"type": "int", "logicalType": "time-millis"}, 5, 5),
        "d": ("BIGINT", {"type": "long", "logicalType": "time-micros"}, 5, 5),
        "e": (
            "DECIMAL(9,2)",
            {
                "type": "fixed",
                "name": "D",
                "size": 3,
                "logicalType": "decimal",
                "precision": 6,
                "scale": 2,
            },
            b"\xff\xff\x85",
            Decimal("-1.23"),
        ),
        "f": ("STRING", {"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "Y", "Y"),
        "g": ("BINARY", {"type": "fixed", "name": "F", "size": 2}, b"\0\1", b"\0\1"),
        "h": (
            "MAP<INT, STRING>",
            {"type": "array", "items": entry},
            [{"key": 1, "value": None}],
            [(1, None)],
        ),
        "i": ("DECIMAL(4,1)", "float", 0.1, Decimal("0.1")),
        "j": ("STRING", ["null", {"type": "string", "logicalType": "uuid"}], "u", "u"),
        "k": ("BIGINT", {"type": "int", "logicalType": "timestamp-millis"}, 5, 5),
    }
    fields = [{"name": name, "type": avro} for name, (_, avro, _, _) in types.items()]
    ddl = ", ".join(f"{name} {each[0]}" for name, each in types.items())
    bare = json.loads(json.dumps(envelope(fields)).replace('"logicalType"', '"was"'))
    number = registry.add(envelope(fields))
    told = frame(number, bare, event("c", None, {name: each[2] for name, each in types.items()}))
    made = decoder("debezium-avro", ddl, registry=registry.url)
    found = made.decode([message(told)])
    values = [
        column.cast("int64") if str(column.type).startswith("timestamp") else column
        for column in found.columns
    ]
    assert [one.to_pylist()[0] for one in values] == [each[3] for each in types.values()]
    for name, dtype in (
        ("j", "BINARY"),
        ("g", "STRING"),
        ("e", "DECIMAL(1,0)"),
        ("h", "ARRAY<INT>"),
    ):
        with pytest.raises(InputFormatError, match=f"'{name}' cannot hold .* as {dtype[:5]}"):
            decoded(registry, told, ddl=f"{name} {dtype}")
    several = registry.add(envelope([{"name": "u", "type": ["null", "int", "string"]}]))
    with pytest.raises(InputFormatError, match="'u' cannot hold '3' as INT"):
        decoded(registry, registry.frame(several, event("c", None, {"u": 3})), ddl="u INT")


RECORDED = Path(__file__).parents[1] / "support" / "recorded_avro.jsonl"
"""Events that Debezium's own classes made, in Avro by Apicurio's converter and as JSON by Kafka Connect's.

RecordedAvro.java made them.
"""
COLUMNS = """id INT, flag BOOLEAN, total DECIMAL(8,2), tiny TINYINT, small SMALLINT, big BIGINT, real FLOAT, dbl DOUBLE,
    txt STRING, raw BINARY, price DECIMAL(10,2), any DECIMAL(9,5), day DATE, cday DATE, ms TIMESTAMP, us TIMESTAMP,
    ns TIMESTAMP_NTZ, cts TIMESTAMP, zoned TIMESTAMP, tms BIGINT, tus BIGINT, ctime STRING, ztime STRING, uid STRING,
    bits BINARY, words ARRAY<STRING>, sums ARRAY<DECIMAL(9,2)>, tags MAP<STRING, STRING>,
    place STRUCT<x: DOUBLE, at: DATE, label: STRING>"""


@pytest.mark.parametrize("keys", [None, "id"])
def test_what_debezium_and_a_converter_made(registry: Registry, keys: Any) -> None:
    avro, text = [], []
    for line in RECORDED.read_text("utf-8").splitlines():
        told = json.loads(line)
        parts = []
        for part in ("key", "value"):
            number = registry.add(told[part]["schema"], f"t-{part}")
            parts.append(b"\0" + number.to_bytes(4, "big") + base64.b64decode(told[part]["body"]))
        avro.append(tuple(parts))
        text.append(tuple(json.dumps(told[part]).encode() for part in ("json_key", "json")))
    expected = rows_of(decoder("debezium-json", COLUMNS, keys).decode(map(message, text)))
    assert decoded(registry, *avro, ddl=COLUMNS, keys=keys) == expected
    ops = ["+U", "+U", "+U", "-D"] if keys else ["+I", "+I", "-U", "+U", "-D"]
    assert [each[0] for each in expected] == ops
    names = decoder("debezium-json", COLUMNS).schema.names
    first = dict(zip(names, expected[0][1:], strict=True))
    assert (first["price"], first["any"]) == (Decimal("-1234567.89"), Decimal("3.14159"))
    assert (first["ctime"], first["sums"]) == ("01:00:00.001000", [Decimal("1.50"), None])
