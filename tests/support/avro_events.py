"""Events of Debezium in Avro and in JSON, drawn at random over kinds of columns, and what reads them."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from schema_registry import Registry, serving

from aggloom.runtime.avro import client
from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.decoder import decoder

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
def quick_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry that is asked again at once where it does not answer."""
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


def named_type(avro: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": avro, "connect.name": name, "connect.version": 1, **more}


def plain(ddl: str, avro: str, connect: str, make: Any) -> Kind:
    return Kind(ddl, avro, {"type": connect}, lambda r: (v := make(r), v))


def known_kind(ddl: str, avro: str, connect: str, name: str, make: Any) -> Kind:
    told = {"type": connect, "name": name, "version": 1}
    return Kind(ddl, named_type(avro, name), told, lambda r: (v := make(r), v))


def draw_unscaled(r: random.Random) -> tuple[bytes, str]:
    number = r.randrange(-(10**9), 10**9)
    data = number.to_bytes(5, "big", signed=True)
    return data, base64.b64encode(data).decode()


def some_bytes(r: random.Random) -> tuple[bytes, str]:
    data = r.randbytes(r.randrange(5))
    return data, base64.b64encode(data).decode()


def draw_list(r: random.Random) -> tuple[Any, Any]:
    pairs = [(None, None) if r.random() < 0.2 else draw_unscaled(r) for _ in range(r.randrange(3))]
    return [one for one, _ in pairs], [one for _, one in pairs]


def draw_scaled(r: random.Random) -> tuple[Any, Any]:
    data, text = draw_unscaled(r)
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
    Kind("DECIMAL(10,2)", DECIMAL, C_DECIMAL, draw_unscaled),
    Kind("STRING", DECIMAL, C_DECIMAL, draw_unscaled),
    Kind(
        "DECIMAL(12,3)", VARIABLE, {"type": "struct", "name": VARIABLE["connect.name"]}, draw_scaled
    ),
    known_kind("DATE", "int", "int32", f"{_TIME}.Date", DAYS),
    known_kind("STRING", "int", "int32", f"{_CONNECT}.Date", DAYS),
    known_kind("TIMESTAMP", "long", "int64", f"{_TIME}.MicroTimestamp", MICROS),
    known_kind("TIMESTAMP_NTZ", "long", "int64", f"{_TIME}.NanoTimestamp", MICROS),
    known_kind(
        "TIMESTAMP_NTZ", "long", "int64", f"{_CONNECT}.Timestamp", lambda r: r.randrange(10**12)
    ),
    known_kind(
        "BIGINT", "long", "int64", f"{_TIME}.MicroTime", lambda r: r.randrange(86_400 * 10**6)
    ),
    known_kind("STRING", "int", "int32", f"{_TIME}.Time", lambda r: r.randrange(86_400_000)),
    known_kind(
        *("TIMESTAMP", "string", "string", f"{_TIME}.ZonedTimestamp"),
        lambda r: f"2026-01-0{r.randrange(1, 9)}T10:11:12.123456Z",
    ),
    known_kind("STRING", "string", "string", "io.debezium.data.Uuid", lambda r: r.choice("ab")),
    Kind(
        "ARRAY<DECIMAL(10,2)>",
        {"type": "array", "items": ["null", DECIMAL]},
        {"type": "array", "items": C_DECIMAL},
        draw_list,
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

    def make_message(number: int) -> tuple[Any, Any]:
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
        rows[number] = make_message(number)
        yield ("u" if before else r.choice("cr")), before or (None, None), rows[number]
