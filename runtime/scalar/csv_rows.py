"""FROM_CSV and TO_CSV: lines of CSV as rows without parts, and rows as lines, as Spark makes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from aggloom.errors import DataError
from aggloom.runtime.scalar.csv_lines import BLANKS, field_writer, split_line
from aggloom.runtime.scalar.java_numbers import double_to_text, float_to_text
from aggloom.runtime.scalar.json_leaves import as_double, as_single, fit_decimal
from aggloom.runtime.scalar.record_times import time_reader, time_writer
from aggloom.runtime.scalar.values import Value, by_row, row_by_row

Read = Callable[[str], Any]
"""Makes a value of a field's text; raises ValueError where it does not fit."""
_WHOLE: Final = re.compile(r"[+-]?\d+")
_NUMBER: Final = re.compile(r"([+-]?)((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEXADECIMAL: Final = re.compile(r"[+-]?0[xX][0-9a-fA-F.]+[pP][+-]?[0-9]+[fFdD]?")
_LINE_END: Final = re.compile(r"(\r?\n|\f)\Z")
_NAN: Final = float("nan")
_INFINITE: Final = float("inf")
_WORDS: Final = {
    **dict.fromkeys(("NaN", "+NaN", "-NaN"), _NAN),
    **dict.fromkeys(("Infinity", "+Infinity"), _INFINITE),
    "-Infinity": -_INFINITE,
}
_INFINITIES: Final = {"Inf": _INFINITE, "-Inf": -_INFINITE}


@dataclass(frozen=True)
class CsvReading:
    """The options of FROM_CSV.

    zone: the session's. readers: regular expressions of fields for "date", "timestamp" and "timestamp_ntz", where the
    query gives a pattern. corrupt: the name of the field for the text of a bad line, None if the type has none.
    separator: one character. null: the text that is NULL, beside nothing.
    """

    zone: str = "UTC"
    readers: Mapping[str, str] = field(default_factory=dict)
    corrupt: str | None = None
    separator: str = ","
    null: str = ""


def from_csv(value: Value, dtype: pa.StructType, options: CsvReading, sql: str | None) -> Value:
    """FROM_CSV of each text as a row.

    sql: the expression that an error names; None if what does not fit is NULL.
    Raises InvalidCastError for a bad line if `sql` is there, and DataError for one that only Spark reads.
    """
    fields = [(f.name, _reader(f.type, options)) for f in dtype if f.name != options.corrupt]
    empty = {each.name: None for each in dtype}

    def convert(text: str) -> Any:
        row: dict[str, Any] = dict(empty)
        cause = _fill_row(row, fields, text, options)
        if cause is None:
            return row
        if sql is not None:
            raise ValueError(f"the record cannot be read in mode FAILFAST ({cause})")
        if options.corrupt is not None:
            # As Spark keeps it: without the end of a line, and of an empty line nothing.
            row[options.corrupt] = _LINE_END.sub("", text) if text else None
        return row

    return by_row(convert, dtype, value, sql=sql or "FROM_CSV")


def _fill_row(
    row: dict[str, Any], fields: list[tuple[str, Read]], text: str, options: CsvReading
) -> str | None:
    """Put the fields of a line into a row; returns the first mistake, None if there is none."""
    if not text:
        return "a line without a field is no record"
    parts = split_line(text, options.separator)
    cause = None
    if len(parts) != len(fields):
        cause = f"{len(parts)} fields are where {len(fields)} should be"
    for (name, read), part in zip(fields, parts, strict=False):
        if part is None or part == options.null:
            continue
        try:
            row[name] = read(part)
        except ValueError as error:
            cause = cause or str(error)
    return cause


def _reader(dtype: pa.DataType, options: CsvReading) -> Read:
    if dtype == pa.string():
        return str
    if dtype == pa.bool_():
        return _as_bool
    if pa.types.is_integer(dtype):
        return lambda text: _as_integer(text, dtype)
    if pa.types.is_floating(dtype):
        return lambda text: _as_float(text, dtype)
    if pa.types.is_decimal(dtype):
        return lambda text: fit_decimal(text.replace(",", ""), dtype)
    return time_reader(dtype, options.zone, options.readers, has_fallback=False)


def _as_bool(text: str) -> bool:
    word = text.lower()
    if word not in ("true", "false"):
        raise ValueError(f"{text!r} is no BOOLEAN")
    return word == "true"


def _as_integer(text: str, dtype: pa.DataType) -> int:
    number = int(text) if _WHOLE.fullmatch(text) else None
    if number is None or abs(2 * number + 1) >= 1 << dtype.bit_width:
        raise ValueError(f"{text!r} is no {dtype}")
    return number


def _as_float(text: str, dtype: pa.DataType) -> float:
    if text in _INFINITIES:
        return _INFINITIES[text]
    bare = text.strip(BLANKS)
    if bare in _WORDS:
        return _WORDS[bare]
    match = _NUMBER.fullmatch(bare)
    if match is None:
        if _HEXADECIMAL.fullmatch(bare):
            raise DataError(
                f"CSV: {text!r} is a number that only Spark reads; write it with decimal digits."
            )
        raise ValueError(f"{text!r} is no {dtype}")
    digits = ("-" if match[1] == "-" else "") + match[2]
    return as_single(digits) if dtype == pa.float32() else as_double(digits)


def to_csv(
    value: Value,
    zone: str = "UTC",
    separator: str = ",",
    null: str = "",
    templates: Mapping[str, tuple[str, str]] | None = None,
) -> Value:
    """TO_CSV of each row; zone: the session's; null: the text of NULL; templates: as for `time_writer`."""
    fields = [(each.name, _writer(each.type, zone, templates or {})) for each in value.type]
    write = field_writer(separator, null)

    def convert(row: Any) -> str | None:
        texts = (None if row[name] is None else make(row[name]) for name, make in fields)
        # The line of a row whose one field is NULL is NULL itself.
        return separator.join(write(place, text) for place, text in enumerate(texts)) or None

    return row_by_row(convert, pa.string(), value)


def _writer(
    dtype: pa.DataType, zone: str, templates: Mapping[str, tuple[str, str]]
) -> Callable[[Any], str]:
    if dtype == pa.bool_():
        return lambda value: "true" if value else "false"
    if dtype == pa.float32():
        return float_to_text
    if dtype == pa.float64():
        return double_to_text
    # Python and Java write the exponent of a small DECIMAL in one way.
    tests = (pa.types.is_string, pa.types.is_integer, pa.types.is_decimal, pa.types.is_null)
    if any(test(dtype) for test in tests):
        return str
    return time_writer(dtype, zone, templates)
