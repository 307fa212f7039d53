"""Functions of Flink that Spark lacks, for a row: parts of texts and arrays, kinds of texts, numbers cut short."""

from __future__ import annotations

import re
from decimal import ROUND_DOWN, Decimal
from typing import Any, Final

import pyarrow as pa

from aggloom.runtime.scalar.collections import Items, Pairs, key_of
from aggloom.runtime.scalar.java_numbers import double_to_text
from aggloom.runtime.scalar.values import Value, by_row

_NUMBER: Final = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


def split_index(text: str, separator: str, place: int) -> str | None:
    """SPLIT_INDEX: a part of a text, counted from 0; an empty separator stands for any white space."""
    if not text or place < 0:
        return None
    parts = text.split(separator) if separator else re.split(r"\s", text)
    return parts[place] if place < len(parts) else None


def is_alpha(text: str | None) -> bool:
    """IS_ALPHA: letters alone, one at least."""
    return text is not None and text.isalpha()


def is_digit(text: str | None) -> bool:
    """IS_DIGIT: decimal digits alone, one at least."""
    return text is not None and text.isdecimal()


def is_decimal(text: str | None) -> bool:
    """IS_DECIMAL: a number, perhaps with a fraction and an exponent."""
    return text is not None and _NUMBER.fullmatch(text) is not None


def array_slice(items: Items, start: int, end: int) -> Items:
    """ARRAY_SLICE: the items from one place to another, both included; negative places count from the end."""
    count = len(items)
    first = max(1, start + count + 1 if start < 0 else start)
    last = end + count + 1 if end < 0 else end
    return items[first - 1 : 1 if last == 0 else max(last, 0)]


def array_tail(items: Items, start: int) -> Items:
    """ARRAY_SLICE from a place to the end."""
    return array_slice(items, start, len(items))


def element(items: Items) -> Any:
    """ELEMENT: the only item; None of no items. Raises ValueError if there are several."""
    if len(items) > 1:
        raise ValueError(f"ELEMENT takes an array of one item, and this has {len(items)}")
    return items[0] if items else None


def map_union(*maps: Pairs) -> Pairs:
    """MAP_UNION: the entries of all maps; of equal keys the last counts."""
    pairs_by_key = {key_of(key): (key, value) for pairs in maps for key, value in pairs}
    return list(pairs_by_key.values())


def truncate(value: Value, digits: Value) -> Value:
    """TRUNCATE: a number without the digits behind a place after the point, or before it if that is negative."""
    kind = value.type

    def cut(number: Any, places: int) -> Any:
        if pa.types.is_floating(kind):
            if number != number or number in (float("inf"), float("-inf")):
                return number
            # By the digits that are shown: the binary number behind 0.3 is a little less.
            return float(_cut(Decimal(double_to_text(number)), places))
        cut_number = _cut(Decimal(number), places)
        return cut_number if pa.types.is_decimal(kind) else int(cut_number)

    return by_row(cut, kind, value, digits)


def _cut(number: Decimal, places: int) -> Decimal:
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent <= places:
        return number
    return number.quantize(Decimal(1).scaleb(-places), ROUND_DOWN) if number else number
