"""Messages as librdkafka has them in memory: their fields as columns, their texts copied together by one kernel."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aggloom.runtime.storage.jit import kernel

Words = npt.NDArray[np.int64]  # int64[n]
Bytes = npt.NDArray[np.uint8]  # uint8[n]
IS_KNOWN_LAYOUT = sys.maxsize > 1 << 32 and sys.byteorder == "little"
"""True where a message lies in memory as `read_fields` has it."""
WORDS = 9
"""The 64-bit words of librdkafka's `rd_kafka_message_t`: its ABI, which stays as it is."""
ERROR, TOPIC, PARTITION, VALUE, VALUE_LENGTH, KEY, KEY_LENGTH, OFFSET = range(8)
"""The words of a message: error and partition are 32 bits, topic, value and key are addresses."""
_LOW_BITS = (1 << 32) - 1
_BETWEEN = b"\n"


class _Memory:
    """Memory that belongs to the client, as NumPy takes it."""

    def __init__(self, address: int, length: int, kind: str) -> None:
        self.__array_interface__ = {
            "data": (address, True),
            "shape": (length,),
            "typestr": kind,
            "version": 3,
        }


def read_fields(addresses: Words) -> Words:
    """The words of the messages at some addresses, int64[words, messages]."""
    low = int(addresses.min())
    span = (int(addresses.max()) - low) // 8 + WORDS
    memory = np.asarray(_Memory(low, span, "<i8"))
    fields = np.array([memory[((addresses - low) >> 3) + word] for word in range(WORDS - 1)])
    fields[ERROR] &= _LOW_BITS
    fields[PARTITION] &= _LOW_BITS
    return fields


class Texts(Sequence[bytes | None]):
    """Texts in a row, each followed by the end of a line; made into Python's where they are asked for.

    lengths: int64[texts], -1 of one that is not there.
    """

    def __init__(self, joined: Bytes, lengths: Words) -> None:
        self._joined, self._lengths = joined, lengths
        self._listed: list[bytes | None] | None = None

    def __len__(self) -> int:
        return len(self._lengths)

    def __getitem__(self, at: Any) -> Any:
        return self.text_list[at]

    @property
    def text_list(self) -> list[bytes | None]:
        """The texts as a list."""
        if self._listed is None:
            self._listed = self._cut()
        return self._listed

    def _cut(self) -> list[bytes | None]:
        """The texts one after the other."""
        text = self._joined.tobytes()
        if text.count(_BETWEEN) == len(self) and (not len(self) or self._lengths.min() >= 0):
            # None has an end of a line in it, so that Python's own search finds all at once.
            found: list[bytes | None] = text.split(_BETWEEN)  # type: ignore[assignment]
            found.pop()
            return found
        ends = np.cumsum(np.maximum(self._lengths, 0) + 1).tolist()
        return [
            None if length < 0 else text[end - 1 - length : end - 1]
            for length, end in zip(self._lengths.tolist(), ends, strict=True)
        ]


def copy_texts(addresses: Words, lengths: Words) -> Texts:
    """The texts at some addresses, of these lengths; one at address 0 is not there."""
    present = addresses != 0
    own_lengths = np.where(present, lengths, -1)
    sizes = np.maximum(own_lengths, 0)
    joined = np.empty(int(sizes.sum()) + len(addresses), np.uint8)
    if not present.any():
        joined[:] = ord(_BETWEEN)
        return Texts(joined, own_lengths)
    low = int(addresses[present].min())
    high = int((addresses + sizes)[present].max())
    memory = np.asarray(_Memory(low, max(high - low, 1), "|u1"))
    _copy(memory, np.where(present, addresses - low, 0), sizes, joined)
    return Texts(joined, own_lengths)


@kernel
def _copy(memory: Bytes, starts: Words, sizes: Words, joined: Bytes) -> None:
    """Copy texts of a memory together, an end of a line after each."""
    at = 0
    for number in range(len(starts)):
        start = starts[number]
        for place in range(sizes[number]):
            joined[at + place] = memory[start + place]
        at += sizes[number]
        joined[at] = 10
        at += 1
