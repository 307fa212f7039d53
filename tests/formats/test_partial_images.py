"""Rows that leave columns out: never filled with NULL where the value was known; rows in Kafka Connect's wrapper."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aggloom.errors import InputFormatError
from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.decoder import decoder

DDL = "id BIGINT, a STRING, b BIGINT"
WHOLE = {"id": 1, "a": "x", "b": 2}
PART = {"id": 1, "b": 2}
MAXWELL = {"database": "d", "table": "t"}
CANAL = MAXWELL | {"isDdl": False}


def decode(format: str, body: Any, key: bytes | None = None, **options: Any) -> list[Any]:
    message = Message(None if body is None else json.dumps(body).encode(), key)
    found = decoder(format, DDL, **options).decode([message])
    return [
        (word, *row)
        for word, *row in zip(
            found.words.to_pylist(), *(c.to_pylist() for c in found.columns), strict=True
        )
    ]


UPDATES = [
    ("debezium-json", {"op": "u", "before": WHOLE, "after": PART}),
    ("maxwell-json", MAXWELL | {"type": "update", "data": PART, "old": {"b": 1}}),
    ("canal-json", CANAL | {"type": "UPDATE", "data": [PART], "old": [{"b": 1}]}),
    ("ogg-json", {"table": "d.t", "op_type": "U", "before": {"id": 1}, "after": PART}),
]
DELETIONS = [
    ("debezium-json", {"op": "d", "before": PART}),
    ("maxwell-json", MAXWELL | {"type": "delete", "data": PART}),
    ("canal-json", CANAL | {"type": "DELETE", "data": [PART]}),
    ("ogg-json", {"table": "d.t", "op_type": "D", "before": PART}),
]


@pytest.mark.parametrize("missing", ["error", "null"])
@pytest.mark.parametrize("keys", [None, "id"])
@pytest.mark.parametrize(("format", "body"), UPDATES)
def test_a_partial_update_is_never_filled(format: str, body: Any, keys: Any, missing: str) -> None:
    with pytest.raises(InputFormatError, match="lacks 'a'") as raised:
        decode(format, body, keys=keys, missing=missing)
    text = str(raised.value)
    assert "REPLICA IDENTITY FULL" in text or "ALLCOLS" in text
    assert "missing=" not in text


@pytest.mark.parametrize("missing", ["error", "null"])
@pytest.mark.parametrize(("format", "body"), DELETIONS)
def test_a_partial_deletion_needs_the_key_alone(format: str, body: Any, missing: str) -> None:
    with pytest.raises(InputFormatError, match="lacks 'a'"):
        decode(format, body, missing=missing)
    ((word, number, *_),) = decode(format, body, keys="id", missing=missing)
    assert (word, number) == ("delete", 1)


def test_a_compressed_update_with_the_row_before_is_whole() -> None:
    body = {"table": "d.t", "op_type": "U", "before": WHOLE, "after": {"id": 1, "b": 3}}
    assert [row[1:] for row in decode("ogg-json", body)] == [(1, "x", 2), (1, "x", 3)]


CONNECT = {
    "type": "struct",
    "fields": [{"field": name, "type": kind} for name, kind in (("id", "int64"), ("a", "string"))],
}


@pytest.mark.parametrize("missing", ["error", "null"])
def test_rows_in_a_schema_and_payload_are_read(missing: str) -> None:
    body = {"schema": CONNECT, "payload": WHOLE}
    assert decode("jsonl", body, missing=missing) == [("insert", 1, "x", 2)]
    key = json.dumps({"schema": {}, "payload": {"id": 1}}).encode()
    (row,) = decode("upsert-json", body, key, keys="id", missing=missing)
    assert row[1:] == (1, "x", 2)
    gone = {"schema": CONNECT, "payload": None}
    assert decode("upsert-json", gone, key, keys="id", missing=missing)[0][:2] == ("delete", 1)
    with pytest.raises(InputFormatError, match="a tombstone names no row"):
        decode("jsonl", gone, missing=missing)
