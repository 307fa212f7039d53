"""SCHEMA_OF_JSON: the type that Spark infers of a document, which is a literal."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIGITS: Final = 38
_WIDE: Final = 1 << 63
_BIGINT_DIGITS: Final = 20


class _Row(list[tuple[str, Any]]):
    """The fields of an object in their order, or of a type."""


def schema_of_json(text: str) -> str:
    """The type of a document as DDL; raises ValueError for what is no JSON, or has a name twice in an object.

    >>> schema_of_json('{"b": [1, 2.5], "a": null}')
    'STRUCT<a: STRING, b: ARRAY<DOUBLE>>'
    """
    start = len(text) - len(text.lstrip(" \t\n\r"))
    value, end = _DECODER.raw_decode(text, start)
    # Behind a number or a word Spark's parser asks for a space.
    if not isinstance(value, list | str) and text[end : end + 1].strip(" \t\n\r"):
        raise ValueError("letters follow a number or a word")
    inferred = _infer(value)
    if isinstance(inferred, list) and not isinstance(inferred, _Row):
        item = _complete(inferred[0])
        # An array of objects without fields stays one; any other array without a type is of texts.
        return _spell([_Row() if item is None else item])
    complete = _complete(inferred)
    return _spell(_Row() if complete is None else complete)


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_Row, parse_constant=_refuse_constant)


def _infer(value: Any) -> Any:
    """The type of a value: its name, digits of a DECIMAL, a list with the type of items, fields, or None for null."""
    if isinstance(value, _Row):
        names = sorted(value, key=lambda field: _utf16_units(field[0]))
        if len({name for name, _ in names}) < len(names):
            raise ValueError("a name comes twice in an object")
        return _Row((name, _infer(part)) for name, part in names)
    if isinstance(value, list):
        item = None
        for each in value:
            item = _merge(item, _infer(each))
        return [item]
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        digits = len(str(abs(value)))
        return "BIGINT" if -_WIDE <= value < _WIDE else digits if digits <= _DIGITS else "DOUBLE"
    return {float: "DOUBLE", str: "STRING"}.get(type(value))


def _utf16_units(name: str) -> bytes:
    """The units of a name that Java compares."""
    return name.encode("utf-16-be", "surrogatepass")


def _merge(one: Any, other: Any) -> Any:
    """The type of items of which some are of one type and some of another."""
    if one == other or other is None:
        return one
    if one is None:
        return other
    if isinstance(one, _Row) and isinstance(other, _Row):
        left, right = dict(one), dict(other)
        names = sorted({**left, **right}, key=_utf16_units)
        return _Row((name, _merge(left.get(name), right.get(name))) for name in names)
    if isinstance(one, list) and isinstance(other, list) and not isinstance(one, _Row):
        return "STRING" if isinstance(other, _Row) else [_merge(one[0], other[0])]
    digits = [_whole_digits(each) for each in (one, other)]
    if None not in digits:
        return max(int(each or 0) for each in digits)
    numbers = all(each == "DOUBLE" or _whole_digits(each) is not None for each in (one, other))
    return "DOUBLE" if numbers else "STRING"


def _whole_digits(kind: Any) -> int | None:
    """The digits of a whole number's type; None for another type."""
    return _BIGINT_DIGITS if kind == "BIGINT" else kind if isinstance(kind, int) else None


def _complete(kind: Any) -> Any:
    """A type without what has none: null is a text, and a row without fields is none (None)."""
    if kind is None:
        return "STRING"
    if isinstance(kind, _Row):
        fields = [(name, _complete(part)) for name, part in kind if name]
        return _Row(field for field in fields if field[1] is not None) or None
    if isinstance(kind, list):
        item = _complete(kind[0])
        return None if item is None else [item]
    return kind


def _spell(kind: Any) -> str:
    if isinstance(kind, _Row):
        return f"STRUCT<{', '.join(f'{_quote(name)}: {_spell(part)}' for name, part in kind)}>"
    if isinstance(kind, list):
        return f"ARRAY<{_spell(kind[0])}>"
    return f"DECIMAL({kind},0)" if isinstance(kind, int) else str(kind)


def _quote(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"
