"""The options of a Kafka sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aggloom.errors import SpecError
from aggloom.masking import mask_repr
from aggloom.runtime.avro.settings import SchemaRegistry
from aggloom.runtime.sinks.encodings import FORMATS, IN_AVRO, UPSERTS
from aggloom.runtime.sinks.options import ELSEWHERE, flink_word, read_options

GUARANTEES = ("exactly-once", "at-least-once")
EXISTING = ("error", "keep")
_OURS = ("bootstrap.servers", "transactional.id", "group.id", "enable.idempotence")


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


def kafka_options(given: Mapping[str, Any]) -> KafkaOptions:
    """The options of a mapping; raises SpecError for one that nobody reads, that is missing, or that cannot be."""
    choices = {"format": FORMATS, "guarantee": GUARANTEES, "existing": EXISTING}
    needed = {"servers": "host:9092", "topic": "totals"}
    made = read_options(KafkaOptions, "kafka", given, needed, choices)
    if (made.registry is None) == (made.format in IN_AVRO):
        raise SpecError(
            f"sink kafka: {made.format} has its schemas in a registry; say where: registry='https://registry:8081'"
            if made.registry is None
            else f"sink kafka: a registry has the schemas of Avro; {made.format} has no use for it"
        )
    for name in made.properties:
        if name in _OURS:
            raise SpecError(f"sink kafka: {name!r} is the sink's own; take it out of properties")
    return made
