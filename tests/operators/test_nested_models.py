"""MATCH_RECOGNIZE, table aggregates and logs below and above any operator: the rows of models and of DuckDB."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from nested_models import BEFORE, TABLES, Drawn, Round, draw_case, live_rows
from queries import ONE_PHASE, PER_RECORD, TWO_PHASE, Way, answer, assert_laws, multiset, open_plan
from table_aggregates import register_all, unregister_all

from aggloom.runtime.values.changelog import fold

_FIRST, _COUNT = map(int, os.environ.get("AGGLOOM_SEEDS", "0:24").split(":"))


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    register_all("BIGINT")
    yield
    unregister_all()


def run_rounds(drawn: Drawn, rounds: list[Round], way: Way, restart: int) -> None:
    """After every bundle and every watermark the table is the models' and DuckDB's, over a restart, too."""
    query, plan = drawn.query, drawn.plan(way.plan_options)
    harness, known = open_plan(plan, way), None
    so_far, out = [], []

    def check(known) -> None:
        out.extend(harness.changes())
        expected = answer(query, live_rows(so_far), TABLES, known)
        got = multiset(fold(out))
        assert got == expected, (query.sql, query.duck, way, got - expected, expected - got)

    for number, (batch, moved) in enumerate(rounds):
        if number == restart:
            saved = harness.snapshot()
            # It ends the bundle, which may be the first one and have rows of its own.
            out.extend(harness.changes())
            harness.close()
            harness = open_plan(plan, way)
            harness.restore(saved)
        so_far += batch
        for name in plan.scans:
            changes = [change for table, change in batch if table == name]
            if changes:
                harness.process(changes, table=name)
        harness.flush()
        check(known or BEFORE)
        if moved is not None:
            known = moved
            harness.watermark(int(known.timestamp() * 1000))
            check(known)
    harness.end_of_input()
    check(None)
    harness.close()
    assert_laws(plan, out)


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _COUNT))
@pytest.mark.sampled(8)
def test_random_queries(seed: int) -> None:
    rng = random.Random(seed)
    drawn, rounds = draw_case(rng.randrange(10**9))
    way = rng.choice([PER_RECORD, ONE_PHASE, ONE_PHASE, TWO_PHASE])
    parts = way.cut(rng.randint(1, 3), rng.randint(1, 4))
    run_rounds(drawn, rounds, parts, restart=rng.randint(0, len(rounds) + 3))
