"""Under `keep` a retraction may come before its row, in any batch: once all are there, the table is the rows'."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from duck import duckdb_table
from handlers import handler_class
from hypothesis import given
from hypothesis import strategies as st
from model import same_table
from strategies import RICH, changelogs, cut, examples, largest, net_rows, specs

from aggloom.codegen import AggSpec
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.operators.group_aggregate import GroupAggOperator
from aggloom.runtime.operators.local_aggregate import LocalAggregator
from aggloom.runtime.storage import key_index
from aggloom.runtime.values.changelog import fold

Change = tuple[Any, ...]
Backend = Literal["numba", "python"]
few = examples(6)
ORDERLESS = ("bytes", "decimals", "distinct", "flink", "floats", "global", "integers", "times")
"""Specs of which no call goes by arrival."""
COMPILED = ("distinct", "floats", "integers", "global")


def _heals(
    spec: AggSpec, backend: Backend, mode: Literal["mini_batch", "per_record"], data: st.DataObject
) -> None:
    """Changes in any order, cut anywhere, with restarts: in the end the table is DuckDB's, and no other key is left."""
    changes = data.draw(changelogs(spec))
    batches = data.draw(cut(data.draw(st.permutations(changes))))
    rows = net_rows(changes)
    expected = duckdb_table(spec, rows)
    out: list[Change] = []
    with Harness(handler_class(spec, backend), mode=mode, on_orphan_retraction="keep") as harness:
        for batch in batches:
            harness.process(batch)
            harness.flush()
            out += harness.changes()
            if data.draw(st.booleans()):
                harness.restore(harness.snapshot())
        found = harness.table()
        keys = harness.operator.keys
    scale = largest(changes)
    assert same_table(spec, fold(out), expected, scale) is None
    assert same_table(spec, found, expected, scale) is None
    assert keys <= max(len(expected), int(spec.one_row))


@pytest.mark.parametrize("mode", ["mini_batch", "per_record"])
@pytest.mark.parametrize("name", ORDERLESS)
@few
@given(data=st.data())
def test_plain_handlers_heal(
    name: str, mode: Literal["mini_batch", "per_record"], data: st.DataObject
) -> None:
    _heals(RICH[name], "python", mode, data)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["mini_batch", "per_record"])
@pytest.mark.parametrize("name", COMPILED)
@few
@given(data=st.data())
@pytest.mark.sampled(3)
def test_compiled_handlers_heal(
    name: str, mode: Literal["mini_batch", "per_record"], data: st.DataObject
) -> None:
    _heals(RICH[name], "numba", mode, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
@few
@given(data=st.data())
@pytest.mark.sampled(1)
def test_compiled_handlers_heal_when_every_batch_copies_the_state(
    name: str, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index, "airy", lambda live, high: True)
        _heals(RICH[name], "numba", "mini_batch", data)


SQL = "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY k"


def _operator(backend: Backend, sql: str = SQL, **options: Any) -> GroupAggOperator:
    spec = AggSpec.from_sql(sql, schema="k BIGINT, v DOUBLE")
    return GroupAggOperator(handler_class(spec, backend), on_orphan_retraction="keep", **options)


def _feed(operator: GroupAggOperator, *rows: tuple[int, int, float]) -> None:
    """Rows as (kind, key, value)."""
    kinds, keys, values = zip(*rows, strict=True)
    batch = pa.RecordBatch.from_pydict(
        {"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.float64())}
    )
    operator.process(batch, np.array(kinds, np.int8))


@pytest.mark.parametrize("backend", ["python", "numba"])
@pytest.mark.parametrize("mode", ["mini_batch", "per_record"])
def test_a_key_is_forgotten_once_it_owes_nothing(backend: Backend, mode: Any) -> None:
    operator = _operator(backend, mode=mode)
    _feed(operator, (0, 1, 5.0), (3, 1, 7.0))
    assert operator.keys == 1
    _feed(operator, (3, 1, 5.0))
    assert operator.keys == 1
    _feed(operator, (0, 1, 7.0))
    assert operator.keys == 0
    # Parts of a sum that cancel each other, in three places and in a block of the spill.
    _feed(operator, (0, 2, 1e300), (0, 2, 1.0), (0, 2, 1e-300), (0, 2, 3.0))
    for value in (1e300, 1e-300, 3.0):
        _feed(operator, (3, 2, value))
    assert operator.contents()[0].to_pylist() == [{"k": 2, "s": 1.0, "n": 1}]
    _feed(operator, (3, 2, 1.0))
    assert operator.keys == 0


@pytest.mark.parametrize("backend", ["python", "numba"])
def test_what_cancels_in_the_sum_but_not_in_a_view_is_kept(backend: Backend) -> None:
    sql = "SELECT k, SUM(v) AS s, COUNT(DISTINCT v) AS d, MAX(v) AS m FROM t GROUP BY k"
    operator = _operator(backend, sql)
    _feed(operator, (0, 1, 5.0), (0, 1, -5.0), (3, 1, 7.0), (3, 1, -7.0))
    assert operator.keys == 1
    _feed(operator, (0, 1, 7.0), (0, 1, -7.0))
    assert operator.contents()[0].to_pylist() == [{"k": 1, "s": 0.0, "d": 2, "m": 5.0}]


def test_over_complete_input_a_key_without_rows_is_forgotten() -> None:
    operator = _operator("python", complete=True)
    _feed(operator, (0, 1, 5.0))
    _feed(operator, (3, 1, 7.0))
    assert operator.keys == 0


@pytest.mark.parametrize("backend", ["python", "numba"])
@few
@given(data=st.data())
def test_accumulators_that_are_merged_heal(backend: Backend, data: st.DataObject) -> None:
    """Each batch in two phases: rows are added up before, and of some keys as many go as come."""
    operator = _operator(backend)
    rows = data.draw(st.lists(st.tuples(st.integers(0, 1), st.integers(-3, 3)), max_size=8))
    changes = [(0, k, float(v)) for k, v in rows] * 2 + [(3, k, float(v)) for k, v in rows]
    for part in data.draw(cut(data.draw(st.permutations(changes)))):
        local = LocalAggregator(operator.handler_class)
        for kind, key, value in part:
            columns = {"k": pa.array([key], pa.int64()), "v": pa.array([value], pa.float64())}
            local.add(pa.RecordBatch.from_pydict(columns), np.array([kind], np.int8))
        none = pa.RecordBatch.from_pylist([], schema=operator.spec.handler_schema)
        operator.process(none, np.zeros(0, np.int8), partials=[local.take()] if part else [])
    expected = {k: [v for key, v in rows if key == k] for k, _ in rows}
    found = {row["k"]: (row["s"], row["n"]) for row in operator.contents()[0].to_pylist()}
    assert found == {k: (float(sum(values)), len(values)) for k, values in expected.items()}
    assert operator.keys == len(expected)


@few
@given(data=st.data())
def test_plain_handlers_of_any_functions_heal(data: st.DataObject) -> None:
    spec = data.draw(specs(functions=("SUM", "AVG", "COUNT", "MIN", "MAX", "SUM0")))
    _heals(spec, "python", "mini_batch", data)
