"""Batches of a small result, sinks that write them into SQLite, and what is there then."""

from __future__ import annotations

import datetime as dt
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from aggloom.runtime.connectors.database.options import database_options
from aggloom.runtime.connectors.database.sink import DatabaseSink
from aggloom.runtime.values.changelog import parse_kinds

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int32()), ("v", pa.decimal128(10, 2))])
KEY = ("k", "n")


def batch(*rows: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> tuple[pa.Table, Any]:
    columns = list(zip(*(row[1:] for row in rows), strict=True)) or [()] * len(schema)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    kinds = parse_kinds(pa.array([row[0] for row in rows], pa.string()), "test")
    return pa.table(arrays, schema=schema), kinds


def into(path: Path, key: Any = KEY, has_old_rows: bool = True, **options: Any) -> DatabaseSink:
    told = {"table": "t", "connect": str(path), "driver": "sqlite3", **options}
    return DatabaseSink(database_options(told), key, has_old_rows)


def content(path: Path, table: str = "t") -> list[Any]:
    connection = sqlite3.connect(path)
    rows = connection.execute(f"SELECT * FROM {table}").fetchall()
    connection.close()
    return sorted(rows, key=repr)


A, B, C = ("a", 1, Decimal("1.50")), ("a", 1, Decimal("2.00")), ("b", None, None)
ONE: dict[str, tuple[pa.DataType, Any]] = {
    "avg": (pa.float64(), 1.5),
    "single": (pa.float32(), 0.1),
    "big": (pa.int64(), 2**53 + 1),
    "int": (pa.int32(), 2**24 + 1),
    "decimal": (pa.decimal128(20, 4), Decimal("1234567890123456.7891")),
    "money": (pa.decimal128(10, 2), Decimal("12345678.91")),
    "text": (pa.string(), "0123456789.555"),
    "day": (pa.date32(), dt.date(2020, 1, 2)),
    "at": (pa.timestamp("us", "UTC"), dt.datetime(2020, 1, 2, 3, 4, 5, 678901, dt.UTC)),
    "wall": (pa.timestamp("us"), dt.datetime(2020, 1, 2, 3, 4, 5, 678901)),
    "clock": (pa.time64("us"), dt.time(3, 4, 5, 678901)),
    "list": (pa.list_(pa.float64()), [1.5]),
}


def one_row(name: str) -> tuple[pa.Table, Any]:
    dtype, value = ONE[name]
    return batch(("+I", 1, value), schema=pa.schema([("id", pa.int64()), ("v", dtype)]))
