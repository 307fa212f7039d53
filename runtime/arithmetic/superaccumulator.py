"""Superaccumulators: what the cascades of float sums round off, kept exactly, for the few sums that need it.

A block holds one sum's spilled part as bins of 32 bits in 64, lowest first, from 2**-2176 up: every double and
every product of two has its place, and 2**63 of the largest fit. Carries wait in the upper halves of the bins
until 2**29 additions are pending. A block takes 1088 bytes and is made when (slot, field) first needs one; one
whose bins are all zero goes back at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.arithmetic.errorfree import integer_parts, two_sum
from aggloom.runtime.storage.arena import Arena, Array, airy
from aggloom.runtime.storage.audit import Audit, check_stack
from aggloom.runtime.storage.jit import cold_kernel, kernel
from aggloom.runtime.storage.pairs import FREE, HIGH, LIVE, allocate, give_back
from aggloom.runtime.storage.pool import PoolArrays

BASE = 2176
BINS = 135
MASK = 0xFFFFFFFF
# Behind the bins: additions since the last carry.
_PENDING = BINS
# So many additions of 32 bits leave a bin two bits to spare.
_PENDING_LIMIT = 1 << 29
_LEAST_ROOM = 32
# Scratch rows hold products of four sums, and a header.
WIDE = 4 * BINS + 12
SCRATCH_ROWS = 12


class Spill(NamedTuple):
    """`blocks`: bins by block, from number 1; `index`: the block by slot and field, or 0; `free`: a stack of blocks."""

    blocks: Array  # int64[blocks, BINS + 1]
    index: Array  # int32[slots, fields]
    free: Array  # int32[blocks]
    meta: Array  # int64[3]
    scratch: Array  # int64[SCRATCH_ROWS, WIDE]


@kernel
def deposit(bins: Array, row: int, x: float, shift: int) -> int:
    """Add x * 2**shift to the bins of a row, dropping what lies below 2**-2176; the first of the three bins touched."""
    m, q = integer_parts(x)
    at = q + shift + BASE
    if at < 0:
        # What lies below the lowest bin is cut off.
        m = m >> -at if at > -63 else np.int64(0)
        at = np.int64(0)
    j, bit = at >> 5, at & 31
    low = (m & MASK) << bit
    high = ((m >> 32) << bit) + (low >> 32)
    sign = np.int64(-1) if x < 0 else np.int64(1)
    # 53 bits, moved up by 31 at most, lie in three bins.
    bins[row, j] += sign * (low & MASK)
    bins[row, j + 1] += sign * (high & MASK)
    bins[row, j + 2] += sign * (high >> 32)
    return j


@kernel
def _count_additions(spill: Spill, block: int, pending: int) -> None:
    """Count additions to a block, and carry before a bin could overflow."""
    spill.blocks[block, _PENDING] += pending
    if spill.blocks[block, _PENDING] < _PENDING_LIMIT:
        return
    carry = np.int64(0)
    for j in range(BINS - 1):
        total = spill.blocks[block, j] + carry
        spill.blocks[block, j] = total & MASK
        carry = total >> 32
    spill.blocks[block, BINS - 1] += carry
    # What the bins hold after the carry counts as one addition.
    spill.blocks[block, _PENDING] = 1


@kernel
def _is_zero(spill: Spill, block: int) -> bool:
    used = np.int64(0)
    for j in range(BINS):
        used |= spill.blocks[block, j]
    return used == 0


@kernel
def _block(spill: Spill, s: int, f: int) -> int:
    """The block of a field, made if there is none; room was reserved."""
    block = np.int64(spill.index[s, f])
    if block == 0:
        block = allocate(spill.free, spill.meta)
        spill.index[s, f] = block
    return block


@cold_kernel
def _release(spill: Spill, s: int, f: int) -> None:
    block = np.int64(spill.index[s, f])
    if block != 0:
        for j in range(BINS + 1):
            spill.blocks[block, j] = 0
        spill.index[s, f] = 0
        give_back(spill.free, spill.meta, block)


@kernel
def spill_reset(spill: Spill, s: int, f: int) -> None:
    """Give back the block of one field."""
    if spill.index[s, f] != 0:
        _release(spill, s, np.int64(f))


@kernel
def spill_clear(spill: Spill, pool: PoolArrays, pooled: bool, s: int) -> None:
    """Give back the blocks of all fields of a slot."""
    for f in range(spill.index.shape[1]):
        if spill.index[s, f] != 0:
            _release(spill, s, f)


@kernel
def spill_full(spill: Spill) -> bool:
    """Tell whether the next row could need more blocks than are free: one for each field."""
    return len(spill.blocks) - 1 - spill.meta[HIGH] + spill.meta[FREE] < spill.index.shape[1]


@cold_kernel
def spill_number(spill: Spill, s: int, f: int, x: float, shift: int) -> None:
    """Add x * 2**shift to the block of a field."""
    block = _block(spill, s, f)
    j = deposit(spill.blocks, block, x, shift)
    _count_additions(spill, block, np.int64(1))
    # The bins that were touched first: the whole block is looked at only if they are zeros.
    touched = spill.blocks[block, j] | spill.blocks[block, j + 1] | spill.blocks[block, j + 2]
    if touched == 0 and _is_zero(spill, block):
        _release(spill, s, f)


@cold_kernel
def spill_rest(
    spill: Spill, s: int, f: int, s0: float, s1: float, s2: float, rest: float
) -> tuple[float, float, float]:
    """A cascade that left a rest, made to hold it: in its own gaps if there are such, else in the block."""
    if spill.index[s, f] == 0:
        # Sums from below move what can be joined together, which may make room for the rest.
        for _ in range(3):
            s2, rest = two_sum(s2, rest)
            s1, s2 = two_sum(s1, s2)
            s0, s1 = two_sum(s0, s1)
        if rest == 0.0:
            return s0, s1, s2
    spill_number(spill, s, f, rest, np.int64(0))
    return s0, s1, s2


@cold_kernel
def spill_combine(spill: Spill, s: int, f: int, other: Spill, o: int) -> None:
    """Add another field's block, if it has one."""
    source = np.int64(other.index[o, f])
    if source == 0:
        return
    block = _block(spill, s, f)
    for j in range(BINS):
        spill.blocks[block, j] += other.blocks[source, j]
    # All additions that went into the other block are in these bins from now on.
    _count_additions(spill, block, other.blocks[source, _PENDING])
    if _is_zero(spill, block):
        _release(spill, s, f)


@kernel
def _check_index(index: Array, high: int, marks: Array) -> int:
    """Return the number of blocks an index (int32[slots, fields]) names, each once; -1 if one is free, or none such.

    marks: uint8[blocks], 1 for a free block and else 0; set to 1.
    """
    count = np.int64(0)
    for s in range(index.shape[0]):
        for f in range(index.shape[1]):
            block = np.int64(index[s, f])
            if block == 0:
                continue
            if block < 1 or block > high or marks[block] != 0:
                return np.int64(-1)
            marks[block] = 1
            count += 1
    return count


class SpillView:
    """Owner of a Spill in an arena; `width` float fields by slot. Empty, it takes 4 bytes for each, and 36 KB.

    The scratch rows (52 KB) are not state and stay out of the arena.
    """

    def __init__(self, arena: Arena, name: str, slots: int, width: int) -> None:
        self.arena, self.name = arena, name
        self._room = max(_LEAST_ROOM, 4 * width)
        self._scratch = np.zeros((SCRATCH_ROWS, WIDE), np.int64)
        arena.array(f"{name}.blocks", 1 + self._room, "i8", BINS + 1)
        arena.array(f"{name}.index", slots, "i4", width)
        arena.array(f"{name}.free", 1 + self._room, "i4")
        arena.array(f"{name}.meta", 3, "i8")
        self._reload()

    def _reload(self) -> None:
        stored = (self.arena.array(f"{self.name}.{array}", 0, "i8") for array in Spill._fields[:-1])
        self.arrays = Spill._make((*stored, self._scratch))

    def check_restored(self, audit: Audit, slots: int, pooled: bool, by_bytes: bool) -> None:
        """Raise StateCorruptError unless the arrays of a snapshot are blocks of so many slots."""
        spill, name, blocks = self.arrays, self.name, len(self.arrays.blocks)
        audit.require_length(slots, name, spill.index)
        audit.require_length(blocks, name, spill.free)
        high, free, live = spill.meta[:3].tolist()
        right = 0 <= free <= high < blocks and live == high - free
        marks = np.zeros(blocks, np.uint8)
        right = right and check_stack(spill.free, free, marks, 1, high)
        right = right and _check_index(spill.index, high, marks) == live
        audit.require(right, name, "its blocks are not named once")

    @property
    def live(self) -> int:
        """Blocks in use."""
        return int(self.arrays.meta[LIVE])

    @property
    def is_airy(self) -> bool:
        return airy(self.live, int(self.arrays.meta[HIGH]))

    def trim(self) -> None:
        """Give back the room that nothing has used yet."""
        self._resize(1 + int(self.arrays.meta[HIGH]))

    def reserve_slots(self, slots: int) -> None:
        self.arena.resize(f"{self.name}.index", slots)
        self._reload()

    def affordable(self, rows: int) -> int:
        """Return the number of next rows to prepare for at once: all, as loops stop by themselves when it is full."""
        return rows

    def reserve(self, rows: int) -> None:
        """Room for some rows: few need a block, and a loop that finds `spill_full` asks again."""
        self.reserve_blocks(self._room)

    def reserve_blocks(self, blocks: int) -> None:
        """Room for `blocks` more."""
        need = 1 + int(self.arrays.meta[HIGH]) - int(self.arrays.meta[FREE]) + blocks
        if need > len(self.arrays.blocks):
            self._resize(max(need, 2 * len(self.arrays.blocks)))

    def shrink(self) -> None:
        """Give the memory back when no block is in use."""
        if self.live == 0 and len(self.arrays.blocks) > 1 + self._room:
            self.arena.replace(f"{self.name}.blocks", 1 + self._room)
            self.arena.replace(f"{self.name}.free", 1 + self._room)
            self.arrays.meta[:] = 0
            self._reload()

    def _resize(self, rows: int) -> None:
        if rows != len(self.arrays.blocks):
            self.arena.resize(f"{self.name}.blocks", rows)
            self.arena.resize(f"{self.name}.free", rows)
            self._reload()
