"""What functions cost: writing, compiling and loading a handler, rows through it, and one hot key taken back."""

from __future__ import annotations

import subprocess
import sys
import tempfile
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

SCHEMA = "k BIGINT, v DOUBLE, w DOUBLE, i BIGINT"
SIMPLE = "SUM(i), MAX(i), COUNT(*)"
THIRTY = ", ".join(
    [
        f"{name}(v)"
        for name in ("SUM", "AVG", "MIN", "MAX", "COUNT", "VAR_POP", "VAR_SAMP", "STDDEV_POP")
    ]
    + [f"{name}(i)" for name in ("SUM", "AVG", "MIN", "MAX", "COUNT", "MEDIAN", "MODE", "BIT_OR")]
    + [
        f"{name}(v, w)"
        for name in ("CORR", "COVAR_POP", "REGR_SLOPE", "REGR_R2", "REGR_COUNT", "MAX_BY")
    ]
    + ["COUNT(DISTINCT i)", "SUM(DISTINCT i)", "FIRST_VALUE(v)", "LAST_VALUE(v)", "COLLECT_SET(i)"]
    + ["ARRAY_AGG(i)", "SKEWNESS(v)", "COUNT(*)"]
)
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
_PHASES = """
import sys, time
from pathlib import Path
from aggloom.codegen import AggSpec, generate, load
spec = AggSpec.from_sql(sys.argv[1], sys.argv[2], sys.argv[3])
times = [time.perf_counter()]
source = generate(spec, directory=Path(sys.argv[4])); times.append(time.perf_counter())
handler = load(source)(); handler.setAccumulators(handler.createAccumulators(2), [0])
handler.accumulate((1, 1.0, 2.0, 3)); handler.getValue(); times.append(time.perf_counter())
print(times[1] - times[0], times[2] - times[1], len(source.text.splitlines()))
"""


def _batches(keys: int, rows: int, size: int) -> list[pa.RecordBatch]:
    rng = np.random.default_rng(7)
    columns = {
        "k": rng.integers(0, keys, rows),
        "v": rng.normal(0, 100, rows).round(2),
        "w": rng.normal(0, 1, rows),
        "i": rng.integers(0, 1000, rows),
    }
    return pa.table(columns).to_batches(max_chunksize=size)


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
    measured = []
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


def _phases() -> str:
    """A table of what it takes to get a handler: each load in a process of its own."""
    lines = [
        "| calls | input | lines | spec to source | first load and rows | later |",
        "|" + "---|" * 6,
    ]
    for name, calls in (("3: SUM, MAX, COUNT", SIMPLE), ("30, of every kind", THIRTY)):
        sql = f"SELECT k, {calls} FROM t GROUP BY k"
        for changes in ("append", "retract"):
            with tempfile.TemporaryDirectory() as directory:
                runs = []
                for _ in range(2):
                    command = [sys.executable, "-c", _PHASES, sql, SCHEMA, changes, directory]
                    out = subprocess.run(command, capture_output=True, text=True, check=True)
                    runs.append([float(part) for part in out.stdout.split()])
            (write, first, lines_), (_, later, _) = runs
            cells = [
                name,
                changes,
                f"{lines_:.0f}",
                f"{write * 1e3:.0f} ms",
                f"{first:.1f} s",
                f"{later:.2f} s",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


@click.command()
@click.option("--rows", default=5_000_000, show_default=True)
@click.option(
    "--values", default=1_000_000, show_default=True, help="Distinct values of the hot key."
)
@click.option("--repeat", default=2, show_default=True)
def main(rows: int, values: int, repeat: int) -> None:
    """Measure functions at 100,000 keys, a hot key, and the way from a spec to a loaded handler."""
    phases = _phases()
    measured = _per_row(rows, repeat) + _hot_key(values, repeat)
    notes = (
        f"{rows:,} rows over 100,000 keys in mini-batches of 1,000,000, changelog out; DuckDB answers once. "
        f"The hot key: {values:,} distinct values in bundles of 10,000, added in random order, then taken "
        f"back from the greatest down. Median of {repeat} rounds in turn.\n\n{phases}"
    )
    publish("functions", measured, "DuckDB, one thread", notes)


if __name__ == "__main__":
    main()
