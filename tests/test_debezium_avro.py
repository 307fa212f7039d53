"""debezium-avro: as debezium-json reads the same events, by schemas that change, and what it refuses, by name."""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from schema_registry import Registry, envelope, event, frame, serving

from aggloom.errors import InputFormatError, SchemaRegistryError
from aggloom.runtime.avro import client
from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.decoder import decoder

fastavro = pytest.importorskip("fastavro")

SHORT = {"insert": "+I", "update_preimage": "-U", "update_postimage": "+U", "delete": "-D"}
UNAVAILABLE = "__debezium_unavailable_value"
DDL = "id INT, name STRING, cnt INT"
FIELDS = [
    {"name": "id", "type": "int"},
    {"name": "name", "type": ["null", "string"]},
    {"name": "cnt", "type": ["null", "int"]},
]
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(client, "_FIRST_WAIT", 0.001)
    with serving() as made:
        yield made


def row(*values: Any) -> dict[str, Any]:
    return dict(zip(("id", "name", "cnt"), values, strict=True))


def decoded(
    registry: Any, *messages: Any, ddl: str = DDL, keys: Any = None, **options: Any
) -> list[Any]:
    """The changes of messages: values, or (key, value)."""
    told = {"registry": getattr(registry, "url", registry)} | options
    return rows_of(decoder("debezium-avro", ddl, keys, **told).decode(map(message, messages)))


def message(given: Any) -> Message:
    key, value = given if isinstance(given, tuple) else (None, given)
    return Message(value, key, "topic t, offset 3")


def rows_of(found: Any) -> list[Any]:
    columns = [column.to_pylist() for column in found.columns]
    return list(zip((SHORT[word] for word in found.words.to_pylist()), *columns, strict=True))


class Kind(NamedTuple):
    """A column's type: as declared, as Avro and Kafka Connect have it, and values of both: Avro's, JSON's."""

    ddl: str
    avro: Any
    connect: dict[str, Any]
    make: Any


def named(base: str, avro: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": avro, "connect.name": name, "connect.version": 1, **more}


def plain(ddl: str, avro: str, connect: str, make: Any) -> Kind:
    return Kind(ddl, avro, {"type": connect}, lambda r: (v := make(r), v))


def known(ddl: str, avro: str, connect: str, name: str, make: Any) -> Kind:
    told = {"type": connect, "name": name, "version": 1}
    return Kind(ddl, named(ddl, avro, name), told, lambda r: (v := make(r), v))


def unscaled(r: random.Random) -> tuple[bytes, str]:
    number = r.randrange(-(10**9), 10**9)
    data = number.to_bytes(5, "big", signed=True)
    return data, base64.b64encode(data).decode()


def some_bytes(r: random.Random) -> tuple[bytes, str]:
    data = r.randbytes(r.randrange(5))
    return data, base64.b64encode(data).decode()


def listed(r: random.Random) -> tuple[Any, Any]:
    pairs = [(None, None) if r.random() < 0.2 else unscaled(r) for _ in range(r.randrange(3))]
    return [one for one, _ in pairs], [one for _, one in pairs]


def scaled(r: random.Random) -> tuple[Any, Any]:
    data, text = unscaled(r)
    return {"scale": 3, "value": data}, {"scale": 3, "value": text}


_TIME, _CONNECT = "io.debezium.time", "org.apache.kafka.connect.data"
_DECIMAL = f"{_CONNECT}.Decimal"
AVRO_DECIMAL = {"type": "bytes", "scale": 2, "precision": 10, "logicalType": "decimal"}
DECIMAL = AVRO_DECIMAL | {"connect.name": _DECIMAL, "connect.parameters": {"scale": "2"}}
C_DECIMAL = {"type": "bytes", "name": _DECIMAL, "parameters": {"scale": "2"}}
VARIABLE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.name": "io.debezium.data.VariableScaleDecimal",
}
DAYS, MICROS = (lambda r: r.randrange(-9000, 9000)), (lambda r: r.randrange(10**15))
KINDS = [
    plain("BIGINT", "long", "int64", lambda r: r.randrange(-(1 << 63), 1 << 63)),
    plain("BIGINT", "int", "int32", lambda r: r.randrange(1 << 31)),
    plain(
        "STRING", "string", "string", lambda r: r.choice(["", "a", "é\0😀", '"', UNAVAILABLE[:5]])
    ),
    plain("BOOLEAN", "boolean", "boolean", lambda r: r.random() < 0.5),
    plain("DOUBLE", "double", "double", lambda r: r.uniform(-9, 9)),
    plain("FLOAT", "float", "float", lambda r: r.randrange(-99, 99) / 8),
    plain("DECIMAL(20,17)", "double", "double", lambda r: r.randrange(-99, 99) / 8),
    Kind("BINARY", "bytes", {"type": "bytes"}, some_bytes),
    Kind("DECIMAL(10,2)", DECIMAL, C_DECIMAL, unscaled),
    Kind("STRING", DECIMAL, C_DECIMAL, unscaled),
    Kind("DECIMAL(12,3)", VARIABLE, {"type": "struct", "name": VARIABLE["connect.name"]}, scaled),
    known("DATE", "int", "int32", f"{_TIME}.Date", DAYS),
    known("STRING", "int", "int32", f"{_CONNECT}.Date", DAYS),
    known("TIMESTAMP", "long", "int64", f"{_TIME}.MicroTimestamp", MICROS),
    known("TIMESTAMP_NTZ", "long", "int64", f"{_TIME}.NanoTimestamp", MICROS),
    known("TIMESTAMP_NTZ", "long", "int64", f"{_CONNECT}.Timestamp", lambda r: r.randrange(10**12)),
    known("BIGINT", "long", "int64", f"{_TIME}.MicroTime", lambda r: r.randrange(86_400 * 10**6)),
    known("STRING", "int", "int32", f"{_TIME}.Time", lambda r: r.randrange(86_400_000)),
    known(
        *("TIMESTAMP", "string", "string", f"{_TIME}.ZonedTimestamp"),
        lambda r: f"2026-01-0{r.randrange(1, 9)}T10:11:12.123456Z",
    ),
    known("STRING", "string", "string", "io.debezium.data.Uuid", lambda r: r.choice("ab")),
    Kind(
        "ARRAY<DECIMAL(10,2)>",
        {"type": "array", "items": ["null", DECIMAL]},
        {"type": "array", "items": C_DECIMAL},
        listed,
    ),
    Kind(
        "MAP<STRING, INT>",
        {"type": "map", "values": ["null", "int"]},
        {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}},
        lambda r: (v := {r.choice("abc"): r.choice([None, 1]) for _ in range(2)}, v),
    ),
]


def some_history(r: random.Random, kinds: list[Kind]) -> Iterator[tuple[str, Any, Any]]:
    """Operations with the rows before and after, each in both forms."""
    rows: dict[int, tuple[Any, Any]] = {}

    def made(number: int) -> tuple[Any, Any]:
        pairs = [(None, None) if r.random() < 0.2 else kind.make(r) for kind in kinds]
        own = {"id": number}
        return (
            own | {f"c{at}": one for at, (one, _) in enumerate(pairs)},
            own | {f"c{at}": one for at, (_, one) in enumerate(pairs)},
        )

    for _ in range(40):
        number = r.randrange(6)
        before = rows.pop(number, None)
        if before is not None and r.random() < 0.4:
            yield "d", before, (None, None)
            continue
        rows[number] = made(number)
        yield ("u" if before else r.choice("cr")), before or (None, None), rows[number]


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


def test_schemas_that_change_in_the_middle(registry: Registry) -> None:
    """A column comes, is made wider, goes; each message is read by the schema that it was written with."""
    first = registry.add(envelope(FIELDS[:2]))
    wide = [{"name": "id", "type": "long"}, FIELDS[1], {"name": "cnt", "type": ["null", "float"]}]
    second = registry.add(envelope([*wide, {"name": "more", "type": "string"}]))
    third = registry.add(envelope([*reversed(wide[:2]), {"name": "CNT", "type": "double"}]))
    told = [
        registry.frame(first, event("c", None, {"id": 1, "name": "a"})),
        registry.frame(second, event("c", None, {**row(1 << 40, "b", 0.5), "more": "x"})),
        registry.frame(third, event("u", *({"id": 1, "name": None, "CNT": n} for n in (1.0, 0.1)))),
        registry.frame(first, event("d", {"id": 1, "name": "a"})),
    ]
    ddl = "id BIGINT, name STRING, cnt DOUBLE"
    assert decoded(registry, *told, ddl=ddl, missing="null", keys="id") == [
        ("+U", 1, "a", None),
        ("+U", 1 << 40, "b", 0.5),
        ("+U", 1, None, 0.1),
        ("-D", 1, None, None),
    ]
    with pytest.raises(
        InputFormatError, match="`after` lacks 'cnt'; missing=\"null\" takes it for"
    ):
        decoded(registry, *told, ddl=ddl)
    with pytest.raises(InputFormatError, match="'id' cannot hold '1099511627776' as INT"):
        decoded(registry, told[1])
    for dtype in ("FLOAT", "INT", "BOOLEAN", "DATE"):
        with pytest.raises(InputFormatError, match=f"'cnt' cannot hold '0.1' as {dtype}"):
            decoded(registry, told[2], ddl=f"id BIGINT, name STRING, cnt {dtype}", keys="id")


REFUSED = [
    ("t", None, None, "the table was emptied", {}),
    ("x", None, row(1, "a", 1), "`op` is not one of c, r, u, d, t, m", {}),
    ("u", None, row(1, "a", 1), "REPLICA IDENTITY FULL", {}),
    ("c", None, None, "`after` is missing", {}),
    (
        "u",
        None,
        row(1, UNAVAILABLE, 2),
        "does not tell 'name'.*leave the column out",
        {"keys": "id"},
    ),
    ("d", row(1, UNAVAILABLE, 2), None, "`before` does not tell 'name'", {}),
    ("d", None, None, "`before` is missing; a deletion", {"keys": "id"}),
    ("d", row(1, None, None), None, "nothing but the key; .*REPLICA IDENTITY FULL", {}),
]


@pytest.mark.parametrize(("op", "before", "after", "said", "options"), REFUSED)
def test_events_that_are_refused(
    registry: Registry, op: str, before: Any, after: Any, said: str, options: dict[str, Any]
) -> None:
    value = registry.frame(registry.add(envelope(FIELDS)), event(op, before, after))
    key = registry.frame(registry.add(KEY, "t-key"), {"id": 1}) if "nothing" in said else None
    with pytest.raises(InputFormatError, match=f"topic t, offset 3: .*{said}"):
        decoded(registry, (key, value), **options)


def test_what_is_passed_over_and_what_keys_tell(registry: Registry) -> None:
    number, key = registry.add(envelope(FIELDS)), registry.add(KEY, "t-key")
    own = registry.frame(key, {"id": 7})
    other = event("c", None, row(9, "z", 9), source={"connector": "c", "db": "d", "table": "other"})
    told = [
        (own, registry.frame(number, event("u", None, row(7, "a", 1)))),
        (own, registry.frame(number, event("u", row(7, "b", 2), row(7, UNAVAILABLE, 3)))),
        (own, registry.frame(number, event("d"))),
        (own, None),
        (own, registry.frame(number, event("m"))),
        (own, registry.frame(number, event("t"))),
        (own, registry.frame(number, other)),
    ]
    how = {"keys": "id", "truncate": "ignore", "table": "orders"}
    assert decoded(registry, *told, **how) == [
        ("+U", 7, "a", 1),
        ("+U", 7, "b", 3),
        ("-D", 7, None, None),
    ]
    fields = [FIELDS[0], {"name": "doc", "type": ["null", "bytes"]}]
    told = [
        (own, registry.frame(registry.add(envelope(fields)), event("u", *rows)))
        for rows in [
            [{"id": 7, "doc": b"x"}, {"id": 7, "doc": UNAVAILABLE.encode()}],
        ]
    ]
    assert decoded(registry, *told, ddl="id INT, doc BINARY") == [("-U", 7, b"x"), ("+U", 7, b"x")]


def poison(registry: Registry) -> list[tuple[Any, str]]:
    good = registry.frame(registry.add(envelope(FIELDS)), event("c", None, row(1, "a", 1)))
    other = registry.add({"type": "object"}, schemaType="JSON")
    broken = registry.add('{"type": "record"}')
    inside = {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}
    flat = registry.add({"type": "record", "name": "F", "fields": FIELDS})
    text = json.dumps(event("c", None, row(1, "a", 1))).encode()
    return [
        (text, "the first byte is 123, not 0 as in Confluent's Avro"),
        (b"\1" + good[1:], "the first byte is 1, not 0"),
        (b"\0\0", "2 bytes, which is less than the frame"),
        (struct.pack(">bI", 0, 99) + good[5:], f"the registry {registry.url} has no schema 99"),
        (struct.pack(">bq", 0, 7) + good[5:], "has no schema 0; a frame with an id of 8 bytes"),
        (good[:-8], "the body ends too early"),
        (good[:5], "the body ends too early"),
        (good + b"xy", "2 bytes more than schema"),
        (good[:6] + b"\x7e" + good[7:], "the body .*of schema"),
        (frame(other, "string", "x"), f"schema {other}: schema {other} is JSON, not Avro"),
        (frame(broken, "string", "x"), f"schema {broken}: no schema of Avro"),
        (frame(registry.add(inside), "string", "x"), "a schema whose R is in itself"),
        (frame(registry.add('"Unknown"'), "string", "x"), "a schema without its type 'Unknown'"),
        (frame(registry.add('"string"'), "string", "x"), "is no record"),
        (registry.frame(flat, row(1, "a", 1)), "is no envelope: it has no `op`; was it flattened"),
        (good[:5] + b"\2\2\xff" + good[8:], "the body"),
    ]


def test_poison(registry: Registry) -> None:
    number = registry.add(envelope(FIELDS))
    good = registry.frame(number, event("c", None, row(1, "a", 1)))
    bad = poison(registry)
    for value, said in bad:
        with pytest.raises(InputFormatError, match=f"topic t, offset 3: .*{said}"):
            decoded(registry, value)
    for policy in ("drop", "side"):
        made = decoder("debezium-avro", DDL, None, policy, registry=registry.url)
        found = made.decode([message(good), *(message(value) for value, _ in bad), message(good)])
        assert rows_of(found) == [("+I", 1, "a", 1)] * 2
        side = found.side_table()
        assert side["value"].to_pylist() == [value for value, _ in bad]
        for reason, (_, said) in zip(side["reason"].to_pylist(), bad, strict=True):
            assert re.search(said, reason), reason


def test_damaged_bytes_never_end_a_query_otherwise(registry: Registry) -> None:
    r = random.Random(3)
    ddl = "id INT, c0 STRING, c1 ARRAY<DECIMAL(10,2)>, c2 MAP<STRING, INT>, c3 DECIMAL(12,3)"
    kinds = [KINDS[2], *KINDS[-2:], KINDS[10]]
    fields = [
        FIELDS[0],
        *({"name": f"c{n}", "type": ["null", k.avro]} for n, k in enumerate(kinds)),
    ]
    number = registry.add(envelope(fields))
    made = decoder("debezium-avro", ddl, None, "drop", registry=registry.url)
    for op, before, after in some_history(r, kinds):
        whole = registry.frame(number, event(op, before[0], after[0]))
        for _ in range(20):
            damaged = bytearray(whole)
            for _ in range(r.randrange(1, 4)):
                damaged[r.randrange(5, len(whole))] = r.randrange(256)
            made.decode([message(bytes(damaged[: r.randrange(5, len(whole) + 1)]))])


def test_damaged_schemas_are_reasons(registry: Registry) -> None:
    """Whatever is told of an id: a message that cannot be read by it, and nothing else."""
    r = random.Random(5)
    odd = [
        None,
        3,
        "",
        "N",
        [],
        {},
        [[]],
        {"type": "record"},
        {"type": "fixed", "size": -1},
        "\ud800",
    ]

    def damaged(node: Any) -> Any:
        if r.random() < 0.02:
            return r.choice(odd)
        if isinstance(node, dict):
            return {n: damaged(v) for n, v in node.items() if r.random() < 0.99}
        return [damaged(v) for v in node] if isinstance(node, list) else node

    whole = envelope([FIELDS[0], *({"name": f"c{n}", "type": k.avro} for n, k in enumerate(KINDS))])
    made = decoder("debezium-avro", DDL, None, "drop", registry=registry.url)
    for _ in range(150):
        number = registry.add(damaged(whole))
        made.decode([message(struct.pack(">bI", 0, number) + r.randbytes(40))])
    either = registry.add([{"type": "record", "name": n, "fields": FIELDS} for n in "AB"])
    flat = decoder("avro-confluent", DDL, registry=registry.url)
    with pytest.raises(InputFormatError, match="is no record"):
        flat.decode([message(registry.frame(either, ("A", row(1, "a", 1))))])


def test_schemas_that_refer_to_others(registry: Registry) -> None:
    """Values and envelopes as subjects of their own, one of them through another."""
    money = {
        "type": "record",
        "name": "Money",
        "namespace": "m",
        "fields": [
            {"name": "amount", "type": AVRO_DECIMAL},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        ],
    }
    value = {
        "type": "record",
        "name": "Value",
        "namespace": "v",
        "fields": [
            FIELDS[0],
            {"name": "price", "type": "m.Money"},
            {"name": "old", "type": ["null", "m.Money"]},
        ],
    }
    whole = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", "v.Value"]},
            {"name": "after", "type": ["null", "v.Value"]},
            {"name": "op", "type": "string"},
        ],
    }
    registry.add(money, "money/v 1")
    registry.add(
        value, "value", references=[{"name": "m.Money", "subject": "money/v 1", "version": 1}]
    )
    number = registry.add(whole, references=[{"name": "v.Value", "subject": "value", "version": 1}])
    known: dict[str, Any] = {}
    for each in (money, value):
        fastavro.parse_schema(each, named_schemas=known)
    image = {"id": 1, "price": {"amount": Decimal("1.25"), "day": dt.date(2026, 1, 2)}, "old": None}
    body = BytesIO()
    fastavro.schemaless_writer(
        body, fastavro.parse_schema(whole, named_schemas=known), {"op": "c", "after": image}
    )
    ddl = (
        "id INT, price STRUCT<amount: DECIMAL(10,2), day: DATE>, old STRUCT<amount: DECIMAL(10,2)>"
    )
    told = b"\0" + number.to_bytes(4, "big") + body.getvalue()
    assert decoded(registry, told, ddl=ddl) == [("+I", *image.values())]
    assert "/subjects/money%2Fv%201/versions/1" in [path for path, _ in registry.asked]
    lacking = registry.add(
        whole, "x", references=[{"name": "v.Value", "subject": "gone", "version": 1}]
    )
    with pytest.raises(SchemaRegistryError, match="no such version"):
        decoded(registry, b"\0" + lacking.to_bytes(4, "big") + body.getvalue(), unreadable="drop")


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


def test_flat_records_and_upserts(registry: Registry) -> None:
    """As `jsonl` and `upsert-json` read the same."""
    flat = {"type": "record", "name": "F", "fields": FIELDS}
    number, key = registry.add(flat), registry.add(KEY, "k")
    said = registry.add({**flat, "fields": [*FIELDS, {"name": "_change_type", "type": "string"}]})
    flagged = registry.add({**flat, "fields": [*FIELDS, {"name": "__op", "type": "string"}]})
    some = row(1, "a", None)
    appends = decoder("avro-confluent", DDL, registry=registry.url)
    told = [
        registry.frame(number, some),
        None,
        registry.frame(said, some | {"_change_type": "delete"}),
    ]
    assert rows_of(appends.decode(map(message, told))) == [
        ("+I", 1, "a", None),
        ("-D", 1, "a", None),
    ]
    with pytest.raises(InputFormatError, match="'__op' is of Debezium's flattened records"):
        appends.decode([message(registry.frame(flagged, some | {"__op": "d"}))])
    upserts = decoder("upsert-avro", DDL, "id", registry=registry.url)
    own, bare = registry.frame(key, {"id": 1}), registry.frame(registry.add('"int"', "k"), 1)
    rest = registry.add({**flat, "fields": FIELDS[1:]})
    pairs = [
        (own, registry.frame(number, some)),
        (None, registry.frame(number, some)),
        (bare, registry.frame(rest, {"name": "b", "cnt": 2})),
        (own, None),
        (bare, b""),
    ]
    assert rows_of(upserts.decode(map(message, pairs))) == [
        ("+U", 1, "a", None),
        ("+U", 1, "a", None),
        ("+U", 1, "b", 2),
        ("-D", 1, None, None),
        ("-D", 1, None, None),
    ]
    for pair, why in (
        ((None, None), "the message has no key"),
        ((own, registry.frame(number, row(2, "a", 1))), "the key says another row than the value"),
        ((b"{}", registry.frame(number, some)), "the key: 2 bytes, which is less"),
        ((own, registry.frame(number, row(1, "a", 1)) + b"x"), "the value: 1 bytes more"),
        ((registry.frame(registry.add('"string"', "k"), "x"), None), "'id' cannot hold 'x' as INT"),
    ):
        with pytest.raises(InputFormatError, match=why):
            upserts.decode([message(pair)])


RECORDED = Path(__file__).with_name("recorded_avro.jsonl")
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
