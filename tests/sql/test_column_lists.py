"""Lists of names for the columns of a query, below which its own names may come twice."""

from __future__ import annotations

import pytest

import aggloom as al
from aggloom.errors import DuplicateNameError, SqlError

TABLES = {"t": "k INT, v INT", "u": "k INT, w INT"}
ROWS = [("+I", 1, 5), ("+I", 2, 5), ("+I", 2, 7), ("-D", 2, 7)]


def rows_of(sql: str, dialect: str) -> list[tuple[object, ...]]:
    with al.Harness.from_sql(sql, TABLES, backend="python", dialect=dialect) as harness:
        harness.process(ROWS, table="t")
        if " u" in sql:
            harness.process(ROWS, table="u")
        harness.flush()
        return [tuple(row) for row in harness.table()]


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("WITH c(x, y) AS (SELECT k, k FROM t) SELECT y, x FROM c", [(1, 1), (2, 2)]),
        ("WITH c(x, y, z) AS (SELECT 0, 0, k FROM t) SELECT * FROM c", [(0, 0, 1), (0, 0, 2)]),
        ("SELECT q.b FROM (SELECT v, v + k, v FROM t) AS q(a, b, c)", [(6,), (7,)]),
        ("SELECT a, b FROM (SELECT v, COUNT(*), COUNT(*) FROM t GROUP BY v) q(v, a, b)", [(2, 2)]),
        ("SELECT a, b FROM (SELECT SUM(v), SUM(v) FROM t) q(a, b)", [(10, 10)]),
        ("SELECT a, b FROM (SELECT DISTINCT v, v FROM t) q(a, b)", [(5, 5)]),
        (
            "SELECT * FROM (SELECT k, k FROM t UNION ALL SELECT w, k FROM u) q(a, b)",
            [(1, 1), (2, 2), (5, 1), (5, 2)],
        ),
        ("SELECT a, b FROM (SELECT k, k FROM t ORDER BY k DESC LIMIT 1) q(a, b)", [(2, 2)]),
        (
            "SELECT a, n FROM (SELECT k, k, ROW_NUMBER() OVER (ORDER BY k DESC) FROM t) q(a, b, n) WHERE n = 1",
            [(2, 1)],
        ),
        (
            "CREATE TEMPORARY VIEW c(x, y) AS SELECT k, k FROM t; SELECT x, y FROM c",
            [(1, 1), (2, 2)],
        ),
        (
            """WITH RECURSIVE r(x, n, w) AS (SELECT k, 0, 0 FROM t UNION ALL
                SELECT x, n + 1, w + 2 FROM r WHERE n < 1) SELECT * FROM r""",
            [(1, 0, 0), (1, 1, 2), (2, 0, 0), (2, 1, 2)],
        ),
    ],
)
def test_own_names_may_come_twice_below_a_list(
    sql: str, expected: list[tuple[object, ...]], dialect: str
) -> None:
    assert rows_of(sql, dialect) == expected


@pytest.mark.parametrize(
    ("sql", "error", "said"),
    [
        ("SELECT a FROM (SELECT v, v FROM t) q(a, A2, c)", SqlError, "3 names for 2 columns"),
        ("SELECT a FROM (SELECT v, v FROM t) q(a, a)", DuplicateNameError, "called 'a'"),
        ("SELECT v FROM (SELECT k AS v, v AS v FROM t) q", DuplicateNameError, "called 'v'"),
    ],
)
def test_names_that_come_twice_are_refused(sql: str, error: type[SqlError], said: str) -> None:
    with pytest.raises(error, match=said):
        al.Harness.from_sql(sql, TABLES, backend="python")
