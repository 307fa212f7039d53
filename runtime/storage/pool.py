"""The pool: every distinct byte string of an arena once, so that a string is a 64-bit word elsewhere.

Ids are reference counted by what stores them (keys, accumulators, views). An id whose count is zero lives on
until `sweep`, at the end of a bundle, so that values emitted in the bundle can still be read. Id 0 is "none".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.storage.arena import Arena, Array, ByteArray, FlagArray, WordArray, airy
from aggloom.runtime.storage.byte_kernels import hash_bytes, same_bytes
from aggloom.runtime.storage.hashing import table_size
from aggloom.runtime.storage.jit import kernel

HIGH, FREE, HEAP_USED, HEAP_LIVE, ZEROS, LIVE = range(6)
_FIRST_IDS, FIRST_BYTES = 16, 256
_BLOCK = 64
"""Rows that are looked up together."""


class PoolArrays(NamedTuple):
    """`table` by hash; by id `offset`, `length`, `code` (hash), `refs`, `listed`, `free`, `zeros`; `heap` bytes."""

    table: Array  # int32[cells]
    offset: Array  # int64[ids]
    length: Array  # int32[ids]
    code: Array  # int64[ids]
    refs: Array  # int32[ids]
    listed: Array  # uint8[ids]
    free: Array  # int32[ids]
    zeros: Array  # int32[ids]
    heap: Array  # uint8[bytes]
    meta: Array  # int64[8]


@kernel
def _same(pool: PoolArrays, i: int, data: Array, start: int, length: int) -> bool:
    if pool.length[i] != length:
        return False
    return same_bytes(pool.heap, pool.offset[i], data, start, length)


@kernel
def _list_zero(pool: PoolArrays, i: int) -> None:
    # Once each, since the list has as many places as there are ids.
    if not pool.listed[i]:
        pool.listed[i] = 1
        pool.zeros[pool.meta[ZEROS]] = i
        pool.meta[ZEROS] += 1


@kernel
def _intern(pool: PoolArrays, data: Array, start: int, length: int, code: int) -> int:
    """The id of the bytes `data[start:start+length]` of a hash; a new id starts unreferenced. Capacity was reserved."""
    mask = len(pool.table) - 1
    at = code & mask
    while pool.table[at] != 0:
        i = pool.table[at] - 1
        # All 64 bits of the hash first: bytes are compared once, where they are nearly certain to be the same.
        if pool.code[i] == code and _same(pool, i, data, start, length):
            return i
        at = (at + 1) & mask
    if pool.meta[FREE] > 0:
        pool.meta[FREE] -= 1
        i = np.int64(pool.free[pool.meta[FREE]])
    else:
        pool.meta[HIGH] += 1
        i = pool.meta[HIGH]
    pool.table[at] = i + 1
    pool.code[i] = code
    pool.length[i] = length
    to = pool.meta[HEAP_USED]
    pool.offset[i] = to
    for j in range(length):
        pool.heap[to + j] = data[start + j]
    pool.meta[HEAP_USED] += length
    pool.meta[HEAP_LIVE] += length
    pool.meta[LIVE] += 1
    pool.refs[i] = 0
    # Nobody refers to it yet. Unless somebody does by the end of the bundle, the sweep takes it.
    _list_zero(pool, i)
    return i


@kernel
def hold(pool: PoolArrays, i: int) -> None:
    """One more reference to id `i`."""
    if i != 0:
        pool.refs[i] += 1


@kernel
def release(pool: PoolArrays, i: int) -> None:
    """One reference less to id `i`; without any it goes at the next sweep."""
    if i != 0:
        pool.refs[i] -= 1
        if pool.refs[i] == 0:
            _list_zero(pool, i)


@kernel
def compare_bytes(pool: PoolArrays, a: int, b: int) -> int:
    """-1, 0, 1 as the bytes of id `a` sort before, with or after those of id `b` (unsigned, as in UTF-8 order)."""
    if a == b:
        return 0
    at, bt = pool.offset[a], pool.offset[b]
    for j in range(min(pool.length[a], pool.length[b])):
        x, y = pool.heap[at + j], pool.heap[bt + j]
        if x != y:
            return -1 if x < y else 1
    if pool.length[a] == pool.length[b]:
        return 0
    return -1 if pool.length[a] < pool.length[b] else 1


@kernel
def import_word(pool: PoolArrays, other: PoolArrays, i: int) -> int:
    """The id here of what is id `i` in another pool."""
    if i == 0:
        return 0
    # The hash is taken over: it depends on the bytes alone.
    return _intern(pool, other.heap, other.offset[i], other.length[i], other.code[i])


@kernel
def _import_all(pool: PoolArrays, other: PoolArrays, ids: Array, out: Array) -> None:
    for r in range(len(ids)):
        out[r] = import_word(pool, other, ids[r])


@kernel
def _intern_all(
    pool: PoolArrays, data: Array, offsets: Array, valid: Array, out: Array, start: int, stop: int
) -> int:
    """Intern rows in blocks: what a block's hashes lead to in memory is read before the first of them is looked up.

    These reads do not wait for one another, which look-ups in turn do: in a large pool that is five sixths of the time.
    The result is nothing but a reason to read.
    """
    mask, read = len(pool.table) - 1, np.int64(0)
    for first in range(start, stop, _BLOCK):
        last = min(first + _BLOCK, stop)
        for r in range(first, last):
            out[r] = hash_bytes(data, offsets[r], offsets[r + 1] - offsets[r])
        for r in range(first, last):
            read ^= pool.table[out[r] & mask]
        for r in range(first, last):
            read ^= pool.code[max(pool.table[out[r] & mask] - 1, 0)]
        for r in range(first, last):
            length = offsets[r + 1] - offsets[r]
            out[r] = _intern(pool, data, offsets[r], length, out[r]) if valid[r] else 0
    return read


@kernel
def _rehash(pool: PoolArrays) -> None:
    """Fill an emptied table from the ids in use (`length` is -1 for free ids)."""
    mask = len(pool.table) - 1
    for i in range(1, pool.meta[HIGH] + 1):
        if pool.length[i] >= 0:
            at = pool.code[i] & mask
            while pool.table[at] != 0:
                at = (at + 1) & mask
            pool.table[at] = i + 1


@kernel
def _sweep(pool: PoolArrays) -> None:
    mask = len(pool.table) - 1
    for z in range(pool.meta[ZEROS]):
        i = pool.zeros[z]
        pool.listed[i] = 0
        # Somebody has referred to it again since it was listed.
        if pool.refs[i] != 0:
            continue
        at = pool.code[i] & mask
        while pool.table[at] != i + 1:
            at = (at + 1) & mask
        hole = at
        while True:
            at = (at + 1) & mask
            if pool.table[at] == 0:
                break
            home = pool.code[pool.table[at] - 1] & mask
            # As in close_gap: a cell moves up to the hole if its home is not behind the hole.
            if ((at - home) & mask) >= ((at - hole) & mask):
                pool.table[hole] = pool.table[at]
                hole = at
        pool.table[hole] = 0
        pool.meta[HEAP_LIVE] -= pool.length[i]
        pool.meta[LIVE] -= 1
        # By this _rehash and _compact know a free id.
        pool.length[i] = -1
        pool.free[pool.meta[FREE]] = i
        pool.meta[FREE] += 1
    pool.meta[ZEROS] = 0


@kernel
def _compact(pool: PoolArrays, heap: Array) -> None:
    used = np.int64(0)
    for i in range(1, pool.meta[HIGH] + 1):
        length = pool.length[i]
        if length >= 0:
            at = pool.offset[i]
            for j in range(length):
                heap[used + j] = pool.heap[at + j]
            # Ids stay as they are, so that nothing that names them has to change.
            pool.offset[i] = used
            used += length
    pool.meta[HEAP_USED] = used


@kernel
def _gather_lengths(pool: PoolArrays, ids: Array, valid: Array, offsets: Array) -> None:
    total = np.int64(0)
    for r in range(len(ids)):
        offsets[r] = total
        if valid[r]:
            total += pool.length[ids[r]]
    offsets[len(ids)] = total


@kernel
def _gather_bytes(pool: PoolArrays, ids: Array, valid: Array, offsets: Array, out: Array) -> None:
    for r in range(len(ids)):
        if valid[r]:
            at = pool.offset[ids[r]]
            for j in range(pool.length[ids[r]]):
                out[offsets[r] + j] = pool.heap[at + j]


class Pool:
    """The pool's arrays in an arena, with what grows and shrinks them."""

    _BY_ID = (
        ("offset", "i8"),
        ("length", "i4"),
        ("code", "i8"),
        ("refs", "i4"),
        ("listed", "u1"),
        ("free", "i4"),
        ("zeros", "i4"),
    )

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        a = {name: arena.array(f"pool.{name}", _FIRST_IDS, dtype) for name, dtype in self._BY_ID}
        self.arrays = PoolArrays(
            table=arena.array("pool.table", table_size(_FIRST_IDS), "i4"),
            heap=arena.array("pool.heap", FIRST_BYTES, "u1"),
            meta=arena.array("pool.meta", 8, "i8"),
            **a,
        )

    def reserve(self, ids: int, size: int) -> None:
        """Room for `ids` more strings of `size` bytes in all."""
        p = self.arrays
        need = int(p.meta[HIGH]) + 1 + ids
        if need > len(p.offset):
            # Doubled: all copies together cost no more than twice what is there in the end.
            rows = max(need, 2 * len(p.offset))
            grown = {n: self.arena.resize(f"pool.{n}", rows) for n, _ in self._BY_ID}
            self.arrays = p = p._replace(**grown)
        if table_size(int(p.meta[LIVE]) + ids) > len(p.table):
            cells = table_size(2 * (int(p.meta[LIVE]) + ids))
            self.arrays = p = p._replace(table=self.arena.replace("pool.table", cells))
            _rehash(p)
        if int(p.meta[HEAP_USED]) + size > len(p.heap):
            rows = max(int(p.meta[HEAP_USED]) + size, 2 * len(p.heap))
            self.arrays = p._replace(heap=self.arena.resize("pool.heap", rows))

    @property
    def is_airy(self) -> bool:
        return airy(int(self.arrays.meta[LIVE]), int(self.arrays.meta[HIGH]))

    def reserve_import(self, other: Pool) -> None:
        """Room for all strings of another pool."""
        self.reserve(int(other.arrays.meta[LIVE]), int(other.arrays.meta[HEAP_LIVE]))

    def intern_column(self, data: ByteArray, offsets: Array, valid: FlagArray) -> Array:
        """Store a column of strings; return their ids, 0 for nulls. offsets (int32[n + 1]): their ends in `data`."""
        n = len(valid)
        out = np.zeros(n, np.int64)
        # In parts, for room is reserved as if every string were new: most of a long column are known after its first
        # part.
        for start in range(0, n, 65536):
            stop = min(n, start + 65536)
            self.reserve(stop - start, int(offsets[stop] - offsets[start]))
            _intern_all(self.arrays, data, offsets, valid, out, start, stop=stop)
        return out

    def import_ids(self, other: Pool, ids: WordArray) -> Array:
        """The ids here of strings of another pool; room was reserved."""
        out = np.empty(len(ids), np.int64)
        _import_all(self.arrays, other.arrays, ids, out)
        return out

    def gather(self, ids: WordArray, valid: FlagArray) -> tuple[Array, Array]:
        """(offsets, bytes) of the strings behind `ids`; nothing for those that are not valid."""
        offsets = np.zeros(len(ids) + 1, np.int64)
        _gather_lengths(self.arrays, ids, valid, offsets)
        out = np.empty(int(offsets[-1]), np.uint8)
        _gather_bytes(self.arrays, ids, valid, offsets, out)
        return offsets, out

    def sweep(self) -> None:
        """Free what nothing refers to, and give its bytes back when they outweigh what lives."""
        if int(self.arrays.meta[ZEROS]):
            _sweep(self.arrays)
        p = self.arrays
        live = int(p.meta[HEAP_LIVE])
        # Once more bytes are dead than alive: copying those that live costs less than what was written since.
        if len(p.heap) > max(FIRST_BYTES, 4 * live) or int(p.meta[HEAP_USED]) > max(
            FIRST_BYTES, 2 * live
        ):
            heap = self.arena.replace("pool.heap", max(FIRST_BYTES, 2 * live))
            _compact(p, heap)
            self.arrays = p._replace(heap=heap)
        if int(self.arrays.meta[LIVE]) == 0 and len(self.arrays.offset) > _FIRST_IDS:
            self.arrays.meta[:] = 0
            fresh = {n: self.arena.replace(f"pool.{n}", _FIRST_IDS) for n, _ in self._BY_ID}
            table = self.arena.replace("pool.table", table_size(_FIRST_IDS))
            self.arrays = self.arrays._replace(table=table, **fresh)
