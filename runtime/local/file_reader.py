"""Files of changes for a harness: the formats of streams, read in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from aggloom.codegen.planner import Scan
from aggloom.errors import InputFormatError, SpecError, TypeMismatchError, nearest
from aggloom.runtime.connectors.files.discovery import DEEP, NAMES, files_at, is_by_name, which
from aggloom.runtime.connectors.files.file_facts import (
    FILE_FACTS,
    check_file_facts,
    read_file_facts,
    split_sources,
)
from aggloom.runtime.formats.base import CHOICES
from aggloom.runtime.formats.lines import read_blocks
from aggloom.runtime.formats.partitions import add_partitions, read_partitions, split_columns
from aggloom.runtime.formats.registry import FILES, FORMATS, MESSAGES, check_in_lines
from aggloom.runtime.formats.whole_json import take_option
from aggloom.runtime.local.arrow_rows import arrow_rows
from aggloom.runtime.local.csv_rows import read_csv_rows
from aggloom.runtime.local.message_reader import MessageReader, Read
from aggloom.runtime.values.change_column import NEEDS_KEYS, OPTIONS, ChangeWords
from aggloom.runtime.values.type_fit import NANOSECONDS, cut_nanoseconds

Partitions = Mapping[Path, Mapping[str, str | None]]
_MESSAGES = 10_000
_ROWS = 1_000_000
"""The number of rows of a Parquet file that are read at once."""
_CHANGES = "\0changes"
_OF_FILES = f"files say {', '.join(FILE_FACTS)}"


def read_files(
    path: str | Path, format: str, scan: Scan, options: Mapping[str, Any]
) -> Iterator[Read]:
    """The changes of files as batches with their kinds, and messages that are refused or no rows; raises SpecError."""
    reader = FileReader(path, format, scan, options)
    yield from reader.read(reader.list_files())


class FileReader:
    """Reads the files of a table, those that are there or some of them.

    options: those of the format, and which files of a directory are meant, in which order. columns: those that are read
    of files that lie by column; all by default. Raises SpecError.
    """

    def __init__(
        self,
        path: str | Path,
        format: str,
        scan: Scan,
        options: Mapping[str, Any],
        columns: Sequence[str] | None = None,
    ) -> None:
        check_in_lines(format, "a harness")
        if format not in FORMATS:
            raise SpecError(f"no format {format!r}. {nearest(format, FORMATS)}")
        self._path, self._format, self._scan = path, format, scan
        fields = [each for each in scan.schema if columns is None or each.name in columns]
        self._read = pa.schema(fields)
        self._which, where = which(options), f"table {scan.table}"
        self.by_name = is_by_name(options.get("order", "time"), where)
        ours = (NAMES.lower(), DEEP.lower(), "order")
        left = {n: v for n, v in options.items() if n.lower() not in ours}
        self._words = ChangeWords.of(left, where)
        if self._words.lacks_before and scan.changes != "upsert":
            raise SpecError(f"{where}: {NEEDS_KEYS}")
        self._cuts, self._fills = False, False
        self._facts, beside = split_sources(left.pop("metadata", None) or {})
        check_file_facts(self._facts, scan.schema, where)
        # Files of rows have no metadata beside them, such as the offset of a message.
        if beside and format in FILES:
            name, source = next(iter(beside.items()))
            raise SpecError(
                f"{where}: column {name!r} is METADATA {source!r}, which {format} has not; {_OF_FILES}"
            )
        if beside:
            left["metadata"] = beside
        if format in FILES:
            self._words.check_declared(scan.schema.names, where)
            left = {name: value for name, value in left.items() if name not in OPTIONS}
            if format == "parquet":
                self._fills = _fills_missing(left, where)
                self._cuts = _cuts_nanoseconds(left, where)
        self._options = left

    def list_files(self) -> list[Path]:
        """The files that are there, in order; raises SpecError if there are none."""
        return files_at(self._path, **self._which, checked=True, by_name=self.by_name)

    def read(self, files: Sequence[Path]) -> Iterator[Read]:
        """Yield the rows of some of the files; raises InputFormatError and its kin."""
        parts = read_partitions(self._path, files, self._which["deep"])
        # Facts about a file, such as its name, are constants of its rows, as directories are.
        if self._facts:
            parts = {
                file: {**own, **read_file_facts(file, self._facts)} for file, own in parts.items()
            }
        if self._format not in FILES:
            yield from _messages(self._path, parts, self._format, self._scan, dict(self._options))
            return
        for file in files:
            if self._format == "csv":
                yield _csv(file, self._scan, self._options, parts[file], self._words)
            else:
                yield from _parquet(
                    file,
                    self._scan.schema,
                    self._read,
                    parts[file],
                    self._words,
                    cuts=self._cuts,
                    fills=self._fills,
                )


def _fills_missing(options: dict[str, Any], where: str) -> bool:
    """Take the option of columns that a file lacks out of the options; raises SpecError."""
    missing = options.pop("missing", "error")
    if missing not in CHOICES["missing"]:
        raise SpecError(
            f"{where}: missing is {missing!r}; known are {', '.join(CHOICES['missing'])}"
        )
    return bool(missing == "null")


def _cuts_nanoseconds(options: dict[str, Any], where: str) -> bool:
    """Take the option of Parquet's times out of the options, of which no other may be left; raises SpecError."""
    cut = options.pop("nanoseconds", "error")
    if cut not in NANOSECONDS:
        raise SpecError(f"{where}: nanoseconds is {cut!r}; known are {', '.join(NANOSECONDS)}")
    if options:
        raise SpecError(f"parquet has no option {next(iter(options))!r} in a harness")
    return bool(cut == "cut")


def _messages(
    path: str | Path, parts: Partitions, format: str, scan: Scan, options: dict[str, Any]
) -> Iterator[Read]:
    # Options that are read here are taken out, so that the decoder refuses only what nobody knows.
    separator_text = options.pop("key_separator", None)
    whole, options = take_option(options, separator_text, f"table {scan.table}")
    separator = MESSAGES[format].separator if separator_text is None else separator_text
    if not isinstance(separator, str | None):
        raise SpecError(f"{format}: key_separator is {separator!r}; it is a text, such as '|'")
    reader = MessageReader(format, scan, options, str(path), list(next(iter(parts.values()))))
    # Files of directories that are columns are read one by one, for each has its own values.
    for files in [[file] for file in parts] if reader.directory_columns else [list(parts)]:
        # The decoder works on blocks (decision 057), which are small enough to stay in memory.
        for messages in read_blocks(files, separator, whole, _MESSAGES):
            yield reader.read(messages, parts[files[0]], files[0])


def _parquet(
    file: Path,
    schema: pa.Schema,
    read_schema: pa.Schema,
    parts: Mapping[str, str | None],
    words: ChangeWords,
    *,
    cuts: bool,
    fills: bool,
) -> Iterator[Read]:
    """Yield the rows of a file, of which some columns are read.

    All that are declared must be there, or with `fills` one of them: the others are NULL.
    """
    where, own = str(file), schema.names
    more = (*words.names(own), *words.list_markers(own))
    column_names = {name.lower() for name in (*read_schema.names, *more)}
    try:
        # Checksums are off by default in Arrow, and a damaged page may decode to other values.
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        # Names and types first: what is not asked for is not read.
        empty = add_partitions(parquet.schema_arrow.empty_table(), parts, schema, file)
        lacking = _find_lacking(empty, schema) if fills else []
        empty = _add_nulls(empty, lacking)
        arrow_rows(empty, None, schema, where, words)
        names = [name for name in parquet.schema_arrow.names if name.lower() in column_names]
        for groups in _cut_row_groups(parquet.metadata):
            read = parquet.read_row_groups(groups, names)
            if cuts:
                columns = [cut_nanoseconds(column) for column in read.columns]
                read = pa.Table.from_arrays(columns, names=read.column_names)
            table = _add_nulls(add_partitions(read, parts, read_schema, file), lacking)
            yield *arrow_rows(table, None, read_schema, where, words), [], 0
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputFormatError(f"{file} cannot be read as Parquet: {error}") from None
    # A column of another type is a fault of the file here, where nobody passed a table.
    except TypeMismatchError as error:
        raise InputFormatError(str(error)) from None


def _find_lacking(table: pa.Table, schema: pa.Schema) -> list[pa.Field]:
    """The declared columns that a table does not have in any case; none where it has none of them."""
    names = {name.lower() for name in table.column_names}
    lacking = [field for field in schema if field.name.lower() not in names]
    # A file with none of the columns is another file, not one of NULLs.
    return lacking if len(lacking) < len(schema) else []


def _add_nulls(table: pa.Table, columns: Sequence[pa.Field]) -> pa.Table:
    """The table with more columns, NULL in every row."""
    for field in columns:
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table


def _cut_row_groups(metadata: pq.FileMetaData) -> Iterator[list[int]]:
    """Yield the row groups of a file, as many at once as have about so many rows as are read at once."""
    groups: list[int] = []
    rows = 0
    for number in range(metadata.num_row_groups):
        more = metadata.row_group(number).num_rows
        # A group cannot be read in parts; one that is larger than the room is read alone.
        if groups and rows + more > _ROWS:
            yield groups
            groups, rows = [], 0
        groups.append(number)
        rows += more
    # Also with no group at all: an empty file has columns, and those are checked.
    yield groups


def _csv(
    file: Path,
    scan: Scan,
    options: Mapping[str, Any],
    parts: Mapping[str, str | None],
    words: ChangeWords,
) -> Read:
    # Columns that directories give are not in the file.
    schema, _ = split_columns(list(parts), scan.schema, str(file))
    csv_rows = read_csv_rows(file, schema, options, words)
    # The words are a column too, so that rows are counted where directories have all columns.
    table = pa.table([*csv_rows.columns, csv_rows.words], names=[*schema.names, _CHANGES])
    rows = add_partitions(table, parts, scan.schema, file)
    return *arrow_rows(rows, csv_rows.words, scan.schema, str(file)), [], 0
