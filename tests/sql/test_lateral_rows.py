"""LATERAL sub-queries with rows of their own, over changes, beside DuckDB; those that stay refused."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import aggloom as al
from aggloom.errors import UnsupportedSqlError

TABLES = {"s": "k STRING, lo INT", "u": "k STRING, v INT, n STRING"}
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "s": [("a", 1), ("b", 2), ("c", 0), (None, 5), ("a", 3)],
    "u": [
        ("a", 1, "x"),
        ("a", 2, "y"),
        ("a", 2, "z"),
        ("b", 5, "b"),
        ("b", None, "c"),
        (None, 3, "d"),
    ],
}
QUERIES = [
    "SELECT s.k, l.v, l.n FROM s, "
    "LATERAL (SELECT v, n FROM u WHERE u.k = s.k ORDER BY v DESC NULLS LAST, n LIMIT 2) AS l",
    "SELECT d.k, w FROM (SELECT DISTINCT k FROM s) d, "
    "LATERAL (SELECT v FROM u WHERE k = d.k ORDER BY v DESC NULLS LAST, n LIMIT 2) AS l(w)",
    "SELECT s.k, l.m FROM s LEFT JOIN LATERAL "
    "(SELECT v AS m FROM u WHERE u.k = s.k AND u.v > 1 ORDER BY v NULLS FIRST, n LIMIT 1) AS l ON TRUE",
    "SELECT s.k, l.m FROM s CROSS JOIN LATERAL (SELECT u.v + 1 AS m FROM u WHERE u.v > s.lo AND u.n <> 'b') AS l",
    "SELECT s.k, COUNT(l.m) AS c FROM s LEFT JOIN LATERAL "
    "(SELECT u.v AS m FROM u WHERE u.k = s.k AND u.v + s.lo > 3) AS l ON TRUE GROUP BY s.k",
    "SELECT * FROM s, LATERAL (SELECT v, n FROM u WHERE u.k = s.k AND u.v > s.lo) AS l, "
    "LATERAL (SELECT z.n AS e FROM u z WHERE z.v = l.v ORDER BY z.n LIMIT 1) AS m WHERE s.lo > 0",
    "SELECT * FROM (SELECT DISTINCT k FROM s) d, LATERAL (SELECT v, n FROM u WHERE k = d.k ORDER BY n LIMIT 1)",
    "SELECT l.*, s.lo FROM s LEFT JOIN LATERAL (SELECT v FROM u WHERE u.k = s.k OR u.v = s.lo) AS l ON TRUE",
    # Within one another: the inner one is of another query than the outer one.
    "SELECT s.k, o.c FROM s CROSS JOIN LATERAL (SELECT COUNT(DISTINCT d.v) AS c FROM (SELECT a.k, a.v FROM u AS a "
    "CROSS JOIN LATERAL (SELECT MAX(b.v) AS m FROM u AS b WHERE b.k = a.k) AS l WHERE l.m > 1) AS d "
    "WHERE d.k = s.k) AS o",
    "SELECT s.k, o.v, o.m FROM s CROSS JOIN LATERAL (SELECT d.v, d.m FROM (SELECT a.k, a.v, l.m FROM u AS a "
    "LEFT JOIN LATERAL (SELECT b.v AS m FROM u AS b WHERE b.k = a.k ORDER BY b.v NULLS FIRST, b.n LIMIT 1) AS l "
    "ON TRUE) AS d WHERE d.k = s.k) AS o",
]


@pytest.mark.parametrize("query", QUERIES)
def test_rows_beside_duckdb(query: str) -> None:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE s (k VARCHAR, lo INT); CREATE TABLE u (k VARCHAR, v INT, n VARCHAR)"
    )
    for table, rows in ROWS.items():
        marks = ", ".join("?" for _ in rows[0])
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    with al.Harness.from_sql(query, TABLES, backend="python") as harness:
        passing = ("a", 9, "q")
        harness.process([("+I", *passing), *(("+I", *row) for row in ROWS["u"])], table="u")
        harness.process([("+I", *row) for row in ROWS["s"]], table="s")
        harness.flush()
        harness.process([("-D", *passing)], table="u")
        harness.flush()
        rows = sorted(harness.table(), key=repr)
    assert rows == sorted(connection.execute(query).fetchall(), key=repr)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 AS x FROM s, LATERAL (SELECT v FROM u WHERE u.v > s.lo ORDER BY v LIMIT 2) AS l",
        "SELECT 1 AS x FROM s, LATERAL (SELECT v + s.lo AS w FROM u WHERE u.k = s.k) AS l",
        "SELECT 1 AS x FROM s, LATERAL (SELECT DISTINCT v FROM u WHERE u.k = s.k) AS l",
    ],
)
def test_other_lateral_queries_are_refused(query: str) -> None:
    with pytest.raises(UnsupportedSqlError, match="this LATERAL is not supported here"):
        al.Harness.from_sql(query, TABLES)
