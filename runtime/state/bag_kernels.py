"""The rows of a bag, one by one: coming, leaving, and being walked over."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.state.row_index import (
    AGAIN,
    BLOCK,
    GONE,
    LESS,
    NEW,
    ORPHAN,
    REPLACED,
    Ahead,
    Applied,
    RowIndexArrays,
    cell_of,
    find_row,
    has_room,
    look_ahead,
    name_row,
    row_hash,
)
from aggloom.runtime.state.row_kernels import LIVE, Encoded, RowArrays, store_row
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.cells import close_gap
from aggloom.runtime.storage.jit import kernel

INDEXED_ROWS, ONE_ROW, ADDED_ROWS = range(3)
"""Ways to find a row: by its identity in the index, at the head of its slot's chain, or not at all."""


class BagArrays(NamedTuple):
    """Arrays by id: `count`, `degree` (empty if none is kept), the chain `after` and `before`; by slot: its `head`.

    A link is an id + 1, 0 is none.
    """

    count: Array  # int32[ids]
    degree: Array  # int32[ids] or int32[0]
    after: Array  # int32[ids]
    before: Array  # int32[ids]
    head: Array  # int32[slots]


@kernel
def _link(bag: BagArrays, slot: int, row: int) -> None:
    head = bag.head[slot]
    # At the front: only the head of a chain is known, and a bag has no order.
    bag.after[row] = head
    bag.before[row] = 0
    if head != 0:
        bag.before[head - 1] = row + 1
    bag.head[slot] = row + 1


@kernel
def _relink(bag: BagArrays, slot: int, row: int, after: int, before: int) -> None:
    """Let the links to a place name another row, or, with `row` -1, what comes after and before it."""
    if before != 0:
        bag.after[before - 1] = after if row < 0 else row + 1
    else:
        # A row without one before it is the head of its chain: the slot's own link is the one to change.
        bag.head[slot] = after if row < 0 else row + 1
    if after != 0:
        bag.before[after - 1] = before if row < 0 else row + 1


@kernel
def _insert(
    bag: BagArrays,
    rows: RowArrays,
    index: RowIndexArrays,
    unique: bool,
    mode: int,
    slot: int,
    batch: Encoded,
    r: int,
    h: int,
) -> tuple[int, int, int]:
    """Add a row: (row, row that is gone or -1, outcome)."""
    old, cell = np.int64(-1), np.int64(-1)
    # A bag that has at most one row a slot finds it at the head: neither a hash nor an index is kept for it.
    if mode == ONE_ROW:
        old = np.int64(bag.head[slot]) - 1
    elif mode == INDEXED_ROWS:
        old, cell = find_row(index, rows, slot, batch, r, h)
    # Without a unique key the identity is the whole row: one stored row stands for all equal ones.
    if old >= 0 and not unique:
        bag.count[old] += 1
        return old, np.int64(-1), AGAIN
    # Stored before the old row is freed, which its caller does: the two have different ids, and changes name both.
    row = store_row(rows, batch, r)
    if mode == INDEXED_ROWS:
        name_row(index, cell, h, slot, row)
    else:
        index.slot[row] = slot
    bag.count[row] = 1
    # The degree goes with the place: both rows are of one slot, whose key they are joined by.
    if len(bag.degree) > 0:
        bag.degree[row] = bag.degree[old] if old >= 0 else 0
    if old < 0:
        _link(bag, slot, row)
        return row, np.int64(-1), NEW
    # The new row takes the old one's place in the chain, so that a walk meets as many rows as before.
    bag.after[row], bag.before[row] = bag.after[old], bag.before[old]
    _relink(bag, slot, row, bag.after[old], bag.before[old])
    return row, old, REPLACED


@kernel
def _remove(
    bag: BagArrays,
    rows: RowArrays,
    index: RowIndexArrays,
    mode: int,
    slot: int,
    batch: Encoded,
    r: int,
    h: int,
) -> tuple[int, int, int]:
    """Take a row back: (row, row that is gone or -1, outcome)."""
    row, cell = np.int64(-1), np.int64(-1)
    if mode == ONE_ROW:
        row = np.int64(bag.head[slot]) - 1
    elif mode == INDEXED_ROWS:
        row, cell = find_row(index, rows, slot, batch, r, h)
    # The count is not looked at: a row that is in a chain is there at least once.
    if row < 0:
        return row, row, ORPHAN
    bag.count[row] -= 1
    if bag.count[row] > 0:
        return row, np.int64(-1), LESS
    if mode == INDEXED_ROWS:
        # At once, unlike the row itself: a later change of the same bundle must not find the row any more.
        close_gap(index.table, cell)
    _relink(bag, slot, -1, bag.after[row], bag.before[row])
    # The caller frees the row once its changes are emitted: until then its columns are read.
    return row, row, GONE


@kernel
def apply_changes(
    bag: BagArrays,
    rows: RowArrays,
    index: RowIndexArrays,
    unique: bool,
    mode: int,
    slots: Array,
    batch: Encoded,
    retracts: Array,
    applied: Applied,
    start: int,
    ahead: Ahead,
) -> int:
    """Apply changes from one on, to the end or up to one that there is no room for: the next change.

    mode: the way to find a row; only INDEXED_ROWS reads the index.
    """
    while start < len(slots):
        # A block has as many rows as the scratch arrays hold: 8 KiB of hashes, which stay in the nearest cache.
        stop = min(len(slots), start + BLOCK)
        if mode == INDEXED_ROWS:
            stop = look_ahead(index, rows, slots, batch, start, ahead)
        for r in range(start, stop):
            # In the other modes `hashes` holds what an earlier block left there; neither of them reads it.
            h, slot = ahead.hashes[r - start], slots[r]
            if retracts[r]:
                row, gone, outcome = _remove(bag, rows, index, mode, slot, batch, r=r, h=h)
            elif has_room(index, rows, mode == INDEXED_ROWS, batch, r):
                row, gone, outcome = _insert(
                    bag,
                    rows,
                    index,
                    unique,
                    mode=mode,
                    slot=slot,
                    batch=batch,
                    r=r,
                    h=h,
                )
            else:
                # A kernel cannot let arrays grow: it stops before the row, and its caller makes room and goes on
                # there.
                return r
            applied.ids[r], applied.gone[r], applied.outcomes[r] = row, gone, outcome
        start = stop
    return start


@kernel
def take_rows(
    bag: BagArrays, rows: RowArrays, index: RowIndexArrays, is_indexed: bool, ids: Array
) -> None:
    """Take rows out whatever their counts, each of which is there."""
    for k in range(len(ids)):
        row, slot = ids[k], np.int64(index.slot[ids[k]])
        if is_indexed:
            # Computed again, as only a removal by id and a growing table need it: stored, it would be eight bytes a
            # row.
            h = row_hash(rows, row, slot, index.identity)
            close_gap(index.table, cell_of(index, row, h))
        _relink(bag, slot, -1, bag.after[row], bag.before[row])


@kernel
def walk_slots(bag: BagArrays, slots: Array, cursor: Array, positions: Array, ids: Array) -> int:
    """Fill the pairs from a cursor (position, link to continue with or 0) on; how many there are."""
    # Two numbers are the whole state of a walk: a slot with millions of rows is read in pieces of fixed size.
    pairs, position, link = np.int64(0), cursor[0], cursor[1]
    while position < len(slots) and pairs < len(ids):
        # A slot of -1 is a key without state: it has no chain, and no pair.
        if link == 0 and slots[position] >= 0:
            link = np.int64(bag.head[slots[position]])
        while link != 0 and pairs < len(ids):
            positions[pairs] = position
            ids[pairs] = link - 1
            pairs += 1
            link = np.int64(bag.after[link - 1])
        # Otherwise the pairs are full: the next call goes on in this chain.
        if link == 0:
            position += 1
    cursor[0], cursor[1] = position, link
    return pairs


@kernel
def check_chains(
    bag: BagArrays, rows: RowArrays, index: RowIndexArrays, single: bool, marks: Array
) -> bool:
    """Tell whether the chains of all slots lead over every row once, both ways (`marks`: uint8[rows], zeros)."""
    count = np.int64(0)
    for slot in range(len(bag.head)):
        link, before = np.int64(bag.head[slot]), np.int64(0)
        while link != 0:
            # First of all: a link out of a damaged file would read beyond the arrays.
            if link < 1 or link > len(marks) or (single and before != 0):
                return False
            row = link - 1
            if marks[row] != 0 or rows.flags[row, 0] & 1 == 0 or index.slot[row] != slot:
                return False
            # A wrong link back would let a removal change a foreign chain, long after this check.
            if bag.before[row] != before or bag.count[row] < 1:
                return False
            if len(bag.degree) > 0 and bag.degree[row] < 0:
                return False
            marks[row] = 1
            count += 1
            before, link = link, np.int64(bag.after[row])
    # As many rows in chains as the store has: none is left outside them.
    return count == rows.meta[LIVE]
