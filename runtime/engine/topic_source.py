"""Topics of Kafka as a source: positions are offsets by topic and partition, and the ids of the topics."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from aggloom.codegen.planner import Scan
from aggloom.errors import CheckpointError, SpecError
from aggloom.runtime.connectors.kafka.broker import TopicBroker, TopicFacts, TopicPlace
from aggloom.runtime.connectors.kafka.fetch import MessageFetcher, OffsetRange, lost_error
from aggloom.runtime.connectors.kafka.message_facts import read_facts
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.engine.sources import other_source
from aggloom.runtime.formats.base import Messages
from aggloom.runtime.local.message_reader import MessageReader, Read

_MOST_MESSAGES = 500_000
"""A batch has about so many messages where nothing else is said, so that it fits into memory."""
_ASK_SECONDS = 1.0
"""New topics and partitions are looked for once in so long."""
_GONE_SECONDS = 10.0
"""After so long a topic that was there is gone."""
_EARLIEST, _LATEST = -2, -1
"""Offsets that users may write for the first that there is, and the end."""
Offsets = dict[TopicPlace, int]


class TopicInput:
    """The messages of a table's topics.

    options: those of the format. ends: whether messages that are sent later are not waited for. Raises SpecError, and
    CheckpointError for a position of another source, or of a topic that was made anew.
    """

    def __init__(
        self,
        source: KafkaSource,
        format: str,
        scan: Scan,
        options: Mapping[str, Any],
        *,
        ends: bool,
        position: Any,
    ) -> None:
        self._table, self._where, self.ends = scan.table, f"table {scan.table}", ends
        source.check(self._where)
        most = source.max_messages_per_trigger
        if most is not None and most < 1:
            raise SpecError(
                f"{self._where}: max_messages_per_trigger is {most}; it must be 1 at least"
            )
        self._source, self._most = source, most or _MOST_MESSAGES
        self._is_strict = source.lost_data == "error"
        self._reader = MessageReader(format, scan, options, self._where)
        self._broker = TopicBroker(source, self._where)
        self._fetcher = MessageFetcher(source, self._where)
        self._facts: dict[str, TopicFacts] = {}
        self.waiting: dict[str, int] = {}
        self._asked = -math.inf
        self._stops_at: Offsets | None = None
        self._refresh_facts()
        self._check_ids(self._ids_of(position))

    def plan(self, batch: int, position: Any) -> Any:
        """The range of the next batch; None if no message is new. Raises DataError if some are gone."""
        if time.monotonic() - self._asked >= _ASK_SECONDS:
            self._refresh_facts()
            self._check_ids(self._ids_of(position))
        places = [TopicPlace(t, p) for t, facts in self._facts.items() for p in facts.partitions]
        ends = self._broker.latest(places)
        starts = self._find_starts(position, places, ends)
        if self.ends and self._stops_at is None:
            self._stops_at = dict(ends)
        if self._stops_at is not None:
            ends = {place: min(end, self._stops_at.get(place, 0)) for place, end in ends.items()}
        ends = {place: max(ends.get(place, at), at) for place, at in starts.items()}
        self.waiting = {}
        if ends == starts and (position is not None or not starts):
            return None
        last, ends = ends, self._cap(starts, ends)
        self.waiting = {"offsets": sum(last.values()) - sum(ends.values())}
        # A first range may have no message: from then on the position says where reading begins.
        return self._in_json({place: [starts[place], ends[place]] for place in starts})

    def read(self, planned: Any) -> Iterator[Read]:
        """Yield the rows of a range; raises DataError if messages of it are gone."""
        self._check_ids(self._ids_of(planned))
        ranges = [
            OffsetRange(place, *map(int, both))
            for place, both in sorted(self._places_of(planned).items())
        ]
        for block in self._fetcher.fetch(ranges):
            values = [message.value() for message in block]
            keys = [message.key() for message in block]
            facts = partial(read_facts, block)
            yield self._reader.read(Messages(values, keys, _place_in(block), facts))

    def end(self, planned: Any) -> Any:
        """The position after a range."""
        topics = {}
        for name, about in planned["topics"].items():
            offsets = {number: both[1] for number, both in about["offsets"].items()}
            topics[name] = {"id": about["id"], "offsets": offsets}
        return {"topics": topics}

    def _refresh_facts(self) -> None:
        """Ask which topics and partitions there are; raises SpecError for a topic that there is not."""
        before, end = set(self._facts), time.monotonic() + _GONE_SECONDS
        self._facts = self._broker.topics()
        while not before <= set(self._facts) and time.monotonic() < end:
            # A broker that has just come back may not know all of its topics.
            time.sleep(_GONE_SECONDS / 20)
            self._facts = self._broker.topics()
        self._asked = time.monotonic()
        if self._source.pattern or not self._is_strict:
            return
        for name in self._source.topics:
            if name not in self._facts:
                raise SpecError(
                    f"{self._where}: there is no topic {name!r} at {self._source.servers}; make it, or correct the "
                    "name"
                )

    def _check_ids(self, known: Mapping[str, str]) -> None:
        """Hold the ids of topics against those that were read; raises CheckpointError."""
        for name, was in known.items() if self._is_strict else ():
            now = self._facts[name].id if name in self._facts else ""
            if was and now and was != now:
                raise CheckpointError(
                    f"{self._where}: topic {name} was deleted and made again since it was read, so that offsets mean "
                    "other messages: those before where the query stopped would be passed over. Start over with an "
                    'empty checkpoint, or pass lost_data="ignore" to go on at the old offset.'
                )

    def _find_starts(self, position: Any, places: list[TopicPlace], ends: Offsets) -> Offsets:
        """The offset at which each partition is read on; raises DataError where messages before it are gone."""
        known = self._places_of(position) if position is not None else {}
        first = self._first_offsets(places, ends) if position is None else {}
        lows = self._broker.earliest(places)
        starts: Offsets = {}
        for place in places:
            low, end = lows.get(place, 0), ends.get(place, 0)
            # Those that were added later are read from their beginning.
            at = int(known.get(place, first.get(place, 0)))
            if not low <= at <= end and (position is not None or place in first):
                self._lose(f"{place} has offsets {low} to {end}, and is to be read from {at}")
            starts[place] = min(max(at, low), end)
        for place in sorted(set(known) - set(places)):
            self._lose(f"{place} is not there any more")
        return starts

    def _lose(self, reason: str) -> None:
        """Raise DataError for messages that are gone, unless that is to be ignored."""
        if self._is_strict:
            raise lost_error(self._where, reason)

    def _first_offsets(self, places: list[TopicPlace], ends: Offsets) -> Offsets:
        """The offsets at which a query begins; raises SpecError where they do not name each partition."""
        start = self._source.start
        if start == "earliest":
            return self._broker.earliest(places)
        if start == "latest":
            return dict(ends)
        if isinstance(start, int):
            return self._broker.at_time(places, start)
        assert isinstance(start, Mapping)
        topic = self._source.topics[0]
        start_offsets = {
            TopicPlace(topic, int(number)): int(offset) for number, offset in start.items()
        }
        if set(start_offsets) != set(places):
            raise SpecError(
                f"{self._where}: start has offsets of {_join(start_offsets)}, and there are {_join(places)}; give each "
                f"partition one ({_EARLIEST}: its earliest, {_LATEST}: its latest)"
            )
        lows = self._broker.earliest(places) if _EARLIEST in start_offsets.values() else {}
        special = {_EARLIEST: lows, _LATEST: ends}
        return {place: special.get(at, start_offsets)[place] for place, at in start_offsets.items()}

    def _cap(self, starts: Offsets, ends: Offsets) -> Offsets:
        """The ends of a batch: of each partition the same share, if there are more messages than a batch may have."""
        sizes = {place: ends[place] - at for place, at in starts.items()}
        total = sum(sizes.values())
        if total <= self._most:
            return ends
        share = self._most / total
        return {
            place: at + min(sizes[place], _round(sizes[place] * share))
            for place, at in starts.items()
        }

    def _in_json(self, ranges: Mapping[TopicPlace, list[int]]) -> dict[str, Any]:
        """A range as the checkpoint keeps it."""
        topics: dict[str, Any] = {}
        for place, both in sorted(ranges.items()):
            name = place.topic
            about = topics.setdefault(name, {"id": self._facts[name].id, "offsets": {}})
            about["offsets"][str(place.partition)] = both
        return {"topics": topics}

    def _places_of(self, noted: Any) -> dict[TopicPlace, Any]:
        """The partitions of a range or a position, with what was noted of each; raises CheckpointError."""
        try:
            return {
                TopicPlace(name, int(number)): value
                for name, about in noted["topics"].items()
                for number, value in about["offsets"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError):
            raise other_source(self._table, noted) from None

    def _ids_of(self, noted: Any) -> dict[str, str]:
        """The ids of the topics of a range or a position; raises CheckpointError."""
        if noted is None:
            return {}
        try:
            return {name: str(about["id"]) for name, about in noted["topics"].items()}
        except (KeyError, TypeError, AttributeError):
            raise other_source(self._table, noted) from None


def _round(size: float) -> int:
    """A share as whole messages: less than one is one."""
    return math.ceil(size) if size < 1 else math.floor(size)


def _join(places: Iterable[TopicPlace]) -> str:
    return ", ".join(map(str, sorted(places)))


def _place_in(block: list[Any]) -> Any:
    """Say where the nth message of a block lies."""

    def place(at: int) -> str:
        message = block[at]
        return (
            f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"
        )

    return place
