"""Checksums of what lies in files that others can write: of texts all of it, of large arrays a sample."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PAGE = 4096
SAMPLES = 64
"""The number of pages of an array that are checked, evenly spread over it; one that has no more is checked whole."""


def with_checksum(text: str) -> str:
    """A line of text behind its checksum."""
    return f"{zlib.crc32(text.encode()):08x} {text}\n"


def without_checksum(line: bytes) -> str:
    """The text of such a line; raises ValueError if it is another."""
    checksum, _, text = line.rstrip(b"\n").partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        raise ValueError("its checksum does not match")
    return text.decode()


def checksum_of(array: NDArray[Any]) -> int:
    """The checksum of an array's bytes (any[n]), or of some of its pages: the first, the last, and others between."""
    data = array.reshape(-1).view(np.uint8)
    pages = len(data) // PAGE
    if pages <= SAMPLES:
        return zlib.crc32(data.data)
    chosen = np.linspace(0, pages - 1, SAMPLES).astype(np.int64)
    checksum = zlib.crc32(data[pages * PAGE :].data)
    return zlib.crc32(data[: pages * PAGE].reshape(pages, PAGE)[chosen].data, checksum)


def write_anew(path: Path, data: bytes) -> None:
    """Write a file that nobody trusts yet; what had its name is deleted first.

    A file that is cut to nothing, or renamed over another, is written through to the disk at once by ext4, which takes
    five times as long.
    """
    path.unlink(missing_ok=True)
    path.write_bytes(data)
