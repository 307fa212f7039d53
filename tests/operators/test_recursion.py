"""WITH RECURSIVE over changes: DuckDB's table after every batch, the limit, rows that need no table."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from handlers import handler_class
from recursions import ACYCLIC, QUERIES, TABLES, ask_duckdb, draw_batches, net_tables

import aggloom as al
from aggloom.codegen.planner import PlanOptions, plan_query
from aggloom.errors import RecursionLimitError
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.values.changelog import fold


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sampled(6)
def test_the_table_is_duckdbs_after_every_batch(name: str, seed: int) -> None:
    draws = random.Random(seed)
    options = PlanOptions.of(
        {
            "agg_phase_strategy": draws.choice(["ONE_PHASE", "TWO_PHASE"]),
            "fragments_enabled": draws.random() < 0.7,
        }
    )
    plan = plan_query(QUERIES[name], TABLES, options=options)

    def open_harness() -> Harness:
        parts = {"partitions": draws.choice([1, 3]), "buckets": buckets}
        return Harness.of_plan(plan, lambda spec: handler_class(spec, "python"), **parts)

    buckets = draws.choice([1, 4])
    batches = draw_batches(draws, name in ACYCLIC, 5)
    harness, changes = open_harness(), []
    for number, batch in enumerate(batches):
        for table, change in batch:
            if table in plan.scans:
                harness.process([change], table=table)
        harness.flush()
        changes += harness.changes()
        expected = ask_duckdb(QUERIES[name], net_tables(batches[: number + 1]))
        assert Counter(fold(changes)) == expected
        assert Counter(harness.table()) == expected
        if number == 2:
            state = harness.snapshot()
            harness.close()
            harness = open_harness()
            harness.restore(state)
    harness.close()


EMPLOYEES = {"t": "id INT, boss INT"}
CHAIN = """
    WITH RECURSIVE r {} AS (SELECT id, 'top' AS boss FROM t WHERE boss IS NULL UNION {}
        SELECT t.id, CAST(t.boss AS STRING) FROM r JOIN t ON t.boss = r.id) SELECT {} FROM r"""


@pytest.mark.parametrize("every", ["ALL", ""])
@pytest.mark.parametrize("shown", ["*", "COUNT(*) AS n"])
def test_rows_beyond_the_limit_fail_the_query_by_name(every: str, shown: str) -> None:
    sql = CHAIN.format("MAX RECURSION LEVEL 2", every, shown)
    with al.Harness.from_sql(sql, EMPLOYEES, backend="python") as harness:
        harness.process([("+I", *row) for row in [(1, None), (2, 1), (3, 2), (5, 4)]])
        harness.flush()
        assert len(harness.table()) == (1 if shown != "*" else 3)
        harness.process([("+I", 4, 3)])
        with pytest.raises(
            RecursionLimitError, match="query r is not at its end after 2 steps"
        ) as error:
            harness.flush()
        assert "finds id=4" in str(error.value)


def test_a_row_that_moves_within_a_bundle_is_where_it_ends() -> None:
    sql = CHAIN.format("MAX RECURSION LEVEL 2", "ALL", "*")
    with al.Harness.from_sql(sql, EMPLOYEES, backend="python") as harness:
        harness.process([("+I", *row) for row in [(1, None), (2, 1), (3, 2), (4, 1)]])
        harness.flush()
        # Below 3 for a moment, 4 is three steps away.
        harness.process([("-U", 4, 1), ("+U", 4, 3), ("-U", 4, 3), ("+U", 4, 2)])
        harness.flush()
        assert sorted(harness.table()) == [(1, "top"), (2, "1"), (3, "2"), (4, "2")]


def test_the_limit_may_be_an_option() -> None:
    sql = f"SET 'recursion_limit' = '1'; {CHAIN.format('', 'ALL', 'id')}"
    with al.Harness.from_sql(sql, EMPLOYEES, backend="python") as harness:
        harness.process([("+I", 1, None), ("+I", 2, 1)])
        harness.flush()
        assert sorted(harness.table()) == [(1,), (2,)]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 100) "
            "SELECT SUM(n) AS s, COUNT(*) AS c FROM t",
            [(5050, 100)],
        ),
        (
            "WITH RECURSIVE t(n) MAX RECURSION LEVEL 3 AS (SELECT 0 UNION SELECT (n + 1) % 3 FROM t) SELECT n FROM t",
            [(0,), (1,), (2,)],
        ),
        (
            "WITH RECURSIVE d AS (SELECT DATE '2024-02-28' AS day, 'a,b' AS s, CAST(NULL AS DECIMAL(4, 2)) AS x, "
            "TRUE AS b UNION ALL SELECT DATE_ADD(day, 1), CONCAT(s, '#'), 1.5, NOT b FROM d "
            "WHERE day < DATE '2024-03-01')"
            " SELECT CAST(day AS STRING) AS day, s, x IS NULL AS none, b FROM d",
            [
                ("2024-02-28", "a,b", True, True),
                ("2024-02-29", "a,b#", False, False),
                ("2024-03-01", "a,b##", False, True),
            ],
        ),
        (
            "WITH RECURSIVE f(n, a, b) AS (SELECT 0, CAST(0 AS BIGINT), CAST(1 AS BIGINT) UNION ALL "
            "SELECT n + 1, b, a + b FROM f WHERE n < 50) SELECT a FROM f WHERE n = 50",
            [(12586269025,)],
        ),
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT 2 * n FROM t WHERE n < 8 UNION ALL "
            "SELECT 2 * n + 1 FROM t WHERE n < 8) SELECT COUNT(*) AS c, MAX(n) AS m FROM t",
            [(15, 15)],
        ),
    ],
)
def test_rows_without_a_table_are_computed_with_the_plan(sql: str, rows: list[Any]) -> None:
    with al.Harness.from_sql(sql, {}, backend="python") as harness:
        harness.end_of_input()
        assert sorted(harness.table()) == rows
