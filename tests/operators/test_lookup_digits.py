"""Lookup tables whose times are declared with fewer digits than their values have, in both dialects."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import aggloom as al
from aggloom.errors import AggloomError, UnsupportedSqlError

AS_OF = "FOR SYSTEM_TIME AS OF PROCTIME() AS r"
FINE = dt.datetime(2026, 1, 2, 3, 4, 5, 123_456)
BEFORE = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)
ROWS = [(1, FINE), (2, BEFORE), (3, None)]


def look_up(script: str, dialect: str = "flink", **lookups: al.LookupTable) -> dict[int, Any]:
    """Return the time that each key of the stream finds."""
    query = f"{script} SELECT t.k AS k, r.ts AS ts FROM t LEFT JOIN r {AS_OF} ON t.k = r.id"
    with al.Harness.from_sql(query, {"t": "k INT"}, lookups=lookups, dialect=dialect) as harness:
        harness.process([("+I", 1), ("+I", 2), ("+I", 3)])
        harness.flush()
        return dict(harness.table())


def write_parquet(path: Path) -> str:
    """Write the rows as Parquet; return the options of CREATE TABLE."""
    ids, times = zip(*ROWS, strict=True)
    table = pa.table({"id": pa.array(ids, pa.int32()), "ts": pa.array(times, pa.timestamp("us"))})
    pq.write_table(table, path / "r.parquet")
    return f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{path / 'r.parquet'}', 'lookup.cache' = 'FULL'"


def write_csv(path: Path) -> str:
    """Write the rows as CSV; return the options of CREATE TABLE."""
    lines = [f"{key},{'' if ts is None else ts.isoformat(' ')}" for key, ts in ROWS]
    (path / "r.csv").write_text("id,ts\n" + "\n".join(lines) + "\n")
    return f"'connector' = 'filesystem', 'format' = 'csv', 'path' = '{path / 'r.csv'}', 'lookup.cache' = 'FULL'"


@pytest.mark.parametrize("write", [write_parquet, write_csv])
@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("TIMESTAMP(6)", FINE, BEFORE),
        ("TIMESTAMP(3)", FINE.replace(microsecond=123_000), BEFORE.replace(microsecond=999_000)),
        ("TIMESTAMP(0)", FINE.replace(microsecond=0), BEFORE.replace(microsecond=0)),
    ],
)
def test_created_tables_cut_what_they_find(
    tmp_path: Path, write: Callable[[Path], str], kind: str, first: Any, second: Any
) -> None:
    """In dialect flink TIMESTAMP is a wall clock, so the values have no zone."""
    script = f"CREATE TABLE r (id INT, ts {kind}) WITH ({write(tmp_path)});"
    assert look_up(script) == {1: first, 2: second, 3: None}


@pytest.mark.parametrize("cache", ["none", "partial", "full"])
def test_given_tables_cut_what_they_find(tmp_path: Path, cache: Any) -> None:
    def connect() -> sqlite3.Connection:
        kinds = sqlite3.PARSE_DECLTYPES
        return sqlite3.connect(tmp_path / "r.db", detect_types=kinds, check_same_thread=False)

    sqlite3.register_converter("wall", lambda text: dt.datetime.fromisoformat(text.decode()))
    with connect() as database:
        database.execute("CREATE TABLE r (id INTEGER, ts wall)")
        texts = [(key, None if ts is None else ts.isoformat()) for key, ts in ROWS]
        database.executemany("INSERT INTO r VALUES (?, ?)", texts)
    table = al.lookup_table(
        "id INT, ts TIMESTAMP_NTZ(1)", connect=connect, table="r", key="id", cache=cache
    )
    found = look_up("", "spark", r=table)
    first, second = FINE.replace(microsecond=100_000), BEFORE.replace(microsecond=900_000)
    assert found == {1: first, 2: second, 3: None}


def test_a_condition_on_a_cut_time_is_tested_after_it_is_cut(tmp_path: Path) -> None:
    """A database would compare all digits of its own, and find nothing."""
    asked: list[str] = []

    def connect() -> sqlite3.Connection:
        made = sqlite3.connect(
            tmp_path / "r.db", detect_types=sqlite3.PARSE_DECLTYPES, check_same_thread=False
        )
        made.set_trace_callback(asked.append)
        return made

    sqlite3.register_converter("wall", lambda text: dt.datetime.fromisoformat(text.decode()))
    with connect() as database:
        database.execute("CREATE TABLE r (id INTEGER, ts wall)")
        database.execute("INSERT INTO r VALUES (1, ?)", (FINE.isoformat(),))
    table = al.lookup_table("id INT, ts TIMESTAMP_NTZ(3)", connect=connect, table="r", key="id")
    query = f"SELECT t.k FROM t JOIN r {AS_OF} ON t.k = r.id AND r.ts = TIMESTAMP_NTZ '2026-01-02 03:04:05.123'"
    with al.Harness.from_sql(query, {"t": "k INT"}, lookups={"r": table}) as harness:
        harness.process([("+I", 1)])
        harness.flush()
        assert harness.table() == [(1,)]
    assert not any("WHERE" in text and "ts" in text.partition("WHERE")[2] for text in asked)


def test_a_source_that_compares_all_digits_is_not_asked_by_a_cut_time() -> None:
    def times(ts: Any) -> Any:
        raise AssertionError("the query is refused before anything is asked")

    query = f"SELECT t.ts FROM t JOIN r {AS_OF} ON t.ts = r.ts"
    table = al.lookup_table("ts TIMESTAMP_NTZ(3)", function=times, key="ts")
    with pytest.raises(
        UnsupportedSqlError,
        match=r"a lookup join without an equality is not .* \(ts: declare six digits",
    ):
        al.Harness.from_sql(query, {"t": "ts TIMESTAMP_NTZ(3)"}, lookups={"r": table})
    whole = al.lookup_table("ts TIMESTAMP_NTZ(3)", rows=[(FINE,)])
    with al.Harness.from_sql(query, {"t": "ts TIMESTAMP_NTZ(3)"}, lookups={"r": whole}) as harness:
        harness.process([("+I", FINE.replace(microsecond=123_999))])
        harness.flush()
        assert harness.table() == [(FINE.replace(microsecond=123_000),)]


def test_digits_inside_of_other_types_are_refused() -> None:
    with pytest.raises(AggloomError, match="cut values off"):
        al.lookup_table("id INT, ts ARRAY<TIMESTAMP(3)>", rows=[])
