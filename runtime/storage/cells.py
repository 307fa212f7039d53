"""Cells of a table that finds entries by their hashes: the upper half of a hash beside the slot + 1 (0: empty).

That half, as a fraction, is where in the table a cell belongs. So the cells are in the order of their hashes whatever
their number: a table grows by a quarter in one pass over it. Probing, growing and closing gaps read nothing else.
"""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.arena import FIRST_SLOTS, Array
from aggloom.runtime.storage.jit import kernel

SLOT_BITS = 0xFFFFFFFF
"""The part of a cell that names a slot."""


@kernel
def home(cell: int, cells: int) -> int:
    """Return the home of a cell or a hash: its place in a table of so many cells if that is free."""
    return np.int64((np.uint64(cell) >> np.uint64(32)) * np.uint64(cells) >> np.uint64(32))


@kernel
def around(at: int, cells: int) -> int:
    """Return a place within the ring of a table for one that may be beyond its end or before its start."""
    if at >= cells:
        return at - cells
    return at + cells if at < 0 else at


@kernel
def entries_in(cells: int) -> int:
    """Return the number of entries that a table of so many cells may hold: two thirds of the cells."""
    return 2 * cells // 3


@kernel
def slot_in(cell: int) -> int:
    """The slot that a cell names, -1 if it is empty."""
    return (cell & SLOT_BITS) - 1


@kernel
def is_other(cell: int, h: int) -> bool:
    """Tell whether a cell is another hash's."""
    return cell != 0 and (cell ^ h) >> 32 != 0


@kernel
def close_gap(table: Array, at: int) -> None:
    """Remove a cell from a table, and move later cells that are not at their home closer to it."""
    cells, hole = len(table), at
    while True:
        at = around(at + 1, cells)
        if table[at] == 0:
            break
        # Its home is at or before the hole: a search for it still meets no empty cell on its way. There are no
        # tombstones, so that a table is as fast after many deletions as before.
        if around(at - home(table[at], cells), cells) >= around(at - hole, cells):
            table[hole] = table[at]
            hole = at
    table[hole] = 0


@kernel
def rehash(old: Array, table: Array) -> None:
    """Fill an empty table from another."""
    cells = len(table)
    for i in range(len(old)):
        if old[i] != 0:
            # The upper half of the hash is in the cell: no key is read, or hashed again.
            at = home(old[i], cells)
            while table[at] != 0:
                at = around(at + 1, cells)
            table[at] = old[i]


def cells_for(entries: int) -> int:
    """Cells for a table of so many entries: it is at most two thirds full."""
    return 3 * (max(entries, FIRST_SLOTS) + 1) // 2
