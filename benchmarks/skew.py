"""Skew: half of the rows have one key. What two phases and a split DISTINCT do for the slowest task.

The plans take turns on the same files (ABAB). A stateful task is one that reads the exchange; the slowest of a run is
what its batches wait for, whatever the number of cores.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from results import publish_rows

import aggloom as al

DATA = Path(__file__).resolve().parent.parent / "build" / "bench"
FILES = 16
QUERIES = {
    "COUNT(DISTINCT u), SUM(v)": "SELECT k, COUNT(DISTINCT u) AS n, SUM(v) AS s FROM t GROUP BY k",
    "SUM, MAX, COUNT": "SELECT k, SUM(v) AS s, MAX(v) AS m, COUNT(*) AS n FROM t GROUP BY k",
}
PLANS: dict[str, dict[str, Any]] = {
    "one phase": {"agg_phase_strategy": "ONE_PHASE"},
    "two phases": {},
    "split, incremental": {"distinct_agg_split_enabled": True},
    "split, not incremental": {
        "distinct_agg_split_enabled": True,
        "incremental_agg_enabled": False,
    },
}


@dataclass
class Series:
    """The repeated runs of one plan: seconds of the whole, and of its slowest stateful task."""

    query: str
    plan: str
    whole: list[float] = field(default_factory=list)
    slowest: list[float] = field(default_factory=list)


def dataset(rows: int) -> Path:
    """Rows of which half have key 0, the others one of 1,000; u has a million values."""
    folder = DATA / f"skew-{rows}"
    if folder.exists():
        return folder
    draft = folder.with_suffix(".draft")
    draft.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    for part in range(FILES):
        n = rows // FILES
        keys = np.where(rng.random(n) < 0.5, 0, rng.integers(1, 1001, n))
        table = {"k": keys, "u": rng.integers(0, 1_000_000, n), "v": rng.integers(0, 1000, n)}
        pq.write_table(pa.table(table), draft / f"part-{part:02}.parquet")
    draft.rename(folder)
    return folder


def run(
    spark: SparkSession, folder: Path, query: str, options: dict[str, Any], files: int
) -> tuple[float, float]:
    """(seconds of the stream, seconds of its slowest stateful task)."""
    schema = spark.read.parquet(str(folder)).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
    seen = {stage for stage, _ in _stateful_tasks(spark)}
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        out = al.sql(query, t=source.parquet(str(folder)), **options)
        writer = out.writeStream.trigger(availableNow=True).format("noop")
        begin = time.perf_counter()
        writer.option("checkpointLocation", scratch).start().awaitTermination()
        whole = time.perf_counter() - begin
    tasks = [seconds for stage, seconds in _stateful_tasks(spark) if stage not in seen]
    return whole, max(tasks)


def _stateful_tasks(spark: SparkSession) -> Iterator[tuple[int, float]]:
    """(stage, seconds) of every task so far that has read an exchange."""
    store = spark.sparkContext._jsc.sc().statusStore()
    jvm = spark.sparkContext._jvm
    stages = jvm.scala.jdk.javaapi.CollectionConverters.asJava(
        store.stageList(None, False, False, _quantiles(spark), None)
    )
    for stage in stages:
        tasks = store.taskList(stage.stageId(), stage.attemptId(), 10_000)
        for task in jvm.scala.jdk.javaapi.CollectionConverters.asJava(tasks):
            metrics = task.taskMetrics()
            if metrics.isEmpty():
                continue
            read = metrics.get().shuffleReadMetrics()
            if read.localBytesRead() + read.remoteBytesRead() > 0:
                yield int(stage.stageId()), metrics.get().executorRunTime() / 1000


def _quantiles(spark: SparkSession) -> Any:
    gateway = spark.sparkContext._gateway
    return gateway.new_array(gateway.jvm.double, 0)


@click.command()
@click.option("--rows", default=8_000_000, show_default=True)
@click.option("--repeat", default=5, show_default=True, help="Rounds, after one unmeasured.")
@click.option("--partitions", default=8, show_default=True, help="Shuffle partitions.")
@click.option("--batches", default=2, show_default=True, help="Micro-batches of each run.")
def main(rows: int, repeat: int, partitions: int, batches: int) -> None:
    """Run every plan in turn and write benchmarks/results/skew."""
    spark = al.session("aggloom-skew", **{"spark.sql.shuffle.partitions": str(partitions)})
    spark.sparkContext.setLogLevel("ERROR")
    folder = dataset(rows)
    series: list[Series] = []
    for name, query in QUERIES.items():
        plans = PLANS if "DISTINCT" in query else dict(list(PLANS.items())[:2])
        own = {plan: Series(name, plan) for plan in plans}
        for turn in range(repeat + 1):
            for plan, options in plans.items():
                whole, slowest = run(spark, folder, query, options, -(-FILES // batches))
                click.echo(
                    f"{name}, {plan}, round {turn}: {whole:.1f} s, {slowest:.2f} s", err=True
                )
                if turn:
                    own[plan].whole.append(whole)
                    own[plan].slowest.append(slowest)
        series += own.values()
    spark.stop()
    header = (
        "query",
        "plan",
        "slowest task, s",
        "of one phase",
        "whole, s",
        "of one phase",
        "spread",
    )
    cells = []
    for each in series:
        first = next(s for s in series if s.query == each.query)
        slowest, whole = statistics.median(each.slowest), statistics.median(each.whole)
        spread = (max(each.slowest) - min(each.slowest)) / slowest
        cells.append(
            (
                each.query,
                each.plan,
                f"{slowest:.2f}",
                f"{slowest / statistics.median(first.slowest):.2f}",
                f"{whole:.1f}",
                f"{whole / statistics.median(first.whole):.2f}",
                f"{spread:.0%}",
            )
        )
    notes = (
        f"{rows:,} rows, half of them of one key, the others of 1,000; u has a million values. {batches} "
        f"micro-batches, {partitions} shuffle partitions, noop sink, checkpoints on; medians of {repeat} "
        "rounds in turn. The slowest task is the longest of those that read an exchange; spread is its "
        "(slowest - fastest) / median."
    )
    raw = [each.__dict__ for each in series]
    publish_rows("skew", header, cells, raw, notes)


if __name__ == "__main__":
    main()
