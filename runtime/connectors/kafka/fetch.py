"""Messages of ranges of offsets, fetched by librdkafka: partition by partition, so that they come in one order."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from aggloom.errors import DataError
from aggloom.runtime.connectors.kafka.broker import (
    TopicPlace,
    broker_error,
    client_config,
    kafka_client,
    open_client,
)
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.sinks.stop import STOP

AT_ONCE = 20_000
"""Number of messages that the client is asked for at once, and that are handed on together."""
_KEPT = 50_000
"""So many messages of partitions that are fetched together may wait for those before them."""
_WAIT_SECONDS = 0.05
_PATIENCE_SECONDS = 60.0
_END_SECONDS = 10.0
"""So long the end of a partition may lie before that of a range: a new leader learns late of what is committed."""
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
    "queued.min.messages": 20_000,
}


class OffsetRange(NamedTuple):
    """Messages of a partition, from an offset up to another, which is not in it."""

    place: TopicPlace
    start: int
    end: int


class _Part:
    """A range under way: messages that have come and wait, and the end that its partition is known to have."""

    def __init__(self, offsets: OffsetRange) -> None:
        self.place, self.next, self.end = offsets
        self.messages: list[Any] = []
        self.is_done = False
        self.log_end: int | None = None

    def add(self, message: Any) -> None:
        """Take a message, unless it is behind the range."""
        offset = message.offset()
        if self.next <= offset < self.end:
            self.messages.append(message)
        # Offsets have gaps, where messages were compacted and where transactions end: what counts is the next one.
        self.next = offset + 1
        self.is_done |= self.next >= self.end


class MessageFetcher:
    """Fetches ranges of a source's topics; where: begins messages.

    What is gone is an error, or is passed over, as the source says. Raises DataError, SpecError for a client that
    cannot be made.
    """

    def __init__(self, source: KafkaSource, where: str) -> None:
        self._source, self._where = source, where
        self._is_strict = source.lost_data == "error"
        reset = {"auto.offset.reset": "error" if self._is_strict else "earliest"}
        client = kafka_client(where)
        config = {**_USUAL, **client_config(source), **reset}
        self._new, self._failure = client.TopicPartition, client.KafkaException
        self._consumer = open_client(client.Consumer, config, where)
        weakref.finalize(self, self._consumer.close)

    def fetch(self, ranges: Sequence[OffsetRange]) -> Iterator[list[Any]]:
        """Yield the messages of ranges in their order, some thousands at a time."""
        for group in _group(ranges):
            parts = [_Part(each) for each in group]
            # Assigned and not subscribed to: the checkpoint says from where to where, and no consumer group does.
            self._consumer.assign([self._new(*p.place, p.next) for p in parts])
            try:
                yield from self._fetch_parts(parts)
            except self._failure as error:
                raise broker_error(self._where, self._source, error) from error
            finally:
                self._consumer.unassign()

    def _fetch_parts(self, parts: list[_Part]) -> Iterator[list[Any]]:
        by_place: dict[tuple[str, int], _Part] = {part.place: part for part in parts}
        left, ready = list(parts), list[Any]()
        heard = time.monotonic()
        while left:
            messages = self._consumer.consume(AT_ONCE, _WAIT_SECONDS)
            if messages:
                heard = time.monotonic()
                self._sort(messages, by_place)
            else:
                self._check_patience(left, time.monotonic() - heard)
            while left:
                # In the order of the ranges, however their messages arrive: a batch that runs again has the same order.
                ready += left[0].messages
                left[0].messages = []
                if not left[0].is_done:
                    break
                left.pop(0)
            if len(ready) >= AT_ONCE or (ready and not left):
                yield ready
                ready = []

    def _sort(self, messages: list[Any], parts: dict[tuple[str, int], _Part]) -> None:
        """Give messages to their parts, and read what the client says between them."""
        if len(parts) == 1:
            ((_, only),) = parts.items()
            if self._take_all(messages, only):
                return
        for message in messages:
            part = parts.get((message.topic(), message.partition()))
            if message.error() is not None:
                self._hear(message, part)
            elif part is not None and not part.is_done:
                part.add(message)

    def _take_all(self, messages: list[Any], part: _Part) -> bool:
        """Take messages of the one partition that is fetched; False where they have to be looked at one by one."""
        if [message for message in messages if message.error() is not None]:
            return False
        # The usual case: messages of one partition arrive in order, and none has to be looked at by itself.
        first, last = messages[0].offset(), messages[-1].offset()
        if first < part.next or last >= part.end or part.is_done:
            return False
        part.messages += messages
        part.next = last + 1
        part.is_done = part.next >= part.end
        return True

    def _hear(self, message: Any, part: _Part | None) -> None:
        """Read what the client says in place of a message."""
        error = message.error()
        name = str(error.name())
        if part is None:
            return
        if name == "_PARTITION_EOF":
            part.log_end = int(message.offset())
            part.is_done |= part.log_end >= part.end
        elif name == "_AUTO_OFFSET_RESET":
            raise lost_error(
                self._where, f"{part.place} has no offset {part.next} any more ({error.str()})"
            )
        elif name in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"):
            if self._is_strict:
                raise lost_error(self._where, f"{part.place} is not there any more")
            part.is_done = True
        elif "AUTHORIZATION" in name or "AUTHENTICATION" in name:
            raise DataError(f"{self._where}: {part.place} cannot be read: {error.str()}")

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
