"""The text of a message as JSON objects, strictly: one object, names that come twice known, numbers as written."""

from __future__ import annotations

import base64
import json
from collections import Counter
from decimal import Decimal
from typing import Any

from aggloom.runtime.formats.base import Unreadable

_SPACE = " \t\r\n"
_MORE = 'text after the object; concatenated="split" reads several objects'


class Object(dict[str, Any]):
    """A JSON object; twice: names that it has more than once."""

    twice: tuple[str, ...] = ()


def _object(pairs: list[tuple[str, Any]]) -> Object:
    content = Object(pairs)
    # A dictionary has the last of equal names, and so fewer entries than there were pairs.
    if len(content) != len(pairs):
        content.twice = tuple(name for name, n in Counter(n for n, _ in pairs).items() if n > 1)
    return content


class Exponential(Decimal):
    """A number that is written with an exponent, as in JSON a DOUBLE is."""


def _number(text: str) -> Decimal:
    return Exponential(text) if "e" in text or "E" in text else Decimal(text)


# Decimals keep all digits: a float would round before anybody has looked at the column's type.
DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_number)


def text_of(value: bytes) -> str:
    """The text of a message; raises Unreadable for bytes that are none."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Unreadable("bytes that are not UTF-8") from None


def objects(text: str, split: bool) -> list[Object]:
    """The objects of a text: one, or with `split` one or more; none where there is only space, or the word null."""
    stripped = text.strip(_SPACE)
    if stripped in ("", "null"):
        return []
    contents: list[Object] = []
    at = 0
    while at < len(stripped):
        if contents and (not split or stripped[at] != "{"):
            raise Unreadable(_MORE)
        one, at = _decode_value(stripped, at)
        if not isinstance(one, Object):
            raise Unreadable(f"malformed line: no JSON object{describe_layout(text)}")
        contents.append(one)
        while at < len(stripped) and stripped[at] in _SPACE:
            at += 1
    return contents


def describe_layout(text: str) -> str:
    """Return the end of a message about a line that begins a JSON array or a value over several lines, or nothing."""
    bare = text.strip(_SPACE)
    if bare[:1] == "[":
        return (
            "; this is a JSON array, and each line must be an object: read the file with multiLine=true, or convert it "
            "with `jq -c '.[]'`"
        )
    if bare == "{":
        return (
            "; this is a JSON value over several lines, and each must be an object: read the file with multiLine=true, "
            "or convert it with `jq -c .`"
        )
    return ""


def scalar_or_object(text: str) -> Any:
    """The one JSON value of a text."""
    stripped = text.strip(_SPACE)
    one, at = _decode_value(stripped, 0)
    if at != len(stripped):
        raise Unreadable("text after the value")
    return one


def _decode_value(text: str, at: int) -> tuple[Any, int]:
    try:
        return DECODER.raw_decode(text, at)
    except (ValueError, RecursionError, ArithmeticError) as error:
        # Nesting beyond Python's stack, and exponents beyond a Decimal's, are bad messages like others.
        layout = describe_layout(text)
        raise Unreadable(
            f"malformed line, or a value of the wrong type ({error}){layout}"
        ) from None


def format_value(value: Any) -> str:
    """A JSON value as text: of a text what is in it."""
    return value if isinstance(value, str) else _write_json(value)


def write_document(value: Any) -> str:
    """A JSON value as JSON that says what its numbers are; raises ValueError for an object with a name twice."""
    if isinstance(value, dict):
        if isinstance(value, Object) and value.twice:
            raise ValueError(f"{value.twice[0]!r} is there twice")
        parts = (
            f"{json.dumps(n, ensure_ascii=False)}:{write_document(v)}" for n, v in value.items()
        )
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write_document, value)) + "]"
    if not isinstance(value, Decimal):
        return json.dumps(value, ensure_ascii=False)
    # Python writes 0.0000001 with an exponent, and 1.5e0 without.
    text = str(value) if isinstance(value, Exponential) else f"{value:f}"
    return text if not isinstance(value, Exponential) or "E" in text else f"{text}E0"


def _write_json(value: Any) -> str:
    """A JSON value as JSON, numbers as they arrived; bytes, which other formats have, in base64."""
    if isinstance(value, dict):
        parts = (f"{json.dumps(n, ensure_ascii=False)}:{_write_json(v)}" for n, v in value.items())
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_write_json, value)) + "]"
    if isinstance(value, bytes):
        value = base64.b64encode(value).decode()
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
