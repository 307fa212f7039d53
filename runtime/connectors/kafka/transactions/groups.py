"""Tables of a query whose topics are read together, since one transaction may write several of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from aggloom.errors import SpecError
from aggloom.runtime.connectors.kafka.offsets import OffsetPlanner
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.kafka.transactions.marks import TransactionMarks
from aggloom.runtime.connectors.kafka.transactions.planner import TransactionPlanner


class JointTables(NamedTuple):
    """Tables that are read together: their names, the source of all of their topics, and what reads their marks."""

    names: tuple[str, ...]
    source: KafkaSource
    marks: TransactionMarks

    @property
    def where(self) -> str:
        """The begin of a message about them."""
        return f"table{'s' * (len(self.names) > 1)} {', '.join(self.names)}"


def open_planner(
    source: KafkaSource, marks: TransactionMarks | None, where: str
) -> OffsetPlanner | TransactionPlanner:
    """The planner of a source; marks: where its batches are to cut no transaction."""
    if marks is None:
        return OffsetPlanner(source, where)
    return TransactionPlanner(source, marks, where)


def join_tables(
    sources: Mapping[str, KafkaSource], marks: Mapping[str, TransactionMarks]
) -> list[JointTables]:
    """The tables of a query that are read together, by their transaction_topic.

    sources: of all topics of the query, by table. marks: of those that have a transaction_topic. Raises SpecError for
    tables of one connector that do not say the same.
    """
    groups: dict[str, list[str]] = {}
    for name in marks:
        groups.setdefault(str(sources[name].transaction_topic), []).append(name)
    for topic, names in groups.items():
        _refuse_left_out(sources, topic, names[0])
    return [_join(names, sources, marks) for names in groups.values()]


def _refuse_left_out(sources: Mapping[str, KafkaSource], end_topic: str, table: str) -> None:
    """Raise SpecError for a table of the same connector that a batch could read half a transaction of."""
    prefix, servers = end_topic.rpartition(".")[0] + ".", sources[table].servers
    for name, source in sources.items():
        if source.transaction_topic is not None or source.servers != servers:
            continue
        if any(each.startswith(prefix) for each in source.topics):
            raise SpecError(
                f"table {name}: its topic is of the connector whose transactions table {table} is read by, so that a "
                f"batch could have a part of one; give it the same transaction_topic, {end_topic!r}"
            )


def _join(
    names: list[str], sources: Mapping[str, KafkaSource], marks: Mapping[str, TransactionMarks]
) -> JointTables:
    first, *others = names
    for name in others:
        of_first, own = (
            (sources[each].servers, dict(sources[each].properties or {}), marks[each].format)
            for each in (first, name)
        )
        if of_first != own:
            raise SpecError(
                f"table {name}: it has the transaction_topic of table {first}, and other servers, properties or "
                "another format; say the same of both, for they are read together"
            )
    mosts = [sources[name].max_messages_per_trigger for name in names]
    most = None if None in mosts else sum(each for each in mosts if each)
    topics = tuple(dict.fromkeys(topic for name in names for topic in sources[name].topics))
    source = replace(sources[first], topic=topics, max_messages_per_trigger=most)
    return JointTables(tuple(names), source, marks[first])
