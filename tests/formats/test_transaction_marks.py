"""Marks of transactions in Debezium's messages: the same of JSON in blocks, of JSON one by one, and of Avro."""

from __future__ import annotations

import json
from typing import Any

import pytest
from played_topics import Sent
from schema_registry import serving

from aggloom.errors import DataError
from aggloom.runtime.connectors.kafka.broker import TopicPlace
from aggloom.runtime.connectors.kafka.transactions.marks import TransactionEnd, TransactionMarks

_MARK = {
    "type": "record",
    "name": "block",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "total_order", "type": "long"},
        {"name": "data_collection_order", "type": "long"},
    ],
}
_EVENT = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "op", "type": "string"},
        {"name": "transaction", "type": ["null", _MARK], "default": None},
    ],
}
_COUNT = {
    "type": "record",
    "name": "collection",
    "fields": [
        {"name": "data_collection", "type": "string"},
        {"name": "event_count", "type": "long"},
    ],
}
_END = {
    "type": "record",
    "name": "TransactionMetadataValue",
    "fields": [
        {"name": "status", "type": "string"},
        {"name": "id", "type": "string"},
        {"name": "event_count", "type": ["null", "long"], "default": None},
        {
            "name": "data_collections",
            "type": ["null", {"type": "array", "items": _COUNT}],
            "default": None,
        },
    ],
}


def mark(id: str, order: int) -> dict[str, Any]:
    return {"id": id, "total_order": order, "data_collection_order": 1}


EVENTS = [
    {"op": "r", "transaction": None},
    {"op": "c", "transaction": mark("731:22054640", 1)},
    {"op": "u", "transaction": mark("731:22054896", 3)},
    {"op": "d", "transaction": mark("c6e0-0242ac12:33", 1)},
]
COUNTS = [{"data_collection": f"public.{t}", "event_count": n} for t, n in (("a", 2), ("b", 1))]
ENDS = [
    {"status": "BEGIN", "id": "731:22054640", "event_count": None, "data_collections": None},
    {"status": "END", "id": "731:22055024", "event_count": 3, "data_collections": COUNTS},
    {"status": "END", "id": "5.6.641", "event_count": 0, "data_collections": []},
]


def messages(values: list[bytes | None]) -> list[Sent]:
    return [Sent(TopicPlace("shop.public.a", 0), at, value) for at, value in enumerate(values)]


def check(marks: TransactionMarks, events: list[bytes], ends: list[bytes]) -> None:
    """Compare the marks of messages, among them a tombstone, with those that were written."""
    keys, orders = marks.read_events(messages([*events[:3], None, *events[3:]]))
    assert keys == [None, "731", "731", None, "c6e0-0242ac12:33"]
    assert [order for key, order in zip(keys, orders, strict=True) if key] == [1, 3, 1]
    assert marks.read_ends(messages(list(ends))) == [
        None,
        TransactionEnd("731", {"public.a": 2, "public.b": 1}),
        TransactionEnd("5.6.641", {}),
    ]


@pytest.mark.parametrize("odd", [False, True], ids=["blocks", "one by one"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "with its schema"])
def test_marks_in_json(wrapped: bool, odd: bool) -> None:
    """Rows may have columns of these names; older connectors write numbers as texts."""
    row = {"transaction": {"id": "a row's", "total_order": [1]}, "op": 7, "id": 'x","op":"c'}
    events = [{**each, "after": row, "source": row} for each in EVENTS]
    ends: list[dict[str, Any]] = [{**each, "ts_ms": 5} for each in ENDS]
    if odd:
        events[1]["transaction"] = {**mark("731:22054640", 1), "total_order": "1"}
        ends[0]["event_count"] = "none"
    if wrapped:
        events = [{"schema": {"type": "struct"}, "payload": each} for each in events]
        ends = [{"schema": {"type": "struct"}, "payload": each} for each in ends]
    texts = ([json.dumps(each).encode() for each in some] for some in (events, ends))
    check(TransactionMarks("debezium-json", None, "a test"), *texts)


def test_marks_in_avro(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as registry:
        event, end = registry.add(_EVENT, "a-value"), registry.add(_END, "shop.transaction-value")
        marks = TransactionMarks("debezium-avro", registry.url, "a test")
        events = [registry.frame(event, each) for each in EVENTS]
        check(marks, events, [registry.frame(end, each) for each in ENDS])
        with pytest.raises(DataError, match="offset 0 is a change without its transaction"):
            marks.read_events(messages([registry.frame(event, {"op": "c", "transaction": None})]))
        with pytest.raises(DataError, match="offset 0 cannot be read"):
            marks.read_events(messages([b"no frame"]))
