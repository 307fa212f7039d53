"""Measure the cost of functions: rows through a handler of one call, and one hot key taken back."""

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
from aggloom.runtime.operators.group_aggregate import GroupAggOperator

SCHEMA = "k BIGINT, v DOUBLE, w DOUBLE, i BIGINT"
PER_ROW = (
    ("SUM(v)", "sum(v)"),
    ("VAR_POP(v)", "var_pop(v)"),
    ("CORR(v, w)", "corr(v, w)"),
    ("MEDIAN(v)", "median(v)"),
    ("MODE(i)", "mode(i)"),
    ("COUNT(DISTINCT i)", "count(DISTINCT i)"),
    ("MAX_BY(v, w)", "arg_max(v, w)"),
    ("ARRAY_AGG(i)", "list(i)"),
    ("BIT_XOR(i)", "bit_xor(i)"),
)
HOT = ("MAX(v)", "MEDIAN(v)", "PERCENTILE(v, 0.99)", "LAST_VALUE(v)", "MODE(i)")


def _batches(keys: int, rows: int, size: int) -> list[pa.RecordBatch]:
    rng = np.random.default_rng(7)
    columns = {
        "k": rng.integers(0, keys, rows),
        "v": rng.normal(0, 100, rows).round(2),
        "w": rng.normal(0, 1, rows),
        "i": rng.integers(0, 1000, rows),
    }
    batches: list[pa.RecordBatch] = pa.table(columns).to_batches(max_chunksize=size)
    return batches


def _handler(calls: str, changes: str) -> Any:
    sql = f"SELECT k, {calls} FROM t GROUP BY k"
    return load(generate(AggSpec.from_sql(sql, SCHEMA, changes)))  # type: ignore[arg-type]


def _columns(handler: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(handler.spec().handler_schema.names)


def _through(calls: str, changes: str) -> Callable[[list[pa.RecordBatch]], None]:
    handler = _handler(calls, changes)

    def run(batches: list[pa.RecordBatch]) -> None:
        operator = GroupAggOperator(handler)
        for batch in batches:
            operator.process(_columns(handler, batch), np.zeros(batch.num_rows, np.int8))

    return run


def _duckdb(call: str) -> Callable[[list[pa.RecordBatch]], None]:
    def run(batches: list[pa.RecordBatch]) -> None:
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            connection.register("t", pa.Table.from_batches(batches))
            connection.sql(f"SELECT k, {call} FROM t GROUP BY k").to_arrow_table()

    return run


def _per_row(rows: int, repeat: int) -> list[Measurement]:
    batches = _batches(100_000, rows, 1_000_000)
    measured: list[Measurement] = []
    for ours, theirs in PER_ROW:
        contenders = {
            "numba, append": _through(ours, "append"),
            "numba, retract": _through(ours, "retract"),
            "DuckDB, one thread": _duckdb(theirs),
        }
        series = {label: Measurement(ours, label, rows) for label in contenders}
        for turn in range(repeat + 1):
            for label, run in contenders.items():
                begin = time.perf_counter()
                run(batches)
                if turn:
                    series[label].seconds.append(time.perf_counter() - begin)
        measured += series.values()
    return measured


def _hot_key(values: int, repeat: int) -> list[Measurement]:
    """One key with that many distinct values, added in random order and taken back from the top, in bundles."""
    order = np.random.default_rng(7).permutation(values)
    measured = []
    for call in HOT:
        handler = _handler(call, "retract")
        added = Measurement(f"{call}, one key", "added", values)
        back = Measurement(f"{call}, one key", "taken back from the top", values)
        for turn in range(repeat + 1):
            operator = GroupAggOperator(handler)
            for series, chosen, kind in ((added, order, 0), (back, np.arange(values)[::-1], 3)):
                columns = {
                    "k": np.zeros(values, np.int64),
                    "v": chosen.astype(np.float64),
                    "w": chosen.astype(np.float64),
                    "i": chosen,
                }
                batches = pa.table(columns).to_batches(max_chunksize=10_000)
                begin = time.perf_counter()
                for batch in batches:
                    operator.process(
                        _columns(handler, batch), np.full(batch.num_rows, kind, np.int8)
                    )
                if turn:
                    series.seconds.append(time.perf_counter() - begin)
            assert operator.keys == 0
        measured += [added, back]
    return measured


@click.command()
@click.option("--rows", default=5_000_000, show_default=True)
@click.option(
    "--values", default=1_000_000, show_default=True, help="Distinct values of the hot key."
)
@click.option("--repeat", default=2, show_default=True)
def main(rows: int, values: int, repeat: int) -> None:
    """Measure functions at 100,000 keys and on a hot key."""
    measured = _per_row(rows, repeat) + _hot_key(values, repeat)
    notes = (
        f"{rows:,} rows over 100,000 keys in mini-batches of 1,000,000, changelog out; DuckDB answers once. "
        f"The hot key: {values:,} distinct values in bundles of 10,000, added in random order, then taken "
        f"back from the greatest down. Median of {repeat} rounds in turn."
    )
    publish("functions", measured, "DuckDB, one thread", notes)


if __name__ == "__main__":
    main()
