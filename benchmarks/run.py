"""Side by side in one run: aggloom, Spark's own streaming aggregate, and the floor that Arrow sets.

Every contender reads the same parquet files as a stream, in the same micro-batches, with a
checkpoint, and writes to the noop sink. They take turns (ABAB), so a slow minute hits all of them.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from results import Measurement, publish

import aggloom as al

DATA = Path(__file__).resolve().parent.parent / "build" / "bench"
FILES = 20
FLOOR = "mapInArrow identity"
OWN = "Spark aggregate"


@dataclass(frozen=True)
class Workload:
    """A query, the rows it runs on, and what Spark's aggregate computes for comparison."""

    name: str
    sql: str
    spark_keys: tuple[str, ...]
    spark_calls: Callable[[], list[Any]]
    columns: Callable[[np.random.Generator, int], dict[str, Any]]


def _by_key(keys: int) -> Workload:
    return Workload(
        name=f"SUM, MAX, COUNT by {keys:,} keys",
        sql="SELECT k, SUM(v) AS s, MAX(v) AS m, COUNT(*) AS n FROM t GROUP BY k",
        spark_keys=("k",),
        spark_calls=lambda: [F.sum("v"), F.max("v"), F.count(F.lit(1))],
        columns=lambda rng, n: {
            "k": rng.integers(0, keys, n, dtype=np.int64),
            "v": rng.integers(-1000, 1000, n, dtype=np.int32),
        },
    )


def _flights(rng: np.random.Generator, n: int) -> dict[str, Any]:
    carriers = pa.array([f"C{i}" for i in range(16)])
    airports = pa.array([f"A{i:03}" for i in range(105)])
    return {
        "carrier": carriers.take(pa.array(rng.integers(0, 16, n))),
        "dest": airports.take(pa.array(rng.integers(0, 105, n))),
        "dep_delay": rng.integers(-30, 300, n, dtype=np.int32),
        "arr_delay": rng.integers(-60, 300, n, dtype=np.int32),
    }


FLIGHTS = Workload(
    name="flights by carrier",
    sql=(
        "SELECT carrier, COUNT(*) AS flights, SUM(dep_delay) AS total, AVG(arr_delay) AS mean, "
        "MAX(arr_delay) AS worst, COUNT(DISTINCT dest) AS airports FROM t GROUP BY carrier"
    ),
    spark_keys=("carrier",),
    # Spark's streaming aggregate has no exact COUNT(DISTINCT): it offers an estimate.
    spark_calls=lambda: [
        F.count(F.lit(1)),
        F.sum("dep_delay"),
        F.avg("arr_delay"),
        F.max("arr_delay"),
        F.approx_count_distinct("dest"),
    ],
    columns=_flights,
)
WORKLOADS = {"flights": FLIGHTS, "100k": _by_key(100_000), "1m": _by_key(1_000_000)}


def dataset(tag: str, workload: Workload, rows: int) -> Path:
    """The parquet files of a workload, written once."""
    folder = DATA / f"{tag}-{rows}"
    if folder.exists():
        return folder
    draft = folder.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    rng = np.random.default_rng(7)
    for part in range(FILES):
        table = pa.table(workload.columns(rng, rows // FILES))
        pq.write_table(table, draft / f"part-{part:02}.parquet")
    draft.rename(folder)
    return folder


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def contenders(workload: Workload) -> dict[str, Callable[[DataFrame], DataFrame]]:
    """Name to the transformation of the input stream."""

    def loom(changes: str) -> Callable[[DataFrame], DataFrame]:
        def transform(df: DataFrame) -> DataFrame:
            spec = al.AggSpec.from_sql(workload.sql, schema=df.schema, input_changes=changes)
            return al.group_aggregate(df, spec)

        return transform

    def own(df: DataFrame) -> DataFrame:
        calls = workload.spark_calls()
        return df.groupBy(*workload.spark_keys).agg(*calls)

    return {
        "aggloom, append-only": loom("append"),
        "aggloom, retracting": loom("retract"),
        OWN: own,
        FLOOR: lambda df: df.mapInArrow(_identity, df.schema),
    }


def measure(
    spark: SparkSession,
    folder: Path,
    build: Callable[[DataFrame], DataFrame],
    mode: str,
    files: int,
    sink: str,
) -> float:
    """Seconds from start to the end of the stream, checkpoints included."""
    schema = spark.read.parquet(str(folder)).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        out = build(source.parquet(str(folder)))
        writer = out.writeStream.outputMode(mode).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", f"{scratch}/checkpoint")
        if sink == "parquet":
            writer = writer.option("path", f"{scratch}/out")
        begin = time.perf_counter()
        writer.format(sink).start().awaitTermination()
        return time.perf_counter() - begin


@click.command()
@click.option("--rows", default=20_000_000, show_default=True, help="Rows of each workload.")
@click.option(
    "--repeat", default=3, show_default=True, help="Measured rounds, after one unmeasured."
)
@click.option("--batches", default=4, show_default=True, help="Micro-batches of each run.")
@click.option("--sink", type=click.Choice(["noop", "parquet"]), default="noop")
@click.option("--workload", "chosen", multiple=True, type=click.Choice(list(WORKLOADS)))
@click.option("--quick", is_flag=True, help="2 M rows.")
@click.option("--name", default="streaming", show_default=True, help="Name of the result files.")
def main(
    rows: int,
    repeat: int,
    batches: int,
    sink: str,
    chosen: tuple[str, ...],
    quick: bool,
    name: str,
) -> None:
    """Run the workloads on every contender and write benchmarks/results."""
    rows = 2_000_000 if quick else rows
    spark = al.session("aggloom-bench")
    spark.sparkContext.setLogLevel("ERROR")
    files = math.ceil(FILES / batches)
    measured: list[Measurement] = []
    for tag in chosen or WORKLOADS:
        workload = WORKLOADS[tag]
        folder = dataset(tag, workload, rows)
        runs = contenders(workload)
        if sink == "parquet":
            # Spark's aggregate cannot append without a watermark, so it has no parquet run.
            del runs[OWN]
        series = {label: Measurement(workload.name, label, rows) for label in runs}
        for turn in range(repeat + 1):
            for label, build in runs.items():
                mode = "update" if label == OWN else "append"
                seconds = measure(spark, folder, build, mode, files, sink)
                if turn:
                    series[label].seconds.append(seconds)
                click.echo(f"{workload.name}, {label}, round {turn}: {seconds:.1f} s", err=True)
        measured += series.values()
    spark.stop()
    notes = (
        f"{rows:,} rows of parquet, {batches} micro-batches, {sink} sink, "
        f"checkpoints on; median of {repeat} rounds in turn, after one unmeasured round. "
        "aggloom emits a changelog and counts exactly: with handlers for an append-only input, as Spark's "
        "aggregate has, and with handlers that could take every row back. Spark's aggregate emits plain rows "
        "in update mode and estimates COUNT(DISTINCT)."
    )
    publish(name, measured, FLOOR, notes)


if __name__ == "__main__":
    main()
