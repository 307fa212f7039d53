"""Rows in lists of rows, which are compared field by field; a NULL field equals a NULL field, as in Spark."""

from __future__ import annotations

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
        ("SELECT k FROM t WHERE (k, s) IN ((1, 'b'), (2, NULL))", [(2,)]),
        ("SELECT k FROM t WHERE (k, s) NOT IN ((1, 'a'), (2, 'b'))", [(None,), (2,)]),
        ("SELECT k, (k, s) IN ((1, 'a')) FROM t", [(None, False), (1, True), (2, False)]),
        (
            "SELECT COUNT(*) FILTER (WHERE (k, s) IN ((1, UPPER('A')), (k, 'b'))) AS n FROM t",
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


def test_a_column_keeps_its_text_as_its_name() -> None:
    with al.Harness.from_sql("SELECT (k, s) IN ((1, 'a')) FROM t", TABLES, backend="python") as h:
        assert h.to_arrow().schema.names == ["(k, s) IN ((1, 'a'))"]


def test_rows_of_another_length_are_refused() -> None:
    with pytest.raises(SqlError, match="a row of 3 in a list for rows of 2") as refusal:
        al.Harness.from_sql("SELECT k FROM t WHERE (k, s) IN ((1, 'a', 2))", TABLES)
    assert "^^^" in str(refusal.value)
