"""CSV files for a harness: by their own headers, each value as what its column's type says; as on Spark."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.types as pt

from aggloom.codegen import type_name
from aggloom.errors import InputFormatError, SpecError, nearest
from aggloom.runtime.formats.base import Settings
from aggloom.runtime.formats.plain_texts import typed
from aggloom.runtime.formats.values import WRONG, reader

_OPTIONS = {"sep": "delimiter", "delimiter": "delimiter", "quote": "quote_char"}
"""Options of CSV files by Spark's names, and by Arrow's."""
_UTC = "UTC"


def read_csv(file: Path, schema: pa.Schema, options: Mapping[str, Any]) -> pa.Table:
    """The columns of a file with a header, those of the schema in its types, the others as texts.

    Nothing between two commas is NULL, in quotes too. Raises SpecError for an option, InputFormatError for the file.
    """
    given: dict[str, Any] = {"delimiter": ",", "quote_char": '"'}
    for name, value in options.items():
        if name not in _OPTIONS:
            raise SpecError(f"csv has no option {name!r} in a harness. {nearest(name, _OPTIONS)}")
        given[_OPTIONS[name]] = value
    try:
        text = pa.input_stream(str(file), compression="detect").read().removeprefix(b"\xef\xbb\xbf")
        table = _cut(text, given, file)
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputFormatError(f"{file} cannot be read as CSV: {error}") from None
    types = {field.name: field.type for field in schema}
    lower = {name.lower(): kind for name, kind in types.items()}
    columns = [
        _typed(column, types.get(name) or lower.get(name.lower()), f"{file}: column {name!r}")
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    if not columns:
        return schema.empty_table()
    return pa.table(columns, names=table.column_names)


def _cut(text: bytes, options: Mapping[str, Any], file: Path) -> pa.Table:
    """The values of a file as texts; of a file without a line no columns."""
    quote = options["quote_char"]
    if quote and f"\\{quote}".encode() in text:
        raise InputFormatError(
            f"{file}: a quote behind a backslash, which only `aggloom run` reads; write a quote in a text twice"
        )
    lines = text.splitlines(keepends=True)
    if not lines:
        return pa.table({})
    quoting = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
    header = next(csv.reader([lines[0].decode()], delimiter=options["delimiter"], **quoting), [])
    if not b"".join(lines[1:]).strip():
        return pa.table([pa.array([], pa.string())] * len(header), names=header)
    return pc_csv.read_csv(
        pa.BufferReader(text),
        parse_options=pc_csv.ParseOptions(**{**options, "quote_char": quote or False}),
        convert_options=pc_csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )


def _typed(column: pa.ChunkedArray, kind: pa.DataType | None, where: str) -> pa.Array:
    """Texts as values of a type; those that are not plain one by one. None: of no column."""
    texts = column.combine_chunks()
    if kind is None or pt.is_string(kind):
        return texts
    if pt.is_binary(kind):
        return texts.cast(kind)
    texts = pc.utf8_trim_whitespace(texts)
    made = typed(texts, kind, _UTC)
    if made is not None:
        return made
    read = reader(kind, Settings(pa.schema([])), texts=True)
    values = []
    for row, text in enumerate(texts.to_pylist(), 1):
        try:
            values.append(None if text is None else read(text))
        except WRONG:
            raise InputFormatError(
                f"{where} cannot hold {text!r} as {type_name(kind)}, row {row}"
            ) from None
    return pa.array(values, kind)
