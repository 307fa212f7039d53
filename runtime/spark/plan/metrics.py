"""Counts on their way out of a query: Spark's observed metrics, and what its progress says of them.

An operator's counts leave beside its changes, in one more column (`output_encoding.py`), and are observed before
anything else is done with the changes.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from aggloom.runtime.operators.counts import FLOWS, LEVELS, Counts, OperatorCounts
from aggloom.runtime.spark.arguments import check_query
from aggloom.runtime.spark.node.output_encoding import COUNTS, format_counts
from aggloom.runtime.spark.plan.expressions import quote
from aggloom.runtime.spark.read.files import METRIC

PASSED_OVER = "aggloom passed over"
"""Begins the names of the observed metrics in which sources count messages that are refused, or have no row."""

_WIDTH = len(FLOWS) + len(LEVELS)
_OPERATORS, _RESULT = "aggloom operators", "aggloom result"
_NAMED = re.compile(rf"{_OPERATORS} (\d+) #\d+: (.*)", re.DOTALL)
_NUMBERS = itertools.count()
# Weak, lest counts keep a query alive that its user has dropped.
_FOLLOWED: WeakKeyDictionary[StreamingQuery, Totals] = WeakKeyDictionary()


def number() -> int:
    """Return the number that distinguishes the metrics of a query from those of others that may be made one with it."""
    return next(_NUMBERS)


def operators_counted(
    df: DataFrame, names: Sequence[str], place: int, query: int, buckets: int, filled: str
) -> DataFrame:
    """Return the output of a fragment, without the counts of its operators, which are one observed metric.

    Its name says how many buckets there are, and what the operators are called. filled: the column that is NULL in
    rows that bring only counts.
    """
    about = json.dumps([buckets, *names])
    # A metric of Spark's is an aggregate: this one keeps the texts of all buckets, and leaves NULLs out.
    counts_column = F.collect_list(quote(COUNTS)).alias("counts")
    observed = df.observe(f"{_OPERATORS} {place} #{query}: {about}", counts_column)
    # Only after the metric: rows that bring nothing but counts have been counted by now.
    return observed.where(f"{quote(filled)} IS NOT NULL").drop(COUNTS)


def result_counted(df: DataFrame, query: int, late_row: str | None) -> DataFrame:
    """The result of a query; how many changes it has is an observed metric. late_row: set in rows that are none."""
    counted = F.count(F.lit(1)) if late_row is None else F.count_if(F.col(late_row).isNull())
    return df.observe(f"{_RESULT} #{query}", counted.alias("changes"))


def progress(query: StreamingQuery) -> Counts:
    """Return the counts of a streaming query since it started, each batch once.

    query: what `write_changes` has started. Ask at least once in 100 batches: Spark forgets older ones
    (spark.sql.streaming.numRecentProgressUpdates). Raises SpecError if it is no streaming query.

    Example: see `write_changes`.
    """
    check_query("progress", query)
    totals = _FOLLOWED.setdefault(query, Totals())
    for batch in query.recentProgress:
        totals.add(batch)
    return totals.counts


class Totals:
    """Adds up the batches of one run of a query.

    alone: it is one query and no union of several, whose operators go by their places where it is started once more.
    """

    def __init__(self, alone: bool = False) -> None:
        self._alone = alone
        self.rows = self.changes = self.refused = self.notices = self.new_changes = 0
        self._batches: set[int] = set()
        self._watermark: dt.datetime | None = None
        self._fragments: dict[str, _Fragment] = {}

    def add(self, progress: Any) -> bool:
        """Take a batch's progress; False if it has been taken before, or if nothing ran, as where no file is new."""
        batch = int(progress["batchId"])
        if batch in self._batches or "addBatch" not in progress["durationMs"]:
            return False
        self._batches.add(batch)
        before = self.changes
        self.rows += input_rows(progress)
        for name, row in _read_metrics(progress).items():
            if name.startswith(_RESULT):
                self.changes += row["changes"] or 0
            elif name.startswith(PASSED_OVER):
                # Spark's sum over no row is NULL.
                self.refused += row["refused"] or 0
                self.notices += row["notices"] or 0
            elif name.startswith(_OPERATORS):
                fragment = _Fragment(name)
                key = str(fragment.place) if self._alone else name
                self._fragments.setdefault(key, fragment).add(row["counts"])
        self.new_changes = self.changes - before
        watermark = (progress.get("eventTime") or {}).get("watermark")
        # Spark reports the epoch until a first row has moved the watermark.
        if watermark and not watermark.startswith("1970-01-01T00:00:00"):
            self._watermark = _instant(watermark)
        return True

    @property
    def levels(self) -> dict[str, dict[str, Any]]:
        """Each operator by its number: what it did in the last batch, and what it holds."""
        return {
            f"{each.place}.{part}": {**vars(counts), "batch": dict(zip(FLOWS, now, strict=True))}
            for each in sorted(self._fragments.values(), key=lambda each: -each.place)
            for part, (counts, now) in enumerate(zip(each.counts, each.now, strict=True))
        }

    @property
    def counts(self) -> Counts:
        """All of it, the operators in the order in which rows reach them."""
        # Fragments are numbered from the result down, so rows reach the highest number first.
        ordered = sorted(self._fragments.values(), key=lambda each: -each.place)
        operators = tuple(counts for each in ordered for counts in each.counts)
        return Counts(
            batches=len(self._batches),
            rows=self.rows,
            changes=self.changes,
            refused=self.refused,
            notices=self.notices,
            watermark=self._watermark,
            operators=operators,
            # A run that did not begin with batch 0 knows what is stored only once it has called every bucket.
            complete=0 in self._batches or all(o.buckets[0] == o.buckets[1] for o in operators),
        )


class _Fragment:
    """The counts of a fragment's operators: what adds up, and what each bucket said last that it holds."""

    def __init__(self, metric: str) -> None:
        named = _NAMED.fullmatch(metric)
        assert named
        self.place = int(named[1])
        self._buckets, *self._names = json.loads(named[2])
        self._flows = [[0] * len(FLOWS) for _ in self._names]
        self.now = self._flows
        """The counts of each operator in the last batch."""
        self._levels: dict[int, list[list[int]]] = {}

    def add(self, watermark: Sequence[str]) -> None:
        """Take what was observed in a batch: a text of each bucket that was called."""
        self.now = [[0] * len(FLOWS) for _ in self._names]
        for bucket, *numbers in map(format_counts, watermark):
            each = [numbers[at : at + _WIDTH] for at in range(0, len(numbers), _WIDTH)]
            self.now = [
                _sums(now, watermark) for now, watermark in zip(self.now, each, strict=True)
            ]
            # A level replaces the former one, where flows add up: buckets that were not called keep what they have.
            self._levels[bucket] = [watermark[len(FLOWS) :] for watermark in each]
        self._flows = [_sums(flows, now) for flows, now in zip(self._flows, self.now, strict=True)]

    @property
    def counts(self) -> Iterator[OperatorCounts]:
        """Those of each operator."""
        query_place = len(self._levels), self._buckets
        for place, (name, flows) in enumerate(zip(self._names, self._flows, strict=True)):
            # Before the first call there is no bucket, and zip(*) of nothing would have no column to sum.
            levels_of_buckets = [levels[place] for levels in self._levels.values()] or [
                [0] * len(LEVELS)
            ]
            totals = zip(
                (*FLOWS, *LEVELS),
                (*flows, *map(sum, zip(*levels_of_buckets, strict=True))),
                strict=True,
            )
            yield OperatorCounts(name, **dict(totals), buckets=query_place)


def _instant(text: str) -> dt.datetime | None:
    """A watermark of Spark's; None of one after all times, whose year has more digits."""
    return dt.datetime.fromisoformat(text) if text[4:5] == "-" else None


def _sums(flows: Sequence[int], more: Sequence[int]) -> list[int]:
    """Flows, and those that come first in others, one by one."""
    return [flow + other for flow, other in zip(flows, more, strict=False)]


def input_rows(progress: Any) -> int:
    """Rows that a batch has read: of files that are read whole, what is in them."""
    inside = sum(
        # Spark has counted each file as one row, which is taken off for the rows that are in it.
        (row["rows"] or 0) - (row["files"] or 0)
        for name, row in _read_metrics(progress).items()
        if name.startswith(METRIC)
    )
    return read_rows(progress) + int(inside)


def read_rows(progress: Any) -> int:
    """Rows that Spark has taken from the sources for a batch; over Connect only they tell how many."""
    rows = progress.get("numInputRows")
    if rows is None:
        rows = sum(source["numInputRows"] or 0 for source in progress.get("sources") or ())
    return int(rows)


def _read_metrics(progress: Any) -> dict[str, dict[str, Any]]:
    """The observed metrics of a batch, by name."""
    rows = (progress.get("observedMetrics") or {}).items()
    return {name: _by_name(row.asDict()) for name, row in rows}


def _by_name(row: dict[str, Any]) -> dict[str, Any]:
    """A metric's values by name; over Connect they are a list, and their names a schema beside it."""
    if row.keys() != {"values", "schema"}:
        return row
    names = [field["name"] for field in row["schema"]["fields"]]
    return dict(zip(names, row["values"], strict=True))
