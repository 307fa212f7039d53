"""Tables under their whole names: `prod.t` is the table `prod.t`, or else `t`, and never two of them one."""

from __future__ import annotations

from typing import Any

import pytest

from aggloom.errors import UnknownTableError
from aggloom.runtime.local.harness import Harness

T = {"t": "k BIGINT"}
BOTH = {"prod.t": "k BIGINT", "test.t": "k BIGINT"}


def table(sql: str, tables: dict[str, str]) -> list[tuple[Any, ...]]:
    """The result where each table has as many rows as it has places in the mapping."""
    with Harness.from_sql(sql, tables, backend="python") as harness:
        for count, name in enumerate(tables, 1):
            if name in harness.plan.scans:
                harness.process([("+I", 1)] * count, table=name)
        harness.flush()
        return sorted(harness.table())


@pytest.mark.parametrize(
    ("sql", "tables", "rows"),
    [
        ("SELECT COUNT(*) AS n FROM prod.t", T, [(1,)]),
        ("SELECT COUNT(*) AS n FROM prod.t JOIN t AS u ON prod.t.k = u.k", T, [(1,)]),
        ("SELECT COUNT(*) AS n FROM test.T", BOTH, [(2,)]),
        ("SELECT COUNT(*) AS n FROM prod.t AS a JOIN test.t AS b ON a.k = b.k", BOTH, [(2,)]),
        ("SELECT COUNT(*) AS n FROM cat.prod.t", {"cat.prod.t": "k BIGINT"}, [(1,)]),
        ("WITH t AS (SELECT k + 1 AS k FROM prod.t) SELECT k FROM t", T, [(2,)]),
    ],
)
def test_a_whole_name_is_that_table(
    sql: str, tables: dict[str, str], rows: list[tuple[Any, ...]]
) -> None:
    assert table(sql, tables) == rows


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM prod.t AS a JOIN test.t AS b ON a.k = b.k",
        "SELECT k FROM prod.t WHERE k IN (SELECT k FROM test.t)",
        "CREATE VIEW v AS SELECT k FROM prod.t; SELECT v.k FROM v JOIN test.t AS u ON v.k = u.k",
        "WITH t AS (SELECT k + 1 AS k FROM t) SELECT k FROM prod.t",
        "WITH t AS (SELECT k + 1 AS k FROM t), u AS (SELECT k FROM prod.t) SELECT k FROM u",
        "WITH t AS (SELECT k + 1 AS k FROM t) SELECT k FROM (SELECT k FROM prod.t) AS v",
    ],
)
def test_two_tables_are_not_taken_for_one(sql: str) -> None:
    with pytest.raises(UnknownTableError, match=r"give it under its whole name, as in tables="):
        table(sql, T)
