"""`aggloom run`: a table of changes in files, a query over it, and a sink."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import sqlglot
from sqlglot import exp

from aggloom.codegen import AggSpec, generate, load
from aggloom.errors import SpecError

FORMATS = ("debezium-json", "jsonl", "parquet", "csv")
_FORM = "t=PATH[,format=FORMAT][,schema=DDL][,option=value ...]"
_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".json": "jsonl", ".jsonl": "jsonl"}


@dataclass(frozen=True)
class TableSource:
    """A table of the query and the files that its changes are in."""

    name: str
    path: str
    format: str
    schema: str | None = None
    options: dict[str, str] = field(default_factory=dict)


def read_table_option(text: str) -> TableSource:
    """Read the text of --table: a comma ends a value only where `word=` follows."""
    first, *rest = re.split(r",(?=\w+=)", text)
    name, _, path = first.partition("=")
    settings = dict(part.split("=", 1) for part in rest)
    if not name or not path or not all(settings.values()):
        raise SpecError(f"--table {text!r}: it must read {_FORM}.")
    chosen = settings.pop("format", None) or _guessed(path)
    if chosen not in FORMATS:
        raise SpecError(f"--table {name}: no format {chosen!r}. Formats are {', '.join(FORMATS)}.")
    return TableSource(name, path, chosen, settings.pop("schema", None), settings)


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
        asked = sqlglot.parse_one(sql, dialect="spark").find(exp.Table)
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
    from aggloom.runtime.spark import group_aggregate, read_changes, session, write_changes

    spark = session("aggloom run")
    rows = read_changes(
        spark, table.path, format=table.format, schema=table.schema, **table.options
    )
    spec = AggSpec.from_sql(sql, rows, input_changes=changes, dialect=dialect)
    out = group_aggregate(rows, load(generate(spec, backend=backend)), mode=mode)
    query = write_changes(out, sink, checkpoint=str(checkpoint), continuous=continuous)
    query.awaitTermination()
