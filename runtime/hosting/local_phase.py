"""The local phase: accumulators of one task's rows by key, where they are fewer than the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from aggloom.runtime.operators.local_aggregate import LocalAggregator
from aggloom.runtime.operators.steps import Rows, split
from aggloom.runtime.values.changelog import Kinds

_WORTH_A_TRY = 4096
_TRIAL = 200_000
_TRIAL_OF_VIEWS = 32_000
_SHRINKS = 0.5
_LOOKS = (16_384, 65_536)
_HOPELESS = 0.95
_FEW = 8_192
_REPEATS = 16
"""Keys are split by bucket, instead of their rows, if they are at most _FEW and one more for each _REPEATS rows."""
_LOCAL_BYTES = 128 << 20


def aggregate_rows(
    rows: Rows, handler: type[Any], keys: Sequence[int], buckets: int
) -> tuple[list[tuple[int, bytes]], list[tuple[int, Rows]]]:
    """The accumulators of one task's rows by bucket, and the rows that are not aggregated, by bucket.

    keys: as of LocalPhase.
    """
    phase = LocalPhase(handler, keys, buckets)
    partials = [*phase.add(*rows), *phase.finish()]
    return partials, [
        each for left in phase.remaining_rows() for each in split(left, keys, buckets)
    ]


class LocalPhase:
    """Local aggregation of one task's rows, which gives up where it does not make the data smaller.

    keys: the places of the columns by which rows find their bucket.

    The first rows are kept beside their accumulators. Where keys (and what views hold) are not clearly fewer
    than rows, the rows continue as they are, and so do all that follow in this task. Few keys are split by bucket when
    their accumulators leave; many, and views, which take long to merge, have accumulators by bucket.
    """

    def __init__(self, handler: type[Any], keys: Sequence[int], buckets: int) -> None:
        self._places, self._buckets = keys, buckets
        self._handler = handler
        self._aggregators: dict[int, LocalAggregator] = {}
        self._whole: LocalAggregator | None = None
        grouped = len(handler.spec().group_by)
        self._splits = bool(handler.VIEWS) or any(place >= grouped for place in keys)
        self._first_rows: list[Rows] = []
        self._rows = self._tried = 0
        # Views cost more than they save if it comes to nothing: they are given less time.
        self._trial = _TRIAL_OF_VIEWS if self._handler.VIEWS else _TRIAL
        self._decided = self.given_up = False

    def add(self, batch: pa.RecordBatch, kinds: Kinds) -> Iterator[tuple[int, bytes]]:
        """Take rows; accumulators leave, by bucket, once they take much room."""
        if self._decided:
            self._aggregate((batch, kinds))
        else:
            self._first_rows.append((batch, kinds))
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
        """The rows that continue as they are."""
        # The rows are let go of at the same time: a task holds them once.
        rows, self._first_rows = self._first_rows, []
        return rows

    def _try(self) -> None:
        """Aggregate what is kept, as far as the trial goes; after it, the rest too, if it went well."""
        skipped = 0
        for batch, kinds in list(self._first_rows):
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
                # The next look goes on behind what was aggregated.
                start = stop

    def _next_look(self) -> int:
        """The number of rows after which the phase checks how many keys they have come to."""
        return next((n for n in _LOOKS if self._tried < n < self._trial), self._trial)

    def _looks_hopeless(self) -> bool:
        """Tell whether hardly a key has come twice so far."""
        return self._tried >= _LOOKS[-1] and self._entries() > _HOPELESS * self._tried

    def _decide(self) -> None:
        self._decided = True
        entries = self._entries()
        # More than half as many keys as rows would not pay for the hashing.
        self.given_up = not entries or entries > _SHRINKS * self._tried
        if self.given_up:
            self._whole, self._aggregators = None, {}
        else:
            self._first_rows = []

    def _all(self) -> list[LocalAggregator]:
        return [*([self._whole] if self._whole else []), *self._aggregators.values()]

    def _entries(self) -> int:
        return sum(each.entries for each in self._all())

    def _aggregate(self, rows: Rows) -> None:
        if not self._splits:
            self._whole = self._whole or LocalAggregator(self._handler)
            self._whole.add(*rows)
            # Few keys are cheaper to split when they leave than with every batch.
            if self._whole.keys > _FEW + self._whole.rows // _REPEATS:
                self._splits = True
                self._spread()
            return
        for bucket, part in split(rows, self._places, self._buckets):
            if bucket not in self._aggregators:
                self._aggregators[bucket] = LocalAggregator(self._handler)
            self._aggregators[bucket].add(*part)

    def _spread(self) -> None:
        """Give each bucket its accumulators."""
        if self._whole is not None:
            self._aggregators = dict(self._whole.spread(self._places, self._buckets))
            self._whole = None

    def _take(self) -> Iterator[tuple[int, bytes]]:
        self._spread()
        for bucket, aggregator in sorted(self._aggregators.items()):
            yield bucket, aggregator.take()
        self._aggregators = {}
