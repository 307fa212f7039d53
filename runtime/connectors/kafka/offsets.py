"""Offsets of a source's topics that are to be read next, and ranges of them in the form of a log of offsets."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aggloom.errors import CheckpointError, SpecError
from aggloom.runtime.connectors.kafka.broker import TopicBroker, TopicFacts, TopicPlace
from aggloom.runtime.connectors.kafka.fetch import OffsetRange, lost_error
from aggloom.runtime.connectors.kafka.options import KafkaSource

_ASK_SECONDS = 1.0
"""The time between two searches for new topics and partitions."""
_GONE_SECONDS = 10.0
"""The time after which a topic that brokers no longer name counts as deleted."""
_EARLIEST, _LATEST = -2, -1
"""Offsets that users may write for the first that there is, and the end."""
Offsets = dict[TopicPlace, int]
"""An offset for each partition: of the next message that is to be read."""


class PlannedOffsets(NamedTuple):
    """Offsets from and up to which partitions are read next, and up to which they could be read."""

    starts: Offsets
    ends: Offsets
    last: Offsets

    @property
    def backlog(self) -> int:
        """The number of offsets that are left for later."""
        return sum(self.last.values()) - sum(self.ends.values())


class OffsetPlanner:
    """Finds what is new in a source's topics; where: begins messages.

    last: the ends of the partitions when they were asked for last. Asks the brokers at once. Raises SpecError where a
    topic is not there, DataError where messages are gone that were to be read, CheckpointError for a topic that was
    made anew; the last two not where lost_data says to ignore it.
    """

    def __init__(self, source: KafkaSource, where: str) -> None:
        source.check(where)
        self._source, self._where = source, where
        self._is_strict = source.lost_data == "error"
        self._broker = TopicBroker(source, where)
        self._facts: dict[str, TopicFacts] = {}
        self._refreshed_at = -math.inf
        self._stops_at: Offsets | None = None
        self.last: Offsets = {}
        self._has_waited = False
        self._refresh_facts()

    @property
    def ids(self) -> dict[str, str]:
        """The ids of the topics that there are; empty where brokers give none."""
        return {name: facts.id for name, facts in self._facts.items()}

    def stop_here(self) -> None:
        """Take what there is now for all that there will be."""
        if self._stops_at is None:
            self._stops_at = self._broker.latest(self._places)

    def plan(
        self, position: Offsets | None, ids: Mapping[str, str], most: int | None
    ) -> PlannedOffsets:
        """The offsets behind a position (None: where the source begins); most: of so many messages.

        ids: of the topics as they were read before.
        """
        if time.monotonic() - self._refreshed_at >= _ASK_SECONDS:
            self._refresh_facts()
            self.check_ids(ids)
        places = self._places
        self.last = ends = self._broker.latest(places)
        if position is None and self._has_waited:
            # Reading began where there was no topic yet.
            position = {}
        self._has_waited |= not places
        # Without news the brokers are not asked for their earliest offsets.
        if ends == position:
            return PlannedOffsets(ends, ends, ends)
        starts = self._find_starts(position, places, ends)
        if self._stops_at is not None:
            ends = {place: min(end, self._stops_at.get(place, 0)) for place, end in ends.items()}
        ends = {place: max(ends.get(place, at), at) for place, at in starts.items()}
        return PlannedOffsets(starts, cap_offsets(starts, ends, most), ends)

    def check_ids(self, known: Mapping[str, str]) -> None:
        """Hold the ids of topics against those that were read; raises CheckpointError."""
        for name, was in known.items() if self._is_strict else ():
            now = self._facts[name].id if name in self._facts else ""
            if was and now and was != now:
                raise CheckpointError(
                    f"{self._where}: topic {name} was deleted and made again since it was read, so that offsets mean "
                    "other messages: those before where the query stopped would be passed over. Start over with an "
                    'empty checkpoint, or pass lost_data="ignore" to continue at the old offset.'
                )

    @property
    def _places(self) -> list[TopicPlace]:
        return [TopicPlace(t, p) for t, facts in self._facts.items() for p in facts.partitions]

    def _refresh_facts(self) -> None:
        """Ask which topics and partitions there are; raises SpecError for a topic that there is not."""
        before, end = set(self._facts), time.monotonic() + _GONE_SECONDS
        self._facts = self._broker.topics()
        while not before <= set(self._facts) and time.monotonic() < end:
            # A broker that has just come back may not know all of its topics.
            time.sleep(_GONE_SECONDS / 20)
            self._facts = self._broker.topics()
        self._refreshed_at = time.monotonic()
        if self._source.pattern or not self._is_strict:
            return
        for name in self._source.topics:
            if name not in self._facts:
                is_end_topic = name == self._source.transaction_topic
                advice = (
                    "set provide.transaction.metadata=true of Debezium's connector, which makes it with the first "
                    "transaction"
                    if is_end_topic
                    else "make it"
                )
                raise SpecError(
                    f"{self._where}: there is no topic {name!r} at {self._source.servers}; {advice}, or correct the "
                    "name"
                )

    def _find_starts(
        self, position: Offsets | None, places: list[TopicPlace], ends: Offsets
    ) -> Offsets:
        """The offset at which each partition is read on; raises DataError where messages before it are gone."""
        known = position or {}
        first = self._first_offsets(places, ends) if position is None else {}
        lows = self._broker.earliest(places)
        starts: Offsets = {}
        for place in places:
            low, end = lows.get(place, 0), ends.get(place, 0)
            # Those that were added later are read from their beginning.
            at = known.get(place, first.get(place, 0))
            # Ends of transactions that are gone may be those of other tables: the planner of transactions finds out.
            is_missed = at < low and place.topic != self._source.transaction_topic
            if (is_missed or at > end) and (position is not None or place in first):
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
        return self._named_offsets("start", start, places, ends)

    def _named_offsets(
        self, name: str, by_partition: Mapping[Any, Any], places: list[TopicPlace], ends: Offsets
    ) -> Offsets:
        """The offsets of an option; raises SpecError where they do not name each partition."""
        topic = self._source.topics[0]
        offsets = {
            TopicPlace(topic, int(number)): int(offset) for number, offset in by_partition.items()
        }
        if set(offsets) != set(places):
            raise SpecError(
                f"{self._where}: {name} has offsets of {_join(offsets)}, and there are {_join(places)}; give each "
                f"partition one ({_EARLIEST}: its earliest, {_LATEST}: its latest)"
            )
        lows = self._broker.earliest(places) if _EARLIEST in offsets.values() else {}
        special = {_EARLIEST: lows, _LATEST: ends}
        return {place: special.get(at, offsets)[place] for place, at in offsets.items()}

    def plan_whole(self) -> PlannedOffsets:
        """The offsets of a batch: from where the source begins to where it ends."""
        places = self._places
        last = self._broker.latest(places)
        starts, end = self._find_starts(None, places, last), self._source.end
        ends = last
        if isinstance(end, int):
            ends = self._broker.at_time(places, end)
        elif isinstance(end, Mapping):
            ends = self._named_offsets("end", end, places, last)
        elif end == "earliest":
            ends = self._broker.earliest(places)
        for place, at in ends.items():
            if at > last.get(place, 0):
                self._lose(
                    f"{place} ends at offset {last.get(place, 0)}, and is to be read to {at}"
                )
        ends = {place: max(at, min(ends[place], last[place])) for place, at in starts.items()}
        return PlannedOffsets(starts, ends, ends)


def cap_offsets(starts: Offsets, ends: Offsets, most: int | None) -> Offsets:
    """The ends of a batch: of each partition the same share, if there are more messages than a batch may have."""
    sizes = {place: ends[place] - at for place, at in starts.items()}
    total = sum(sizes.values())
    if most is None or total <= most:
        return ends
    # The same share of each, so that no partition waits for another and event times stay close together.
    share = most / total
    return {
        place: at + min(sizes[place], _round(sizes[place] * share)) for place, at in starts.items()
    }


def _round(size: float) -> int:
    """A share as whole messages: less than one is one."""
    return math.ceil(size) if size < 1 else math.floor(size)


def _join(places: Iterable[TopicPlace]) -> str:
    return ", ".join(map(str, sorted(places)))


def write_offsets(ends: Offsets, begins: Offsets) -> dict[str, dict[str, int]]:
    """Offsets in the form of Spark's connector, so that a checkpoint continues with either reader.

    begins: where the first batch of a source begins, if that is not at offset 0. No log but this one says so, and the
    batch has to be the same when it runs again. That of partition p is written as one of -1-p, which no topic has.

    Example: partition 0 from offset 5 up to 9.
        >>> place = TopicPlace("t", 0)
        >>> write_offsets({place: 9}, {place: 5})
        {'t': {'0': 9, '-1': 5}}
    """
    written: dict[str, dict[str, int]] = {}
    for place, at in sorted(ends.items()):
        written.setdefault(place.topic, {})[str(place.partition)] = at
    for place, at in sorted(begins.items()):
        if at:
            written[place.topic][str(-1 - place.partition)] = at
    return written


def read_offsets(entry: Any, where: str) -> tuple[Offsets, Offsets]:
    """The offsets of a log's entry, and where its first batch begins; raises CheckpointError for other entries."""
    ends, begins = Offsets(), Offsets()
    try:
        for topic, offsets in entry.items():
            for number, at in offsets.items():
                partition = int(number)
                if partition < 0:
                    begins[TopicPlace(topic, -1 - partition)] = int(at)
                else:
                    ends[TopicPlace(topic, partition)] = int(at)
    except (AttributeError, TypeError, ValueError):
        raise CheckpointError(
            f"{where}: the checkpoint has the position of another kind of source ({entry!r:.80}). Read what it has "
            "read before, or start over with an empty checkpoint directory."
        ) from None
    return ends, begins


def find_ranges(start: Any, end: Any, where: str) -> list[OffsetRange]:
    """The ranges between two entries of a log of offsets; a partition that the first lacks is read from its begin."""
    starts, _ = read_offsets(start, where)
    ends, begins = read_offsets(end, where)
    return [
        OffsetRange(place, starts.get(place, begins.get(place, 0)), at)
        for place, at in sorted(ends.items())
    ]


def cut_ranges(
    ranges: Iterable[OffsetRange], tasks: int, least: int
) -> Iterator[Sequence[OffsetRange]]:
    """Yield ranges for at most so many tasks, in their order, of `least` messages or more; none is a task, too.

    Example: two partitions as three tasks.
        >>> a, b = (OffsetRange(TopicPlace("t", p), 0, 60) for p in range(2))
        >>> [[(r.place.partition, r.start, r.end) for r in task] for task in cut_ranges([a, b], 3, 1)]
        [[(0, 0, 40)], [(0, 40, 60), (1, 0, 20)], [(1, 20, 60)]]
    """
    listed = [each for each in ranges if each.end > each.start]
    total = sum(each.end - each.start for each in listed)
    room = size = max(least, -(-total // tasks))
    task: list[OffsetRange] = []
    for place, start, end in listed:
        at = start
        while at < end:
            part = OffsetRange(place, at, min(end, at + room))
            task.append(part)
            at, room = part.end, room - (part.end - part.start)
            if not room:
                yield task
                task, room = [], size
    if task or not listed:
        yield task
