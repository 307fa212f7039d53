"""The contenders that run on Spark: aggloom, Spark's own aggregate, a processor written by hand, and the floor."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import by_hand
import pyarrow as pa
from matrix import BATCHES
from measure import Run
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from rows import Rows

import aggloom as al
from aggloom.runtime.connectors.files.table_file import read_table

_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
# Workers do not have this folder on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
cloudpickle.register_pickle_by_value(by_hand)


@dataclass(frozen=True)
class Files:
    """Parquet files as a stream: so many a batch; `beside` are those of a second table."""

    folder: Path
    schema: str
    retracts: bool
    a_batch: int
    beside: Files | None = None

    @classmethod
    def of(cls, rows: Rows, a_batch: int | None = None) -> Self:
        """The files of rows, in four batches by default."""
        beside = None if rows.beside is None else cls.of(rows.beside, a_batch)
        each = a_batch or rows.files // BATCHES
        return cls(rows.folder, rows.schema, rows.retracts, each, beside)

    @property
    def tables(self) -> dict[str, Files]:
        """The tables by name."""
        return {"t": self} if self.beside is None else {"t": self, "r": self.beside}


@dataclass(frozen=True)
class Stream:
    """A streaming query: `build` makes it of a session, files and a directory for live state."""

    build: Callable[[SparkSession, Files, Path], DataFrame]
    mode: str = "changes"
    """"changes", a changelog; or Spark's "append" and "update", of rows by their first column."""
    changelog: bool = False
    """True if RocksDB's checkpoints are logs of changes, with a snapshot now and then."""

    def run(self, spark: SparkSession, rows: Rows) -> Run:
        """From the start to the end of the stream, checkpoints included; once under way: without its first batch."""
        seconds, batches = self.batches(spark, Files.of(rows))
        later = batches[1:]
        each = rows.of_all / len(batches)
        return Run(rows.of_all, seconds, each * len(later) / sum(later) if later else None)

    def batches(self, spark: SparkSession, files: Files) -> tuple[float, list[float]]:
        """(seconds of the whole, seconds of each batch), into the noop sink."""
        with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
            spark.conf.set(_CHANGELOG, self.changelog)
            out = self.build(spark, files, Path(scratch, "live"))
            begin = time.perf_counter()
            query = start(
                out.writeStream.format("noop").outputMode(self.output_mode), Path(scratch)
            )
            return time.perf_counter() - begin, batch_seconds(query)

    def table(self, spark: SparkSession, rows: Rows) -> Counter[tuple[Any, ...]]:
        """The table that the stream's results make: folded changes, or the last row of each key."""
        with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
            out = self.build(spark, Files.of(rows), Path(scratch, "live"))
            if self.mode == "changes":
                al.await_end(al.write_changes(out, "table", Path(scratch, "checkpoint")))
                found = read_table(Path(scratch, "checkpoint")).to_pylist()
                return Counter(tuple(row.values()) for row in found)
            rows_: list[tuple[Any, ...]] = []

            def keep(batch: DataFrame, _: int) -> None:
                rows_.extend(map(tuple, batch.collect()))

            start(out.writeStream.foreachBatch(keep).outputMode(self.output_mode), Path(scratch))
            if self.mode == "append":
                return Counter(rows_)
            return Counter({row[0]: row for row in rows_}.values())

    @property
    def output_mode(self) -> str:
        """Spark's output mode."""
        return "append" if self.mode == "changes" else self.mode


def start(writer: Any, scratch: Path) -> Any:
    """Run a query over what is there, with its checkpoint in a directory, to the end."""
    writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    al.await_end(query)
    return query


def batch_seconds(query: Any) -> list[float]:
    """Seconds of each batch of a query that had rows."""
    return [p.durationMs["triggerExecution"] / 1000 for p in query.recentProgress if p.numInputRows]


def read(spark: SparkSession, files: Files) -> DataFrame:
    """The files as Spark's own source reads them, the change column among the others."""
    schema = f"{files.schema}, op STRING" if files.retracts else files.schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", files.a_batch)
    return source.parquet(str(files.folder))


def read_changes(spark: SparkSession, files: Files) -> DataFrame:
    """The files as aggloom's source reads them: the one place that says how."""
    return al.read_changes(
        spark,
        str(files.folder),
        "parquet",
        files.schema,
        max_files_per_trigger=files.a_batch,
    )


def loom(sql: str, **options: Any) -> Stream:
    """A query through aggloom, with planner options: changes out, and in if the rows are changes."""

    def build(spark: SparkSession, files: Files, live: Path) -> DataFrame:
        tables = {name: read_changes(spark, each) for name, each in files.tables.items()}
        changes = {
            name: "retract" if each.retracts else "append" for name, each in files.tables.items()
        }
        return al.sql(sql, tables=tables, input_changes=changes, state_directory=live, **options)

    return Stream(build, changelog=True)


def own(sql: str, changelog: bool = False, mode: str = "update") -> Stream:
    """The same query as Spark runs it: insertions in, new values out (`update`) or rows (`append`)."""

    def build(spark: SparkSession, files: Files, _: Path) -> DataFrame:
        for name, each in files.tables.items():
            read(spark, each).createOrReplaceTempView(name)
        return spark.sql(sql)

    return Stream(build, mode, changelog)


HAND_STREAM = Stream(lambda spark, files, _: by_hand.by_hand(read(spark, files)), "update")


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _identity(spark: SparkSession, files: Files, _: Path) -> DataFrame:
    df = read(spark, files)
    return df.mapInArrow(_same, df.schema)


FLOOR_STREAM = Stream(_identity)
"""Rows into Python and back: what moving them costs alone."""
