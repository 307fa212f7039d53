"""The input that a query has read, once more: the same rows, cut into the same batches where that is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aggloom.runtime.engine.file_log import ListedFile
from aggloom.runtime.engine.file_source import FileInput
from aggloom.runtime.engine.sources import Source
from aggloom.runtime.local.message_reader import Read


@dataclass(frozen=True)
class InputScript:
    """The input of a query up to one of its batches.

    ranges: by table what each batch with input has read, None where it has read nothing; of files a list of them.
    idle: how many batches without input followed these. closes: whether the last of these closed all windows.
    """

    ranges: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    idle: int = 0
    closes: bool = False

    @property
    def batches(self) -> int:
        """The number of batches with input."""
        return max(map(len, self.ranges.values()), default=0)


class ReplayedInput:
    """A source of ranges that are known before it is opened; batches count from 0.

    ranges: of the batches, None where one reads nothing of this table.
    """

    ends = True

    def __init__(self, source: Source, ranges: Sequence[Any]) -> None:
        self._source, self._ranges = source, ranges

    @property
    def backlog(self) -> Mapping[str, int]:
        """Nothing waits: how much is read is known."""
        return {}

    def plan(self, batch: int, position: Any) -> Any:
        """The range of a batch; None where nothing was read."""
        planned = self._ranges[batch] if batch < len(self._ranges) else None
        # Files of a batch have to be noted again, as their log belongs to another checkpoint.
        if planned is not None and isinstance(self._source, FileInput):
            return self._source.plan_files(batch, planned)
        return planned

    def read(self, planned: Any) -> Iterator[Read]:
        """Yield the rows of a range; raises MissingFileError and its kin if they cannot be read any more."""
        return self._source.read(planned)

    def end(self, planned: Any) -> Any:
        """The position after a range."""
        return self._source.end(planned)


def align_files(
    files: Mapping[str, Sequence[ListedFile]],
) -> tuple[dict[str, list[list[ListedFile] | None]], list[int]]:
    """The files of each batch by table, and the numbers of the batches; tables go by the same numbers."""
    numbers = sorted({each.batch for listed in files.values() for each in listed})
    places = {number: place for place, number in enumerate(numbers)}
    files_by_table: dict[str, list[list[ListedFile] | None]] = {}
    for table, listed in files.items():
        files_by_table[table] = [None] * len(numbers)
        for each in listed:
            # A batch without files of this table stays None, which differs from one with an empty list.
            batch = files_by_table[table][places[each.batch]] or []
            files_by_table[table][places[each.batch]] = [*batch, each]
    return files_by_table, numbers
