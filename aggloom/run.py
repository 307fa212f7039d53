"""`aggloom run`: tables of changes in files, a query over them, and a sink."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib import import_module
from os import environ
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from aggloom.active_session import end_java
from aggloom.engine_choice import choose_engine
from aggloom.errors import AggloomError, UnknownTypeError
from aggloom.interrupts import Interrupts
from aggloom.job_frames import changes_of, settings_of
from aggloom.job_note import note_job
from aggloom.job_plan import plan_of_job
from aggloom.private_directory import cache_directory
from aggloom.progress_lines import KernelWatch, ProgressLines, batch_under_way, modules_of
from aggloom.run_checks import check_run
from aggloom.runtime.connectors.files.discovery import check_one_batch, files_at
from aggloom.runtime.connectors.registry import destination
from aggloom.runtime.hosting.checkpoint_paths import refuse_local_checkpoint
from aggloom.runtime.sinks.stop import STOP
from aggloom.table_inference import is_here
from aggloom.terminal_table import in_order, show_table
from aggloom.writable import check_cache, check_checkpoint_directory, check_output_directory

if TYPE_CHECKING:
    from aggloom.job import Job
    from aggloom.runtime.operators.counts import Counts

_NEEDED = ("aggloom.runtime.spark.api.query", "aggloom.runtime.spark.write.sinks")
"""Modules that are imported while Spark starts."""
_HADOOP = {"HADOOP_CONF_DIR", "SPARK_CONF_DIR"}
"""Variables of settings by which a path without a scheme may be another file system's."""
_PAUSE_SECONDS = 0.1
_FEW_BYTES = 8 << 20
_NO_CHECKPOINT = (
    "no --checkpoint: this run starts from the beginning, and keeps nothing when it ends"
)
_LATE = (
    "rows dropped: an earlier run with this checkpoint closed windows and interval joins at the end of its input. "
    "Where files are added between runs, begin with an empty checkpoint and --keep-open "
    "(`keep_open: true` in a job file)"
)
_REST = "--json gives all, and with --checkpoint al.read_table"


def run(*jobs: Job) -> None:
    """Run the queries of all jobs at the same time, each from its tables into its sink."""
    with ExitStack() as places:
        placed = []
        for job in jobs:
            for table in job.tables:
                order = table.options.get("order", "time")
                check_one_batch(order, table.options, f"table {table.name}")
                if not _HADOOP.intersection(environ):
                    table.check_place()
            place = job.checkpoint
            for line in filter(None, (table.describe_inferred() for table in job.tables)):
                click.echo(line, err=True)
            if place is None:
                click.echo(_NO_CHECKPOINT, err=True)
                temporary = TemporaryDirectory(prefix="aggloom-run-", ignore_cleanup_errors=True)
                place = Path(places.enter_context(temporary)) / "checkpoint"
            _check_places(job, place)
            placed.append((job, place))
        if choose_engine(jobs) == "local":
            from aggloom.run_local import run_jobs

            run_jobs(placed, places.close, _tell)
        else:
            for _, place in placed:
                refuse_local_checkpoint(place)
            _run(placed, places.close)


def _check_places(job: Job, checkpoint: Path) -> None:
    """Raise DirectoryError, before Spark starts, where what a run keeps or makes cannot be written."""
    check_cache(cache_directory())
    if "://" not in str(checkpoint):
        check_checkpoint_directory(checkpoint)
    kind, path, _ = destination(job.sink)
    if kind in ("jsonl", "parquet") and "://" not in path:
        check_output_directory(Path(path))


def _run(jobs: list[tuple[Job, Path]], clear: Callable[[], None]) -> None:
    """Run the jobs. clear: deletes what is kept for this run alone."""
    STOP.reset()
    with Interrupts(lambda: _leave(clear)) as interrupts, ProgressLines() as lines:
        from aggloom.runtime.spark.sessions.command_session import session_to_run

        for job, _ in jobs:
            # What is wrong with the query is said without Spark, unless only Spark knows.
            with suppress(UnknownTypeError):
                check_run(job, plan_of_job(job))
        lines.begin("starting Spark")
        needed = settings_of(job for job, _ in jobs)
        few = all(_has_few_rows(job) for job, _ in jobs)
        with session_to_run("aggloom run", few, **needed) as session:
            for module in _NEEDED:
                import_module(module)
            spark = session()
        interrupts.take()

        from aggloom.runtime.connectors.files.table_file import TABLE_FILE, read_table
        from aggloom.runtime.spark.failures import while_java_lives
        from aggloom.runtime.spark.last_batch import has_ended
        from aggloom.runtime.spark.plan.expressions import use_analyser

        ended = [has_ended(checkpoint) for _, checkpoint in jobs]
        runs: list[_Run] = []
        lines.begin(
            "starting the query; its first batch compiles what is new",
            lambda: next(filter(None, (each.describe_work() for each in runs)), ""),
        )
        with while_java_lives(spark):
            try:
                for job, checkpoint in jobs:
                    interrupts.check()
                    runs.append(_Run(spark, job, checkpoint, lines))
                _watch(runs, interrupts)
                if not interrupts.pressed.is_set():
                    _watch([each for each in runs if each.closes()], interrupts)
            finally:
                for each in runs:
                    each.query.stop()
    for (job, checkpoint), each, late in zip(jobs, runs, ended, strict=True):
        counts, table = each.printer.counts, None
        if job.sink == "table" and (checkpoint / TABLE_FILE).exists():
            with use_analyser(spark):
                table = in_order(read_table(checkpoint), plan_of_job(job).key)
            if not job.json:
                show_table(table, _REST)
        name = checkpoint.name if len(jobs) > 1 else ""
        _tell(counts, job, table, name, late, rate=each.printer.rate, closed=each.closed)
    if interrupts.pressed.is_set() and not any(job.continuous for job, _ in jobs):
        raise KeyboardInterrupt


def _leave(clear: Callable[[], None]) -> None:
    """Tell Spark's Java to end, without waiting for it, and delete what is kept for this run alone."""
    end_java()
    clear()


def _has_few_rows(job: Job) -> bool:
    """Tell whether a job ends after files of a few megabytes, all of them on this machine."""
    # How much a topic or a lake has is known only by asking it, which takes longer than what the answer would save.
    if job.continuous or any(table.kafka or table.lake for table in job.tables):
        return False
    if not all(is_here(table.path) for table in job.tables):
        return False
    files = [file for table in job.tables for file in files_at(table.path)]
    return sum(file.stat().st_size for file in files) <= _FEW_BYTES


class _Run:
    """A job under way: its changelog, the query that writes it, and what prints and counts the batches."""

    def __init__(self, spark: Any, job: Job, checkpoint: Path, lines: ProgressLines) -> None:
        from aggloom.runtime.spark.plan.expressions import use_analyser
        from aggloom.runtime.spark.watch.progress import ProgressPrinter

        self._spark, self._job, self._checkpoint = spark, job, checkpoint
        self._changes = changes_of(spark, job)
        with use_analyser(spark):
            plan = plan_of_job(job)
        self._waits, self._goes_by_the_clock = plan.awaits_watermark, plan.goes_by_the_clock
        self.closed = 0
        self._kernels = KernelWatch(lambda: modules_of(plan, job.backend))
        latency = plan.options.mini_batch_allow_latency or 1000
        trigger = {"processingTime": f"{latency} milliseconds"} if job.continuous else None
        self.query = self._start_sink(trigger)
        note_job(checkpoint, job)
        self.printer = ProgressPrinter(self.query, alone=True, show=lines.show)

    def describe_work(self) -> str:
        """Describe the kernel that is being compiled, or the batch under way; empty if neither is known."""
        return self._kernels.describe() or batch_under_way(self._checkpoint)

    def closes(self) -> bool:
        """Run the last batch, which closes what waits for the watermark; False where it is not to be, or has been."""
        from aggloom.runtime.spark.last_batch import plan_last_batch
        from aggloom.runtime.spark.watch.followers import wait_for_follower

        if not (self._waits and self._job.ends):
            return False
        wait_for_follower(self.query)
        open_windows = self.printer.counts.windows
        if not plan_last_batch(self._spark, self.query):
            return False
        self.closed = open_windows
        # New files are left to the next run.
        self.query = self._start_sink({"once": True})
        self.printer.follow(self.query)
        return True

    def _start_sink(self, trigger: dict[str, Any] | None) -> Any:
        """The query that writes the changes into the job's sink."""
        from aggloom.runtime.spark.sessions.session import allow_batches_without_rows
        from aggloom.runtime.spark.watch.followers import silence
        from aggloom.runtime.spark.write.sinks import write_changes

        place, key = self._checkpoint, list(self._job.key) or None
        sink = self._job.sink
        if self._goes_by_the_clock and trigger and "processingTime" in trigger:
            allow_batches_without_rows(self._spark)
        query = write_changes(self._changes, sink, place, trigger=trigger, key_columns=key)
        silence(query)
        return query


def _watch(runs: list[_Run], interrupts: Interrupts) -> None:
    """Wait until the queries of all runs end, one fails, or Ctrl-C stops them; tell what has counted what fails."""
    from aggloom.runtime.spark.failures import await_end

    try:
        with ExitStack() as printing:
            for each in runs:
                printing.enter_context(each.printer)
            running = [each.query for each in runs]
            while running and not interrupts.pressed.wait(_PAUSE_SECONDS):
                # Raises what the query failed with, so that a failure of one stops the wait for all.
                for query in [each for each in running if not each.isActive]:
                    await_end(query)
                    running.remove(query)
            if running:
                # Asked first: a sink that waits for a database, or a topic, would let stop() wait as long.
                STOP.ask()
            for query in running:
                query.stop()
    except AggloomError:
        for each in runs:
            if each.printer.counts.batches:
                click.echo(f"before it failed, {each.printer.counts}", err=True)
        raise


def _tell(
    counts: Counts,
    job: Job,
    table: pa.Table | None,
    name: str,
    ended: bool = False,
    *,
    rate: int | None = None,
    closed: int = 0,
) -> None:
    """Print the counts of a run: lines on standard error, or, if asked for, JSON on standard output.

    ended: whether an earlier run has closed what waits for the watermark. rate: rows a second without the first batch.
    closed: windows that the end of the input has closed.
    """
    begin = f"{name}: " if name else ""
    files = [table for table in job.tables if table.kafka is None and table.lake is None]
    if files:
        hint = counts.describe_orphans(any(table.is_by_time for table in files))
        if hint:
            click.echo(f"{begin}{hint}", err=True)
    # Rows are late here because the earlier run of this job closed their windows at its end, not because their source
    # is slow, so the remedy is another one than for other late rows.
    if ended and counts.late:
        click.echo(f"{begin}{counts.late:,} late {_LATE}", err=True)
    windows = counts.describe_open(job.keep_open) or counts.describe_closed(closed)
    if windows and not job.continuous:
        click.echo(f"{begin}{windows}", err=True)
    if (empty := counts.describe_empty(job.checkpoint is not None)) and not job.continuous:
        click.echo(f"{begin}{empty}", err=True)
    if not job.json:
        # The first batch compiles the code, so that a rate with it would tell of the compiler.
        after = "" if rate is None else f", {rate:,} rows/s after the first batch"
        click.echo(f"{begin}{counts}{after}", err=True)
        return
    rows = {} if table is None else {"table": table.to_pylist()}
    about = {"query": name} if name else {}
    report = {**about, **rows, "counts": counts.to_dict(), "closed": closed}
    click.echo(json.dumps(report, ensure_ascii=False, default=str))
