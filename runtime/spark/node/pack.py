"""Pack: split ordinary rows by bucket, so that a few large binaries cross the shuffle instead of rows.

A map task hashes the key columns of each Arrow batch, sorts its rows by bucket (stably, so that the order within a
key survives), and sends one row per bucket at its end, earlier only where a bucket's rows outgrow a blob.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import DataError, UnknownChangeTypeError
from aggloom.runtime.spark.node.batch_context import map_partition
from aggloom.runtime.spark.plan.routes import PackedRow, Packer, Route
from aggloom.runtime.spark.read.file_names import check_name
from aggloom.runtime.values.batches import make_batch
from aggloom.runtime.values.changelog import Kinds, is_retraction, parse_kinds

_PACKED = pa.schema(
    [
        *((name, pa.int32()) for name in ("bucket", "input", "partition", "seq")),
        ("blob", pa.binary()),
    ]
)
NO_ROWS = 0
"""The number of what is no packed row and only has counts beside it; those of packed rows begin with 1."""
_NO_CHANGES = "If it is a column like others, pass change_column=None"


@dataclass(frozen=True)
class Pack:
    """The `mapInArrow` stage: what a map task needs to know, and the loop over its batches.

    The input columns are, by position: those of `schema`, then the change column if `change_column` names one, then
    the two columns that order input files if `ordered`.
    """

    route: Route
    schema: pa.Schema
    operator: str
    change_column: str | None = None
    append_only: bool = False
    ordered: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack one map task's rows."""
        yield from self.pack(batches, map_partition())

    def pack(self, batches: Iterable[pa.RecordBatch], partition: int) -> Iterator[pa.RecordBatch]:
        """Pack the rows of map partition `partition`: packed rows, in the order they are to be applied."""
        packer = Packer(self.route, partition)
        for batch in batches:
            for piece, order in self._segments(batch):
                for row in packer.add(*self._rows(piece), order):
                    yield packed_batch(row)
        for row in packer.finish():
            yield packed_batch(row)

    def _segments(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        """The batch cut where its input file changes, each piece with its file's order key."""
        if not batch.num_rows:
            return
        if not self.ordered:
            yield batch, b""
            return
        time, path = batch.column(batch.num_columns - 2), batch.column(batch.num_columns - 1)
        same = pc.equal(path.slice(1), path.slice(0, len(path) - 1))
        # A batch of Arrow may hold rows of several files: an order key belongs to one.
        borders = np.flatnonzero(~same.to_numpy(zero_copy_only=False)) + 1
        starts = [0, *borders.tolist(), batch.num_rows]
        for start, end in pairwise(starts):
            name = unquote(path[start].as_py() or "")
            check_name(name)
            yield batch.slice(start, end - start), order_key(time[start], name)

    def _rows(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Kinds]:
        """The rows in the types of the schema, and their kinds."""
        bare = make_batch(batch.columns[: len(self.schema)], self.schema, batch.num_rows)
        if self.change_column is None:
            return bare, np.zeros(batch.num_rows, np.int8)
        return bare, self.kinds(batch.column(len(self.schema)))

    def kinds(self, column: pa.Array, file: str = "") -> Kinds:
        """The kinds that a change column spells; raises DataError for a retraction in an append-only input."""
        # Kinds as numbers come from readers of ours, which have checked them.
        if column.type == pa.int8():
            return column.to_numpy()
        where = f"{self.operator}, change column {self.change_column!r}"
        if file:
            where = f"{file}: {where}"
        try:
            kinds = parse_kinds(column, where)
        except UnknownChangeTypeError as error:
            raise UnknownChangeTypeError(f"{error}. {_NO_CHANGES}") from None
        if self.append_only and is_retraction(kinds).any():
            count = int(is_retraction(kinds).sum())
            raise DataError(
                f"{where}: {count} retraction{'s' if count > 1 else ''} in an input declared append-only; "
                'make the spec with input_changes="retract"'
            )
        return kinds


def order_key(time: pa.Scalar | None, path: str) -> bytes:
    """The bytes that sort a file's rows among those of others: its time of modification, if given, then its path."""
    # The sign bit is flipped so that bytes compare as numbers.
    stamp = ((time.cast(pa.int64()).as_py() if time is not None else 0) or 0) + (1 << 63)
    return stamp.to_bytes(8, "big") + path.encode()


def packed_batch(row: PackedRow, **counts: int) -> pa.RecordBatch:
    """A packed row as Arrow, and counts beside it, a column for each."""
    arrays = [pa.array([value], field.type) for value, field in zip(row, _PACKED, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=_PACKED)
    for name, count in counts.items():
        batch = batch.append_column(name, pa.array([count], pa.int64()))
    return batch
