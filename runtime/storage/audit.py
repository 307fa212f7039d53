"""Checks of a restored state before its first use.

A snapshot with a right checksum may still say anything: kernels index arrays without a check, follow links and probe
tables until they find something. So each component has a method `check_restored`, which looks at every offset, id and
length of its arrays once, in kernels that go over them in one pass. An Audit goes from component to component and
counts the references to strings of the pool, for the pool frees those that nothing refers to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from aggloom.errors import AggloomError, StateCorruptError
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.byte_kernels import hash_bytes
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import (
    FIRST_BYTES,
    FREE,
    HEAP_LIVE,
    HEAP_USED,
    HIGH,
    LIVE,
    ZEROS,
    Pool,
    PoolArrays,
)

_RAW = (
    *(ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, MemoryError),
    *(RecursionError, SyntaxError, ZeroDivisionError, AssertionError, pa.ArrowException),
)


@kernel
def hold_words(words: Array, references: Array) -> bool:
    """Count a reference to each id (`words`: int64[n]; `references`: int64[ids]); False if one is out of range."""
    for r in range(len(words)):
        i = words[r]
        if i < 0 or i >= len(references):
            return False
        references[i] += 1
    return True


@kernel
def check_stack(free: Array, count: int, marks: Array, first: int, last: int) -> bool:
    """Tell whether a stack names places from `first` to `last` that are unmarked, each once; marks them.

    free: int[n], of which the first `count` are the stack. marks: uint8[n] by place.
    """
    if count < 0 or count > len(free):
        return False
    for k in range(count):
        place = np.int64(free[k])
        if place < first or place > last or marks[place] != 0:
            return False
        marks[place] = 1
    return True


@kernel
def _check_ids(pool: PoolArrays) -> bool:
    """Tell whether offsets, lengths, hashes and counts are those of strings in the heap."""
    high, used, live = pool.meta[HIGH], pool.meta[HEAP_USED], pool.meta[LIVE]
    if high < 0 or high >= len(pool.offset) or live < 0 or pool.meta[FREE] != high - live:
        return False
    if used < 0 or used > len(pool.heap) or pool.offset[0] != 0 or pool.length[0] != 0:
        return False
    # Strings that share bytes could be longer together than the heap, and hashing them would not end in time.
    if pool.meta[HEAP_LIVE] > used:
        return False
    count, total = np.int64(0), np.int64(0)
    for i in range(1, high + 1):
        length, at = np.int64(pool.length[i]), pool.offset[i]
        if length == -1:
            continue
        if length < 0 or at < 0 or at > used - length or pool.refs[i] < 0:
            return False
        total += length
        if total > pool.meta[HEAP_LIVE] or pool.code[i] != hash_bytes(pool.heap, at, length):
            return False
        count += 1
    return count == live and total == pool.meta[HEAP_LIVE]


@kernel
def _check_lists(pool: PoolArrays, marks: Array) -> bool:
    """Tell whether free ids, and those without references, are listed once (`marks`: uint8[ids], zeros)."""
    high = pool.meta[HIGH]
    if pool.meta[ZEROS] < 0 or pool.meta[ZEROS] > high:
        return False
    for f in range(pool.meta[FREE]):
        i = np.int64(pool.free[f])
        if i < 1 or i > high or pool.length[i] != -1 or marks[i] != 0:
            return False
        marks[i] = 1
    for z in range(pool.meta[ZEROS]):
        i = np.int64(pool.zeros[z])
        if i < 1 or i > high or pool.length[i] < 0 or marks[i] != 0:
            return False
        marks[i] = 1
    for i in range(len(marks)):
        listed = 1 <= i <= high and marks[i] != 0 and pool.length[i] >= 0
        if (pool.listed[i] != 0) != listed:
            return False
    return True


@kernel
def _check_table(pool: PoolArrays, marks: Array) -> bool:
    """Tell whether each string is found by its hash, and every probe ends (`marks`: uint8[ids], zeros)."""
    cells, empty = len(pool.table), np.int64(-1)
    mask = cells - 1
    for at in range(cells):
        if pool.table[at] == 0:
            empty = np.int64(at)
            break
    if cells & mask != 0 or empty < 0:
        return False
    run, live = np.int64(0), np.int64(0)
    for step in range(1, cells):
        at = (empty + step) & mask
        i = np.int64(pool.table[at]) - 1
        if i == -1:
            run = np.int64(0)
            continue
        if i < 1 or i > pool.meta[HIGH] or pool.length[i] < 0 or marks[i] != 0:
            return False
        # No cell between a string's home and its place is empty.
        if ((at - pool.code[i]) & mask) > run:
            return False
        marks[i] = 1
        run += 1
        live += 1
    return live == pool.meta[LIVE]


class Audit:
    """The checks of one arena, and the references to its pool that they have met.

    references: int64[ids], how many there are by id of the pool. typed: by type of a column, uint8[ids], 1 for the ids
    that stand for its values. Raises StateCorruptError if the pool itself is not right.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.typed: dict[pa.DataType, Array] = {}
        self.references = np.zeros(len(pool.arrays.offset), np.int64)
        self._check_pool()

    def require(self, is_right: bool, name: str, what: str) -> None:
        """Raise StateCorruptError, which names the component and what is wrong, unless something is right."""
        if not is_right:
            raise corrupt_snapshot(f"{name}: {what}")

    def require_length(self, length: int, name: str, *arrays: Array) -> None:
        """Raise StateCorruptError unless arrays have so many rows."""
        self.require(
            all(len(array) == length for array in arrays), name, "its arrays differ in length"
        )

    def hold(self, name: str, words: Array) -> None:
        """Count references of a component to the pool (`words`: int64[n])."""
        self.require(
            hold_words(words, self.references), name, "a string that the pool does not have"
        )

    def note_type(self, dtype: pa.DataType, ids: Array) -> None:
        """Note that ids (int64[n]), which are the pool's, stand for values of a type."""
        self.typed.setdefault(dtype, np.zeros(len(self.references), np.uint8))[ids] = 1

    def _check_pool(self) -> None:
        p = self.pool.arrays
        ids = len(p.offset)
        self.require_length(ids, "pool", p.length, p.code, p.refs)
        self.require_length(ids, "pool", p.listed, p.free, p.zeros)
        self.require_length(8, "pool", p.meta)
        right = ids > 0 and len(p.heap) >= FIRST_BYTES and _check_ids(p)
        self.require(right, "pool", "a string lies outside of its bytes")
        right = _check_lists(p, np.zeros(ids, np.uint8))
        self.require(right, "pool", "free strings are not listed once")
        right = _check_table(p, np.zeros(ids, np.uint8))
        self.require(right, "pool", "its table does not lead to its strings")

    def finish(self) -> None:
        """Raise StateCorruptError if something refers to a string that is free, or will be while it is in use."""
        pool = self.pool.arrays
        used = np.flatnonzero(self.references[1:]) + 1
        known = (pool.length[used] >= 0) & (self.references[used] <= pool.refs[used])
        self.require(bool(known.all()), "pool", "a string is referred to more often than it says")


@contextmanager
def reading_snapshot(name: str = "snapshot", *more: type[Exception]) -> Iterator[None]:
    """Raise StateCorruptError for what Python raises over parts of a snapshot that are not what they should be.

    name: what is read, if it is another part of the state. more: other exceptions that its reader raises.
    """
    try:
        yield
    except AggloomError:
        raise
    except (*_RAW, *more) as error:
        raise corrupt_snapshot(f"{type(error).__name__}: {error}", name) from error


def corrupt_snapshot(what: str, name: str = "snapshot") -> StateCorruptError:
    """The error for a snapshot, or another part of the state, whose parts do not fit each other."""
    return StateCorruptError(
        f"state {name} cannot be used: {what}. Restart from an older checkpoint or replay the source."
    )
