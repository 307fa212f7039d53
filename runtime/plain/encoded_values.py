"""Columns as words of the plain backend, Python values that are equal and ordered as in SQL, and back."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.plain.values import real_word, word_to_float
from aggloom.runtime.values import rows, scalars
from aggloom.type_layout import is_nested, is_text


def python_words(column: pa.Array) -> list[Any]:
    """The words of a column; None for NULL."""
    dtype = column.type
    if pa.types.is_decimal(dtype):
        shift = dtype.scale
        # Integers at the declared scale: 1.0 and 1.00 are one value, as in SQL.
        return [None if v is None else _unscale(v, shift) for v in column.to_pylist()]
    if is_text(dtype) or pa.types.is_boolean(dtype):
        return list(column.to_pylist())
    if pa.types.is_floating(dtype):
        # Doubles become words, since Python's own NaN is equal to nothing and sorts anywhere.
        return [None if v is None else real_word(v) for v in column.to_pylist()]
    if is_nested(dtype):
        return list(rows.encode_values(column).to_pylist())
    # Dates and times as the whole numbers of Arrow: Python's objects lack some values of SQL.
    return list(column.view(scalars.carrier(dtype)).to_pylist())


def _unscale(value: Decimal, scale: int) -> int:
    # From the digits and not by a product, which Python's decimal context would round to 28 digits.
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits))) * 10 ** (scale + int(exponent))
    return -number if sign else number


def from_python_words(values: list[Any], dtype: pa.DataType) -> pa.Array:
    """The column of some words."""
    if pa.types.is_decimal(dtype):
        # Two's complement in two words: for Python's `>>` and `&` a negative number has ones without end.
        mask = (1 << 64) - 1
        limbs = np.zeros((len(values), 2), np.uint64)
        for k, v in enumerate(values):
            if v is not None:
                limbs[k] = (v & mask, (v >> 64) & mask)
        valid = np.array([v is not None for v in values], np.bool_)
        return scalars.from_limbs(limbs.view(np.int64), valid, dtype)
    if pa.types.is_floating(dtype):
        floats = [None if v is None else word_to_float(v) for v in values]
        return pa.array(floats, pa.float64()).cast(dtype)
    if is_text(dtype) or pa.types.is_boolean(dtype):
        return pa.array(values, dtype)
    if is_nested(dtype):
        return rows.decode_values(pa.array(values, pa.binary()), dtype)
    return pa.array(values, scalars.carrier(dtype)).view(dtype)
