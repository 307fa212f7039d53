"""Rows of CSV files, the same for every engine: by names in a file's own header, each value as its column's type says.

What is odd is refused with its line: a value that its type does not have, a column that is missing or there twice, a
record of another width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from aggloom.codegen import type_name
from aggloom.errors import InputFormatError
from aggloom.runtime.formats.base import FormatSettings
from aggloom.runtime.formats.csv_dialect import CsvDialect
from aggloom.runtime.formats.csv_header import check_header
from aggloom.runtime.formats.csv_records import Records
from aggloom.runtime.formats.inferred_values import declared_advice, first_misfit
from aggloom.runtime.formats.plain_texts import parse_texts
from aggloom.runtime.formats.values import WRONG, UnsaidError, reader
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.changelog import CHANGE_TYPES
from aggloom.runtime.values.markers import MARKER_HINT

_INSERT = CHANGE_TYPES[0]
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class CsvRows:
    """The rows of a file: an array for each column, how many, and the words of their changes if a column has them."""

    columns: list[pa.Array]
    count: int
    changes: pa.Array | None = None

    @property
    def words(self) -> pa.Array:
        """The words of the changes, which are insertions where no column has them."""
        if self.changes is None:
            return pa.repeat(pa.scalar(_INSERT), self.count)
        return self.changes


@dataclass(frozen=True)
class CsvReader:
    """The function of a file's bytes that gives its rows.

    zone: where times are that name none. words: what a change column says. inferred: whether values of other rows
    suggested the types, so that one that these would change is refused.
    """

    schema: pa.Schema
    dialect: CsvDialect
    zone: str = "UTC"
    words: ChangeWords = field(default_factory=ChangeWords)
    inferred: bool = False

    def __call__(self, content: bytes, place: str) -> CsvRows:
        """Read a file; place: its name, for messages. Raises InputFormatError, UnknownColumnError."""
        records = csv_records(content, self.dialect, place)
        start, width, places, change = self._layout(records)
        if not width:
            return CsvRows([pa.array([], f.type) for f in self.schema], 0)
        there = [at for at in places if at is not None]
        places_to_read = there if change is None else [*there, change[1]]
        cut = records.columns(start, width, places_to_read)
        # Without any column to read, the first is cut all the same, for the number of rows.
        rows, texts = len(cut[0]), iter(cut)
        columns = [
            (
                pa.nulls(rows, field.type)
                if at is None
                else self._parse_values(next(texts), field, records, start)
            )
            for field, at in zip(self.schema, places, strict=True)
        ]
        if change is not None:
            return CsvRows(columns, rows, self._changes(next(texts), change[0], records, start))
        absent = _INSERT if self.words.column is None else self.words.absent
        changes = None if absent == _INSERT else pa.repeat(pa.scalar(absent, pa.string()), rows)
        return CsvRows(columns, rows, changes)

    def check_header(self, text: bytes, place: str) -> None:
        """Check the header of a file, of which the first lines are enough."""
        self._layout(csv_records(text, self.dialect, place))

    def _layout(
        self, records: Records
    ) -> tuple[int, int, list[int | None], tuple[str, int] | None]:
        """Return the start of rows, the number of their values, the columns' places, the changes' name and place."""
        header, start = records.header()
        names = [name.strip() for name in header]
        if not names:
            return start, 0, [], None
        if self.dialect.header:
            places, change = _Header(names, records, start).of(self)
        else:
            places, change = self._by_position(len(names))
            # The first record is a row: reading begins with it.
            names, start = [*self.schema.names, *([change[0]] if change else [])], 0
        if change is None and self.words.column is not None and self.words.absent is None:
            raise self.words.missing_column(records.place, names)
        return start, len(names), places, change

    def _by_position(self, width: int) -> tuple[list[int | None], tuple[str, int] | None]:
        """Return the places of columns without a header: a change column that is there precedes them."""
        name, count = self.words.column, len(self.schema)
        if name is None or width <= count:
            return list(range(count)), None
        return list(range(1, count + 1)), (name, 0)

    def _parse_values(
        self, texts: pa.Array, field: pa.Field, records: Records, start: int
    ) -> pa.Array:
        """Texts as values of a column's type; those that are not plain one by one."""
        kind = field.type
        if pt.is_string(kind):
            return texts
        if pt.is_binary(kind):
            return texts.cast(kind)
        # Blanks mean nothing around numbers and times; around texts they are data.
        texts = pc.utf8_trim_whitespace(texts)
        odd = first_misfit(texts, kind) if self.inferred else None
        if odd is not None:
            raise self._misfit(texts[odd].as_py(), field, records.where(start, odd))
        # All at once if every text is of the plain form; else one by one, by the rules that say what is wrong.
        column = parse_texts(texts, kind, self.zone)
        if column is not None:
            return column
        settings = FormatSettings(pa.schema([]), zone=self.zone, zero_dates=self.dialect.zero_dates)
        read = reader(kind, settings, texts=True)
        values = []
        for row, text in enumerate(texts.to_pylist()):
            try:
                values.append(None if text is None else read(text))
            except WRONG as error:
                hint = f" ({error})" if isinstance(error, UnsaidError) else ""
                raise self._misfit(text, field, records.where(start, row), hint) from None
        return pa.array(values, kind)

    def _misfit(
        self, text: str, field: pa.Field, place: tuple[str, str], hint: str = ""
    ) -> InputFormatError:
        """The error of a text that is no value of a column's type; place: where its record is, and the record."""
        why = f"column {field.name!r} cannot hold {text!r} as {type_name(field.type)}{hint}"
        if self.inferred:
            advice = declared_advice(field.name, field.type).removesuffix(".")
            why = f"{why}, which the first rows suggest. {advice}"
        return InputFormatError(f"{place[0]}: {why}: {place[1]}")

    def _changes(self, texts: pa.Array, name: str, records: Records, start: int) -> pa.Array:
        """The kinds of rows in the words of CHANGE_TYPES; an error for a word that is no known one."""
        # An absent value is the empty word, which may have a meaning of its own.
        kinds = self.words.known_kinds(pc.fill_null(texts, ""))
        if not kinds.null_count:
            return kinds
        at = pc.index(kinds.is_null(), True).as_py()
        where, record = records.where(start, at)
        word = texts[at].as_py()
        if self.words.column is None:
            quoted = "NULL" if word is None else repr(word)
            why = f"change type {quoted} in {name!r}; known are {self.words.known_words}. Insertions need no {name}"
        else:
            why = self.words.complaint(word)
        raise InputFormatError(f"{where}: {why}: {record}")


def csv_records(content: bytes, dialect: CsvDialect, place: str) -> Records:
    """Return the records of a file's bytes; raises InputFormatError where they are not of the dialect's encoding."""
    try:
        decoded = content.decode(dialect.encoding)
    except UnicodeDecodeError as error:
        hint = "UTF-16" if content[:2] in _UTF_16 else "ISO-8859-1"
        raise InputFormatError(
            f"{place} is not {dialect.encoding.upper()} from byte {error.start:,} on; say its encoding, such as "
            f"encoding={hint}."
        ) from None
    mark = "\ufeff"
    # The usual file is read as it lies in memory, without a copy.
    is_same = dialect.encoding == "utf-8" and not decoded.startswith(mark)
    text = content if is_same else decoded.removeprefix(mark).encode()
    return Records(text, dialect.of_file(place), place)


@dataclass(frozen=True)
class _Header:
    """The names of a header, and where each declared one is."""

    names: Sequence[str]
    records: Records
    end: int

    def of(self, reader: CsvReader) -> tuple[list[int | None], tuple[str, int] | None]:
        """Return the columns' places, None if there is none such, and the change column; raises InputFormatError."""
        declared = reader.schema.names
        places = [self._place(name, declared) for name in declared]
        place, hint = self.records.place, self.records.hint()
        check_header(place, place, self.names, declared, reader.dialect.lenient, hint)
        words = reader.words
        marked = [
            name for name in words.list_markers(declared) if self._place(name, ()) is not None
        ]
        if marked:
            raise self._refusal(f"column {marked[0]!r} {MARKER_HINT}")
        known = words.names(declared)
        change_columns = [(n, at) for n in known if (at := self._place(n, ())) is not None]
        if len(change_columns) > 1:
            both = f"both {change_columns[0][0]!r} and {change_columns[1][0]!r} are there"
            raise self._refusal(f"two change columns are there, {both}; keep one")
        return places, change_columns[0] if change_columns else None

    def _place(self, name: str, declared: Sequence[str]) -> int | None:
        """Return the place of a name: in its case, or in another that is no declared name's."""
        exact = [at for at, other in enumerate(self.names) if other == name]
        alike = [
            at
            for at, other in enumerate(self.names)
            if other.lower() == name.lower() and other not in declared
        ]
        matches = exact or alike
        if len(matches) > 1:
            raise self._refusal(f"column {name!r} is there twice")
        return matches[0] if matches else None

    def _refusal(self, why: str) -> InputFormatError:
        return self.records.refusal(0, self.end, why)
