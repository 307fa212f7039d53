"""Rows behind those that a schema was inferred from: values that would have made it another one are refused.

A reader takes what fits its type: `007` of a BIGINT is 7, and a DOUBLE rounds an id of 20 digits. That is right for a
type that somebody declared, and a wrong answer for one that the first rows suggest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from aggloom.codegen import quoted, type_name
from aggloom.errors import InputFormatError
from aggloom.runtime.formats.base import Message
from aggloom.runtime.local.csv_rows import read_csv

WHOLE = r"-?(0|[1-9][0-9]*)"
NUMBER = rf"{WHOLE}(\.[0-9]+)?([eE][+-]?[0-9]+)?"
DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME = rf"{DAY}[T ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,6}})?)?"
ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_MANY_DIGITS = r"[0-9][0-9.]{15}"
"""A part of each number that a DOUBLE may round: one of 15 digits is kept."""
Images = Callable[[dict[str, Any]], Iterable[Mapping[str, Any]]]


def check_csv(
    files: Iterable[Path], schema: pa.Schema, rows: int, options: Mapping[str, str]
) -> None:
    """Check the rows of CSV files from the number `rows` on; raises InputFormatError."""
    seen = 0
    for file in files:
        table = read_csv(file, pa.schema([]), options)
        start = min(max(rows - seen, 0), table.num_rows)
        seen += table.num_rows
        for field in schema:
            if start < table.num_rows and field.name in table.column_names:
                texts = table[field.name].slice(start).combine_chunks()
                at = _first_misfit(texts, field.type)
                if at is not None:
                    place = f"{file}, row {start + at + 1}"
                    raise _misfit(place, field, texts[at].as_py(), rows)


def check_json(messages: Iterable[Message], schema: pa.Schema, rows: int, images: Images) -> None:
    """Check messages of JSON files for whole numbers that a DOUBLE of the schema rounds; raises InputFormatError."""
    columns = [field for field in schema if _has_double(field.type)]
    pattern = re.compile(rb"[0-9]{16}")
    for message in messages if columns else ():
        if message.value is None or not pattern.search(message.value):
            continue
        try:
            found = json.loads(message.value)
        except (ValueError, RecursionError):
            continue  # The reader says so, or drops the line, as its options say.
        for row in images(found) if isinstance(found, dict) else ():
            for field in columns:
                for value in _rounded(row.get(field.name), field.type):
                    raise _misfit(message.place, field, value, rows)


def is_exact(value: int) -> bool:
    """Return whether a DOUBLE keeps a whole number."""
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def is_kept(text: str) -> bool:
    """Return whether a DOUBLE is written with the digits of this number again, so that no two ids fall together."""
    number = Decimal(text)
    return number == Decimal(repr(float(number)))


def _misfit(place: str, field: pa.Field, value: object, rows: int) -> InputFormatError:
    kind = type_name(field.type)
    name = field.name if re.fullmatch(r"[A-Za-z_]\w*", field.name) else quoted(field.name)
    return InputFormatError(
        f"{place}: column {field.name!r} has {value!r}, but is {kind} by the first {rows:,} rows, which would change "
        f'it. Declare the columns, such as schema="{name} STRING, ..", or {kind} to read it so.'
    )


def _first_misfit(texts: pa.Array, kind: pa.DataType) -> int | None:
    """Return the index of the first text that inference would not have given this type."""
    pattern = _spelling(kind)
    if pattern is None:
        return None
    is_other = pc.invert(pc.match_substring_regex(texts, f"^(?:{pattern})$"))
    at = pc.index(is_other, True).as_py()
    found = [at] if at >= 0 else []
    if pt.is_floating(kind):
        is_long = pc.match_substring_regex(texts, _MANY_DIGITS)
        for index in pc.indices_nonzero(pc.fill_null(is_long, False)).to_pylist():
            if found and index >= found[0]:
                break
            if not is_kept(texts[index].as_py()):
                return int(index)
    return found[0] if found else None


def _spelling(kind: pa.DataType) -> str | None:
    """Return the pattern of texts that are inferred as a type; None where all are."""
    if pt.is_boolean(kind):
        return "(?i)true|false"
    if pt.is_integer(kind):
        return WHOLE
    if pt.is_floating(kind):
        return NUMBER
    if pt.is_decimal(kind):
        return rf"{WHOLE}(\.[0-9]{{1,{kind.scale}}}0*)?" if kind.scale else WHOLE
    if pt.is_date(kind):
        return DAY
    if pt.is_timestamp(kind):
        return TIME if kind.tz is None else TIME + ZONE
    return None


def _has_double(kind: pa.DataType) -> bool:
    if pt.is_list(kind):
        return _has_double(kind.value_type)
    if pt.is_struct(kind):
        return any(_has_double(field.type) for field in kind)
    return bool(pt.is_floating(kind))


def _rounded(value: Any, kind: pa.DataType) -> Iterator[int]:
    """Yield the whole numbers in a value that its type rounds."""
    if pt.is_floating(kind):
        if type(value) is int and not is_exact(value):
            yield value
    elif pt.is_list(kind):
        for each in value if isinstance(value, list) else ():
            yield from _rounded(each, kind.value_type)
    elif pt.is_struct(kind) and isinstance(value, dict):
        for field in kind:
            yield from _rounded(value.get(field.name), field.type)
