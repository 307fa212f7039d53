"""Messages that a client has fetched: pieces of one partition each, and what the client says in their place."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np

from aggloom.errors import SpecError
from aggloom.runtime.connectors.kafka.broker import TopicPlace
from aggloom.runtime.connectors.kafka.message_facts import locate_messages, read_facts
from aggloom.runtime.formats.base import Messages
from aggloom.runtime.formats.texts import Texts, Words


class Notice(NamedTuple):
    """A thing that the client says in place of a message: of a partition, the name of an error, its text, an offset."""

    place: TopicPlace
    name: str
    text: str
    offset: int


class Fetched(Protocol):
    """Messages of one partition, in the order of their offsets."""

    @property
    def place(self) -> TopicPlace:
        """The partition."""

    @property
    def last(self) -> int:
        """The offset of the last message."""

    @property
    def size(self) -> int:
        """The bytes of the values."""

    def __len__(self) -> int: ...

    def cut_between(self, start: int, end: int) -> Fetched:
        """The messages from an offset up to another."""


class FetchingClient(Protocol):
    """A client that fetches."""

    def assign(self, starts: dict[TopicPlace, int]) -> None:
        """Fetch partitions from these offsets on, and nothing else."""

    def unassign(self) -> None:
        """Fetch nothing."""

    def consume(self, most: int, seconds: float) -> list[Fetched | Notice]:
        """Messages that have come, and what the client says; nothing if there is none for so long."""


class ObjectPiece(list[Any]):
    """Messages as objects of the package confluent_kafka."""

    @property
    def place(self) -> TopicPlace:
        """The partition."""
        return TopicPlace(self[0].topic(), self[0].partition())

    @property
    def last(self) -> int:
        """The offset of the last message."""
        return int(self[-1].offset())

    @property
    def size(self) -> int:
        """The bytes of the values."""
        return sum(len(message.value() or b"") for message in self)

    def cut_between(self, start: int, end: int) -> ObjectPiece:
        """The messages from an offset up to another."""
        if start <= self[0].offset() and self.last < end:
            return self
        first, behind = (
            bisect_left(self, at, key=lambda each: each.offset()) for at in (start, end)
        )
        return ObjectPiece(self[first:behind])


class ColumnPiece:
    """Messages in columns, that were never objects. values, keys: their texts. offsets: int64[messages]."""

    def __init__(self, place: TopicPlace, values: Texts, keys: Texts, offsets: Words) -> None:
        self.place, self.values, self.keys, self.offsets = place, values, keys, offsets

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def last(self) -> int:
        """The offset of the last message."""
        return int(self.offsets[-1])

    @property
    def size(self) -> int:
        """The bytes of the values."""
        return self.values.size

    def cut_between(self, start: int, end: int) -> ColumnPiece:
        """The messages from an offset up to another."""
        first, behind = np.searchsorted(self.offsets, (start, end)).tolist()
        if (first, behind) == (0, len(self)):
            return self
        own = slice(first, behind)
        return ColumnPiece(self.place, self.values[own], self.keys[own], self.offsets[own])


class _JoinedLater(Sequence[bytes | None]):
    """Texts of several pieces as one sequence; they are put together where one is asked for."""

    def __init__(self, parts: Sequence[Texts]) -> None:
        self._parts, self._length = parts, sum(map(len, parts))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, at: Any) -> Any:
        return self._whole[at]

    @cached_property
    def _whole(self) -> Texts:
        return Texts.join(self._parts)


def join_pieces(pieces: Sequence[Fetched]) -> Messages:
    """Pieces one after the other as a decoder takes them."""
    columns = [piece for piece in pieces if isinstance(piece, ColumnPiece)]
    if len(columns) == len(pieces):
        return _join_columns(columns)
    return as_messages(
        [each for piece in pieces if isinstance(piece, ObjectPiece) for each in piece]
    )


def as_messages(block: Sequence[Any]) -> Messages:
    """Messages of confluent_kafka as a decoder takes them."""
    values = [message.value() for message in block]
    keys = [message.key() for message in block]
    return Messages(values, keys, locate_messages(block), partial(read_facts, block))


def _join_columns(pieces: Sequence[ColumnPiece]) -> Messages:
    values = Texts.join([piece.values for piece in pieces])
    keys = _JoinedLater([piece.keys for piece in pieces])
    ends = np.cumsum([len(piece) for piece in pieces])

    def locate(at: int) -> str:
        number = int(np.searchsorted(ends, at, "right"))
        piece = pieces[number]
        topic, partition = piece.place
        offset = piece.offsets[at - int(ends[number])]
        return f"topic {topic}, partition {partition}, offset {offset}"

    def read_fact(name: str) -> list[Any]:
        reader = _FACTS.get(name)
        if reader is None:
            raise SpecError(f"METADATA {name!r} is not among what was fetched")
        return list(chain.from_iterable(map(reader, pieces)))

    return Messages(values, keys, locate, read_fact)


_FACTS: dict[str, Callable[[ColumnPiece], Sequence[Any]]] = {
    "topic": lambda piece: [piece.place.topic] * len(piece),
    "partition": lambda piece: [piece.place.partition] * len(piece),
    "offset": lambda piece: piece.offsets.tolist(),
}
COLUMN_FACTS = frozenset(_FACTS)
"""The facts of a topic that messages in columns tell."""
