r"""Lines of CSV as Spark's parser takes them apart and its writer makes them: a backslash escapes a quote, `"a\"b"`.

A quote that ends no field is part of it: `"a"b,c` has the field `"a"b`. A quote that no other one ends lasts to the end
of the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from aggloom.errors import DataError

_QUOTE: Final = '"'
_ESCAPE: Final = "\\"
_SPECIAL: Final = re.compile(r'["\\]')
_UNREADABLE: Final = re.compile("[\0\uffff]")
BLANKS: Final = "".join(map(chr, range(33)))
"""The characters that Java's parsers pass over around a field."""


def split_line(text: str, separator: str = ",") -> list[str | None]:
    """The fields of a line that is not empty, None for one with nothing between its separators.

    Raises DataError for a line that only Spark takes apart.

    >>> split_line(r'a,,"b, \\"c\\""')
    ['a', None, 'b, "c"']
    """
    if _UNREADABLE.search(text):
        raise DataError(f"CSV: {text[:60]!r} has a NUL, which only Spark reads; filter such rows.")
    if _QUOTE not in text:
        return [part or None for part in text.split(separator)]
    fields: list[str | None] = []
    at = 0
    while True:
        if text[at : at + 1] == _QUOTE:
            value, at = _read_quoted(text, at + 1, separator)
            fields.append(value)
        else:
            end = _find(text, separator, at)
            fields.append(text[at:end] or None)
            at = end
        if at == len(text):
            return fields
        at += 1


def _read_quoted(text: str, at: int, separator: str) -> tuple[str, int]:
    """A field whose first quote is before `at`, and the place of the separator behind it, or of the end."""
    if at == len(text):
        return _QUOTE, at
    parts: list[str] = []
    before = ""
    while at < len(text):
        letter = text[at]
        if before == _QUOTE and (letter in BLANKS or letter == separator):
            return _end_quoted(text, at, separator, "".join(parts))
        if letter not in (_QUOTE, _ESCAPE):
            if before == _QUOTE:
                return _read_on(text, at, separator, "".join(parts))
            # An escape of what needs none is a backslash.
            parts.append(_ESCAPE if before == _ESCAPE else "")
            match = _SPECIAL.search(text, at)
            end = len(text) if match is None else match.start()
            parts.append(text[at:end])
            before, at = text[end : end + 1], end + 1
            continue
        if before == _QUOTE and letter == _ESCAPE:
            raise DataError(
                f"CSV: {text[:60]!r} has a backslash behind a quote, which only Spark reads; filter such rows."
            )
        if before:
            parts.append(letter)
        # Of two quotes the second may still end the field; an escaped character does nothing more.
        before = "" if before == _ESCAPE else letter
        at += 1
    return "".join(parts), len(text)


def _end_quoted(text: str, at: int, separator: str, value: str) -> tuple[str, int]:
    """The end of a field behind its last quote: blanks are passed over if the separator or the end follows them."""
    end = at
    while end < len(text) and text[end] in BLANKS and text[end] != separator:
        end += 1
    if end == len(text) or text[end] == separator:
        return value, end
    rest, stop = _read_on(text, at, separator, value)
    # Univocity's parser ends such a field with a quote where one is behind the first letter of the line's rest.
    doubled = stop == len(text) and text[end] != _QUOTE and text[end + 1 : end + 2] == _QUOTE
    return rest + (_QUOTE if doubled else ""), stop


def _read_on(text: str, at: int, separator: str, value: str) -> tuple[str, int]:
    """A field with a quote that did not end it: all up to the separator, quotes among it."""
    end = _find(text, separator, at)
    return f"{_QUOTE}{value}{_QUOTE}{text[at:end]}", end


def _find(text: str, separator: str, at: int) -> int:
    place = text.find(separator, at)
    return len(text) if place < 0 else place


def field_writer(separator: str, null: str) -> Callable[[int, str | None], str]:
    """The function that writes the field at a place of a line; null: the text of NULL.

    Blanks around a text are left out. A text is put in quotes if it has a separator, a quote or a line's end.
    """
    marks = re.compile(f'["\n\r{re.escape(separator)}]')

    def quote(text: str) -> str:
        return _QUOTE + _SPECIAL.sub(lambda mark: _ESCAPE + mark[0], text) + _QUOTE

    def write(place: int, text: str | None) -> str:
        whole = null if text is None else text
        bare = whole.lstrip(BLANKS)
        if not bare:
            return "" if text is None else _QUOTE * 2
        # A line's end behind the text puts it in quotes, and is left out all the same.
        is_quoted = marks.search(bare) or (place == 0 and whole[0] == "#")
        content = bare.rstrip(BLANKS)
        return quote(content) if is_quoted else content

    return write
