"""Warnings of the rows that a plan without Spark drops, behind the call in which they were dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from aggloom.codegen.planner import Stateful, walk
from aggloom.runtime.local.pipeline import Pipeline
from aggloom.runtime.operators.counts import Counts, counts_of
from aggloom.runtime.operators.dropped_rows import DroppedReport, find_call
from aggloom.runtime.operators.registry import operator_of


class DroppedWatch:
    """Watches what the operators of a pipeline, and the formats that are read for it, drop.

    unreadable: the messages that could not be read, a list that grows.
    """

    def __init__(self, pipeline: Pipeline, unreadable: Sequence[Any]) -> None:
        options, nodes = pipeline.plan.options, walk(pipeline.plan.root)
        stateful = [operator_of(each, options) for each in nodes if isinstance(each, Stateful)]
        self._pipeline, self._unreadable = pipeline, unreadable
        self._report = DroppedReport(any(each.late_columns is not None for each in stateful))
        # Calls stack, as `read` calls `process`, which may call `flush`: one warning is enough.
        self._depth = 0

    def silence(self) -> None:
        """Have no warnings."""
        self._report.is_quiet = True

    @contextmanager
    def warn_after(self, ended: bool = False) -> Iterator[None]:
        """Do a call, and warn behind the outermost one: a filter that makes an error of it cuts no work short.

        ended: whether it ends the input, so that what arrived since the first warning is named, too.
        """
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        # After the call and not in `finally`: an error of the call itself must not be hidden by a warning.
        if not self._depth and (ended or self._report.is_due(self._totals())):
            # Counting late rows may take a look into the state, so it is done only once a warning is due.
            self._report.warn(self._counts(), ended, find_call())

    def _totals(self) -> dict[str, int]:
        """Return the rows dropped by kind, without a look at the state."""
        counters = [operator.counters for operator in self._pipeline.operators]
        return {
            "orphans": sum(each.get("orphans_dropped", 0) for each in counters),
            "late": sum(each.get("late_dropped", 0) for each in counters),
            "refused": len(self._unreadable),
        }

    def _counts(self) -> Counts:
        return counts_of(self._pipeline.operators, refused=len(self._unreadable))
