"""Clauses that few dialects have are heeded or refused by name, never passed over."""

from __future__ import annotations

from typing import Any

import pytest

from aggloom.errors import DuplicateNameError, SqlError, UnsupportedSqlError
from aggloom.runtime.local.harness import Harness

ROWS = [("a", 1, 5), ("a", 2, 5), ("b", 1, 7), ("b", 1, 9)]


def table(sql: str) -> list[tuple[Any, ...]]:
    with Harness.from_sql(sql, {"t": "k STRING, g INT, x INT"}, backend="python") as harness:
        harness.process([("+I", *row) for row in ROWS], table="t")
        harness.flush()
        return sorted(harness.table(), key=str)


@pytest.mark.parametrize(
    ("sql", "error", "match"),
    [
        ("SELECT k FROM t ORDER BY x LIMIT 50 PERCENT", UnsupportedSqlError, "LIMIT of a PERCENT"),
        ("SELECT k FROM t ORDER BY x LIMIT 1 BY k", UnsupportedSqlError, "LIMIT BY is"),
        ("SELECT k FROM t LIMIT 1 WITH TIES", SqlError, "WITH TIES needs an ORDER BY"),
        ("SELECT k FROM t GROUP BY k WITH TOTALS", UnsupportedSqlError, "WITH TOTALS is"),
        ("SELECT k FROM t GROUP BY ALL WITH ROLLUP", UnsupportedSqlError, "GROUP BY ALL beside"),
        (
            "WITH a AS (SELECT k FROM t), A AS (SELECT g FROM t) SELECT * FROM a",
            DuplicateNameError,
            "WITH names 'A' twice",
        ),
    ],
)
def test_what_is_refused(sql: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        table(sql)


def test_limit_with_ties() -> None:
    assert table("SELECT k, x FROM t ORDER BY x LIMIT 1 WITH TIES") == [("a", 5), ("a", 5)]


def test_group_by_all_with_keys_is_group_by_these() -> None:
    assert table("SELECT COUNT(*) AS n FROM t GROUP BY ALL k, g") == [(1,), (1,), (2,)]


def test_group_by_distinct_has_each_set_once() -> None:
    sets = "GROUPING SETS ((k), (k), (), ())"
    assert table(f"SELECT k, COUNT(*) AS n FROM t GROUP BY DISTINCT {sets}") == [
        *[("a", 2), ("b", 2), (None, 4)],
    ]
    assert len(table(f"SELECT k, COUNT(*) AS n FROM t GROUP BY {sets}")) == 6
    assert table("SELECT COUNT(*) AS n FROM t GROUP BY DISTINCT GROUPING SETS ((), ())") == [(4,)]


def test_grouping_sets_after_the_keys_are_the_sets_alone() -> None:
    """Spark's form without a comma; with one the key is in every set."""
    rows = table("SELECT k, g, COUNT(*) AS n FROM t GROUP BY k, g GROUPING SETS ((g), (k))")
    assert rows == [("a", None, 2), ("b", None, 2), (None, 1, 3), (None, 2, 1)]
    rows = table(
        "SELECT k, GROUPING_ID() AS i, COUNT(*) AS n FROM t GROUP BY k, g GROUPING SETS ((g), ())"
    )
    assert rows == [(None, 2, 1), (None, 2, 3), (None, 3, 4)]
    rows = table("SELECT k, g, COUNT(*) AS n FROM t GROUP BY k, GROUPING SETS ((g), ())")
    assert len(rows) == 5
    with pytest.raises(UnsupportedSqlError, match="put a comma between"):
        table("SELECT k FROM t GROUP BY ROLLUP (k) GROUPING SETS ((k))")
