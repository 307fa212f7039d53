"""Pack: split ordinary rows by bucket, so that a few large binaries cross the shuffle instead of rows.

A map task hashes the key columns of each Arrow batch, sorts its rows by bucket (stably, so that the order within a
key survives), and sends one row per bucket at its end, earlier only where a bucket's rows outgrow a blob.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import DataError
from aggloom.runtime.changelog import Kinds, is_retraction, parse_kinds
from aggloom.runtime.key_hash import key_hashes, sort_by_bucket
from aggloom.runtime.spark.blobs import BLOB_BYTES, empty_columns, with_kinds, write_blob
from aggloom.runtime.spark.partitioning import bucket_keys

PACKED_DDL = "bucket INT, partition INT, seq INT, blob BINARY"
_PACKED = pa.schema(
    [("bucket", pa.int32()), ("partition", pa.int32()), ("seq", pa.int32()), ("blob", pa.binary())]
)


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
        order, bounds = sort_by_bucket(key_hashes(columns[: self.keys], rows), self.buckets)
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
