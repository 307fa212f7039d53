"""Tables whose topics are planned together, so that no batch cuts a transaction that has written several of them."""

from __future__ import annotations

from collections.abc import Mapping

from aggloom.runtime.connectors.kafka.offsets import Offsets, PlannedOffsets
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.kafka.transactions.groups import JointTables, join_tables
from aggloom.runtime.connectors.kafka.transactions.marks import TransactionMarks
from aggloom.runtime.connectors.kafka.transactions.planner import TransactionPlanner

MOST_MESSAGES = 500_000
"""A batch has about so many messages of a table where nothing else is said, so that it fits into memory."""


class TopicGroup:
    """The plan of several tables, made when the first of them is asked for its part, and handed out to each once.

    A query asks all tables in turn, and reads what they say in one batch. most: how many messages a batch has.
    """

    def __init__(self, joint: JointTables, most: int) -> None:
        self._joint, self._most = joint, most
        self._own_planner: TransactionPlanner | None = None
        self._positions: dict[str, Offsets | None] = {}
        self._ids: dict[str, str] = {}
        self._parts: dict[str, PlannedOffsets] = {}

    @property
    def planner(self) -> TransactionPlanner:
        """The planner, which asks the brokers when it is made."""
        # Made late: a query that is only described asks no broker.
        if self._own_planner is None:
            _, source, marks = self._joint
            self._own_planner = TransactionPlanner(source, marks, self._joint.where)
        return self._own_planner

    def note_position(self, table: str, position: Offsets | None, ids: Mapping[str, str]) -> None:
        """Note how far a table is read; None: from where it begins."""
        self._positions[table] = position
        self._ids |= ids

    def take_part(self, table: str) -> PlannedOffsets:
        """Return the plan of all tables, of which this one has not had its part."""
        if table not in self._parts:
            # All tables of the group get the same plan, so that no transaction is cut between them.
            planned = self.planner.plan(self._join_positions(), self._ids, self._most)
            self._parts = dict.fromkeys(self._positions, planned)
        # Handed out once: asked again, the table wants the next batch.
        return self._parts.pop(table)

    def _join_positions(self) -> Offsets | None:
        """The position of all tables; of what several have noted, the furthest."""
        noted = [position for position in self._positions.values() if position is not None]
        joint: Offsets = {}
        for position in noted:
            for place, at in position.items():
                # A table that a batch has not read keeps the end of transactions that it had.
                joint[place] = max(at, joint.get(place, 0))
        return joint if noted else None


class GroupedPlanner:
    """The planner of one table of a group, as OffsetPlanner is that of a table by itself.

    topics: of the table. end_topic: where its transactions end.
    """

    def __init__(
        self, group: TopicGroup, table: str, topics: tuple[str, ...], end_topic: str
    ) -> None:
        self._group, self._table, self._end_topic = group, table, end_topic
        self._topics = {*topics, end_topic}

    @property
    def ids(self) -> dict[str, str]:
        """The ids of the topics that there are."""
        return self._group.planner.ids

    def check_ids(self, known: Mapping[str, str]) -> None:
        """Hold the ids of topics against those that were read; raises CheckpointError."""
        self._group.planner.check_ids(known)

    def stop_here(self) -> None:
        """Take what there is now for all that there will be."""
        self._group.planner.stop_here()

    def note_position(self, position: Offsets | None, ids: Mapping[str, str]) -> None:
        """Note how far the table is read."""
        own = None if position is None else self._part_of(position)
        self._group.note_position(self._table, own, ids)

    def plan(
        self, position: Offsets | None, ids: Mapping[str, str], most: int | None
    ) -> PlannedOffsets:
        """The offsets behind a position; most: as it was said of the group."""
        self.note_position(position, ids)
        starts, ends, last = map(self._part_of, self._group.take_part(self._table))
        if all(at == starts[place] for place, at in ends.items() if place.topic != self._end_topic):
            # Where the table has nothing new, others may have: it has no part in the batch.
            return PlannedOffsets(starts, starts, last)
        return PlannedOffsets(starts, ends, last)

    def _part_of(self, offsets: Offsets) -> Offsets:
        return {place: at for place, at in offsets.items() if place.topic in self._topics}


def group_topics(
    sources: Mapping[str, KafkaSource], marks: Mapping[str, TransactionMarks]
) -> dict[str, TopicGroup]:
    """The groups of tables that are read together, by table; sources, marks: as of join_tables. Raises SpecError."""
    groups: dict[str, TopicGroup] = {}
    for joint in join_tables(sources, marks):
        # The group's batch is as large as those of its tables together.
        most = sum(sources[name].max_messages_per_trigger or MOST_MESSAGES for name in joint.names)
        groups |= dict.fromkeys(joint.names, TopicGroup(joint, most))
    return groups
