"""`aggloom run`: tables of changes in files, a query over them, and a sink."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from aggloom.codegen import milliseconds
from aggloom.codegen.planner import PlanOptions, plan_query
from aggloom.errors import SpecError

if TYPE_CHECKING:
    from aggloom.job import Job

FORMATS = ("debezium-json", "jsonl", "parquet", "csv")
_FORM = "t=PATH[,format=FORMAT][,schema=DDL][,watermark=COLUMN DELAY][,option=value ...]"
_CHANGE_COLUMNS = ("_change_type", "op")
_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".json": "jsonl", ".jsonl": "jsonl"}


@dataclass(frozen=True)
class TableSource:
    """A table of the query and the files that its changes are in.

    watermark: its event-time column, and how far rows may be out of order.
    """

    name: str
    path: str
    format: str
    schema: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    watermark: tuple[str, str] | None = None


def read_table_option(text: str) -> TableSource:
    """Read the text of --table: a comma ends a value only where `word=` follows; quotes around one are dropped."""
    first, *rest = re.split(r",(?=\w+=)", text)
    name, _, path = first.partition("=")
    settings = {key: _unquoted(value) for key, value in (part.split("=", 1) for part in rest)}
    if not name or not path or not all(settings.values()):
        raise SpecError(f"--table {text!r}: it must read {_FORM}.")
    return table_source(name, {"path": path, **settings}, f"--table {name}")


def table_source(name: str, settings: Any, where: str) -> TableSource:
    """The table of a mapping with path, format, schema and the reader's options; `where` opens messages."""
    given = dict(settings) if isinstance(settings, Mapping) else {}
    path = given.pop("path", None)
    if not isinstance(path, str):
        raise SpecError(f"{where}: give it a path and a format.")
    chosen = given.pop("format", None) or _guessed(path, where)
    if chosen not in FORMATS:
        raise SpecError(f"{where}: no format {chosen!r}. Formats are {', '.join(FORMATS)}.")
    schema = given.pop("schema", None)
    watermark = _watermark(given.pop("watermark", None), where)
    return TableSource(str(name), path, chosen, schema, given, watermark)


def _watermark(text: Any, where: str) -> tuple[str, str] | None:
    """The column and the delay of a text such as "ts 10 minutes"."""
    if text is None:
        return None
    column, _, delay = str(text).partition(" ")
    if not delay:
        raise SpecError(
            f"{where}: watermark {text!r} must read 'COLUMN DELAY', as in 'ts 10 minutes'."
        )
    milliseconds(f"{where}, watermark", delay)
    return column, delay


def _unquoted(value: str) -> str:
    """A value without the quotes that a shell left around it."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def _guessed(path: str, where: str) -> str:
    """Tell the format from the suffix of the path, or of the files in it."""
    place = Path(path)
    names = sorted(place.iterdir()) if place.is_dir() else [place]
    found = {_SUFFIXES[name.suffix] for name in names if name.suffix in _SUFFIXES}
    if len(found) != 1:
        raise SpecError(f"{where}: add the format, one of {', '.join(FORMATS)}.")
    return found.pop()


def run(job: Job) -> None:
    """Stream the tables of a job through its query into its sink."""
    from aggloom.runtime.spark.failures import await_end
    from aggloom.runtime.spark.progress import ProgressPrinter
    from aggloom.runtime.spark.query import sql
    from aggloom.runtime.spark.session import session
    from aggloom.runtime.spark.sinks import read_table, write_changes
    from aggloom.runtime.spark.sources import read_changes

    schemas = {table.name: _schema(table) for table in job.tables}
    # What is wrong with the query is said before Spark starts.
    plan = plan_query(
        job.sql,
        schemas,
        input_changes=job.changes,
        dialect=job.dialect,
        options=PlanOptions.of(job.options),
    )
    # What fails is said once, below, and not by each thread of Spark that it passes through.
    spark = session("aggloom run", **{"spark.log.level": "OFF"})
    out = sql(
        job.sql,
        tables={
            table.name: read_changes(
                spark, table.path, table.format, schemas[table.name], **table.options
            )
            for table in job.tables
        },
        input_changes=job.changes,
        dialect=job.dialect,
        backend=job.backend,
        watermarks={t.name: t.watermark for t in job.tables if t.watermark is not None},
        options=job.options,
    )
    latency = plan.options.mini_batch_allow_latency or 1000
    trigger = {"processingTime": f"{latency} milliseconds"} if job.continuous else None
    query = write_changes(out, job.sink, job.checkpoint, trigger=trigger)
    with ProgressPrinter(query):
        try:
            await_end(query)
        except KeyboardInterrupt:
            query.stop()
    if job.sink == "table":
        show_table(read_table(job.checkpoint))


def _schema(table: TableSource) -> str | pa.Schema:
    """The columns of a table: as given, or as a Parquet file has them."""
    if table.schema is not None:
        return table.schema
    place = Path(table.path)
    files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
    if table.format != "parquet" or not files:
        raise SpecError(
            f"--table {table.name}: {table.format} does not say its types; add schema=DDL,"
            ' as in schema="name STRING, cnt INT".'
        )
    found = pq.read_schema(files[0])
    return pa.schema([column for column in found if column.name not in _CHANGE_COLUMNS])


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
