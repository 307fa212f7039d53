"""Rows of this process as a source: a list of changes, or a table of Arrow or pandas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aggloom.codegen.planner import Scan
from aggloom.errors import CheckpointError
from aggloom.runtime.local.harness_rows import scanned_rows
from aggloom.runtime.local.message_reader import Read

_ROWS = 100_000
"""A batch has so many rows at most."""


class RowsInput:
    """The rows of a table that its user has at hand; a run that goes on is given the same rows, and perhaps more.

    rows: as of `Harness.process`. position: how many rows were read.
    """

    ends = True

    def __init__(self, scan: Scan, rows: Any, position: int | None) -> None:
        self.backlog: dict[str, int] = {}
        self._batch, self._kinds = scanned_rows(rows, None, scan)
        if (position or 0) > self._batch.num_rows:
            raise CheckpointError(
                f"table {scan.table}: {position:,} rows were read from it before, and {self._batch.num_rows:,} are "
                "given now. Give all rows once more, with new ones behind them."
            )

    def plan(self, batch: int, position: Any) -> Any:
        """The range of the next batch: the first row and the one behind the last; None if there is none."""
        start = int(position or 0)
        end = min(start + _ROWS, self._batch.num_rows)
        self.backlog = {"rows": self._batch.num_rows - end}
        return [start, end] if end > start else None

    def read(self, planned: Any) -> Iterator[Read]:
        """Yield the rows of a range."""
        start, end = planned
        yield self._batch.slice(start, end - start), self._kinds[start:end], [], 0

    def end(self, planned: Any) -> Any:
        """The position after a range."""
        return planned[1]
