"""CSV files for a harness: by their own headers, each value as what its column's type says; as on Spark."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.types as pt

from aggloom.codegen import type_name
from aggloom.errors import InputFormatError, SpecError, nearest
from aggloom.runtime.formats.base import Settings
from aggloom.runtime.formats.packed_files import open_bytes
from aggloom.runtime.formats.plain_texts import typed
from aggloom.runtime.formats.values import WRONG, reader

CSV_OPTIONS = {
    *("sep", "delimiter", "quote", "escape", "header", "nullValue", "encoding"),
}
"""Options of CSV files, by Spark's names."""
_UTC = "UTC"
_CONTROLS = b"\x1f\x1e\x1d\x1c"
"""Bytes that may stand for a separator of several characters; at most one is needed."""


@dataclass(frozen=True)
class Dialect:
    """The form of CSV files; raises SpecError for an option that is none, or has no such value.

    null: a text that is NULL beside the empty one. escaped: whether a backslash may stand before a quote in other
    readers, so that a file with one is refused.
    """

    separator: str = ","
    quote: str = '"'
    header: bool = True
    null: str = ""
    encoding: str = "utf-8"
    escaped: bool = True

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Dialect:
        """Read the options, in any case."""
        known = {name.lower(): name for name in CSV_OPTIONS}
        given: dict[str, str] = {}
        for name, value in options.items():
            if name.lower() not in known:
                hint = nearest(name, sorted(CSV_OPTIONS))
                raise SpecError(f"csv has no option {name!r} in a harness. {hint}")
            given[name.lower()] = str(value)
        separator = given.get("sep", given.get("delimiter", ","))
        header = given.get("header", "true").lower()
        if header not in ("true", "false"):
            raise SpecError(f"csv: header is {header!r}; it is true or false.")
        if given.get("escape", '"') != '"':
            raise SpecError(
                "csv: escape is read by `aggloom run` alone; only escape='\"', for quotes written twice, is everywhere."
            )
        try:
            encoding = codecs.lookup(given.get("encoding", "utf-8")).name
        except LookupError:
            raise SpecError(
                f"csv: no encoding {given['encoding']!r}; name one such as UTF-8 or ISO-8859-1."
            ) from None
        return cls(
            separator.replace("\\t", "\t"),
            given.get("quote", '"'),
            header == "true",
            given.get("nullvalue", ""),
            encoding,
            "escape" not in given,
        )


def read_csv(
    file: Path, schema: pa.Schema, options: Mapping[str, Any], change: str | None = None
) -> pa.Table:
    """The columns of a file, those of the schema in its types, the others as texts.

    Nothing between two commas is NULL, in quotes too. Without a header the columns are the schema's, by position.
    change: the name of the change column, which comes before them where a file without a header has one more.
    Raises SpecError for an option, InputFormatError for the file.
    """
    dialect = Dialect.of(options)
    try:
        table = _cut(_read_utf8(file, dialect), dialect, file, schema.names, change)
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


def _read_utf8(file: Path, dialect: Dialect) -> bytes:
    """Return a file's text as UTF-8, without a mark of its byte order."""
    with open_bytes(file) as source:
        text = source.read()
    try:
        # UTF-8 is checked here too: the header is, and so is what Arrow would leave for later.
        decoded = text.decode(dialect.encoding)
    except UnicodeDecodeError as error:
        raise InputFormatError(
            f"{file} is not {dialect.encoding} from byte {error.start:,} on; say its encoding, such as "
            "encoding=ISO-8859-1."
        ) from None
    return decoded.removeprefix("\ufeff").encode()


def _cut(
    text: bytes, dialect: Dialect, file: Path, columns: list[str], change: str | None = None
) -> pa.Table:
    """The values of a file as texts; of a file without a line no columns."""
    quote = dialect.quote
    if quote and dialect.escaped and f"\\{quote}".encode() in text:
        raise InputFormatError(
            f"{file}: a quote behind a backslash; if quotes in texts are written twice, say escape='\"'. A backslash "
            "as an escape is read by `aggloom run` only."
        )
    if not text.strip(b"\r\n"):
        return pa.table({})
    separator = dialect.separator
    if len(separator) > 1:
        text, separator = _join_separator(text, dialect, file)
    names, rest = columns, text
    if dialect.header or change is not None:
        quoting: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
        with StringIO(text.decode(), newline="") as lines:
            first = next(csv.reader(lines, delimiter=separator, **quoting), [])
        if not dialect.header and change is not None and len(first) > len(columns):
            names = [change, *columns]
    if dialect.header:
        names = first
        rest = text.split(b"\n", 1)[1] if b"\n" in text else b""
        if not rest.strip() and b"\r" not in text.strip(b"\r\n"):
            return pa.table([pa.array([], pa.string())] * len(names), names=names)
    read = pc_csv.ReadOptions(
        block_size=min(max(len(text) + 1, 1 << 10), (1 << 31) - 1),
        column_names=None if dialect.header else names,
    )
    return pc_csv.read_csv(
        pa.BufferReader(text),
        read_options=read,
        parse_options=pc_csv.ParseOptions(
            delimiter=separator, quote_char=quote or False, newlines_in_values=True
        ),
        convert_options=pc_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=["", dialect.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )


def _join_separator(text: bytes, dialect: Dialect, file: Path) -> tuple[bytes, str]:
    """Return a text with one byte in place of each separator of several characters, outside quotes, and that byte."""
    free = next((bytes([byte]) for byte in _CONTROLS if byte not in text), None)
    if free is None:
        raise InputFormatError(
            f"{file}: there are control characters in it; sep must be one character."
        )
    separator = re.escape(dialect.separator.encode())
    if not dialect.quote:
        return re.sub(separator, free, text), free.decode()
    quote = re.escape(dialect.quote.encode())
    quoted = rb"(?:\A|(?<=[\r\n])|(?<=%b))%b(?:[^%b]|%b%b)*%b" % (
        *(separator, quote, quote, quote, quote, quote),
    )
    pattern = re.compile(rb"(%b)|%b" % (quoted, separator))
    return pattern.sub(lambda found: found[1] or free, text), free.decode()


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
