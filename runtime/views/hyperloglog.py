"""HyperLogLog by slot: about how many distinct values arrived. It serves APPROX_COUNT_DISTINCT.

A value's hash is an ENTRY of 32 bits: 26 number a register, and 6 are a rank, one more than the trailing zeros of
the hash's other 38 bits. A slot keeps its first entries as they are, sorted, so that small counts are
exact. When they fill its row (or are 256), the row becomes registers instead: each the greatest rank that it was
given. What a slot holds depends on the set of its values alone, so merging is union.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.storage.arena import Arena, Array
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.hashing import mix
from aggloom.runtime.storage.jit import cold_kernel, kernel, only_compiled
from aggloom.runtime.storage.pool import PoolArrays
from aggloom.runtime.views.bits import FixedView

MANY = -1
MOST_ENTRIES = 256
RANKED_BITS = 38
# Mixing maps 0 to 0, which would be the one hash with the greatest rank.
_SALT = np.int64(-0x61C8864680B583EB)


class HyperLogLogs(NamedTuple):
    """Arrays by slot: `cells`, each an entry or four registers, and `filled`: the number of entries, or MANY.

    `scratch` has room for a slot's entries while they become registers.
    """

    cells: Array  # uint32[slots, entries]
    filled: Array  # int32[slots]
    scratch: Array  # uint32[MOST_ENTRIES]


@kernel
def entry_of(code: int) -> int:
    """The entry of a value with this hash."""
    h = mix(code ^ _SALT)
    # A mark behind the 38 bits ends the count of zeros: the greatest rank is 39.
    rest = h | (1 << RANKED_BITS)
    rank = np.int64(1)
    while rest & 1 == 0:
        rest >>= 1
        rank += 1
    return (((h >> RANKED_BITS) & 0x3FFFFFF) << 6) | rank


@kernel
def _most(view: HyperLogLogs) -> int:
    """Return the most entries that a slot may have."""
    return min(view.cells.shape[1], MOST_ENTRIES)


@kernel
def _raise(view: HyperLogLogs, slot: int, entry: int) -> None:
    """Let an entry count in its register."""
    # An entry is its register and, in the lowest six bits, its rank; four registers of a byte lie in a cell.
    register = (entry >> 6) & (4 * view.cells.shape[1] - 1)
    rank, shift = entry & 63, (register & 3) << 3
    cell = np.int64(view.cells[slot, register >> 2])
    before = (cell >> shift) & 0xFF
    if rank > before:
        # A register only rises, so that the sum never carries into the one beside it.
        view.cells[slot, register >> 2] = np.uint32(cell + ((rank - before) << shift))


@kernel
def _to_registers(view: HyperLogLogs, slot: int) -> None:
    filled = np.int64(view.filled[slot])
    for j in range(filled):
        # Aside first: registers lie in the cells of the list that they are made from.
        view.scratch[j] = view.cells[slot, j]
        view.cells[slot, j] = 0
    for j in range(filled):
        _raise(view, slot, np.int64(view.scratch[j]))
    view.filled[slot] = MANY


@kernel
def _place(view: HyperLogLogs, slot: int, entry: int) -> int:
    """Return the number of a slot's entries before this one."""
    low, high = np.int64(0), np.int64(view.filled[slot])
    while low < high:
        middle = (low + high) >> 1
        if view.cells[slot, middle] < entry:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _add(view: HyperLogLogs, slot: int, entry: int) -> None:
    filled = np.int64(view.filled[slot])
    if filled != MANY:
        at = _place(view, slot, entry)
        if at < filled and view.cells[slot, at] == entry:
            return
        if filled < _most(view):
            # Entries stay in order: a list is the same in whatever order its values arrived.
            for j in range(filled, at, -1):
                view.cells[slot, j] = view.cells[slot, j - 1]
            view.cells[slot, at] = np.uint32(entry)
            view.filled[slot] = filled + 1
            return
        _to_registers(view, slot)
    _raise(view, slot, entry)


@kernel
def hyperloglog_accumulate(
    view: HyperLogLogs, pool: PoolArrays, pooled: bool, slot: int, word: int
) -> None:
    _add(view, slot, entry_of(pool.code[word] if pooled else mix(word)))


@kernel
def _greater_bytes(a: int, b: int) -> int:
    """Return the greater one of each pair of registers in two cells."""
    both = np.int64(0)
    for shift in range(0, 32, 8):
        both |= max((a >> shift) & 0xFF, (b >> shift) & 0xFF) << shift
    return both


@kernel
def hyperloglog_merge(
    view: HyperLogLogs,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    other: HyperLogLogs,
    other_pool: PoolArrays,
    other_slot: int,
) -> None:
    # MANY is below 0: then there is no list, and registers are merged below.
    for j in range(other.filled[other_slot]):
        _add(view, slot, np.int64(other.cells[other_slot, j]))
    if other.filled[other_slot] != MANY:
        return
    if view.filled[slot] != MANY:
        _to_registers(view, slot)
    for c in range(view.cells.shape[1]):
        ours, theirs = np.int64(view.cells[slot, c]), np.int64(other.cells[other_slot, c])
        view.cells[slot, c] = np.uint32(_greater_bytes(ours, theirs))


@kernel
def hyperloglog_clear(view: HyperLogLogs, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Forget all values of a slot."""
    used = np.int64(view.filled[slot])
    # The cells behind a list are zeros.
    for c in range(view.cells.shape[1] if used == MANY else used):
        view.cells[slot, c] = 0
    view.filled[slot] = 0


@kernel
def hyperloglog_none(view: HyperLogLogs, pool: PoolArrays, pooled: bool, slot: int) -> bool:
    return view.filled[slot] == 0


@kernel
def _sigma(x: float) -> float:
    """Ertl's correction for empty registers."""
    power, total, before = 1.0, x, -1.0
    # x is below 1, since not all registers are empty: the terms shrink until the sum stays as it is.
    while total != before:
        before = total
        x *= x
        total += x * power
        power += power
    return total


@kernel
def _tau(x: float) -> float:
    """Ertl's correction for registers that can rise no further."""
    if x == 0.0 or x == 1.0:
        return 0.0
    power, total, before = 1.0, 1.0 - x, -1.0
    while total != before:
        before = total
        x = np.sqrt(x)
        power *= 0.5
        total -= (1.0 - x) * (1.0 - x) * power
    return total / 3.0


@only_compiled
@kernel
def estimate_from(registers: int, empty: int, full: int, total: int) -> int:
    """Ertl's improved estimate (arXiv:1702.01284, algorithm 6), without tables and without ranges.

    It is corrected as Flajolet does for how few registers there are.
    `total` is the sum of 2**(RANKED_BITS - rank) over the registers that are neither empty nor full.
    """
    if empty == registers:
        return 0
    z = np.float64(total) + registers * _tau(1.0 - full / registers)
    z = z / (1 << RANKED_BITS) + registers * _sigma(empty / registers)
    # Ertl's factor, registers / (2 ln 2), corrected as Flajolet does for few registers.
    scale = registers / (2.0 * np.log(2.0)) / (1.0 + 1.079 / registers)
    return np.int64(np.floor(scale * registers / z + 0.5))


@cold_kernel
def estimate(view: HyperLogLogs, slot: int) -> int:
    """Estimate how many distinct values arrived."""
    filled = np.int64(view.filled[slot])
    if filled != MANY:
        return filled
    empty, full, total = np.int64(0), np.int64(0), np.int64(0)
    for c in range(view.cells.shape[1]):
        cell = np.int64(view.cells[slot, c])
        for shift in range(0, 32, 8):
            rank = (cell >> shift) & 0xFF
            if rank == 0:
                empty += 1
            elif rank > RANKED_BITS:
                full += 1
            else:
                # As an integer: the sum is exact, in whatever order registers are added.
                total += 1 << (RANKED_BITS - rank)
    return estimate_from(4 * view.cells.shape[1], empty, full, total)


class HyperLogLogView(FixedView):
    """Owner of HyperLogLogs in an arena; `width` of them a slot, a power of two from 16 to 2**18."""

    def __init__(self, arena: Arena, name: str, slots: int, width: int) -> None:
        arena.array(f"{name}.cells", slots, "u4", width // 4)
        arena.array(f"{name}.filled", slots, "i4")
        scratch = np.zeros(MOST_ENTRIES, np.uint32)
        super().__init__(arena, name, HyperLogLogs, ("cells", "filled"), scratch)

    def check_restored(self, audit: Audit, slots: int, pooled: bool, by_bytes: bool) -> None:
        super().check_restored(audit, slots, pooled, by_bytes)
        filled, most = self.arrays.filled, min(self.arrays.cells.shape[1], MOST_ENTRIES)
        right = not ((filled < MANY) | (filled > most)).any()
        audit.require(right, self.name, "a slot has more entries than there is room for")
