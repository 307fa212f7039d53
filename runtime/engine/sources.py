"""Sources of the local engine: they report new input, and read the rows of a planned range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from aggloom.errors import CheckpointError
from aggloom.runtime.local.message_reader import Read


class Source(Protocol):
    """A table's input. Ranges and positions are data that JSON holds; both are kept in the checkpoint.

    A planned range gives the same rows whenever it is read, or raises an error.
    """

    @property
    def ends(self) -> bool:
        """True if no row is expected after those that are there."""

    @property
    def backlog(self) -> Mapping[str, int]:
        """The input that the last plan has left for later batches, by its unit: files, bytes or offsets."""

    def plan(self, batch: int, position: Any) -> Any:
        """The range of the next batch, after a position (None: from the start); None if nothing is new."""

    def read(self, planned: Any) -> Iterator[Read]:
        """Yield the rows of a range."""

    def end(self, planned: Any) -> Any:
        """The position after a range."""


def other_source(table: str, position: Any) -> CheckpointError:
    """The error for a position in the checkpoint that is not one of the table's source."""
    return CheckpointError(
        f"table {table}: the checkpoint has the position of another kind of source ({position!r:.80}). Read what it "
        "has read before, or start over with an empty checkpoint directory."
    )
