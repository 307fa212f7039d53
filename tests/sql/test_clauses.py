"""Clauses that few dialects have are heeded or refused by name, never passed over."""

from __future__ import annotations

from typing import Any

import pytest

import aggloom as al
from aggloom.errors import (
    AmbiguousColumnError,
    DuplicateNameError,
    SqlError,
    UnknownColumnError,
    UnsupportedExpressionError,
    UnsupportedSqlError,
)
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
        (
            "SELECT SUM(x) OVER w AS s FROM t WINDOW w AS (PARTITION BY k), W AS (PARTITION BY g)",
            DuplicateNameError,
            "WINDOW names 'W' twice",
        ),
        (
            "SELECT * FROM (SELECT k FROM t) AS z TABLESAMPLE (10 PERCENT)",
            UnsupportedSqlError,
            "TABLESAMPLE is",
        ),
        (
            "SELECT * FROM t JOIN (SELECT k FROM t) AS z TABLESAMPLE (10 PERCENT) ON TRUE",
            UnsupportedSqlError,
            "TABLESAMPLE is",
        ),
        (
            "SELECT k FROM t WINDOW w AS (ORDER BY x), w AS (ORDER BY g) QUALIFY RANK() OVER w = 1",
            DuplicateNameError,
            "WINDOW names 'w' twice",
        ),
        (
            "SELECT TIMESTAMP '2020-01-01 00:00:00' + INTERVAL '999999999' DAY AS s FROM t",
            UnsupportedExpressionError,
            "outside what runs",
        ),
        (
            "SELECT DATE '2020-01-01' + INTERVAL '9999999999' DAY AS s FROM t",
            UnsupportedExpressionError,
            "outside what runs",
        ),
        (
            "SELECT SUBSTRING(k, 99999999999999999999) AS s FROM t",
            UnsupportedExpressionError,
            "outside what runs",
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


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT g FROM t ORDER BY x LIMIT 1 OFFSET {huge}", []),
        ("SELECT g FROM t ORDER BY x, g LIMIT {huge} OFFSET 3", [(1,)]),
        ("SELECT g FROM t ORDER BY x LIMIT {huge} OFFSET {huge}", []),
        (
            "SELECT g FROM (SELECT g, ROW_NUMBER() OVER (ORDER BY x) AS n FROM t) WHERE n = {huge}",
            [],
        ),
        ("SELECT LAG(x, {huge}) OVER (ORDER BY x) AS s FROM t WHERE g = 2", [(None,)]),
        ("SELECT NTH_VALUE(x, {huge}) OVER (ORDER BY x) AS s FROM t WHERE g = 2", [(None,)]),
        ("SELECT NTILE({huge}) OVER (ORDER BY x) AS s FROM t WHERE k = 'b'", [(1,), (2,)]),
        (
            "SELECT SUM(x) OVER (ORDER BY x ROWS {huge} PRECEDING) AS s FROM t WHERE k = 'b'",
            [(16,), (7,)],
        ),
    ],
)
def test_numbers_beyond_all_rows(sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert table(sql.format(huge=99999999999999999999)) == rows


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT * EXCEPT (x, K) FROM t", [(1,), (1,), (1,), (2,)]),
        ("SELECT t.* EXCEPT (g), x * 2 AS y FROM t WHERE k = 'a'", [("a", 5, 10), ("a", 5, 10)]),
        ("SELECT DISTINCT * EXCEPT (g) FROM t", [("a", 5), ("b", 7), ("b", 9)]),
        (
            "SELECT * EXCEPT (n) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC, g) AS n FROM t) "
            "WHERE n = 1",
            [("a", 1, 5), ("b", 1, 9)],
        ),
        (
            "SELECT * EXCEPT (x), ROW_NUMBER() OVER (PARTITION BY k ORDER BY x, g) AS n FROM t",
            [("a", 1, 1), ("a", 2, 2), ("b", 1, 1), ("b", 1, 2)],
        ),
        (
            "SELECT * EXCEPT (x, g), SUM(x) OVER (PARTITION BY k ORDER BY x, g) AS s FROM t",
            [("a", 10), ("a", 5), ("b", 16), ("b", 7)],
        ),
        ("SELECT * EXCEPT (g) FROM t ORDER BY g DESC, x LIMIT 1", [("a", 5)]),
        (
            "SELECT a.* EXCEPT (x, g), b.g FROM t AS a JOIN t AS b ON a.k = b.k AND b.g = 2",
            [("a", 2), ("a", 2)],
        ),
        (
            "SELECT * EXCEPT (g) FROM t AS a JOIN (SELECT k, g FROM t WHERE g = 2) AS b USING (k, g)",
            [("a", 5)],
        ),
        ("SELECT k, x FROM t LIMIT ALL", [("a", 5), ("a", 5), ("b", 7), ("b", 9)]),
    ],
)
def test_all_but_some_columns_and_all_rows(sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert table(sql) == rows


@pytest.mark.parametrize(
    ("sql", "error", "match"),
    [
        ("SELECT * EXCEPT (z) FROM t", UnknownColumnError, "no column 'z' to leave out"),
        ("SELECT * EXCEPT (k, g, x) FROM t", SqlError, "EXCEPT leaves no column"),
        ("SELECT * EXCEPT (k, K) FROM t", DuplicateNameError, "EXCEPT names 'K' twice"),
        ("SELECT t.* EXCEPT () FROM t", SqlError, "EXCEPT names no column"),
        ("SELECT * REPLACE () FROM t", UnsupportedSqlError, r"a \* with REPLACE is"),
        ("SELECT * EXCEPT (t.k) FROM t", UnsupportedSqlError, "a qualified name in EXCEPT is"),
        (
            "SELECT * EXCEPT (k) FROM t AS a JOIN t AS b ON a.k = b.k",
            AmbiguousColumnError,
            "'k' is in several tables",
        ),
        ("SELECT * REPLACE (1 AS x) FROM t", UnsupportedSqlError, r"a \* with REPLACE is"),
        (
            "SELECT k FROM t /*+ OPTIONS('a'='b') */",
            UnsupportedSqlError,
            "OPTIONS of t, which no CREATE TABLE",
        ),
        ("SELECT k FROM t@v1", UnsupportedSqlError, "this source is"),
        (
            "WITH a AS (SELECT k FROM t) SEARCH DEPTH FIRST BY k SET o SELECT * FROM a",
            UnsupportedSqlError,
            "SEARCH is",
        ),
        (
            "WITH a USING KEY (k) AS (SELECT k FROM t) SELECT * FROM a",
            UnsupportedSqlError,
            "USING KEY is",
        ),
        (
            "SELECT a.k FROM t AS a, t AS b WHERE a.k = b.k (+)",
            UnsupportedSqlError,
            r"\(\+\) is",
        ),
    ],
)
def test_what_no_rule_reads_is_refused(sql: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        table(sql)


def test_a_comment_is_no_hint() -> None:
    sql = "SELECT k /* a */ FROM t -- SELECT /*+ no */\nWHERE x = 7 /* + */ AND '/*+' <> k"
    assert table(sql) == [("b",)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT '\udc80' AS x FROM t",
        "SELECT k AS `\ud800` FROM t",
        "SELECT k FROM `\udc80`",
        "SELECT k FROM t -- \udfff",
        "CREATE VIEW `\udc80` AS SELECT k FROM t; SELECT k FROM t",
    ],
)
def test_half_a_character_is_refused(query: str) -> None:
    with pytest.raises(SqlError, match="half a character") as raised:
        al.Harness.from_sql(query, {"t": "k INT"})
    str(raised.value).encode()


def test_texts_between_dollars_and_arrays_that_begin_with_null() -> None:
    sql = "SELECT DISTINCT $$it's; -- \\n$$ AS a, ARRAY(NULL, g, 3)[2] AS b FROM t WHERE k = N'a'"
    assert table(sql) == [("it's; -- \\n", 3)]
    assert table("SELECT DISTINCT CAST(k AS BYTES) AS bytes FROM t WHERE k = $$a$$") == [(b"a",)]
    with pytest.raises(SqlError, match="a quote or a comment is not closed"):
        table("SELECT $$a FROM t")


@pytest.mark.parametrize(
    ("sql", "match"),
    [
        ("SELECT k FROM t WHERE", "something is missing here"),
        ("SELECT (k FROM t", "a closing parenthesis is expected here"),
        (
            "SELECT /*+ LOOKUP('table'='t') */ k FROM t",
            "the hint LOOKUP of a SELECT without a join",
        ),
        (
            "SELECT CURRENT_WATERMARK(x) FROM t",
            "CURRENT_WATERMARK is not supported here: its value",
        ),
    ],
)
def test_refusals_in_plain_words(sql: str, match: str) -> None:
    with pytest.raises(SqlError, match=match):
        table(sql)
