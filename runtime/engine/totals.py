"""The counts of a query on the local engine since it was opened."""

from __future__ import annotations

from aggloom.runtime.engine.node import DurableHost
from aggloom.runtime.operators.counts import FLOWS, LEVELS, Counts, OperatorCounts, time_of


class TableTotals:
    """The counts of a table: each table is read in a thread of its own, which alone counts here."""

    def __init__(self) -> None:
        self.rows = self.refused = self.notices = 0

    def add(self, rows: int, refused: int, notices: int) -> None:
        """Count what was read."""
        self.rows += rows
        self.refused += refused
        self.notices += notices


class QueryTotals:
    """Adds up what the batches of a query have read and emitted."""

    def __init__(self, host: DurableHost) -> None:
        self._host = host
        self.tables: dict[str, TableTotals] = {}
        self.batches = self.changes = 0

    def table(self, name: str) -> TableTotals:
        """The counts of a table."""
        return self.tables.setdefault(name, TableTotals())

    def add_batch(self, changes: int) -> None:
        """Count a batch that was committed."""
        self.batches += 1
        self.changes += changes

    def counts(self, watermark: int) -> Counts:
        """The counts, with those of the operators; watermark: in milliseconds."""
        return self.sum_counts(watermark, self.operators())

    def sum_counts(self, watermark: int, operators: dict[str, OperatorCounts]) -> Counts:
        """The counts with those of the operators, which are given by place."""
        tables = list(self.tables.values())
        return Counts(
            batches=self.batches,
            rows=sum(each.rows for each in tables),
            changes=self.changes,
            refused=sum(each.refused for each in tables),
            notices=sum(each.notices for each in tables),
            watermark=time_of(watermark),
            operators=tuple(operators.values()),
        )

    def operators(self) -> dict[str, OperatorCounts]:
        """The counts of each operator by place, as 0.1, all buckets together."""
        counts = {}
        for place in sorted(self._host.nodes):
            node = self._host.nodes[place]
            for number, operator in enumerate(node.fragments[0].operators):
                each = [bucket.tallies[number].read_counts() for bucket in node.buckets]
                summed = [sum(values) for values in zip(*each, strict=True)]
                named = dict(zip((*FLOWS, *LEVELS), summed, strict=True))
                buckets = (len(each), len(each))
                counts[f"{place}.{number}"] = OperatorCounts(
                    operator.name, **named, buckets=buckets
                )
        return counts
