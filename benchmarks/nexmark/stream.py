"""The queries on Spark, through aggloom: over all files, or over half of them and on from the checkpoint."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

import aggloom as al
from nexmark.catalogue import Query
from nexmark.events import Events
from nexmark.local import plan_arguments
from nexmark.oracle import Oracle
from nexmark.processes import Spent

BATCHES: Final = 5
SESSION: Final = "aggloom-nexmark"
_FUNCTION: Final = """CREATE OR REPLACE TEMPORARY FUNCTION count_char(whole STRING, letter STRING) RETURNS INT
RETURN LENGTH(whole) - LENGTH(REPLACE(whole, letter, ''))"""
_WINDOW_SECONDS: Final = 10


class OverTime(Exception):
    """A query took longer than it may."""


@dataclass
class Measured:
    """Figures of a run over all files, with its results thrown away."""

    rows: int
    seconds: float
    batches: list[float]
    nodes: int
    state_bytes: int
    changes: int
    late: int
    jvm: float
    python: float
    operators: dict[str, int] = field(default_factory=dict)
    """Bytes of state by operator."""

    @property
    def steady(self) -> float:
        """Rows a second once under way: without the first batch."""
        later = self.batches[1:]
        each = self.rows / len(self.batches)
        return each * len(later) / sum(later) if later else self.rows / self.seconds

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self) | {"steady": self.steady}


def session(cores: int = 2) -> SparkSession:
    """A session with the user's function of q14."""
    spark = al.session(SESSION, master=f"local[{cores}]")
    spark.sparkContext.setLogLevel("ERROR")
    spark.sql(_FUNCTION)
    return spark


def measure(spark: SparkSession, query: Query, events: Events, limit: float) -> Measured:
    """Run over all files into nothing; q10 into files."""
    with tempfile.TemporaryDirectory(prefix="nexmark-") as made:
        scratch = Path(made)
        out = _result(spark, query, events, events.folder, scratch, update_before=False)
        nodes = _stateful_nodes(out)
        jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
        before, begin = Spent.now(jvm), time.perf_counter()
        run = _run(_writer(query, out, scratch), scratch, limit, counted=True)
        seconds, spent = time.perf_counter() - begin, Spent.now(jvm).since(before)
        counts = al.progress(run)
        return Measured(
            rows=sum(events.size(table) for table in query.streams),
            seconds=seconds,
            batches=[
                p.durationMs["triggerExecution"] / 1000
                for p in run.recentProgress
                if p.numInputRows
            ],
            nodes=nodes,
            state_bytes=counts.state_bytes,
            changes=counts.changes,
            late=counts.late,
            jvm=spent[0],
            python=spent[1],
            operators={each.name: each.state_bytes for each in counts.operators},
        )


def differences(
    spark: SparkSession, query: Query, events: Events, oracle: Oracle, limit: float
) -> list[str]:
    """List the differences between its table and DuckDB's, over a restart in the middle.

    Half of the files come before it; then, from the checkpoint, the others, and the rows that end the windows.
    """
    whole = query.whole_with_corrections and events.corrections
    steps = (
        [range(events.files)]
        if whole
        else [range(events.files // 2), range(events.files // 2, events.files)]
    )
    with tempfile.TemporaryDirectory(prefix="nexmark-") as made:
        scratch = Path(made)
        given = scratch / "given"
        for table in query.streams:
            (given / table).mkdir(parents=True)
        for files in steps:
            for table in query.streams:
                for number in files:
                    _link(events, given, table, f"part-{number:03}.parquet")
            _run_query(spark, query, events, given, scratch, limit)
        if query.timed or query.by_clock:
            if query.by_clock:
                time.sleep(_WINDOW_SECONDS + 1)
            for table in query.streams:
                file = given / table / "part-999.parquet"
                shutil.copy(events.folder / "closing" / f"{table}.parquet", file)
            _run_query(spark, query, events, given, scratch, limit)
        log = f"read_parquet('{scratch}/out/**/*.parquet', hive_partitioning = false)"
        if query.files:
            log = log.replace("false", "true, hive_types_autocast = false")
        return oracle.changelog(query, log, "_change_type")


def _run_query(
    spark: SparkSession, query: Query, events: Events, given: Path, scratch: Path, limit: float
) -> None:
    out = _result(spark, query, events, given, scratch)
    if query.files:
        _run(_writer(query, out, scratch), scratch, limit)
        return
    writing = al.write_changes(out, f"parquet:{scratch / 'out'}", scratch / "checkpoint")
    _await(writing, limit)


def _writer(query: Query, out: DataFrame, scratch: Path) -> Any:
    if not query.files:
        return out.writeStream.format("noop")
    files = out.writeStream.format("parquet").option("path", str(scratch / "out"))
    return files.partitionBy(*query.files)


def _run(writer: Any, scratch: Path, limit: float, counted: bool = False) -> Any:
    run = writer.option("checkpointLocation", str(scratch / "checkpoint"))
    run = run.outputMode("append").trigger(availableNow=True).start()
    if counted:
        al.progress(run)
    _await(run, limit)
    return run


def _await(run: Any, limit: float) -> None:
    if not run.awaitTermination(int(limit)):
        run.stop()
        raise OverTime(f"longer than {limit:.0f} s")
    al.await_end(run)


def _result(
    spark: SparkSession,
    query: Query,
    events: Events,
    folder: Path,
    scratch: Path,
    *,
    update_before: bool = True,
) -> DataFrame:
    """The changes of the query's table, over the files in a folder for each stream; as of `plan_arguments`."""
    a_batch = events.files // BATCHES
    if query.whole_with_corrections and events.corrections:
        a_batch = events.files
    frames = {
        table: al.read_changes(
            spark,
            str(folder / table),
            "parquet",
            events.schema(table),
            max_files_per_trigger=a_batch,
        )
        for table in query.streams
    }
    if "side" in query.tables:
        frames["side"] = spark.createDataFrame(events.side().to_pandas())
    arguments = plan_arguments(query, events, update_before=update_before)
    return al.sql(
        query.text("aggloom"), tables=frames, state_directory=scratch / "live", **arguments
    )


def _stateful_nodes(out: DataFrame) -> int:
    from aggloom.codegen.planner.tree import list_stateful_nodes
    from aggloom.runtime.spark.plan.lower import find_lowering

    made = find_lowering(out)
    return 0 if made is None else len(list_stateful_nodes(made.plan))


def _link(events: Events, given: Path, table: str, file: str) -> None:
    target = given / table / file
    if not target.exists():
        # A hard link keeps the time, by which Spark orders files.
        target.hardlink_to(events.folder / table / file)
