"""Counts on their way out of a query: Spark's observed metrics, and what its progress says of them.

An operator's counts leave beside its changes, in one more column, and are added up before the changes are unpacked.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from aggloom.runtime.operators.counts import FLOWS, LEVELS, Counts, OperatorCounts
from aggloom.runtime.spark.files import METRIC

COUNTS_DDL = "counts ARRAY<BIGINT>"
"""The column in which counts leave a fragment: the bucket, and of each operator FLOWS since its last, and LEVELS."""
REFUSED = "aggloom refused"
"""Begins the names of the observed metrics in which sources count what they were told to pass over."""

_COUNTS = len(FLOWS) + len(LEVELS)
_OPERATOR, _RESULT = "aggloom operator", "aggloom result"
_NAMED = re.compile(rf"{_OPERATOR} (\d+)\.(\d+) #\d+: (.*)", re.DOTALL)
_NUMBERS = itertools.count()
_FOLLOWED: WeakKeyDictionary[StreamingQuery, Totals] = WeakKeyDictionary()


def number() -> int:
    """What tells the metrics of a query from those of others that may be made one with it."""
    return next(_NUMBERS)


def operators_counted(
    df: DataFrame, names: Sequence[str], place: int, query: int, buckets: int
) -> DataFrame:
    """What leaves a fragment, without the counts of its operators: each has an observed metric."""
    observed = df
    for part, name in enumerate(names):
        start = 1 + part * _COUNTS
        sums = [F.sum(F.col("counts")[start + at]).alias(flow) for at, flow in enumerate(FLOWS)]
        levels = F.concat(
            F.slice("counts", 1, 1), F.slice("counts", start + 1 + len(FLOWS), len(LEVELS))
        )
        observed = observed.observe(
            f"{_OPERATOR} {place}.{part} #{query}: {name}",
            *sums,
            F.collect_list(levels).alias("buckets"),
            F.max(F.lit(buckets)).alias("of"),
        )
    return observed.where("blob IS NOT NULL").drop("counts")


def result_counted(df: DataFrame, query: int, late_row: str | None) -> DataFrame:
    """The result of a query; how many changes it has is an observed metric. late_row: set in rows that are none."""
    counted = F.count(F.lit(1)) if late_row is None else F.count_if(F.col(late_row).isNull())
    return df.observe(f"{_RESULT} #{query}", counted.alias("changes"))


def progress(query: StreamingQuery) -> Counts:
    """What a streaming query has counted since it started, each batch once.

    Ask at least once in 100 batches: Spark forgets older ones (spark.sql.streaming.numRecentProgressUpdates).
    """
    totals = _FOLLOWED.setdefault(query, Totals())
    for batch in query.recentProgress:
        totals.add(batch)
    return totals.counts


class Totals:
    """Adds up the batches of one run of a query."""

    def __init__(self) -> None:
        self.rows = self.changes = self.refused = self.new_changes = 0
        self._seen: set[int] = set()
        self._watermark: dt.datetime | None = None
        self._operators: dict[str, _Operator] = {}

    def add(self, progress: Any) -> bool:
        """Take a batch's progress; False if it has been taken before, or if nothing ran, as where no file is new."""
        batch = int(progress["batchId"])
        if batch in self._seen or "addBatch" not in progress["durationMs"]:
            return False
        self._seen.add(batch)
        before = self.changes
        self.rows += input_rows(progress)
        for name, row in _observed(progress).items():
            if name.startswith(_RESULT):
                self.changes += row["changes"] or 0
            elif name.startswith(REFUSED):
                self.refused += sum(count or 0 for count in row.values())
            elif name.startswith(_OPERATOR):
                self._operators.setdefault(name, _Operator(name)).add(row)
        self.new_changes = self.changes - before
        told = (progress.get("eventTime") or {}).get("watermark")
        if told and not told.startswith("1970-01-01T00:00:00"):
            self._watermark = dt.datetime.fromisoformat(told)
        return True

    @property
    def levels(self) -> dict[str, dict[str, Any]]:
        """Each operator by its number: what it did in the last batch, and what it holds."""
        ordered = sorted(self._operators.values(), key=lambda each: each.place)
        return {f"{-each.place[0]}.{each.place[1]}": each.last for each in ordered}

    @property
    def counts(self) -> Counts:
        """All of it, the operators in the order in which rows reach them."""
        ordered = sorted(self._operators.values(), key=lambda each: each.place)
        operators = tuple(each.counts for each in ordered)
        return Counts(
            batches=len(self._seen),
            rows=self.rows,
            changes=self.changes,
            refused=self.refused,
            watermark=self._watermark,
            operators=operators,
            complete=0 in self._seen or all(o.buckets[0] == o.buckets[1] for o in operators),
        )


class _Operator:
    """The counts of one operator: what adds up, and what each bucket said last that it holds."""

    def __init__(self, metric: str) -> None:
        named = _NAMED.fullmatch(metric)
        assert named
        self.place, self._name = (-int(named[1]), int(named[2])), named[3]
        self._flows = dict.fromkeys(FLOWS, 0)
        self._now = dict(self._flows)
        self._levels: dict[int, list[int]] = {}
        self._of = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Take what was observed in a batch."""
        for flow in FLOWS:
            self._now[flow] = row[flow] or 0
            self._flows[flow] += self._now[flow]
        for bucket, *told in row["buckets"] or ():
            self._levels[bucket] = told
        self._of = row["of"] or self._of

    @property
    def last(self) -> dict[str, Any]:
        """What it did in the last batch, and all that `counts` has of it."""
        return {**vars(self.counts), "batch": dict(self._now)}

    @property
    def counts(self) -> OperatorCounts:
        told: dict[str, Any] = dict(self._flows)
        for at, level in enumerate(LEVELS):
            told[level] = sum(held[at] for held in self._levels.values())
        return OperatorCounts(self._name, **told, buckets=(len(self._levels), self._of))


def input_rows(progress: Any) -> int:
    """Rows that a batch has read: of files that are read whole, what is in them."""
    inside = sum(
        (row["rows"] or 0) - (row["files"] or 0)
        for name, row in _observed(progress).items()
        if name.startswith(METRIC)
    )
    return int(progress.get("numInputRows") or 0) + int(inside)


def _observed(progress: Any) -> dict[str, dict[str, Any]]:
    """The observed metrics of a batch, by name."""
    return {name: row.asDict() for name, row in (progress.get("observedMetrics") or {}).items()}
