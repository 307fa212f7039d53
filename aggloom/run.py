"""`aggloom run`: a table of changes in files, a query over it, and a sink."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from sqlglot import exp

from aggloom.codegen import AggSpec, generate, load
from aggloom.codegen.sql_dialect import AggloomSpark
from aggloom.errors import SpecError

FORMATS = ("debezium-json", "jsonl", "parquet", "csv")
_FORM = "t=PATH[,format=FORMAT][,schema=DDL][,option=value ...]"
_CHANGE_COLUMNS = ("_change_type", "op")
_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".json": "jsonl", ".jsonl": "jsonl"}


@dataclass(frozen=True)
class TableSource:
    """A table of the query and the files that its changes are in."""

    name: str
    path: str
    format: str
    schema: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


def read_table_option(text: str) -> TableSource:
    """Read the text of --table: a comma ends a value only where `word=` follows; quotes around one are dropped."""
    first, *rest = re.split(r",(?=\w+=)", text)
    name, _, path = first.partition("=")
    settings = {key: _unquoted(value) for key, value in (part.split("=", 1) for part in rest)}
    if not name or not path or not all(settings.values()):
        raise SpecError(f"--table {text!r}: it must read {_FORM}.")
    chosen = settings.pop("format", None) or _guessed(path)
    if chosen not in FORMATS:
        raise SpecError(f"--table {name}: no format {chosen!r}. Formats are {', '.join(FORMATS)}.")
    return TableSource(name, path, chosen, settings.pop("schema", None), settings)


def _unquoted(value: str) -> str:
    """A value without the quotes that a shell left around it."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def _guessed(path: str) -> str:
    """Tell the format from the suffix of the path, or of the files in it."""
    place = Path(path)
    names = sorted(place.iterdir()) if place.is_dir() else [place]
    found = {_SUFFIXES[name.suffix] for name in names if name.suffix in _SUFFIXES}
    if len(found) != 1:
        raise SpecError(f"--table {path}: add format=, one of {', '.join(FORMATS)}.")
    return found.pop()


def check_table(sql: str, table: TableSource) -> None:
    """Refuse a query over another table than the one that was given."""
    try:
        asked = sqlglot.parse_one(sql, dialect=AggloomSpark).find(exp.Table)
    except sqlglot.errors.ParseError:
        return
    if asked is not None and asked.name != table.name:
        raise SpecError(
            f"run: the query reads {asked.name!r}, and --table gives {table.name!r}.\n"
            f"Write --table {asked.name}={table.path}."
        )


def run(
    sql: str,
    table: TableSource,
    sink: str,
    checkpoint: Path,
    *,
    changes: Literal["append", "retract"],
    dialect: Literal["spark", "flink"],
    backend: Literal["numba", "python"],
    mode: Literal["mini_batch", "per_record"],
    continuous: bool,
) -> None:
    """Stream the table through the query into the sink."""
    check_table(sql, table)
    schema = _schema(table)
    spec = AggSpec.from_sql(sql, schema, input_changes=changes, dialect=dialect)
    from aggloom.runtime.spark.failures import await_end
    from aggloom.runtime.spark.group_aggregate import group_aggregate
    from aggloom.runtime.spark.progress import ProgressPrinter
    from aggloom.runtime.spark.session import session
    from aggloom.runtime.spark.sinks import read_table, write_changes
    from aggloom.runtime.spark.sources import read_changes

    # What fails is said once, below, and not by each thread of Spark that it passes through.
    spark = session("aggloom run", **{"spark.log.level": "OFF"})
    rows = read_changes(spark, table.path, table.format, schema, **table.options)
    out = group_aggregate(rows, load(generate(spec, backend=backend)), mode=mode)
    trigger = {"processingTime": "1 second"} if continuous else None
    query = write_changes(out, sink, checkpoint, trigger=trigger)
    with ProgressPrinter(query):
        try:
            await_end(query)
        except KeyboardInterrupt:
            query.stop()
    if sink == "table":
        show_table(read_table(checkpoint))


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
