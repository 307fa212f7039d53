"""The fields of JSON objects as they lie in memory: one pass over the bytes of many messages, by kernels.

What is not sure to be one object, as Python's `json` reads it, is odd, and left to the reader of single messages.
Nothing is made of a value here but its place and its kind.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.formats.json_tokens import (
    ABSENT,
    ARRAY,
    BACKSLASH,
    ESCAPED,
    HIGH,
    OBJECT,
    ODD,
    TEXT,
    begin_value,
    end_nested,
    end_scalar,
    skip_space,
)
from aggloom.runtime.formats.texts import Bytes, Words
from aggloom.runtime.storage.arena import FlagArray
from aggloom.runtime.storage.jit import inner_kernel, kernel

_OTHER, _REFUSED = -1, -2
"""Names that nobody asks for, and those that make a message odd."""
_OTHERS = 64
"""The most names that nobody asks for."""


class KnownNames(NamedTuple):
    """Names of fields, in bytes one behind the other.

    text, bounds: as they are wanted. lower, lower_bounds: the same in small letters, then those that are refused; none
    where names in another case are other names. is_unique: whether a name that nobody asks for may be there once only.
    is_ascii: whether all of them are.
    """

    text: Bytes
    bounds: Words
    lower: Bytes
    lower_bounds: Words
    is_unique: bool
    is_ascii: bool


class Fields(NamedTuple):
    """The fields of objects: kinds, the first byte of each and the one behind it (of a text what is between quotes).

    buffer: uint8[n]. firsts, lasts: int64[names, objects]. kinds: uint8[names, objects]. marks: uint8[objects].
    """

    buffer: Bytes
    firsts: Words
    lasts: Words
    kinds: Bytes
    marks: Bytes


@inner_kernel
def _find_name(text: Bytes, first: int, last: int, names: KnownNames, expected: int) -> int:
    """The number of a name. expected: the one that is looked at first."""
    length, count = last - first, len(names.bounds) - 1
    for step in range(count):
        number = expected + step
        if number >= count:
            number -= count
        start = names.bounds[number]
        if names.bounds[number + 1] - start == length:
            same = 0
            while same < length and text[first + same] == names.text[start + same]:
                same += 1
            if same == length:
                return number
    for number in range(len(names.lower_bounds) - 1):
        start = names.lower_bounds[number]
        if names.lower_bounds[number + 1] - start == length:
            same = 0
            while same < length:
                byte = np.int64(text[first + same])
                if 65 <= byte <= 90:
                    byte += 32
                if byte != names.lower[start + same]:
                    break
                same += 1
            if same == length:
                return number if number < count else _REFUSED
    return _OTHER


@inner_kernel
def _is_another(text: Bytes, first: int, last: int, names: KnownNames) -> bool:
    """Tell whether a name with bytes that are not ASCII is sure to be none that is known, in any case."""
    if not names.is_ascii:
        return len(names.lower_bounds) == 1
    # The sign of Kelvin is a k in small letters; of no other letter are they ASCII.
    for place in range(first, last - 1):
        if text[place] == 226 and text[place + 1] == 132:
            return len(names.lower_bounds) == 1
    return True


@inner_kernel
def _is_new(text: Bytes, first: int, last: int, others: Words, count: int) -> bool:
    """Tell whether none of the names that nobody asks for is this one. others: int64[2 * count], where they lie."""
    for number in range(count):
        start, behind = others[2 * number], others[2 * number + 1]
        if behind - start == last - first:
            same = 0
            while start + same < behind and text[start + same] == text[first + same]:
                same += 1
            if start + same == behind:
                return False
    return True


@inner_kernel
def _scan_object(
    start: int, end: int, number: int, names: KnownNames, others: Words, fields: Fields
) -> int:
    """Note the fields of one object; its marks."""
    text = fields.buffer
    marks = 0
    # No constants, for whose type Numba would compile the calls once more.
    count = int(np.int64(0))
    expected = int(np.int64(0))
    at = skip_space(text, start, end)
    if at >= end or text[at] != 123:
        return ODD
    at = skip_space(text, at + 1, end)
    is_open = text[at] != 125
    while is_open:
        first = at + 1
        at, own = begin_value(text, at, end)
        if at < 0 or own & BACKSLASH:
            return ODD
        marks |= own
        # Behind the name is its quote, spaces, and a colon.
        last = first
        while text[last] != 34:
            last += 1
        name = _find_name(text, first, last, names, expected)
        if name == _OTHER and own & HIGH and not _is_another(text, first, last, names):
            return ODD
        begin = at
        if text[at] == 123 or text[at] == 91:
            kind = OBJECT if text[at] == 123 else ARRAY
            at, own = end_nested(text, at, end)
        else:
            at, kind, own = end_scalar(text, at)
        if at < 0 or name == _REFUSED:
            return ODD
        marks |= own
        if name >= 0:
            # Twice: which of them counts, the reader of single messages says.
            if fields.kinds[name, number] != ABSENT:
                return ODD
            quotes = 1 if kind in (TEXT, ESCAPED) else 0
            fields.kinds[name, number] = kind
            fields.firsts[name, number] = begin + quotes
            fields.lasts[name, number] = at - quotes
            # Objects have their fields in one order, mostly that of the columns.
            expected = name + 1
        elif names.is_unique:
            if 2 * count == len(others) or not _is_new(text, first, last, others, count):
                return ODD
            others[2 * count] = first
            others[2 * count + 1] = last
            count += 1
        at = skip_space(text, at, end)
        is_open = text[at] == 44
        if is_open:
            at = skip_space(text, at + 1, end)
        elif text[at] != 125:
            return ODD
    # One object, and nothing behind it.
    at = skip_space(text, at + 1, end)
    return marks & HIGH if at == end else ODD


@kernel
def scan_objects(
    starts: Words, ends: Words, names: KnownNames, others: Words, fields: Fields
) -> None:
    """Note the fields of objects; one of no bytes has none. others: int64[n], room for names that nobody asks for."""
    for number in range(len(starts)):
        if starts[number] < ends[number]:
            fields.marks[number] = _scan_object(
                starts[number], ends[number], number, names, others, fields
            )


@kernel
def begin_with(text: Bytes, starts: Words, ends: Words, head: Bytes, out: FlagArray) -> None:
    """Tell which texts begin with some bytes, and end with the brace that closes an object; out: bool[texts]."""
    for number in range(len(starts)):
        start, size = starts[number], len(head)
        is_same = ends[number] - start > size and text[ends[number] - 1] == 125
        if is_same:
            for place in range(size):
                is_same &= text[start + place] == head[place]
        out[number] = is_same


def make_room(buffer: Bytes, names: KnownNames, count: int) -> tuple[Words, Fields]:
    """The room that `scan_objects` needs: for names that nobody asks for, and for the fields of so many objects."""
    shape = len(names.bounds) - 1, count
    fields = Fields(
        buffer,
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
        np.zeros(shape, np.uint8),
        np.zeros(count, np.uint8),
    )
    return np.zeros(2 * _OTHERS, np.int64), fields
