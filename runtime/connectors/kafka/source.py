"""Topics of Kafka as changes: fetched in the workers that pack the rows, or by Spark's own connector.

Either way the offsets are in Spark's log, in one form, so that a checkpoint continues with either.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from aggloom.codegen import to_schema
from aggloom.errors import SpecError, nearest
from aggloom.runtime.connectors.kafka.options import KafkaSource, Position
from aggloom.runtime.connectors.kafka.reader_choice import find_connector_reason
from aggloom.runtime.connectors.kafka.spark_package import CONNECTOR
from aggloom.runtime.connectors.kafka.topics import Topics, remember_topics
from aggloom.runtime.connectors.kafka.transactions.marks import TransactionMarks
from aggloom.runtime.formats.decoder import decoder
from aggloom.runtime.formats.registry import MESSAGES
from aggloom.runtime.formats.side_table import side_table
from aggloom.runtime.spark.arguments import check_session, check_text
from aggloom.runtime.spark.read.joint_topics import read_table
from aggloom.runtime.spark.read.messages import read_messages, session_zone
from aggloom.runtime.spark.read.topic_ranges import TopicTable
from aggloom.runtime.spark.sessions.cluster import check_shared
from aggloom.runtime.spark.sessions.session import is_local

_log = logging.getLogger("aggloom")

if TYPE_CHECKING:
    from aggloom.codegen import SchemaLike


def read_kafka(
    spark: SparkSession,
    servers: str,
    topic: str | Sequence[str],
    format: str,
    schema: SchemaLike,
    keys: str | Sequence[str] | None = None,
    *,
    start: Position = "earliest",
    end: Position | None = None,
    pattern: bool = False,
    streaming: bool = True,
    max_messages_per_trigger: int | None = None,
    lost_data: str = "error",
    fetch: str = "auto",
    transaction_topic: str | None = None,
    unreadable: str = "error",
    side: str | Path | None = None,
    metadata: Mapping[str, str] | None = None,
    properties: Mapping[str, Any] | None = None,
    **options: Any,
) -> DataFrame:
    """The changes in topics: the schema's columns and `_change_type`.

    spark: a session, made with the settings of `kafka_settings` where Spark's connector reads. servers: host:port,
    several with commas. topic: a name, several of them, or with `pattern` a regular expression, which finds new topics,
    too. format: see docs/formats.md. schema: of the values. start: "earliest", "latest", milliseconds since 1970, or an
    offset by partition ({0: 17}); a query that has a checkpoint goes on where that is. streaming: False reads what
    there is now, up to `end`. max_messages_per_trigger: how many a batch takes. lost_data: messages that are gone
    before they were read are an "error", or to "ignore". fetch: in Python's "workers" by librdkafka, by Spark's
    "connector", or "auto": in workers where that keeps all promises of the connector. transaction_topic: where Debezium
    writes the ends of transactions (provide.transaction.metadata=true): then no batch has a part of one. properties: of
    that client, such as security.protocol. metadata: columns of the schema that no value has, each with its source,
    such as {"ts": "timestamp"}. keys, unreadable, side, options: as of read_messages. Raises SpecError.

    Example:
        >>> import aggloom as al
        >>> spark = al.session(**al.kafka_settings())
        >>> orders = al.read_kafka(spark, "broker:9092", "orders", "debezium-json", "id INT, amount INT")
        >>> orders.columns
        ['id', 'amount', '_change_type']
    """
    check_session("read_kafka", spark)
    check_text("read_kafka", "format", format)
    if format not in MESSAGES:
        raise SpecError(
            f"read_kafka: no format of messages {format!r}. {nearest(format, MESSAGES)}"
        )
    source = KafkaSource(
        servers=servers,
        topic=topic,
        start=start,
        end=end,
        pattern=pattern,
        streaming=streaming,
        max_messages_per_trigger=max_messages_per_trigger,
        lost_data=lost_data,
        fetch=fetch,
        transaction_topic=transaction_topic,
        properties=properties,
    )
    source.check("read_kafka")
    messages = _MessageOptions(
        format=format,
        schema=schema,
        keys=keys,
        unreadable=unreadable,
        side=side,
        metadata=metadata,
        options=options,
    )
    # Decided anew at each start: a checkpoint does not say who has read.
    by_connector = find_connector_reason(source, "read_kafka", is_cluster=not is_local(spark))
    if by_connector is None:
        return _read_in_workers(spark, source, messages)
    _log.info("read_kafka: %s: Spark's connector reads it: %s", topic, by_connector)
    return _read_by_connector(spark, source, messages)


class _MessageOptions(NamedTuple):
    """The arguments of `read_kafka` that say what messages contain."""

    format: str
    schema: SchemaLike
    keys: str | Sequence[str] | None
    unreadable: str
    side: str | Path | None
    metadata: Mapping[str, str] | None
    options: dict[str, Any]


def _read_in_workers(
    spark: SparkSession, source: KafkaSource, messages: _MessageOptions
) -> DataFrame:
    """Return the changes of topics that Python's workers read with librdkafka."""
    format, schema, keys, unreadable, side, metadata, options = messages
    marks = None
    if source.transaction_topic is not None:
        marks = TransactionMarks(format, options.get("registry"), "read_kafka")
    zone = options.pop("zone", None) or session_zone(spark)
    settings: dict[str, Any] = {"zone": zone, "metadata": metadata, **options}
    reading = decoder(format, schema, keys, unreadable, **settings)
    table = side_table(side, reading, reading.unreadable)
    if table is not None:
        check_shared(spark, "side table", table.directory)
    # With metadata the schema has columns that the reading has not.
    names = [*to_schema(schema).names] if metadata else []
    names = list(dict.fromkeys([*names, *reading.columns.names]))
    changes = read_table(
        spark, TopicTable(source, reading, table, tuple(names), marks), "read_kafka"
    )
    return remember_topics(
        changes, replace(_topics_of(source), source=source.with_transaction_topic())
    )


def _read_by_connector(
    spark: SparkSession, source: KafkaSource, messages: _MessageOptions
) -> DataFrame:
    """Return the changes of topics that Spark's connector reads."""
    headers = "headers" in (messages.metadata or {}).values()
    reader = (spark.readStream if source.streaming else spark.read).format("kafka")
    reader = reader.options(**_spark_options(source), includeHeaders=headers)
    with _with_connector():
        rows = reader.load()
    frame = read_messages(
        rows,
        messages.format,
        messages.schema,
        messages.keys,
        unreadable=messages.unreadable,
        side=messages.side,
        metadata=messages.metadata,
        **messages.options,
    )
    return remember_topics(frame, _topics_of(source))


def _topics_of(source: KafkaSource) -> Topics:
    """Return the topics that a checkpoint is compared with, that of transactions among them."""
    names = source.with_transaction_topic().topics
    is_strict, properties = source.lost_data == "error", dict(source.properties or {})
    return Topics(source.servers, names, source.pattern, is_strict, properties)


def _spark_options(source: KafkaSource) -> dict[str, Any]:
    """The options of Spark's connector for a source that has been checked."""
    options: dict[str, Any] = {
        "kafka.bootstrap.servers": source.servers,
        "subscribePattern" if source.pattern else "subscribe": ",".join(source.topics),
        # Rows of transactions that were aborted never were; Kafka's own default would read them.
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": str(source.lost_data == "error").lower(),
        **_position_options("starting", source.start, source.topics),
    }
    if source.end is not None:
        options |= _position_options("ending", source.end, source.topics)
    if source.max_messages_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = source.max_messages_per_trigger
    return options | {f"kafka.{name}": value for name, value in (source.properties or {}).items()}


def _position_options(what: str, position: Position, topics: tuple[str, ...]) -> dict[str, str]:
    """The options of Spark's that say where reading starts or ends."""
    if isinstance(position, str):
        return {f"{what}Offsets": position}
    if isinstance(position, int):
        # A partition without a message since that time begins at its end; Spark's default is to fail.
        at_end = {"startingOffsetsByTimestampStrategy": "latest"} if what == "starting" else {}
        return {f"{what}Timestamp": str(position), **at_end}
    offsets = {str(int(partition)): int(offset) for partition, offset in position.items()}
    return {f"{what}Offsets": json.dumps({topics[0]: offsets})}


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
