"""Answers of brokers about topics, asked without Spark: ids, partitions, and from where to where each goes."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from aggloom.errors import DataError, SpecError
from aggloom.runtime.connectors.kafka.options import KafkaSource

_SECONDS = 10.0
_PATIENCE_SECONDS = 30.0
"""The time that brokers may be away before that is an error."""
_PAUSE_SECONDS = 0.3
_UNKNOWN = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")
_HOPELESS = ("AUTHORIZATION", "AUTHENTICATION", "_INVALID_ARG", "INVALID_TOPIC")
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id that a broker which gives none seems to give."""
_NONE = -1
"""The offset of a time after which there is no message."""
_PORT, _CONNECT_SECONDS = 9092, 2.0
_AWAY: dict[str, str] = {}
"""The brokers that are asked in vain now, and why they do not answer."""
_Said = TypeVar("_Said")


class TopicPlace(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicFacts(NamedTuple):
    """A topic's id, empty where brokers give none, and the numbers of its partitions."""

    id: str
    partitions: tuple[int, ...]


class TopicBroker:
    """Asks the brokers of a source's topics; where: begins messages. Raises SpecError and DataError."""

    def __init__(self, source: KafkaSource, where: str) -> None:
        self._source, self._where = source, where
        client = kafka_client(where)
        self._new = client.TopicPartition
        self._config = client_config(source)
        self._level = client.IsolationLevel.READ_COMMITTED
        if self._config.pop("isolation.level") != "read_committed":
            self._level = client.IsolationLevel.READ_UNCOMMITTED
        from confluent_kafka import admin

        self._specs = admin.OffsetSpec
        self._make: Callable[[], Any] = lambda: open_client(admin.AdminClient, self._config, where)
        self._admin = self._make()

    def topics(self) -> dict[str, TopicFacts]:
        """The topics of the source that there are, by name."""
        names = list(self._source.topics)
        if self._source.pattern:
            known = self._ask(lambda: self._admin.list_topics(timeout=_SECONDS).topics)
            names = [name for name in known if _fits(names[0], name)]
        if not names:
            return {}
        return self._ask(lambda: self._describe(sorted(names)))

    def _describe(self, names: list[str]) -> dict[str, TopicFacts]:
        answers = self._admin.describe_topics(
            kafka_client(self._where).TopicCollection(names), request_timeout=_SECONDS
        )
        facts_by_topic: dict[str, TopicFacts] = {}
        for name in names:
            facts = _result_unless_unknown(answers[name])
            if facts is not None:
                if not facts.partitions:
                    # A broker that knows no partition of a topic yet would make it one without messages.
                    raise _error_of(self._where, "LEADER_NOT_AVAILABLE")
                number = str(facts.topic_id)
                numbers = sorted(int(each.id) for each in facts.partitions)
                facts_by_topic[name] = TopicFacts(
                    "" if number == _NO_ID else number, tuple(numbers)
                )
        return facts_by_topic

    def list_compacted(self, names: Sequence[str]) -> list[str]:
        """The topics of these of which Kafka keeps the last message of a key alone.

        Brokers tell it those who may describe configurations; of others no topic is known to be one.
        """
        client = kafka_client(self._where)
        from confluent_kafka import admin

        topics = [admin.ConfigResource(admin.ResourceType.TOPIC, name) for name in names]
        try:
            answers = self._admin.describe_configs(topics, request_timeout=_SECONDS)
            configs = {each.name: answer.result(2 * _SECONDS) for each, answer in answers.items()}
        except (client.KafkaException, TimeoutError):
            return []
        return [name for name in names if "compact" in str(configs[name]["cleanup.policy"].value)]

    def earliest(self, places: Iterable[TopicPlace]) -> dict[TopicPlace, int]:
        """The first offset of each partition that is still there."""
        return self._offsets(places, self._specs.earliest())

    def latest(self, places: Iterable[TopicPlace]) -> dict[TopicPlace, int]:
        """The offset behind the last message of each partition that may be read."""
        return self._offsets(places, self._specs.latest())

    def at_time(self, places: Iterable[TopicPlace], moment: int) -> dict[TopicPlace, int]:
        """The offset of the first message at a time or after it, in milliseconds; the end where there is none."""
        listed = list(places)
        offsets = self._offsets(listed, self._specs.for_timestamp(moment), moment=True)
        none = [place for place, offset in offsets.items() if offset < 0]
        return offsets | (self.latest(none) if none else {})

    def _offsets(
        self, places: Iterable[TopicPlace], spec: Any, moment: bool = False
    ) -> dict[TopicPlace, int]:
        listed = list(places)
        if not listed:
            return {}
        return self._ask(lambda: self._list_offsets(listed, spec, moment))

    def _list_offsets(
        self, places: list[TopicPlace], spec: Any, moment: bool
    ) -> dict[TopicPlace, int]:
        answers = self._admin.list_offsets(
            {self._new(*place): spec for place in places},
            isolation_level=self._level,
            request_timeout=_SECONDS,
        )
        offsets = {}
        for each, answer in answers.items():
            offset = int(answer.result(2 * _SECONDS).offset)
            if offset < (_NONE if moment else 0):
                # A broker that has just come back does not know yet, and that is no error to the client.
                raise _error_of(self._where, "OFFSET_NOT_AVAILABLE")
            offsets[TopicPlace(each.topic, each.partition)] = offset
        return offsets

    def _ask(self, question: Callable[[], _Said]) -> _Said:
        """The answer of the brokers, which may be away for a while."""
        end, servers = time.monotonic() + _PATIENCE_SECONDS, self._source.servers
        try:
            while True:
                try:
                    return question()
                except (kafka_client(self._where).KafkaException, TimeoutError) as error:
                    if time.monotonic() > end or _is_hopeless(error):
                        raise broker_error(self._where, self._source, error) from error
                    _AWAY[servers] = unreachable(servers) or _text_of(error)
                time.sleep(_PAUSE_SECONDS)
                # A client does not look anew who leads a partition: one of before asks a broker that was away in vain.
                self._admin = self._make()
        finally:
            _AWAY.pop(servers, None)


def describe_wait() -> str:
    """Describe the brokers that this process waits for; empty if there are none."""
    waits = [f"{servers} ({why})" for servers, why in list(_AWAY.items())]
    return f"waiting for Kafka at {', '.join(waits)}" if waits else ""


def unreachable(servers: str) -> str:
    """Say why no address of a list takes a connection; empty if one does.

    The client itself says no more than that its time is over.
    """
    failures = []
    for address in servers.split(","):
        # Addresses may begin with a protocol, and those of IPv6 are in brackets.
        host, port = re.sub(r"^\w+://", "", address.strip()), _PORT
        if numbered := re.fullmatch(r"(.*):(\d+)", host):
            host, port = numbered[1], int(numbered[2])
        try:
            socket.create_connection((host.strip("[]"), port), _CONNECT_SECONDS).close()
            return ""
        except (OSError, OverflowError) as error:
            failures.append(getattr(error, "strerror", None) or str(error))
    return ", ".join(dict.fromkeys(failures))


def _result_unless_unknown(answer: Future[Any]) -> Any:
    """The answer of a broker; None of a topic or partition that it does not know."""
    try:
        return answer.result(2 * _SECONDS)
    except Exception as error:
        if _name(error) in _UNKNOWN:
            return None
        raise


def _error_of(where: str, name: str) -> BaseException:
    """An error as the client raises it, after which it is asked again."""
    client = kafka_client(where)
    error: BaseException = client.KafkaException(
        client.KafkaError(getattr(client.KafkaError, name))
    )
    return error


def _fits(pattern: str, name: str) -> bool:
    """Tell whether a pattern means a topic; those of Kafka itself it never does."""
    return not name.startswith("__") and re.fullmatch(pattern, name) is not None


def _name(error: BaseException) -> str:
    """The name of an error of the client's; empty of another."""
    cause: Any = error.args[0] if error.args else error
    return str(cause.name()) if hasattr(cause, "name") else ""


def _is_hopeless(error: BaseException) -> bool:
    """Tell whether the brokers would say the same however often they are asked."""
    return any(word in _name(error) for word in _HOPELESS)


def broker_error(where: str, source: KafkaSource, error: BaseException) -> DataError:
    """The error for what the client says of the brokers."""
    # A broker that refuses somebody is there.
    if not _is_hopeless(error) and (why := unreachable(source.servers)):
        return DataError(
            f"{where}: no Kafka can be reached at {source.servers}: {why}. Correct the address, or start the brokers; "
            "nothing is lost, and the query goes on from the same checkpoint."
        )
    return DataError(
        f"{where}: Kafka at {source.servers} does not answer as it should: {_text_of(error)}. Nothing is lost; start "
        "the query again from the same checkpoint once it does."
    )


def _text_of(error: BaseException) -> str:
    """The text of an error of the client's, or of a wait that was too long."""
    cause = error.args[0] if error.args else error
    said = cause.str() if hasattr(cause, "str") else str(cause)
    return str(said).rstrip(".") or "no answer in time"


def client_config(source: KafkaSource) -> dict[str, Any]:
    """The settings of a client for a source: the properties that users give are those of librdkafka."""
    own: Mapping[str, Any] = source.properties or {}
    usual = {"isolation.level": "read_committed", "log_level": 0}
    return {**usual, **own, "bootstrap.servers": source.servers}


def open_client(client_type: Any, config: Mapping[str, Any], where: str) -> Any:
    """A client of these settings; raises SpecError for one that it does not know."""
    try:
        return client_type(dict(config))
    except kafka_client(where).KafkaException as error:
        raise SpecError(
            f"{where}: properties are not those of librdkafka, the client here: {_text_of(error)}. Write them as it "
            'does, or have Java\'s client, with --engine spark and fetch="connector".'
        ) from None


def kafka_client(where: str) -> Any:
    """The package confluent_kafka; raises SpecError."""
    try:
        import confluent_kafka
    except ImportError:
        raise SpecError(
            f"{where}: the package confluent-kafka is not there; pip install 'aggloom[kafka]'"
        ) from None
    return confluent_kafka
