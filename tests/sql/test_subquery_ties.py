"""Sub-queries tied by more than equalities below aggregates, below LIMIT and as values, beside DuckDB over changes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from subquery_queries import TABLES, agree, batches_of, plan_of

import aggloom as al
from aggloom import local
from aggloom.codegen.planner import Join, walk
from aggloom.errors import UnsupportedSqlError

QUERIES = [
    "SELECT k, v, (SELECT COUNT(*) FROM u WHERE u.k = t.k AND u.w < t.v) AS n FROM t",
    "SELECT k, v, (SELECT COUNT(*) FROM u WHERE u.w <> t.v) AS n, (SELECT MAX(w) FROM u WHERE w < v) AS m FROM t",
    "SELECT k, (SELECT SUM(w) FROM u WHERE u.k = t.k AND u.w BETWEEN t.v AND t.s) AS a FROM t",
    "SELECT k, (SELECT COUNT(DISTINCT w) FROM u WHERE u.w > t.v OR u.k = t.k) AS a,"
    " (SELECT AVG(w) * 12 FROM u WHERE u.s <= t.s AND u.k = t.k) AS b FROM t",
    "SELECT k, (SELECT SUM(w) - COUNT(*) FROM u WHERE u.w > t.v AND u.s IS NOT DISTINCT FROM t.s) AS a FROM t",
    "SELECT k, v FROM t WHERE v > (SELECT MIN(w) FROM u WHERE u.k <= t.k) OR s = 1",
    "SELECT k, v FROM t WHERE (SELECT COUNT(*) FROM t AS o WHERE o.k = t.k AND o.v > t.v) < 2",
    "SELECT k, (SELECT SUM(u.w * t.v + 1) FROM u WHERE u.k = t.k) AS a, (SELECT MAX(u.w - t.v) FROM u) AS b FROM t",
    "SELECT k, (SELECT w FROM u WHERE u.w <= t.v ORDER BY w DESC NULLS LAST LIMIT 1) AS w FROM t",
    "SELECT k, (SELECT w FROM u WHERE u.k = t.k ORDER BY ABS(u.w - t.v) NULLS LAST, w NULLS LAST LIMIT 1) AS w FROM t",
    "SELECT k, k IN (SELECT u.k FROM u WHERE u.w < t.v AND u.s > t.s) AS a,"
    " NOT EXISTS (SELECT 1 FROM u WHERE u.w < t.v AND u.s > t.s) AS b FROM t",
    "SELECT k FROM t WHERE k NOT IN (SELECT u.k FROM u WHERE u.w + t.v > 3) OR v = 1",
    "SELECT k, v >= ALL (SELECT w FROM u WHERE u.k < t.k) AS m FROM t WHERE v < ANY (SELECT w FROM u WHERE s > v)",
    "SELECT k FROM t WHERE k IN (SELECT MAX(u.k) FROM u WHERE u.w < t.v GROUP BY u.s HAVING COUNT(*) > 1)",
    "SELECT k, SUM(v) AS s FROM t GROUP BY k HAVING SUM(v) > (SELECT COUNT(*) FROM u WHERE u.w < t.k)",
    "SELECT t.k, d.n FROM t JOIN d ON t.k = d.id AND (SELECT COUNT(*) FROM u WHERE u.w > d.n) > 1",
    "SELECT t.k, d.n, (SELECT COUNT(*) FROM u WHERE u.w < d.n AND u.k = t.k) AS a FROM t LEFT JOIN d ON t.v = d.id",
    "SELECT k, (SELECT COUNT(*) FROM u WHERE u.w < t.v AND u.w >="
    " (SELECT MIN(n) FROM d WHERE d.id < u.s)) AS a FROM t",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_a_sub_query_by_comparisons_is_duckdb_s(sql: str) -> None:
    for seed in (1, 2, 3):
        agree(sql, batches_of(seed, 7), buckets=seed, partitions=1 + seed % 2)


def test_in_with_several_columns_is_null_where_nulls_leave_it_open() -> None:
    own = "(k, v) {0}IN (SELECT u.k, u.w FROM u WHERE u.s <= t.s OR t.s = 3)"
    # DuckDB compares rows as values, in which NULL is one of them.
    pair = "(u.k = t.k AND u.w = t.v)"
    theirs = (
        f"(SELECT CASE WHEN COUNT(*) FILTER (WHERE {pair}) > 0 THEN TRUE "
        f"WHEN COUNT(*) FILTER (WHERE {pair} IS NULL) > 0 THEN NULL ELSE FALSE END "
        "FROM u WHERE u.s <= t.s OR t.s = 3)"
    )
    sql = "SELECT k, {0} AS a, {1} AS b FROM t WHERE {0} OR v > 0 OR ({1}) IS NULL"
    mine = sql.format(own.format(""), own.format("NOT "))
    for seed in range(4):
        by_duckdb = sql.format(theirs, f"NOT {theirs}")
        agree(mine, batches_of(seed, 8), buckets=1 + seed % 2, by_duckdb=by_duckdb)


def test_the_local_engine_gives_duckdb_s_table() -> None:
    rng = random.Random(5)
    changes: dict[str, list[tuple[Any, ...]]] = {"t": [], "u": []}
    live: dict[str, list[tuple[Any, ...]]] = {"t": [], "u": []}
    for _ in range(80):
        name = rng.choice("tu")
        if live[name] and rng.random() < 0.3:
            changes[name].append(("-D", *live[name].pop(rng.randrange(len(live[name])))))
            continue
        row = tuple(rng.choice((0, 1, 2, 3, None)) for _ in range(3))
        live[name].append(row)
        changes[name].append(("+I", *row))
    connection = duckdb.connect()
    for name, rows in live.items():
        schema = TABLES[name]
        dicts = [dict(zip(schema.names, row, strict=True)) for row in rows]
        connection.register(name, pa.Table.from_pylist(dicts, schema))
    for sql in QUERIES[:2]:
        inputs = {name: local.from_rows(rows, TABLES[name]) for name, rows in changes.items()}
        found = local.collect(local.sql(sql, backend="python", **inputs)).to_pylist()
        expected = connection.sql(sql).fetchall()
        assert Counter(tuple(row.values()) for row in found) == Counter(expected)


def test_only_other_conditions_than_equalities_need_the_values_of_the_outer_query() -> None:
    """Pairs with the values of t cost more than groups by the sub-query's own columns."""
    for condition, expected in (("u.k = t.k", ["left"]), ("u.w < t.v", ["left", "inner"])):
        plan = plan_of(f"SELECT k, (SELECT COUNT(*) FROM u WHERE {condition}) AS n FROM t")
        kinds = [node.kind for node in walk(plan.root) if isinstance(node, Join)]
        assert kinds[::-1] == expected


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("(SELECT COLLECT_LIST(w) FROM u WHERE u.w < t.v)", "COLLECT_LIST in a sub-query"),
        ("(SELECT w FROM u WHERE u.w < t.v)", "several rows"),
        ("(SELECT SUM(t.v) FROM u)", "columns of the query around this one alone"),
        (
            "EXISTS (SELECT 1 FROM u WHERE v > 0 OR EXISTS (SELECT 1 FROM d WHERE id < t.k AND n > u.w))",
            "two levels out",
        ),
    ],
)
def test_what_is_refused(item: str, words: str) -> None:
    with pytest.raises(UnsupportedSqlError, match=words):
        plan_of(f"SELECT k, {item} AS x FROM t")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT v, (SELECT COUNT(*) FROM u WHERE u.w = t.v) AS n FROM t",
        "SELECT v, CAST(v IN (SELECT w FROM u) AS INT) + 1 AS n FROM t",
        "SELECT v, CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.w = t.v) THEN 2 END AS n FROM t",
        "SELECT v, CAST(v IN (SELECT w FROM u WHERE u.w > t.v - 1) AS INT) + 1 AS n FROM t",
    ],
)
def test_values_that_are_equal_as_doubles_alone_are_one_group(sql: str) -> None:
    """Two groups by BIGINT would both be joined, and the row be there twice."""
    large = 1 << 53
    with al.Harness.from_sql(sql, {"t": "v DOUBLE", "u": "w BIGINT"}, backend="python") as harness:
        harness.process([("+I", float(large))], table="t")
        harness.process([("+I", large), ("+I", large + 1)], table="u")
        harness.flush()
        assert harness.table() == [(float(large), 2)]
