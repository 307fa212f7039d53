"""Patterns: what a regular expression finds in texts, and the pieces between separators."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.scalar.values import Value, whole


def extract_group(value: Value, pattern: str) -> Value:
    """Return the text of the group `found` of a pattern in the first match; an empty text if nothing matches."""
    groups = pc.struct_field(pc.extract_regex(value, pattern), "found")
    return pc.if_else(pc.is_valid(value), pc.coalesce(groups, pa.scalar("")), value)


def split_part(value: Value, separator: str, number: int) -> Value:
    """The n-th piece between separators, from the end if n is negative; an empty text if there are not so many."""

    def choose_piece(texts: pa.Array) -> pa.Array:
        pieces = pc.split_pattern(texts, separator)
        bounds = pieces.offsets.to_numpy()
        begin, end = bounds[:-1], bounds[1:]
        place = begin + number - 1 if number > 0 else end + number
        there = (place >= begin) & (place < end)
        piece = pieces.values.take(pa.array(place, pa.int64(), mask=~there))
        return pc.if_else(texts.is_valid(), pc.coalesce(piece, pa.scalar("")), texts)

    return whole(choose_piece, value)
