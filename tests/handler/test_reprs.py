"""Handlers, accumulators, operators and harnesses as a debugger shows them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import aggloom as al
from aggloom.runtime.handlers.lent_rows import AWAY_FROM_ZERO, count_records

SCHEMA = "k STRING, n INT, d DECIMAL(38, 2), x DOUBLE, s STRING"
QUERY = """SELECT k, COUNT(*) AS c, SUM(n) AS total, SUM(d) AS big, SUM(x) AS f, MAX(s) AS last
           FROM t GROUP BY k"""
ROWS = [("a", n, "99999999999999999999999999.25", 0.5, "é") for n in range(3)]


@pytest.fixture(params=["python", pytest.param("numba", marks=pytest.mark.slow)])
def spec_and_backend(request: pytest.FixtureRequest) -> tuple[al.AggSpec, Any]:
    return al.AggSpec.from_sql(QUERY, SCHEMA), request.param


def values_of(text: str) -> dict[str, str]:
    """The fields of the one slot that a repr shows."""
    assert text.count("[") - text.count("{[") >= 1
    return dict(re.findall(r"(\w+)=((?:\{[^}]*\}|\([^)]*\)|encoded \w+|[^,;)]+))", text))


def test_accumulators_show_their_values(spec_and_backend: tuple[al.AggSpec, Any]) -> None:
    """The values that a user's own arithmetic gives: 3 rows, 0 + 1 + 2, 3 times the decimal without its point."""
    spec, backend = spec_and_backend
    handler = al.load(al.generate(spec, backend=backend))()
    assert "not set" in repr(handler)
    handler.setAccumulators(handler.createAccumulators())
    for row in ROWS:
        handler.accumulate(row)
    for shown in (handler.accumulators, handler.accumulators.state):
        found = values_of(repr(shown))
        assert found["records"] == "3" and found["sum_n"] == "3"
        scaled = found["sum_d"].replace("Decimal('", "").replace("')", "").replace(".", "")
        assert scaled == str(3 * 9999999999999999999999999925)
        assert ("1.5" in found["sum_x"]) == (backend == "python")
        assert len(repr(shown)) < 1_000
    text = repr(handler)
    assert f"; {backend}, 1 slot set" in text and "SUM(n) AS total" in text and "by k" in text


def test_a_repr_shows_the_slots_that_hold_rows(spec_and_backend: tuple[al.AggSpec, Any]) -> None:
    spec, backend = spec_and_backend
    with al.Harness(spec, backend=backend) as harness:
        harness.process([("+I", key, 1, "1.00", 1.0, "s") for key in "abcde"])
        assert "5 buffered rows" in repr(harness)
        harness.flush()
        state = repr(harness.operator.states[0])
        assert state.startswith("KeyedState(5 in use; Accumulators([") and "2 more" in state
        assert state.count("records=1") == 3 and "records=0" not in state
        assert repr(harness.operator) == "GroupAggOperator(k, c, total, big, f, last; 5 keys)"
        text = repr(harness)
        assert text.startswith("Harness(k STRING, c BIGINT, total BIGINT, big DECIMAL(38,2)")
        assert "5 rows in, 5 changes out, 5 keys" in text and "buffered" not in text


@pytest.mark.parametrize("number", [-2, 0, 7])
def test_rows_that_are_lent_are_not_counted(number: int) -> None:
    """While -1 may come before its +1, a slot has 2**40 rows more than are in it."""
    assert count_records(number + AWAY_FROM_ZERO) == count_records(number) == number
    assert AWAY_FROM_ZERO == 2**40


def test_the_state_in_a_kernel_shows_rows_without_those_that_are_lent() -> None:
    spec = al.AggSpec.from_sql("SELECT k, COUNT(*) AS c FROM t GROUP BY k", "k STRING")
    handler = al.load(al.generate(spec, backend="python"))()
    handler.setAccumulators(handler.createAccumulators(2))
    handler.accumulators.shift_records(np.array([1]), AWAY_FROM_ZERO + 5)
    assert repr(handler.accumulators.state) == "State([1] records=5)"


def test_operators_of_every_kind_have_a_repr() -> None:
    queries = {
        "SELECT a.k, b.n FROM t a JOIN t b ON a.k = b.k": "0 keys",
        "SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) AS r FROM t": "",
        "SELECT k, n FROM t ORDER BY n LIMIT 2": "",
        "SELECT window_start, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end": "window",
    }
    for sql, said in queries.items():
        tables = {"t": "k STRING, n INT, ts TIMESTAMP_NTZ"}
        with al.Harness.from_sql(sql, tables, backend="python") as harness:
            for operator in harness.pipeline.operators:
                shown = repr(operator)
                assert shown.startswith(f"{type(operator).__name__}(") and shown.endswith(")")
                assert said in shown and " at 0x" not in shown
