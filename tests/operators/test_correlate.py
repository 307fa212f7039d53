"""Table functions beside a plain model: UNNEST, generators and series over random changes, cuts and restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queries import PER_RECORD, TWO_PHASE, multiset
from strategies import examples, net_rows

import aggloom as al
from aggloom.codegen.planner import Correlate, Stateful, plan_query, walk
from aggloom.runtime.operators.correlate import correlate
from aggloom.runtime.operators.stateless import bare, step_data, step_from
from aggloom.runtime.values.changelog import fold

Row = tuple[Any, ...]
TABLES = {
    "t": "id INT, n INT, a ARRAY<INT>, b ARRAY<STRING>, r ARRAY<STRUCT<x INT, y STRING>>, m MAP<STRING, INT>"
}
NO_VALUE: list[Row] = [()]


def unnest(row: Row) -> list[Row]:
    return [(each,) for each in row[2] or ()]


def number(rows: Iterable[Row], first: int) -> list[Row]:
    return [(*each, place) for place, each in enumerate(rows, first)]


def open_rows(row: Row) -> list[Row]:
    return [(None, None) if each is None else (each["x"], each["y"]) for each in row[4] or ()]


def padded(rows: list[Row], width: int) -> list[Row]:
    return rows or [(None,) * width]


def count_to(row: Row) -> list[Row]:
    return [(each,) for each in range(0, row[1] + 1, 2)] if row[1] is not None else []


QUERIES: dict[str, tuple[str, Callable[[Row], list[Row]]]] = {
    "array": ("SELECT id, e FROM t CROSS JOIN UNNEST(a) AS u(e)", unnest),
    "numbered": (
        "SELECT id, e, o FROM t, UNNEST(t.a) WITH ORDINALITY AS u(e, o)",
        lambda row: number(unnest(row), 1),
    ),
    "left": (
        "SELECT id, e, o FROM t LEFT JOIN UNNEST(a) WITH ORDINALITY AS u(e, o) ON TRUE",
        lambda row: padded(number(unnest(row), 1), 2),
    ),
    "filtered": (
        "SELECT id, e FROM t LEFT JOIN UNNEST(a) AS u(e) ON TRUE WHERE e > 1 AND n IS NOT NULL",
        lambda row: [
            (e,) for (e,) in unnest(row) if e is not None and e > 1 and row[1] is not None
        ],
    ),
    "rows": (
        "SELECT id, u.* FROM t LEFT JOIN UNNEST(r) AS u ON TRUE",
        lambda row: padded(open_rows(row), 2),
    ),
    "map": ("SELECT id, k, v FROM t, UNNEST(m) AS u(k, v)", lambda row: list(row[5] or ())),
    "multiset": (
        "SELECT id, k FROM t, UNNEST(m) AS u(k)",
        lambda row: [(key,) for key, times in row[5] or () for _ in range(times or 0)],
    ),
    "zipped": (
        "SELECT id, e, s, x, y, o FROM t, UNNEST(a, b, r) WITH ORDINALITY AS u(e, s, x, y, o)",
        lambda row: [
            (e, s, *xy, place)
            for place, (e, s, xy) in enumerate(
                zip_longest(row[2] or (), row[3] or (), open_rows(row), fillvalue=None),
                1,
            )
            for xy in [xy or (None, None)]
        ],
    ),
    "explode": ("SELECT id, explode(a) FROM t", unnest),
    "posexplode_outer": (
        "SELECT id, posexplode_outer(b) AS (p, s) FROM t",
        lambda row: padded([(p, s) for p, s in enumerate(row[3] or ())], 2),
    ),
    "inline": (
        "SELECT id, x, y FROM t LATERAL VIEW OUTER inline(r) i",
        lambda row: padded(open_rows(row), 2),
    ),
    "twice": (
        "SELECT id, e, s FROM t LATERAL VIEW explode(a) AS e LATERAL VIEW posexplode(b) q AS p, s WHERE p < 1",
        lambda row: [(e, s) for (e,) in unnest(row) for s in (row[3] or ())[:1]],
    ),
    "stack": (
        "SELECT id, stack(3, id, 'a', n, 'b', 7) FROM t",
        lambda row: [(row[0], "a"), (row[1], "b"), (7, None)],
    ),
    "series": ("SELECT id, e FROM t, generate_series(0, n, 2) AS g(e)", count_to),
    "range": (
        "SELECT id, e FROM t, LATERAL range(n, 0, -2) AS g(e)",
        lambda row: [(e,) for e in range(row[1] if row[1] is not None else 0, 0, -2)],
    ),
}
"""Queries by name, whose first column is the id, each with a model of the other columns of the rows that one makes."""

texts = st.sampled_from([None, "", "p", "ä" * 20])
numbers = st.none() | st.integers(-1, 5)
structs = st.fixed_dictionaries({"x": numbers, "y": texts})
rows_ = st.tuples(
    st.integers(0, 3),
    numbers,
    st.none() | st.lists(numbers, max_size=4),
    st.none() | st.lists(texts, max_size=3),
    st.none() | st.lists(st.none() | structs, max_size=3),
    st.none()
    | st.dictionaries(st.sampled_from(["k", "l", "ö"]), numbers, max_size=3).map(
        lambda d: list(d.items())
    ),
)


@st.composite
def changes_(draw: st.DrawFn, retracts: bool) -> list[list[Row]]:
    """Batches of lawful changes of the table t."""
    live: list[Row] = []
    batches: list[list[Row]] = [[]]
    for row in draw(st.lists(rows_, max_size=12)):
        action = draw(st.integers(0, 5)) if retracts and live else 0
        if draw(st.integers(0, 3)) == 0:
            batches.append([])
        if action <= 2:
            live.append(row)
            batches[-1].append(("+I", *row))
            continue
        old = live.pop(draw(st.integers(0, len(live) - 1)))
        if action == 3:
            batches[-1].append(("-D", *old))
            continue
        live.append(row)
        batches[-1] += [("-U", *old), ("+U", *row)]
    return batches


@pytest.mark.parametrize("name", QUERIES)
@examples(12)
@given(data=st.data())
def test_rows_are_those_of_a_plain_model(name: str, data: st.DataObject) -> None:
    sql, model = QUERIES[name]
    retracts = data.draw(st.booleans())
    batches = data.draw(changes_(retracts))
    dialect = data.draw(st.sampled_from(["spark", "flink"]))
    parts = {"partitions": data.draw(st.integers(1, 3)), "backend": "python"}
    plan = plan_query(
        sql, TABLES, input_changes="retract" if retracts else "append", dialect=dialect
    )
    assert plan.root.changelog == (("I", "D") if retracts else ("I",))
    so_far, out = list[Row](), list[Row]()
    changes = "retract" if retracts else "append"
    with al.Harness.from_sql(
        sql, tables=TABLES, input_changes=changes, dialect=dialect, **parts
    ) as harness:
        for batch in batches:
            so_far += batch
            harness.process(batch, table="t")
            harness.flush()
            out += harness.changes()
            wanted = [(row[0], *more) for row in net_rows(so_far) for more in model(row)]
            assert multiset(fold(out)) == multiset(wanted)


AGGREGATES = {
    "counts": (
        "SELECT e, COUNT(*) AS c, SUM(id) AS s FROM t LEFT JOIN UNNEST(a) AS u(e) ON TRUE GROUP BY e",
        lambda rows: {
            e: (len(own), sum(own))
            for e, own in group((e, row[0]) for row in rows for (e,) in padded(unnest(row), 1))
        },
    ),
    "first": (
        "SELECT id, e, o FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY o DESC, e, n) AS p FROM t, "
        "UNNEST(a) WITH ORDINALITY AS u(e, o)) WHERE p = 1",
        None,
    ),
}


def group(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, list[Any]]]:
    found: dict[Any, list[Any]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return list(found.items())


@examples(15)
@given(data=st.data())
def test_aggregates_and_ranks_over_unnested_rows(data: st.DataObject) -> None:
    batches = data.draw(changes_(True))
    way = data.draw(st.sampled_from([PER_RECORD, TWO_PHASE]))
    options = {
        "options": way.plan_options,
        "buckets": data.draw(st.integers(1, 3)),
        "backend": "python",
    }
    counts, first = AGGREGATES["counts"][0], AGGREGATES["first"][0]
    with (
        al.Harness.from_sql(counts, tables=TABLES, **options) as summed,
        al.Harness.from_sql(first, tables=TABLES, **options) as ranked,
    ):
        so_far: list[Row] = []
        for batch in batches:
            so_far += batch
            for harness in (summed, ranked):
                harness.process(batch, table="t")
                harness.flush()
            rows = net_rows(so_far)
            pairs = [(e, row[0]) for row in rows for (e,) in padded(unnest(row), 1)]
            assert Counter(summed.table()) == Counter(
                (e, len(own), sum(own)) for e, own in group(pairs)
            )
            last = {
                key: max(o for _, o in own)
                for key, own in group(
                    (row[0], each) for row in rows for each in number(unnest(row), 1)
                )
            }
            assert {row[0]: row[2] for row in ranked.table()} == last


def test_a_table_function_between_two_operators_shares_their_node_and_survives_a_restart() -> None:
    sql = (
        "SELECT id, e, COUNT(*) AS c FROM (SELECT id, COLLECT_LIST(n) AS a FROM t GROUP BY id) AS s "
        "CROSS JOIN UNNEST(a) AS u(e) GROUP BY id, e"
    )
    plan = plan_query(sql, TABLES)
    nodes = [node for node in walk(plan.root) if isinstance(node, Stateful)]
    assert [type(node).__name__ for node in nodes] == ["GroupAggregate", "GroupAggregate"]
    rows = [
        (1, 5, None, None, None, None),
        (1, 6, None, None, None, None),
        (2, 5, None, None, None, None),
    ]
    with al.Harness.from_sql(sql, tables=TABLES, backend="python") as harness:
        assert len(harness.pipeline.fragments) == 1
        harness.process([("+I", *row) for row in rows], table="t")
        harness.flush()
        data = harness.snapshot()
    with al.Harness.from_sql(sql, tables=TABLES, backend="python") as harness:
        harness.restore(data)
        harness.process([("-D", *rows[1]), ("+I", *rows[0])], table="t")
        harness.flush()
        assert Counter(harness.table()) == Counter([(1, 5, 2), (2, 5, 1)])


# Facts of Flink's own tests of UNNEST: (types, rows, query, result).
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
        [
            (1, [{"i": 12, "p": "45.6"}, {"i": 12, "p": "45.612"}]),
            (2, [{"i": 13, "p": "41.6"}, {"i": 14, "p": "45.2136"}]),
            (3, [{"i": 18, "p": "42.6"}]),
        ],
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
}


@pytest.mark.parametrize("name", FLINK)
def test_facts_of_flink(name: str) -> None:
    schema, rows, sql, wanted = FLINK[name]
    with al.Harness.from_sql(
        sql, tables={"t": schema}, dialect="flink", backend="python"
    ) as harness:
        if rows:
            harness.process([("+I", *row) for row in rows], table="t")
        harness.flush()
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
