"""Sources of the local engine: they report new input, and read the rows of a planned range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol, runtime_checkable

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


@runtime_checkable
class AheadSource(Source, Protocol):
    """A source that can read into the next batch before that is planned."""

    def read_ahead(self, planned: Any) -> None:
        """Begin to read what will be new behind a range; what is planned then decides whether it is used."""

    def close(self) -> None:
        """Drop what was read ahead."""


def reading_ahead(source: Source, planned: Any) -> Callable[[], None] | None:
    """The call by which a source reads into the batch behind a range; None if it does not."""
    return partial(source.read_ahead, planned) if isinstance(source, AheadSource) else None


def close_sources(sources: Iterable[Source]) -> None:
    """Drop what sources have read ahead."""
    for source in sources:
        if isinstance(source, AheadSource):
            source.close()


def other_source(table: str, position: Any) -> CheckpointError:
    """The error for a position in the checkpoint that is not one of the table's source."""
    return CheckpointError(
        f"table {table}: the checkpoint has the position of another kind of source ({position!r:.80}). Read what it "
        "has read before, or start over with an empty checkpoint directory."
    )
