"""Tables of files with versions, Delta's and Iceberg's, as a source: the table as it is, then what versions change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aggloom.codegen.planner import Scan
from aggloom.runtime.engine.sources import other_source
from aggloom.runtime.lakes.pieces import Lake, Offset
from aggloom.runtime.local.message_reader import Read
from aggloom.runtime.values.batches import make_batch
from aggloom.runtime.values.changelog import parse_kinds


class LakeInput:
    """The versions of a table of a lake; positions are its offsets, as on Spark.

    most: how many versions a batch takes. ends: whether versions that are committed later are not waited for. Raises
    CheckpointError for a position of another source.
    """

    def __init__(
        self, lake: Lake, scan: Scan, *, most: int | None, ends: bool, position: Any
    ) -> None:
        where = f"table {scan.table}"
        if position is not None and not _is_offset(position):
            raise other_source(scan.table, position)
        self._lake, self._scan, self._where, self._most = lake, scan, where, most
        self.ends = ends
        self.backlog: dict[str, int] = {}
        self._last: int | None = None

    def plan(self, batch: int, position: Any) -> Any:
        """The range of the next batch; None if no version is new. Raises CheckpointError and its kin."""
        start: Offset = self._lake.first() if position is None else position
        if self.ends and self._last is None:
            self._last = int(self._lake.latest(start, None)["version"])
        if self._last is not None and start["version"] >= self._last and position is not None:
            return None
        end = self._lake.latest(start, self._most)
        if end == start and position is not None:
            return None
        if self._last is not None:
            self.backlog = {"versions": max(0, self._last - int(end["version"]))}
        # A first range may have no version: from then on the position says where reading begins.
        return {"from": start, "to": end}

    def read(self, planned: Any) -> Iterator[Read]:
        """Yield the rows of a range; raises MissingFileError if versions or files are gone, and InputFormatError."""
        if not isinstance(planned, dict) or not _is_offset(planned.get("from")):
            raise other_source(self._scan.table, planned)
        schema = self._scan.schema
        for piece in self._lake.pieces(planned["from"], planned["to"]):
            for rows, words in self._lake.rows(piece):
                kinds = parse_kinds(words, self._where)
                columns = [rows.column(name) for name in schema.names]
                yield make_batch(columns, schema, rows.num_rows), kinds, [], 0

    def end(self, planned: Any) -> Any:
        """The position after a range."""
        return planned["to"]


def _is_offset(position: Any) -> bool:
    """Tell whether a position is one of a lake."""
    return isinstance(position, dict) and "table" in position and "version" in position
