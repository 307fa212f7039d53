"""Formats of messages: what each says of a table's rows, and what it refuses, by name."""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aggloom.errors import InputFormatError, SpecError, UnknownColumnError
from aggloom.runtime.formats.base import Message, Unreadable
from aggloom.runtime.formats.decoder import decoder
from aggloom.runtime.formats.lines import read_lines
from aggloom.runtime.formats.registry import LINES, MESSAGES, format_of
from aggloom.runtime.local.harness import Harness

DDL = "id INT, name STRING, cnt INT"
SHORT = {"insert": "+I", "update_preimage": "-U", "update_postimage": "+U", "delete": "-D"}
UNAVAILABLE = "__debezium_unavailable_value"


def read(
    format: str, *messages: Any, ddl: str = DDL, keys: Any = None, **options: Any
) -> list[Any]:
    """The changes of messages, given as objects, texts, or (key, value)."""
    made = decoder(format, ddl, keys, **options)
    return rows_of(made.decode(map(message, messages)))


def message(given: Any) -> Message:
    key, value = given if isinstance(given, tuple) else (None, given)
    return Message(encoded(value), encoded(key))


def encoded(given: Any) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    return (given if isinstance(given, str) else json.dumps(given)).encode()


def rows_of(found: Any) -> list[Any]:
    columns = [column.to_pylist() for column in found.columns]
    words = [SHORT.get(word, word) for word in found.words.to_pylist()]
    return list(zip(words, *columns, strict=True))


def row(*values: Any) -> dict[str, Any]:
    return dict(zip(("id", "name", "cnt"), values, strict=False))


A, B = row(1, "a", 1), row(1, "a", 2)


def debezium(op: str, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, **more}


def canal(kind: str, data: Any = None, old: Any = None, **more: Any) -> dict[str, Any]:
    def texts(rows: Any) -> Any:
        return rows and [{n: None if v is None else str(v) for n, v in r.items()} for r in rows]

    told = {"type": kind, "data": texts(data), "old": texts(old), "isDdl": False}
    return told | {"database": "db", "table": "t", **more}


def maxwell(kind: str, data: Any = None, old: Any = None) -> dict[str, Any]:
    return {"database": "db", "table": "t", "type": kind, "data": data, "old": old}


def ogg(kind: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"table": "DB.T", "op_type": kind, "before": before, "after": after}


# format, message, the reason; options
BAD: list[tuple[str, Any, str, dict[str, Any]]] = [
    ("debezium-json", debezium("t"), "the table was emptied", {}),
    (
        "debezium-json",
        debezium("r", None, A, source={"snapshot": "first"}),
        "the table is read anew, as after a lost replication slot",
        {"snapshot": "error"},
    ),
    ("debezium-json", debezium("r", None, A), "the table is read anew", {"snapshot": "error"}),
    ("debezium-json", debezium("x", A), "`op` is not one of c, r, u, d, t, m", {}),
    ("debezium-json", debezium("u", None, A), "REPLICA IDENTITY FULL", {}),
    ("debezium-json", debezium("c"), "`after` is missing", {}),
    ("debezium-json", {"schema": {}, "payload": 3}, "`payload` is no object", {}),
    ("debezium-json", debezium("c", None, 3), "`after` is no object", {}),
    (
        "debezium-json",
        debezium("d", {"name": "a"}),
        "lacks 'id'; a deletion has to have",
        {"keys": "id"},
    ),
    ("debezium-json", debezium("d"), "`before` is missing; a deletion", {"keys": "id"}),
    (
        "debezium-json",
        debezium("u", {"id": 1}, row(1, UNAVAILABLE, 2)),
        "does not tell 'name'.*leave the column out",
        {"keys": "id"},
    ),
    ("debezium-json", debezium("d", row(1, UNAVAILABLE, 2)), "`before` does not tell 'name'", {}),
    (
        "debezium-json",
        ({"id": 1}, debezium("d", row(1, None, None))),
        "nothing but the key; .*REPLICA IDENTITY FULL",
        {},
    ),
    ("debezium-json", b"\xff", "not UTF-8", {}),
    ("canal-json", canal("TRUNCATE", isDdl=True), "the table was emptied", {}),
    ("canal-json", canal("ERASE", isDdl=True), "the table was emptied", {}),
    ("canal-json", canal("REPLACE", [A]), "`type` is not one of INSERT, UPDATE, DELETE", {}),
    ("canal-json", canal("INSERT"), "`data` is missing", {}),
    ("canal-json", canal("UPDATE", [A, A], [B]), "`old` has not as many rows as `data`", {}),
    ("canal-json", canal("UPDATE", [A]), "`old` has not as many rows", {}),
    ("canal-json", canal("INSERT", [row(1, "a", "1.5")]), "'cnt' cannot hold '1.5' as INT", {}),
    ("canal-json", canal("INSERT", [{"id": 1}]), "`data` lacks 'name', 'cnt'", {}),
    ("canal-json", canal("INSERT") | {"data": [3]}, "`data` is no object", {}),
    ("maxwell-json", maxwell("table-drop"), "the table was emptied", {}),
    ("maxwell-json", maxwell("insert"), "`data` is missing", {}),
    ("maxwell-json", maxwell("update", A), "`old` is no object", {}),
    ("maxwell-json", maxwell("replace", A), "`type` is not one of", {}),
    ("maxwell-json", maxwell("insert", row(1, "a", "2")), "'cnt' cannot hold '2' as INT", {}),
    ("ogg-json", ogg("T"), "the table was emptied", {}),
    ("ogg-json", ogg("I"), "`after` is missing", {}),
    ("ogg-json", ogg("U", {}, A), "`before` is missing; log all columns", {}),
    ("ogg-json", ogg("U", {"id": 1}, A), "`before` lacks 'name', 'cnt'; log all columns", {}),
    ("ogg-json", ogg("D", {"name": "a"}), "lacks 'id'; a deletion has to have", {"keys": "id"}),
    ("ogg-json", ogg("X", A), "`op_type` is not one of I, U, D, T", {}),
    ("upsert-json", None, "the message has no key", {"keys": "id"}),
    (
        "upsert-json",
        (3, {"name": "a", "cnt": 1, "id": 4}),
        "the key says another row",
        {"keys": "id"},
    ),
    ("upsert-json", ({"name": 3}, A), "the key lacks 'id'", {"keys": "id"}),
    ("upsert-json", (3, A), "the key is one value, for id, name", {"keys": ["id", "name"]}),
    ("upsert-json", row(None, "a", 1), "'id' of the key is NULL", {"keys": "id"}),
    ("upsert-json", (None, {"id": 1}), "the value lacks 'name', 'cnt'", {"keys": "id"}),
    ("upsert-json", ({"id": None}, None), "'id' of the key is NULL", {"keys": "id"}),
    ("debezium-json", debezium("c", None, row(None, "a", 1)), "'id' of the key", {"keys": "id"}),
    ("debezium-json", debezium("d", row(1, None, None)), "'name' of the key", {"keys": "name"}),
    ("canal-json", canal("INSERT", [row(None, "a", 1)]), "'id' of the key", {"keys": "id"}),
    ("maxwell-json", maxwell("delete", row(None, "a", 1)), "'id' of the key", {"keys": "id"}),
    ("ogg-json", ogg("U", row(None, "a", 1), A), "'id' of the key", {"keys": "id"}),
    ("debezium-json", '{"op":"c","op":"d","before":{},"after":{}}', "`op` is there twice", {}),
    ("debezium-json", '{"payload":{"op":"c","after":{},"after":{}}}', "`after` is there", {}),
    ("canal-json", '{"type":"INSERT","data":[],"data":[]}', "`data` is there twice", {}),
    ("jsonl", A | {"op": "x"}, "change type 'x' in 'op'", {}),
    ("jsonl", A | {"__op": "c"}, "'__op' is of Debezium's flattened records", {}),
]
for _format in LINES:
    _keys: dict[str, Any] = {"keys": "id"} if MESSAGES[_format].needs_keys else {}
    BAD += [
        (_format, '{"a":1', "malformed line", _keys),
        (_format, "[]", "malformed line: no JSON object", _keys),
        (_format, '{"a":1} x', "text after the object", _keys),
        (_format, "[" * 100_000, "malformed line", _keys),
        (_format, b'{"id":"\xff"}', "not UTF-8", _keys),
    ]


@pytest.mark.parametrize(("format", "given", "why", "options"), BAD)
def test_bad_messages_are_refused_by_name(
    format: str, given: Any, why: str, options: dict[str, Any]
) -> None:
    with pytest.raises(InputFormatError, match=why):
        read(format, given, **options)
    dropped = decoder(format, DDL, unreadable="drop", **options).decode([message(given)])
    assert rows_of(dropped) == []
    (only,) = dropped.side_table().to_pylist()
    assert only["value"] == message(given).value and only["reason"]


FULL = debezium("u", A, B)
UPSERT = {"keys": "id"}
GOOD: list[tuple[str, list[Any], dict[str, Any], list[Any]]] = [
    ("debezium-json", [debezium("c", None, A)], {}, [("+I", 1, "a", 1)]),
    ("debezium-json", [debezium("r", None, A)], {}, [("+I", 1, "a", 1)]),
    (
        "debezium-json",
        [debezium("r", None, A, source={"snapshot": "incremental"}), debezium("c", None, B)],
        {"snapshot": "error"},
        [("+I", 1, "a", 1), ("+I", 1, "a", 2)],
    ),
    ("debezium-json", [FULL], {}, [("-U", 1, "a", 1), ("+U", 1, "a", 2)]),
    ("debezium-json", [{"schema": {"fields": []}, "payload": FULL}], UPSERT, [("+U", 1, "a", 2)]),
    ("debezium-json", [debezium("m"), (A, None), "null", {"schema": {}, "payload": None}], {}, []),
    ("debezium-json", [debezium("t")], {"truncate": "ignore"}, []),
    # A change of key as Debezium tells it: delete, tombstone, create.
    (
        "debezium-json",
        [debezium("d", row(1, None, None)), ({"id": 1}, None), debezium("c", None, row(2, "a", 1))],
        UPSERT,
        [("-D", 1, None, None), ("+U", 2, "a", 1)],
    ),
    ("debezium-json", [debezium("d", {"id": 1})], UPSERT, [("-D", 1, None, None)]),
    (
        "debezium-json",
        [({"schema": {}, "payload": {"id": 1}}, debezium("d"))],
        UPSERT,
        [("-D", 1, None, None)],
    ),
    # keys that are not the table's own: the row before tells the old one.
    (
        "debezium-json",
        [debezium("u", row(1, "a", 1), row(1, "b", 1))],
        {"keys": "name"},
        [("-D", None, "a", None), ("+U", 1, "b", 1)],
    ),
    (
        "debezium-json",
        [debezium("u", A, row(1, UNAVAILABLE, 2))],
        {},
        [("-U", 1, "a", 1), ("+U", 1, "a", 2)],
    ),
    ("debezium-json", [debezium("u", None, B | {"big": UNAVAILABLE})], UPSERT, [("+U", 1, "a", 2)]),
    (
        "debezium-json",
        [debezium("c", None, A, source={"db": "d", "table": "u"})],
        {"table": "t|v"},
        [],
    ),
    ("canal-json", [canal("INSERT", [A, B])], {}, [("+I", 1, "a", 1), ("+I", 1, "a", 2)]),
    (
        "canal-json",
        [canal("UPDATE", [B, row(2, None, 5)], [{"cnt": 1}, {"name": "x"}])],
        {},
        [("-U", 1, "a", 1), ("+U", 1, "a", 2), ("-U", 2, "x", 5), ("+U", 2, None, 5)],
    ),
    (
        "canal-json",
        [canal("UPDATE", [B], [{"name": None}])],
        {},
        [("-U", 1, None, 2), ("+U", 1, "a", 2)],
    ),
    (
        "canal-json",
        [canal("DELETE", [A]), canal("ALTER", isDdl=True), canal("QUERY", isDdl=True)],
        {},
        [("-D", 1, "a", 1)],
    ),
    (
        "canal-json",
        [canal("UPDATE", [row(2, "a", 1)], [{"id": 1}])],
        UPSERT,
        [("-D", 1, "a", 1), ("+U", 2, "a", 1)],
    ),
    ("canal-json", [canal("INSERT", [A], database="other")], {"database": "db.*"}, []),
    (
        "maxwell-json",
        [maxwell("bootstrap-start", {}), maxwell("bootstrap-insert", A)],
        {},
        [("+I", 1, "a", 1)],
    ),
    (
        "maxwell-json",
        [maxwell("update", B, {"cnt": 1})],
        {},
        [("-U", 1, "a", 1), ("+U", 1, "a", 2)],
    ),
    ("maxwell-json", [maxwell("delete", A), maxwell("table-alter")], {}, [("-D", 1, "a", 1)]),
    (
        "ogg-json",
        [ogg("I", {}, A), ogg("U", A, B), ogg("D", B)],
        {},
        [("+I", 1, "a", 1), ("-U", 1, "a", 1), ("+U", 1, "a", 2), ("-D", 1, "a", 2)],
    ),
    (
        "ogg-json",
        [ogg("U", {"id": "3"}, B), ogg("D", {"id": 1})],
        UPSERT,
        [("-D", 3, None, None), ("+U", 1, "a", 2), ("-D", 1, None, None)],
    ),
    ("ogg-json", [ogg("I", None, A)], {"table": "X"}, []),
    (
        "upsert-json",
        [({"id": 1}, {"name": "a", "cnt": 1}), (2, {"name": "b", "cnt": 1})],
        UPSERT,
        [("+U", 1, "a", 1), ("+U", 2, "b", 1)],
    ),
    (
        "upsert-json",
        [(1, None), ({"id": 2}, "null"), ("3", "")],
        UPSERT,
        [("-D", 1, None, None), ("-D", 2, None, None), ("-D", 3, None, None)],
    ),
    ("upsert-json", [A], UPSERT, [("+U", 1, "a", 1)]),
    (
        "jsonl",
        [A, B | {"_change_type": "update_postimage"}, A | {"op": "-D"}],
        {},
        [("+I", 1, "a", 1), ("+U", 1, "a", 2), ("-D", 1, "a", 1)],
    ),
]


@pytest.mark.parametrize(("format", "given", "options", "rows"), GOOD)
def test_messages_are_read(
    format: str, given: list[Any], options: dict[str, Any], rows: list[Any]
) -> None:
    assert read(format, *given, **options) == rows


def test_a_table_that_changes_in_the_middle() -> None:
    """A column is added, one is widened, one is dropped: rows as before, or an error with the column's name."""
    more = debezium("u", A | {"more": None}, B | {"more": "x"})
    assert read("debezium-json", debezium("c", None, A), more)[1:] == [
        ("-U", 1, "a", 1),
        ("+U", 1, "a", 2),
    ]
    wide, gone = debezium("c", None, row(1, "a", 2**40)), debezium("c", None, row(1, "a"))
    with pytest.raises(InputFormatError, match=f"'cnt' cannot hold '{2**40}' as INT"):
        read("debezium-json", wide)
    assert read("debezium-json", wide, ddl=DDL.replace("cnt INT", "cnt BIGINT"))[0][3] == 2**40
    with pytest.raises(InputFormatError, match="`after` lacks 'cnt'"):
        read("debezium-json", gone)
    assert read("debezium-json", gone, missing="null") == [("+I", 1, "a", None)]


def b64(number: int, width: int = 0) -> str:
    width = width or number.bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(width, "big", signed=True)).decode()


NOON = dt.datetime(2020, 1, 2, 12, 0, 0, 123456)
MICROS = (NOON - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
UTC = NOON.replace(tzinfo=dt.UTC)
TIME = "io.debezium.time."
CONNECT = "org.apache.kafka.connect.data."
DECIMAL = {"name": CONNECT + "Decimal", "parameters": {"scale": "2"}}
VARIABLE = {"name": "io.debezium.data.VariableScaleDecimal"}
ENCODED: list[tuple[str, dict[str, Any] | None, Any, Any]] = [
    ("DECIMAL(10,2)", DECIMAL, b64(-12345), Decimal("-123.45")),
    ("DECIMAL(10,2)", DECIMAL, b64(0), Decimal("0.00")),
    ("DECIMAL(10,2)", DECIMAL, 1.5, Decimal("1.50")),
    ("STRING", DECIMAL, b64(100), "1.00"),
    ("DOUBLE", DECIMAL, b64(150), 1.5),
    ("BIGINT", DECIMAL | {"parameters": {"scale": "0"}}, b64(2**62), 2**62),
    ("DECIMAL(12,4)", VARIABLE, {"scale": 1, "value": b64(15)}, Decimal("1.5000")),
    ("DECIMAL(10,2)", {"type": "string"}, "12.50", Decimal("12.50")),
    ("DECIMAL(10,2)", {"type": "double"}, 12.5, Decimal("12.50")),
    ("TIMESTAMP", {"name": TIME + "MicroTimestamp"}, MICROS, UTC),
    ("TIMESTAMP_NTZ", {"name": TIME + "Timestamp"}, MICROS // 1000, NOON.replace(microsecond=123000)),
    ("TIMESTAMP_NTZ", {"name": TIME + "NanoTimestamp"}, MICROS * 1000 + 7, NOON),
    ("TIMESTAMP_NTZ", {"name": CONNECT + "Timestamp"}, 5, dt.datetime(1970, 1, 1, 0, 0, 0, 5000)),
    ("TIMESTAMP", {"name": TIME + "ZonedTimestamp"}, "2020-01-02T14:00:00.123456+02:00", UTC),
    ("STRING", {"name": TIME + "ZonedTimestamp"}, "2020-01-02T12:00:00.123456Z", "2020-01-02 12:00:00.123456Z"),
    ("STRING", {"name": TIME + "MicroTimestamp"}, MICROS, "2020-01-02 12:00:00.123456"),
    ("BIGINT", {"name": TIME + "MicroTimestamp"}, MICROS, MICROS),
    ("DATE", {"name": TIME + "Date"}, 18263, dt.date(2020, 1, 2)),
    ("DATE", {"name": CONNECT + "Date"}, -1, dt.date(1969, 12, 31)),
    ("DATE", {"name": TIME + "IsoDate"}, "2020-01-02Z", dt.date(2020, 1, 2)),
    ("DATE", {"name": TIME + "MicroTimestamp"}, 86_400_000_000, dt.date(1970, 1, 2)),
    ("STRING", {"name": TIME + "Date"}, 18263, "2020-01-02"),
    ("TIMESTAMP_NTZ", {"name": TIME + "Date"}, 1, dt.datetime(1970, 1, 2)),
    ("TIME", {"name": TIME + "MicroTime"}, 3_600_000_001, dt.time(1, 0, 0, 1)),
    ("TIME", {"name": TIME + "Time"}, 3_600_000, dt.time(1)),
    ("TIME", {"name": TIME + "ZonedTime"}, "01:00:00Z", dt.time(1)),
    ("STRING", {"name": TIME + "NanoTime"}, 3_600_000_000_000, "01:00:00"),
    ("ARRAY<DATE>", {"type": "array", "items": {"name": TIME + "Date"}}, [1, None], [dt.date(1970, 1, 2), None]),
    ("BINARY", {"type": "bytes"}, base64.b64encode(b"\0\xff").decode(), b"\0\xff"),
    ("BOOLEAN", {"type": "int16"}, 1, True),
    ("STRING", {"name": "io.debezium.data.Json"}, '{"a":1}', '{"a":1}'),
    # Without a schema.
    ("DECIMAL(10,2)", None, "12.50", Decimal("12.50")),
    ("DECIMAL(10,2)", None, b64(12345), Decimal("123.45")),
    ("TIMESTAMP", None, MICROS, UTC),
    ("TIMESTAMP", None, MICROS * 1000, UTC),
    ("TIMESTAMP_NTZ", None, MICROS // 1000, NOON.replace(microsecond=123000)),
    ("TIMESTAMP", None, "2020-01-02T12:00:00.123456Z", UTC),
    ("DATE", None, 18263, dt.date(2020, 1, 2)),
    ("DATE", None, "2020-01-02 00:00:00", dt.date(2020, 1, 2)),
    ("TIME", None, "12:00:00.5", dt.time(12, 0, 0, 500000)),
    ("DOUBLE", None, "NaN", None),
    ("STRING", None, {"a": [1.50, True, None]}, '{"a":[1.5,true,null]}'),
    ("MAP<INT,STRING>", None, {"1": "a"}, [(1, "a")]),
    ("STRUCT<a: INT, b: STRING>", None, {"a": 1}, {"a": 1, "b": None}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "field", "value", "wanted"), ENCODED)
def test_values_by_the_schema_that_comes_with_them(
    kind: str, field: dict[str, Any] | None, value: Any, wanted: Any
) -> None:
    given: Any = debezium("c", None, {"v": value})
    if field is not None:
        images = [{"field": i, "fields": [{"field": "v", **field}]} for i in ("before", "after")]
        given = {"schema": {"type": "struct", "fields": images}, "payload": given}
    ((_, found),) = read("debezium-json", given, ddl=f"v {kind}")
    assert found == wanted or (value == "NaN" and found != found)


WRONG: list[tuple[str, dict[str, Any] | None, Any, str]] = [
    ("DECIMAL(4,2)", DECIMAL, b64(12345), "cannot hold"),
    ("DECIMAL(10,1)", None, 1.25, "cannot hold '1.25' as DECIMAL"),
    ("DECIMAL(10,0)", None, "1234", 'say decimals="text".* or decimals="base64"'),
    ("DATE", DECIMAL, b64(1), "cannot hold"),
    ("BIGINT", DECIMAL, b64(150), "cannot hold"),
    ("TIMESTAMP_NTZ", {"name": TIME + "ZonedTimestamp"}, "2020-01-02T12:00:00Z", "cannot hold"),
    ("TIMESTAMP_NTZ", None, "2020-01-02T12:00:00Z", "cannot hold .* as TIMESTAMP_NTZ"),
    ("TIMESTAMP", {"name": TIME + "MicroTimestamp"}, 9223372036825200000, "cannot hold"),
    ("DATE", {"name": TIME + "MicroTimestamp"}, MICROS, "cannot hold"),
    ("TIME", {"name": TIME + "MicroTime"}, 86_400_000_000, "cannot hold"),
    ("TIME", None, 5, "give time_unit"),
    ("DATE", None, "2020-02-30", "cannot hold '2020-02-30' as DATE"),
    ("INT", None, True, "cannot hold 'true' as INT"),
    ("INT", None, 1.0, "cannot hold '1.0' as INT"),
    ("DOUBLE", None, 10**400, "malformed|cannot hold"),
    ("BINARY", None, "?", "cannot hold"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "field", "value", "why"), WRONG)
def test_values_that_a_column_cannot_hold(
    kind: str, field: dict[str, Any] | None, value: Any, why: str
) -> None:
    with pytest.raises(InputFormatError, match=why):
        test_values_by_the_schema_that_comes_with_them(kind, field, value, None)


def test_canals_texts_are_values_of_every_type() -> None:
    ddl = "b BOOLEAN, d DECIMAL(8,2), f DOUBLE, t TIMESTAMP_NTZ, y DATE, x BINARY, c TIME"
    data = {"b": "1", "d": "1000", "f": "1e3", "t": "2020-01-02 12:00:00.123456", "y": "2020-01-02"}
    given = canal("INSERT", [data | {"x": "\u00ff", "c": "10:00:00"}])
    assert read("canal-json", given, ddl=ddl) == [
        ("+I", True, Decimal("1000.00"), 1000.0, NOON, NOON.date(), b"\xff", dt.time(10))
    ]
    with pytest.raises(InputFormatError, match="'t' cannot hold '0000-00-00 00:00:00'"):
        read("canal-json", canal("INSERT", [{"t": "0000-00-00 00:00:00"}]), ddl="t TIMESTAMP")


def test_times_in_texts_are_of_the_zone_that_is_given() -> None:
    given = {"t": "2020-07-01 12:00:00"}
    ((_, found),) = read("jsonl", given, ddl="t TIMESTAMP", zone="Europe/Berlin")
    assert found == dt.datetime(2020, 7, 1, 10, tzinfo=dt.UTC)
    with pytest.raises(SpecError, match="no time zone 'Nowhere'"):
        read("jsonl", given, ddl="t TIMESTAMP", zone="Nowhere")


@pytest.mark.parametrize(
    ("format", "options", "why"),
    [
        ("debezium", {}, "Did you mean 'debezium-json'"),
        ("upsert-json", {}, "give the columns of the key"),
        ("jsonl", {"keys": "id"}, "no use for keys"),
        ("jsonl", {"truncate": "ignore"}, "jsonl has no option 'truncate'"),
        ("canal-json", {"snapshot": "error"}, "canal-json has no option 'snapshot'"),
        ("debezium-json", {"snapshot": "again"}, "known are read, error"),
        ("canal-json", {"keys": "ID"}, "Did you mean 'id'"),
        ("canal-json", {"truncate": "maybe"}, "known are error, ignore"),
        ("canal-json", {"unreadable": "away"}, "known are error, drop, side"),
    ],
)
def test_what_a_format_does_not_know(format: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        read(format, **options)


# What happens to a table, told in every format, is one history.
History = list[tuple[str, dict[str, Any] | None, dict[str, Any] | None]]


def history(r: random.Random, steps: int) -> History:
    told: History = []
    table: dict[int, dict[str, Any]] = {}
    for _ in range(steps):
        key = r.randrange(6)
        new = row(key, r.choice(["a", "b", None, '"']), r.choice([0, 7, -5]))
        if key not in table:
            told.append(("c", None, new))
        elif r.random() < 0.3:
            told.append(("d", table.pop(key), None))
            continue
        else:
            told.append(("u", table[key], new))
        table[key] = new
    return told


def changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in old.items() if new[name] != value}


def tell(format: str, op: str, old: Any, new: Any) -> tuple[Any, Any]:
    """A step of a history as (key, value)."""
    key = {"id": (new or old)["id"]}
    match format:
        case "debezium-json":
            return key, debezium(op, old, new)
        case "canal-json":
            kind = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[op]
            return key, canal(kind, [new or old], [changed(old, new)] if op == "u" else None)
        case "maxwell-json":
            kind = {"c": "insert", "u": "update", "d": "delete"}[op]
            return key, maxwell(kind, new or old, changed(old, new) if op == "u" else None)
        case "ogg-json":
            return key, ogg({"c": "I", "u": "U", "d": "D"}[op], old, new)
        case "upsert-json":
            return key, new
    words = {"c": "+I", "u": "+U", "d": "-D"}
    return key, (new or old) | {"op": words[op]}


@pytest.mark.parametrize("format", LINES)
@pytest.mark.parametrize("upserts", [False, True])
def test_one_history_in_every_format(format: str, upserts: bool, tmp_path: Path) -> None:
    if not upserts and (MESSAGES[format].needs_keys or format == "jsonl"):
        return
    told = history(random.Random(f"{format} {upserts}"), 300)
    table: dict[int, Any] = {}
    lines = []
    for op, old, new in told:
        key, value = tell(format, op, old, new)
        bare = old if op == "d" and upserts and "debezium" in format else None
        if bare is not None:
            value = debezium("d", {"id": bare["id"]})
        lines.append(f"{json.dumps(key)}\t{json.dumps(value)}")
        table[(new or old)["id"]] = new  # type: ignore[index]
    (tmp_path / "in.txt").write_text("\n".join(lines))
    how: dict[str, Any] = {"input_changes": "upsert", "keys": {"t": "id"}} if upserts else {}
    query = "SELECT name, COUNT(*) AS n, SUM(cnt) AS s FROM t GROUP BY name"
    with Harness.from_sql(query, {"t": DDL}, backend="python", **how) as harness:
        harness.read(tmp_path / "in.txt", format, key_separator="\t")
        harness.flush()
        found = {name: (n, s) for name, n, s in harness.table()}
        assert not harness.counts.orphans
    wanted: dict[Any, Any] = {}
    for new in filter(None, table.values()):
        n, s = wanted.get(new["name"], (0, None))
        wanted[new["name"]] = n + 1, s if new["cnt"] is None else (s or 0) + new["cnt"]
    assert found == wanted


def test_a_harness_counts_what_it_passes_over(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"k":1}\n{"k":\n\n{"k":2}\r\n')
    query = "SELECT COUNT(*) AS n FROM t"
    with Harness.from_sql(query, {"t": "k INT"}, backend="python") as harness:
        with pytest.raises(InputFormatError, match="line 2: malformed line"):
            harness.read(file, "jsonl")
        assert harness.read(tmp_path, "jsonl", unreadable="drop") == 2
        harness.flush()
        assert harness.table() == [(2,)]
        assert harness.counts.refused == 1
        ((bad, why),) = harness.unreadable
        assert bad.value == b'{"k":' and why.startswith("malformed")
        with pytest.raises(UnknownColumnError, match="there is no column 'k'"):
            harness.read(file, "csv")
        with pytest.raises(SpecError, match="no file at"):
            harness.read(tmp_path / "nope", "jsonl")
        with pytest.raises(SpecError, match="input_changes='upsert'"):
            harness.read(file, "upsert-json")


def test_a_harness_reads_parquet(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(
        pa.table({"K": [1, 2, 2], "_change_type": ["insert", "insert", "delete"]}),
        tmp_path / "a.parquet",
    )
    with Harness.from_sql("SELECT k FROM t", {"t": "k INT"}, backend="python") as harness:
        assert harness.read(tmp_path, "parquet") == 3
        harness.flush()
        assert harness.table() == [(1,)]


def test_lines_with_keys(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"id":1}\t{"x":"\\t"}\n\n2\tnull\nnull\t3\nalone\n')
    found = [(m.key, m.value) for m in read_lines([tmp_path / "a"], "\t")]
    assert found == [(b'{"id":1}', b'{"x":"\\t"}'), (b"2", None), (None, b"3"), (None, b"alone")]


def test_a_decoder_travels() -> None:
    import pickle

    made = decoder("debezium-json", DDL, "id")
    assert rows_of(made.decode([message(FULL)])) == [("+U", 1, "a", 2)]
    again = pickle.loads(pickle.dumps(made))
    assert again == made and rows_of(again.decode([message(FULL)])) == [("+U", 1, "a", 2)]
    with pytest.raises(Unreadable):
        format_of("jsonl", DDL, None, {}).changes(Message(b"3"))
