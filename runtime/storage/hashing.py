"""Hashes of 64-bit words, and the open-addressing table that every index here is made of.

A table holds `index + 1` in int32 cells (0 = empty), probes linearly and deletes by shifting back, so there
are no tombstones and its content depends only on what is in it and the order of insertion.
"""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.jit import kernel


@kernel
def mix(word: int) -> int:
    """A 64-bit finaliser: every input bit reaches every output bit."""
    h = np.uint64(word)
    # Multiplying carries bits upwards alone: the shifts between bring them down.
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    h ^= h >> np.uint64(32)
    return np.int64(h)


@kernel
def combine(h: int, word: int) -> int:
    """The hash of a sequence, one word further."""
    # 31 is odd, so that the multiplication loses no bit, and it makes the order of the words count.
    return mix(np.int64(np.uint64(h) * np.uint64(31)) ^ word)


def table_size(entries: int) -> int:
    """Cells for a table of `entries`: a power of two, at most three quarters full."""
    size = 16
    while size * 3 < entries * 4:
        size *= 2
    return size
