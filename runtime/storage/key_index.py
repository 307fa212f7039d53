"""The key index: key columns (as words, with a mask of nulls) -> slot. Slots of deleted keys are reused.

Rows are looked up in blocks, each step for the whole block: the loads of a step do not wait for one another, which is
what a large table's lookup takes its time for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.storage.arena import (
    FIRST_SLOTS,
    Arena,
    Array,
    KeyArray,
    NullArray,
    SlotArray,
    airy,
)
from aggloom.runtime.storage.cells import (
    SLOT_BITS,
    around,
    cells_for,
    close_gap,
    entries_in,
    home,
    is_other,
    rehash,
    slot_in,
)
from aggloom.runtime.storage.hashing import combine
from aggloom.runtime.storage.jit import cold_kernel, kernel
from aggloom.runtime.storage.pool import Pool, PoolArrays, hold, release

HIGH, FREE, LIVE = range(3)
_BLOCK = 1024


class IndexArrays(NamedTuple):
    """`table` by hash; by slot the key `words` (slot, column), `nulls` (bit mask), `used`.

    A free slot's first word is the next free one + 1; `meta[FREE]` starts the list (0: none is free).
    """

    table: Array  # int64[cells]
    words: Array  # int64[slots, columns]
    nulls: Array  # uint8[slots] or uint64[slots]
    used: Array  # uint8[slots]
    meta: Array  # int64[4]


class Scratch(NamedTuple):
    """Room for a block of rows: their hashes, and the numbers of those whose slots are not known yet."""

    hashes: Array  # int64[rows]
    open: Array  # int64[rows]


@kernel
def hash_key(words: Array, r: int, mask: int, width: int) -> int:
    h = np.int64(mask)
    for c in range(width):
        h = combine(h, words[r, c])
    return h


@kernel
def _same(index: IndexArrays, s: int, words: Array, nulls: Array, r: int) -> bool:
    """Tell whether slot s holds the key of row r."""
    same = index.nulls[s] == nulls[r]
    for c in range(words.shape[1]):
        same = same and index.words[s, c] == words[r, c]
    return same


@kernel
def _search(index: IndexArrays, words: Array, nulls: Array, slots: Array, scratch: Scratch) -> int:
    """Write the slots of the known keys of a block; return the number of open rows, which are listed in `scratch.open`.

    A row is open if its key is new, or lies behind the cell of another key with the same upper half of the hash.
    """
    hashes, left, cells = scratch.hashes, scratch.open, len(index.table)
    for j in range(len(slots)):
        # The mask of nulls is the seed: the word of a NULL is 0, which is also the word of a value.
        hashes[j] = nulls[j]
    for c in range(words.shape[1]):
        for j in range(len(slots)):
            hashes[j] = combine(hashes[j], words[j, c])
    for j in range(len(slots)):
        slots[j] = index.table[home(hashes[j], cells)]
    more, step = np.int64(0), 0
    for j in range(len(slots)):
        # Written for every row and counted for those that are open: there is no branch to mispredict. `more` is never
        # ahead of `j`.
        left[more] = j
        more += is_other(slots[j], hashes[j])
    # It ends: a third of the cells is empty, and a row that has come to an empty cell is not listed again.
    while more > 0:
        count, more, step = more, np.int64(0), step + 1
        for k in range(count):
            j = left[k]
            slots[j] = index.table[around(home(hashes[j], cells) + step, cells)]
        for k in range(count):
            j = left[k]
            left[more] = j
            more += is_other(slots[j], hashes[j])
    for j in range(len(slots)):
        # An empty cell names no slot. Any slot does for it, since its row is listed as open and is asked again.
        s = max(slot_in(slots[j]), 0)
        same = slots[j] != 0 and _same(index, s, words, nulls, j)
        slots[j] = s
        left[more] = j
        more += not same
    return more


@cold_kernel
def _find_cell(index: IndexArrays, words: Array, nulls: Array, r: int, h: int) -> tuple[int, int]:
    """(slot of row r's key or -1, cell where it is or belongs)."""
    cells = len(index.table)
    at = home(h, cells)
    while index.table[at] != 0:
        cell = index.table[at]
        # Halves of hashes first: the cell is at hand, and the key lies elsewhere in memory.
        if not is_other(cell, h) and _same(index, slot_in(cell), words, nulls, r):
            return slot_in(cell), at
        at = around(at + 1, cells)
    # The empty cell comes with the answer, so that a new key is entered without a second search.
    return np.int64(-1), at


@kernel
def _enter(
    index: IndexArrays,
    pool: PoolArrays,
    pooled: Array,
    words: Array,
    nulls: Array,
    r: int,
    cell: int,
    h: int,
) -> int:
    """Enter the key of row r, which is new, and return its slot."""
    # Freed slots first: every array by slot stays as short as it can.
    if index.meta[FREE] > 0:
        slot = index.meta[FREE] - 1
        index.meta[FREE] = index.words[slot, 0]
    else:
        slot = index.meta[HIGH]
        index.meta[HIGH] += 1
    index.table[cell] = (h & ~SLOT_BITS) | (slot + 1)
    index.nulls[slot] = nulls[r]
    index.used[slot] = 1
    index.meta[LIVE] += 1
    for c in range(words.shape[1]):
        index.words[slot, c] = words[r, c]
        if pooled[c]:
            # Encoding takes no reference to a text, and a sweep of the pool deletes texts without one.
            hold(pool, words[r, c])
    return slot


@kernel
def _lookup(
    index: IndexArrays,
    pool: PoolArrays,
    pooled: Array,
    words: Array,
    nulls: Array,
    slots: Array,
    start: int,
    scratch: Scratch,
) -> int:
    """Write the slots of the rows from `start` on; return the row to continue with, which is a new key without room."""
    # A table that is filled no further than that has empty cells, at which searches for new keys end.
    room = min(entries_in(len(index.table)), len(index.used))
    while start < len(slots):
        stop = min(len(slots), start + _BLOCK)
        block, keys, masks = slots[start:stop], words[start:stop], nulls[start:stop]
        for k in range(_search(index, keys, masks, block, scratch)):
            j = scratch.open[k]
            # A new key may come twice in a block: the second of its rows finds what the first one has entered.
            slot, cell = _find_cell(index, keys, masks, j, scratch.hashes[j])
            if slot < 0:
                if index.meta[LIVE] == room:
                    # Rows of the block behind this one may have their slots already. They are looked up again, which
                    # changes nothing.
                    return start + j
                slot = _enter(index, pool, pooled, keys, masks, j, cell=cell, h=scratch.hashes[j])
            block[j] = slot
        start = stop
    return start


@kernel
def _find(index: IndexArrays, words: Array, nulls: Array, slots: Array, scratch: Scratch) -> None:
    for start in range(0, len(slots), _BLOCK):
        stop = min(len(slots), start + _BLOCK)
        block, keys, masks = slots[start:stop], words[start:stop], nulls[start:stop]
        for k in range(_search(index, keys, masks, block, scratch)):
            j = scratch.open[k]
            block[j] = _find_cell(index, keys, masks, j, scratch.hashes[j])[0]


@kernel
def _remove(
    index: IndexArrays, pool: PoolArrays, pooled: Array, slots: Array, scratch: Scratch
) -> None:
    homes, entries, cells = scratch.open, scratch.hashes, len(index.table)
    for start in range(0, len(slots), _BLOCK):
        block = slots[start : start + _BLOCK]
        for k in range(len(block)):
            s = block[k]
            hashed = hash_key(index.words, s, np.int64(index.nulls[s]), len(pooled))
            homes[k] = home(hashed, cells)
        for k in range(len(block)):
            # Nobody looks at these: they bring the cells near, by reads that do not wait for one another.
            entries[k] = index.table[homes[k]]
        for k in range(len(block)):
            _remove_key(index, pool, pooled, block[k], homes[k])


@kernel
def _remove_key(index: IndexArrays, pool: PoolArrays, pooled: Array, s: int, at: int) -> None:
    """Remove the key of a slot, whose hash leads to a cell."""
    # Without a bound, and without a look at keys: one cell names the slot.
    while slot_in(index.table[at]) != s:
        at = around(at + 1, len(index.table))
    close_gap(index.table, at)
    for c in range(len(pooled)):
        if pooled[c]:
            release(pool, index.words[s, c])
        index.words[s, c] = 0
    index.nulls[s] = 0
    index.used[s] = 0
    # Once the words are released: the first of them becomes the link to the next free slot.
    index.words[s, 0] = index.meta[FREE]
    index.meta[FREE] = s + 1
    index.meta[LIVE] -= 1


_NEARLY_ALL = 0.9


class KeyIndex:
    """Key rows to slots, for keys of `len(pooled)` columns; `pooled[c]`: column c holds ids of the pool.

    name: what its arrays in the arena are called by.
    """

    def __init__(self, arena: Arena, pool: Pool, pooled: list[bool], name: str = "index") -> None:
        self.arena, self.pool, self.name = arena, pool, name
        self.pooled = np.array(pooled, np.bool_)
        width = len(pooled)
        self.mask_type = "u1" if width <= 8 else "u8"
        arena.array(f"{name}.table", cells_for(FIRST_SLOTS), "i8")
        arena.array(f"{name}.words", FIRST_SLOTS, "i8", max(width, 1))
        arena.array(f"{name}.nulls", FIRST_SLOTS, self.mask_type)
        arena.array(f"{name}.used", FIRST_SLOTS, "u1")
        arena.array(f"{name}.meta", 4, "i8")
        self._scratch = Scratch(np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64))
        self._reload()

    @property
    def capacity(self) -> int:
        return len(self.arrays.used)

    @property
    def is_airy(self) -> bool:
        return airy(len(self), int(self.arrays.meta[HIGH]))

    def __len__(self) -> int:
        return int(self.arrays.meta[LIVE])

    def lookup(self, words: KeyArray, nulls: NullArray) -> Array:
        """The slot of each key row (`words`: rows x columns, `nulls`: bit mask a row); new keys get one."""
        slots = np.empty(len(nulls), np.int64)
        row, since, keys = 0, 0, len(self)
        while row < len(slots):
            a = self.arrays
            row = _lookup(
                a,
                self.pool.arrays,
                self.pooled,
                words,
                nulls,
                slots,
                start=row,
                scratch=self._scratch,
            )
            if row < len(slots):
                # The rows since room was last made tell how many of the rest are new keys.
                share = (len(self) - keys) / max(row - since, 1)
                since, keys = row, len(self)
                self.reserve(self._estimate_keys(len(slots) - row, share))
        return slots

    def _estimate_keys(self, rows: int, share: float) -> int:
        """Return the number of new keys to make room for: as many as later rows bring at the same share, within bounds.

        Room that turns out to be too much is at most what is used; where nearly every row is new, three times that.
        """
        bound = self.capacity * (3 if share > _NEARLY_ALL else 1)
        return max(_BLOCK, min(int(rows * share), bound))

    def find(self, words: KeyArray, nulls: NullArray) -> Array:
        """The slot of each key row, -1 for keys that are not there."""
        slots = np.empty(len(nulls), np.int64)
        _find(self.arrays, words, nulls, slots, self._scratch)
        return slots

    def remove(self, slots: SlotArray) -> None:
        """Forget the keys of `slots`; the slots become free."""
        _remove(self.arrays, self.pool.arrays, self.pooled, slots, self._scratch)

    def keys(self, slots: SlotArray) -> tuple[Array, Array]:
        """The (words, nulls) of the keys at slots."""
        words = self.arrays.words[slots][:, : len(self.pooled)]
        return np.ascontiguousarray(words), self.arrays.nulls[slots]

    def used_slots(self) -> Array:
        return np.flatnonzero(self.arrays.used).astype(np.int64)

    def reset(self) -> None:
        """Give the memory back; only when no key is left."""
        for part in ("words", "nulls", "used"):
            self.arena.replace(f"{self.name}.{part}", FIRST_SLOTS)
        self.arena.replace(f"{self.name}.table", cells_for(FIRST_SLOTS))
        self.arrays.meta[:] = 0
        self._reload()

    def _reload(self) -> None:
        self.arrays = IndexArrays(
            *(self.arena.array(f"{self.name}.{n}", 0, "i4") for n in IndexArrays._fields)
        )

    def reserve(self, keys: int) -> None:
        """Room for `keys` more keys."""
        a = self.arrays
        need = int(a.meta[LIVE]) + keys
        if need > len(a.used):
            rows = self.arena.roomier(len(a.used), need)
            for part in ("words", "nulls", "used"):
                self.arena.resize(f"{self.name}.{part}", rows)
            self._reload()
        cells = cells_for(need)
        if cells > len(a.table):
            cells = self.arena.roomier(len(a.table), cells)
            self.arena.replace(f"{self.name}.table", cells)
            self._reload()
            rehash(a.table, self.arrays.table)
