"""Topics of Kafka as changes, by Spark's own connector, whose offsets are part of the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from aggloom.errors import SpecError, nearest
from aggloom.runtime.formats.registry import MESSAGES
from aggloom.runtime.spark.arguments import check_session, check_text, mapping_of
from aggloom.runtime.spark.read.connector import CONNECTOR
from aggloom.runtime.spark.read.kafka_topics import Topics, remember_topics
from aggloom.runtime.spark.read.messages import read_messages

STARTS = ("earliest", "latest")
_OURS = ("bootstrap.servers", "group.id", "key.deserializer", "value.deserializer")


def read_kafka(
    spark: SparkSession,
    servers: str,
    topic: str | Sequence[str],
    format: str,
    schema: Any,
    keys: Any = None,
    *,
    start: str | int | Mapping[Any, Any] = "earliest",
    end: str | int | Mapping[Any, Any] | None = None,
    pattern: bool = False,
    streaming: bool = True,
    max_messages_per_trigger: int | None = None,
    lost_data: str = "error",
    unreadable: str = "error",
    side: str | Path | None = None,
    properties: Mapping[str, Any] | None = None,
    **options: Any,
) -> DataFrame:
    """The changes in topics: the schema's columns and `_change_type`.

    servers: host:port, several with commas. topic: a name, several of them, or with `pattern` a regular expression,
    which finds new topics, too. start: "earliest", "latest", milliseconds since 1970, or an offset by partition
    ({0: 17}); a query that has a checkpoint goes on where that is. end: the same for a batch (streaming=False).
    lost_data: messages that are gone before they were read are an "error", or to "ignore". properties: of Kafka's
    client, such as security.protocol. keys, unreadable, side, options: as of read_messages. Raises SpecError.
    """
    check_session("read_kafka", spark)
    check_text("read_kafka", "format", format)
    if format not in MESSAGES:
        raise SpecError(
            f"read_kafka: no format of messages {format!r}. {nearest(format, MESSAGES)}"
        )
    if lost_data not in ("error", "ignore"):
        raise SpecError(f"read_kafka: lost_data is {lost_data!r}; known are error, ignore")
    several = tuple(topic) if isinstance(topic, Sequence) else ()
    listed = (topic,) if isinstance(topic, str) else several
    if not servers or not listed or not all(isinstance(each, str) and each for each in listed):
        raise SpecError("read_kafka: give it servers ('host:9092') and a topic")
    if pattern and len(listed) > 1:
        raise SpecError("read_kafka: a pattern is one regular expression, not several")
    told: dict[str, Any] = {
        "kafka.bootstrap.servers": servers,
        "subscribePattern" if pattern else "subscribe": ",".join(listed),
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": str(lost_data == "error").lower(),
        **_from("starting", start, None if pattern else listed),
    }
    if end is not None:
        if streaming:
            raise SpecError("read_kafka: end is for a batch; pass streaming=False")
        told |= _from("ending", end, None if pattern else listed)
    form = "as in {'security.protocol': 'SSL'}"
    if max_messages_per_trigger is not None:
        told["maxOffsetsPerTrigger"] = max_messages_per_trigger
    for name, value in mapping_of("read_kafka", "properties", properties, form).items():
        if name in _OURS:
            raise SpecError(
                f"read_kafka: {name!r} is not for properties; servers= says where Kafka is, and the checkpoint how far "
                "it is read"
            )
        told[f"kafka.{name}"] = value
    reader = (spark.readStream if streaming else spark.read).format("kafka").options(**told)
    with _with_connector():
        messages = reader.load()
    made = read_messages(
        messages, format, schema, keys, unreadable=unreadable, side=side, **options
    )
    about = Topics(servers, listed, pattern, lost_data == "error", dict(properties or {}))
    return remember_topics(made, about)


def _from(what: str, where: Any, topics: tuple[str, ...] | None) -> dict[str, str]:
    """The option of Spark's that says where reading starts or ends."""
    if isinstance(where, str) and where in STARTS:
        return {f"{what}Offsets": where}
    if isinstance(where, int) and not isinstance(where, bool):
        at_end = {"startingOffsetsByTimestampStrategy": "latest"} if what == "starting" else {}
        return {f"{what}Timestamp": str(where), **at_end}
    if isinstance(where, Mapping) and topics is not None and len(topics) == 1:
        offsets = {str(int(partition)): int(offset) for partition, offset in where.items()}
        return {f"{what}Offsets": json.dumps({topics[0]: offsets})}
    raise SpecError(
        f"read_kafka: it cannot {what[:-3]} at {where!r}; known are earliest, latest, milliseconds since 1970, and of "
        "one topic an offset for each partition, as in {0: 17, 1: 0}"
    )


@contextmanager
def _with_connector() -> Iterator[None]:
    """Says in words that Spark has no connector."""
    try:
        yield
    except AnalysisException as error:
        if "kafka" not in str(error):
            raise
        raise SpecError(
            "read_kafka: Spark's connector for Kafka is not there; start the session with "
            f"al.session(**al.kafka_settings()), or with spark.jars.packages={CONNECTOR}"
        ) from None
