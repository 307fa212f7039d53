"""`aggloom run --engine local`: the jobs of `aggloom run` on the local engine, in this process and without Java."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from aggloom.errors import AggloomError
from aggloom.interrupts import Interrupts
from aggloom.job_note import note_job
from aggloom.job_plan import plan_of_job, source_options
from aggloom.lake_tables import lake_source, open_lake
from aggloom.progress_lines import KernelWatch, ProgressLines, modules_of
from aggloom.run_checks import check_run
from aggloom.runtime.connectors.files.table_file import TABLE_FILE, read_table
from aggloom.runtime.connectors.kafka.broker import describe_wait
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.kafka.transactions.marks import TransactionMarks
from aggloom.runtime.connectors.source_options import from_entries
from aggloom.runtime.engine.checkpoint import read_id
from aggloom.runtime.engine.file_source import FileInput
from aggloom.runtime.engine.journal import BatchReport
from aggloom.runtime.engine.lake_source import LakeInput
from aggloom.runtime.engine.made_source import MadeRows
from aggloom.runtime.engine.query import BUCKETS, LocalQuery, QuerySettings
from aggloom.runtime.engine.replayed_input import ReplayedInput
from aggloom.runtime.engine.resume import resume_plan
from aggloom.runtime.engine.rows_source import RowsInput
from aggloom.runtime.engine.scan_columns import scan_columns, time_columns
from aggloom.runtime.engine.side_input import SideInput
from aggloom.runtime.engine.sinks import FunctionBatches
from aggloom.runtime.engine.sources import Source
from aggloom.runtime.engine.topic_group import TopicGroup, group_topics
from aggloom.runtime.engine.topic_source import TopicInput
from aggloom.runtime.formats.side_table import side_table
from aggloom.runtime.platform.memory_reuse import keep_memory
from aggloom.runtime.sinks.stop import STOP
from aggloom.terminal_table import in_order, show_table

if TYPE_CHECKING:
    from aggloom.codegen.planner import Plan
    from aggloom.job import Job

_PAUSE_SECONDS = 0.5
_REST = "--json gives all, and with --checkpoint al.read_table"


def run_jobs(placed: list[tuple[Job, Path]], clear: Callable[[], None], report: Any) -> None:
    """Run jobs, each with its checkpoint, until their inputs end; all at once, each in a thread of its own.

    clear: deletes what is kept for this run alone. report: prints the counts of a job.
    """
    STOP.reset()
    # This process is the run's alone; where a program opens a query, its memory is the program's matter.
    keep_memory()
    with Interrupts(clear) as interrupts, ExitStack() as closing, ProgressLines() as lines:
        runs: list[_Run] = []
        watches = [KernelWatch(partial(_modules_of_job, job)) for job, _ in placed]
        # Looked up when a line is due: a plan takes a while, and a query whose kernels are compiled starts before.
        lines.begin(
            "starting the query; its first batch compiles what is new",
            lambda: describe_wait()
            or next(filter(None, (each.describe() for each in watches)), ""),
        )
        for job, checkpoint in placed:
            interrupts.check()
            query = open_query(job, checkpoint)
            closing.callback(query.close)
            # This command tells of dropped rows itself.
            query.journal.dropped.is_quiet = True
            query.journal.listener = BatchLines(lines.show).show_batch
            runs.append(_Run(query))
        # Asked before the run: it says whether rows arrived after the end of an earlier one, which makes them late.
        ended = [each.query.has_ended for each in runs]
        _watch(runs, interrupts)
        for (job, checkpoint), each, late in zip(placed, runs, ended, strict=True):
            table = None
            if job.sink == "table" and (checkpoint / TABLE_FILE).exists():
                table = in_order(read_table(checkpoint), each.query.plan.key)
                if not job.json:
                    show_table(table, _REST)
            name = checkpoint.name if len(placed) > 1 else ""
            report(each.query.counts, job, table, name, late, closed=each.query.closed)
    if interrupts.pressed.is_set() and not any(job.continuous for job, _ in placed):
        raise KeyboardInterrupt


def _modules_of_job(job: Job) -> list[Path]:
    """The generated modules of a job's plan, once a line about them is due."""
    return modules_of(plan_of_job(job), job.backend)


def open_query(
    job: Job,
    checkpoint: Path,
    rows: Mapping[str, Any] | None = None,
    function: Callable[[pa.Table, int], None] | None = None,
    buckets: int = BUCKETS,
    threads: int = 0,
    ranges: Mapping[str, Sequence[Any]] | None = None,
    forgets: bool = False,
) -> LocalQuery:
    """Open the query of a job over a checkpoint; raises AggloomError and its kin for what cannot run here.

    rows: of tables that are no files. function: the sink, if it is one. buckets: into how many parts state is cut.
    threads: that run them; 0: one for each core. ranges: of each batch by table, where they are known before.
    forgets: whether it is opened to forget a subject.
    """
    chosen = plan_of_job(job)
    if forgets:
        # A batch that forgets changes nothing else, and may be one that was begun before.
        chosen = replace(chosen, options=replace(chosen.options, added_columns="ignore"))
    plan, added = resume_plan(checkpoint, chosen, job.backend, buckets)
    check_run(job, plan)
    rows_by_table = rows or {}
    groups = _group_topics(job, plan)

    def open_source(plan: Plan, root: Path, name: str, position: Any) -> Source:
        if name in rows_by_table:
            return RowsInput(plan.scans[name], rows_by_table[name], position)
        if ranges is not None:
            source = _open_source(_without_sides(job), plan, root, name, position, groups)
            return ReplayedInput(source, ranges.get(name, ()))
        return _open_source(job, plan, root, name, position, groups)

    settings = QuerySettings(
        sink=job.sink if function is None else FunctionBatches(function),
        watermarks={t.name: t.watermark for t in job.tables if t.watermark is not None},
        key_columns=list(job.key) or None,
        backend=job.backend,
        buckets=buckets,
        threads=threads,
        keep_open=not job.ends,
        forgets=forgets,
        text=job.sql,
        poll_seconds=(plan.options.mini_batch_allow_latency or 100) / 1000,
    )
    if added is not None and added.is_begun:
        # A sink may have a batch that was killed before its commit: it is finished as it was begun.
        # The sink compares a batch that comes again by its digest: with the new columns in it, it would be another one.
        former = LocalQuery(added.former, partial(open_source, added.former), checkpoint, settings)
        try:
            former.finish_planned()
        finally:
            former.close()
    query = LocalQuery(plan, partial(open_source, plan), checkpoint, settings, added)
    note_job(checkpoint, job if function is None else replace(job, sink="console"), rows_by_table)
    return query


def _without_sides(job: Job) -> Job:
    """The job without the tables into which rows go that cannot be read: they have them already."""
    options_without_sides = [
        {n: v for n, v in t.options.items() if n != "side"} for t in job.tables
    ]
    pairs = zip(job.tables, options_without_sides, strict=True)
    tables = [
        (
            table
            if options == table.options
            else replace(table, options={**options, "unreadable": "drop"})
        )
        for table, options in pairs
    ]
    return replace(job, tables=tuple(tables))


def _group_topics(job: Job, plan: Plan) -> dict[str, TopicGroup]:
    """The groups of a job's tables whose topics are read together; raises SpecError."""
    tables = {t.name: t for t in job.tables if t.kafka is not None and t.name in plan.scans}
    sources = {name: from_entries(KafkaSource, each.kafka or {}) for name, each in tables.items()}
    marks = {
        name: TransactionMarks(each.format, each.options.get("registry"), f"table {name}")
        for name, each in tables.items()
        if sources[name].transaction_topic is not None
    }
    return group_topics(sources, marks)


def _open_source(
    job: Job,
    plan: Plan,
    root: Path,
    name: str,
    position: Any,
    groups: Mapping[str, TopicGroup],
) -> Source:
    """Open the source of a table of a job; groups: of tables of topics that are planned together."""
    table = next(each for each in job.tables if each.name == name)
    scan, about = plan.scans[name], {"ends": not job.continuous, "position": position}
    if table.lake is not None:
        most = lake_source(table.lake).max_versions_per_trigger
        return LakeInput(open_lake(table.lake, table.schema), scan, most=most, **about)
    if table.datagen is not None:
        return MadeRows(table.datagen, scan, position)
    options = source_options(table)
    policy, directory = options.get("unreadable", "error"), options.pop("side", None)
    side = side_table(directory, (name, table.path, table.kafka), policy)
    if side is not None:
        options["unreadable"] = "drop"
    opened: Source
    if table.kafka is not None:
        source = from_entries(KafkaSource, table.kafka)
        opened = TopicInput(source, table.format, scan, options, group=groups.get(name), **about)
    else:
        more = [] if table.watermark is None else time_columns(table.watermark[0], scan.schema)
        columns = scan_columns(plan, name, more)
        opened = FileInput(root, table.path, table.format, scan, options, columns=columns, **about)
    return opened if side is None else SideInput(opened, side, str(read_id(root)))


class BatchLines:
    """Shows the batches of a run as lines, at most two a second. show: takes a line."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._last: float | None = None

    def show_batch(self, report: BatchReport) -> None:
        """Show a batch that has read rows."""
        now = time.monotonic()
        first = self._last is None
        if not any(report.rows.values()):
            return
        if self._last is not None and now - self._last < _PAUSE_SECONDS:
            return
        self._last = now
        self._show(describe_batch(report, first))


def describe_batch(report: BatchReport, first: bool) -> str:
    """One batch in one line: rows, rate, duration, lag of the input, size of the state; first: of a run."""
    rows, seconds = sum(report.rows.values()), sum(report.seconds.values())
    # The first batch of a run compiles what is new; its rate would tell of that.
    rate = "with the start" if first else f"{int(rows / max(seconds, 1e-6)):,} rows/s"
    waiting = "".join(f", {n:,} {unit} waiting" for unit, n in report.backlog.items() if n)
    return (
        f"batch {report.batch}: {rows:,} rows in {seconds:.3g} s ({rate}), {report.counts.rows:,} rows so far"
        f"{waiting}, state {report.counts.state_bytes / 2**20:.1f} MB"
    )


class _Run:
    """A query in a thread of its own."""

    def __init__(self, query: LocalQuery) -> None:
        self.query = query
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="aggloom-query", daemon=True)

    def _run(self) -> None:
        try:
            self.query.run()
        except BaseException as failure:
            self.failure = failure


def _watch(runs: list[_Run], interrupts: Interrupts) -> None:
    """Wait until all queries end, one fails, or Ctrl-C stops them after their batches."""
    for each in runs:
        each.thread.start()
    running = list(runs)
    while running and not interrupts.pressed.wait(0.02):
        running = [each for each in runs if each.thread.is_alive()]
        # One that fails ends all: they are parts of one script, and who runs it again runs all of them.
        if any(each.failure for each in runs):
            break
    # Sinks wait for locks and brokers that are away: they look at this while they do.
    STOP.ask() if running else None
    for each in runs:
        each.query.stop()
        each.thread.join()
    failed = next((each for each in runs if each.failure is not None), None)
    if failed is not None and failed.failure is not None:
        counts = failed.query.counts
        if isinstance(failed.failure, AggloomError) and counts.batches:
            click.echo(f"before it failed, {counts}", err=True)
        raise failed.failure
