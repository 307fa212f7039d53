"""The key index: key columns (as words, with a mask of nulls) -> slot. Slots of deleted keys are reused."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.arena import Arena, Array, airy
from aggloom.runtime.hashing import combine, table_size
from aggloom.runtime.jit import kernel
from aggloom.runtime.pool import Pool, PoolArrays, hold, release
from aggloom.runtime.slot_state import FIRST_SLOTS

HIGH, FREE, LIVE = range(3)


class IndexArrays(NamedTuple):
    """`table` by hash; by slot the key `words` (slot, column), `nulls` (bit mask), `used`; `free` slots as a stack."""

    table: Array
    words: Array
    nulls: Array
    used: Array
    free: Array
    meta: Array


@kernel
def _hash(words: Array, r: int, mask: int) -> int:
    h = np.int64(mask)
    for c in range(words.shape[1]):
        h = combine(h, words[r, c])
    return h


@kernel
def _lookup(
    index: IndexArrays,
    pool: PoolArrays,
    pooled: Array,
    words: Array,
    nulls: Array,
    slots: Array,
    start: int,
    stop: int,
) -> None:
    cells = len(index.table) - 1
    width = words.shape[1]
    for r in range(start, stop):
        at = _hash(words, r, np.int64(nulls[r])) & cells
        slot = np.int64(-1)
        while index.table[at] != 0:
            s = np.int64(index.table[at] - 1)
            same = index.nulls[s] == nulls[r]
            for c in range(width):
                same = same and index.words[s, c] == words[r, c]
            if same:
                slot = s
                break
            at = (at + 1) & cells
        if slot < 0:
            if index.meta[FREE] > 0:
                index.meta[FREE] -= 1
                slot = np.int64(index.free[index.meta[FREE]])
            else:
                slot = index.meta[HIGH]
                index.meta[HIGH] += 1
            index.table[at] = slot + 1
            index.nulls[slot] = nulls[r]
            index.used[slot] = 1
            index.meta[LIVE] += 1
            for c in range(width):
                index.words[slot, c] = words[r, c]
                if pooled[c]:
                    hold(pool, words[r, c])
        slots[r] = slot


@kernel
def _find(index: IndexArrays, words: Array, nulls: Array, slots: Array) -> None:
    cells = len(index.table) - 1
    for r in range(len(slots)):
        at = _hash(words, r, np.int64(nulls[r])) & cells
        slots[r] = -1
        while index.table[at] != 0:
            s = np.int64(index.table[at] - 1)
            same = index.nulls[s] == nulls[r]
            for c in range(words.shape[1]):
                same = same and index.words[s, c] == words[r, c]
            if same:
                slots[r] = s
                break
            at = (at + 1) & cells


@kernel
def _remove(index: IndexArrays, pool: PoolArrays, pooled: Array, slots: Array) -> None:
    cells = len(index.table) - 1
    for r in range(len(slots)):
        s = slots[r]
        at = _hash(index.words, s, np.int64(index.nulls[s])) & cells
        while index.table[at] != s + 1:
            at = (at + 1) & cells
        hole = at
        while True:
            at = (at + 1) & cells
            if index.table[at] == 0:
                break
            t = index.table[at] - 1
            home = _hash(index.words, t, np.int64(index.nulls[t])) & cells
            if ((at - home) & cells) >= ((at - hole) & cells):
                index.table[hole] = index.table[at]
                hole = at
        index.table[hole] = 0
        for c in range(index.words.shape[1]):
            if pooled[c]:
                release(pool, index.words[s, c])
            index.words[s, c] = 0
        index.nulls[s] = 0
        index.used[s] = 0
        index.free[index.meta[FREE]] = s
        index.meta[FREE] += 1
        index.meta[LIVE] -= 1


@kernel
def _rehash(index: IndexArrays) -> None:
    cells = len(index.table) - 1
    for s in range(index.meta[HIGH]):
        if index.used[s]:
            at = _hash(index.words, s, np.int64(index.nulls[s])) & cells
            while index.table[at] != 0:
                at = (at + 1) & cells
            index.table[at] = s + 1


class KeyIndex:
    """Key rows to slots, for keys of `len(pooled)` columns; `pooled[c]`: column c holds ids of the pool.

    name: what its arrays in the arena are called by.
    """

    def __init__(self, arena: Arena, pool: Pool, pooled: list[bool], name: str = "index") -> None:
        self.arena, self.pool, self.name = arena, pool, name
        self.pooled = np.array(pooled, np.bool_)
        width = len(pooled)
        self.mask_type = "u1" if width <= 8 else "u8"
        arena.array(f"{name}.table", table_size(FIRST_SLOTS), "i4")
        arena.array(f"{name}.words", FIRST_SLOTS, "i8", max(width, 1))
        arena.array(f"{name}.nulls", FIRST_SLOTS, self.mask_type)
        arena.array(f"{name}.used", FIRST_SLOTS, "u1")
        arena.array(f"{name}.free", FIRST_SLOTS, "i4")
        arena.array(f"{name}.meta", 4, "i8")
        self._reload()

    @property
    def capacity(self) -> int:
        return len(self.arrays.used)

    @property
    def is_airy(self) -> bool:
        return airy(len(self), int(self.arrays.meta[HIGH]))

    def __len__(self) -> int:
        return int(self.arrays.meta[LIVE])

    def lookup(self, words: Array, nulls: Array) -> Array:
        """The slot of each key row (`words`: rows x columns, `nulls`: bit mask a row); new keys get one."""
        n = len(nulls)
        slots = np.empty(n, np.int64)
        for start in range(0, n, 65536):
            stop = min(n, start + 65536)
            self.reserve(stop - start)
            _lookup(self.arrays, self.pool.arrays, self.pooled, words, nulls, slots, start, stop)
        return slots

    def find(self, words: Array, nulls: Array) -> Array:
        """The slot of each key row, -1 for keys that are not there."""
        slots = np.empty(len(nulls), np.int64)
        _find(self.arrays, words, nulls, slots)
        return slots

    def remove(self, slots: Array) -> None:
        """Forget the keys of `slots`; the slots become free."""
        _remove(self.arrays, self.pool.arrays, self.pooled, slots)

    def used_slots(self) -> Array:
        return np.flatnonzero(self.arrays.used).astype(np.int64)

    def reset(self) -> None:
        """Give the memory back; only when no key is left."""
        for part in ("words", "nulls", "used", "free"):
            self.arena.replace(f"{self.name}.{part}", FIRST_SLOTS)
        self.arena.replace(f"{self.name}.table", table_size(FIRST_SLOTS))
        self.arrays.meta[:] = 0
        self._reload()

    def _reload(self) -> None:
        width = len(self.pooled)
        a = {n: self.arena.array(f"{self.name}.{n}", 0, "i4") for n in IndexArrays._fields}
        a["words"] = a["words"][:, :width]
        self.arrays = IndexArrays(**a)

    def reserve(self, keys: int) -> None:
        """Room for `keys` more keys."""
        a = self.arrays
        need = int(a.meta[HIGH]) + keys - int(a.meta[FREE])
        if need > len(a.used):
            rows = max(need, 2 * len(a.used))
            for part in ("words", "nulls", "used", "free"):
                self.arena.resize(f"{self.name}.{part}", rows)
            self._reload()
        if table_size(int(a.meta[LIVE]) + keys) > len(a.table):
            self.arena.replace(f"{self.name}.table", table_size(2 * (int(a.meta[LIVE]) + keys)))
            self._reload()
            _rehash(self.arrays)
