"""Arrow columns to words and numbers, and back.

A *word* is 64 bits that stand for a value of any type, equal exactly when the values are, and sorting as they do.
Pooled types (STRING, BINARY, DECIMAL over 18 digits, ARRAY, STRUCT) sort by the bytes behind the id. Keys, DISTINCT,
MIN, MAX, FIRST and LAST work on words. A *number* is what sums work on: int64, float64, or 128 bits as (low, high).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import TypeMismatchError
from aggloom.physical import is_nested, is_pooled, is_wide_decimal
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import Pool

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
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def _buffer(column: pa.Array, dtype: Any, width: int = 1) -> Array:
    data = np.frombuffer(column.buffers()[1], dtype)
    return data[column.offset * width : (column.offset + len(column)) * width]


@kernel
def _take(source: Array, rows: Array, out: Array) -> None:
    for k in range(len(rows)):
        out[k] = source[rows[k]]


def take(source: Array, rows: Array) -> Array:
    """The rows of an array, in this order."""
    if source.ndim > 1 or not len(source):
        return np.asarray(source[rows])
    out = np.empty(len(rows), source.dtype)
    _take(source, rows, out)
    return out


def is_own_word(column: pa.Array) -> bool:
    """Whether the words of a column are its numbers."""
    return bool(pa.types.is_integer(column.type)) and column.null_count == 0


def float_words(values: Array) -> Array:
    """Doubles as words: NaN above infinity, -0.0 as 0.0."""
    clean = values + 0.0
    clean[np.isnan(clean)] = np.nan
    bits = clean.view(np.int64)
    return np.asarray(bits ^ ((bits >> 63) & _SIGN))


def words_to_floats(words: Array) -> Array:
    return np.asarray((words ^ ((words >> 63) & _SIGN)).view(np.float64))


def words(column: pa.Array, pool: Pool) -> tuple[Array, Array]:
    """(words, validity) of a column; the word of a null is 0."""
    valid = validity(column)
    if not is_pooled(column.type):
        return scalar_words(column), valid
    if len(column) == 0:
        return np.zeros(0, np.int64), valid
    data, offsets = _pool_bytes(column)
    return pool.intern_column(data, offsets, valid), valid


def scalar_words(column: pa.Array) -> Array:
    """The words of a column of a type that is not pooled."""
    dtype = column.type
    out: Array
    if len(column) == 0:
        return np.zeros(0, np.int64)
    if pa.types.is_decimal(dtype):
        out = _buffer(column, np.int64, 2)[::2].copy()
    elif pa.types.is_floating(dtype):
        out = float_words(_buffer(column, dtype.to_pandas_dtype()).astype(np.float64))
    elif pa.types.is_boolean(dtype):
        out = column.cast(pa.uint8()).fill_null(0).to_numpy().astype(np.int64)
    else:
        out = _buffer(column, carrier(dtype).to_pandas_dtype()).astype(np.int64)
    if column.null_count:
        out[~validity(column)] = 0
    return out


def wide_bytes(column: pa.Array) -> Array:
    """A wide decimal's values as rows of 16 bytes that sort as they do."""
    raw = _buffer(column, np.uint8, 16).reshape(-1, 16)[:, ::-1].copy()
    raw[:, 0] ^= 0x80
    return raw


def _pool_bytes(column: pa.Array) -> tuple[Array, Array]:
    """(bytes, offsets) of what the pool holds for each value."""
    if is_wide_decimal(column.type):
        return wide_bytes(column).reshape(-1), np.arange(len(column) + 1, dtype=np.int64) * 16
    if is_nested(column.type):
        # Rows are made of words: importing them at the top would be a circle.
        from aggloom.runtime.values.rows import encode_values

        column = encode_values(column)
    _, offset_buffer, data = column.buffers()
    ends = np.frombuffer(offset_buffer, np.int32)[column.offset : column.offset + len(column) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return raw, ends.astype(np.int64)


def numbers(column: pa.Array) -> tuple[Array, Array, Array]:
    """(low, high, validity): high is used by 128-bit arguments only and empty otherwise; nulls hold anything."""
    dtype = column.type
    valid = validity(column)
    none = np.zeros(0, np.int64)
    if len(column) == 0:
        empty = np.zeros(0, np.float64 if pa.types.is_floating(dtype) else np.int64)
        return empty, none, valid
    if pa.types.is_decimal(dtype):
        limbs = _buffer(column, np.int64, 2)
        return limbs[::2].copy(), limbs[1::2].copy(), valid
    if pa.types.is_floating(dtype):
        return _buffer(column, dtype.to_pandas_dtype()).astype(np.float64), none, valid
    low = _buffer(column, dtype.to_pandas_dtype()).astype(np.int64)
    return low, low >> 63 if dtype == pa.int64() else none, valid


def reals(column: pa.Array) -> Array:
    """A column of numbers as doubles; nulls hold anything."""
    dtype = column.type
    if len(column) == 0:
        return np.zeros(0, np.float64)
    if is_wide_decimal(dtype):
        low, high, _ = numbers(column)
        # By magnitude: -1 is 2**64 - 1 above -2**64, which no double tells from 0.
        negative = high < 0
        low = np.where(negative, -low, low).view(np.uint64)
        high = np.where(negative, ~high + (low == 0), high).view(np.uint64)
        values = (high.astype(np.float64) * 2.0**64 + low.astype(np.float64)) / 10.0**dtype.scale
        return np.asarray(np.where(negative, -values, values))
    if pa.types.is_decimal(dtype):
        return np.asarray(_buffer(column, np.int64, 2)[::2].astype(np.float64) / 10.0**dtype.scale)
    return np.asarray(_buffer(column, dtype.to_pandas_dtype()).astype(np.float64))


def flags(column: pa.Array) -> Array:
    """A BOOLEAN column as a filter: null counts as false."""
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False))


def from_words(out: Array, valid: Array, dtype: pa.DataType, pool: Pool) -> pa.Array:
    """Words back to an Arrow column."""
    if not is_pooled(dtype):
        return from_scalar_words(out, valid, dtype)
    offsets, data = pool.gather(out, valid)
    if is_wide_decimal(dtype):
        raw = np.zeros((len(out), 16), np.uint8)
        raw[valid] = data.reshape(-1, 16)
        return from_wide_bytes(raw, valid, dtype)
    buffers = [bitmap(valid), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    if is_nested(dtype):
        from aggloom.runtime.values.rows import decode_values

        return decode_values(pa.Array.from_buffers(pa.binary(), len(out), buffers), dtype)
    return pa.Array.from_buffers(dtype, len(out), buffers)


def from_scalar_words(out: Array, valid: Array, dtype: pa.DataType) -> pa.Array:
    """Words of a type that is not pooled, back to a column."""
    if pa.types.is_decimal(dtype):
        return from_limbs(np.stack([out, out >> 63], axis=1), valid, dtype)
    if pa.types.is_floating(dtype):
        return from_floats(words_to_floats(out), valid, dtype)
    if pa.types.is_boolean(dtype):
        return pa.array(out.astype(np.bool_), mask=~valid)
    data = out.astype(carrier(dtype).to_pandas_dtype(), copy=not out.flags.owndata)
    return pa.Array.from_buffers(dtype, len(out), [bitmap(valid), pa.py_buffer(data)])


def from_wide_bytes(raw: Array, valid: Array, dtype: pa.DataType) -> pa.Array:
    """Rows of 16 bytes, as `wide_bytes` gives them, back to DECIMAL."""
    data = raw[:, ::-1].copy()
    data[:, 15] ^= 0x80
    return pa.Array.from_buffers(dtype, len(raw), [bitmap(valid), pa.py_buffer(data)])


def from_floats(out: Array, valid: Array, dtype: pa.DataType) -> pa.Array:
    data = out.astype(dtype.to_pandas_dtype())
    return pa.Array.from_buffers(dtype, len(out), [bitmap(valid), pa.py_buffer(data)])


def from_limbs(out: Array, valid: Array, dtype: pa.DataType) -> pa.Array:
    """(n, 2) low and high limbs to DECIMAL."""
    data = pa.py_buffer(np.ascontiguousarray(out, np.int64))
    return pa.Array.from_buffers(dtype, len(out), [bitmap(valid), data])


def bitmap(valid: Array) -> pa.Buffer | None:
    """Validity as Arrow keeps it: none if all are valid."""
    if valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
