"""Values as systems write them: MySQL's zero dates, Oracle's NUMBER, MongoDB's documents, and columns of Parquet."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aggloom.errors import InputFormatError, SpecError
from aggloom.job import Job
from aggloom.job_plan import feed_job
from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.decoder import decoder
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.spark.read.parquet import read_parquet
from aggloom.tables import read_table_option


def _envelope(after: Any, **more: Any) -> Message:
    body = {"before": None, "after": after, "op": "c", "source": {"connector": "x"}, **more}
    return Message(json.dumps(body).encode())


def _read(format: str, message: Message, schema: str, **options: Any) -> list[Any]:
    found = decoder(format, schema, **options).decode([message])
    return [tuple(row) for row in zip(*(c.to_pylist() for c in found.columns), strict=True)]


def _canal(value: str) -> Message:
    row = {"type": "INSERT", "database": "d", "table": "t", "data": [{"v": value}], "old": None}
    return Message(json.dumps(row).encode())


@pytest.mark.parametrize(
    "value", ["0000-00-00", "0000-00-00 00:00:00.000", "2024-00-10", "2024-05-00"]
)
@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"])
def test_dates_that_are_none_are_refused_or_null(value: str, kind: str) -> None:
    for format, message in [
        ("canal-json", _canal(value)),
        ("jsonl", Message(json.dumps({"v": value}).encode())),
        ("debezium-json", _envelope({"v": value})),
    ]:
        with pytest.raises(InputFormatError, match='zero_dates="null"'):
            _read(format, message, f"v {kind}")
        assert _read(format, message, f"v {kind}", zero_dates="null") == [(None,)]
        assert _read(format, message, "v STRING") == [(value,)]


@pytest.mark.parametrize(
    ("kind", "scale", "expected"),
    [
        ("DECIMAL(10, 2)", 2, Decimal("2.23")),
        ("DOUBLE", 2, 2.23),
        ("BIGINT", 0, 223),
        ("BIGINT", 2, None),
        ("INT", -9, None),
    ],
)
def test_numbers_without_a_declared_scale(kind: str, scale: int, expected: Any) -> None:
    message = _envelope({"v": {"scale": scale, "value": "AN8="}})
    if expected is None:
        with pytest.raises(InputFormatError, match="column 'v' cannot hold"):
            _read("debezium-json", message, f"v {kind}")
    else:
        assert _read("debezium-json", message, f"v {kind}") == [(expected,)]


_DOCUMENT = {
    "_id": {"$oid": "65f0"},
    "n": {"$numberLong": "12345678901"},
    "d": {"$numberDecimal": "1.10"},
    "at": {"$date": 86_400_000},
    "b": {"$binary": {"base64": "AQI=", "subType": "00"}},
    "tags": [{"$numberInt": "1"}, 2],
}
_DDL = "_id STRING, n BIGINT, d DECIMAL(5, 2), at TIMESTAMP, b BINARY, tags ARRAY<INT>"


def test_documents_of_mongodb_are_rows() -> None:
    at = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
    row = ("65f0", 12345678901, Decimal("1.10"), at, b"\x01\x02", [1, 2])
    text = json.dumps(_DOCUMENT)
    assert _read("debezium-json", _envelope(text), _DDL) == [row]
    update = _envelope(text, op="u", before=text)
    assert _read("debezium-json", update, _DDL) == [row, row]
    key = json.dumps({"id": json.dumps({"$oid": "65f0"})}).encode()
    gone = Message(_envelope(None, op="d").value, key)
    found = decoder("debezium-json", _DDL, "_id").decode([gone])
    assert (found.words.to_pylist(), found.columns[0].to_pylist()) == (["delete"], ["65f0"])


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (_envelope(None, op="u", updateDescription={}), "change_streams_update_full"),
        (_envelope("[1]"), "no JSON object"),
        (_envelope(""), "`after` is a text without an object"),
        (_envelope('{"_id": {"$numberLong": "x"}}'), "numberLong has 'x'"),
    ],
)
def test_documents_that_tell_no_row_are_refused(message: Message, error: str) -> None:
    with pytest.raises(InputFormatError, match=error):
        _read("debezium-json", message, "_id BIGINT", keys="_id")


def _parquet(path: Path, ddl: str, **options: Any) -> list[Any]:
    with Harness.from_sql("SELECT * FROM t", {"t": ddl}, backend="python") as harness:
        harness.read(path, "parquet", **options)
        harness.flush()
        return harness.table()


def test_columns_of_duckdb_and_polars(tmp_path: Path) -> None:
    path, text = tmp_path / "t.parquet", "00112233-4455-6677-8899-aabbccddeeff"
    select = f"'{text}'::UUID AS u, '[1]'::JSON AS j, INTERVAL 1 DAY AS i, 'a'::ENUM('a') AS e"
    duckdb.sql(f"COPY (SELECT {select}) TO '{path}'")
    assert _parquet(path, "u STRING, j STRING, e STRING") == [(str(UUID(text)), "[1]", "a")]
    with pytest.raises(InputFormatError, match=r"column 'i' is STRING, not fixed_size_binary"):
        _parquet(path, "i STRING")
    lists = pa.array([[1, 2]], pa.list_(pa.int64(), 2))
    pq.write_table(pa.table({"l": lists}), path)
    assert _parquet(path, "l ARRAY<BIGINT>") == [([1, 2],)]


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_nanoseconds_are_refused_or_cut(tmp_path: Path, kind: str) -> None:
    path, zone = tmp_path / "t.parquet", "UTC" if kind == "TIMESTAMP" else None
    times = pa.array([-1_500, 1_999, 2_000, None], pa.timestamp("ns", zone))
    pq.write_table(pa.table({"at": times}), path)
    with pytest.raises(InputFormatError, match='nanoseconds="cut"'):
        _parquet(path, f"at {kind}")
    micros = pa.array([-2, 1, 2, None], pa.timestamp("us", zone)).to_pylist()
    found = _parquet(path, f"at {kind}", nanoseconds="cut")
    assert {row[0] for row in found} == set(micros)
    schema = pa.schema([("at", pa.timestamp("us", zone))])
    with pytest.raises(InputFormatError, match='nanoseconds="cut"'):
        list(read_parquet(path, str(path), str(tmp_path), schema))
    ((piece, _),) = read_parquet(path, str(path), str(tmp_path), schema, cut=True)
    assert piece.column(0).to_pylist() == micros
    table = read_table_option(f"t={path},nanoseconds=cut")
    assert len(feed_job(Job("SELECT at FROM t", (table,), backend="python")).table()) == 4
    with pytest.raises(SpecError, match="known are error, cut"):
        _parquet(path, f"at {kind}", nanoseconds="round")
