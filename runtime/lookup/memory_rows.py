"""Rows in memory, or those that a function gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from aggloom.codegen import GivenRows
from aggloom.errors import LookupAnswerError
from aggloom.runtime.lookup.request import Request


class GivenSource:
    """A table whose rows are at hand."""

    def __init__(self, request: Request) -> None:
        source = request.table.source
        assert isinstance(source, GivenRows)
        self._request, self._rows = request, source.rows

    def read(self) -> Sequence[Any]:
        rows = self._rows() if callable(self._rows) else self._rows
        if isinstance(rows, pa.RecordBatch | pa.Table):
            return rows_of(self._request, rows)
        if not isinstance(rows, list | tuple):
            raise LookupAnswerError(
                f"lookup table {self._request.name}: rows is a {type(rows).__name__}; give a list of rows or an Arrow "
                "table"
            )
        return rows

    def close(self) -> None:
        """There is nothing to close."""


def rows_of(request: Request, table: pa.RecordBatch | pa.Table) -> list[Any]:
    """The rows of an Arrow table, in the columns that are read; raises LookupAnswerError."""
    known = table.schema.names
    missing = [name for name in request.read.names if name not in known]
    if missing:
        raise LookupAnswerError(
            f"lookup table {request.name}: there is no column {', '.join(map(repr, missing))} among "
            f"{', '.join(known)}; declare the columns that there are"
        )
    return list(table.select(request.read.names).to_pylist())
