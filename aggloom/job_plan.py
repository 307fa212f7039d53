"""The plan of a job, and its query without Spark: fed from files in this process, in one bundle."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from aggloom.codegen import explain, to_schema
from aggloom.codegen.planner import Plan, PlanOptions, plan_query
from aggloom.codegen.spec.durations import milliseconds
from aggloom.errors import SpecError
from aggloom.made_tables import feed_made_rows
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.kafka.reader_choice import describe_reader
from aggloom.runtime.connectors.source_options import from_entries
from aggloom.runtime.formats.csv_dialect import READ_OPTIONS
from aggloom.runtime.formats.registry import MESSAGES
from aggloom.runtime.formats.whole_json import OPTION as MULTILINE
from aggloom.table_entries import SPARK_OPTIONS
from aggloom.table_metadata import check_metadata
from aggloom.tables import TableSource

if TYPE_CHECKING:
    from aggloom.job import Job
    from aggloom.runtime.local.harness import Harness

_OF_FILES = {
    *READ_OPTIONS,
    *("pathglobfilter", "recursivefilelookup"),
}
"""Options of Spark's readers, in lower case, that mean the same without Spark."""
_OF_STREAMS = {
    *("max_files_per_trigger", "maxfilespertrigger", "maxbytespertrigger", "maxfileage"),
    *("latestfirst", "filenameonly", "cleansource", "sourcearchivedir", "whole_files"),
}
"""Options that say how a stream is cut into batches, or what goes without saying here."""


def declared_tables(job: Job) -> dict[str, Any]:
    """Return a job's settings of its tables besides their columns, as keywords of the planner."""
    return {
        "input_changes": {table.name: table.sends or job.changes for table in job.tables},
        "keys": {table.name: table.keys for table in job.tables if table.keys},
        "watermarks": {t.name: t.watermark for t in job.tables if t.watermark is not None},
        "dialect": job.dialect,
    }


def declared_columns(job: Job) -> dict[str, pa.Schema]:
    """The columns of a job's tables as they are read: `schema=` says how values are stored, and cuts nothing off."""
    return {table.name: to_schema(table.columns(), job.dialect) for table in job.tables}


def plan_of_job(job: Job, *, ordered: bool = False) -> Plan:
    """The plan that `aggloom run` runs. ordered: it is shown in the order of its ORDER BY, which the plan keeps."""
    options, about = PlanOptions.of(job.options), declared_tables(job)
    return plan_query(job.sql, declared_columns(job), options=options, ordered=ordered, **about)


def explain_job(job: Job, *, ordered: bool = False, on_spark: bool = True) -> str:
    """Explain the plan of a job's query, as text. ordered: as of plan_of_job. on_spark: say who reads topics there."""
    options: dict[str, Any] = {"backend": job.backend, "ordered": ordered, **declared_tables(job)}
    text = explain(job.sql, tables=declared_columns(job), options=job.options, **options)
    lines = [
        f"  {describe_reader(from_entries(KafkaSource, table.kafka), table.name)}"
        for table in job.tables
        if on_spark and table.kafka is not None
    ]
    return "\n".join([text.rstrip("\n"), "", "topics on Spark", *lines, ""]) if lines else text


def harness_of(job: Job, *, ordered: bool = False, session: Any = None) -> Harness:
    """The query of a job without Spark, not yet fed; watermarks move only on request.

    ordered: as of plan_of_job. session: a Spark session for the expressions that only Spark evaluates. Rows that the
    query drops are reported by the command that asks for it, not by warnings.
    """
    from aggloom.runtime.local.harness import Harness
    from aggloom.runtime.local.pipeline import ask_session, handlers

    with ask_session(session):
        plan = plan_of_job(job, ordered=ordered)
    check_metadata({each.name: each.metadata for each in job.tables}, plan)
    harness = Harness.of_plan(plan, handlers(job.backend), None, session=session)
    harness.silence()
    return harness


def feed_job(job: Job, *, ordered: bool = False, session: Any = None) -> Harness:
    """The query of a job over all that its files hold, as one bundle; then the input is at its end.

    ordered, session: as of harness_of. Raises SpecError for a table that is not in files.
    """
    harness = harness_of(job, ordered=ordered, session=session)
    if harness.plan.reads_clock or harness.plan.goes_by_the_clock:
        harness.processing_time(time.time_ns() // 1_000_000)
    for table in job.tables:
        if table.name in harness.plan.scans:
            feed_table(harness, table)
    end_input(harness, job)
    return harness


def end_input(harness: Harness, job: Job) -> None:
    """End the input of a job's query.

    Rolling horizons show the state of a moment, which at the end of input is the last watermark. As in a run, that is
    the one behind the rows of the tables.
    """
    if harness.plan.shows_last_watermark:
        harness.flush()
        for table in job.tables:
            if (last := _last_watermark(harness, table)) is not None:
                harness.watermark(last, table.name)
    harness.end_of_input()


def _last_watermark(harness: Harness, table: TableSource) -> int | None:
    """The watermark behind all rows of a table so far, in milliseconds; None where it has none, or no rows."""
    from aggloom.runtime.operators.windows.assign import watermark_behind

    if table.watermark is None:
        return None
    column, delay = table.watermark
    late = milliseconds(f"watermark of {table.name}", delay)
    fed = (content for kind, content in harness.history if kind == "rows")
    batches = [rows for name, rows, _ in fed if name == table.name and len(rows)]
    return max((watermark_behind(each, column, late) for each in batches), default=None)


def feed_table(harness: Harness, table: TableSource) -> int:
    """Read the files of a table into a harness; how many changes there are."""
    if table.datagen is not None:
        return feed_made_rows(harness, table.name, table.datagen)
    if table.kafka is not None or table.lake is not None:
        what = "a topic of Kafka" if table.lake is None else f"one of {table.lake['connector']}"
        raise SpecError(f"table {table.name} is {what}, which only `aggloom run` reads")
    options = {n: v for n, v in source_options(table).items() if n.lower() not in _OF_STREAMS}
    return harness.read(table.path, table.format, table.name, options)


_CAPS = {"max_files_per_trigger", "maxfilespertrigger", "maxbytespertrigger"}


def source_options(table: TableSource) -> dict[str, Any]:
    """The options by which the files of a table are read without Spark; raises SpecError for those of Spark's own."""
    options = dict(table.options)
    if table.format in MESSAGES:
        options |= table.checks
    if table.metadata:
        options["metadata"] = table.metadata
    if table.format == "parquet" and table.schema is None:
        # The columns of all files together: none has to have all of them.
        options.setdefault("missing", "null")
    sparks = {name.lower() for name in SPARK_OPTIONS} - _OF_FILES - _OF_STREAMS
    for name in options:
        is_ours = table.format in MESSAGES and name.lower() == MULTILINE.lower()
        if name.lower() in sparks and not is_ours:
            raise SpecError(
                f"table {table.name}: {name} is an option of Spark's readers, which only `aggloom run` on Spark heeds"
            )
    return options
