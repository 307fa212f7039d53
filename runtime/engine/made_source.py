"""Made rows as a source: so many a second, from the number where the last run stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from aggloom.codegen.planner import Scan
from aggloom.runtime.connectors.datagen.options import DatagenSource
from aggloom.runtime.connectors.datagen.rows import RowMaker
from aggloom.runtime.engine.sources import other_source
from aggloom.runtime.formats.time_digits import cut_times
from aggloom.runtime.local.message_reader import Read

_ROWS = 500_000
"""A batch has so many rows at most."""


class MadeRows:
    """The rows of a table that are made. position: how many were. Raises SpecError, and CheckpointError.

    A range says its time, too, so that a batch that runs again has the same rows.
    """

    def __init__(self, source: DatagenSource, scan: Scan, position: Any) -> None:
        if not isinstance(position, int | None):
            raise other_source(scan.table, position)
        self._table, self._rate, self._digits = scan.table, source.rows_per_second, scan.digits
        self._maker = RowMaker(source, scan.schema, f"table {scan.table}")
        self.backlog: dict[str, int] = {}
        self._first = self._next = int(position or 0)
        self._begun: float | None = None

    @property
    def ends(self) -> bool:
        """True if all rows are made."""
        return self._maker.total is not None and self._next >= self._maker.total

    def plan(self, batch: int, position: Any) -> Any:
        """The range of the next batch: its first row, the one behind its last, its time; None if none is due yet."""
        now, start = time.monotonic(), int(position or 0)
        if self._begun is None:
            # The rows of a first moment, so that the first batch has some.
            self._begun = now - min(1.0, max(0.1, 1 / self._rate))
        due = self._first + int((now - self._begun) * self._rate)
        total = self._maker.total
        end = min(due, start + _ROWS, due if total is None else total)
        self._next = max(end, start)
        return [start, end, time.time_ns() // 1_000_000] if end > start else None

    def read(self, planned: Any) -> Iterator[Read]:
        """Yield the rows of a range."""
        start, end, at = planned
        rows = cut_times(self._maker.make(start, end, at), self._digits)
        yield rows, np.zeros(end - start, np.int8), [], 0

    def end(self, planned: Any) -> Any:
        """The position after a range."""
        return planned[1]
