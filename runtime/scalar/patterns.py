"""Patterns: what a regular expression finds in texts, and the pieces between separators."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.scalar.values import Value, apply_to_arrays
from aggloom.runtime.storage.arena import ByteArray, NumberArray
from aggloom.runtime.storage.jit import kernel, part
from aggloom.runtime.values import scalars
from aggloom.runtime.values.columns import from_bytes, text_bytes


def extract_group(value: Value, pattern: str) -> Value:
    """Return the text of the group `found` of a pattern in the first match; an empty text if nothing matches."""
    groups = pc.struct_field(pc.extract_regex(value, pattern), "found")
    return pc.if_else(pc.is_valid(value), pc.coalesce(groups, pa.scalar("")), value)


def split_part(value: Value, separator: str, number: int) -> Value:
    """The n-th piece between separators, from the end if n is negative; an empty text if there are not so many."""
    letters = np.frombuffer(separator.encode(), np.uint8)

    def choose_piece(texts: pa.Array) -> pa.Array:
        if not len(texts):
            return texts
        data, ends = text_bytes(texts)
        starts, offsets = np.empty(len(texts), np.int64), np.zeros(len(texts) + 1, np.int64)
        _find_pieces(data, ends, letters, number, starts, offsets)
        pieces = np.empty(int(offsets[-1]), np.uint8)
        _copy_pieces(data, starts, offsets, pieces)
        return from_bytes(offsets, pieces, scalars.validity(texts), texts.type)

    return apply_to_arrays(choose_piece, value)


@part
def _find_separator(data: ByteArray, at: int, stop: int, separator: ByteArray) -> int:
    """The place of the next separator (uint8[m]) in some bytes of uint8[size]; their end if there is none.

    Bytes of UTF-8 stand for themselves: no character begins within another.
    """
    first, length = separator[0], len(separator)
    place = at
    while place + length <= stop:
        if data[place] == first:
            same = 1
            while same < length and data[place + same] == separator[same]:
                same += 1
            if same == length:
                return place
        place += 1
    return stop


@kernel
def _find_pieces(
    data: ByteArray,
    ends: NumberArray,
    separator: ByteArray,
    number: int,
    starts: NumberArray,
    offsets: NumberArray,
) -> None:
    """Note where the n-th piece of each text (uint8[size], int64[n + 1]) begins (int64[n]), and the lengths' sums."""
    length = len(separator)
    for row in range(len(starts)):
        at, stop = ends[row], ends[row + 1]
        before = number - 1
        if number < 0:
            # Counted from the front: a search from the end would find others where a separator overlaps itself.
            pieces, place = 1, _find_separator(data, at, stop, separator)
            while place < stop:
                pieces += 1
                place = _find_separator(data, place + length, stop, separator)
            before = pieces + number
        piece_end = _find_separator(data, at, stop, separator) if before >= 0 else at
        while before > 0 and piece_end < stop:
            at = piece_end + length
            piece_end = _find_separator(data, at, stop, separator)
            before -= 1
        if before != 0:
            piece_end = at
        starts[row] = at
        offsets[row + 1] = offsets[row] + piece_end - at


@kernel
def _copy_pieces(
    data: ByteArray, starts: NumberArray, offsets: NumberArray, pieces: ByteArray
) -> None:
    """Put pieces, which begin at int64[n] of uint8[size], side by side, where int64[n + 1] says."""
    for row in range(len(starts)):
        start, at = starts[row], offsets[row]
        for place in range(offsets[row + 1] - at):
            pieces[at + place] = data[start + place]
