"""Values of JSON in memory as whole numbers and texts: kernels over the places that a scan has noted."""

from __future__ import annotations

from typing import Final

import numpy as np

from aggloom.runtime.formats.json_tokens import ESCAPED
from aggloom.runtime.formats.texts import Bytes, Words
from aggloom.runtime.storage.arena import FlagArray
from aggloom.runtime.storage.jit import inner_kernel, kernel

_LAST_TENTH: Final = -922337203685477580
"""The smallest number of 64 bits, without its last digit, which is 8."""


@kernel
def parse_numbers(
    text: Bytes, firsts: Words, lasts: Words, mask: FlagArray, out: Words, fits: FlagArray
) -> None:
    """Whole numbers out of their digits; fits: bool[n], set where one is no number of 64 bits."""
    for number in range(len(firsts)):
        if not mask[number]:
            continue
        at, last = firsts[number], lasts[number]
        is_negative = text[at] == 45
        if is_negative:
            at += 1
        # Below zero there is one number more than above.
        value = np.int64(0)
        fits[number] = last - at < 20
        while at < last and fits[number]:
            digit = np.int64(text[at]) - 48
            if value < _LAST_TENTH or (value == _LAST_TENTH and digit > 8):
                fits[number] = False
            value = value * 10 - digit
            at += 1
        if not is_negative:
            if value == _LAST_TENTH * 10 - 8:
                fits[number] = False
            value = -value
        out[number] = value


@inner_kernel
def _read_unit(text: Bytes, at: int) -> int:
    """The number behind a backslash and a u."""
    unit = int(np.int64(0))
    for place in range(at + 2, at + 6):
        byte = int(np.int64(text[place]))
        unit = unit * 16 + (byte - 48 if byte <= 57 else (byte | 32) - 87)
    return unit


@inner_kernel
def _read_character(text: Bytes, at: int, last: int) -> tuple[int, int]:
    """The character that an escape stands for, and the byte behind it; -1 for half of a pair. at: the backslash."""
    letter = int(np.int64(text[at + 1]))
    if letter == 117:
        unit = _read_unit(text, at)
        at += 6
        if 0xD800 <= unit < 0xE000:
            if unit >= 0xDC00 or at + 6 > last or text[at] != 92 or text[at + 1] != 117:
                return -1, at
            low = _read_unit(text, at)
            if low < 0xDC00 or low > 0xDFFF:
                return -1, at
            return 0x10000 + ((unit - 0xD800) << 10) + low - 0xDC00, at + 6
        return unit, at
    if letter == 98:
        letter = 8
    elif letter == 102:
        letter = 12
    elif letter == 110:
        letter = 10
    elif letter == 114:
        letter = 13
    elif letter == 116:
        letter = 9
    return letter, at + 2


@kernel
def measure_texts(
    text: Bytes, firsts: Words, lasts: Words, kinds: Bytes, mask: FlagArray, sizes: Words
) -> None:
    """The bytes of texts without their escapes; -1 of one with half of a pair, 0 of those that no mask has."""
    for number in range(len(firsts)):
        sizes[number] = 0
        if not mask[number]:
            continue
        at, last = firsts[number], lasts[number]
        if kinds[number] != ESCAPED:
            sizes[number] = last - at
            continue
        size = 0
        while at < last:
            if text[at] != 92:
                size += 1
                at += 1
                continue
            code, at = _read_character(text, at, last)
            if code < 0:
                size = -1
                break
            # As many as UTF-8 takes, which is never more than the escape.
            size += 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4
        sizes[number] = size


@kernel
def copy_texts(
    text: Bytes, firsts: Words, lasts: Words, kinds: Bytes, offsets: Words, out: Bytes
) -> None:
    """Texts without their escapes, one behind the other. offsets: int64[n + 1], none where one has no bytes."""
    for number in range(len(firsts)):
        start, end = offsets[number], offsets[number + 1]
        first, last = firsts[number], lasts[number]
        if start == end:
            continue
        # Most texts have no escape: a loop that becomes vector instructions.
        if kinds[number] != ESCAPED:
            for place in range(end - start):
                out[start + place] = text[first + place]
            continue
        while first < last:
            byte = np.int64(text[first])
            if byte != 92:
                out[start] = byte
                start += 1
                first += 1
                continue
            code, first = _read_character(text, first, last)
            if code < 0x80:
                out[start] = code
                start += 1
                continue
            if code < 0x800:
                out[start] = 0xC0 | code >> 6
            elif code < 0x10000:
                out[start] = 0xE0 | code >> 12
            else:
                out[start] = 0xF0 | code >> 18
                start += 1
                out[start] = 0x80 | code >> 12 & 0x3F
            if code >= 0x800:
                start += 1
                out[start] = 0x80 | code >> 6 & 0x3F
            start += 1
            out[start] = 0x80 | code & 0x3F
            start += 1
