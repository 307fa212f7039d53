"""Queries that were tried from outside: what they mean, beside DuckDB, and what refusals say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pytest

import aggloom as al
from aggloom.errors import (
    SqlError,
    UnknownFunctionError,
    UnknownTableError,
    UnknownTypeError,
    UnsupportedExpressionError,
    UnsupportedSqlError,
)

TABLES = {"t": "k STRING, v BIGINT, g STRING", "u": "k STRING, w INT"}
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "t": [("a", 1, "x"), ("b", 2, "x"), ("a", 3, None)],
    "u": [("a", 7), (None, 8)],
}


def fed(sql: str) -> al.Harness:
    harness = al.Harness.from_sql(sql, TABLES, backend="python")
    for name in harness.plan.scans:
        harness.process([("+I", *row) for row in ROWS.get(name, ())], table=name)
    harness.flush()
    return harness


def oracle(sql: str) -> Counter[Any]:
    with duckdb.connect() as database:
        database.execute("CREATE TABLE t (k VARCHAR, v BIGINT, g VARCHAR)")
        database.execute("CREATE TABLE u (k VARCHAR, w INTEGER)")
        for name, rows in ROWS.items():
            marks = ", ".join("?" for _ in rows[0])
            database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        return Counter(database.execute(sql).fetchall())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM t UNION ALL SELECT NULL",
        "SELECT NULL AS k UNION ALL SELECT k FROM t",
        "SELECT k, v FROM t UNION SELECT NULL, NULL",
        "SELECT NULL, v FROM t UNION ALL SELECT k, NULL FROM t",
        "SELECT k FROM u EXCEPT SELECT NULL FROM t",
        "SELECT NULL AS k FROM t INTERSECT SELECT k FROM u",
        "SELECT NULL AS k FROM t EXCEPT ALL SELECT k FROM u",
        "(SELECT NULL AS k FROM t UNION ALL SELECT NULL FROM t) UNION ALL SELECT v FROM t",
        "SELECT NULL AS a, NULL AS b UNION ALL (SELECT NULL, v FROM t UNION SELECT k, NULL FROM t)",
        "SELECT *, NULL AS z FROM t UNION ALL SELECT *, v + 1 AS z FROM t",
        "SELECT k, NULL AS n, COUNT(*) AS c FROM t GROUP BY k UNION ALL SELECT k, v, 1 FROM t",
        "SELECT v AS x, NULL AS n FROM t GROUP BY x UNION ALL SELECT v, k FROM t",
        "SELECT k, v FROM t UNION ALL VALUES (NULL, 1), (NULL, NULL)",
        "SELECT * FROM (VALUES (NULL, 'x'), (NULL, NULL)) AS w(a, b) UNION SELECT v, k FROM t",
        "SELECT DISTINCT NULL AS k FROM t UNION SELECT DISTINCT k FROM t",
        "SELECT (NULL) AS a UNION ALL (WITH w AS (SELECT v FROM t) SELECT v FROM w)",
        "WITH q AS (SELECT NULL AS a UNION ALL SELECT v FROM t) SELECT a, COUNT(*) FROM q GROUP BY a",
        "SELECT k FROM t WHERE v IN (SELECT NULL UNION ALL SELECT 3)",
        "SELECT k, SUM(v) OVER (ORDER BY (SELECT MAX(v) FROM t)) AS s FROM t",
        "SELECT k, SUM(v) OVER (PARTITION BY (SELECT MAX(w) FROM u) ORDER BY v) AS s FROM t",
        "SELECT k, SUM(v + (SELECT MAX(w) FROM u)) OVER (PARTITION BY k) AS s FROM t",
        "SELECT v, SUM(v) OVER (ORDER BY (SELECT SUM(w) FROM u WHERE u.k = t.k) NULLS FIRST, v) AS s FROM t",
        "SELECT v, SUM(v) OVER (PARTITION BY v IN (SELECT MAX(v) FROM t)) AS s FROM t",
        "SELECT v, SUM(v) OVER (PARTITION BY EXISTS (SELECT 1 FROM u WHERE u.k = t.k)) AS s FROM t",
        "SELECT k, RANK() OVER (ORDER BY SUM(v) - (SELECT MAX(v) FROM t)) AS r FROM t GROUP BY k",
        "SELECT k, v FROM t QUALIFY SUM(v) OVER (PARTITION BY k) > (SELECT MAX(v) FROM t)",
        "SELECT k, v FROM t ORDER BY (SELECT COUNT(*) FROM u WHERE u.k = t.k) DESC, v LIMIT 2",
        "SELECT k, v FROM t ORDER BY v IN (SELECT MAX(v) FROM t) DESC LIMIT 1",
        "SELECT k, SUM(v) AS s FROM t GROUP BY k ORDER BY SUM(v) - (SELECT MAX(v) FROM t) LIMIT 1",
        "SELECT COUNT(*) AS c, SUM(v) AS s FROM t GROUP BY ()",
        "SELECT k, g, SUM(v) AS s FROM t GROUP BY (k), g",
        "SELECT k FROM t WHERE EXISTS (SELECT COUNT(*) FROM u)",
    ],
)
def test_as_duckdb(sql: str) -> None:
    assert Counter(fed(sql).table()) == oracle(sql)


def test_a_tuple_of_keys_is_all_of_them() -> None:
    apart = fed("SELECT k, g, SUM(v) AS s FROM t GROUP BY k, g").table()
    assert fed("SELECT k, g, SUM(v) AS s FROM t GROUP BY (k, g)").table() == apart


@pytest.mark.parametrize(
    ("sql", "error", "match"),
    [
        ("SELECT NULL AS k UNION ALL SELECT NULL", UnsupportedExpressionError, "NULL has no type"),
        ("SELECT NULL AS a, 1 AS b UNION ALL SELECT 1", SqlError, "have 2 and 1 columns"),
        ("SELECT k FROM t GROUP BY k WITH ROLLUP, g", SqlError, "WITH ROLLUP ends a GROUP BY"),
        ("SELECT k FROM t GROUP BY k WITH CUBE, g", SqlError, "WITH CUBE ends a GROUP BY"),
        ("SELECT k FROM t GROUP BY k WITH ROLLUP WITH CUBE", SqlError, "WITH ROLLUP ends a"),
        ("SELECT k FROM t GROUP BY ROLLUP(k) WITH CUBE", UnsupportedSqlError, "beside WITH CUBE"),
        ("SELECT 1e400 AS x FROM t", UnsupportedExpressionError, "beyond the numbers"),
        ("SELECT -1e400D AS x FROM t", UnsupportedExpressionError, "beyond the numbers"),
        ("SELECT 1e400F AS x FROM t", UnsupportedExpressionError, "beyond the numbers"),
        ("SELECT CAST(v * 1e400 AS INT) AS x FROM t", UnsupportedExpressionError, "beyond the nu"),
        (
            "SELECT TO_CHANGELOG(k) AS z FROM t",
            UnknownFunctionError,
            "write it in FROM: FROM TO_CH",
        ),
        (
            "SELECT WIDTH_BUCKET(v, 1, 2, 3) AS z FROM t",
            UnknownTypeError,
            "known to Spark alone; make a Spark session first",
        ),
    ],
)
def test_what_a_refusal_says(sql: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        al.Harness.from_sql(sql, TABLES, backend="python")


def test_an_infinite_text_is_cast_as_spark_does() -> None:
    assert fed("SELECT CAST('1e400' AS DOUBLE) AS x FROM t LIMIT 1").table() == [(float("inf"),)]


@pytest.mark.parametrize(
    ("sql", "match"),
    [
        ("SELECT k FROM t WHERE EXISTS (SELECT COUNT(*) FROM u)", "None of its rows changes"),
        ("SELECT k FROM t", "the query does not name it"),
    ],
)
def test_rows_of_a_table_that_no_plan_reads_say_why(sql: str, match: str) -> None:
    harness = al.Harness.from_sql(sql, TABLES, backend="python")
    with pytest.raises(UnknownTableError, match=match):
        harness.process([("+I", "a", 1)], table="u")
    with pytest.raises(UnknownTableError, match="Did you mean 't'"):
        harness.process([("+I", "a", 1)], table="T_")
