"""debezium-avro by schemas that change, and what it refuses, by name; flat records and upserts."""

from __future__ import annotations

import datetime as dt
import json
import random
import re
import struct
from decimal import Decimal
from io import BytesIO
from typing import Any

import pytest
from avro_events import (
    AVRO_DECIMAL,
    DDL,
    FIELDS,
    KEY,
    KINDS,
    UNAVAILABLE,
    decoded,
    message,
    quick_registry,
    row,
    rows_of,
    some_history,
)
from schema_registry import Registry, envelope, event, frame

from aggloom.errors import InputFormatError, SchemaRegistryError
from aggloom.runtime.formats.decoder import decoder

fastavro = pytest.importorskip("fastavro")

registry = quick_registry


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
        InputFormatError, match="`after` lacks 'cnt'; missing=\"null\" reads it as NULL"
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
    with pytest.raises(SchemaRegistryError, match="no such subject"):
        decoded(registry, b"\0" + lacking.to_bytes(4, "big") + body.getvalue(), unreadable="drop")


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
    with pytest.raises(InputFormatError, match="'__op' marks what became of a row"):
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
