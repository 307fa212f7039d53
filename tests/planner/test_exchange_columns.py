"""Rows come to a stateful node in the columns of its input, by name, order and type: its log has no others."""

from __future__ import annotations

import random

import pytest

from aggloom.codegen.planner import Plan, PlanOptions, Stateful, plan_query, walk
from aggloom.runtime.operators.fragment import fragment_of
from tests.spark.test_spark_nested import drawn_options, over_tables, over_windows

FILTERED = """SELECT g, COUNT(DISTINCT x) FILTER (WHERE y > 1) AS a, COUNT(DISTINCT y) FILTER (WHERE x > 1) AS b
FROM (SELECT *, COALESCE(k, 'none') AS n FROM t) GROUP BY g, n"""


def check_inputs(plan: Plan) -> None:
    for node in walk(plan.root):
        if not isinstance(node, Stateful):
            continue
        spec, exchanges, _ = fragment_of(node, plan.options)
        for rows, exchange in zip(spec.inputs, exchanges, strict=True):
            below = exchange.input
            if below.accumulators is not None:
                # A local phase passes on rows as they are where accumulators are not fewer.
                if isinstance(below, Stateful):
                    continue
                (below,) = below.inputs
            assert (below.schema.names, below.schema.types) == (rows.names, rows.types), node


@pytest.mark.parametrize("seed", [*range(40), 97, 135])
def test_random_queries(seed: int) -> None:
    draws = random.Random(seed)
    windows, retracts = seed % 2 == 0, draws.random() < 0.5
    asked = (over_windows if windows else over_tables)(draws, retracts)
    plan = plan_query(
        asked.script,
        asked.tables,
        input_changes="retract" if retracts else "append",
        dialect=asked.dialect,
        watermarks=asked.watermarks,
        options=PlanOptions.of(drawn_options(draws)),
    )
    check_inputs(plan)


@pytest.mark.parametrize("phases", ["ONE_PHASE", "TWO_PHASE"])
def test_filtered_distinct_calls_that_are_split(phases: str) -> None:
    options = {"distinct_agg_split_enabled": True, "agg_phase_strategy": phases}
    table = {"t": "k STRING, g INT, x INT, y INT"}
    check_inputs(
        plan_query(FILTERED, table, input_changes="append", options=PlanOptions.of(options))
    )
