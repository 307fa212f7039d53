"""Strings of bytes in arrays: hashed, compared and copied, several bytes at a time."""

from __future__ import annotations

from typing import Final

import numpy as np

from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.hashing import mix
from aggloom.runtime.storage.jit import kernel

SPARE: Final = 16
"""Bytes that an array has behind its strings, for `copy_string` reads and writes that far."""


@kernel
def load_word(data: Array, start: int) -> int:
    """Eight bytes as a number; one load, once it is compiled."""
    word = np.uint64(0)
    for j in range(8):
        word |= np.uint64(data[start + j]) << np.uint64(8 * j)
    return np.int64(word)


@kernel
def hash_bytes(data: Array, start: int, length: int) -> int:
    """The hash of `data[start:start+length]` (data: uint8[n]), which depends on these bytes alone."""
    h = np.uint64(length)
    i = 0
    while i + 8 <= length:
        # One multiplication a word, and all bits mixed once in the end: a third of the time of mixing each word.
        h = (h ^ np.uint64(load_word(data, start + i))) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(32)
        i += 8
    word = np.uint64(0)
    for j in range(length - i):
        word |= np.uint64(data[start + i + j]) << np.uint64(8 * j)
    return mix(np.int64(h ^ word))


@kernel
def same_bytes(data: Array, start: int, other: Array, at: int, length: int) -> bool:
    """Tell whether so many bytes of two arrays (uint8[n]) are the same, from these places on."""
    done = 0
    while done + 8 <= length:
        if load_word(data, start + done) != load_word(other, at + done):
            return False
        done += 8
    # A loop, for a generator does not compile without reference counting.
    for j in range(done, length):  # noqa: SIM110
        if data[start + j] != other[at + j]:
            return False
    return True


@kernel
def _store_word(word: int, target: Array, at: int) -> None:
    """Write a number as eight bytes; one store, once it is compiled."""
    for j in range(8):
        target[at + j] = np.uint8(np.uint64(word) >> np.uint64(8 * j) & np.uint64(0xFF))


@kernel
def copy_string(source: Array, start: int, target: Array, at: int, length: int) -> None:
    """Copy so many bytes to another array (uint8[n]), and up to `SPARE` - 1 bytes that follow them.

    Strings are copied in the order in which they lie in the target: what is written behind one is the place of the
    next. Without an end that is byte by byte most strings take half the time.
    """
    for done in range(0, length, SPARE):
        first, second = load_word(source, start + done), load_word(source, start + done + 8)
        _store_word(first, target, at + done)
        _store_word(second, target, at + done + 8)
