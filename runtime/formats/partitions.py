"""Columns that the names of directories give (`day=1/`), by Spark's rules, for every format and engine.

The column is that of the directory, also where a file has one of its name. Its type is the narrowest of Spark's that
all values have, unless a schema declares another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from glob import glob
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from aggloom.codegen import type_name
from aggloom.errors import InputFormatError
from aggloom.runtime.formats.plain_texts import parse_texts
from aggloom.runtime.values.markers import says_change
from aggloom.type_layout import is_variant

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
"""The value of a directory that stands for NULL."""
ABOVE = (
    "give the directory above it as the path, without recursiveFileLookup, so that it is a column"
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|NaN|[+-]?Infinity")
_DIGITS = 38
_ESCAPES = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_BEYOND_ASCII = re.compile(r"%[89a-fA-F][0-9a-fA-F]")


def partition_texts(directory: PurePath) -> dict[str, str | None]:
    """Return the columns and texts in the names of the directories of a relative path, outermost first.

    Raises InputFormatError for a name whose escapes are no text.
    """
    texts: dict[str, str | None] = {}
    for part in directory.parts:
        name, equals, text = part.partition("=")
        if equals and name:
            texts[_unescape(name)] = None if text == NULL_DIRECTORY else _unescape(text)
    return texts


def _unescape(text: str) -> str:
    """Return a text without the escapes of bytes in UTF-8; Hive and Spark escape only characters of one byte."""
    try:
        return _ESCAPES.sub(lambda match: bytes.fromhex(match[0].replace("%", "")).decode(), text)
    except UnicodeDecodeError:
        raise InputFormatError(
            f"the directory {text!r} has escapes (%XX) that are no UTF-8; rename it."
        ) from None


def check_as_spark_reads(path: PurePath) -> None:
    """Raise InputFormatError for a directory that gives a column of letters that Spark would take apart."""
    for part in path.parts:
        if "=" in part and _BEYOND_ASCII.search(part):
            raise InputFormatError(
                f"{path}: Spark takes each escape in {part!r} for a letter, and would read other texts than were "
                f"written; rename the directory to {_unescape(part)!r}."
            )


def read_partitions(
    path: str | Path, files: Sequence[Path], deep: bool = False
) -> dict[Path, dict[str, str | None]]:
    """Return the columns of the directories of each file below `path`, a directory, a pattern or a file.

    deep: directories are no columns then. Raises InputFormatError where files have other columns than the first.
    """
    if deep:
        return {file: {} for file in files}
    place = Path(path)
    # Path.glob takes no absolute patterns.
    matches = [] if place.exists() else glob(str(path), recursive=True)  # noqa: PTH207
    roots = [place] if place.exists() else list(map(Path, matches))
    bases = {root for root in roots if root.is_dir()}
    texts_by_file = {file: _texts_below(bases, file) for file in files}
    for file, texts in texts_by_file.items():
        first = texts_by_file[files[0]]
        if list(texts) != list(first):
            raise InputFormatError(
                f"{file}: its directories give the columns {_format_list(texts)}, "
                f"those of {files[0]} {_format_list(first)}. "
                "Give all files directories of the same columns in the same order, or say recursiveFileLookup=true to "
                "read them without such columns."
            )
    return texts_by_file


def _texts_below(bases: set[Path], file: Path) -> dict[str, str | None]:
    base = next((parent for parent in file.parents if parent in bases), None)
    return {} if base is None else partition_texts(file.relative_to(base).parent)


def _format_list(texts: Mapping[str, str | None]) -> str:
    return ", ".join(texts) or "none"


def infer_partition_columns(
    texts_by_file: Mapping[Path, Mapping[str, str | None]],
) -> list[pa.Field]:
    """Return the columns with the types that Spark infers of their texts."""
    names = next(iter(texts_by_file.values()), {})
    return [
        pa.field(name, _widest([_type_of(texts[name]) for texts in texts_by_file.values()]))
        for name in names
    ]


def _type_of(text: str | None) -> pa.DataType:
    """Return the type that Spark infers of one text: INT, BIGINT, DECIMAL, DOUBLE, DATE, TIMESTAMP or STRING."""
    if text is None:
        return pa.null()
    if re.fullmatch(r"[+-]?[0-9]+", text):
        number = int(text)
        if -(1 << 31) <= number < 1 << 31:
            return pa.int32()
        if -(1 << 63) <= number < 1 << 63:
            return pa.int64()
        return pa.decimal128(_DIGITS, 0) if len(str(abs(number))) <= _DIGITS else pa.float64()
    if _NUMBER.fullmatch(text):
        return pa.float64()
    for kind in (pa.date32(), pa.timestamp("us", "UTC")):
        if "T" not in text and _as_value(text, kind) is not None:
            return kind
    return pa.string()


def _as_value(text: str, kind: pa.DataType) -> pa.Array | None:
    return parse_texts(pa.array([text], pa.string()), kind, "UTC")


_NUMBERS = (pa.int32(), pa.int64())


def _widest(types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type of a column whose texts have these: texts where no type of Spark's holds all exactly."""
    kinds = list(dict.fromkeys(kind for kind in types if not pt.is_null(kind)))
    if len(kinds) == 1:
        return kinds[0]
    if not kinds:
        return pa.string()
    present = set(kinds)
    if present == set(_NUMBERS):
        return pa.int64()
    if present <= {*_NUMBERS, pa.decimal128(_DIGITS, 0)}:
        return pa.decimal128(_DIGITS, 0)
    # A DOUBLE holds every INT, but not every BIGINT.
    if present == {pa.int32(), pa.float64()}:
        return pa.float64()
    if all(pt.is_date(kind) or pt.is_timestamp(kind) for kind in kinds):
        return pa.timestamp("us", "UTC")
    return pa.string()


def split_columns(
    names: Sequence[str], schema: pa.Schema, where: str
) -> tuple[pa.Schema, dict[str, pa.Field]]:
    """Return the columns that files have, and by the names of directories those that they give.

    Names match without regard to case. Raises InputFormatError where a directory would say what kind a change is.
    """
    declared = {field.name.lower(): field for field in schema}
    for name in names:
        if name.lower() not in declared and says_change(name):
            raise InputFormatError(
                f"{where}: the directories are a column {name!r}, which says the kind of a change only inside files. "
                "Declare it as a column of the table, or rename the directories."
            )
    own = {name: declared[name.lower()] for name in names if name.lower() in declared}
    left = [field for field in schema if field not in own.values()]
    return pa.schema(left), own


def add_partitions(
    table: pa.Table, texts: Mapping[str, str | None], schema: pa.Schema, file: Path
) -> pa.Table:
    """Return a file's rows with the columns that its directories give, in the place of those of the same names."""
    _, own = split_columns(list(texts), schema, str(file))
    for name, field in own.items():
        there = [other for other in table.column_names if other.lower() == name.lower()]
        values: Any = pa.repeat(partition_value(texts[name], field, str(file)), table.num_rows)
        table = table.drop_columns(there).append_column(field, values)
    return table


def missing_advice(name: str, *paths: str) -> str:
    """Return advice about a column that a file lacks; where the name of a directory says it, NULL would be wrong."""
    for part in (part for path in paths for part in PurePath(unquote(path)).parts):
        column, equals, _ = part.partition("=")
        if equals and _unescape(column).lower() == name.lower():
            return f"The name of the directory {part} says it: {ABOVE}."
    return 'missing="null" reads missing values as NULL.'


def partition_value(text: str | None, field: pa.Field, file: str) -> pa.Scalar:
    """Return a directory's text as a value of its column's type; raises InputFormatError."""
    kind = field.type
    if text is None:
        return pa.scalar(None, kind)
    if is_variant(kind):
        raise InputFormatError(
            f"{file}: the directory {field.name}={text} is no VARIANT; declare the column as STRING."
        )
    if pt.is_string(kind):
        return pa.scalar(text, kind)
    bare = text.strip()
    value = _as_value(bare, kind)
    if value is None:
        value = _cast_value(bare, kind)
    if value is None:
        raise InputFormatError(
            f"{file}: the directory {field.name}={text} is no {type_name(kind)}; declare the column as STRING."
        )
    return value[0]


def _cast_value(text: str, kind: pa.DataType) -> pa.Array | None:
    """Cast a text that is not spelt plainly, such as +1 or 1e3; None where it is no value of the type."""
    try:
        if pt.is_decimal(kind):
            return pa.array([Decimal(text)], kind)
        if pt.is_integer(kind):
            return pa.array([int(text)], kind)
        return pc.cast(pa.array([text]), kind)
    except (pa.ArrowException, InvalidOperation, ValueError, OverflowError):
        return None
