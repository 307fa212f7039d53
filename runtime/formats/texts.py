"""Texts within one buffer of bytes, as brokers' clients and files have them; Python's where they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int64]  # int64[n]
Bytes = npt.NDArray[np.uint8]  # uint8[n]
BETWEEN = b"\n"
SPARE = 64
"""Bytes behind the last text, for kernels that look at several at once."""

MOST_BYTES = (1 << 31) - 1
"""Bytes of a buffer all of which one of Arrow's columns may hold."""


class Texts(Sequence[bytes | None]):
    """Texts in a row, each followed by the end of a line, and spare bytes behind them.

    buffer: uint8[n], with all of them. starts: int64[texts]. lengths: int64[texts], -1 of one that is not there.
    """

    def __init__(self, buffer: Bytes, starts: Words, lengths: Words) -> None:
        self.buffer, self.starts, self.lengths = buffer.view(), starts, lengths
        # Always, whoever made it: for kernels the two are different types, each of which is compiled.
        self.buffer.flags.writeable = False
        self._listed: list[bytes | None] | None = None

    @classmethod
    def pack(cls, buffer: Bytes, lengths: Words) -> Texts:
        """Texts that lie one behind the other from the first byte of a buffer on."""
        ends = np.cumsum(np.maximum(lengths, 0) + 1)
        return cls(buffer, np.concatenate([_FIRST, ends[:-1]])[: len(lengths)], lengths)

    @classmethod
    def copy(cls, texts: Sequence[bytes | None]) -> Texts:
        """Python's texts as one buffer."""
        lengths = np.fromiter((-1 if each is None else len(each) for each in texts), np.int64)
        joined = BETWEEN.join([*(each or b"" for each in texts), BETWEEN * SPARE])
        return cls.pack(np.frombuffer(joined, np.uint8), lengths)

    @classmethod
    def join(cls, parts: Sequence[Texts]) -> Texts:
        """The texts of several buffers, one behind the other."""
        if len(parts) == 1:
            return parts[0]
        spans = [part.span for part in parts]
        buffers = [part.buffer[first:end] for part, (first, end) in zip(parts, spans, strict=True)]
        offsets = np.cumsum([0, *map(len, buffers)])
        starts = [
            part.starts + (offset - first)
            for part, offset, (first, _) in zip(parts, offsets, spans, strict=False)
        ]
        buffer = np.concatenate([*buffers, np.full(SPARE, BETWEEN[0], np.uint8)])
        lengths = np.concatenate([_NONE, *(part.lengths for part in parts)])
        return cls(buffer, np.concatenate([_NONE, *starts]), lengths)

    @property
    def ends(self) -> Words:
        """The bytes behind each text; of one that is not there its start."""
        return self.starts + np.maximum(self.lengths, 0)

    @property
    def span(self) -> tuple[int, int]:
        """The first byte of the first text, and what is behind the end of the last one."""
        if not len(self):
            return 0, 0
        return int(self.starts[0]), int(self.starts[-1]) + max(int(self.lengths[-1]), 0) + 1

    @property
    def size(self) -> int:
        """The bytes from the first text to the last one."""
        first, end = self.span
        return end - first

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return Texts(self.buffer, self.starts[at], self.lengths[at])
        if self._listed is not None:
            return self._listed[at]
        start, length = int(self.starts[at]), int(self.lengths[at])
        return None if length < 0 else self.buffer[start : start + length].tobytes()

    def __iter__(self) -> Iterator[bytes | None]:
        return iter(self.text_list)

    @property
    def text_list(self) -> list[bytes | None]:
        """The texts as a list."""
        if self._listed is None:
            self._listed = self._cut()
        return self._listed

    def _cut(self) -> list[bytes | None]:
        """The texts one after the other."""
        first, end = self.span
        text = self.buffer[first:end].tobytes()
        if text.count(BETWEEN) == len(self) and (not len(self) or self.lengths.min() >= 0):
            # None has an end of a line in it, so that Python's own search finds all at once.
            texts: list[bytes | None] = text.split(BETWEEN)  # type: ignore[assignment]
            # Behind the last end of a line there is no text.
            texts.pop()
            return texts
        starts, lengths = (self.starts - first).tolist(), self.lengths.tolist()
        return [
            None if length < 0 else text[start : start + length]
            for start, length in zip(starts, lengths, strict=True)
        ]


_NONE = np.zeros(0, np.int64)
_FIRST = np.zeros(1, np.int64)
