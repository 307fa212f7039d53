"""MATCH_RECOGNIZE over a million rows: the operator in the harness beside the same in a plain Python loop.

    python benchmarks/match_recognize.py [ROWS] [KEYS]

The pattern is a price that falls and rises again: `start down+ up+`. The loop keeps a small automaton a key by hand.
Over changes the same rows come, and then a tenth of each batch gets another price, long after it was matched.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import aggloom as al
from aggloom.runtime.values.changelog import UPDATE_AFTER, UPDATE_BEFORE

SQL = """
    SELECT k, low, n FROM t MATCH_RECOGNIZE (
        PARTITION BY k ORDER BY ts
        MEASURES LAST(down.price) AS low, COUNT(*) AS n
        AFTER MATCH SKIP PAST LAST ROW
        PATTERN (begun down+ up+) WITHIN INTERVAL '1' HOUR
        DEFINE down AS price < LAST(price, 1), up AS price > LAST(price, 1))"""
BATCHES = 10


def make_batches(rows: int, keys: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of rows of random keys and prices, a millisecond after the other."""
    draw = np.random.default_rng(1)
    for number in range(BATCHES):
        size = rows // BATCHES
        times = (np.arange(size) + number * size) * 1000
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(draw.integers(0, keys, size)),
                pa.array(draw.integers(0, 100, size)),
                pa.array(times).cast(pa.timestamp("us", "UTC")),
            ],
            names=["k", "price", "ts"],
        )


def run_operator(
    batches: list[pa.RecordBatch], backend: Literal["numba", "python"]
) -> tuple[float, int]:
    """The seconds that the batches take, and how many matches there are."""
    schema = {"t": "k BIGINT, price BIGINT, ts TIMESTAMP"}
    with al.Harness.from_sql(SQL, schema, input_changes="append", backend=backend) as harness:
        begun = time.perf_counter()
        for batch in batches:
            harness.process(batch)
            harness.flush()
            harness.watermark(batch.column(2)[-1].value // 1000)
        return time.perf_counter() - begun, harness.counters["emitted"]


def run_changes(batches: list[pa.RecordBatch]) -> tuple[float, float]:
    """The seconds that the batches take where rows may be taken back, and that updates of a tenth of them take."""
    schema = {"t": "k BIGINT, price BIGINT, ts TIMESTAMP"}
    with al.Harness.from_sql(SQL, schema, input_changes="retract") as harness:
        begun = time.perf_counter()
        for batch in batches:
            harness.process(batch)
            harness.flush()
            harness.watermark(batch.column(2)[-1].value // 1000)
        fed = time.perf_counter()
        for batch in batches:
            old = batch.take(pa.array(np.arange(0, batch.num_rows, 10)))
            new = old.set_column(1, "price", pc.subtract(100, old.column(1)))
            kinds = np.repeat(np.array([UPDATE_BEFORE, UPDATE_AFTER], np.int8), old.num_rows)
            harness.process(
                pa.Table.from_batches([old, new]).combine_chunks().to_batches()[0], kinds
            )
            harness.flush()
        return fed - begun, time.perf_counter() - fed


def run_loop(batches: list[pa.RecordBatch]) -> tuple[float, int]:
    """The same in a loop over Python rows, which are in order already: by key a state and the last price."""
    begun = time.perf_counter()
    states: dict[int, tuple[int, int, int, int]] = {}
    found = []
    for batch in batches:
        for key, price, _ in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            state, last, low, count = states.get(key, (0, 0, 0, 0))
            if state == 2 and price > last:
                states[key] = (2, price, low, count + 1)
                continue
            if state == 2:
                found.append((key, low, count))
                state = 0
            if state and price < last:
                states[key] = (1, price, price, count + 1)
            elif state == 1 and count > 1 and price > last:
                states[key] = (2, price, low, count + 1)
            else:
                states[key] = (1, price, 0, 1)
    return time.perf_counter() - begun, len(found)


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    rows, keys = (*given, *(1_000_000, 10_000)[len(given) :])
    made = list(make_batches(rows, keys))
    run_operator([each.slice(0, 100) for each in made[:2]], "numba")
    for name, (seconds, matches) in {
        "operator, compiled": run_operator(made, "numba"),
        "operator, plain Python": run_operator(made, "python"),
        "loop in Python": run_loop(made),
    }.items():
        print(f"{name:24} {rows / seconds / 1000:8,.0f} k rows/s   {matches:,} matches")
    added, updated = run_changes(made)
    print(f"{'over changes, added':24} {rows / added / 1000:8,.0f} k rows/s")
    print(f"{'over changes, updated':24} {rows / 10 / updated / 1000:8,.0f} k rows/s")
