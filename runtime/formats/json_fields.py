"""Fields of many objects at once, and their values as Arrow's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from aggloom.runtime.formats.json_scan import Fields, KnownNames, make_room, scan_objects
from aggloom.runtime.formats.json_tokens import ABSENT, ESCAPED, HIGH, NULL, ODD, TEXT
from aggloom.runtime.formats.json_values import copy_texts, measure_texts, parse_numbers
from aggloom.runtime.formats.texts import Bytes, Words
from aggloom.runtime.storage.arena import FlagArray
from aggloom.runtime.values.columns import from_bytes

_NEVER = b"\xff"
"""Bytes that no name has."""


def index_names(
    names: Sequence[str], refused: Sequence[str] | None = None, is_unique: bool = False
) -> KnownNames:
    """Names of fields as kernels take them; is_unique: whether no other name may be there twice.

    refused: names that make a message odd, in any case, as the others are found in any case; None: names in
    another case are other names.
    """
    exact, lower = [name.encode() for name in names], list[bytes]()
    if refused is not None:
        times = Counter(name.lower() for name in names)
        # Of columns that differ in case alone only the exact names count.
        lower = [name.lower().encode() if times[name.lower()] == 1 else _NEVER for name in names]
        lower += [name.lower().encode() for name in refused]
    is_ascii = all(name.isascii() for name in (*names, *(refused or ())))
    return KnownNames(*_pack(exact), *_pack(lower), is_unique, is_ascii)


def _pack(names: Sequence[bytes]) -> tuple[Bytes, Words]:
    bounds = np.cumsum([0, *map(len, names)], dtype=np.int64)
    return np.frombuffer(bytearray(b"".join(names)), np.uint8), bounds


def find_fields(
    buffer: Bytes, starts: Words, ends: Words, names: KnownNames, is_text: bool = False
) -> Fields:
    """The fields of the objects between some bytes. is_text: whether they are known to be UTF-8."""
    # Kernels make no arrays.
    others, fields = make_room(buffer, names, len(starts))
    scan_objects(starts, ends, names, others, fields)
    if not is_text:
        _check_characters(fields, starts, ends)
    return fields


def _check_characters(fields: Fields, starts: Words, ends: Words) -> None:
    """Mark the objects that are no UTF-8."""
    places = np.flatnonzero(fields.marks & HIGH)
    if not len(places):
        return
    bytes_of = memoryview(fields.buffer)  # type: ignore[arg-type]
    # Python's own check, which is strict; all at once, as bad bytes are rare.
    first, last = places[[0, -1]]
    if _is_text(bytes_of[int(starts[first]) : int(ends[last])]):
        return
    for at in places.tolist():
        if not _is_text(bytes_of[int(starts[at]) : int(ends[at])]):
            fields.marks[at] |= ODD


def _is_text(data: memoryview) -> bool:
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


class FieldValues:
    """One field of many objects.

    kinds: uint8[objects]. is_valid: bool[objects], of those that are there and not NULL.
    """

    def __init__(self, fields: Fields, place: int) -> None:
        self.buffer, self.kinds = fields.buffer, fields.kinds[place]
        self._firsts, self._lasts = fields.firsts[place], fields.lasts[place]

    @property
    def is_valid(self) -> FlagArray:
        """The objects that have a value there; bool[objects]."""
        return self.kinds > NULL

    @property
    def is_text(self) -> FlagArray:
        """The objects that have a text there; bool[objects]."""
        return (self.kinds == TEXT) | (self.kinds == ESCAPED)

    @property
    def is_absent(self) -> FlagArray:
        """The objects that do not have it; bool[objects]."""
        return self.kinds == ABSENT

    @property
    def letters(self) -> Bytes:
        """The texts of one byte; 0 of what is none. uint8[objects]."""
        is_letter = (self.kinds == TEXT) & (self._lasts - self._firsts == 1)
        letters: Bytes = np.where(is_letter, self.buffer[self._firsts], 0)
        return letters

    @property
    def spans(self) -> tuple[Words, Words]:
        """The first bytes of the values, and those behind them; int64[objects] each."""
        return self._firsts, self._lasts

    def numbers(self, mask: FlagArray) -> tuple[Words, FlagArray]:
        """Whole numbers, and which of those in a mask have 64 bits; 0 of the others."""
        out, fits = np.zeros(len(mask), np.int64), mask.copy()
        parse_numbers(self.buffer, self._firsts, self._lasts, mask, out, fits)
        return out, fits

    def texts(self, mask: FlagArray) -> tuple[pa.Array, FlagArray]:
        """Texts, or numbers as they are written, NULL where the mask has none; and which are whole characters.

        Raises DataError for more than 2 GiB.
        """
        sizes = np.zeros(len(mask), np.int64)
        measure_texts(self.buffer, self._firsts, self._lasts, self.kinds, mask, sizes)
        is_whole = mask & (sizes >= 0)
        offsets = np.zeros(len(mask) + 1, np.int64)
        np.cumsum(np.maximum(sizes, 0), out=offsets[1:])
        out = np.empty(int(offsets[-1]), np.uint8)
        copy_texts(self.buffer, self._firsts, self._lasts, self.kinds, offsets, out)
        return from_bytes(offsets, out, is_whole, pa.string()), is_whole

    def text(self, at: int) -> str:
        """One value as it is written."""
        return self.buffer[self._firsts[at] : self._lasts[at]].tobytes().decode()
