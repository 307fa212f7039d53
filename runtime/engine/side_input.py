"""A source whose unreadable messages go into a side table: a file for each range, written before its batch is run."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from aggloom.runtime.engine.sources import Source
from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.decoder import side_rows
from aggloom.runtime.formats.side_table import SideTable
from aggloom.runtime.local.message_reader import Read


class SideInput:
    """A source, and what becomes of messages that it refuses. query: the id of the checkpoint.

    The file of a range is named by the query and the range, so that one that is read again writes the same file.
    """

    def __init__(self, source: Source, side: SideTable, query: str) -> None:
        self._source, self._side, self._query = source, side, query

    @property
    def ends(self) -> bool:
        """True if no row is expected after those that are there."""
        return self._source.ends

    @property
    def backlog(self) -> Mapping[str, int]:
        """The input that the last plan has left for later batches."""
        return self._source.backlog

    def plan(self, batch: int, position: Any) -> Any:
        """The range of the next batch; None if nothing is new."""
        return self._source.plan(batch, position)

    def read(self, planned: Any) -> Iterator[Read]:
        """Yield the rows of a range; then write what was refused. Raises DataError where that cannot be."""
        refused: list[tuple[Message, str]] = []
        for read in self._source.read(planned):
            refused += read[2]
            yield read
        if refused:
            digest = zlib.crc32(json.dumps(planned, sort_keys=True).encode())
            self._side.write(side_rows(refused), f"{self._query}-{digest:08x}")

    def end(self, planned: Any) -> Any:
        """The position after a range."""
        return self._source.end(planned)
