"""JSON in texts: GET_JSON_OBJECT and its kin, as Spark reads and writes it.

A text is read as far as its first value goes; a name may come twice, and the first with a value counts. Numbers are
written as Java writes them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from aggloom.runtime.scalar.java_numbers import double_to_text
from aggloom.runtime.scalar.values import Value, row_by_row

WILD: Final = "*"
_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}
_QUOTED: Final = re.compile(r""""(?:\\.|[^"\\])*"|'(?P<single>(?:\\.|[^'\\])*)'""", re.S)
SPACE: Final = re.compile(r"[ \t\n\r]*")
"""Spaces between the values of a document."""
HALF: Final = re.compile("[\ud800-\udfff]")
"""Half of a character beyond U+FFFF."""


class _Fields(list[tuple[str, Any]]):
    """The fields of an object, in their order."""


class _Float(float):
    """A number with a point or an exponent."""


def refuse_constant(word: str) -> Any:
    """Raise ValueError for NaN and Infinity, which Python would read."""
    raise ValueError(f"{word} is no JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_Fields, parse_constant=refuse_constant, parse_float=_Float, strict=False
)


def parse_json(text: str) -> Any:
    """The first value of a text, whose texts may stand between single quotes too; raises ValueError."""
    try:
        return read_first_value(text, _DECODER)
    except ValueError:
        # Only now: between double quotes a single one is a letter like others.
        if "'" not in text:
            raise
    return read_first_value(_QUOTED.sub(_quote_doubly, text), _DECODER)


def _quote_doubly(match: re.Match[str]) -> str:
    if match["single"] is None:
        return match[0]
    inner = match["single"].replace("\\'", "'")
    return '"' + re.sub(r'(\\.)|"', lambda quote: quote[1] or '\\"', inner, flags=re.S) + '"'


def read_first_value(text: str, decoder: json.JSONDecoder) -> Any:
    """Decode the first value of a text; raises ValueError."""
    start = SPACE.match(text)
    assert start is not None
    value, end = decoder.raw_decode(text, start.end())
    # An array, an object or a text ends with a sign of its own. A number does not: 12ab must not be read as 12.
    if not isinstance(value, list | dict | str) and text[end : end + 1] not in (
        "",
        " ",
        "\t",
        "\n",
        "\r",
    ):
        raise ValueError("letters follow a number or a word")
    return value


def write_json(value: Any) -> str:
    """A value as JSON without spaces."""
    if isinstance(value, str):
        return quote_json(value)
    if isinstance(value, _Fields):
        return "{" + ",".join(f"{quote_json(k)}:{write_json(v)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write_json, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        text = double_to_text(value)
        return text if math.isfinite(value) else f'"{text}"'
    return str(value)


def quote_json(text: str) -> str:
    """A text between quotes, with what JSON wants escaped."""
    return f'"{"".join(map(_escape, text))}"'


def escape_sign(letter: str) -> str:
    """A quote, a backslash or a control character as JSON has it in a text."""
    return _ESCAPES.get(letter) or f"\\u{ord(letter):04X}"


def _escape(letter: str) -> str:
    if letter < " " or letter in '"\\':
        return escape_sign(letter)
    if letter <= "\uffff":
        return letter
    # Java has two halves of it.
    data = letter.encode("utf-16-be")
    return "".join(f"\\u{data[at:at + 2].hex().upper()}" for at in (0, 2))


def get_json_objects(value: Value, path: Sequence[Any]) -> Value:
    """GET_JSON_OBJECT of each text; `path`: pairs of "field" or "item" with a name, a place or "*"."""
    return row_by_row(lambda text: get_json_object(text, path), pa.string(), value)


def get_json_object(text: str, path: Sequence[Any]) -> str | None:
    """The value at a path: a text as it is, anything else as JSON; None if there is none or the text is no JSON."""
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return None
    pieces: list[str] = []
    return "".join(pieces) if _evaluate(value, list(path), "raw", pieces) and pieces else None


def _evaluate(value: Any, path: list[Any], style: str, out: list[str]) -> bool:
    """Append the matches of a path; tell whether there are any. As Hive has it, which Spark follows."""
    if not path:
        if isinstance(value, str) and style == "raw":
            out.append(value)
        elif _is_array(value) and style == "flat":
            return sum(_evaluate(each, [], style, out) for each in value) > 0
        else:
            out.append(write_json(value))
        return True
    step, rest = path[0], path[1:]
    if isinstance(value, _Fields) and step[0] == "field":
        return _evaluate_fields(value, step[1], rest, style, out)
    if not _is_array(value) or step[0] != "item":
        return False
    if step[1] != WILD:
        if step[1] >= len(value):
            return False
        inner = "quoted" if rest[:1] == [("item", WILD)] else style
        return _evaluate(value[step[1]], rest, inner, out)
    if rest[:1] == [("item", WILD)]:
        parts: list[str] = []
        matched = [_evaluate(each, rest[1:], "flat", parts) for each in value]
        out.append("[" + ",".join(parts) + "]")
        return any(matched)
    parts = []
    inner = "quoted" if style != "flat" else "flat"
    count = sum(_evaluate(each, rest, inner, parts) for each in value)
    if style == "quoted":
        out.append("[" + ",".join(parts) + "]")
    elif count:
        out.append(",".join(parts) if count == 1 else "[" + ",".join(parts) + "]")
    return count > 0


def _evaluate_fields(
    fields: _Fields, name: str, rest: list[Any], style: str, out: list[str]
) -> bool:
    # The first with a value that is not NULL counts.
    known = (value for key, value in fields if key == name and value is not None)
    return any(_evaluate(value, rest, style, out) for value in known)


def _is_array(value: Any) -> bool:
    return isinstance(value, list) and not isinstance(value, _Fields)


def array_length(text: str) -> int | None:
    """JSON_ARRAY_LENGTH: the number of items; None for what is no array."""
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return None
    return len(value) if _is_array(value) else None


def object_keys(text: str) -> list[str] | None:
    """JSON_OBJECT_KEYS: the names of the fields; None for what is no object."""
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return None
    return [name for name, _ in value] if isinstance(value, _Fields) else None
