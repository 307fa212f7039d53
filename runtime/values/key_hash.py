"""The hash of a row's key, by which rows find their bucket: of the exchange, or of a split DISTINCT."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aggloom.runtime.storage.jit import array_kernel, kernel, part
from aggloom.runtime.values import scalars
from aggloom.runtime.values.rows import encode_values
from aggloom.type_layout import is_nested, is_text

# These three are in checkpoints by their effect: another number sends keys to buckets that lack their state.
_NULL = np.uint64(0x9E3779B97F4A7C15)
_PRIME = np.uint64(0x9FB21C651E98DF25)
_START = np.uint64(0x243F6A8885A308D3)

Hashes = NDArray[np.uint64]  # uint64[rows]


@part
def _mix(h: np.uint64, word: np.uint64) -> np.uint64:
    """The hash, one 64-bit word further."""
    h = (h ^ word) * _PRIME
    h ^= h >> np.uint64(29)
    h *= _PRIME
    return h ^ (h >> np.uint64(32))


@kernel
def _hash_words(hashes: Hashes, words: Hashes, stride: int, valid: NDArray[np.bool_]) -> None:
    """Mix a fixed-width column into the hashes; `valid` is empty where there are no nulls."""
    for row in range(len(hashes)):
        if len(valid) and not valid[row]:
            # A NULL is no value's word: it is mixed in as a number that is unlikely to be one.
            hashes[row] = _mix(hashes[row], _NULL)
        else:
            for word in range(row * stride, (row + 1) * stride):
                hashes[row] = _mix(hashes[row], words[word])


@kernel
def _hash_bytes(
    hashes: Hashes, offsets: NDArray[Any], data: NDArray[np.uint8], valid: NDArray[np.bool_]
) -> None:
    """Mix a variable-width column into the hashes, eight bytes at a time."""
    for row in range(len(hashes)):
        if len(valid) and not valid[row]:
            hashes[row] = _mix(hashes[row], _NULL)
            continue
        start, end = offsets[row], offsets[row + 1]
        # The length first: "a" and "a" with a zero byte behind it fill the same words.
        h = _mix(hashes[row], np.uint64(end - start))
        word = np.uint64(0)
        shift = np.uint64(0)
        for position in range(start, end):
            word |= np.uint64(data[position]) << shift
            shift += np.uint64(8)
            if shift == np.uint64(64):
                h = _mix(h, word)
                word = np.uint64(0)
                shift = np.uint64(0)
        # Without the last word where the text ended on a full one: it would be all zeros, and cost a round.
        hashes[row] = _mix(h, word) if shift else h


@array_kernel
def sort_by_bucket(hashes: Hashes, buckets: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The row order of a stable counting sort by bucket, and each bucket's bounds in it."""
    bounds = np.zeros(buckets + 1, np.int64)
    chosen = np.empty(len(hashes), np.int32)
    for row in range(len(hashes)):
        # The high half, scaled: no division, and independent of the low bits that index slots.
        bucket = ((hashes[row] >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)
        chosen[row] = bucket
        # Counted one place further: after the sums below, each number is where its bucket begins.
        bounds[bucket + np.uint64(1)] += 1
    for bucket in range(buckets):
        bounds[bucket + 1] += bounds[bucket]
    cursor = bounds[:-1].copy()
    order = np.empty(len(hashes), np.int64)
    for row in range(len(hashes)):
        order[cursor[chosen[row]]] = row
        # In the order of rows: the sort is stable, so that changes of a key stay in their order.
        cursor[chosen[row]] += 1
    return order, bounds


def _fixed_words(column: pa.Array) -> tuple[Hashes, int]:
    """A fixed-width column as 64-bit words, equal for equal values, and the number of words a value has."""
    kind = column.type
    if pa.types.is_decimal128(kind):
        data = np.frombuffer(column.buffers()[1], np.uint64)
        return data[2 * column.offset : 2 * (column.offset + len(column))], 2
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        column = column.cast(pa.int64())
    if column.null_count:
        # The value below a NULL is whatever Arrow left there; 0 makes the words a function of the column alone.
        column = column.fill_null(False if pa.types.is_boolean(kind) else 0)
    if pa.types.is_boolean(kind):
        return scalars.truths(column).astype(np.int64).view(np.uint64), 1
    if pa.types.is_integer(column.type) or pa.types.is_floating(kind):
        values = scalars.buffer_of(column, column.type.to_pandas_dtype())
    else:
        values = column.to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind):
        # As SQL groups: -0.0 with 0.0, and every NaN with every other.
        numbers = values.astype(np.float64) + 0.0
        numbers[np.isnan(numbers)] = np.nan
        return numbers.view(np.uint64), 1
    return values.astype(np.int64).view(np.uint64), 1


def key_hashes(columns: Iterable[pa.Array], rows: int) -> Hashes:
    """The hash of each row's key: a function of the values alone, not of how Arrow laid them out."""
    hashes = np.full(rows, _START, np.uint64)
    for column in columns:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if is_nested(column.type):
            column = encode_values(column)
        valid = scalars.validity(column) if column.null_count else np.empty(0, np.bool_)
        if is_text(column.type):
            offset_type: type[np.signedinteger[Any]] = np.int32
        elif pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
            offset_type = np.int64
        else:
            words, stride = _fixed_words(column)
            _hash_words(hashes, words, stride, valid)
            continue
        if not rows:
            continue
        _, offsets, data = column.buffers()
        bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        bounds = np.frombuffer(offsets, offset_type)[column.offset : column.offset + rows + 1]
        _hash_bytes(hashes, bounds, bytes_, valid)
    return hashes


def bucket_column(columns: list[pa.Array], rows: int, buckets: int) -> pa.Array:
    """INT: the bucket of each row's values, NULLs too."""
    hashes = key_hashes(columns, rows)
    scaled = (hashes >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)
    return pa.array(scaled.astype(np.int32))
