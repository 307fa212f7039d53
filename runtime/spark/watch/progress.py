"""Progress of a running query, a line a batch: on standard error if somebody watches, or to a function."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

from pyspark.sql.streaming.query import StreamingQuery

from aggloom.runtime.operators.counts import Counts
from aggloom.runtime.spark.plan.metrics import Totals, input_rows, read_rows

_POLL_SECONDS = 0.5
_FEW_ROWS = 1_000
"""The time of fewer rows is that of their batches."""


def describe(progress: dict[str, Any], total_rows: int, first: bool = False) -> str:
    """One batch in one line: rows, rate, batch, duration, lag of the input, size of the state.

    first: of a run.
    """
    rows = input_rows(progress)
    millis = _milliseconds(progress)
    # The first batch of a run starts workers and compiles; its rate would tell of that.
    rate = "with the start" if first else f"{rows * 1000 // max(millis, 1):,} rows/s"
    state = sum(
        int(operator.get("memoryUsedBytes") or 0) for operator in progress.get("stateOperators", [])
    )
    lags = [
        (source.get("metrics") or {}).get("numFilesOutstanding") for source in progress["sources"]
    ]
    waiting = sum(int(lag) for lag in lags if lag)
    behind = f", {waiting:,} files waiting" if waiting else ""
    return (
        f"batch {progress.get('batchId')}: {rows:,} rows in {millis / 1000:.1f} s ({rate}), "
        f"{total_rows:,} rows so far{behind}, state store {state / 2**20:.1f} MB"
    )


def _milliseconds(progress: dict[str, Any]) -> int:
    """The duration of a batch."""
    return int((progress.get("durationMs") or {}).get("triggerExecution") or 0)


class ProgressPrinter:
    """Prints each batch of a query as it completes, while a context lasts; it may be entered again.

    alone: as Totals says. show: takes the lines instead of `out`, whether anybody watches or not.
    """

    def __init__(
        self,
        query: StreamingQuery,
        out: TextIO | None = None,
        force: bool = False,
        alone: bool = False,
        show: Callable[[str], object] | None = None,
    ) -> None:
        self._query = query
        self._out = out or sys.stderr
        self._active = force or show is not None or self._out.isatty()
        self._show = show or self._print
        self._totals = Totals(alone)
        self._later_rows = self._later_millis = 0

    def follow(self, query: StreamingQuery) -> None:
        """Watch another run of the same query from now on; what it counts is added."""
        self._query = query

    @property
    def counts(self) -> Counts:
        """Return the counts of the query, of all batches that have completed."""
        return self._totals.counts

    @property
    def rate(self) -> int | None:
        """Return the rows a second of the batches after the first, which starts workers and compiles; None of few."""
        if self._later_rows < _FEW_ROWS or not self._later_millis:
            return None
        return self._later_rows * 1000 // self._later_millis

    def __enter__(self) -> ProgressPrinter:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._print_new()

    def _watch(self) -> None:
        """Poll until `stop` is set."""
        while not self._stop.wait(_POLL_SECONDS):
            self._print_new()

    def _print_new(self) -> None:
        """Print the batches completed since the last look."""
        try:
            recent: list[Any] = list(self._query.recentProgress)
        except Exception:
            # The query may be gone while the session closes; progress is not worth an error.
            return
        for progress in recent:
            first = not self._totals.counts.batches
            new = self._totals.add(progress)
            if not new or not read_rows(progress):
                continue
            if not first:
                self._later_rows += input_rows(progress)
                self._later_millis += _milliseconds(progress)
            if self._active:
                self._show(describe(progress, self._totals.rows, first))

    def _print(self, line: str) -> None:
        print(line, file=self._out, flush=True)
