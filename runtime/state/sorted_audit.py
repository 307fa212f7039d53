"""Checks of restored sorted rows, in kernels that go over them once."""

from __future__ import annotations

import numpy as np

from aggloom.runtime.state.order_tree import TIER
from aggloom.runtime.state.row_kernels import LIVE, same_row
from aggloom.runtime.state.sorted_kernels import SortedArrays, Where
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.blocks import STAMP
from aggloom.runtime.storage.cells import slot_in
from aggloom.runtime.storage.jit import kernel


@kernel
def check_places(state: SortedArrays, where: Where, entries: Array, marks: Array) -> bool:
    """Tell whether the entries of the order are the rows, each once, where their sort keys say.

    entries: int64[rows, 2], the slot and entry of each. marks: uint8[rows], zeros; set to 1.
    """
    heap, stamp = where.tree.heap, where.tree.meta[STAMP]
    for k in range(len(entries)):
        slot, entry = entries[k, 0], entries[k, 1]
        row, arrival = heap[entry + 1], heap[entry + 3]
        if row < 0 or row >= len(marks) or marks[row] != 0:
            return False
        if where.rows.flags[row, 0] & 1 == 0 or where.index.slot[row] != slot:
            return False
        if state.word[row] != heap[entry] or state.arrival[row] != arrival:
            return False
        # Rounded to the nearest tier: a stamp below 1 then shows as such, and not as a large one of the tier before.
        tier = (arrival + (1 << TIER - 1)) >> TIER
        stamp_of_row = arrival - (tier << TIER)
        if tier < -1 or tier > 1 or stamp_of_row < 1 or stamp_of_row > stamp:
            return False
        marks[row] = 1
    return len(entries) == where.rows.meta[LIVE]


@kernel
def check_rings(state: SortedArrays, where: Where, unique: bool, marks: Array) -> int:
    """Return the number of rings, of equal rows, that the index's cells begin; -1 unless they have every row once.

    marks: uint8[rows], of check_places; set to 2.
    """
    rows, index = where.rows, where.index
    rings, count = np.int64(0), np.int64(0)
    for at in range(len(index.table)):
        first = slot_in(index.table[at])
        if first < 0:
            continue
        if first >= len(marks):
            return np.int64(-1)
        rings += 1
        row = first
        while True:
            # Rows that were met have mark 2: a ring that leads into another, or back into itself, ends here.
            if marks[row] != 1 or index.slot[row] != index.slot[first]:
                return np.int64(-1)
            if not same_row(index.identity, rows, row, rows, first):
                return np.int64(-1)
            marks[row] = 2
            count += 1
            after = np.int64(state.newer[row])
            # Both links: leaving a ring later writes through the one and reads the other.
            if after < 0 or after >= len(marks) or state.older[after] != row:
                return np.int64(-1)
            if after == first:
                break
            # A unique key has one row: two in a ring are damage.
            if unique:
                return np.int64(-1)
            row = after
    return rings if count == rows.meta[LIVE] else np.int64(-1)
