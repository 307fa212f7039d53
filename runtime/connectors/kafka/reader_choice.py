"""The choice between the two readers of topics on Spark: its own connector, and workers that fetch by themselves."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from aggloom.errors import SpecError
from aggloom.runtime.connectors.kafka.options import KafkaSource

_LIMITS_SINCE = (4, 2)
"""The first Spark that passes the starting offset and the limit of a read to a source in Python."""
_SAME_IN_BOTH = {"isolation.level"}
"""Properties that both clients have under one name, with one meaning."""


def find_connector_reason(source: KafkaSource, where: str, *, is_cluster: bool) -> str | None:
    """Return why Spark's connector reads topics; None where workers fetch them.

    is_cluster: whether workers may run on other machines. Raises SpecError where workers are to fetch, and cannot; a
    transaction_topic is theirs alone.

    Example: it is asked for.
        >>> source = KafkaSource(servers="h:9092", topic="t", fetch="connector")
        >>> find_connector_reason(source, "read_kafka", is_cluster=False)
        'fetch is "connector"'
    """
    reason = _find_reason(source, where, is_cluster)
    if reason is not None and source.transaction_topic is not None:
        raise SpecError(f"{where}: transaction_topic needs workers that fetch: {reason}")
    return reason


def _find_reason(source: KafkaSource, where: str, is_cluster: bool) -> str | None:
    """Return why Spark's connector reads topics; None where workers fetch them."""
    if source.fetch == "connector":
        return 'fetch is "connector"'
    reason = _find_hindrance(source)
    if source.fetch == "workers":
        if reason is not None:
            raise SpecError(f'{where}: fetch is "workers": {reason}')
        return None
    if reason is None and is_cluster:
        reason = 'workers of a cluster may lack confluent-kafka; where they have it, pass fetch="workers"'
    if reason is None and set(source.properties or {}) - _SAME_IN_BOTH:
        reason = (
            'properties are those of Java\'s client; librdkafka takes its own with fetch="workers"'
        )
    return reason


def _find_hindrance(source: KafkaSource) -> str | None:
    """Return why workers cannot fetch topics as the connector does; None if they can."""
    if find_spec("confluent_kafka") is None:
        return "the package confluent-kafka is not there; pip install 'aggloom[kafka]'"
    is_limited = source.streaming and source.max_messages_per_trigger is not None
    if is_limited and _spark_release() < _LIMITS_SINCE:
        return "max_messages_per_trigger needs Spark 4.2 or newer there"
    return None


def _spark_release() -> tuple[int, ...]:
    """The first two numbers of the installed Spark's version, without importing it; of none the newest."""
    try:
        return tuple(int(part) for part in version("pyspark").split(".")[:2])
    except PackageNotFoundError:
        return _LIMITS_SINCE


def describe_reader(source: KafkaSource, table: str) -> str:
    """Say in a line which reader a table's topics have on Spark, and why."""
    if source.transaction_topic is not None:
        return _describe_transactions(source, table)
    reason = find_connector_reason(source, f"table {table}", is_cluster=False)
    if reason is not None:
        return f"{table}: read by Spark's connector: {reason}"
    more = "" if source.fetch == "workers" else "; on a cluster read by Spark's connector"
    return f"{table}: fetched in the workers that pack its rows{more}"


def _describe_transactions(source: KafkaSource, table: str) -> str:
    """Say how a table is read by transactions, for which there is no other reader."""
    reason = _find_reason(source, f"table {table}", is_cluster=False)
    if reason is not None:
        return f"{table}: not read, for transaction_topic needs workers that fetch: {reason}"
    more = "" if source.fetch == "workers" else '; on a cluster with fetch="workers"'
    return (
        f"{table}: fetched in the workers that pack its rows, in batches of whole transactions by "
        f"{source.transaction_topic}{more}"
    )
