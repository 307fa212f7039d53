"""Facts of table functions: rows of Flink and Spark, names, types, keys, plans, errors."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from queries import multiset

import aggloom as al
from aggloom.codegen.planner import Correlate, plan_query, walk
from aggloom.runtime.operators.correlate import correlate
from aggloom.runtime.operators.stateless import bare, step_data, step_from

Row = tuple[Any, ...]
TABLES = {
    "t": "id INT, n INT, a ARRAY<INT>, b ARRAY<STRING>, r ARRAY<STRUCT<x INT, y STRING>>, m MAP<STRING, INT>"
}


PAIRS: list[Row] = [
    (1, [{"i": 12, "p": "45.6"}, {"i": 12, "p": "45.612"}]),
    (2, [{"i": 13, "p": "41.6"}, {"i": 14, "p": "45.2136"}]),
    (3, [{"i": 18, "p": "42.6"}]),
]
"""Rows that several of its tests unnest."""
FLINK: dict[str, tuple[str, list[Row], str, list[Row]]] = {
    "primitive arrays": (
        "a INT, b ARRAY<INT>",
        [(1, [12, 45]), (2, [41, 5]), (3, [18, 42])],
        "SELECT a, b, s FROM t, UNNEST(t.b) AS A (s)",
        [
            *((1, [12, 45], 12), (1, [12, 45], 45), (2, [41, 5], 41), (2, [41, 5], 5)),
            *((3, [18, 42], 18), (3, [18, 42], 42)),
        ],
    ),
    "arrays of arrays": (
        "a INT, c ARRAY<ARRAY<INT>>",
        [(1, [[12, 45]]), (3, [[18], [42]])],
        "SELECT a, s FROM t, UNNEST(t.c) AS A (s)",
        [(1, [12, 45]), (3, [18]), (3, [42])],
    ),
    "rows with a filter": (
        "a INT, b ARRAY<ROW<i INT, p STRING>>",
        PAIRS,
        "SELECT a, s, t FROM t, UNNEST(t.b) AS A (s, t) WHERE s > 13",
        [(2, 14, "45.2136"), (3, 18, "42.6")],
    ),
    "a collected multiset of rows": (
        "a INT, i INT, p STRING",
        [(1, 12, "45.6"), (2, 12, "45.612"), (2, 13, "41.6"), (2, 13, "41.6"), (3, 18, "42.6")],
        "WITH s AS (SELECT a, COLLECT(STRUCT(i, p)) AS c FROM t GROUP BY a) "
        "SELECT a, id, point FROM s, UNNEST(s.c) AS A(id, point) WHERE a < 3",
        [(1, 12, "45.6"), (2, 12, "45.612"), (2, 13, "41.6"), (2, 13, "41.6")],
    ),
    "a collected multiset, left": (
        "a INT, b STRING",
        [(1, "Hi"), (1, "Hello"), (2, "World"), (3, "Hello world"), (4, None)],
        "WITH s AS (SELECT a, COLLECT(b) AS c FROM t GROUP BY a) "
        "SELECT a, x FROM s LEFT JOIN UNNEST(s.c) AS A(x) ON TRUE WHERE a < 5",
        [(1, "Hi"), (1, "Hello"), (2, "World"), (3, "Hello world"), (4, None)],
    ),
    "maps": (
        "a INT, b BIGINT, c MAP<STRING, STRING>",
        [(1, 11, [("a", "10"), ("b", "11")]), (2, 22, [("c", "20")])],
        "SELECT a, k, v FROM t, UNNEST(c) AS A (k, v)",
        [(1, "a", "10"), (1, "b", "11"), (2, "c", "20")],
    ),
    "constants": ("a INT", [], "SELECT * FROM UNNEST(ARRAY[1, 2, 3])", [(1,), (2,), (3,)]),
    "constants beside a row": (
        "a INT",
        [],
        "SELECT * FROM (VALUES('a')) CROSS JOIN UNNEST(ARRAY[1, 2, 3])",
        [("a", 1), ("a", 2), ("a", 3)],
    ),
    "constants with ordinality": (
        "a INT",
        [],
        "SELECT * FROM (VALUES('a')) CROSS JOIN UNNEST(ARRAY[1, 2, 3]) WITH ORDINALITY",
        [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)],
    ),
    "a join with rows of an array": (
        "a INT, b ARRAY<ROW<i INT, p STRING>>",
        [(1, [{"i": 12, "p": "45.6"}, {"i": 2, "p": "45.612"}])],
        "SELECT a, i, p FROM (VALUES (1, 'x'), (2, 'y')) AS v(k, w), t, UNNEST(t.b) AS A (i, p) WHERE i = k",
        [(1, 2, "45.612")],
    ),
    "rows of a sub-query with a condition on both": (
        "a INT, b ARRAY<ROW<i INT, p STRING>>",
        PAIRS,
        "SELECT a, x, y FROM (SELECT a, b FROM t WHERE a < 3) AS tf, UNNEST(tf.b) AS A (x, y) WHERE x > a * 6",
        [(1, 12, "45.6"), (1, 12, "45.612"), (2, 13, "41.6"), (2, 14, "45.2136")],
    ),
    "rows by the names of their fields": (
        "a INT, b ARRAY<ROW<_1 INT, _2 STRING>>",
        [(a, [{"_1": e["i"], "_2": e["p"]} for e in b]) for a, b in PAIRS],
        "SELECT a, A._1, A._2 FROM t, UNNEST(t.b) AS A WHERE A._1 > 13",
        [(2, 14, "45.2136"), (3, 18, "42.6")],
    ),
    "filters in and around a sub-query": (
        "a INT, b ARRAY<ROW<i INT, p STRING>>",
        PAIRS,
        "SELECT * FROM (SELECT a, b1, b2 FROM (SELECT a, b FROM t) q CROSS JOIN UNNEST(q.b) AS S(b1, b2) "
        "WHERE S.b1 >= 12) tmp WHERE b2 <> '42.6'",
        [(1, 12, "45.6"), (1, 12, "45.612"), (2, 13, "41.6"), (2, 14, "45.2136")],
    ),
    "a multiset collected in windows": (
        "b BIGINT, at TIMESTAMP(3)",
        [(b, dt.datetime(2024, 1, 1, second=n)) for b, n in ((1, 1), (2, 2), (2, 3), (3, 4))],
        "WITH w AS (SELECT b, COLLECT(b) AS c FROM t GROUP BY b, TUMBLE(at, INTERVAL '3' SECOND)) "
        "SELECT b, x FROM w, UNNEST(w.c) AS A(x) WHERE b < 3",
        [(1, 1), (2, 2), (2, 2)],
    ),
}


@pytest.mark.parametrize("name", FLINK)
def test_facts_of_flink(name: str) -> None:
    schema, rows, sql, wanted = FLINK[name]
    with al.Harness.from_sql(
        sql, tables={"t": schema}, dialect="flink", backend="python"
    ) as harness:
        if rows:
            harness.process([("+I", *row) for row in rows], table="t")
        harness.end_of_input()
        assert multiset(harness.table()) == multiset(wanted)


NAMES = {
    "SELECT * FROM t, UNNEST(a) AS e": "id, n, a, b, r, m, e",
    "SELECT u.* FROM t, UNNEST(a) WITH ORDINALITY AS u": "f0, ORDINALITY",
    "SELECT u.* FROM t, UNNEST(r) AS u": "x, y",
    "SELECT u.* FROM t, UNNEST(m) AS u": "KEY, VALUE",
    "SELECT explode(a) FROM t": "col",
    "SELECT id AS col, explode(a) FROM t": "col, col0",
    "SELECT explode(a) AS a, n FROM t WHERE size(a) > 1": "a, n",
    "SELECT explode(m) FROM t": "key, value",
    "SELECT posexplode(a), id FROM t": "pos, col, id",
    "SELECT inline_outer(r) FROM t": "x, y",
    "SELECT stack(1, id, n) FROM t": "col0, col1",
    "SELECT json_tuple('{}', 'a', 'b') FROM t": "c0, c1",
    "SELECT * FROM range(3)": "id",
    "SELECT * FROM generate_series(1, 2)": "generate_series",
    "SELECT *, explode(a) AS e FROM (SELECT id, a FROM t)": "id, a, e",
}


@pytest.mark.parametrize("sql", NAMES)
def test_columns_are_called_as_in_flink_and_spark(sql: str) -> None:
    assert ", ".join(plan_query(sql, TABLES).schema.names) == NAMES[sql]


def test_types_are_those_of_flink_and_spark() -> None:
    sql = "SELECT o, p, x, k, g, i FROM t, UNNEST(r) WITH ORDINALITY AS u(x, y, o), LATERAL posexplode(b) AS q(p, s), "
    sql += "UNNEST(m) AS v(k, w), generate_series(1, CAST(n AS BIGINT)) AS s(g), LATERAL range(n) AS z(i)"
    types = [str(each) for each in plan_query(sql, TABLES).schema.types]
    assert types == ["int32", "int32", "int32", "string", "int64", "int64"]


def test_keys_are_extended_by_the_ordinality_or_lost() -> None:
    keys = {"t": ["id"]}

    def key_of(sql: str) -> tuple[str, ...] | None:
        return plan_query(sql, TABLES, keys=keys).key

    assert key_of("SELECT id, e FROM t, UNNEST(a) AS u(e)") is None
    assert key_of("SELECT e, o, id FROM t, UNNEST(a) WITH ORDINALITY AS u(e, o)") == ("id", "o")
    assert key_of("SELECT id, k, v FROM t, UNNEST(m) AS u(k, v)") == ("id", "k")
    assert key_of("SELECT id, json_tuple(CAST(n AS STRING), 'a') AS j FROM t") == ("id",)


def test_columns_that_nobody_reads_do_not_travel() -> None:
    plan = plan_query(
        "SELECT e, COUNT(*) FROM t, UNNEST(a) WITH ORDINALITY AS u(e, o) GROUP BY e", TABLES
    )
    (node,) = (each for each in walk(plan.root) if isinstance(each, Correlate))
    assert node.columns == ("e",)
    assert node.input.schema.names == ["a"]


def test_conditions_stand_below_a_table_function_where_they_can() -> None:
    sql = "SELECT x.id FROM t AS x, t AS y, UNNEST(y.a) AS u(e) WHERE x.id = y.id AND x.n > 1 AND e > 2"
    text = str(al.explain(sql, tables=TABLES))
    assert text.index("where=[`e` > 2]") < text.index("Correlate") < text.index("Join(")
    assert "where=[`n` > 1]" in text


def test_an_update_deletes_and_inserts() -> None:
    sql = "SELECT id, e FROM t, UNNEST(a) AS u(e)"
    with al.Harness.from_sql(sql, tables=TABLES, backend="python") as harness:
        old, new = (1, 1, [1, 2], None, None, None), (1, 1, [2, 3], None, None, None)
        harness.process([("+I", *old), ("-U", *old), ("+U", *new)], table="t")
        harness.flush()
        assert [row[0] for row in harness.changes()] == ["+I", "+I", "-D", "-D", "+I", "+I"]


def test_a_slice_of_a_batch_has_its_own_items() -> None:
    plan = plan_query(
        "SELECT id, e, o FROM t LEFT JOIN UNNEST(a) WITH ORDINALITY AS u(e, o) ON TRUE", TABLES
    )
    node = next(each for each in walk(plan.root) if isinstance(each, Correlate))
    step = step_from(step_data(bare(node)))
    assert step == bare(node)
    assert isinstance(step, Correlate)
    columns = {"id": [1, 2, 3, 4], "a": [[1, 2], None, [3], []]}
    batch = pa.RecordBatch.from_pydict(columns, schema=step.input.schema).slice(1)
    found, kinds = correlate(step, (batch, np.array([0, 2, 1], np.int8)))
    assert found.to_pydict() == {"id": [2, 3, 4], "e": [None, 3, None], "o": [None, 1, None]}
    assert kinds.tolist() == [0, 0, 3]


ERRORS = {
    "SELECT id FROM t, UNNEST(n) AS u(e)": "TypeMismatchError: UNNEST needs an ARRAY, a MAP or a MULTISET, not INT",
    "SELECT id FROM t, UNNEST(a) AS u(e, f)": "SqlError: UNNEST has the columns f0, and 2 names are given",
    "SELECT id FROM t, UNNEST(m) WITH ORDINALITY AS u(k, v, o)": (
        "UnsupportedSqlError: WITH ORDINALITY of a MAP over changes is"
    ),
    "SELECT posexplode(m) FROM t": "UnsupportedSqlError: POSEXPLODE of a MAP over changes is",
    "SELECT id FROM t FULL JOIN UNNEST(a) AS u(e) ON TRUE": "UnsupportedSqlError: a FULL JOIN of a table function is",
    "SELECT id FROM t LEFT JOIN UNNEST(a) AS u(e) ON e > 1": "UnsupportedSqlError: LEFT JOIN of a table function with",
    "SELECT id FROM t JOIN UNNEST(a) AS u(id) USING (id)": "UnsupportedSqlError: USING, NATURAL or ASOF with",
    "SELECT id FROM t, LATERAL frobnicate(a) AS u(e)": "UnknownFunctionError: there is no table function FROBNICATE.",
    "SELECT explode(a), explode(b) FROM t": "UnsupportedSqlError: a second generator in one SELECT is",
    "SELECT n, explode(COLLECT_LIST(id)), COUNT(*) FROM t GROUP BY n": (
        "UnsupportedSqlError: EXPLODE between items beside aggregates is"
    ),
    "SELECT explode(a), COUNT(*) OVER () FROM t": "UnsupportedSqlError: EXPLODE beside OVER is",
    "SELECT explode(a), COUNT(*) FROM t GROUP BY 1": "UnsupportedExpressionError: expression EXPLODE(`a`): makes",
    "SELECT explode(a) + 1 FROM t": "UnsupportedExpressionError: expression EXPLODE(`a`): makes several rows of one",
    "SELECT UNNEST(a) FROM t": "UnknownFunctionError: there is no function UNNEST in Spark; write it in FROM",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM UNNEST(t.a) AS u(e) WHERE e > 1)": (
        "UnsupportedSqlError: a column of the query around it in UNNEST is"
    ),
    "SELECT id FROM t, UNNEST(ARRAY[1], (SELECT MAX(n) FROM t)) AS u(e)": (
        "UnsupportedSqlError: a sub-query inside UNNEST is"
    ),
    "SELECT id FROM t, UNNEST(a) AS u(e), UNNEST(r) AS w(e, e)": "DuplicateNameError: two columns of UNNEST are called",
    "SELECT stack(0, id) FROM t": "SqlError: STACK needs a number of rows first",
    "SELECT inline(a) FROM t": "TypeMismatchError: INLINE needs an ARRAY of STRUCT, not ARRAY<INT>",
    "SELECT json_tuple(s, f) FROM (SELECT '' AS s, '' AS f FROM t)": (
        "UnsupportedSqlError: this name of a field in JSON_TUPLE is"
    ),
    "SELECT * FROM generate_series(1, 'a')": "TypeMismatchError: GENERATE_SERIES needs whole numbers, not STRING",
    "SELECT /*+ STATE_TTL('t' = '1 d') */ e, COUNT(*) FROM t, UNNEST(a) AS u(e) GROUP BY e": (
        "UnsupportedSqlError: a hint beside a table function is"
    ),
}


@pytest.mark.parametrize("sql", ERRORS)
def test_errors_name_the_place_and_the_fix(sql: str) -> None:
    kind, _, message = ERRORS[sql].partition(": ")
    with pytest.raises(getattr(al.errors, kind)) as error:
        plan_query(sql, TABLES)
    text = str(error.value)
    assert text.startswith(message)
    assert "^" in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ("1, n, n - n", "the step is 0"),
        ("CAST(-9e18 AS BIGINT), CAST(9e18 AS BIGINT)", "further apart than 2"),
        ("-9223372036854775807 - 1, 0", "further apart than 2"),
    ],
)
def test_series_that_have_no_end_are_errors(series: str, message: str) -> None:
    sql = f"SELECT e FROM t, generate_series({series}) AS g(e)"
    with al.Harness.from_sql(sql, tables=TABLES, backend="python") as harness:
        harness.process([("+I", 1, 3, None, None, None, None)], table="t")
        with pytest.raises(al.errors.DataError, match=message):
            harness.flush()


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT posexplode_outer(m) FROM t", [(0, "k", 1), (1, "l", None), (None, None, None)]),
        (
            "SELECT u.* FROM t, UNNEST(m) WITH ORDINALITY AS u(k, v, o)",
            [("k", 1, 1), ("l", None, 2)],
        ),
        (
            "SELECT u.* FROM t, UNNEST(m, a) AS u(k, v, e)",
            [("k", 1, 7), ("l", None, None), (None, None, 8)],
        ),
    ],
)
def test_entries_of_maps_are_numbered_where_rows_stay(sql: str, wanted: list[Row]) -> None:
    rows = [(1, 3, [7], None, None, [("k", 1), ("l", None)]), (2, 3, [8], None, None, [])]
    options: dict[str, Any] = {"tables": TABLES, "input_changes": "append", "backend": "python"}
    with al.Harness.from_sql(sql, **options) as harness:
        harness.process([("+I", *row) for row in rows], table="t")
        harness.flush()
        assert Counter(harness.table()) == Counter(wanted)


@pytest.mark.parametrize(
    ("sql", "names", "wanted"),
    [
        (
            "SELECT n, explode(COLLECT_LIST(id)) AS e FROM t GROUP BY n",
            "n, e",
            [(3, 1), (3, 2), (None, 3)],
        ),
        (
            "SELECT explode(COLLECT_LIST(id)), n, COUNT(*) AS c FROM t GROUP BY 2 HAVING COUNT(*) > 1",
            "col, n, c",
            [(1, 3, 2), (2, 3, 2)],
        ),
        ("SELECT DISTINCT explode(a) AS e FROM t GROUP BY a, n", "e", [(7,)]),
        (
            "SELECT n, stack(2, SUM(id), COUNT(*)) FROM t GROUP BY ALL",
            "n, col0",
            [(3, 3), (3, 2), (None, 3), (None, 1)],
        ),
        (
            "WITH w AS (SELECT explode(COLLECT_LIST(id)) AS e FROM t) SELECT MAX(e) AS m FROM w",
            "m",
            [(3,)],
        ),
        (
            "SELECT n, explode(COLLECT_LIST(id)) AS e FROM t GROUP BY n ORDER BY e DESC LIMIT 1",
            "n, e",
            [(None, 3)],
        ),
    ],
)
def test_generators_over_groups(sql: str, names: str, wanted: list[Row]) -> None:
    rows = [
        (1, 3, [7], None, None, None),
        (2, 3, [7, 7], None, None, None),
        (3, None, [], None, None, None),
    ]
    with al.Harness.from_sql(sql, tables=TABLES, backend="python") as harness:
        harness.process([("+I", *row) for row in (*rows, rows[0])], table="t")
        harness.process([("-D", *rows[0])], table="t")
        harness.flush()
        assert ", ".join(harness.plan.schema.names) == names
        assert Counter(harness.table()) == Counter(wanted)


def test_more_rows_than_a_batch_has_are_an_error() -> None:
    sql = "SELECT e FROM t, generate_series(1, 3000000000) AS g(e)"
    with al.Harness.from_sql(sql, tables=TABLES, backend="python") as harness:
        harness.process([("+I", 1, 3, None, None, None, None)], table="t")
        with pytest.raises(al.errors.DataError, match="3,000,000,000 rows of 1"):
            harness.flush()
