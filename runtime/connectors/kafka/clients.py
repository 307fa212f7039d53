"""The two clients that fetch, both librdkafka's: one makes an object of each message, the other columns of many.

Confluent's package makes objects, for 0.9 us of Python each, and its library lies behind it: its C interface is public,
and the same since years. Messages in columns take a fifth of that. `AGGLOOM_PLATFORM=plain` leaves objects alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np

from aggloom.platform_switch import is_tuned
from aggloom.runtime.connectors.kafka.broker import TopicPlace, kafka_client, open_client
from aggloom.runtime.connectors.kafka.fetched import ColumnPiece, Fetched, Notice, ObjectPiece
from aggloom.runtime.connectors.kafka.message_memory import (
    ERROR,
    IS_KNOWN_LAYOUT,
    KEY,
    KEY_LENGTH,
    OFFSET,
    PARTITION,
    TOPIC,
    VALUE,
    VALUE_LENGTH,
    copy_texts,
    read_fields,
    release_messages,
)

_ADDRESS, _TEXT, _NUMBER = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_CALLS: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_version": (_NUMBER, []),
    "rd_kafka_conf_new": (_ADDRESS, []),
    "rd_kafka_conf_set": (_NUMBER, [_ADDRESS, _TEXT, _TEXT, _TEXT, ctypes.c_size_t]),
    "rd_kafka_conf_destroy": (None, [_ADDRESS]),
    "rd_kafka_new": (_ADDRESS, [_NUMBER, _ADDRESS, _TEXT, ctypes.c_size_t]),
    "rd_kafka_destroy": (None, [_ADDRESS]),
    "rd_kafka_poll_set_consumer": (_NUMBER, [_ADDRESS]),
    "rd_kafka_consumer_close": (_NUMBER, [_ADDRESS]),
    "rd_kafka_queue_get_consumer": (_ADDRESS, [_ADDRESS]),
    "rd_kafka_queue_destroy": (None, [_ADDRESS]),
    "rd_kafka_topic_partition_list_new": (_ADDRESS, [_NUMBER]),
    "rd_kafka_topic_partition_list_add": (_ADDRESS, [_ADDRESS, _TEXT, ctypes.c_int32]),
    "rd_kafka_topic_partition_list_set_offset": (
        _NUMBER,
        [_ADDRESS, _TEXT, ctypes.c_int32, ctypes.c_int64],
    ),
    "rd_kafka_topic_partition_list_destroy": (None, [_ADDRESS]),
    "rd_kafka_assign": (_NUMBER, [_ADDRESS, _ADDRESS]),
    "rd_kafka_consume_batch_queue": (
        ctypes.c_ssize_t,
        [_ADDRESS, _NUMBER, _ADDRESS, ctypes.c_size_t],
    ),
    "rd_kafka_topic_name": (_TEXT, [_ADDRESS]),
    "rd_kafka_err2name": (_TEXT, [_NUMBER]),
    "rd_kafka_message_errstr": (_TEXT, [_ADDRESS]),
    "rd_kafka_message_destroy": (None, [_ADDRESS]),
}
"""The functions of librdkafka that are called: their results and arguments."""
_OLDEST = 0x01060000
_CONSUMER = 1
_ROOM = 512
"""Bytes of a text in which librdkafka says what is wrong with a setting."""


class ObjectClient:
    """Confluent's consumer; raises SpecError for settings that it does not know."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        client = kafka_client(where)
        self._new = client.TopicPartition
        self._consumer = open_client(client.Consumer, config, where)
        self.close = self._consumer.close

    def assign(self, starts: dict[TopicPlace, int]) -> None:
        """Fetch partitions from these offsets on, and nothing else."""
        self._consumer.assign([self._new(*place, at) for place, at in starts.items()])

    def unassign(self) -> None:
        """Fetch nothing."""
        self._consumer.unassign()

    def consume(self, most: int, seconds: float) -> list[Fetched | Notice]:
        """Messages that have come, and what the client says; nothing if there is none for so long."""
        messages = self._consumer.consume(most, seconds)
        pieces: list[Fetched | Notice] = []
        for (topic, partition, is_message), some in groupby(messages, key=_kind_of):
            if is_message:
                pieces.append(ObjectPiece(some))
                continue
            for each in some:
                error = each.error()
                place = TopicPlace(topic, partition)
                pieces.append(Notice(place, str(error.name()), error.str(), each.offset() or 0))
        return pieces


def _kind_of(message: Any) -> tuple[str, int, bool]:
    return message.topic(), message.partition(), message.error() is None


class ColumnClient:
    """A consumer by librdkafka's C interface; `open` returns None where there is none of these settings."""

    def __init__(self, library: Any, handle: int) -> None:
        self._library, self._handle = library, handle
        library.rd_kafka_poll_set_consumer(handle)
        self._queue = library.rd_kafka_queue_get_consumer(handle)
        self._names: dict[int, str] = {}

    @classmethod
    def open(cls, config: Mapping[str, Any]) -> ColumnClient | None:
        """A consumer; None where the other client has to say what is wrong, or calls functions of Python's."""
        library = load_library()
        if library is None or not all(isinstance(v, str | int | float) for v in config.values()):
            return None
        settings, said = library.rd_kafka_conf_new(), ctypes.create_string_buffer(_ROOM)
        for name, value in config.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            both = name.encode(), text.encode()
            if library.rd_kafka_conf_set(settings, *both, said, _ROOM):
                library.rd_kafka_conf_destroy(settings)
                return None
        handle = library.rd_kafka_new(_CONSUMER, settings, said, _ROOM)
        if not handle:
            library.rd_kafka_conf_destroy(settings)
            return None
        return cls(library, handle)

    def close(self) -> None:
        """Leave the brokers."""
        handle, self._handle = self._handle, 0
        if handle:
            self._library.rd_kafka_consumer_close(handle)
            self._library.rd_kafka_queue_destroy(self._queue)
            self._library.rd_kafka_destroy(handle)

    def assign(self, starts: dict[TopicPlace, int]) -> None:
        """Fetch partitions from these offsets on, and nothing else."""
        library = self._library
        listed = library.rd_kafka_topic_partition_list_new(len(starts))
        for (topic, partition), at in starts.items():
            name = topic.encode()
            library.rd_kafka_topic_partition_list_add(listed, name, partition)
            library.rd_kafka_topic_partition_list_set_offset(listed, name, partition, at)
        error = library.rd_kafka_assign(self._handle, listed)
        library.rd_kafka_topic_partition_list_destroy(listed)
        # Handles of topics live as long as what is assigned.
        self._names.clear()
        if error:
            client = kafka_client("kafka")
            raise client.KafkaException(client.KafkaError(error))

    def unassign(self) -> None:
        """Fetch nothing; a client that is closed does so already."""
        if self._handle:
            self._library.rd_kafka_assign(self._handle, None)

    def consume(self, most: int, seconds: float) -> list[Fetched | Notice]:
        """Messages that have come, and what the client says; nothing if there is none for so long."""
        addresses = np.empty(most, np.int64)
        wait = int(seconds * 1000)
        count = self._library.rd_kafka_consume_batch_queue(
            self._queue, wait, addresses.ctypes.data, most
        )
        if count <= 0:
            return []
        addresses = addresses[:count]
        try:
            return self._take(addresses)
        finally:
            # The messages were copied, and belong to the library.
            release_messages(self._library.rd_kafka_message_destroy, addresses)

    def _take(self, addresses: Any) -> list[Fetched | Notice]:
        """The messages at some addresses."""
        fields = read_fields(addresses)
        same = fields[[ERROR, TOPIC, PARTITION]]
        cuts = np.flatnonzero((same[:, 1:] != same[:, :-1]).any(axis=0)) + 1
        pieces: list[Fetched | Notice] = []
        for start, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(addresses)], strict=True):
            own = fields[:, start:end]
            error, topic, partition = own[[ERROR, TOPIC, PARTITION], 0].tolist()
            place = TopicPlace(self._name(topic), partition)
            if error:
                pieces += self._notices(place, addresses[start:end], own)
                continue
            values = copy_texts(own[VALUE], own[VALUE_LENGTH])
            keys = copy_texts(own[KEY], own[KEY_LENGTH])
            pieces.append(ColumnPiece(place, values, keys, own[OFFSET].copy()))
        return pieces

    def _notices(self, place: TopicPlace, addresses: Any, fields: Any) -> list[Notice]:
        """The things that the client says of a partition, or, under no name, of none."""
        said = []
        for at, address in enumerate(addresses.tolist()):
            number = ctypes.c_int32(int(fields[ERROR, at])).value
            name = self._library.rd_kafka_err2name(number).decode()
            text = (self._library.rd_kafka_message_errstr(address) or b"").decode(errors="replace")
            said.append(Notice(place, name, text, int(fields[OFFSET, at])))
        return said

    def _name(self, topic: int) -> str:
        """The name of a topic, by its handle."""
        if topic and topic not in self._names:
            self._names[topic] = self._library.rd_kafka_topic_name(topic).decode()
        return self._names.get(topic, "")


@cache
def load_library() -> Any:
    """librdkafka as Confluent's package has it.

    None where it has none that is found behind the package, or its messages lie in memory in another way.
    """
    if not IS_KNOWN_LAYOUT or not is_tuned():
        return None
    try:
        from confluent_kafka import cimpl

        library = ctypes.CDLL(cimpl.__file__)
        for name, (result, arguments) in _CALLS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (ImportError, OSError, AttributeError):
        return None
    return library if library.rd_kafka_version() >= _OLDEST else None
