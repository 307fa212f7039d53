"""Nested random queries with table aggregates and logs on the local engine, over a restart."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from nested_models import TABLES, WATERMARKS, draw_case, live_rows
from queries import answer
from table_aggregates import register_all, unregister_all

from aggloom.codegen.planner import PlanOptions
from tests.engine.test_local_oracle import open_query
from tests.spark.test_spark_nested import Asked, drawn_options, folded, write

_FIRST, _COUNT = map(int, os.environ.get("AGGLOOM_SEEDS", "0:12").split(":"))


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    register_all("BIGINT")
    yield
    unregister_all()


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _COUNT))
@pytest.mark.sampled(5)
def test_random_queries(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    while True:
        drawn, rounds = draw_case(rng.randrange(10**9))
        # How far the watermark of input that stays open has come depends on batches: test_match_kills has patterns.
        if "match_rows" not in drawn.uses:
            break
    batches = [batch for batch, _ in rounds]
    rows = live_rows(change for batch in batches for change in batch)
    table = answer(drawn.query, rows, TABLES)
    options = drawn_options(rng)
    asked = Asked(drawn.query.sql, drawn.query.dialect, TABLES, batches, table, WATERMARKS)
    plan = drawn.plan(PlanOptions.of(options))
    half, buckets, files = (
        rng.randint(1, len(batches) - 1),
        rng.choice([1, 3, 8]),
        rng.choice([1, 2]),
    )
    for part in (range(half), range(half, len(batches))):
        for number in part:
            for name, schema in TABLES.items():
                changes = [change for table_name, change in batches[number] if table_name == name]
                write(tmp_path / "in" / name, number, schema, changes)
        query = open_query(asked, plan, tmp_path, buckets, files)
        try:
            query.run()
        finally:
            query.close()
    found = folded((tmp_path / "out").rglob("*.parquet"), windows=False)
    assert found == asked.table, (asked.script, drawn.query.duck, options)
