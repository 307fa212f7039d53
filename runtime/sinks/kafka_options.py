"""The options of a Kafka sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aggloom.errors import SpecError, nearest
from aggloom.masking import mask_repr
from aggloom.runtime.avro.settings import SchemaRegistry, schema_registry
from aggloom.runtime.sinks.encodings import FORMATS, IN_AVRO, UPSERTS

GUARANTEES = ("exactly-once", "at-least-once")
EXISTING = ("error", "keep")
_WORDS = {"create": bool, "replay": bool, "partitions": int, "timeout": int}
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

    servers: str
    topic: str
    format: str = "upsert-json"
    guarantee: str = "exactly-once"
    existing: str = "error"
    replay: bool = False
    create: bool = True
    partitions: int = -1
    timeout: int = 60
    prefix: str = "aggloom"
    properties: Mapping[str, Any] = field(default_factory=dict)
    registry: SchemaRegistry | None = None
    kind = "kafka"

    @property
    def needs_key(self) -> bool:
        """Tell whether nothing can be written without a key of the result."""
        return self.format in UPSERTS


def kafka_options(given: Mapping[str, Any]) -> KafkaOptions:
    """The options of a mapping; raises SpecError for one that nobody reads, that is missing, or that cannot be."""
    known = list(KafkaOptions.__dataclass_fields__)
    for name in given:
        if name not in known:
            raise SpecError(f"sink kafka: there is no option {name!r}. {nearest(str(name), known)}")
    for name in ("servers", "topic"):
        if not given.get(name):
            raise SpecError(
                f"sink kafka: give it {name}, as in {{'kind': 'kafka', 'servers': 'host:9092', 'topic': 'totals'}}"
            )
    made = KafkaOptions(**{name: _typed(name, value) for name, value in given.items()})
    for name, allowed in (("format", FORMATS), ("guarantee", GUARANTEES), ("existing", EXISTING)):
        if getattr(made, name) not in allowed:
            raise SpecError(
                f"sink kafka: {name} is {getattr(made, name)!r}; known are {', '.join(allowed)}"
            )
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


def _typed(name: str, value: Any) -> Any:
    """The value of an option, which a command line gives as text."""
    kind = _WORDS.get(name, str)
    if name == "registry":
        return schema_registry(value)
    if name == "properties":
        if isinstance(value, Mapping):
            return dict(value)
        raise SpecError(f"sink kafka: properties is {value!r}; it must be a mapping")
    if kind is bool and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    if kind is int and str(value).isdigit():
        return int(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        word = {bool: "true or false", int: "a whole number", str: "a text"}[kind]
        raise SpecError(f"sink kafka: {name} is {value!r}; it must be {word}")
    return value
