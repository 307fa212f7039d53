"""The options of Kafka as a source and as a sink: the one list of each.

The keywords of `read_kafka`, the entries of a job's tables and the words of CREATE TABLE follow from `KafkaSource`; the
entries of a sink and their words from `KafkaOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aggloom.errors import SpecError
from aggloom.masking import mask_repr
from aggloom.runtime.avro.settings import SchemaRegistry
from aggloom.runtime.connectors.kafka.encodings import FORMATS, IN_AVRO, UPSERTS
from aggloom.runtime.connectors.source_options import IN_SQL, KEYWORD
from aggloom.runtime.sinks.options import ELSEWHERE, flink_word, read_options

STARTS = ("earliest", "latest")
LOST_DATA = ("error", "ignore")
FETCHES = ("auto", "workers", "connector")
GUARANTEES = ("exactly-once", "at-least-once")
EXISTING = ("error", "keep")
_OURS = ("bootstrap.servers", "transactional.id", "group.id", "enable.idempotence")
_OURS_OF_SOURCE = ("bootstrap.servers", "group.id", "key.deserializer", "value.deserializer")
Position = str | int | Mapping[Any, Any]
"""A place in topics: "earliest", "latest", milliseconds since 1970, or an offset by partition."""


@mask_repr
@dataclass(frozen=True, kw_only=True)
class KafkaSource:
    """Options of topics that are read; `read_kafka` says what each means.

    Example: a word that is none of an option's.
        >>> KafkaSource(servers="h:9092", topic="t", lost_data="drop").check("table t")
        Traceback (most recent call last):
        ...
        aggloom.errors.SpecError: table t: lost_data is 'drop'; known are error, ignore
    """

    servers: str
    topic: str | Sequence[str]
    start: Position = "earliest"
    end: Position | None = field(default=None, metadata=KEYWORD)
    pattern: bool = False
    streaming: bool = field(default=True, metadata=KEYWORD)
    max_messages_per_trigger: int | None = field(default=None, metadata=IN_SQL)
    lost_data: str = field(default="error", metadata=IN_SQL)
    fetch: str = field(default="auto", metadata=IN_SQL)
    transaction_topic: str | None = field(default=None, metadata=IN_SQL)
    properties: Mapping[str, Any] | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics, or the one pattern."""
        several = tuple(self.topic) if isinstance(self.topic, Sequence) else ()
        return (self.topic,) if isinstance(self.topic, str) else several

    def check(self, where: str) -> None:
        """Raise SpecError for what cannot be read, or cannot be said together; where: begins the message."""
        for name, value, known in (
            ("lost_data", self.lost_data, LOST_DATA),
            ("fetch", self.fetch, FETCHES),
        ):
            if value not in known:
                raise SpecError(f"{where}: {name} is {value!r}; known are {', '.join(known)}")
        are_texts = all(isinstance(each, str) and each for each in self.topics)
        if not self.servers or not self.topics or not are_texts:
            raise SpecError(f"{where}: give it servers ('host:9092') and a topic")
        most = self.max_messages_per_trigger
        if most is not None and most < 1:
            raise SpecError(f"{where}: max_messages_per_trigger is {most}; it must be 1 at least")
        if self.pattern and len(self.topics) > 1:
            raise SpecError(f"{where}: a pattern is one regular expression, not several")
        self._check_position("start", self.start, where)
        if self.end is not None:
            if self.streaming:
                raise SpecError(f"{where}: end is for a batch; pass streaming=False")
            self._check_position("end", self.end, where)
        if self.properties is not None and not isinstance(self.properties, Mapping):
            raise SpecError(
                f"{where}: properties is {self.properties!r}; it must be a mapping, as in "
                "{'security.protocol': 'SSL'}"
            )
        for name in self.properties or ():
            if name in _OURS_OF_SOURCE:
                raise SpecError(
                    f"{where}: {name!r} is not for properties; servers= says where Kafka is, and the checkpoint how "
                    "far it is read"
                )
        if self.transaction_topic is not None:
            self._check_transactions(self.transaction_topic, where)

    def with_transaction_topic(self) -> KafkaSource:
        """The source, with the topic of its transactions, if it has one, as one more topic."""
        if self.transaction_topic is None:
            return self
        return replace(self, topic=tuple(dict.fromkeys((*self.topics, self.transaction_topic))))

    def _check_transactions(self, topic: str, where: str) -> None:
        """Raise SpecError for what leaves open whether a transaction is whole."""
        begin, prefix = f"{where}: transaction_topic", str(topic).rpartition(".")[0]
        if not isinstance(topic, str) or not prefix:
            raise SpecError(
                f"{begin} is {topic!r}; it is the topic to which Debezium writes where transactions begin and end, as "
                "in 'shop.transaction'"
            )
        for name in self.topics if not self.pattern else ():
            if not name.startswith(f"{prefix}."):
                raise SpecError(
                    f"{begin} {topic!r} counts the events of topics that Debezium calls {prefix}.TABLE, which topic "
                    f"{name!r} is not; name the transaction_topic of the same connector, or leave it out"
                )
        isolation = (self.properties or {}).get("isolation.level", "read_committed")
        for is_open, reason, advice in (
            (self.pattern, "a pattern, which may find a topic late", "name the topics"),
            (
                self.start != "earliest",
                f"start={self.start!r}, which may be in the middle of a transaction",
                "begin at the earliest offsets",
            ),
            (
                self.lost_data == "ignore",
                'lost_data="ignore", which passes parts of transactions over',
                "keep the default",
            ),
            (
                not self.streaming,
                "streaming=False",
                "read a stream, with trigger(availableNow=True)",
            ),
            (
                isolation != "read_committed",
                "isolation.level=read_uncommitted, which also reads messages of aborted transactions",
                "keep the default",
            ),
            (
                self.fetch == "connector",
                'fetch="connector": Spark\'s connector knows no transactions of the database',
                'pass fetch="workers"',
            ),
        ):
            if is_open:
                raise SpecError(f"{begin} does not go with {reason}; {advice}")

    def _check_position(self, name: str, position: Any, where: str) -> None:
        """Raise SpecError for what is no place in the topics."""
        is_moment = isinstance(position, int) and not isinstance(position, bool)
        in_one = isinstance(position, Mapping) and not self.pattern and len(self.topics) == 1
        if not (is_moment or in_one or (isinstance(position, str) and position in STARTS)):
            raise SpecError(
                f"{where}: it cannot {name} at {position!r}; known are earliest, latest, milliseconds since 1970, and "
                "of one topic an offset for each partition, as in {0: 17, 1: 0}"
            )


@mask_repr
@dataclass(frozen=True)
class KafkaOptions:
    """Options of a Kafka sink.

    servers: host:port, several with commas. format: "upsert-json" (key and row, or a tombstone), "debezium-json" (op c
    and d), "jsonl" (rows with `_change_type`), or the same in Avro: "upsert-avro", "debezium-avro", "avro-confluent".
    registry: of the schemas of these. guarantee: "exactly-once", or "at-least-once" without transactions. existing:
    what to do where a checkpoint first writes to a topic that has messages: "error" or "keep". replay: whether a
    checkpoint that has gone back to an older batch, or whose last one comes out otherwise, may write its batches again.
    create, partitions: whether the topic is made if it is not there, and with how many. timeout: how many seconds to
    wait for the broker. prefix: of the name of transactions and of the group. properties: of its client, librdkafka.
    """

    servers: str = field(metadata=ELSEWHERE)
    topic: str = field(metadata=ELSEWHERE)
    format: str = field(default="upsert-json", metadata=ELSEWHERE)
    guarantee: str = field(default="exactly-once", metadata=ELSEWHERE)
    existing: str = "error"
    replay: bool = False
    create: bool = True
    partitions: int = -1
    timeout: int = 60
    prefix: str = field(default="aggloom", metadata=flink_word("sink.transactional-id-prefix"))
    properties: Mapping[str, Any] = field(default_factory=dict, metadata=ELSEWHERE)
    registry: SchemaRegistry | None = field(default=None, metadata=ELSEWHERE)
    kind = "kafka"

    @property
    def needs_key(self) -> bool:
        """Tell whether nothing can be written without a key of the result."""
        return self.format in UPSERTS


def kafka_options(options: Mapping[str, Any]) -> KafkaOptions:
    """The options of a mapping; raises SpecError for one that nobody reads, that is missing, or that cannot be."""
    choices = {"format": FORMATS, "guarantee": GUARANTEES, "existing": EXISTING}
    needed = {"servers": "host:9092", "topic": "totals"}
    checked = read_options(KafkaOptions, "kafka", options, needed, choices)
    if (checked.registry is None) == (checked.format in IN_AVRO):
        raise SpecError(
            f"sink kafka: {checked.format} has its schemas in a registry; say where: registry='https://registry:8081'"
            if checked.registry is None
            else f"sink kafka: a registry has the schemas of Avro; {checked.format} has no use for it"
        )
    for name in checked.properties:
        if name in _OURS:
            raise SpecError(f"sink kafka: {name!r} is the sink's own; take it out of properties")
    return checked
