"""Arrow columns to words and numbers, and back.

A *word* is 64 bits that stand for a value of any type, equal exactly when the values are, and sorting as they do.
Pooled types (STRING, BINARY, DECIMAL over 18 digits, ARRAY, STRUCT) sort by the bytes behind the id. Keys, DISTINCT,
MIN, MAX, FIRST and LAST work on words. A *number* is what sums work on: int64, float64, or 128 bits as (low, high).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from aggloom.errors import DataError
from aggloom.runtime.storage.arena import (
    Array,
    ByteArray,
    FlagArray,
    NumberArray,
    ValueArray,
    WordArray,
)
from aggloom.runtime.storage.audit import corrupt_snapshot
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values import scalars
from aggloom.runtime.values.rows import decode_values, encode_values
from aggloom.type_layout import is_nested, is_pooled, is_wide_decimal

_FARTHEST: Final = (1 << 31) - 1


@kernel
def _take(source: Array, rows: Array, out: Array) -> None:
    for k in range(len(rows)):
        out[k] = source[rows[k]]


def take(source: ValueArray, rows: NumberArray) -> Array:
    """The rows of an array, in this order."""
    # NumPy's own for matrices, and for an empty source, of which no row can be read.
    if source.ndim > 1 or not len(source):
        return np.asarray(source[rows])
    # A compiled loop, which checks no index: callers have computed them.
    out = np.empty(len(rows), source.dtype)
    _take(source, rows, out)
    return out


def is_own_word(column: pa.Array) -> bool:
    """Tell whether the words of a column are its numbers."""
    return bool(pa.types.is_integer(column.type)) and column.null_count == 0


def words(column: pa.Array, pool: Pool) -> tuple[Array, Array]:
    """(words, validity) of a column; the word of a null is 0."""
    valid = scalars.validity(column)
    if not is_pooled(column.type):
        return scalars.scalar_words(column), valid
    if len(column) == 0:
        return np.zeros(0, np.int64), valid
    data, offsets = text_bytes(column)
    return pool.intern_column(data, offsets, valid), valid


def text_bytes(column: pa.Array) -> tuple[Array, Array]:
    """(bytes, offsets) of what stands for the values of a pooled type: uint8[size], int64[n + 1]."""
    if is_wide_decimal(column.type):
        return (
            scalars.wide_bytes(column).reshape(-1),
            np.arange(len(column) + 1, dtype=np.int64) * 16,
        )
    if is_nested(column.type):
        column = encode_values(column)
    _, offset_buffer, data = column.buffers()
    # The buffers of a slice are those of the whole column: its own ends begin at the offset.
    ends = np.frombuffer(offset_buffer, np.int32)[column.offset : column.offset + len(column) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return raw, ends.astype(np.int64)


def numbers(column: pa.Array) -> tuple[Array, Array, Array]:
    """(low, high, validity): high is used by 128-bit arguments only and empty otherwise; nulls hold anything."""
    dtype = column.type
    valid = scalars.validity(column)
    none = np.zeros(0, np.int64)
    if len(column) == 0:
        empty = np.zeros(0, np.float64 if pa.types.is_floating(dtype) else np.int64)
        return empty, none, valid
    if pa.types.is_decimal(dtype):
        limbs = scalars.buffer_of(column, np.int64, 2)
        # Copies, so that kernels get arrays without gaps.
        return limbs[::2].copy(), limbs[1::2].copy(), valid
    if pa.types.is_floating(dtype):
        return scalars.buffer_of(column, dtype.to_pandas_dtype()).astype(np.float64), none, valid
    low = scalars.buffer_of(column, dtype.to_pandas_dtype()).astype(np.int64)
    # The upper half of a 64-bit number is its sign: sums of them need 128 bits from the first row on.
    return low, low >> 63 if dtype == pa.int64() else none, valid


def reals(column: pa.Array) -> Array:
    """A column of numbers as doubles; nulls hold anything."""
    dtype = column.type
    if len(column) == 0:
        return np.zeros(0, np.float64)
    if is_wide_decimal(dtype):
        low, high, _ = numbers(column)
        # By magnitude: -1 is 2**64 - 1 above -2**64, which no double distinguishes from 0.
        negative = high < 0
        low = np.where(negative, -low, low).view(np.uint64)
        high = np.where(negative, ~high + (low == 0), high).view(np.uint64)
        values = (high.astype(np.float64) * 2.0**64 + low.astype(np.float64)) / 10.0**dtype.scale
        return np.asarray(np.where(negative, -values, values))
    if pa.types.is_decimal(dtype):
        return np.asarray(
            scalars.buffer_of(column, np.int64, 2)[::2].astype(np.float64) / 10.0**dtype.scale
        )
    return np.asarray(scalars.buffer_of(column, dtype.to_pandas_dtype()).astype(np.float64))


def flags(column: pa.Array) -> Array:
    """A BOOLEAN column as a filter: null counts as false."""
    return scalars.truths(column.fill_null(False) if column.null_count else column)


def from_words(out: WordArray, valid: FlagArray, dtype: pa.DataType, pool: Pool) -> pa.Array:
    """Words back to an Arrow column."""
    if not is_pooled(dtype):
        return scalars.from_scalar_words(out, valid, dtype)
    offsets, data = pool.gather(out, valid)
    return from_bytes(offsets, data, valid, dtype)


def from_bytes(
    offsets: NumberArray, data: ByteArray, valid: FlagArray, dtype: pa.DataType
) -> pa.Array:
    """The bytes of a pooled type's values, as `text_bytes` gives them, back to an Arrow column.

    Raises DataError for more than 2 GiB of them, which Arrow's offsets do not reach.
    """
    n = len(valid)
    # The one check of the size: kernels before it add lengths up in 64 bits.
    if offsets[-1] > _FARTHEST:
        raise DataError(
            f"a result has {int(offsets[-1]):,} bytes of {dtype} in one column, and {_FARTHEST:,} are the most. Let "
            "a batch read less."
        )
    if is_wide_decimal(dtype):
        raw = np.zeros((n, 16), np.uint8)
        if len(data) != 16 * int(valid.sum()):
            raise corrupt_snapshot("a decimal does not have 16 bytes")
        raw[valid] = data.reshape(-1, 16)
        return scalars.from_wide_bytes(raw, valid, dtype)
    buffers = [
        scalars.bitmap(valid),
        pa.py_buffer(offsets.astype(np.int32)),
        pa.py_buffer(data),
    ]
    if is_nested(dtype):
        try:
            return decode_values(pa.Array.from_buffers(pa.binary(), n, buffers), dtype)
        except IndexError as error:
            raise corrupt_snapshot(f"a string is no value of {dtype}") from error
    return pa.Array.from_buffers(dtype, n, buffers)


def to_python(batch: pa.RecordBatch | pa.Table) -> list[list[Any]]:
    """The values of each column; raises DataError for a time that Python's dates do not reach."""
    parts = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            parts.append(column.to_pylist())
        except UnicodeDecodeError as error:
            # Texts are checked where they come in; those of accumulators are read only here.
            raise corrupt_snapshot(f"column {name!r}: a text is not UTF-8 ({error})") from error
        except (OverflowError, ValueError) as error:
            raise DataError(
                f"column {name!r}: a time lies outside the years 1 to 9999, which Python's dates hold ({error}); "
                "CAST it to STRING in the query, or filter such rows"
            ) from None
    return parts
