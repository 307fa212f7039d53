"""`aggloom run`: tables of changes in files, a query over them, and a sink."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from aggloom.codegen.planner import Plan, PlanOptions, plan_query
from aggloom.errors import AggloomError, UntoldTypeError
from aggloom.interrupts import Interrupts

if TYPE_CHECKING:
    from aggloom.job import Job
    from aggloom.runtime.operators.counts import Counts

_SPARK = "aggloom.runtime.spark"
_PAUSE_SECONDS = 0.1


def run(job: Job) -> None:
    """Stream the tables of a job through its query into its sink."""
    if job.checkpoint is not None:
        _run(job, job.checkpoint)
        return
    with TemporaryDirectory(prefix="aggloom-run-", ignore_cleanup_errors=True) as place:
        _run(job, Path(place) / "checkpoint")


def _run(job: Job, checkpoint: Path) -> None:
    schemas = {table.name: table.columns() for table in job.tables}
    # What is wrong with the query is said before Spark starts, unless only Spark knows.
    with suppress(UntoldTypeError):
        _plan(job, schemas)
    with Interrupts() as interrupts:
        from aggloom.runtime.spark.command_session import session_to_run

        _say("starting Spark")
        spark = session_to_run("aggloom run", f"{_SPARK}.query", f"{_SPARK}.sinks")
        interrupts.take()

        from aggloom.runtime.spark.checkpoint import TABLE_FILE
        from aggloom.runtime.spark.expressions import asking
        from aggloom.runtime.spark.query import sql
        from aggloom.runtime.spark.sinks import read_table, write_changes
        from aggloom.runtime.spark.sources import read_changes

        out = sql(
            job.sql,
            tables={
                table.name: read_changes(
                    spark, table.path, table.format, schemas[table.name], **table.reading
                )
                for table in job.tables
            },
            input_changes=_changes(job),
            keys=_keys(job),
            dialect=job.dialect,
            backend=job.backend,
            watermarks={t.name: t.watermark for t in job.tables if t.watermark is not None},
            options=job.options,
        )
        with asking(spark):
            plan = _plan(job, schemas)
        latency = plan.options.mini_batch_allow_latency or 1000
        trigger = {"processingTime": f"{latency} milliseconds"} if job.continuous else None
        _say("starting the query; its first batch compiles what is new")
        query = write_changes(out, job.sink, checkpoint, trigger=trigger)
        counts = _watched(query, interrupts)
    table = None
    if job.sink == "table" and (checkpoint / TABLE_FILE).exists():
        table = read_table(checkpoint)
        if not job.json:
            show_table(table)
    _tell(counts, job, table)
    if interrupts.asked.is_set() and not job.continuous:
        raise KeyboardInterrupt


def _say(what: str) -> None:
    """Tell who watches what is waited for."""
    if sys.stderr.isatty():
        click.echo(what, err=True)


def _changes(job: Job) -> dict[str, str]:
    return {table.name: table.sends or job.changes for table in job.tables}


def _keys(job: Job) -> dict[str, tuple[str, ...]]:
    return {table.name: table.keys for table in job.tables if table.keys}


def _plan(job: Job, schemas: Mapping[str, pa.Schema]) -> Plan:
    return plan_query(
        job.sql,
        schemas,
        input_changes=_changes(job),
        dialect=job.dialect,
        keys=_keys(job),
        watermarks={t.name: t.watermark for t in job.tables if t.watermark is not None},
        options=PlanOptions.of(job.options),
    )


def _watched(query: Any, interrupts: Interrupts) -> Counts:
    """Wait until a query ends, or is stopped by Ctrl-C; what it has counted, which is told of one that fails, too."""
    from aggloom.runtime.spark.failures import await_end
    from aggloom.runtime.spark.progress import ProgressPrinter

    progress = ProgressPrinter(query)
    try:
        with progress:
            while query.isActive and not interrupts.asked.wait(_PAUSE_SECONDS):
                pass
            if interrupts.asked.is_set():
                query.stop()
            else:
                await_end(query)
    except AggloomError:
        if progress.counts.batches:
            click.echo(f"before it failed, {progress.counts}", err=True)
        raise
    return progress.counts


def _tell(counts: Counts, job: Job, table: pa.Table | None) -> None:
    """What the run has counted: a line on standard error, or, if asked for, JSON on standard output."""
    if not job.json:
        click.echo(str(counts), err=True)
        return
    rows = {} if table is None else {"table": table.to_pylist()}
    click.echo(json.dumps({**rows, "counts": counts.to_dict()}, ensure_ascii=False, default=str))


def show_table(table: pa.Table) -> None:
    """Print rows as a table."""
    from rich.console import Console
    from rich.table import Table

    shown = Table()
    for name in table.column_names:
        shown.add_column(name)
    for row in table.to_pylist():
        shown.add_row(*("NULL" if value is None else str(value) for value in row.values()))
    Console().print(shown)
