"""The counts of a query on the local engine since it was opened."""

from __future__ import annotations

from aggloom.runtime.engine.node import DurableHost
from aggloom.runtime.operators.counts import FLOWS, LEVELS, Counts, OperatorCounts, time_of


class QueryTotals:
    """Adds up what the batches of a query have read and given out."""

    def __init__(self, host: DurableHost) -> None:
        self._host = host
        self.batches = self.rows = self.changes = self.refused = self.notices = 0
        self.seconds = 0.0

    def add_input(self, rows: int, refused: int, notices: int) -> None:
        """Count what was read."""
        self.rows += rows
        self.refused += refused
        self.notices += notices

    def add_batch(self, changes: int, seconds: float) -> None:
        """Count a batch that was committed, and how long it took."""
        self.batches += 1
        self.changes += changes
        self.seconds += seconds

    def counts(self, watermark: int) -> Counts:
        """The counts, with those of the operators; watermark: in milliseconds."""
        return Counts(
            batches=self.batches,
            rows=self.rows,
            changes=self.changes,
            refused=self.refused,
            notices=self.notices,
            watermark=time_of(watermark),
            operators=tuple(self._operators()),
        )

    def _operators(self) -> list[OperatorCounts]:
        """The counts of each operator, all buckets together."""
        found = []
        for place in sorted(self._host.nodes):
            node = self._host.nodes[place]
            for number, operator in enumerate(node.fragments[0].operators):
                each = [bucket.tallies[number].read_counts() for bucket in node.buckets]
                summed = [sum(values) for values in zip(*each, strict=True)]
                named = dict(zip((*FLOWS, *LEVELS), summed, strict=True))
                buckets = (len(each), len(each))
                found.append(OperatorCounts(operator.name, **named, buckets=buckets))
        return found
