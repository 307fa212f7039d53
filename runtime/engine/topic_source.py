"""Topics of Kafka as a source: positions are offsets by topic and partition, and the ids of the topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aggloom.codegen.planner import Scan
from aggloom.runtime.connectors.kafka.broker import TopicPlace
from aggloom.runtime.connectors.kafka.fetch import AT_ONCE, MessageFetcher, OffsetRange
from aggloom.runtime.connectors.kafka.offsets import OffsetPlanner, Offsets
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.engine.read_ahead import ReadAhead
from aggloom.runtime.engine.sources import other_source
from aggloom.runtime.engine.topic_group import MOST_MESSAGES, GroupedPlanner, TopicGroup
from aggloom.runtime.local.message_reader import MessageReader, Read


class TopicInput:
    """The messages of a table's topics.

    options: those of the format. ends: whether messages that are sent later are not waited for. group: the tables that
    it is planned with, where no transaction is to be cut. Raises SpecError, and CheckpointError for a position of
    another source, or of a topic that was made anew.
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
        group: TopicGroup | None = None,
    ) -> None:
        self._table, self._where, self.ends = scan.table, f"table {scan.table}", ends
        self._reader = MessageReader(format, scan, options, self._where)
        self._planner: OffsetPlanner | GroupedPlanner
        self._end_topic = source.transaction_topic
        if group is None or self._end_topic is None:
            self._planner = OffsetPlanner(source, self._where)
        else:
            self._planner = GroupedPlanner(group, scan.table, source.topics, self._end_topic)
        self._fetcher = MessageFetcher(source, self._where, self._reader.topic_facts)
        self._most = source.max_messages_per_trigger or MOST_MESSAGES
        self.backlog: dict[str, int] = {}
        self._planner.check_ids(self._ids_of(position))
        self._note_position(position)

    def _note_position(self, position: Any) -> None:
        """Tell the planner of a group how far this table is read."""
        if isinstance(self._planner, GroupedPlanner):
            self._planner.note_position(self._offsets_of(position), self._ids_of(position))

    def plan(self, batch: int, position: Any) -> Any:
        """The range of the next batch; None if no message is new. Raises DataError if some are gone."""
        if self.ends:
            self._planner.stop_here()
        known = self._offsets_of(position)
        planned = self._planner.plan(known, self._ids_of(position), self._most)
        self.backlog = {} if planned.last == planned.starts else {"offsets": planned.backlog}
        if planned.ends == planned.starts and (position is not None or not planned.starts):
            return None
        # A first range may have no message: from then on the position says where reading begins.
        return self._in_json({p: [at, planned.ends[p]] for p, at in planned.starts.items()})

    def read(self, planned: Any) -> Iterator[Read]:
        """Yield the rows of a range; raises DataError if messages of it are gone."""
        self._planner.check_ids(self._ids_of(planned))
        ranges = [
            OffsetRange(place, *map(int, both))
            for place, both in sorted(self._places_of(planned).items())
            if place.topic != self._end_topic
        ]
        # The next messages are fetched in a thread while the last ones are decoded: each takes about as long.
        fetched = ReadAhead(self._fetcher.fetch(ranges), lambda messages: len(messages) >= AT_ONCE)
        try:
            yield from map(self._reader.read, fetched)
        finally:
            fetched.close()

    def end(self, planned: Any) -> Any:
        """The position after a range."""
        topics = {}
        for name, about in planned["topics"].items():
            offsets = {number: both[1] for number, both in about["offsets"].items()}
            topics[name] = {"id": about["id"], "offsets": offsets}
        position = {"topics": topics}
        self._note_position(position)
        return position

    def _offsets_of(self, position: Any) -> Offsets | None:
        """The offsets of a position; raises CheckpointError."""
        if position is None:
            return None
        return {place: int(at) for place, at in self._places_of(position).items()}

    def _in_json(self, ranges: Mapping[TopicPlace, list[int]]) -> dict[str, Any]:
        """A range as the checkpoint keeps it."""
        ids, topics = self._planner.ids, dict[str, Any]()
        for place, both in sorted(ranges.items()):
            name = place.topic
            about = topics.setdefault(name, {"id": ids[name], "offsets": {}})
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
