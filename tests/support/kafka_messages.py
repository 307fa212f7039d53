"""Messages of Kafka as a decoder takes them."""

from __future__ import annotations

from typing import Any

from aggloom.runtime.formats.base import Message


def sent(key: Any, value: Any) -> Message:
    """A message as a broker has it."""
    told = [part.encode() if isinstance(part, str) else part for part in (value, key)]
    return Message(*told)
