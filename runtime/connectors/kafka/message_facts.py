"""Facts that a topic says of its messages beside key and value, by Flink's words for METADATA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

_TYPES: Final = ("NoTimestampType", "CreateTime", "LogAppendTime")
"""Words for the kinds of times, by the client's numbers."""


def _read_time(message: Any) -> int | None:
    """The milliseconds of a message's time; None where it has none."""
    kind, ms = message.timestamp()
    return int(ms) if kind else None


def _read_headers(message: Any) -> list[tuple[str, bytes | None]] | None:
    """The headers by name; of those of one name the last."""
    headers = message.headers()
    return None if headers is None else list(dict(headers).items())


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "topic": lambda message: message.topic(),
    "partition": lambda message: message.partition(),
    "offset": lambda message: message.offset(),
    "leader-epoch": lambda message: message.leader_epoch(),
    "timestamp": _read_time,
    "timestamp-type": lambda message: _TYPES[message.timestamp()[0]],
    "headers": _read_headers,
}


def read_facts(messages: Sequence[Any], name: str) -> list[Any]:
    """Return the facts of a name, one a message, by Flink's word; messages: as librdkafka's client gives them."""
    reader = _READERS[name]
    return [reader(message) for message in messages]


def locate_messages(messages: Sequence[Any]) -> Callable[[int], str]:
    """Return the function that says where the nth message lies."""

    def locate(at: int) -> str:
        message = messages[at]
        return (
            f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"
        )

    return locate
