"""Values that are known never to be below zero, and their sums, which only grow: beside DuckDB's values and tables."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from aggloom import Harness
from aggloom.codegen.operators import Rank
from aggloom.codegen.planner import PlanOptions, plan_query, walk
from aggloom.codegen.scalar.signs import Signs

SCHEMA = pa.schema([("g", pa.int32()), ("k", pa.int32()), ("v", pa.int64()), ("x", pa.float64())])
DDL = "g INT, k INT, v BIGINT, x DOUBLE"
TYPES = dict(zip(SCHEMA.names, SCHEMA.types, strict=True))
# Of an expression over v and x, with a condition on the rows: whether it is known to be at least zero.
KNOWN = [
    ("3", None),
    ("NULL", None),
    ("v", "v >= 0"),
    ("v", "0 < v AND x = 1"),
    ("v", "(v BETWEEN 1 AND 5)"),
    ("x", "x > 0.5 AND v < 3"),
    ("ABS(x)", None),
    ("GREATEST(v, 0)", None),
    ("LEAST(v, 7)", "v >= 0"),
    ("COALESCE(v, 0)", "v >= 0"),
    ("CASE WHEN v > 0 THEN v ELSE 0 END", None),
    ("CASE WHEN v < 0 THEN 0 WHEN x > 0 THEN x ELSE v END", None),
    ("CASE WHEN x > 1 THEN 2 END", None),
    ("x * 2 + ABS(x)", "x >= 0"),
    ("x / 3", "x >= 0"),
    ("CAST(CAST(GREATEST(k, 0) AS BIGINT) AS DECIMAL(20, 0))", None),
    ("NULLIF(v, 3)", "v > 1"),
]
UNKNOWN = [
    ("-3", None),
    ("v", None),
    ("v", "v >= -1"),
    ("v", "v >= 0 OR x > 0"),
    ("v", "NOT v >= 0"),
    ("v", "v <> 5"),
    ("GREATEST(v, -1)", None),
    ("GREATEST(v, k)", "v >= 0"),
    ("CASE WHEN v > 0 THEN x ELSE 0 END", None),
    ("CASE WHEN x < 0 THEN 0 ELSE v END", None),
    ("CASE WHEN v > 3 THEN 1 ELSE v END", None),
    ("x - 1", "x >= 0"),
    # Without ANSI mode these wrap.
    ("ABS(v)", None),
    ("v + 1", "v >= 0"),
    ("CAST(v AS INT)", "v >= 0"),
]
values = st.sampled_from([None, -9, -1, 0, 1, 2, 4])


@pytest.mark.parametrize(("sql", "where"), KNOWN)
def test_what_is_known_holds_in_duckdb(sql: str, where: str | None) -> None:
    assert Signs(frozenset(), TYPES).where(where).holds(sql)
    numbers = [None, -9, -1, 0, 1, 2, 4]
    rows = [(1, k, v, x) for k in numbers for v in numbers for x in numbers]
    wrong = f"SELECT COUNT(*) FROM t WHERE ({where or 'true'}) AND ({sql}) < 0"
    assert _duckdb(wrong, rows) == Counter([(0,)])


@pytest.mark.parametrize(("sql", "where"), UNKNOWN)
def test_what_may_be_negative_is_not_known(sql: str, where: str | None) -> None:
    assert not Signs(frozenset(), TYPES).where(where).holds(sql)


def _duckdb(sql: str, rows: list[tuple[Any, ...]]) -> Counter[Any]:
    columns = list(zip(*rows, strict=True)) if rows else [[]] * len(SCHEMA)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    connection = duckdb.connect()
    connection.execute("SET default_null_order='nulls_first_on_asc_last_on_desc'")
    connection.register("t", pa.table(arrays, SCHEMA))
    return Counter(connection.execute(sql).fetchall())


def _top(value: str, where: str = "true", table: str = "t") -> str:
    sums = f"SELECT g, k, SUM({value}) AS s FROM {table} WHERE {where} GROUP BY g, k"
    number = "ROW_NUMBER() OVER (PARTITION BY g ORDER BY s DESC, k)"
    return f"SELECT g, k, s FROM (SELECT *, {number} AS r FROM ({sums})) WHERE r <= 2"


def _strategy(sql: str, changes: str = "append", **options: Any) -> str:
    plan = plan_query(sql, {"t": DDL}, input_changes=changes, **options)
    (found,) = [node.strategy for node in walk(plan.root) if isinstance(node, Rank)]
    return found


UNION = "(SELECT g, k, v FROM t WHERE v > 0 UNION ALL SELECT g, k, 1 AS v FROM t)"
COUNTS = "(SELECT g, k, x, COUNT(*) AS v FROM t GROUP BY g, k, x)"
GROWING = {
    "filtered": _top("v", "v >= 0"),
    "by expression": _top("GREATEST(v, 0)"),
    "of doubles": _top("ABS(x)"),
    "distinct": _top("DISTINCT v", "v > 0"),
    "of a union": _top("v", table=UNION),
    "of counts": _top("v", table=COUNTS),
}


@pytest.mark.parametrize("name", GROWING)
@examples(8)
@given(data=st.data(), mini=st.booleans())
def test_sums_that_grow_are_ranked_by_the_fast_strategy(name: str, data: Any, mini: bool) -> None:
    sql = GROWING[name]
    assert _strategy(sql) == "update"
    row = st.tuples(st.integers(1, 2), st.integers(1, 4), values, values)
    so_far: list[tuple[Any, ...]] = []
    with Harness.from_sql(
        *(sql, {"t": DDL}),
        input_changes="append",
        buckets=2,
        backend="python",
        mini_batch_enabled=mini,
    ) as t:
        for rows in data.draw(st.lists(st.lists(row, max_size=8), min_size=1, max_size=4)):
            t.process([("+I", *each) for each in rows])
            t.flush()
            so_far += rows
            assert Counter(t.table()) == _duckdb(sql, so_far)


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        (_top("v"), "append"),
        (_top("v", "v >= 0"), "retract"),
        (_top("DISTINCT v", table=COUNTS), "append"),
        (
            _top("v", table="(SELECT g, k, MIN(v) AS v FROM t WHERE v > 0 GROUP BY g, k, x)"),
            "append",
        ),
    ],
)
def test_sums_that_may_fall_are_not(sql: str, changes: str) -> None:
    assert _strategy(sql, changes) == "retract"


def test_sums_that_wrap_in_flink_do_not_only_grow() -> None:
    assert _strategy(_top("v", "v >= 0"), dialect="flink") == "retract"
    assert _strategy(_top("x", "x >= 0"), dialect="flink") == "update"


def test_two_phases_and_splits_know_it_too() -> None:
    distinct = _top("DISTINCT v", "v >= 0")
    for options in (
        PlanOptions(agg_phase_strategy="TWO_PHASE", on_orphan_retraction="keep"),
        PlanOptions(agg_phase_strategy="ONE_PHASE"),
    ):
        assert _strategy(_top("v", "v >= 0"), options=options) == "update"
    split = PlanOptions(distinct_agg_split_enabled=True, on_orphan_retraction="keep")
    assert _strategy(distinct, options=split) == "update"
