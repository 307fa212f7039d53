"""CSV files of this machine: their rows for a harness, and their texts for what infers columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from aggloom.errors import InputFormatError
from aggloom.runtime.formats.csv_dialect import CsvDialect
from aggloom.runtime.formats.csv_files import CsvReader, CsvRows, csv_records
from aggloom.runtime.formats.packed_files import open_bytes
from aggloom.runtime.values.change_column import ChangeWords


def read_csv_rows(
    file: Path, schema: pa.Schema, options: Mapping[str, Any], words: ChangeWords
) -> CsvRows:
    """The rows of a file; raises SpecError for an option, InputFormatError and UnknownColumnError for the file."""
    return CsvReader(schema, CsvDialect.of(options), words=words)(_read_bytes(file), str(file))


def read_csv_texts(file: Path, options: Mapping[str, Any]) -> pa.Table:
    """The columns of a file with a header as texts; none of a file without a record."""
    records = csv_records(_read_bytes(file), CsvDialect.of(options), str(file))
    header, start = records.header()
    names = [name.strip() for name in header]
    # No record, so no columns: the caller says what it needs of an empty file.
    if not names:
        return pa.table({})
    # A wrong separator makes one long name of the header; with a declared one it is meant.
    if len(names) == 1 and records.other_separator() and not options.keys() & {"sep", "delimiter"}:
        raise InputFormatError(
            f"{file}: the first line is one name, {names[0][:80]!r}{records.hint()}, or sep=, to keep it."
        )
    # Rows go by name, so it could not be said which of the two is meant.
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputFormatError(
            f"{file}: the header names a column twice: {', '.join(map(repr, twice))[:200]}. Declare those that you "
            "need as schema=, without it; if the first line is no header, say header=false and declare all."
        )
    return pa.table(records.columns(start, len(names), range(len(names))), names=names)


def _read_bytes(file: Path) -> bytes:
    try:
        with open_bytes(file) as source:
            return source.read()
    except OSError as error:
        raise InputFormatError(f"{file} cannot be read as CSV: {error}") from None
