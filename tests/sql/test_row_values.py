"""Rows in lists of rows, which are compared field by field: a NULL field equals a NULL field in Spark alone."""

from __future__ import annotations

import duckdb
import pytest

import aggloom as al
from aggloom.errors import SqlError

TABLES = {"t": "k INT, s STRING"}
ROWS = [("+I", 1, "a"), ("+I", 2, None), ("+I", None, "b"), ("+I", 1, "z"), ("-D", 1, "z")]


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k FROM t WHERE (k, s) IN ((1, 'a'), (2, 'b'))", [(1,)]),
        ("SELECT k, (k, s) IN ((1, 'a')) FROM t", [(None, False), (1, True), (2, False)]),
        (
            "SELECT COUNT(*) FILTER (WHERE (k, s) IN ((1, LOWER('A')), (2, 'b'))) AS n FROM t",
            [(1,)],
        ),
        (
            "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING (k, COUNT(*)) IN ((1, 1), (2, 2))",
            [(1, 1)],
        ),
        ("SELECT a.k FROM t AS a JOIN t AS b ON a.k = b.k AND (a.s, b.s) IN (('a', 'a'))", [(1,)]),
    ],
)
def test_rows_are_compared_field_by_field(
    sql: str, expected: list[tuple[object, ...]], dialect: str
) -> None:
    with al.Harness.from_sql(sql, TABLES, backend="python", dialect=dialect) as harness:
        harness.process(ROWS, table="t")
        harness.flush()
        assert [tuple(row) for row in harness.table()] == expected


@pytest.mark.parametrize(
    ("condition", "standard", "in_spark"),
    [
        ("(k, s) IN ((1, 'b'), (2, NULL))", "k = 1 AND s = 'b' OR k = 2 AND s = NULL", [(2,)]),
        (
            "(k, s) IN ((1, UPPER('A')), (k, 'b'))",
            "k = 1 AND s = UPPER('A') OR k = k AND s = 'b'",
            [(None,)],
        ),
        (
            "(k, s) NOT IN ((1, 'a'), (2, 'b'))",
            "NOT (k = 1 AND s = 'a' OR k = 2 AND s = 'b')",
            [(None,), (2,)],
        ),
        (
            "(k, s) NOT IN ((1, 'a'), (3, 'b'))",
            "NOT (k = 1 AND s = 'a' OR k = 3 AND s = 'b')",
            [(None,), (2,)],
        ),
    ],
)
def test_null_fields_are_compared_by_the_dialect(
    condition: str, standard: str, in_spark: list[tuple[object, ...]]
) -> None:
    values = "(VALUES (1, 'a'), (2, NULL), (NULL, 'b')) AS t(k, s)"
    in_flink = duckdb.sql(f"SELECT k FROM {values} WHERE {standard}").fetchall()
    for dialect, expected in {"spark": in_spark, "flink": in_flink}.items():
        sql = f"SELECT k FROM t WHERE {condition}"
        with al.Harness.from_sql(sql, TABLES, backend="python", dialect=dialect) as harness:
            harness.process(ROWS, table="t")
            harness.flush()
            assert [tuple(row) for row in harness.table()] == expected


def test_a_column_keeps_its_text_as_its_name() -> None:
    with al.Harness.from_sql("SELECT (k, s) IN ((1, 'a')) FROM t", TABLES, backend="python") as h:
        assert h.to_arrow().schema.names == ["(k, s) IN ((1, 'a'))"]


def test_rows_of_another_length_are_refused() -> None:
    with pytest.raises(SqlError, match="a row of 3 in a list for rows of 2") as refusal:
        al.Harness.from_sql("SELECT k FROM t WHERE (k, s) IN ((1, 'a', 2))", TABLES)
    assert "^^^" in str(refusal.value)
