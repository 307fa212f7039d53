"""The way of changes to the next operator: steps, then buckets, perhaps with a local aggregate before they leave.

What leaves are packed rows: the bucket's key, where the rows come from, their number there, and a blob: an Arrow stream
of rows, or the snapshot of a LocalAggregator. A large one may be in a file to which a reference leads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from aggloom.codegen import Digits
from aggloom.runtime.formats.time_digits import cut_times
from aggloom.runtime.hosting.blobs import BLOB_BYTES, pack_blob, with_kinds
from aggloom.runtime.hosting.handler_text import HandlerText
from aggloom.runtime.hosting.local_phase import LocalPhase
from aggloom.runtime.operators.stateless import Step, run_steps
from aggloom.runtime.operators.steps import no_rows, split
from aggloom.runtime.spark.node.batch_context import batch_number, work_for_this_batch
from aggloom.runtime.spark.node.blob_files import put_aside
from aggloom.runtime.spark.node.partitioning import bucket_keys
from aggloom.runtime.values.batches import make_batch
from aggloom.runtime.values.changelog import Kinds

PACKED_DDL = "bucket INT, input INT, partition INT, seq INT, blob BINARY"
SIDE = 1 << 24
"""Sources of different inputs of a union are this far apart."""

PackedRow = tuple[int, int, int, int, bytes]


@dataclass(frozen=True)
class Route:
    """The way of rows. `schema`: the columns of the next fragment's input of this number; `keys`: the places of those
    by which they find their bucket.

    steps: Calcs that pick columns or are lowered, Expands and assignments to windows, before. local: the handler that
    aggregates them first, if that makes them fewer. side: which input of a union this is. wakes_every_bucket: whether
    every bucket is called when any has rows. emits_without_rows: whether bucket 0 is called even without rows. carries:
    the number of a batch in which every bucket is called in any case. node: the stateful node that it leads to, if
    Spark is not to take the exchanges of two nodes for one. digits: those of the times in a table's rows, before steps.
    file_bytes: the size from which a blob goes through a file of this machine; None: none does.
    """

    schema: pa.Schema
    keys: tuple[int, ...]
    buckets: int
    input: int = 0
    steps: tuple[Step, ...] = ()
    local: HandlerText | None = None
    side: int = 0
    wakes_every_bucket: bool = False
    emits_without_rows: bool = False
    carries: int | None = None
    blob_bytes: int = BLOB_BYTES
    node: int = 0
    digits: Digits = ()
    file_bytes: int | None = None

    @property
    def carries_now(self) -> bool:
        """Tell whether the batch of this task is the one in which every bucket is called."""
        return self.carries is not None and batch_number() == self.carries


class Packer:
    """Collects the rows of one source (a map task, an operator's bucket) and gives them out by bucket.

    Bucket 0 is among them whenever there are rows at all: its key is the same for every number of buckets, so state
    that was written with another number is always met. With `emits_without_rows` it is among them in any case.
    """

    def __init__(self, route: Route, source: int) -> None:
        work_for_this_batch()
        self._route = route
        # Inputs of a union all have a partition 0: without the side two blobs would have the same place in the order.
        self._source = route.side * SIDE + source
        self._names = bucket_keys(route.buckets)
        self._sequence = 0
        self._pieces: list[list[tuple[pa.RecordBatch, bytes]]] = [[] for _ in self._names]
        self._sizes = [0] * route.buckets
        self._nothing: pa.RecordBatch | None = None
        self._local = (
            LocalPhase(route.local.load(), route.keys, route.buckets) if route.local else None
        )

    def add(self, batch: pa.RecordBatch, kinds: Kinds, order: bytes = b"") -> Iterator[PackedRow]:
        """Take rows; `order` is by what the receiver sorts them before their place here."""
        # Before any step: a filter must not see digits that the table's declaration cuts off.
        batch = cut_times(batch, self._route.digits)
        batch, kinds = run_steps(self._route.steps, (_cast_batch(batch, self._route), kinds))
        if not batch.num_rows:
            return
        local = self._local
        if local is None or local.given_up:
            yield from self._hold(batch, kinds, order)
            return
        yield from self._partials(local.add(batch, kinds))
        if local.given_up:
            # The rows of the trial have not left yet. They are older than all that follow.
            for remaining, kept_kinds in local.remaining_rows():
                yield from self._hold(remaining, kept_kinds, b"")

    def finish(self) -> Iterator[PackedRow]:
        """Give out what is left."""
        if self._local is not None and not self._local.given_up:
            yield from self._partials(self._local.finish())
            for batch, kinds in self._local.remaining_rows():
                yield from self._hold(batch, kinds, b"")
        carries = self._route.carries_now
        if (self._route.emits_without_rows or carries) and self._nothing is None:
            self._nothing = with_kinds(*no_rows(self._route.schema))
        # Spark calls a bucket only if a row has its key, and a blob without rows is such a row.
        for bucket in range(
            self._route.buckets if self._route.wakes_every_bucket or carries else 1
        ):
            if self._nothing is not None and not self._pieces[bucket]:
                self._pieces[bucket].append((self._nothing, b""))
        for bucket in range(self._route.buckets):
            if self._pieces[bucket]:
                yield self._emit(bucket)

    def _hold(self, batch: pa.RecordBatch, kinds: Kinds, order: bytes) -> Iterator[PackedRow]:
        for bucket, (part, part_kinds) in split(
            (batch, kinds), self._route.keys, self._route.buckets
        ):
            whole = with_kinds(part, part_kinds)
            self._pieces[bucket].append((whole, order))
            # From now on an empty blob can be made with the columns that the rows have here.
            self._nothing = whole.slice(0, 0)
            self._sizes[bucket] += whole.nbytes
            if self._sizes[bucket] >= self._route.blob_bytes:
                yield self._emit(bucket)

    def _emit(self, bucket: int) -> PackedRow:
        pieces = self._pieces[bucket]
        self._pieces[bucket], self._sizes[bucket] = [], 0
        return self._make_row(bucket, pack_blob(pieces))

    def _partials(self, shares: Iterator[tuple[int, bytes]]) -> Iterator[PackedRow]:
        for bucket, data in shares:
            if self._nothing is None:
                self._nothing = with_kinds(*no_rows(self._route.schema))
            yield self._make_row(bucket, data)

    def _make_row(self, bucket: int, blob: bytes) -> PackedRow:
        # The first number is 1: NO_ROWS, which is 0, marks what only has counts beside it.
        self._sequence += 1
        least = self._route.file_bytes
        if least is not None and len(blob) >= least:
            blob = put_aside(blob)
        return self._names[bucket], self._route.input, self._source, self._sequence, blob


def _cast_batch(batch: pa.RecordBatch, route: Route) -> pa.RecordBatch:
    """The batch in the route's types, unless steps come first."""
    if route.steps or batch.schema == route.schema:
        return batch
    return make_batch(batch.columns[: len(route.schema)], route.schema, batch.num_rows)
