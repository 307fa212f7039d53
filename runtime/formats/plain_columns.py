"""Columns of a block: the values of a field of many objects, as those of the column's type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from aggloom.runtime.formats.base import FormatSettings
from aggloom.runtime.formats.json_fields import FieldValues
from aggloom.runtime.formats.json_text import DECODER
from aggloom.runtime.formats.json_tokens import FALSE, NUMBER, TRUE, WHOLE
from aggloom.runtime.formats.values import WRONG, Reader
from aggloom.runtime.storage.arena import FlagArray
from aggloom.runtime.values.scalars import bitmap, from_floats, from_scalar_words


class PlainColumns:
    """The columns of a table; plain: the readers of values whose schema says no more."""

    def __init__(self, settings: FormatSettings, plain: Sequence[Reader]) -> None:
        self.fields, self._plain = list(settings.columns), list(plain)

    def values(
        self, place: int, field: FieldValues, reader: Reader, left: FlagArray
    ) -> pa.Array | None:
        """The values of a column; None where they are none of Arrow's.

        left: bool[objects], set where a value is none of its type, or may be another than it seems.
        """
        dtype = self.fields[place].type
        mask = field.is_valid & ~left
        # Another reader knows from a schema what a number or a text means.
        if reader is self._plain[place]:
            if pt.is_signed_integer(dtype):
                return _whole_numbers(field, dtype, mask, left)
            if pt.is_string(dtype):
                return _texts(field, mask, left)
            if pt.is_boolean(dtype):
                return _truths(field, mask, left)
            if pt.is_floating(dtype):
                return _numbers(field, dtype, mask, left)
            if pt.is_decimal128(dtype):
                decimals = _decimals(field, dtype, mask)
                if decimals is not None:
                    return decimals
        return _read(field, dtype, reader, mask, left)


def _whole_numbers(
    field: FieldValues, dtype: pa.DataType, mask: FlagArray, left: FlagArray
) -> pa.Array:
    numbers, is_own = field.numbers(mask & (field.kinds == WHOLE))
    if dtype.bit_width < 64:
        limit = 1 << (dtype.bit_width - 1)
        is_own &= (numbers >= -limit) & (numbers < limit)
    left |= mask & ~is_own
    return from_scalar_words(numbers, is_own, dtype, fresh=True)


def _texts(field: FieldValues, mask: FlagArray, left: FlagArray) -> pa.Array:
    texts, is_own = field.texts(mask & field.is_text)
    left |= mask & ~is_own
    return texts


def _truths(field: FieldValues, mask: FlagArray, left: FlagArray) -> pa.Array:
    is_true = mask & (field.kinds == TRUE)
    is_own = is_true | mask & (field.kinds == FALSE)
    left |= mask & ~is_own
    values = pa.py_buffer(np.packbits(is_true, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(mask), [bitmap(is_own), values])


def _numbers(field: FieldValues, dtype: pa.DataType, mask: FlagArray, left: FlagArray) -> pa.Array:
    is_number = mask & ((field.kinds == WHOLE) | (field.kinds == NUMBER))
    written, _ = field.texts(is_number)
    values = np.zeros(len(mask), np.float64)
    values[is_number] = _doubles(written.drop_null())
    with np.errstate(over="ignore"):
        # What no FLOAT or no DOUBLE holds comes out infinite.
        own = values.astype(dtype.to_pandas_dtype())
    is_own = is_number & np.isfinite(own)
    # A whole number -0 is 0, and a number too small for any double has become 0.
    zeros = is_own & (values == 0)
    if zeros.any():
        whole = zeros & (field.kinds == WHOLE)
        values[whole] = 0.0
        own[whole] = 0.0
        rest = np.flatnonzero(zeros & ~whole)
        digits = pc.match_substring_regex(written.take(pa.array(rest)), "[1-9]").to_pylist()
        is_own[rest[np.array(digits, np.bool_)]] = False
    left |= mask & ~is_own
    return from_floats(own, is_own, dtype)


def _doubles(written: pa.Array) -> Any:
    """Numbers as they are written, as float64[n]."""
    try:
        return written.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        # One that no double holds.
        return [float(text) for text in written.to_pylist()]


def _decimals(field: FieldValues, dtype: pa.DataType, mask: FlagArray) -> pa.Array | None:
    """Numbers with so many digits; None where not all of them are, each of which its reader may take."""
    is_number = (field.kinds == WHOLE) | (field.kinds == NUMBER)
    if (mask & ~is_number).any():
        return None
    try:
        return field.texts(mask)[0].cast(dtype)
    except pa.ArrowInvalid:
        return None


def _read(
    field: FieldValues, dtype: pa.DataType, reader: Reader, mask: FlagArray, left: FlagArray
) -> pa.Array | None:
    """Values by their reader, one by one."""
    values: list[Any] = [None] * len(mask)
    # In their order: the unit of times is that of the first ones.
    for at, value in _objects(field, mask):
        try:
            values[at] = reader(value)
        except WRONG:
            left[at] = True
    try:
        return pa.array(values, dtype)
    except pa.ArrowException:
        return None


def _objects(field: FieldValues, mask: FlagArray) -> list[tuple[int, Any]]:
    """The places and values in a mask, as those of Python's that a reader takes, in their order."""
    values: list[Any] = [None] * len(mask)
    numbers, are_numbers = field.numbers(mask & (field.kinds == WHOLE))
    texts, are_texts = field.texts(mask & field.is_text)
    places = np.flatnonzero(mask).tolist()
    if are_numbers.any():
        whole = numbers.tolist()
        for at in np.flatnonzero(are_numbers).tolist():
            values[at] = whole[at]
    if are_texts.any():
        values = [
            value if text is None else text
            for value, text in zip(values, texts.to_pylist(), strict=True)
        ]
    for at in np.flatnonzero(mask & ~are_numbers & ~are_texts).tolist():
        written = field.text(at)
        if field.is_text[at]:
            # Half of a pair, which its reader refuses.
            written = f'"{written}"'
        values[at] = DECODER.decode(written)
    return [(at, values[at]) for at in places]
