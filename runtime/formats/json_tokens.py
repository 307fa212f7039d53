"""The values of JSON as they lie in memory: where each ends, and its kind, by kernels.

A message is followed by the end of a line, which no value has within it, and by spare bytes. So no kernel leaves the
buffer.
"""

from __future__ import annotations

from aggloom.runtime.formats.texts import Bytes
from aggloom.runtime.storage.jit import inner_kernel, kernel

ABSENT, NULL, WHOLE, NUMBER, TEXT, ESCAPED, TRUE, FALSE, OBJECT, ARRAY = range(10)
"""Kinds of values: WHOLE of numbers without a point, ESCAPED of texts with a backslash."""
ODD, HIGH, BACKSLASH = 1, 2, 4
"""Marks: of a message that is not plain, of bytes that are not ASCII (maybe no UTF-8), of a backslash in a text."""
_DEEPEST, _LONGEST, _DIGITS = 60, 1_000, 4
"""The most levels within a value, bytes of a number, and digits of an exponent."""
_AT_ONCE = 64
"""Bytes of a long text that are looked at in one step: fewer are no loop that becomes vector instructions."""
_SHORT = 16


@inner_kernel
def _skip_spaces(text: Bytes, at: int, end: int) -> int:
    while at < end and (text[at] == 32 or text[at] == 10 or text[at] == 13 or text[at] == 9):
        at += 1
    return at


@kernel
def skip_space(text: Bytes, at: int, end: int) -> int:
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
            marks |= BACKSLASH
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
def end_scalar(text: Bytes, at: int) -> tuple[int, int, int]:
    """The byte behind a value that is no object and no array, its kind, and the marks of a text; -1 for none."""
    byte = text[at]
    if byte == 34:
        end, marks = _end_text(text, at + 1)
        if end < 0:
            return -1, TEXT, 0
        return end + 1, ESCAPED if marks & BACKSLASH else TEXT, marks
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
def begin_value(text: Bytes, at: int, end: int) -> tuple[int, int]:
    """The value behind a name and its colon, and the marks of the name; -1 for none. at: the name's quote."""
    if text[at] != 34:
        return -1, 0
    behind, marks = _end_text(text, at + 1)
    if behind < 0:
        return -1, 0
    at = skip_space(text, behind + 1, end)
    if text[at] != 58:
        return -1, 0
    return skip_space(text, at + 1, end), marks


@inner_kernel
def end_nested(text: Bytes, at: int, end: int) -> tuple[int, int]:
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
            at = skip_space(text, at + 1, end)
            if text[at] != (125 if is_object else 93):
                if is_object:
                    at, own = begin_value(text, at, end)
                    if at < 0:
                        return -1, 0
                    marks |= own
                continue
        else:
            at, _, own = end_scalar(text, at)
            if at < 0:
                return -1, 0
            marks |= own
            at = skip_space(text, at, end)
        while True:
            # Behind a value, or at the end of what is empty.
            is_object = levels & 1 == 1
            if text[at] == 44:
                at = skip_space(text, at + 1, end)
                if is_object:
                    at, own = begin_value(text, at, end)
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
            at = skip_space(text, at, end)
