"""Records of CSV files as texts: by Arrow where quotes and lines are plain, else one by one.

Both ways give the same texts. The second says where a record lies and what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv

from aggloom.errors import InputFormatError
from aggloom.runtime.formats.csv_dialect import CsvDialect

_SHOWN = 300
"""Characters of a record in a message."""
_LARGEST = (1 << 31) - 2
_CONTROLS = b"\x1f\x1e\x1d\x1c"
"""Bytes that may stand for a separator of several characters where none of them is in the text."""
_ENDS = re.compile(rb"\r\n|\n|\r")
_ESCAPES = "; where a backslash stands before quotes in texts, say escape=\\"
_SEPARATORS = (";", "\t", "|", ",")
_LONE = re.compile(rb"\r(?!\n)")
_BLANK = re.compile(rb"(?:\A|\n)[ \t]+(?:[\r\n]|\Z)")
_LINE_ENDS = b"\r\n"
_NONE: Final[tuple[list[bytes], int, int]] = ([], 0, 0)


@dataclass(frozen=True)
class Records:
    """The text of a file, in UTF-8 and without a mark of its byte order, as records of texts.

    place: the file, for messages.
    """

    text: bytes
    dialect: CsvDialect
    place: str

    def header(self) -> tuple[list[str], int]:
        """Return the values of the first record, and where the next begins; none of a file without a record."""
        for values, _, end in self._each(self.dialect, 0):
            return [value.decode() for value in values], end
        return [], len(self.text)

    def columns(self, start: int, width: int, places: Sequence[int]) -> list[pa.Array]:
        """Return those at `places` of `width` columns, of the records from `start` on; NULL as the dialect says.

        Raises InputFormatError for a record of another width, and for a quote out of place.
        """
        self._check_escapes(start, width)
        text = self._plain(start)
        if text is not None:
            try:
                return self._by_arrow(*text, width, places)
            except (pa.ArrowException, UnicodeDecodeError):
                pass  # The other way says what is wrong with which line.
        rows = [values for values, _, _ in self._of_width(start, width)]
        # Without any column the first is read: somebody counts the rows.
        places_or_first = places or [0]
        return [
            self._replace_nulls([values[at].decode() for values in rows]) for at in places_or_first
        ]

    def hint(self) -> str:
        """Return what the first line suggests where a file is not as the dialect says, or nothing."""
        first = _ENDS.split(self.text, 1)[0].decode(errors="replace")
        if first.startswith("#") and not self.dialect.comment:
            return "; where lines that begin with # are comments, say comment=#"
        other = self.other_separator()
        return _make_separator_pattern(other) if other else ""

    def other_separator(self) -> str | None:
        """Return what else may separate the names in the first line, if the separator is not in it."""
        first = _ENDS.split(self.text, 1)[0].decode(errors="replace")
        if self.dialect.separator in first:
            return None
        likeliest = max(_SEPARATORS, key=first.count)
        return likeliest if likeliest in first else None

    def where(self, start: int, row: int) -> tuple[str, str]:
        """Return the place of the record `row`, counted from 0, of those from `start` on, and its text."""
        for number, (_, begin, end) in enumerate(self._each(self.dialect, start)):
            if number == row:
                return self._at(begin), self._format_record(begin, end)
        return self.place, ""

    def refusal(self, begin: int, end: int, why: str) -> InputFormatError:
        """Return the error of the text between two places."""
        return InputFormatError(f"{self._at(begin)}: {why}: {self._format_record(begin, end)}")

    def _at(self, begin: int) -> str:
        return f"{self.place}, line {len(_ENDS.findall(self.text, 0, begin)) + 1}"

    def _format_record(self, begin: int, end: int) -> str:
        return self.text[begin:end].decode(errors="replace").rstrip("\r\n")[:_SHOWN]

    def _of_width(self, start: int, width: int) -> Iterator[tuple[list[bytes], int, int]]:
        of = "the header has names" if self.dialect.header else "the schema has columns"
        for values, begin, end in self._each(self.dialect, start):
            if len(values) != width:
                why = f"not as many values, {len(values)}, as {of}, {width}"
                why += _ESCAPES if self._has_escapes() else self.hint()
                raise self.refusal(begin, end, why)
            yield values, begin, end

    def _each(self, dialect: CsvDialect, at: int) -> Iterator[tuple[list[bytes], int, int]]:
        """The records from a place on: their values, where they begin, and where the next does."""
        patterns = _patterns(dialect)
        text, length = self.text, len(self.text)
        while at < length:
            passed = patterns.passed.match(text, at)
            if passed:
                at = passed.end()
                continue
            begin, values, more = at, [], True
            while more:
                match = patterns.value.match(text, at)
                if match is None:
                    raise self._quote_error(begin, at, patterns)
                values.append(patterns.clean(match))
                at, more = match.end(), bool(match["sep"])
            yield values, begin, at

    def _quote_error(self, begin: int, at: int, patterns: _Patterns) -> InputFormatError:
        end = _ENDS.search(self.text, at)
        until = end.start() if end else len(self.text)
        value = patterns.quoted.match(self.text, at)
        if value is None:
            return self.refusal(begin, until, "a quote that is open to the end of the file")
        quote, escape = self.dialect.quote, self.dialect.escape
        if escape in (None, quote):
            hint = f"; {quote * 2} in a quoted value is a quote" + _ESCAPES * self._has_escapes()
        else:
            hint = f"; {escape} stands before a quote here; escape={quote} reads quotes that are written twice"
        behind = self.text[value.end() : value.end() + 1].decode(errors="replace")
        if behind in _SEPARATORS:
            hint = _make_separator_pattern(behind)
        return self.refusal(begin, until, f"text after a quoted value{hint}{self.hint()}")

    def _check_escapes(self, start: int, width: int) -> None:
        """Refuse a text that reads otherwise where a backslash precedes quotes, as some writers put it."""
        if not self._has_escapes():
            return
        doubled = list(self._each(self.dialect, start))
        try:
            escaped = list(self._each(replace(self.dialect, escape="\\"), start))
        except InputFormatError:
            # Only one of the two ways reads the text at all.
            return
        # A way in which some record has another width is no way to read the file: there is no doubt.
        if any(len(values) != width for values, _, _ in (*doubled, *escaped)):
            return
        for (values, begin, end), other in zip_longest(doubled, escaped, fillvalue=_NONE):
            if values != other[0]:
                quote = self.dialect.quote
                why = (
                    "a backslash before a quote, which may be read in two ways; say escape=\\ if it is for the quote, "
                    f"or escape={quote} if it is a character like others"
                )
                raise self.refusal(begin, end, why)

    def _has_escapes(self) -> bool:
        """Return true if backslashes precede quotes, and no option says for what."""
        quote = self.dialect.quote
        return bool(quote) and self.dialect.escape is None and f"\\{quote}".encode() in self.text

    def _plain(self, start: int) -> tuple[bytes, bytes] | None:
        """Return the records from `start` on and their separator, if Arrow reads them as they are meant."""
        dialect, text = self.dialect, self.text[start:] if start else self.text
        # Arrow counts in 32 bits, and knows neither comments nor blanks that are cut off.
        if dialect.comment or dialect.leading or dialect.trailing or len(text) > _LARGEST:
            return None
        quote, separator = dialect.quote.encode(), dialect.separator.encode()
        quoted = bool(quote) and quote in text
        if len(quote) > 1 or (quoted and dialect.escape not in (None, dialect.quote)):
            return None
        if len(separator) > 1:
            free = next((bytes([byte]) for byte in _CONTROLS if byte not in text), None)
            if free is None or quoted:
                return None
            # Arrow separates by one byte: one that the text does not have stands for the separator.
            text, separator = text.replace(separator, free), free
        # Here a lone carriage return ends a record and a line of blanks is none; Arrow sees both otherwise.
        if _LONE.search(text) or _BLANK.search(text):
            return None
        if quoted and not _is_quoted_plainly(text, quote, separator):
            return None
        return text, separator

    def _by_arrow(
        self, text: bytes, separator: bytes, width: int, places: Sequence[int]
    ) -> list[pa.Array]:
        # For Arrow a file without a row is an error.
        if not text.strip(_LINE_ENDS):
            return [pa.array([], pa.string()) for _ in places]
        names = [f"c{at}" for at in range(width)]
        distinct_places = sorted(set(places)) or [0]
        table = pc_csv.read_csv(
            pa.BufferReader(text),
            # All in one block: a record of any length is whole in it.
            read_options=pc_csv.ReadOptions(
                use_threads=False, block_size=max(len(text) + 1, 1 << 10), column_names=names
            ),
            parse_options=pc_csv.ParseOptions(
                delimiter=separator.decode(),
                quote_char=self.dialect.quote or False,
                newlines_in_values=True,
            ),
            convert_options=pc_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=["", self.dialect.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                include_columns=[names[at] for at in distinct_places],
            ),
        )
        return [table[names[at]].combine_chunks() for at in places or distinct_places]

    def _replace_nulls(self, texts: Sequence[str]) -> pa.Array:
        nulls = ("", self.dialect.null)
        return pa.array([None if text in nulls else text for text in texts], pa.string())


def _make_separator_pattern(by: str) -> str:
    separator = "\\t" if by == "\t" else by
    return f"; where {by!r} separates values, say sep={separator}"


@dataclass(frozen=True)
class _Patterns:
    """The patterns of a dialect. passed: a line without a record. value: one, with what ends it. quoted: in quotes."""

    passed: re.Pattern[bytes]
    value: re.Pattern[bytes]
    quoted: re.Pattern[bytes]
    quote: bytes
    escape: bytes
    leading: bool
    trailing: bool

    def clean(self, match: re.Match[bytes]) -> bytes:
        """A value without its quotes and escapes."""
        value = match["quoted"]
        if value is None:
            value = match["bare"]
            value = value.lstrip(b" \t") if self.leading else value
            return value.rstrip(b" \t") if self.trailing else value
        if self.escape == self.quote:
            return value.replace(self.quote * 2, self.quote)
        if self.escape not in value:
            return value
        escape = re.escape(self.escape)
        return re.sub(escape + b"([" + escape + re.escape(self.quote) + b"])", rb"\1", value)


@lru_cache(maxsize=64)
def _patterns(dialect: CsvDialect) -> _Patterns:
    separator = re.escape(dialect.separator.encode())
    quote, comment = dialect.quote.encode(), dialect.comment.encode()
    escape = quote if dialect.escape is None else dialect.escape.encode()
    blanks = bytes(byte for byte in b" \t" if byte not in dialect.separator.encode())
    # Possessive, here and below: what has matched is never tried again, so that no text takes long.
    blank = b"[" + blanks + b"]*+" if blanks else b""
    end = rb"(?:(?P<sep>" + separator + rb")|\r\n|\n|\r|\Z)"
    # A last separator is followed by one more value, which may be empty.
    passed = blank + rb"(?:\r\n|\n|\r)|" + blank.replace(b"*", b"+") + rb"\Z"
    if comment:
        passed = re.escape(comment) + rb"[^\r\n]*+(?:\r\n|\n|\r|\Z)|" + passed
    if len(dialect.separator.encode()) == 1:
        bare = rb"(?P<bare>[^\r\n" + separator + rb"]*+)"
    else:
        bare = rb"(?P<bare>(?:(?!" + separator + rb")[^\r\n])*+)"
    if not quote:
        # It matches nothing; the group has to be there for `clean`.
        value = rb"(?P<quoted>(?!))?+" + bare
        quoted = rb"(?!)"
    else:
        mark, before = re.escape(quote), re.escape(escape)
        inside = (
            rb"(?:[^" + mark + rb"]++|" + mark + mark + rb")*+"
            if escape == quote
            else rb"(?:[^" + mark + before + rb"]++|" + before + rb"[\s\S])*+"
        )
        lead = rb"[ \t]*+" if dialect.leading else b""
        quoted = lead + mark + rb"(?P<quoted>" + inside + rb")" + mark
        value = rb"(?:" + quoted + blank + rb"|(?!" + lead + mark + rb")" + bare + rb")"
    return _Patterns(
        re.compile(passed),
        re.compile(value + end),
        re.compile(quoted),
        *(quote, escape, dialect.leading, dialect.trailing),
    )


def _is_quoted_plainly(text: bytes, quote: bytes, separator: bytes) -> bool:
    """Return true if quotes stand around whole values, or are written twice in them."""
    data = np.frombuffer(text, np.uint8)
    places = np.flatnonzero(data == quote[0])
    # A quote is open to the end.
    if len(places) % 2:
        return False
    around = np.zeros(256, bool)
    around[list(separator + _LINE_ENDS + quote)] = True
    opening, closing = places[::2], places[1::2]
    before = data[np.maximum(opening - 1, 0)]
    # A quote before an opening one is the closing one of the same value, of which both make one.
    opens = around[before] | (opening == 0)
    after = data[np.minimum(closing + 1, len(data) - 1)]
    closes = around[after] | (closing == len(data) - 1)
    return bool(opens.all() and closes.all())
