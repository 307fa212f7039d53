"""Inference of a table from its local files: their format, and the columns with their types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from aggloom.codegen import quote_name, type_name
from aggloom.connect_types import connect_columns
from aggloom.errors import DataError, InputFormatError, SpecError
from aggloom.later_rows import check_csv, check_json
from aggloom.runtime.connectors.files.discovery import files_at
from aggloom.runtime.formats.csv_dialect import CsvDialect
from aggloom.runtime.formats.inferred_values import (
    DAY,
    NUMBER,
    TIME,
    WHOLE,
    ZONE,
    is_exact,
    is_kept,
)
from aggloom.runtime.formats.json_text import describe_layout
from aggloom.runtime.formats.lines import read_lines
from aggloom.runtime.formats.partitions import infer_partition_columns, read_partitions
from aggloom.runtime.local.csv_rows import read_csv_texts
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.changelog import CHANGE_COLUMNS, SPELLINGS
from aggloom.runtime.values.type_fit import plain_type

_ROWS = 10_000
"""The number of rows that are read to infer types."""
_SPLIT = '; for several objects on a line say concatenated="split", and declare schema=DDL'
_DAY, _WHOLE, _NUMBER = map(re.compile, (DAY, WHOLE, NUMBER))
_MOMENT = re.compile(f"{TIME}(?P<zone>{ZONE})?")
_LONG = 1 << 63
_DIGITS = 38
_USUAL = ChangeWords()
Row = Mapping[str, Any]


@dataclass(frozen=True)
class InferredColumns:
    """The columns that files have, and of how many rows, in which files, that was found.

    by_values: whether values suggest the types, and no schema beside them says them.
    """

    schema: pa.Schema
    rows: int
    files: str
    by_values: bool = True

    def describe_columns(self, table: str, format: str) -> str:
        """Describe the columns that were inferred, with the `schema=` that makes them independent of the files."""
        ddl = ", ".join(f"{_quote_name(f.name)} {type_name(f.type)}" for f in self.schema)
        rows = f"{self.rows:,} row{'s' * (self.rows != 1)}"
        return f"{table}: columns inferred from {rows} of {self.files} ({format}); to declare them: schema={ddl}"


def _quote_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else quote_name(name)


def sniff_format(path: str) -> str | None:
    """The format of JSON files by their first line; None where that does not tell."""
    try:
        first = _first_object(files_at(path))
    except (SpecError, InputFormatError, OSError):
        return None
    if first is None:
        return None
    body = first["payload"] if isinstance(first.get("payload"), dict) else first
    # By more than one sign: a flat row may well have a column `op`, or one called `before`.
    if body.get("op") in ("c", "r", "u", "d", "t", "m") and {"before", "after"} & body.keys():
        return "debezium-json"
    if first.get("op_type") in ("I", "U", "D", "T") and {"before", "after"} & first.keys():
        return "ogg-json"
    if {"database", "table", "type", "data"} <= first.keys():
        return "canal-json" if isinstance(first["data"], list) else "maxwell-json"
    return "jsonl"


def _first_object(files: list[Path]) -> dict[str, Any] | None:
    """The first object of files, of which each is a line, or which are JSON as a whole."""
    try:
        return next(iter(_objects(files, None)), None)
    except InputFormatError:
        return next(iter(_objects(files[:1], None, whole=True)), None)


def infer_columns(
    path: str,
    format: str,
    names: str = "*",
    deep: bool = False,
    dialect: tuple[tuple[str, str], ...] = (),
    words: ChangeWords = _USUAL,
    whole: bool = False,
) -> InferredColumns | None:
    """The columns of files in a format that tells them: CSV, JSON lines, Debezium's and Maxwell's messages; else None.

    names, deep: which files of a directory are read. dialect: options of CSV files. words:
    what says the change of a row, which is no column. whole: whether files are JSON as a whole.
    Raises SpecError where no file is there, or where a column's values are of no one type; InputFormatError, also for
    later rows with values that the types of the first ones would change.
    """
    if format not in INFERRED:
        return None
    # A program may write the files again, or change its directory.
    stats = [(file.absolute(), file.stat()) for file in files_at(path, names, deep)]
    stamps = tuple((str(file), stat.st_size, stat.st_mtime_ns) for file, stat in stats)
    of_files = {"names": names, "deep": deep, "whole": whole}
    return _infer_columns(path, format, stamps=stamps, dialect=dialect, words=words, **of_files)


@lru_cache(maxsize=64)
def _infer_columns(
    path: str,
    format: str,
    *,
    stamps: tuple[tuple[str, int, int], ...],
    names: str,
    deep: bool,
    dialect: tuple[tuple[str, str], ...],
    words: ChangeWords,
    whole: bool,
) -> InferredColumns:
    """The columns of files; stamps: their paths, bytes and times, by which a result is known again."""
    first_files = files_at(path, names, deep)
    first, *others = first_files
    files = f"{first} and {len(others)} more" if others else str(first)
    if format == "debezium-json":
        known = next(
            (s for m in _objects(first_files, _ROWS, whole) if (s := m.get("schema"))), None
        )
        if known is not None:
            columns_of = add_partition_columns(
                connect_columns(known, files), path, first_files, deep
            )
            return InferredColumns(columns_of, 1, files, by_values=False)
    rows = list(islice(_rows(first_files, format, dict(dialect), path, whole), _ROWS))
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    # Values of CSV are all texts; in JSON a text that looks like a number is a text.
    of = _text_type if format == "csv" else _type
    fields = [
        pa.field(name, of(values, f"column {name!r} of {files}"))
        for name, values in columns.items()
        if not _is_change(name, values, format, words)
    ]
    if not fields:
        raise SpecError(f"{files}: no row shows the columns; give schema=DDL.")
    if len(rows) == _ROWS and format == "csv":
        # There are more rows than were looked at: they are read once, lest a type that fits the first ones round a
        # later value.
        check_csv(first_files, pa.schema(fields), _ROWS, dict(dialect))
    elif len(rows) == _ROWS:
        images = partial(_images, format=format)
        check_json(read_lines(first_files, None, whole), pa.schema(fields), _ROWS, images)
    schema = add_partition_columns(pa.schema(fields), path, first_files, deep)
    return InferredColumns(schema, len(rows), files)


def add_partition_columns(schema: pa.Schema, path: str, files: list[Path], deep: bool) -> pa.Schema:
    """Return the columns of files with those of their directories: last, or in place of namesakes."""
    for field in infer_partition_columns(read_partitions(path, files, deep)):
        names = [name.lower() for name in schema.names]
        if field.name.lower() in names:
            schema = schema.set(names.index(field.name.lower()), field)
        else:
            schema = schema.append(field)
    return schema


INFERRED = ("csv", "jsonl", "debezium-json", "maxwell-json")
"""Formats whose columns can be inferred."""


_CHANGE_WORDS = frozenset((*SPELLINGS, *"IUDCRiudcr"))


def _is_change(name: str, values: Iterable[Any], format: str, words: ChangeWords) -> bool:
    """Return true if a column says what kind of change a row is; its reader refuses words that no rule knows."""
    if format not in ("csv", "jsonl") or not words.says_change(name):
        return False
    if words.column is not None or name.lower() != CHANGE_COLUMNS["flink"]:
        return True
    # Others may call a column of theirs `op`, but hardly fill it with the letters of changes.
    present = [value for value in values if value not in (None, "")]
    return all(isinstance(value, str) and value in _CHANGE_WORDS for value in present)


def _rows(
    files: Iterable[Path], format: str, dialect: Mapping[str, str], path: str, whole: bool
) -> Iterator[Row]:
    if format == "csv":
        if not CsvDialect.of(dialect).header:
            raise SpecError(
                f"{path}: a CSV file without a header does not name its columns; give schema=DDL."
            )
        return _csv(files, dialect)
    return chain.from_iterable(_images(message, format) for message in _objects(files, None, whole))


def _images(message: dict[str, Any], format: str) -> list[Row]:
    """The rows in a message: itself, or those that an envelope has."""
    images: list[Any] = [message]
    if format == "maxwell-json":
        images = [message.get("data")]
    elif format == "debezium-json":
        body = message["payload"] if isinstance(message.get("payload"), dict) else message
        images = [body.get("before"), body.get("after")]
    return [row for row in images if isinstance(row, dict)]


def _csv(files: Iterable[Path], dialect: Mapping[str, str]) -> Iterator[Row]:
    for file in files:
        yield from read_csv_texts(file, dialect).slice(0, _ROWS).to_pylist()


def _objects(
    files: Iterable[Path], limit: int | None, whole: bool = False
) -> Iterator[dict[str, Any]]:
    """The JSON objects of lines, or of whole files."""
    for message in islice(read_lines(files, None, whole), limit):
        try:
            # UnicodeDecodeError is a ValueError, so it is caught first: its remedy is another one.
            content = json.loads(message.value or b"null")
        except UnicodeDecodeError as error:
            raise InputFormatError(
                f"{message.place} is not UTF-8 ({error.reason}, byte {error.start + 1:,}); JSON is. Convert the file, "
                "as with `iconv -f ISO-8859-1 -t UTF-8`."
            ) from None
        # RecursionError: brackets nested more deeply than Python's parser follows, in a file that is damaged or
        # hostile.
        except (ValueError, RecursionError) as error:
            layout = describe_layout(
                message.value.decode(errors="replace") if message.value else ""
            )
            # This is how Python's parser names a second value on the line, as when one object follows another.
            more = _SPLIT if str(error).startswith("Extra data") else ""
            raise InputFormatError(f"{message.place} is no JSON: {error}{layout}{more}") from None
        if isinstance(content, dict):
            yield content
        elif isinstance(content, list):
            raise InputFormatError(f"{message.place} is no JSON object{describe_layout('[')}")


def _type(values: Iterable[Any], where: str) -> pa.DataType:
    """The one type that JSON values have."""
    there = [value for value in values if value is not None]
    kinds = {type(value) for value in there}
    # bool and int are asked for by their exact types: to Python True is an int.
    if kinds <= {str}:
        return _text_kind(there)
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return _whole_type(there)
    if kinds <= {int, float}:
        # Whole numbers beyond 2**53 are not all DOUBLEs.
        if any(type(value) is int and not is_exact(value) for value in there):
            raise SpecError(
                f"{where} holds fractions and whole numbers that DOUBLE would round; give schema=DDL."
            )
        return pa.float64()
    if kinds == {list}:
        return pa.list_(_type(chain.from_iterable(there), f"an element of {where}"))
    if kinds == {dict}:
        names = dict.fromkeys(name for value in there for name in value)
        if not names:
            return pa.string()  # Objects without a field are kept as they are written.
        return pa.struct(
            [(n, _type([v.get(n) for v in there], f"field {n!r} of {where}")) for n in names]
        )
    words = sorted(_WORDS.get(kind, kind.__name__) for kind in kinds)
    raise SpecError(f"{where} holds {' and '.join(words)}; give schema=DDL.")


_WORDS = {
    str: "texts",
    bool: "booleans",
    int: "numbers",
    float: "numbers",
    list: "arrays",
    dict: "objects",
}


def _text_kind(values: list[str]) -> pa.DataType:
    """Days and times where all texts are such, else texts."""
    if values and all(map(_DAY.fullmatch, values)):
        return pa.date32()
    moments = [_MOMENT.fullmatch(value) for value in values]
    zones = {bool(each["zone"]) for each in moments if each}
    if not values or not all(moments) or len(zones) > 1:
        return pa.string()
    return pa.timestamp("us", "UTC") if zones.pop() else pa.timestamp("us")


def _text_type(values: Iterable[Any], where: str) -> pa.DataType:
    """The one type that values have as a CSV file says them; numbers that begin with a 0 are texts."""
    there = [str(value) for value in values if value not in (None, "")]
    if there and all(value.lower() in ("true", "false") for value in there):
        return pa.bool_()
    if there and all(map(_NUMBER.fullmatch, there)):
        return _number_type(there)
    return _text_kind(there)


def _number_type(texts: list[str]) -> pa.DataType:
    """The type that keeps each number as it is written: BIGINT, DOUBLE, DECIMAL, or texts where none does."""
    if all(map(_WHOLE.fullmatch, texts)):
        # No decimal holds them; as DOUBLE they would be other numbers.
        if max(len(text.lstrip("-")) for text in texts) > _DIGITS:
            return pa.string()
        return _whole_type([int(text) for text in texts])
    if all(map(is_kept, texts)):
        return pa.float64()
    numbers = [Decimal(text) for text in texts]
    # The most digits before the point and the most after it may be of different numbers: both have to fit at once.
    scale = max(max(0, -int(number.as_tuple().exponent)) for number in numbers)
    digits = max(max(0, number.adjusted() + 1) for number in numbers)
    return pa.decimal128(38, scale) if digits + scale <= _DIGITS else pa.string()


def _whole_type(values: list[int]) -> pa.DataType:
    return pa.int64() if all(-_LONG <= v < _LONG for v in values) else pa.decimal128(38, 0)


def is_here(path: str) -> bool:
    """Tell whether a path is one of this machine's and has files."""
    if re.match(r"[a-zA-Z][\w+.-]+:", path):
        return False
    try:
        return bool(files_at(Path(path)))
    except (SpecError, DataError):
        return False


def parquet_schema(file: Path) -> pa.Schema:
    """The columns of a Parquet file, in types of tables."""
    try:
        file_schema = pq.read_schema(file)
        return pa.schema([field.with_type(plain_type(field.type)) for field in file_schema])
    except (pa.ArrowException, OSError) as error:
        raise InputFormatError(f"{file} cannot be read as Parquet: {error}") from None
