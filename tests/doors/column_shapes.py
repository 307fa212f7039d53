"""Parquet of other writers by chance: Polars, DuckDB and Arrow, with their types, marks and directories."""

from __future__ import annotations

import datetime as dt
import io
import json
import random
import re
import uuid
from decimal import Decimal
from typing import Any
from urllib.parse import quote as percent

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

from doors.shape import INSERT, SYSTEMS, Change, Shape, cased, draw_values, draw_word

_TYPES = {
    "id": pa.decimal128(20, 0),
    "name": pa.string(),
    "at": pa.timestamp("us"),
    "cnt": pa.int32(),
}
_EPOCH = dt.datetime(1970, 1, 1)
_MICRO = dt.timedelta(microseconds=1)
_TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))


def marked_shape(r: random.Random) -> Shape:
    """Rows with the marks of a system, and types of other writers: views, large texts, nanoseconds, wide numbers."""
    system = r.choice([None, *SYSTEMS])
    rows = [draw_values(r) for _ in range(r.randrange(0, 6))]
    words = [draw_word(r, system) for _ in rows]
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in _TYPES.items()}
    columns["name"] = columns["name"].cast(r.choice(_TEXTS))
    options: dict[str, Any] = {} if system is None else dict(system.options)
    bad = False
    is_wide = r.random() < 0.4
    if is_wide:
        columns["at"], odd = _nanoseconds(r, columns["at"])
        options["nanoseconds"] = r.choice(["cut", "error"])
        bad = odd and options["nanoseconds"] == "error"
    if r.random() < 0.3:
        columns["id"] = columns["id"].cast(pa.decimal128(r.choice([20, 25, 38]), 0))
    if system is not None:
        said = [None if word == "" and r.random() < 0.5 else word for word, _ in words]
        columns[system.column] = _words(r, said)
        columns |= {name: pa.array(["x"] * len(rows), pa.string()) for name in system.beside}
    names = [cased(r, name) if name in _TYPES else name for name in columns]
    pairs = list(zip(names, columns.values(), strict=True))
    r.shuffle(pairs)
    table = pa.table([array for _, array in pairs], names=[name for name, _ in pairs])
    changes: list[Change] = [(kind, row) for row, (_, kind) in zip(rows, words, strict=True)]
    keys = ("id",) if system is not None and system.keyed else ()
    label = f"parquet of {system.name if system else 'rows'}"
    files = {"t.parquet": _written(r, table)}
    expected = None if bad else changes
    return Shape(label, "parquet", files, options, expected, keys=keys, by_spark=not is_wide)


def _nanoseconds(r: random.Random, times: pa.Array) -> tuple[pa.Array, bool]:
    """Times in nanoseconds, and whether some have digits below microseconds."""
    wide = times.cast(pa.timestamp("ns")).cast(pa.int64()).to_pylist()
    more = [r.choice([0, 0, 1, 999]) for _ in wide]
    array = pa.array([None if at is None else at + n for at, n in zip(wide, more, strict=True)])
    odd = any(n for at, n in zip(wide, more, strict=True) if at is not None)
    return array.cast(pa.int64()).cast(pa.timestamp("ns")), odd


def _words(r: random.Random, words: list[Any]) -> pa.Array:
    """A change column in a type that a system has for it."""
    if any(isinstance(word, bool) for word in words):
        return pa.array(words, pa.bool_())
    if (
        words
        and all(isinstance(word, str) and word.isdigit() for word in words)
        and r.random() < 0.7
    ):
        return pa.array([int(word) for word in words], r.choice([pa.int32(), pa.int64()]))
    return pa.array(words, pa.string())


def _written(r: random.Random, table: pa.Table) -> bytes:
    sink = io.BytesIO()
    if r.random() < 0.3:
        polars.from_arrow(table).write_parquet(sink)  # type: ignore[union-attr]
        return sink.getvalue()
    pq.write_table(
        table,
        sink,
        row_group_size=r.choice([1, 2, 100]),
        store_schema=r.random() < 0.7,
    )
    return sink.getvalue()


def nested_shape(r: random.Random) -> Shape:
    """Lists and texts of Polars, in large and view forms; JSON, UUIDs and wide integers of DuckDB."""
    rows: list[dict[str, Any]] = [
        {
            "id": r.choice([10**19, 2**64 - 1, -5, 0, 10**20 - 1]),
            "tags": r.choice([[], ["a", None], ["größe", "x"], None]),
            "doc": r.choice([{"a": 1}, {"b": ["x"]}, None]),
            "uid": r.choice([uuid.UUID(int=1), uuid.UUID(int=2**127 + 3), None]),
        }
        for _ in range(r.randrange(0, 5))
    ]
    shown = [
        {
            **row,
            "doc": None if row["doc"] is None else json.dumps(row["doc"]),
            "uid": None if row["uid"] is None else str(row["uid"]),
            "id": Decimal(row["id"]),
        }
        for row in rows
    ]
    content = _by_duckdb(rows) if r.random() < 0.5 else _by_polars(r, shown)
    ddl = "id DECIMAL(38,0), tags ARRAY<STRING>, doc STRING, uid STRING"
    changes = [(INSERT, row) for row in shown]
    files = {"t.parquet": content}
    return Shape("nested parquet", "parquet", files, {}, changes, ddl, by_spark=False)


def _by_duckdb(rows: list[dict[str, Any]]) -> bytes:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        path = Path(folder) / "t.parquet"
        connection.execute("CREATE TABLE t (id DECIMAL(38,0), tags VARCHAR[], doc JSON, uid UUID)")
        for row in rows:
            doc = None if row["doc"] is None else json.dumps(row["doc"])
            values = [row["id"], row["tags"], doc, row["uid"]]
            connection.execute("INSERT INTO t VALUES (?, ?, ?, ?)", values)
        connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
        return path.read_bytes()


def _by_polars(r: random.Random, rows: list[dict[str, Any]]) -> bytes:
    tags = r.choice(
        [pa.large_list(pa.large_string()), pa.list_(pa.string_view()), pa.list_(pa.string())]
    )
    table = pa.table(
        {
            "id": pa.array([row["id"] for row in rows], pa.decimal128(38, 0)),
            "tags": pa.array([row["tags"] for row in rows], tags),
            "doc": pa.array([row["doc"] for row in rows], r.choice(_TEXTS[:3])),
            "uid": pa.array([row["uid"] for row in rows], pa.large_string()),
        }
    )
    sink = io.BytesIO()
    if r.random() < 0.5:
        polars.from_arrow(table).write_parquet(sink)  # type: ignore[union-attr]
    else:
        pq.write_table(table, sink)
    return sink.getvalue()


def directory_shape(r: random.Random) -> Shape:
    """Parquet files below directories that are columns, as Arrow, DuckDB and Spark name them."""
    files, changes, is_known = dict[str, bytes](), list[Change](), True
    for number in range(r.randrange(1, 4)):
        name = r.choice(["a", "größe", "日本", "a:b", "100%", None])
        rows = [draw_values(r) | {"name": name} for _ in range(r.randrange(0, 4))]
        kept = ("id", "at", "cnt")
        table = pa.table({n: pa.array([row[n] for row in rows], _TYPES[n]) for n in kept})
        sink = io.BytesIO()
        pq.write_table(table, sink)
        plain = r.random() < 0.5
        is_known = is_known and (plain or name is None or name.isascii())
        shown = "__HIVE_DEFAULT_PARTITION__" if name is None else _escaped(name, plain)
        files[f"name={shown}/{number}.parquet"] = sink.getvalue()
        changes += [(INSERT, row) for row in rows]
    label = "parquet in directories"
    return Shape(label, "parquet", files, {}, changes, by_spark=is_known)


def _escaped(text: str, plain: bool) -> str:
    """A text as the name of a directory; plain: only ASCII is escaped, as by Spark."""
    return (
        re.sub(r"[\x00-\x7f]+", lambda part: percent(part[0], safe=""), text)
        if plain
        else percent(text, safe="")
    )
