"""Rows that were not read when a schema was inferred: values that would have changed it are refused.

A reader takes what fits its type: `007` of a BIGINT is 7, and a DOUBLE rounds an id of 20 digits. That is right for a
type that somebody declared, and a wrong answer for one that the first rows suggest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from aggloom.codegen import type_name
from aggloom.errors import InputFormatError
from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.inferred_values import declared_advice, first_misfit, is_exact
from aggloom.runtime.local.csv_rows import read_csv_texts

Images = Callable[[dict[str, Any]], Iterable[Mapping[str, Any]]]


def check_csv(
    files: Iterable[Path], schema: pa.Schema, rows: int, options: Mapping[str, str]
) -> None:
    """Check the rows of CSV files from the number `rows` on; raises InputFormatError."""
    read_rows = 0
    for file in files:
        table = read_csv_texts(file, options)
        start = min(max(rows - read_rows, 0), table.num_rows)
        read_rows += table.num_rows
        for field in schema:
            if start < table.num_rows and field.name in table.column_names:
                texts = table[field.name].slice(start).combine_chunks()
                at = first_misfit(texts, field.type)
                if at is not None:
                    place = f"{file}, row {start + at + 1}"
                    raise _misfit(place, field, texts[at].as_py(), rows)


def check_json(messages: Iterable[Message], schema: pa.Schema, rows: int, images: Images) -> None:
    """Check messages of JSON files for whole numbers that a DOUBLE of the schema rounds; raises InputFormatError."""
    columns = [field for field in schema if _has_double(field.type)]
    # A double holds every whole number up to 2**53, which has 16 digits. A message without as many digits in a row
    # cannot have a number that is rounded, and need not be parsed a second time.
    pattern = re.compile(rb"[0-9]{16}")
    for message in messages if columns else ():
        if message.value is None or not pattern.search(message.value):
            continue
        try:
            content = json.loads(message.value)
        except (ValueError, RecursionError):
            continue  # The reader says so, or drops the line, as its options say.
        for row in images(content) if isinstance(content, dict) else ():
            for field in columns:
                for value in _find_rounded(row.get(field.name), field.type):
                    raise _misfit(message.place, field, value, rows)


def _misfit(place: str, field: pa.Field, value: object, rows: int) -> InputFormatError:
    kind = type_name(field.type)
    return InputFormatError(
        f"{place}: column {field.name!r} has {value!r}, but is {kind} by the first {rows:,} rows, which would change "
        f"it. {declared_advice(field.name, field.type)}"
    )


def _has_double(kind: pa.DataType) -> bool:
    if pt.is_list(kind):
        return _has_double(kind.value_type)
    if pt.is_struct(kind):
        return any(_has_double(field.type) for field in kind)
    return bool(pt.is_floating(kind))


def _find_rounded(value: Any, kind: pa.DataType) -> Iterator[int]:
    """Yield the whole numbers in a value that its type rounds."""
    if pt.is_floating(kind):
        # By its exact type: True is an int for isinstance.
        if type(value) is int and not is_exact(value):
            yield value
    elif pt.is_list(kind):
        for each in value if isinstance(value, list) else ():
            yield from _find_rounded(each, kind.value_type)
    elif pt.is_struct(kind) and isinstance(value, dict):
        for field in kind:
            yield from _find_rounded(value.get(field.name), field.type)
