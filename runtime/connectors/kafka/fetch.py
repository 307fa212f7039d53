"""Messages of ranges of offsets, fetched by librdkafka: partition by partition, so that they come in one order.

`fetch` gives them as a decoder takes them; `fetch_objects` as objects that say all that a topic tells of a message.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from aggloom.errors import DataError
from aggloom.runtime.connectors.kafka.broker import (
    TopicPlace,
    broker_error,
    client_config,
    kafka_client,
)
from aggloom.runtime.connectors.kafka.clients import ColumnClient, ObjectClient
from aggloom.runtime.connectors.kafka.fetched import (
    COLUMN_FACTS,
    Fetched,
    FetchingClient,
    Notice,
    ObjectPiece,
    join_pieces,
)
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.formats.base import Messages
from aggloom.runtime.sinks.stop import STOP

AT_ONCE = 20_000
"""Number of messages that the client is asked for at once, and that are handed on together."""
MOST_BYTES = 64 << 20
"""Bytes of values that are handed on together, however few messages they are, so that wide ones fit into memory."""
_KEPT, _KEPT_BYTES = 50_000, 64 << 20
"""The number of messages of partitions that are fetched together, and of their bytes, that may wait for those before
them."""
_WAIT_SECONDS = 0.05
_PATIENCE_SECONDS = 60.0
_END_SECONDS = 10.0
"""The time for which the end of a partition may lie before that of a range: a new leader learns late of what is
committed."""
_USUAL = {
    "group.id": "aggloom",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # A range may end with marks of transactions, of which the end of the partition alone tells.
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 2,
    # What was fetched beyond a range is fetched again with the next one.
    "fetch.message.max.bytes": 1 << 20,
    # One block of narrow messages waits while another is decoded: more would be fetched for nothing behind a range.
    "queued.min.messages": 2_000,
}


class OffsetRange(NamedTuple):
    """Messages of a partition, from an offset up to another, which is not in it."""

    place: TopicPlace
    start: int
    end: int


class _Part:
    """A range under way: pieces that have come and wait, and the end that its partition is known to have."""

    def __init__(self, offsets: OffsetRange) -> None:
        self.place, self.next, self.end = offsets
        self.pieces: list[Fetched] = []
        self.size = 0
        self.is_done = False
        self.log_end: int | None = None

    def add(self, piece: Fetched) -> None:
        """Take messages, but for those behind the range."""
        own = piece.cut_between(self.next, self.end)
        if len(own):
            self.pieces.append(own)
            self.size += own.size
        # Offsets have gaps, where messages were compacted and where transactions end: what counts is the next one.
        self.next = max(self.next, piece.last + 1)
        self.is_done |= self.next >= self.end


class MessageFetcher:
    """Fetches ranges of a source's topics; where: begins messages.

    facts: what is read of messages beside keys and values, by Flink's words; None: they are wanted as objects. What is
    gone is an error, or is passed over, as the source says. Raises DataError, SpecError for a client that cannot be
    made.
    """

    def __init__(
        self, source: KafkaSource, where: str, facts: Collection[str] | None = None
    ) -> None:
        self._source, self._where = source, where
        self._is_strict = source.lost_data == "error"
        reset = {"auto.offset.reset": "error" if self._is_strict else "earliest"}
        config = {**_USUAL, **client_config(source), **reset}
        self._failure = kafka_client(where).KafkaException
        in_columns = facts is not None and COLUMN_FACTS.issuperset(facts)
        client = ColumnClient.open(config) if in_columns else None
        self._client: FetchingClient
        self._client = opened = client or ObjectClient(config, where)
        weakref.finalize(self, opened.close)

    def fetch(self, ranges: Sequence[OffsetRange]) -> Iterator[Messages]:
        """Yield the messages of ranges in their order, some thousands at a time."""
        with closing(self._fetch(ranges)) as fetched:
            for pieces in fetched:
                yield join_pieces(pieces)

    def fetch_objects(self, ranges: Sequence[OffsetRange]) -> Iterator[list[Any]]:
        """The same as objects of the package confluent_kafka, of a fetcher that is asked for these."""
        for pieces in self._fetch(ranges):
            yield [each for piece in pieces if isinstance(piece, ObjectPiece) for each in piece]

    def _fetch(self, ranges: Sequence[OffsetRange]) -> Generator[list[Fetched], None, None]:
        for group in _group(ranges):
            parts = [_Part(each) for each in group]
            try:
                # Assigned and not subscribed to: the checkpoint says from where to where, and no consumer group does.
                self._assign(parts)
                yield from self._fetch_parts(parts)
            except self._failure as error:
                raise broker_error(self._where, self._source, error) from error
            finally:
                self._client.unassign()

    def _assign(self, parts: Sequence[_Part]) -> None:
        """Fetch what is left of these ranges, and nothing else."""
        self._client.assign({part.place: part.next for part in parts if not part.is_done})

    def _fetch_parts(self, parts: list[_Part]) -> Iterator[list[Fetched]]:
        by_place = {part.place: part for part in parts}
        left, ready, count, size = list(parts), list[Fetched](), 0, 0
        is_alone = False
        heard = time.monotonic()
        while left:
            # The client waits until it has as many as it is asked for: no more than the ranges have.
            assigned_parts = left[:1] if is_alone else left
            most = sum(part.end - part.next for part in assigned_parts if not part.is_done)
            pieces = self._client.consume(min(AT_ONCE, most), _WAIT_SECONDS)
            if pieces:
                heard = time.monotonic()
                self._sort(pieces, by_place)
            else:
                self._check_patience(left, time.monotonic() - heard)
            while left:
                # In the order of the ranges, however their messages arrive: a batch that runs again has the same order.
                first = left[0]
                ready += first.pieces
                count += sum(map(len, first.pieces))
                size += first.size
                first.pieces, first.size = [], 0
                if not first.is_done:
                    break
                left.pop(0)
                if is_alone and left:
                    self._assign(left)
                    is_alone = False
            if not is_alone and sum(part.size for part in left) > _KEPT_BYTES:
                # The others would fill the memory: they go on once the first one is done.
                self._assign(left[:1])
                is_alone = True
            if count >= AT_ONCE or size >= MOST_BYTES or (count and not left):
                yield ready
                ready, count, size = [], 0, 0

    def _sort(self, pieces: list[Fetched | Notice], parts: dict[TopicPlace, _Part]) -> None:
        """Give messages to their parts, and read what the client says between them."""
        for piece in pieces:
            part = parts.get(piece.place)
            if part is None:
                continue
            if isinstance(piece, Notice):
                self._hear(piece, part)
            elif not part.is_done:
                part.add(piece)

    def _hear(self, notice: Notice, part: _Part) -> None:
        """Read what the client says in place of a message."""
        name = notice.name
        if name == "_PARTITION_EOF":
            part.log_end = notice.offset
            part.is_done |= part.log_end >= part.end
        elif name == "_AUTO_OFFSET_RESET":
            raise lost_error(
                self._where, f"{part.place} has no offset {part.next} any more ({notice.text})"
            )
        elif name in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"):
            if self._is_strict:
                raise lost_error(self._where, f"{part.place} is not there any more")
            part.is_done = True
        elif "AUTHORIZATION" in name or "AUTHENTICATION" in name:
            raise DataError(f"{self._where}: {part.place} cannot be read: {notice.text}")

    def _check_patience(self, left: list[_Part], seconds: float) -> None:
        """Raise DataError where nothing comes any more, or the run is to stop meanwhile."""
        short = [p for p in left if not p.is_done and p.log_end is not None]
        if short and seconds > _END_SECONDS:
            for part in short:
                if self._is_strict:
                    raise lost_error(
                        self._where,
                        f"{part.place} ends at offset {part.log_end}, and was to be read up to {part.end}",
                    )
                part.is_done = True
        elif seconds > _PATIENCE_SECONDS or (STOP.is_asked and seconds > 1):
            waits = ", ".join(str(part.place) for part in left if not part.is_done)
            raise DataError(
                f"{self._where}: Kafka at {self._source.servers} has sent nothing of {waits} for {seconds:.0f} "
                "seconds. Nothing is lost; start the query again from the same checkpoint once it answers."
            )


def lost_error(where: str, reason: str) -> DataError:
    """The error for messages that were to be read and are gone."""
    return DataError(
        f"{where}: Kafka does not have messages any more that were to be read: {reason}. Keep messages for longer than "
        'a query may rest. Start over with an empty checkpoint, or go on without them: lost_data="ignore".'
    )


def _group(ranges: Sequence[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """Yield ranges that are fetched together: as many as may wait for one another."""
    group: list[OffsetRange] = []
    total = 0
    for each in ranges:
        if each.end <= each.start:
            continue
        if group and total + each.end - each.start > _KEPT:
            yield group
            group, total = [], 0
        group.append(each)
        total += each.end - each.start
    if group:
        yield group
