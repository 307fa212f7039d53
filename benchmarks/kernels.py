"""The operator alone, without Spark: compiled and plain handlers, DuckDB on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click
import duckdb
import numpy as np
import pyarrow as pa
from results import Measurement, publish

from aggloom.codegen import AggSpec, generate, load
from aggloom.runtime.group_agg import GroupAggOperator

SQL = "SELECT k, SUM(v) AS s, MAX(v) AS m, COUNT(*) AS n FROM t GROUP BY k"
PLAIN_ROWS = 200_000


def _batches(keys: int, rows: int, size: int) -> list[pa.RecordBatch]:
    rng = np.random.default_rng(7)
    columns = {
        "k": rng.integers(0, keys, rows),
        "v": rng.integers(-1000, 1000, rows, dtype=np.int32),
    }
    return pa.table(columns).to_batches(max_chunksize=size)


def _operator(backend: str, changes: str) -> Callable[[list[pa.RecordBatch]], None]:
    spec = AggSpec.from_sql(SQL, schema="k BIGINT, v INT", input_changes=changes)
    handler: Any = load(generate(spec, backend=backend))

    def run(batches: list[pa.RecordBatch]) -> None:
        operator = GroupAggOperator(handler)
        for batch in batches:
            operator.process(batch, np.zeros(batch.num_rows, np.int8))
        operator.close()

    return run


def _duckdb(batches: list[pa.RecordBatch]) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("t", pa.Table.from_batches(batches))
        connection.sql(SQL).to_arrow_table()


@click.command()
@click.option("--rows", default=10_000_000, show_default=True)
@click.option("--batch", default=1_000_000, show_default=True, help="Rows of a mini-batch.")
@click.option("--repeat", default=3, show_default=True)
@click.option("--name", default="kernels", show_default=True, help="Name of the result files.")
def main(rows: int, batch: int, repeat: int, name: str) -> None:
    """Measure at 1 k, 100 k and 1 M keys."""
    contenders: dict[str, tuple[Callable[[list[pa.RecordBatch]], None], int]] = {
        "numba, append": (_operator("numba", "append"), rows),
        "numba, retract": (_operator("numba", "retract"), rows),
        "python, retract": (_operator("python", "retract"), min(rows, PLAIN_ROWS)),
        "DuckDB, one thread": (_duckdb, rows),
    }
    measured: list[Measurement] = []
    for keys in (1_000, 100_000, 1_000_000):
        batches = _batches(keys, rows, batch)
        workload = f"SUM, MAX, COUNT by {keys:,} keys"
        series = {label: Measurement(workload, label, n) for label, (_, n) in contenders.items()}
        for turn in range(repeat + 1):
            for label, (run, limit) in contenders.items():
                part = batches if limit == rows else [batches[0].slice(0, limit)]
                begin = time.perf_counter()
                run(part)
                if turn:
                    series[label].seconds.append(time.perf_counter() - begin)
        measured += series.values()
    notes = (
        f"{rows:,} rows in mini-batches of {batch:,}, changelog out; the plain Python handler runs "
        f"on {PLAIN_ROWS:,} rows; DuckDB answers once. Median of {repeat} rounds in turn."
    )
    publish(name, measured, "DuckDB, one thread", notes)


if __name__ == "__main__":
    main()
