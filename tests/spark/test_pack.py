"""Packing, gathering, unpacking and HAVING, without a JVM."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aggloom.codegen import having_kinds
from aggloom.errors import DataError
from aggloom.runtime.hosting.bucket_store import Blob, gather
from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.spark.node.pack import Pack
from aggloom.runtime.spark.node.partitioning import bucket_keys, hash_int, int_with_hash
from aggloom.runtime.spark.plan.routes import Route
from aggloom.runtime.spark.plan.unpack import Having
from aggloom.runtime.values.changelog import KIND_NAMES, kinds_to_arrow, parse_kinds
from aggloom.runtime.values.key_hash import key_hashes

COLUMNS: list[pa.Array] = [
    pa.array([True, None, False, True]),
    pa.array([1, None, -3, 1], pa.int8()),
    pa.array([2**62, None, -1, 2**62]),
    pa.array([1.5, None, -2.0, 1.5], pa.float32()),
    pa.array([0.1, None, float("nan"), 0.1]),
    pa.array(
        [Decimal("1.10"), None, Decimal("-9999999999.99"), Decimal("1.10")], pa.decimal128(38, 2)
    ),
    pa.array(["größe", None, "", "größe"]),
    pa.array(["a" * 100, None, "\0", "a" * 100], pa.large_string()),
    pa.array([b"\0\0", None, b"\0", b"\0\0"]),
    pa.array([dt.date(2020, 1, 1), None, dt.date(1900, 1, 1), dt.date(2020, 1, 1)]),
    pa.array([1, None, 2, 1], pa.timestamp("us", "UTC")),
    pa.array([1, None, 2, 1], pa.timestamp("us")),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
def test_a_hash_depends_on_the_value_alone(column: pa.Array) -> None:
    hashes = key_hashes([column], 4)
    assert hashes[0] == hashes[3]
    assert len(set(hashes.tolist())) == 3
    for start in range(4):
        assert key_hashes([column.slice(start)], 4 - start).tolist() == hashes[start:].tolist()
    if not pa.types.is_decimal(column.type):
        assert key_hashes([column.dictionary_encode()], 4).tolist() == hashes.tolist()
    assert key_hashes([column.slice(0, 0)], 0).tolist() == []


def test_equal_floats_hash_equally() -> None:
    signed = pa.array([0.0, -0.0])
    payload = pa.array(np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view("f8"))
    for column in (signed, payload):
        first, second = key_hashes([column], 2)
        assert first == second


def test_string_and_large_string_hash_equally() -> None:
    words = pa.array(["a", "bc", None, "0123456789"])
    assert (
        key_hashes([words], 4).tolist() == key_hashes([words.cast(pa.large_string())], 4).tolist()
    )


def test_bucket_keys_run_round_robin_over_any_number_of_partitions() -> None:
    keys = bucket_keys(64)
    assert [hash_int(key) for key in keys] == list(range(64))
    assert all(-(2**31) <= key < 2**31 for key in keys)
    assert [hash_int(int_with_hash(h)) for h in (-1, -(2**31), 2**31 - 1)] == [
        -1,
        -(2**31),
        2**31 - 1,
    ]


def test_murmur_matches_known_values() -> None:
    # What Spark 4.3's hash(1) and hash(-1) give.
    assert hash_int(1) == -559580957
    assert hash_int(-1) == -1604776387


SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])


def _batch(rows: list[tuple[Any, ...]], kinds: list[str] | None = None) -> pa.RecordBatch:
    arrays = [pa.array([row[0] for row in rows], pa.string()), pa.array([row[1] for row in rows])]
    names = ["c0", "c1"]
    if kinds is not None:
        arrays.append(pa.array(kinds))
        names.append("kind")
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _packed(pack: Pack, batches: list[pa.RecordBatch], partition: int = 0) -> list[dict[str, Any]]:
    return [row for out in pack.pack(batches, partition) for row in out.to_pylist()]


def came(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> InputBatch:
    blobs = [Blob(0, row["partition"], row["seq"], row["blob"]) for row in rows]
    return gather(blobs, [schema]).bundles[0]


def _gathered(rows: list[dict[str, Any]], bucket: int) -> list[tuple[Any, ...]]:
    batch, kinds, _ = came([row for row in rows if row["bucket"] == bucket])
    return [(KIND_NAMES[k], *row.values()) for k, row in zip(kinds, batch.to_pylist(), strict=True)]


@pytest.mark.parametrize("blob_bytes", [1, 500, 1 << 20])
@pytest.mark.parametrize("size", [7, 100, 1000])
def test_rows_reach_their_bucket_in_order_however_they_are_cut(size: int, blob_bytes: int) -> None:
    rows = [(f"key{i % 13}" if i % 5 else None, i) for i in range(1000)]
    words = [KIND_NAMES[i % 4] for i in range(1000)]
    pack = Pack(Route(SCHEMA, (0,), 4, blob_bytes=blob_bytes), SCHEMA, "test", change_column="op")
    batches = [
        _batch(rows[at : at + size], words[at : at + size]) for at in range(0, len(rows), size)
    ]
    packed = _packed(pack, batches)
    home: dict[str | None, int] = {}
    total = 0
    for bucket in bucket_keys(4):
        found = _gathered(packed, bucket)
        total += len(found)
        for kind, key, value in found:
            assert home.setdefault(key, bucket) == bucket
            assert (key, kind) == (rows[value][0], words[value])
        for key in {row[1] for row in found}:
            values = [row[2] for row in found if row[1] == key]
            assert values == sorted(values)
    assert total == 1000


def test_map_partitions_are_applied_in_their_order() -> None:
    pack = Pack(Route(SCHEMA, (), 1), SCHEMA, "test")
    late = _packed(pack, [_batch([("a", 2)])], partition=1)
    early = _packed(pack, [_batch([("a", 1)])], partition=0)
    assert _gathered(late + early, bucket_keys(1)[0]) == [("+I", "a", 1), ("+I", "a", 2)]


def test_files_are_applied_in_the_order_they_were_written() -> None:
    pack = Pack(Route(SCHEMA, (), 1), SCHEMA, "test", ordered=True)
    columns = [
        pa.array(["a"] * 4),
        pa.array([3, 4, 1, 2]),
        pa.array([9, 9, -5, 8], pa.timestamp("us", "UTC")),
        pa.array(["x", "x", "z", "y"]),
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=["c0", "c1", "t", "p"])
    rows = _gathered(_packed(pack, [batch]), bucket_keys(1)[0])
    assert [row[2] for row in rows] == [1, 2, 3, 4]


def test_an_append_only_input_may_not_retract() -> None:
    pack = Pack(Route(SCHEMA, (0,), 2), SCHEMA, "GROUP BY k", change_column="op", append_only=True)
    with pytest.raises(
        DataError, match=r"GROUP BY k.*'op': 1 retraction in an input declared append"
    ):
        _packed(pack, [_batch([("a", 1), ("a", 1)], ["+I", "-D"])])


def test_bucket_0_is_in_every_task_that_has_rows() -> None:
    for rows in ([("a", 1)], [("b", 1)], [("c", 1)], [("d", 1)]):
        packed = _packed(Pack(Route(SCHEMA, (0,), 7), SCHEMA, "GROUP BY k"), [_batch(rows)])
        assert packed[0]["bucket"] == bucket_keys(7)[0]
        assert came(packed).batch.to_pylist() == [{"k": rows[0][0], "v": 1}]
    assert _packed(Pack(Route(SCHEMA, (0,), 7), SCHEMA, "GROUP BY k"), [_batch([])]) == []


def test_no_columns_still_have_rows() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([0, 0, 0])], names=["nothing"])
    packed = _packed(Pack(Route(pa.schema([]), (), 1), pa.schema([]), "COUNT(*)"), [batch])
    assert came(packed, pa.schema([])).batch.num_rows == 3


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_having_keeps_the_laws_across_batches(size: int) -> None:
    words = ["+I", "+I", "-U", "+U", "-U", "+U", "-U", "+U", "-U", "+U", "-D", "+U", "+U", "-D"]
    passes = [
        True,
        False,
        True,
        True,
        True,
        False,
        False,
        True,
        False,
        False,
        True,
        False,
        True,
        None,
    ]
    wanted = ["+I", "-U", "+U", "-D", "+I", "-D", "-D", "+U"]
    values = [0, 2, 3, 4, 7, 10, 11, 12]
    whole = pa.record_batch(
        {
            "v": pa.array(range(len(words))),
            "op": kinds_to_arrow(parse_kinds(pa.array(words), "")),
            "ok": pa.array(passes),
        }
    )
    schema = pa.schema([("v", pa.int64()), ("op", pa.string())])
    batches = [whole.slice(at, size) for at in range(0, len(words), size)]
    out = pa.Table.from_batches(list(Having("flink")(batches)), schema=schema)
    assert out.column("op").to_pylist() == wanted
    assert out.column("v").to_pylist() == values


def test_having_of_nothing() -> None:
    keep, kinds = having_kinds(np.empty(0, np.int8), np.empty(0, np.bool_))
    assert len(keep) == len(kinds) == 0
