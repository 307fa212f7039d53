"""Offsets of topics that are to be read next, where no batch may cut a transaction of the database."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from aggloom.errors import CheckpointError, DataError, SpecError
from aggloom.runtime.connectors.kafka.broker import TopicBroker, TopicPlace
from aggloom.runtime.connectors.kafka.fetch import MessageFetcher, OffsetRange
from aggloom.runtime.connectors.kafka.offsets import (
    OffsetPlanner,
    Offsets,
    PlannedOffsets,
    cap_offsets,
)
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.kafka.transactions.marks import TransactionMarks
from aggloom.runtime.connectors.kafka.transactions.window import TransactionWindow

_log = logging.getLogger("aggloom")
_AHEAD = 500_000
"""The number of messages that are examined together."""
_DOUBT_SECONDS = 2.0
"""The time of waiting after which the planner reads what the topic of ends said before."""
_WARN_SECONDS = 60.0
"""A wait that is longer is said."""
_INVALID = re.compile(r"[^a-zA-Z0-9._-]")
"""Characters that Debezium replaces in the names of topics."""


class TransactionPlanner:
    """Plans as OffsetPlanner does, and ends each batch where no transaction is cut.

    source: of all topics that the query reads together, with their transaction_topic, whose offsets are planned beside
    theirs. It reads the messages ahead of the position once, to know their transactions. Raises SpecError, DataError
    and CheckpointError.
    """

    def __init__(self, source: KafkaSource, marks: TransactionMarks, where: str) -> None:
        assert source.transaction_topic is not None
        self._where, self._marks, self._end_topic = where, marks, source.transaction_topic
        self._topics = frozenset(source.topics)
        if self._end_topic in self._topics:
            raise SpecError(
                f"{where}: topic {self._end_topic} says where transactions end, and has no rows; name the topics of "
                "tables, and it as transaction_topic"
            )
        joint = source.with_transaction_topic()
        self._offsets = OffsetPlanner(joint, where)
        self._broker = TopicBroker(joint, where)
        self._fetcher = MessageFetcher(joint, where)
        self._refuse_compacted()
        self._window = TransactionWindow({}, self._end_topic, where)
        self._scanned: Offsets = {}
        self._by_collection: dict[str, str | None] = {}
        self._ends, self._is_first = False, True
        self._since: dict[str, float] = {}
        """The time since which transactions have delayed others."""
        self._looked_up: set[str] = set()
        self._warned: set[str] = set()

    @property
    def ids(self) -> dict[str, str]:
        """The ids of the topics that there are; empty where brokers give none."""
        return self._offsets.ids

    @property
    def last(self) -> Offsets:
        """The ends of the tables' partitions when they were asked for last."""
        return self._of_tables(self._offsets.last)

    def check_ids(self, known: Mapping[str, str]) -> None:
        """Hold the ids of topics against those that were read; raises CheckpointError."""
        self._offsets.check_ids(known)

    def stop_here(self) -> None:
        """Take what there is now for all that there will be; a transaction that is not whole by now is left."""
        self._ends = True
        self._offsets.stop_here()

    def plan(
        self, position: Offsets | None, ids: Mapping[str, str], most: int | None
    ) -> PlannedOffsets:
        """The offsets behind a position (None: where the source begins); most: of so many messages.

        A batch has more messages where one transaction has. ids: of the topics as they were read before.
        """
        if position and not any(place.topic == self._end_topic for place in position):
            raise CheckpointError(
                f"{self._where}: the checkpoint was begun without transaction_topic, so that its position may be in "
                "the middle of a transaction. Start over with an empty checkpoint, or leave transaction_topic out."
            )
        planned = self._offsets.plan(position, ids, None)
        self._go_to(planned.starts)
        ends = self._find_ends(planned, most)
        self._window.drop(ends)
        if self._of_tables(ends) == self._of_tables(planned.starts):
            # Ends of other tables' transactions alone are no batch.
            ends = planned.starts
        return PlannedOffsets(planned.starts, ends, {**ends, **self._of_tables(planned.ends)})

    def _of_tables(self, offsets: Offsets) -> Offsets:
        return {place: at for place, at in offsets.items() if place.topic != self._end_topic}

    def _go_to(self, starts: Offsets) -> None:
        """Have the window begin at a position, where it does not."""
        window = self._window
        known = self._of_tables(window.starts)
        if any(starts.get(place) != at for place, at in known.items()):
            # A batch was planned, and another one was run: as after a restart, all is read anew.
            window = self._window = TransactionWindow({}, self._end_topic, self._where)
            self._scanned = {}
            self._looked_up.clear()
        for place, at in starts.items():
            if place not in window.starts:
                window.add_place(place, at)
                self._scanned[place] = at

    def _find_ends(self, planned: PlannedOffsets, most: int | None) -> Offsets:
        """The offsets up to which the next batch may read; reads the messages up to them, and perhaps more."""
        last = {place: max(planned.ends.get(place, at), at) for place, at in self._scanned.items()}
        while True:
            unread = [place for place, at in self._scanned.items() if at < last[place]]
            ends = self._window.cut(most, unread)
            if not unread or (most is not None and 2 * self._window.size(ends) >= most):
                is_still = self._of_tables(ends) == self._of_tables(planned.starts)
                if unread or not self._look_back(is_still):
                    return ends
                continue
            if most is None:
                # Messages that may be read without a limit do not wait for the transaction's end.
                self._window.drop(ends)
            self._scan(cap_offsets(self._scanned, last, most or _AHEAD))

    def _scan(self, ends: Offsets) -> None:
        """Read the messages up to offsets into the window."""
        ranges = [OffsetRange(p, at, ends[p]) for p, at in sorted(self._scanned.items())]
        for place, messages in self._fetch(ranges):
            offsets = [message.offset() for message in messages]
            if place.topic == self._end_topic:
                for offset, end in zip(offsets, self._marks.read_ends(messages), strict=True):
                    key, counts = (None, {}) if end is None else (end.key, end.counts)
                    self._window.add_end(place, offset, key, self._by_topic(counts))
            else:
                self._window.add_events(place, offsets, *self._marks.read_events(messages))
        self._scanned = dict(ends)

    def _fetch(self, ranges: Sequence[OffsetRange]) -> Iterator[tuple[TopicPlace, list[Any]]]:
        """Yield the messages of ranges, some of one partition at once."""

        def place_of(message: Any) -> TopicPlace:
            return TopicPlace(message.topic(), message.partition())

        for block in self._fetcher.fetch_objects(ranges):
            first = place_of(block[0])
            if first == place_of(block[-1]):
                # Partition comes after partition, so that all between are of this one.
                yield first, block
                continue
            for place, messages in groupby(block, key=place_of):
                yield place, list(messages)

    def _by_topic(self, counts: Mapping[str, int]) -> dict[str, int]:
        """The events of a transaction by topic that is read; counts: by data collection."""
        by_topic: dict[str, int] = {}
        for name, count in counts.items():
            if name not in self._by_collection:
                known = (each for each in self._names(name) if each in self._topics)
                self._by_collection[name] = next(known, None)
            topic = self._by_collection[name]
            if topic is not None and count:
                by_topic[topic] = by_topic.get(topic, 0) + count
        return by_topic

    def _names(self, collection: str) -> Iterator[str]:
        """Yield the names that Debezium may give the topic of a data collection."""
        prefix = self._end_topic.rpartition(".")[0]
        first, _, others = _INVALID.sub("_", collection).partition(".")
        yield f"{prefix}.{first}.{others}" if others else f"{prefix}.{first}"
        if "." in others:
            # Oracle's and Db2's connectors leave the database out of the topic.
            yield f"{prefix}.{others}"

    def _look_back(self, is_still: bool) -> bool:
        """Find the messages that wait for incomplete transactions; True if there are fewer than before.

        is_still: whether nothing may be read. Raises DataError for a transaction that will never be whole.
        """
        now = time.monotonic()
        self._since = {key: self._since.get(key, now) for key in self._window.list_blocking()}
        # A short run must get the warning at once, or it would never get it.
        is_last, is_first = self._ends and is_still, self._is_first and is_still
        self._is_first = False
        waits = {key: now - at for key, at in self._since.items()}
        at_once = is_last or is_first
        doubted = [key for key, seconds in waits.items() if at_once or seconds >= _DOUBT_SECONDS]
        losses = {key: loss for key in doubted if (loss := self._window.find_loss(key))}
        shown_by = {each for _, keys in losses.values() for each in keys}
        self._looked_up &= {*self._since, *shown_by}
        if again := self._find_read({*doubted, *shown_by} - self._looked_up):
            self._window.take_read(again)
            return True
        for key, (what, _) in losses.items():
            raise DataError(
                f"{self._where}: transaction {key} will never be whole: {what} did not arrive, though later "
                "messages did. Retention has deleted it, or a transform (SMT) of the connector has filtered it. Keep "
                "topics for longer than a query may be stopped, filter in the query, or start over with topics that "
                "are whole (another topic.prefix); or remove transaction_topic."
            )
        for key in doubted:
            if (is_last or waits[key] >= _WARN_SECONDS) and key not in self._warned:
                self._warned.add(key)
                state = "are left for the next run" if is_last else f"wait for {waits[key]:.0f} s"
                text = "%s: messages %s, since no batch may cut %s"
                _log.warning(text, self._where, state, self._window.describe(key))
        return False

    def _find_read(self, keys: set[str]) -> set[str]:
        """The transactions of these whose end lies before the position: Debezium has sent them again."""
        if not keys:
            return set()
        self._looked_up |= keys
        places = [place for place in self._window.starts if place.topic == self._end_topic]
        lows = self._broker.earliest(places)
        ranges = [
            OffsetRange(p, lows[p], max(lows[p], self._window.starts[p])) for p in sorted(places)
        ]
        ended = set[str]()
        for _, messages in self._fetch(ranges):
            ended |= {end.key for end in self._marks.read_ends(messages) if end} & keys
        return ended

    def _refuse_compacted(self) -> None:
        """Raise SpecError for topics of which Kafka deletes messages within transactions."""
        for name in self._broker.list_compacted(sorted({*self._topics, self._end_topic})):
            raise SpecError(
                f"{self._where}: topic {name} is compacted (cleanup.policy), so that transactions lose the events "
                "whose keys were changed since, and none is known to be whole. Let it keep its messages "
                "(cleanup.policy=delete), or leave transaction_topic out."
            )
