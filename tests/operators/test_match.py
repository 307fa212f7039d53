"""MATCH_RECOGNIZE beside a model in plain Python: random patterns over random rows, bundles, restarts and engines."""

from __future__ import annotations

import datetime as dt
import os
import random
from collections import Counter
from typing import Any

import match_model
import pytest
from match_model import Query

import aggloom as al

_FIRST, _COUNT = map(int, os.environ.get("AGGLOOM_SEEDS", "0:16").split(":"))
TABLE = {
    "g": "STRING",
    "id": "INT",
    "price": "INT",
    "name": "STRING",
    "rate": "DOUBLE",
    "cost": "DECIMAL(10, 2)",
    "ts": "TIMESTAMP",
}


def open_harness(query: Query, backend: Any = "python") -> al.Harness:
    return al.Harness.from_sql(
        query.sql(), {"t": TABLE}, input_changes="append", backend=backend, buckets=2
    )


def run(
    query: Query, rows: list[dict[str, Any]], rng: random.Random, backend: Any = "python"
) -> None:
    """Feed rows in random bundles, with watermarks and restarts; after each the result is the model's."""
    harness = open_harness(query, backend)
    at, lag = 0, dt.timedelta(seconds=2)
    table: Counter[tuple[Any, ...]] = Counter()
    while at < len(rows):
        until = at + rng.randint(1, 7)
        some = rows[at:until]
        at = until
        harness.process(rng.sample(some, len(some)))
        harness.flush()
        known = some[-1]["ts"] - lag
        # Rows at the watermark itself are in time: the next ones may have it.
        harness.watermark(int(known.timestamp() * 1000))
        fed = rows[:until]
        table.update(change[1:] for change in harness.changes())
        assert table == Counter(match_model.expected(query, fed, known)), query.sql()
        if rng.random() < 0.3:
            data = harness.snapshot()
            harness = open_harness(query, backend)
            harness.restore(data)
    harness.end_of_input()
    table.update(change[1:] for change in harness.changes())
    assert table == Counter(match_model.expected(query, rows, None)), query.sql()


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _COUNT))
@pytest.mark.sampled(5)
def test_random_patterns(seed: int) -> None:
    rng = random.Random(seed)
    query = match_model.random_query(rng)
    run(query, match_model.random_rows(rng, 40), rng)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [8, 10])
@pytest.mark.sampled(1)
def test_random_patterns_compiled(seed: int) -> None:
    rng = random.Random(seed)
    query = match_model.random_query(rng)
    run(query, match_model.random_rows(rng, 50), rng, "numba")
