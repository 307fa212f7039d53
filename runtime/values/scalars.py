"""Arrow columns of one fixed width to words and bytes, and back: what needs no pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.errors import TypeMismatchError
from aggloom.runtime.storage.arena import Array, FlagArray, FloatArray, WordArray

_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


def carrier(dtype: pa.DataType) -> pa.DataType:
    """The Arrow integer type with the bits of a fixed-width, non-float, non-decimal type."""
    if pa.types.is_boolean(dtype):
        return pa.uint8()
    if pa.types.is_integer(dtype):
        return dtype
    if pa.types.is_date32(dtype) or pa.types.is_time32(dtype):
        return pa.int32()
    if pa.types.is_timestamp(dtype) or pa.types.is_time64(dtype) or pa.types.is_duration(dtype):
        return pa.int64()
    raise TypeMismatchError(
        f"type {dtype} cannot be a key or an argument; cast the column to a scalar type first"
    )


def validity(column: pa.Array) -> Array:
    """True where the column is not null."""
    if column.null_count == 0:
        return np.ones(len(column), np.bool_)
    return truths(column.is_valid())


def truths(column: pa.Array) -> Array:
    """The values of a BOOLEAN column without NULLs (bool[n]); `to_numpy` would import pandas the first time."""
    if not len(column):
        return np.empty(0, np.bool_)
    end = column.offset + len(column)
    bits = np.frombuffer(column.buffers()[1], np.uint8)
    # Unpacked from the first byte on, since a slice may begin in the middle of one.
    return np.unpackbits(bits, count=end, bitorder="little")[column.offset :].view(np.bool_)


def buffer_of(column: pa.Array, dtype: Any, width: int = 1) -> Array:
    """The values of a column of fixed width as they lie in memory; `to_numpy` would import pandas the first time."""
    data = column.buffers()[1]
    if data is None:
        return np.empty(0, dtype)
    return np.frombuffer(data, dtype)[column.offset * width : (column.offset + len(column)) * width]


def float_words(values: FloatArray) -> Array:
    """Doubles as words: NaN above infinity, -0.0 as 0.0."""
    # As in SQL's grouping: -0.0 is 0.0, and one NaN is all NaNs.
    clean = values + 0.0
    clean[np.isnan(clean)] = np.nan
    bits = clean.view(np.int64)
    return np.asarray(bits ^ ((bits >> 63) & _SIGN))


def words_to_floats(words: WordArray) -> Array:
    return np.asarray((words ^ ((words >> 63) & _SIGN)).view(np.float64))


def scalar_words(column: pa.Array) -> Array:
    """The words of a column of a type that is not pooled."""
    dtype = column.type
    out: Array
    if len(column) == 0:
        return np.zeros(0, np.int64)
    if pa.types.is_decimal(dtype):
        # The lower of two halves: a decimal of at most 18 digits fits into it, sign included.
        out = buffer_of(column, np.int64, 2)[::2].copy()
    elif pa.types.is_floating(dtype):
        out = float_words(buffer_of(column, dtype.to_pandas_dtype()).astype(np.float64))
    elif pa.types.is_boolean(dtype):
        out = column.cast(pa.uint8()).fill_null(0).to_numpy().astype(np.int64)
    else:
        out = buffer_of(column, carrier(dtype).to_pandas_dtype()).astype(np.int64)
    if column.null_count:
        # The word of a null is 0 everywhere, so that equal rows have equal words.
        out[~validity(column)] = 0
    return out


def wide_bytes(column: pa.Array) -> Array:
    """A wide decimal's values as rows of 16 bytes that sort as they do."""
    # The highest byte first, with the sign bit flipped: bytes then sort as the numbers do.
    raw = buffer_of(column, np.uint8, 16).reshape(-1, 16)[:, ::-1].copy()
    raw[:, 0] ^= 0x80
    return raw


def from_scalar_words(
    out: WordArray, valid: FlagArray, dtype: pa.DataType, *, fresh: bool = False
) -> pa.Array:
    """Words of a type that is not pooled, back to a column. fresh: nobody writes to `out` any more."""
    if pa.types.is_decimal(dtype):
        return from_limbs(np.stack([out, out >> 63], axis=1), valid, dtype)
    if pa.types.is_floating(dtype):
        return from_floats(words_to_floats(out), valid, dtype)
    if pa.types.is_boolean(dtype):
        return pa.array(out.astype(np.bool_), mask=~valid)
    # Arrow keeps the array alive but not its contents: one that somebody still writes to is copied.
    data = out.astype(carrier(dtype).to_pandas_dtype(), copy=not (fresh or out.flags.owndata))
    return pa.Array.from_buffers(dtype, len(out), [bitmap(valid), pa.py_buffer(data)])


def from_wide_bytes(raw: Array, valid: FlagArray, dtype: pa.DataType) -> pa.Array:
    """Turn rows of 16 bytes, as `wide_bytes` gives them, back into DECIMAL; raw: uint8[n, 16]."""
    data = raw[:, ::-1].copy()
    data[:, 15] ^= 0x80
    return pa.Array.from_buffers(dtype, len(raw), [bitmap(valid), pa.py_buffer(data)])


def from_places(places: Array) -> pa.Array:
    """Turn places of rows (int64[n]) into Arrow's, for `take`; `pa.array` would import pandas the first time."""
    return pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)])


def from_floats(out: FloatArray, valid: FlagArray, dtype: pa.DataType) -> pa.Array:
    data = out.astype(dtype.to_pandas_dtype())
    return pa.Array.from_buffers(dtype, len(out), [bitmap(valid), pa.py_buffer(data)])


def from_limbs(out: Array, valid: FlagArray, dtype: pa.DataType) -> pa.Array:
    """Turn low and high limbs into DECIMAL; out: int64[n, 2]."""
    data = pa.py_buffer(np.ascontiguousarray(out, np.int64))
    return pa.Array.from_buffers(dtype, len(out), [bitmap(valid), data])


def bitmap(valid: FlagArray) -> pa.Buffer | None:
    """Validity as Arrow keeps it: none if all are valid."""
    if valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
