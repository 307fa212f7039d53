"""A MAP in rows that an operator stores is refused by its name before the query runs; what stores none takes it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import aggloom as al
from aggloom.errors import UnsupportedSqlError

TABLES = {"t": "k STRING, v INT, m MAP<STRING, INT>, ts TIMESTAMP", "u": "k STRING"}
MATCH = """MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES B.v AS b ALL ROWS PER MATCH
    PATTERN (A B) DEFINE A AS v = 1, B AS v = 2)"""
FIRST = "SELECT k, m FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {}) AS n FROM t) WHERE n = 1"
STORED = {
    f"SELECT * FROM t {MATCH}": "MATCH_RECOGNIZE",
    "SELECT a.m FROM t AS a JOIN t AS b ON a.k = b.k": "Join",
    "SELECT m FROM t WHERE k IN (SELECT k FROM u)": "Join",
    "SELECT m, SUM(v) OVER (PARTITION BY k) AS s FROM t": "OVER",
    "SELECT m FROM t ORDER BY v LIMIT 1": "Rank",
    "SELECT m FROM t WHERE ts > NOW() - INTERVAL '1' DAY": "TemporalFilter",
    FIRST.format("PROCTIME() DESC"): "Deduplicate",
}
NOT_STORED = [
    f"SELECT k, b FROM t {MATCH}",
    f"SELECT m FROM (SELECT k, v, ts, MAP_ENTRIES(m) AS m FROM t) AS s {MATCH}",
    "SELECT m FROM t UNION ALL SELECT m FROM t",
    "SELECT a.k FROM t AS a JOIN t AS b ON a.k = b.k",
    "SELECT k, m FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY))",
    FIRST.format("PROCTIME()"),
]


def open_harness(sql: str) -> al.Harness:
    return al.Harness.from_sql(sql, TABLES, input_changes="append", backend="python")


@pytest.mark.parametrize("sql", STORED)
def test_a_map_in_stored_rows_is_named(sql: str) -> None:
    what = f"column 'm' of type MAP<STRING,INT> in rows that {STORED[sql]} stores is not supported here; leave it out"
    with pytest.raises(UnsupportedSqlError, match=what):
        open_harness(sql)


@pytest.mark.parametrize("sql", NOT_STORED)
def test_a_map_that_no_operator_stores(sql: str) -> None:
    rows: list[tuple[Any, ...]] = [
        ("+I", "a", 1, {"x": 1}, dt.datetime(2024, 1, 1)),
        ("+I", "a", 2, {"x": 2}, dt.datetime(2024, 1, 2)),
    ]
    with open_harness(sql) as harness:
        harness.process(rows)
        harness.end_of_input()
        assert len(harness.changes())
