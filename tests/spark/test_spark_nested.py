"""Random queries of all operators on Spark, over files and a restart from the checkpoint, give DuckDB's table.

Each draws its own options, partitions, buckets and cuts. `make sweep SEEDS=1000:200` runs other ones than the suite.
"""

from __future__ import annotations

import datetime as dt
import os
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nested_queries import nested_query
from nested_windows import TABLES as WINDOW_TABLES
from nested_windows import random_row, window_query
from queries import TABLE, answer, multiset
from queries import TABLES as PLAIN_TABLES

import aggloom as al
from aggloom.runtime.values.changelog import CHANGE_TYPES, KIND_NAMES
from tests.windows.test_nested_windows import by_duckdb, random_changes, rounded

pytestmark = pytest.mark.spark

Row = tuple[Any, ...]
_FIRST, _COUNT = map(int, os.environ.get("AGGLOOM_SEEDS", "0:4").split(":"))
_TIME = pa.timestamp("us", "UTC")
_LATER = dt.datetime(2024, 4, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Asked:
    """A script over tables, batches of their changes, and the table that it has after them."""

    script: str
    dialect: str
    tables: Mapping[str, pa.Schema]
    batches: list[list[tuple[str, Row]]]
    table: Counter[Row]
    watermarks: dict[str, tuple[str, str]] | None = None


def over_windows(draws: random.Random, retracts: bool) -> Asked:
    """A query over windows; its last two batches have rows a month later, so that all windows before are over."""
    query = window_query(draws)
    batches, left = random_changes(draws, query.tables, retracts)
    table = by_duckdb(query, left)
    for second in (0, 1):
        late = {"ts": _LATER + dt.timedelta(seconds=second)}
        rows = [(name, random_row(draws, name, 10_000 + second)) for name in query.tables]
        batches.append(
            [(name, ("+I", *_with(late, name, row))) for name, row in rows],
        )
    tables = {name: WINDOW_TABLES[name] for name in query.tables}
    marks = dict.fromkeys(query.tables, ("ts", "1 hour"))
    return Asked(query.script, "spark", tables, batches, table, marks)


def over_tables(draws: random.Random, retracts: bool) -> Asked:
    """A query of joins, sub-queries, OVER, ranks, limits, sets and sums over one another."""
    query = nested_query(draws.randrange(10**9))
    live: dict[str, list[Row]] = {name: [] for name in PLAIN_TABLES}
    batches: list[list[tuple[str, Row]]] = []
    for _ in range(4):
        batches.append([])
        for _ in range(draws.randint(0, 9)):
            name, rows = draws.choice("ttu"), [draws.choice(values) for _, values in TABLE.values()]
            if not retracts or not live[name] or draws.random() < 0.6:
                batches[-1].append((name, ("+I", *rows)))
                live[name].append(tuple(rows))
                continue
            old = live[name].pop(draws.randrange(len(live[name])))
            if draws.random() < 0.5:
                batches[-1].append((name, ("-D", *old)))
                continue
            batches[-1] += [(name, ("-U", *old)), (name, ("+U", *rows))]
            live[name].append(tuple(rows))
    return Asked(query.sql, query.dialect, PLAIN_TABLES, batches, answer(query, live))


def drawn_options(draws: random.Random) -> dict[str, Any]:
    """Options under which the table is the same."""
    options: dict[str, Any] = {}
    if draws.random() < 0.3:
        options["mini_batch_enabled"] = False
    if draws.random() < 0.4:
        options["agg_phase_strategy"] = draws.choice(["ONE_PHASE", "TWO_PHASE"])
    if draws.random() < 0.3:
        options["fragments_enabled"] = False
    if draws.random() < 0.2:
        options["distinct_agg_split_enabled"] = True
    return options


def write(folder: Path, number: int, schema: pa.Schema, rows: list[Row]) -> None:
    """A Parquet file of changes; file times follow the numbers, since Spark reads files in order of time."""
    folder.mkdir(parents=True, exist_ok=True)
    words = dict(zip(KIND_NAMES, CHANGE_TYPES, strict=True))
    columns = [pa.array([row[n + 1] for row in rows], field.type) for n, field in enumerate(schema)]
    kinds = pa.array([words[row[0]] for row in rows], pa.string())
    file = folder / f"{number:03}.parquet"
    pq.write_table(pa.table([*columns, kinds], names=[*schema.names, "_change_type"]), file)
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def folded(files: Iterable[Path], windows: bool) -> Counter[Row]:
    """The bag that a changelog leaves; a row that was taken back more often than it came is there less than no time."""
    left: Counter[Row] = Counter()
    for file in files:
        *columns, kinds = pq.ParquetFile(file).read().columns
        values = (c.cast(_TIME) if pa.types.is_timestamp(c.type) else c for c in columns)
        rows = zip(*(each.to_pylist() for each in values), strict=True)
        for kind, row in zip(kinds.to_pylist(), rows, strict=True):
            key = rounded(row) if windows else next(iter(multiset([row])))
            left[key] += 1 if kind in ("insert", "update_postimage") else -1
    return Counter({row: count for row, count in left.items() if count})


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _COUNT))
@pytest.mark.sampled(1)
def test_random_queries_on_spark_give_duckdbs_table(spark: Any, tmp_path: Path, seed: int) -> None:
    draws = random.Random(seed)
    windows, retracts = seed % 2 == 0, draws.random() < 0.5
    asked = (over_windows if windows else over_tables)(draws, retracts)
    options, buckets = drawn_options(draws), draws.choice([None, 1, 3, 8])
    files, partitions = draws.choice([1, 1, 2]), draws.choice([1, 2, 3])
    half = draws.randint(1, len(asked.batches) - 1)
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    try:
        for batches in (range(half), range(half, len(asked.batches))):
            for number in batches:
                for name, schema in asked.tables.items():
                    rows = [row for table, row in asked.batches[number] if table == name]
                    write(tmp_path / "in" / name, number, schema, rows)
            frames = {
                name: al.read_changes(
                    spark, tmp_path / "in" / name, "parquet", schema, max_files_per_trigger=files
                )
                for name, schema in asked.tables.items()
            }
            out = al.sql(
                asked.script,
                tables=frames,
                input_changes="retract" if retracts else "append",
                dialect=asked.dialect,
                backend="python",
                buckets=buckets,
                watermarks=asked.watermarks,
                options=options,
            )
            query = al.write_changes(out, f"parquet:{tmp_path / 'out'}", tmp_path / "checkpoint")
            assert query.awaitTermination(300)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", 2)
    found = folded((tmp_path / "out").rglob("*.parquet"), windows)
    assert found == asked.table, (asked.script, options)


def _with(values: Mapping[str, Any], table: str, row: Row) -> Row:
    """A row with other values in some columns."""
    return tuple(values.get(n, v) for n, v in zip(WINDOW_TABLES[table].names, row, strict=True))
