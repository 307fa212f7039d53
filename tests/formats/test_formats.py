"""Formats of messages: what each says of a table's rows, and what it refuses, by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aggloom.errors import InputFormatError, SpecError
from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.decoder import decoder
from aggloom.runtime.formats.registry import LINES, MESSAGES

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
        "the table is read again, as after a lost replication slot",
        {"snapshot": "error"},
    ),
    ("debezium-json", debezium("r", None, A), "the table is read again", {"snapshot": "error"}),
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
    ("canal-json", canal("UPDATE", [A]), "`old` is missing, which has what the update changed", {}),
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
    ("jsonl", A | {"__op": "c"}, "'__op' marks what became of a row", {}),
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
