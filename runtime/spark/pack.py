"""Pack: split ordinary rows by bucket, so that a few large binaries cross the shuffle instead of rows.

A map task hashes the key columns of each Arrow batch, sorts its rows by bucket (stably, so that the order within a
key survives), and sends one row per bucket at its end, earlier only where a bucket's rows outgrow a blob.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from aggloom.errors import DataError
from aggloom.physical import is_nested
from aggloom.runtime.changelog import Kinds, is_retraction, parse_kinds
from aggloom.runtime.rows import encode_values
from aggloom.runtime.spark.blobs import BLOB_BYTES, empty_columns, with_kinds, write_blob
from aggloom.runtime.spark.partitioning import bucket_keys

PACKED_DDL = "bucket INT, partition INT, seq INT, blob BINARY"
_PACKED = pa.schema(
    [("bucket", pa.int32()), ("partition", pa.int32()), ("seq", pa.int32()), ("blob", pa.binary())]
)
_NULL = np.uint64(0x9E3779B97F4A7C15)
_PRIME = np.uint64(0x9FB21C651E98DF25)
_START = np.uint64(0x243F6A8885A308D3)

Hashes = NDArray[np.uint64]


@njit(cache=True, inline="always")
def _mix(h: np.uint64, word: np.uint64) -> np.uint64:
    """The hash, one 64-bit word further."""
    h = (h ^ word) * _PRIME
    h ^= h >> np.uint64(29)
    h *= _PRIME
    return h ^ (h >> np.uint64(32))


@njit(cache=True)
def _hash_words(hashes: Hashes, words: Hashes, stride: int, valid: NDArray[np.bool_]) -> None:
    """Mix a fixed-width column into the hashes; `valid` is empty where there are no nulls."""
    for row in range(len(hashes)):
        if len(valid) and not valid[row]:
            hashes[row] = _mix(hashes[row], _NULL)
        else:
            for word in range(row * stride, (row + 1) * stride):
                hashes[row] = _mix(hashes[row], words[word])


@njit(cache=True)
def _hash_bytes(
    hashes: Hashes, offsets: NDArray[Any], data: NDArray[np.uint8], valid: NDArray[np.bool_]
) -> None:
    """Mix a variable-width column into the hashes, eight bytes at a time."""
    for row in range(len(hashes)):
        if len(valid) and not valid[row]:
            hashes[row] = _mix(hashes[row], _NULL)
            continue
        start, end = offsets[row], offsets[row + 1]
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
        hashes[row] = _mix(h, word) if shift else h


@njit(cache=True)
def _sort_by_bucket(hashes: Hashes, buckets: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The row order of a stable counting sort by bucket, and each bucket's bounds in it."""
    bounds = np.zeros(buckets + 1, np.int64)
    chosen = np.empty(len(hashes), np.int32)
    for row in range(len(hashes)):
        # The high half, scaled: no division, and independent of the low bits that index slots.
        bucket = ((hashes[row] >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)
        chosen[row] = bucket
        bounds[bucket + np.uint64(1)] += 1
    for bucket in range(buckets):
        bounds[bucket + 1] += bounds[bucket]
    cursor = bounds[:-1].copy()
    order = np.empty(len(hashes), np.int64)
    for row in range(len(hashes)):
        order[cursor[chosen[row]]] = row
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
        column = column.fill_null(False if pa.types.is_boolean(kind) else 0)
    values = column.to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind):
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
        valid = (
            column.is_valid().to_numpy(zero_copy_only=False)
            if column.null_count
            else np.empty(0, np.bool_)
        )
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
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


@dataclass(frozen=True)
class Pack:
    """The `mapInArrow` stage: what a map task needs to know, and the loop over its batches.

    The input columns are, by position: those of `schema`, then the change column if `change_column` names one, then
    the two columns that order input files if `ordered`.
    """

    schema: pa.Schema
    keys: int
    buckets: int
    operator: str
    change_column: str | None = None
    append_only: bool = False
    ordered: bool = False
    blob_bytes: int = BLOB_BYTES

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack one map task's rows."""
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from self.pack(batches, context.partitionId() if context else 0)

    def pack(self, batches: Iterable[pa.RecordBatch], partition: int) -> Iterator[pa.RecordBatch]:
        """Pack the rows of map partition `partition`: packed rows, in the order they are to be applied.

        Bucket 0 is among them whenever there are rows at all: its key is the same for every number of buckets, so
        state that was written with another number is always met.
        """
        held: list[list[tuple[pa.RecordBatch, bytes]]] = [[] for _ in range(self.buckets)]
        sizes = [0] * self.buckets
        names = bucket_keys(self.buckets)
        sequence = 0
        nothing: pa.RecordBatch | None = None

        def emit(bucket: int) -> pa.RecordBatch:
            nonlocal sequence
            pieces = held[bucket]
            blob = write_blob(pieces[0][0].schema, pieces)
            held[bucket], sizes[bucket] = [], 0
            sequence += 1
            row = [[names[bucket]], [partition], [sequence], [blob]]
            return pa.RecordBatch.from_arrays(
                [pa.array(value, field.type) for value, field in zip(row, _PACKED, strict=True)],
                schema=_PACKED,
            )

        for batch in batches:
            for piece, order in self._segments(batch):
                for bucket, part in self._split(piece):
                    held[bucket].append((part, order))
                    nothing = part.slice(0, 0)
                    sizes[bucket] += part.nbytes
                    if sizes[bucket] >= self.blob_bytes:
                        yield emit(bucket)
        if nothing is not None and not held[0]:
            held[0].append((nothing, b""))
        for bucket in range(self.buckets):
            if held[bucket]:
                yield emit(bucket)

    def _segments(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        """The batch cut where its input file changes, each piece with its file's order key."""
        if not self.ordered or not batch.num_rows:
            yield batch, b""
            return
        time, path = batch.column(batch.num_columns - 2), batch.column(batch.num_columns - 1)
        same = pc.equal(path.slice(1), path.slice(0, len(path) - 1))
        borders = np.flatnonzero(~same.to_numpy(zero_copy_only=False)) + 1
        starts = [0, *borders.tolist(), batch.num_rows]
        micros = time.cast(pa.int64())
        for start, end in pairwise(starts):
            # Sorts as (time, path): the sign bit is flipped so that bytes compare as numbers.
            stamp = (micros[start].as_py() or 0) + (1 << 63)
            order = stamp.to_bytes(8, "big") + (path[start].as_py() or "").encode()
            yield batch.slice(start, end - start), order

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The batch's rows by bucket, kinds appended."""
        rows = batch.num_rows
        if not rows:
            return
        kinds = self._kinds(batch)
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.columns, self.schema, strict=False)
        ]
        bare = (
            pa.RecordBatch.from_arrays(columns, schema=self.schema)
            if columns
            else empty_columns(rows)
        )
        whole = with_kinds(bare, kinds)
        if self.buckets == 1:
            yield 0, whole
            return
        order, bounds = _sort_by_bucket(key_hashes(columns[: self.keys], rows), self.buckets)
        whole = whole.take(pa.array(order))
        for bucket in range(self.buckets):
            start, end = int(bounds[bucket]), int(bounds[bucket + 1])
            if end > start:
                yield bucket, whole.slice(start, end - start)

    def _kinds(self, batch: pa.RecordBatch) -> Kinds:
        """The kinds of a batch's rows: inserts, unless a change column says otherwise."""
        if self.change_column is None:
            return np.zeros(batch.num_rows, np.int8)
        where = f"{self.operator}, change column {self.change_column!r}"
        kinds = parse_kinds(batch.column(len(self.schema)), where)
        if self.append_only and is_retraction(kinds).any():
            count = int(is_retraction(kinds).sum())
            raise DataError(
                f"{where}: {count} retraction{'s' if count > 1 else ''} in an input declared append-only; "
                'make the spec with input_changes="retract"'
            )
        return kinds
