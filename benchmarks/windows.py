"""Windows: aggloom, Spark's own and Flink's side by side on the same rows; then the operator alone, one thread.

SUM, MAX and COUNT by key in tumbling, hopping, cumulating and session windows. Every contender takes its turn in every
round (ABAB), so a slow minute hits all of them; ratios are of the same round. Flink needs a Python of its own
(--flink-python, or AGGLOOM_FLINK_PYTHON), for its pins clash with ours.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import click
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
from flink import Flink
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from results import publish_rows
from windows_cases import (
    CASES,
    DATA,
    DDL,
    DELAY,
    FEW_KEYS,
    FEW_ROWS,
    FILES,
    FILES_A_BATCH,
    FLINK_BUNDLED,
    FLINK_SETTINGS,
    FLINK_SOURCE,
    INSTANT,
    MOST_OPEN,
    SQL,
    Case,
    Rows,
    pl,
)

import aggloom as al
from aggloom.codegen.planner import Bounds
from aggloom.codegen.windows import Aligned, Windowing
from aggloom.runtime.operators.windows.sessions import SessionWindowOperator
from aggloom.runtime.operators.windows.slicing import SlicingWindowOperator
from aggloom.runtime.values.clock import AFTER_ALL, Clock

LOOM, OWN, FLOOR = "aggloom", "Spark's own", "mapInArrow identity"
FLINK, FLINK_READS = "Flink SQL", "Flink SQL, reading alone"
ALONE, DUCKDB, POLARS = "operator alone", "DuckDB, one thread", "Polars, one thread"
Took = tuple[float, int | None, float | None]
Run = Callable[["Rows"], Took]
"""Seconds that a contender takes for rows, how many results it gives out if it says, and on Spark rows a second under
way."""


# Through Spark.


Read = Callable[[SparkSession, Rows], DataFrame]


def _read(spark: SparkSession, rows: Rows) -> DataFrame:
    """The files by Spark's own source."""
    source = spark.readStream.schema(DDL).option("maxFilesPerTrigger", FILES_A_BATCH)
    return source.parquet(str(rows.folder))


def _read_changes(spark: SparkSession, rows: Rows) -> DataFrame:
    """The files by aggloom's source."""
    return al.read_changes(spark, rows.folder, "parquet", DDL, max_files_per_trigger=FILES_A_BATCH)


def _stream(
    spark: SparkSession, build: Callable[[DataFrame, Rows], DataFrame], read: Read = _read
) -> Run:
    def run(rows: Rows) -> Took:
        with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
            out = build(read(spark, rows), rows)
            writer = out.writeStream.trigger(availableNow=True).format("noop")
            begin = time.perf_counter()
            query = writer.option("checkpointLocation", scratch).start()
            query.awaitTermination()
            seconds = time.perf_counter() - begin
        progress = query.recentProgress
        # Windows that a batch's rows have closed are emitted in the next one, perhaps without rows.
        later = sum(batch.durationMs["triggerExecution"] for batch in progress[1:]) / 1000
        steady = rows.rows * (FILES - FILES_A_BATCH) / FILES / later if later else None
        return seconds, sum(batch.sink.numOutputRows for batch in progress), steady

    return run


def _loom(case: Case) -> Callable[[DataFrame, Rows], DataFrame]:
    def build(df: DataFrame, rows: Rows) -> DataFrame:
        spec = al.AggSpec.from_sql(SQL, schema=DDL, input_changes="append")
        return al.window_aggregate(df, spec, window=case.assigner(rows), watermark=DELAY)

    return build


def _own(window: Callable[[Rows], Column]) -> Callable[[DataFrame, Rows], DataFrame]:
    def build(df: DataFrame, rows: Rows) -> DataFrame:
        groups = df.withWatermark("ts", DELAY).groupBy("k", window(rows))
        return groups.agg(F.sum("v"), F.max("v"), F.count(F.lit(1)))

    return build


def _identity(df: DataFrame, _: Rows) -> DataFrame:
    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return df.mapInArrow(same, df.schema)


# Through Flink.


def _flink(flink: Flink, case: Case | None, count: bool) -> Run:
    """Flink on a case, or reading alone; counts the results or puts them into a black hole."""

    def run(rows: Rows) -> Took:
        sql = "SELECT k, ts, v FROM t"
        if case is not None:
            sql = (
                "SELECT k, window_start, window_end, SUM(v), MAX(v), COUNT(*) "
                f"FROM TABLE({case.flink.format(gap=rows.gap)}) GROUP BY k, window_start, window_end"
            )
        source = [FLINK_SOURCE.format(folder=rows.csv)]
        if case is None or not count:
            return flink.ask(FLINK_SETTINGS, source, sql)["seconds"], None, None
        settings = {**FLINK_SETTINGS, **FLINK_BUNDLED}
        begin = time.perf_counter()
        answer = flink.ask(settings, source, f"SELECT COUNT(*) FROM ({sql})", collect=True)
        return time.perf_counter() - begin, answer["changes"][-1][1], None

    return run


# Without a stream.


def _alone(case: Case) -> Run:
    """The operator, fed with the batches that Spark's stream has."""

    def run(rows: Rows) -> Took:
        assigner = case.assigner(rows)
        windowing = Windowing(assigner)
        spec = al.AggSpec.from_sql(
            SQL, schema="k BIGINT, v INT, ts TIMESTAMP", input_changes="append"
        )
        spec = al.window_spec(spec, windowing)
        handler = al.load(al.generate(spec))
        batches = rows.table.to_batches(rows.rows * FILES_A_BATCH // FILES)
        merges = assigner.merges
        bounds = Bounds("s", "e", "t", INSTANT, INSTANT)
        begin = time.perf_counter()
        operator = (SessionWindowOperator if merges else SlicingWindowOperator)(
            handler, windowing, bounds
        )
        results, watermark = 0, 0
        for batch in [*batches, batches[0].slice(0, 0)]:
            last = batch.num_rows == 0
            times = batch["t"].to_numpy()
            clock = Clock(0, AFTER_ALL if last else watermark)
            placed = assigner.slices(times) if isinstance(assigner, Aligned) else times
            columns = [batch["k"], pa.array(placed), batch["v"]]
            moved = pa.RecordBatch.from_arrays(columns, schema=spec.handler_schema)
            changes, _ = operator.process(moved, np.zeros(len(times), np.int8), clock)
            results += changes.num_rows
            watermark = watermark if last else int(times.max()) - 10_001
        operator.close()
        return time.perf_counter() - begin, results, None

    return run


def _duckdb(case: Case) -> Run:
    def run(rows: Rows) -> Took:
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            connection.register("t", rows.table)
            begin = time.perf_counter()
            results = connection.sql(case.duckdb.format(gap=rows.gap)).to_arrow_table().num_rows
            return time.perf_counter() - begin, results, None

    return run


def _polars(case: Case) -> Run:
    def run(rows: Rows) -> Took:
        frame = pl.from_arrow(rows.table)
        begin = time.perf_counter()
        results = case.polars(frame, rows).height
        return time.perf_counter() - begin, results, None

    return run


# All of it.


@dataclass
class Series:
    """The repeated runs of one contender, or why there are none."""

    windows: str
    keys: int
    rows: int
    contender: str
    absent: str = ""
    results: int | None = None
    seconds: list[float] = field(default_factory=list)
    steady: list[float] = field(default_factory=list)
    """Rows a second of all batches but the first, by round."""

    def over(self, other: Series) -> list[float]:
        """Return its speed divided by another's, by round."""
        return [theirs / own for own, theirs in zip(self.seconds, other.seconds, strict=True)]


def contenders(spark: SparkSession, flink: Flink, case: Case, count: bool) -> dict[str, Run | str]:
    """Name to what runs it, or to why nothing does."""
    no_flink = "" if flink.version else "not available"
    own = "has no such windows" if case.spark is None else _stream(spark, _own(case.spark))
    runs: dict[str, Run | str] = {
        LOOM: _stream(spark, _loom(case), _read_changes),
        OWN: own,
        FLOOR: _stream(spark, _identity),
        FLINK: no_flink or _flink(flink, case, count),
        FLINK_READS: no_flink or _flink(flink, None, count),
        ALONE: _alone(case),
        DUCKDB: _duckdb(case),
        POLARS: "not available" if pl is None else _polars(case),
    }
    if case.steps != 1:
        del runs[FLINK_READS]
    return runs


def check(case: Case, results: dict[str, int | None]) -> None:
    """Raise ClickException unless those that must give out the same number of results did."""
    alike = [(DUCKDB, ALONE), (POLARS, ALONE), (FLINK, ALONE)]
    alike += [(OWN, LOOM)] * bool(case.steps)
    for one, other in alike:
        if results.get(one) is not None and results[one] != results[other]:
            raise click.ClickException(f"{case.name}: results differ: {results}")


def turn(runs: dict[str, Run | str], case: Case, rows: Rows, label: str) -> list[Series]:
    """Every contender once; raises ClickException if their results differ."""
    took: list[Series] = []
    for name, run in runs.items():
        each = Series(case.name, rows.keys, rows.rows, name)
        took.append(each)
        if isinstance(run, str):
            each.absent = run
            continue
        seconds, each.results, steady = run(rows)
        each.seconds.append(seconds)
        each.steady += [] if steady is None else [steady]
        text = f"{seconds:.2f} s" + (f", {each.results:,} results" if each.results else "")
        text += "" if steady is None else f", {steady / 1e6:.2f} M rows/s under way"
        click.echo(f"{label}: {case.name}, {rows.keys:,} keys, {name}: {text}", err=True)
    check(case, {each.contender: each.results for each in took})
    return took


def measure(
    spark: SparkSession, flink: Flink, cases: list[Case], data: list[Rows], rounds: int, full: bool
) -> list[Series]:
    """All of it in turn, `rounds` times, after a turn on few rows that warms up and counts what Flink gives out."""
    few = Rows.of(FEW_KEYS, FEW_ROWS)
    for case in cases:
        turn(contenders(spark, flink, case, count=True), case, few, "warming up")
    series: dict[tuple[str, int, str], Series] = {}
    for number in range(1, rounds + 1):
        for case, rows in itertools.product(cases, data):
            if case.steps > rows.minutes or (case.steps * rows.keys > MOST_OPEN and not full):
                continue
            runs = contenders(spark, flink, case, count=False)
            for each in turn(runs, case, rows, f"round {number} of {rounds}"):
                known = series.setdefault((each.windows, each.keys, each.contender), each)
                if known is not each:
                    known.seconds += each.seconds
                    known.steady += each.steady
    return list(series.values())


def _times(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.3g} ({min(ratios):.3g}..{max(ratios):.3g})"


def _cells(series: list[Series]) -> Iterator[tuple[str, ...]]:
    found = {(each.windows, each.keys, each.contender): each for each in series}
    for each in series:
        head = (each.windows, f"{each.keys:,}", each.contender)
        if each.absent:
            yield (*head, each.absent, "", "", "", "", "")
            continue
        alone = each.contender in (ALONE, DUCKDB, POLARS)
        ours = found[each.windows, each.keys, ALONE if alone else LOOM]
        tumbling = found.get((CASES["tumble"].name, each.keys, each.contender))
        yield (
            *head,
            _times([each.rows / seconds / 1e6 for seconds in each.seconds]),
            "" if ours is each else _times(ours.over(each)),
            *_under_way(ours, each),
            _times(each.over(tumbling)) if tumbling and tumbling is not each else "",
            "" if each.results is None else f"{each.results:,}",
        )


def _under_way(ours: Series, each: Series) -> tuple[str, str]:
    """Rows a second under way, and how many times as fast aggloom was."""
    if not each.steady:
        return "", ""
    over = [own / theirs for own, theirs in zip(ours.steady, each.steady, strict=True)]
    return _times([rate / 1e6 for rate in each.steady]), "" if ours is each else _times(over)


@click.command()
@click.option("--rows", default=8_000_000, show_default=True, help="Rows of each run.")
@click.option("--minutes", default=240, show_default=True, help="Most minutes of event time.")
@click.option("--keys", multiple=True, type=int, default=(1_000, 100_000), show_default=True)
@click.option("--rounds", default=3, show_default=True, help="After one on few rows to warm up.")
@click.option(
    "--full", is_flag=True, help="5 rounds, and windows of which very many are open at once."
)
@click.option("--case", "--only", "chosen", multiple=True, type=click.Choice(list(CASES)))
@click.option("--flink-python", envvar="AGGLOOM_FLINK_PYTHON", help="A Python with apache-flink.")
@click.option("--name", default="windows", show_default=True, help="Name of the result files.")
def main(
    rows: int,
    minutes: int,
    keys: tuple[int, ...],
    rounds: int,
    full: bool,
    chosen: tuple[str, ...],
    flink_python: str | None,
    name: str,
) -> None:
    """Measure every kind of window at every number of keys, and write benchmarks/results."""
    rounds = 5 if full else rounds
    spark = al.session("aggloom-windows")
    spark.sparkContext.setLogLevel("ERROR")
    DATA.mkdir(parents=True, exist_ok=True)
    flink = Flink(flink_python)
    data = [Rows.of(count, rows, minutes) for count in keys]
    cases = [CASES[tag] for tag in chosen or CASES]
    measured = measure(spark, flink, cases, data, rounds, full)
    flink.close()
    spark.stop()
    spans = "; ".join(
        f"{each.keys:,} keys: {each.minutes} minutes of event time, sessions' gap {each.gap} s"
        for each in data
    )
    header = (
        "windows",
        "keys",
        "contender",
        "M rows/s",
        "aggloom's over it",
        "under way",
        "aggloom's over it",
        "of tumbling",
    )
    notes = (
        f"SUM, MAX, COUNT by BIGINT key, append-only; {rows:,} rows in the order of event time; "
        f"{spans}; windows longer than that, or of which over {MOST_OPEN:,} are open at once (unless --full), are left "
        f"out. {LOOM}, {OWN} and {FLOOR}: parquet, which {LOOM} reads whole (al.read_changes, watermark=) and "
        "the others by Spark's own source, "
        f"{FILES // FILES_A_BATCH} micro-batches of {FILES_A_BATCH} files, RocksDB, checkpoints on, watermark {DELAY}, "
        "append mode, noop sink; windows that the watermark has not passed stay open. "
        f"{FLINK} {flink.version or '(not here)'}: the same rows from two CSV files, parallelism 2, heap state, no "
        "checkpoints, object reuse, blackhole sink; all windows fire, and what CSV costs stands beside it. "
        f"{ALONE}: the Arrow batches of a stream without Spark, state in memory, all windows fire; "
        f"{DUCKDB} and {POLARS} ({pl.__version__ if pl else 'not here'}) answer once, over all rows. "
        f"Medians (least..greatest) of {rounds} rounds in turn, after one on few rows. "
        "aggloom's over it: the speed of aggloom, or of its operator alone, over the contender's in the same round; "
        "under way: M rows/s of all batches but the first, the last one without rows among them; "
        f"of tumbling: the contender's own speed over that at tumbling windows in the same round ({FLOOR} shows "
        "how much of it is noise). "
        "A tumbling window is a hopping one of size/slide 1. Results of tumbling and hopping windows were the same "
        f"number in {LOOM} and {OWN}, those of all windows in {ALONE}, {DUCKDB}, {POLARS}, and {FLINK} on few rows."
    )
    raw = [each.__dict__ for each in measured]
    publish_rows(name, (*header, "results"), list(_cells(measured)), raw, notes)


if __name__ == "__main__":
    main()
