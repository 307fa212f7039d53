"""`aggloom estimate`: files with samples of tables, and the estimated state of a query over them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.json as jsonl
import pyarrow.parquet as parquet

from aggloom.codegen import tables_read, to_schema
from aggloom.errors import InputFormatError, SpecError
from aggloom.runtime.formats.csv_dialect import CsvDialect
from aggloom.runtime.formats.packed_files import format_suffix
from aggloom.runtime.local.csv_rows import read_csv_rows
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.changelog import CHANGE_COLUMNS
from aggloom.table_entries import remove_quotes, split_entries
from aggloom.table_inference import infer_columns

if TYPE_CHECKING:
    from aggloom.runtime.sizing.report import Estimate


def estimate_query(
    sql: str, tables: Mapping[str, str], samples: tuple[str, ...], **options: Any
) -> Estimate:
    """Estimate a query; samples: files, each as NAME=FILE, or the only table's alone; tables: DDL by name.

    A CSV file may have options behind its name, as in NAME=FILE,sep=;.
    """
    from aggloom.runtime.sizing.estimate import estimate

    read: dict[str, pa.Table] = {}
    for sample in samples:
        first, *entries = split_entries(sample)
        name, path = _parse_sample(first, sql)
        if name in read:
            raise SpecError(f"--sample: table {name!r} has two samples; leave one out.")
        schema = to_schema(tables[name]) if name in tables else None
        read[name] = read_sample(path, schema, _options(entries, sample))
    return estimate(sql, read, tables=dict(tables), **options)


def _parse_sample(sample: str, sql: str) -> tuple[str, Path]:
    name, equals, path = sample.partition("=")
    # A file may have `=` in its name, as those of partitions have: dt=2024-01-01.
    if equals and not Path(sample).exists():
        return name.strip(), Path(path.strip())
    names = tables_read(sql)
    if len(names) != 1:
        listed = ", ".join(names)
        raise SpecError(f"--sample {sample!r}: say of which table, {listed}, as in NAME=FILE.")
    return names[0], Path(sample)


def _options(entries: list[str], sample: str) -> dict[str, Any]:
    """Return the options behind a file's name; `options.` before one means the same, as in --table."""
    options: dict[str, Any] = {}
    for entry in entries:
        name, _, value = entry.partition("=")
        name = name.removeprefix("options.")
        if name in options:
            raise SpecError(f"--sample {sample!r}: {name} is there twice; leave one out.")
        options[name] = remove_quotes(value)
    return options


def read_sample(
    path: Path, schema: pa.Schema | None = None, options: Mapping[str, Any] | None = None
) -> pa.Table:
    """Read the rows of a Parquet, CSV or JSON lines file; of CSV, and where JSON names them, in the schema's types.

    options: of CSV, whose reader is that of tables. Raises SpecError, InputFormatError, UnknownColumnError.
    """
    if not path.exists():
        raise SpecError(f"--sample: there is no file {str(path)!r}.")
    # A directory is one of Parquet, since no other format here is spread over several files.
    form = "parquet" if path.is_dir() else format_suffix(path).removeprefix(".")
    if form in ("csv", "tsv", "tab"):
        return _read_csv(path, schema, dict(options or {}))
    if options:
        raise SpecError(
            f"--sample: {next(iter(options))} is an option of CSV files, which {str(path)!r} is not."
        )
    try:
        match path.suffix.removeprefix(".") if form != "parquet" else form:
            case "parquet":
                return parquet.read_table(path)
            case "jsonl" | "json":
                parse = jsonl.ParseOptions(explicit_schema=schema)
                return jsonl.read_json(path, parse_options=parse)
    except pa.ArrowException as e:
        raise InputFormatError(f"--sample: {str(path)!r} cannot be read: {e}") from e
    raise SpecError(f"--sample: {str(path)!r} must end in .parquet, .csv or .jsonl.")


def _read_csv(path: Path, schema: pa.Schema | None, options: dict[str, Any]) -> pa.Table:
    """Read a CSV file; its change column, if it has one, comes in the words of CHANGE_TYPES."""
    CsvDialect.of(options)
    if schema is None:
        inferred = infer_columns(str(path), "csv", dialect=tuple(sorted(options.items())))
        assert inferred is not None
        schema = inferred.schema
    rows = read_csv_rows(path, schema, options, ChangeWords())
    table = pa.table(rows.columns, schema=schema)
    if rows.changes is None:
        return table
    return table.append_column(CHANGE_COLUMNS["spark"], rows.changes)
