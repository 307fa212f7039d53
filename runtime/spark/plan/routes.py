"""The way of changes to the next operator: steps, then buckets, perhaps with a local aggregate before they leave.

What leaves are packed rows: the bucket's key, where the rows come from, their number there, and a blob: an Arrow stream
of rows, or the snapshot of a LocalAggregator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from aggloom.codegen import Digits, load_text
from aggloom.runtime.formats.cut_times import cut_times
from aggloom.runtime.operators.local_aggregate import LocalAggregator
from aggloom.runtime.operators.stateless import Step, run_steps
from aggloom.runtime.operators.steps import Rows, no_rows, split
from aggloom.runtime.spark.node.blobs import BLOB_BYTES, empty_columns, pack_blob, with_kinds
from aggloom.runtime.spark.node.moment import batch_number, work_for_this_batch
from aggloom.runtime.spark.node.partitioning import bucket_keys
from aggloom.runtime.values.changelog import Kinds

PACKED_DDL = "bucket INT, input INT, partition INT, seq INT, blob BINARY"
SIDE = 1 << 24
"""Sources of different inputs of a union are this far apart."""

_WORTH_A_TRY = 4096
_TRIAL = 200_000
_TRIAL_OF_VIEWS = 32_000
_SHRINKS = 0.5
_LOOKS = (16_384, 65_536)
_HOPELESS = 0.95
_FEW = 8_192
_REPEATS = 16
"""Up to _FEW keys, and one more for each _REPEATS rows, are split by bucket where their rows would be otherwise."""
_LOCAL_BYTES = 128 << 20

_BACKEND = re.compile(r"^BACKEND = [\"'](\w+)", re.MULTILINE)

PackedRow = tuple[int, int, int, int, bytes]


@dataclass(frozen=True)
class HandlerText:
    """A generated module as a worker needs it: the text, not the class."""

    text: str
    text_digest: str

    @property
    def backend(self) -> str:
        """The backend that the module says it runs on."""
        found = _BACKEND.search(self.text)
        return found[1] if found else ""

    def load(self) -> type[Any]:
        """The handler class."""
        return _load_class(self.text, self.text_digest)


@lru_cache(maxsize=64)
def _load_class(text: str, digest: str) -> type[Any]:
    """The class of a text; looking for it among the files of a full cache takes longer than a small batch."""
    return load_text(text, digest)


@dataclass(frozen=True)
class Route:
    """The way of rows. `schema`: the columns of the next fragment's input of this number; `keys`: the places of those
    by which they find their bucket.

    steps: Calcs that pick columns or are lowered, Expands and assignments to windows, before. local: the handler that
    aggregates them first, if that makes them fewer. side: which input of a union this is. wakes: whether every bucket
    is called whenever there are rows for any. always: whether bucket 0 is called though there are none. carries: the
    number of a batch in which every bucket is called in any case. node: the stateful node that it leads to, if Spark
    is not to take the exchanges of two nodes for one. digits: those of the times in the rows of a table, before steps.
    """

    schema: pa.Schema
    keys: tuple[int, ...]
    buckets: int
    input: int = 0
    steps: tuple[Step, ...] = ()
    local: HandlerText | None = None
    side: int = 0
    wakes: bool = False
    always: bool = False
    carries: int | None = None
    blob_bytes: int = BLOB_BYTES
    node: int = 0
    digits: Digits = ()

    @property
    def carries_now(self) -> bool:
        """Tell whether the batch of this task is the one in which every bucket is called."""
        return self.carries is not None and batch_number() == self.carries


class Packer:
    """Collects the rows of one source (a map task, an operator's bucket) and gives them out by bucket.

    Bucket 0 is among them whenever there are rows at all: its key is the same for every number of buckets, so state
    that was written with another number is always met. With `always` it is among them in any case.
    """

    def __init__(self, route: Route, source: int) -> None:
        work_for_this_batch()
        self._route = route
        self._source = route.side * SIDE + source
        self._names = bucket_keys(route.buckets)
        self._sequence = 0
        self._held: list[list[tuple[pa.RecordBatch, bytes]]] = [[] for _ in self._names]
        self._sizes = [0] * route.buckets
        self._nothing: pa.RecordBatch | None = None
        self._local = _Local(route) if route.local else None

    def add(self, batch: pa.RecordBatch, kinds: Kinds, order: bytes = b"") -> Iterator[PackedRow]:
        """Take rows; `order` is by what the receiver sorts them before their place here."""
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
            for kept, kept_kinds in local.remaining_rows():
                yield from self._hold(kept, kept_kinds, b"")

    def finish(self) -> Iterator[PackedRow]:
        """Give out what is left."""
        if self._local is not None and not self._local.given_up:
            yield from self._partials(self._local.finish())
            for batch, kinds in self._local.remaining_rows():
                yield from self._hold(batch, kinds, b"")
        carries = self._route.carries_now
        if (self._route.always or carries) and self._nothing is None:
            self._nothing = with_kinds(*no_rows(self._route.schema))
        for bucket in range(self._route.buckets if self._route.wakes or carries else 1):
            if self._nothing is not None and not self._held[bucket]:
                self._held[bucket].append((self._nothing, b""))
        for bucket in range(self._route.buckets):
            if self._held[bucket]:
                yield self._emit(bucket)

    def _hold(self, batch: pa.RecordBatch, kinds: Kinds, order: bytes) -> Iterator[PackedRow]:
        for bucket, (part, part_kinds) in split(
            (batch, kinds), self._route.keys, self._route.buckets
        ):
            whole = with_kinds(part, part_kinds)
            self._held[bucket].append((whole, order))
            self._nothing = whole.slice(0, 0)
            self._sizes[bucket] += whole.nbytes
            if self._sizes[bucket] >= self._route.blob_bytes:
                yield self._emit(bucket)

    def _emit(self, bucket: int) -> PackedRow:
        pieces = self._held[bucket]
        self._held[bucket], self._sizes[bucket] = [], 0
        return self._make_row(bucket, pack_blob(pieces))

    def _partials(self, taken: Iterator[tuple[int, bytes]]) -> Iterator[PackedRow]:
        for bucket, data in taken:
            if self._nothing is None:
                self._nothing = with_kinds(*no_rows(self._route.schema))
            yield self._make_row(bucket, data)

    def _make_row(self, bucket: int, blob: bytes) -> PackedRow:
        self._sequence += 1
        return self._names[bucket], self._route.input, self._source, self._sequence, blob


class _Local:
    """Local aggregation that gives up where it does not make the data smaller.

    The first rows are kept beside their accumulators. Where keys (and what views hold) are not clearly fewer
    than rows, the rows go on as they are, and so do all that follow in this task. Few keys are split by bucket when
    their accumulators leave; many, and views, which take long to merge, have accumulators by bucket.
    """

    def __init__(self, route: Route) -> None:
        assert route.local is not None
        self._route = route
        self._handler = route.local.load()
        self._aggregators: dict[int, LocalAggregator] = {}
        self._whole: LocalAggregator | None = None
        keys = len(self._handler.spec().group_by)
        self._splits = bool(self._handler.VIEWS) or any(place >= keys for place in route.keys)
        self._kept: list[Rows] = []
        self._rows = self._tried = 0
        # Views cost more than they save if it comes to nothing: they are given less time.
        self._trial = _TRIAL_OF_VIEWS if self._handler.VIEWS else _TRIAL
        self._decided = self.given_up = False

    def add(self, batch: pa.RecordBatch, kinds: Kinds) -> Iterator[tuple[int, bytes]]:
        """Take rows; accumulators leave, by bucket, once they take much room."""
        if self._decided:
            self._aggregate((batch, kinds))
        else:
            self._kept.append((batch, kinds))
            self._rows += batch.num_rows
            if self._rows >= _WORTH_A_TRY:
                self._try()
        if sum(each.state_bytes for each in self._all()) > _LOCAL_BYTES:
            yield from self._take()

    def finish(self) -> Iterator[tuple[int, bytes]]:
        """The accumulators that are left, if they are to be sent instead of the rows."""
        if not self._decided:
            self._decide()
        if not self.given_up:
            yield from self._take()

    def remaining_rows(self) -> list[Rows]:
        """The rows that go on as they are."""
        kept, self._kept = self._kept, []
        return kept

    def _try(self) -> None:
        """Aggregate what is kept, as far as the trial goes; after it, the rest too, if it went well."""
        skipped = 0
        for batch, kinds in list(self._kept):
            start = min(max(self._tried - skipped, 0), batch.num_rows)
            skipped += batch.num_rows
            while start < batch.num_rows and not self.given_up:
                stop = batch.num_rows if self._decided else start + self._next_look() - self._tried
                stop = min(stop, batch.num_rows)
                self._aggregate((batch.slice(start, stop - start), kinds[start:stop]))
                if not self._decided:
                    self._tried += stop - start
                    if self._tried >= self._trial or self._looks_hopeless():
                        self._decide()
                start = stop

    def _next_look(self) -> int:
        """After how many rows it is looked at what they come to."""
        return next((n for n in _LOOKS if self._tried < n < self._trial), self._trial)

    def _looks_hopeless(self) -> bool:
        """Tell whether hardly a key has come twice so far."""
        return self._tried >= _LOOKS[-1] and self._entries() > _HOPELESS * self._tried

    def _decide(self) -> None:
        self._decided = True
        entries = self._entries()
        self.given_up = not entries or entries > _SHRINKS * self._tried
        if self.given_up:
            self._whole, self._aggregators = None, {}
        else:
            self._kept = []

    def _all(self) -> list[LocalAggregator]:
        return [*([self._whole] if self._whole else []), *self._aggregators.values()]

    def _entries(self) -> int:
        return sum(each.entries for each in self._all())

    def _aggregate(self, rows: Rows) -> None:
        if not self._splits:
            self._whole = self._whole or LocalAggregator(self._handler)
            self._whole.add(*rows)
            if self._whole.keys > _FEW + self._whole.rows // _REPEATS:
                self._splits = True
                self._spread()
            return
        for bucket, part in split(rows, self._route.keys, self._route.buckets):
            if bucket not in self._aggregators:
                self._aggregators[bucket] = LocalAggregator(self._handler)
            self._aggregators[bucket].add(*part)

    def _spread(self) -> None:
        """Give each bucket its accumulators."""
        if self._whole is not None:
            self._aggregators = dict(self._whole.spread(self._route.keys, self._route.buckets))
            self._whole = None

    def _take(self) -> Iterator[tuple[int, bytes]]:
        self._spread()
        for bucket, aggregator in sorted(self._aggregators.items()):
            yield bucket, aggregator.take()
        self._aggregators = {}


def _cast_batch(batch: pa.RecordBatch, route: Route) -> pa.RecordBatch:
    """The batch in the route's types, unless steps come first."""
    if route.steps or batch.schema == route.schema:
        return batch
    if not route.schema.names:
        return empty_columns(batch.num_rows)
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, route.schema, strict=False)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=route.schema)
