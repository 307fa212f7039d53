"""The values of VARIANT: read from JSON as Spark reads it, and written in the one form in which equal values are equal.

A VARIANT is JSON text: the names of objects in order, no spaces, and numbers that say what they are. A number with an
exponent is a DOUBLE, any other with a point or beyond 64 bits is a DECIMAL, the rest are BIGINTs. What PARSE_JSON makes
of such a text is the same text again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from types import NoneType
from typing import Any, Final

from aggloom.errors import DataError
from aggloom.runtime.scalar.java_numbers import double_to_text
from aggloom.runtime.scalar.json_documents import write_json
from aggloom.runtime.scalar.json_texts import refuse_constant

_DIGITS: Final = 38
_LONGEST: Final = 1000
"""The most characters of a number that Spark's parser takes."""
_DEEPEST: Final = 300
"""The most levels of a document: Python's own stack ends not far beyond."""
_SPACES: Final = " \t\n\r"
_LEADING: Final = re.compile(r"[ \t\n\r]*")
_INFINITY: Final = "1E999"
"""A number that every reader of DOUBLEs takes for infinity: JSON has no word for it."""
_WIDE: Final = 1 << 63


def parse_document(text: str) -> Any:
    """The first value of a JSON text, as Spark reads it; raises ValueError."""
    start = _LEADING.match(text)
    assert start is not None
    try:
        value, end = _ONCE.raw_decode(text, start.end())
    except RecursionError:
        raise _too_deep() from None
    follows = text[end : end + 1]
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        ends = follows in _SPACES
    else:
        ends = not isinstance(value, bool | NoneType) or not (follows.isalnum() or follows in "_$")
    if follows and not ends:
        raise ValueError("letters follow a number or a word")
    if _depth(text[:end]) > _DEEPEST:
        raise _too_deep()
    return value


def _too_deep() -> DataError:
    # Not a ValueError: TRY_PARSE_JSON must not take for no JSON what is some.
    return DataError(
        f"a JSON document has more than {_DEEPEST} levels, which no VARIANT has; keep it in a STRING."
    )


def read_document(text: str) -> Any:
    """The value of a VARIANT's own text."""
    return _OWN.decode(text)


def write_document(value: Any) -> str:
    """The text of a VARIANT; raises ValueError for a DOUBLE that is no number."""
    return _check_text(write_json(value, _own_number))


def to_json(value: Any) -> str:
    """A value as TO_JSON writes it: numbers as Java has them, without zeros at their end."""
    return write_json(value, shown_number)


def shown_number(value: float | Decimal) -> str:
    """A DOUBLE or a DECIMAL as TO_JSON writes it."""
    if isinstance(value, Decimal):
        return decimal_text(value)
    text = double_to_text(value)
    return text if math.isfinite(value) else f'"{text}"'


def decimal_text(value: Decimal) -> str:
    """A DECIMAL without an exponent and without zeros at its end."""
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def as_number(text: str) -> int | float | Decimal:
    """The value of a JSON number: BIGINT or DECIMAL where it fits, else DOUBLE."""
    if len(text) > _LONGEST:
        raise ValueError("a number has too many characters")
    if "e" in text or "E" in text:
        return float(text)
    if "." not in text:
        whole = int(text)
        if -_WIDE <= whole < _WIDE:
            return whole
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    fits = len(digits) <= _DIGITS and -int(exponent) <= _DIGITS
    return number if fits else float(text)


def _check_text(text: str) -> str:
    """The text; raises ValueError for half a character, which UTF-8 has no bytes for."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text has half a character") from None
    return text


def _own_number(value: float | Decimal) -> str:
    if isinstance(value, Decimal):
        text = decimal_text(value)
        # Without the point it would be a BIGINT.
        return text if "." in text or not -_WIDE <= int(text) < _WIDE else f"{text}.0"
    if math.isnan(value):
        raise ValueError("JSON has no NaN")
    if math.isinf(value):
        return _INFINITY if value > 0 else f"-{_INFINITY}"
    text = repr(value).upper().replace("E+", "E")
    return text if "E" in text else f"{text}E0"


def _depth(text: str) -> int:
    if text.count("[") + text.count("{") <= _DEEPEST:
        return 0
    deepest = depth = 0
    for bracket in _brackets(text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _brackets(text: str) -> Iterator[str]:
    for match in re.finditer(r'"(?:\\.|[^"\\])*"|[\[\]{}]', text, re.S):
        if match[0][0] != '"':
            yield match[0]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a name comes twice in an object")
    return fields


def _decoder(pairs: Callable[[list[tuple[str, Any]]], dict[str, Any]]) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=pairs,
        parse_constant=refuse_constant,
        parse_float=as_number,
        parse_int=as_number,
    )


_ONCE: Final = _decoder(_once)
_OWN: Final = _decoder(dict)
