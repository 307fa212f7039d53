"""`aggloom estimate`: files with samples of tables, and what a query over them will remember."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.json as jsonl
import pyarrow.parquet as parquet

from aggloom.codegen import tables_read, to_schema
from aggloom.errors import InputFormatError, SpecError

if TYPE_CHECKING:
    from aggloom.runtime.sizing.report import Estimate


def estimate_query(
    sql: str, tables: Mapping[str, str], samples: tuple[str, ...], **options: Any
) -> Estimate:
    """The estimate of a query; samples: files, each as NAME=FILE, or the only table's alone; tables: DDL by name."""
    from aggloom.runtime.sizing.estimate import estimate

    read: dict[str, pa.Table] = {}
    for given in samples:
        name, path = _parse_sample(given, sql)
        if name in read:
            raise SpecError(f"--sample: table {name!r} has two samples; leave one out.")
        schema = to_schema(tables[name]) if name in tables else None
        read[name] = read_sample(path, schema)
    return estimate(sql, read, tables=dict(tables), **options)


def _parse_sample(given: str, sql: str) -> tuple[str, Path]:
    name, equals, path = given.partition("=")
    if equals and not Path(given).exists():
        return name.strip(), Path(path.strip())
    names = tables_read(sql)
    if len(names) != 1:
        shown = ", ".join(names)
        raise SpecError(f"--sample {given!r}: say of which table, {shown}, as in NAME=FILE.")
    return names[0], Path(given)


def read_sample(path: Path, schema: pa.Schema | None = None) -> pa.Table:
    """The rows of a Parquet, CSV or JSON lines file, with the schema's types for the columns that it names."""
    if not path.exists():
        raise SpecError(f"--sample: there is no file {str(path)!r}.")
    try:
        match "parquet" if path.is_dir() else path.suffix.removeprefix("."):
            case "parquet":
                return parquet.read_table(path)
            case "csv":
                return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=schema))
            case "jsonl" | "json":
                options = jsonl.ParseOptions(explicit_schema=schema)
                return jsonl.read_json(path, parse_options=options)
    except pa.ArrowException as e:
        raise InputFormatError(f"--sample: {str(path)!r} cannot be read: {e}") from e
    raise SpecError(f"--sample: {str(path)!r} must end in .parquet, .csv or .jsonl.")
