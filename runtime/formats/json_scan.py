"""The fields of JSON objects as they lie in memory: one pass over the bytes of many messages, by kernels.

What is not sure to be one object, as Python's `json` reads it, is odd, and left to the reader of single messages.
Nothing is made of a value here but its place and its kind.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.formats.texts import Bytes, Words
from aggloom.runtime.storage.arena import FlagArray
from aggloom.runtime.storage.jit import inner_kernel, kernel

ABSENT, NULL, WHOLE, NUMBER, TEXT, ESCAPED, TRUE, FALSE, OBJECT, ARRAY = range(10)
"""Kinds of values: WHOLE of numbers without a point, ESCAPED of texts with a backslash."""
ODD, HIGH = 1, 2
"""Marks of a message: of one that is not plain, and of one with bytes that are not ASCII, which may be no UTF-8."""
_BACKSLASH = 4
_OTHER, _REFUSED = -1, -2
"""Names that nobody asks for, and those that make a message odd."""
_DEEPEST, _LONGEST, _DIGITS, _OTHERS = 60, 1_000, 4, 64
"""The most levels within a value, bytes of a number, digits of an exponent, and names that nobody asks for."""
_AT_ONCE = 64
"""Bytes of a long text that are looked at in one step: fewer are no loop that becomes vector instructions."""
_SHORT = 16


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
def _skip_spaces(text: Bytes, at: int, end: int) -> int:
    while at < end and (text[at] == 32 or text[at] == 10 or text[at] == 13 or text[at] == 9):
        at += 1
    return at


@kernel
def _skip_space(text: Bytes, at: int, end: int) -> int:
    """The next byte that is no space, or the end; a look at most times, and no call."""
    return _skip_spaces(text, at, end) if text[at] <= 32 else at


@inner_kernel
def _is_hexadecimal(text: Bytes, at: int) -> bool:
    for place in range(at, at + 4):
        byte = text[place]
        if not (48 <= byte <= 57 or 65 <= byte <= 70 or 97 <= byte <= 102):
            return False
    return True


@inner_kernel
def _end_text(text: Bytes, at: int) -> tuple[int, int]:
    """The closing quote of a text and what was in it; -1 for none. at: the byte behind the opening one."""
    marks = 0
    left = _SHORT
    while True:
        byte = text[at]
        if byte == 34:
            return at, marks
        if byte == 92:
            marks |= _BACKSLASH
            letter = text[at + 1]
            if letter == 117:
                if not _is_hexadecimal(text, at + 2):
                    return -1, marks
                at += 6
            elif (
                letter == 34
                or letter == 92
                or letter == 47
                or letter == 98
                or letter == 102
                or letter == 110
                or letter == 114
                or letter == 116
            ):
                at += 2
            else:
                return -1, marks
            continue
        if byte < 32:
            return -1, marks
        if byte >= 128:
            marks |= HIGH
        at += 1
        left -= 1
        if left == 0:
            # A long text: many bytes in one step, as long as none of them means anything.
            left = _SHORT
            is_plain = True
            while is_plain:
                for place in range(_AT_ONCE):
                    byte = text[at + place]
                    is_plain &= (byte != 34) & (byte != 92) & (byte >= 32) & (byte < 128)
                if is_plain:
                    at += _AT_ONCE


@kernel
def _end_digits(text: Bytes, at: int) -> int:
    while 48 <= text[at] <= 57:
        at += 1
    return at


@inner_kernel
def _end_number(text: Bytes, at: int) -> tuple[int, int]:
    """The byte behind a number, and its kind; -1 for none, or for one that is too long for some reader."""
    first = at
    if text[at] == 45:
        at += 1
    if text[at] == 48:
        at += 1
    else:
        digits = at
        at = _end_digits(text, at)
        # A digit is needed, and a number does not begin with a 0 that another follows.
        if at == digits:
            return -1, WHOLE
    kind = WHOLE
    if text[at] == 46:
        kind = NUMBER
        digits = at + 1
        at = _end_digits(text, digits)
        if at == digits:
            return -1, kind
    if text[at] == 101 or text[at] == 69:
        kind = NUMBER
        at += 1
        if text[at] == 43 or text[at] == 45:
            at += 1
        digits = at
        at = _end_digits(text, at)
        if at == digits or at - digits > _DIGITS:
            return -1, kind
    if at - first > _LONGEST:
        return -1, kind
    return at, kind


@inner_kernel
def _end_scalar(text: Bytes, at: int) -> tuple[int, int, int]:
    """The byte behind a value that is no object and no array, its kind, and the marks of a text; -1 for none."""
    byte = text[at]
    if byte == 34:
        end, marks = _end_text(text, at + 1)
        if end < 0:
            return -1, TEXT, 0
        return end + 1, ESCAPED if marks & _BACKSLASH else TEXT, marks
    if byte == 45 or 48 <= byte <= 57:
        end, kind = _end_number(text, at)
        return end, kind, 0
    if byte == 116:
        is_word = text[at + 1] == 114 and text[at + 2] == 117 and text[at + 3] == 101
        return at + 4 if is_word else -1, TRUE, 0
    if byte == 110:
        is_word = text[at + 1] == 117 and text[at + 2] == 108 and text[at + 3] == 108
        return at + 4 if is_word else -1, NULL, 0
    if byte == 102:
        is_word = text[at + 1] == 97 and text[at + 2] == 108 and text[at + 3] == 115
        return at + 5 if is_word and text[at + 4] == 101 else -1, FALSE, 0
    return -1, NULL, 0


@inner_kernel
def _begin_value(text: Bytes, at: int, end: int) -> tuple[int, int]:
    """The value behind a name and its colon, and the marks of the name; -1 for none. at: the name's quote."""
    if text[at] != 34:
        return -1, 0
    behind, marks = _end_text(text, at + 1)
    if behind < 0:
        return -1, 0
    at = _skip_space(text, behind + 1, end)
    if text[at] != 58:
        return -1, 0
    return _skip_space(text, at + 1, end), marks


@inner_kernel
def _end_nested(text: Bytes, at: int, end: int) -> tuple[int, int]:
    """The byte behind an object or an array, and the marks of its texts; -1 for none."""
    # A bit for each level, 1 of an object.
    levels = 0
    depth = 0
    marks = 0
    while True:
        byte = text[at]
        if byte == 123 or byte == 91:
            is_object = byte == 123
            depth += 1
            if depth > _DEEPEST:
                return -1, 0
            levels = levels * 2 + (1 if is_object else 0)
            at = _skip_space(text, at + 1, end)
            if text[at] != (125 if is_object else 93):
                if is_object:
                    at, own = _begin_value(text, at, end)
                    if at < 0:
                        return -1, 0
                    marks |= own
                continue
        else:
            at, _, own = _end_scalar(text, at)
            if at < 0:
                return -1, 0
            marks |= own
            at = _skip_space(text, at, end)
        while True:
            # Behind a value, or at the end of what is empty.
            is_object = levels & 1 == 1
            if text[at] == 44:
                at = _skip_space(text, at + 1, end)
                if is_object:
                    at, own = _begin_value(text, at, end)
                    if at < 0:
                        return -1, 0
                    marks |= own
                break
            if text[at] != (125 if is_object else 93):
                return -1, 0
            at += 1
            depth -= 1
            levels >>= 1
            if depth == 0:
                return at, marks
            at = _skip_space(text, at, end)


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
    at = _skip_space(text, start, end)
    if at >= end or text[at] != 123:
        return ODD
    at = _skip_space(text, at + 1, end)
    is_open = text[at] != 125
    while is_open:
        first = at + 1
        at, own = _begin_value(text, at, end)
        if at < 0 or own & _BACKSLASH:
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
            at, own = _end_nested(text, at, end)
        else:
            at, kind, own = _end_scalar(text, at)
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
        at = _skip_space(text, at, end)
        is_open = text[at] == 44
        if is_open:
            at = _skip_space(text, at + 1, end)
        elif text[at] != 125:
            return ODD
    # One object, and nothing behind it.
    at = _skip_space(text, at + 1, end)
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
