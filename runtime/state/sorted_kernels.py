"""Kernels of sorted rows: insertion, removal, and positions, row by row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.state.order_tree import (
    ENTRY,
    TIER,
    before_key,
    key_start,
    keys_in,
    order_at,
    order_insert,
    order_remove,
    order_replace,
    rows_in,
    weight_of,
    weight_upto,
)
from aggloom.runtime.state.row_index import (
    BLOCK,
    GONE,
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
from aggloom.runtime.state.row_kernels import Encoded, RowArrays, store_row
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.blocks import STAMP, Tree
from aggloom.runtime.storage.cells import close_gap
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import PoolArrays


class SortedArrays(NamedTuple):
    """Arrays by id: the sort key's `word`, the `arrival`, and the ring of equal rows, `newer` and `older`."""

    word: Array  # int64[ids]
    arrival: Array  # int64[ids]
    newer: Array  # int32[ids]
    older: Array  # int32[ids]


class Where(NamedTuple):
    """Structures that find rows: their store, the index of their oldest equals, their order."""

    rows: RowArrays
    index: RowIndexArrays
    tree: Tree


class SortedChanges(NamedTuple):
    """Changes: slots, rows, their sort keys and tiers, and whether each retracts a row."""

    slots: Array  # int64[changes]
    rows: Encoded
    words: Array  # int64[changes]
    tiers: Array  # int64[changes]
    retracts: Array  # bool[changes]


class Places(NamedTuple):
    """Arrays by row, from 0 on: its position in the slot; the rows and the distinct sort keys before its sort key."""

    position: Array  # int64[rows]
    rank: Array  # int64[rows]
    dense_rank: Array  # int64[rows]


@kernel
def _leave_ring(state: SortedArrays, index: RowIndexArrays, row: int, cell: int) -> None:
    """Unlink a row from the ring of its equals; cell: the cell of the index that names it, or -1."""
    # A ring has no ends: a row alone is its own neighbour, and linking asks for neither a first nor a last.
    newer, older = np.int64(state.newer[row]), np.int64(state.older[row])
    # Without equals no row is left for the cell to name.
    if newer == row:
        close_gap(index.table, cell)
        return
    if cell >= 0:
        # Equal rows have one hash: the upper half of the cell stays, and the id below it changes by the difference.
        # A cell's lower half is an id + 1.
        index.table[cell] += newer - row
    state.newer[older], state.older[newer] = newer, older


@kernel
def _insert(
    state: SortedArrays,
    where: Where,
    pool: PoolArrays,
    flags: tuple[bool, bool, bool],
    changes: SortedChanges,
    r: int,
    h: int,
    path: Array,
) -> tuple[int, int, int]:
    """Insert a row: (row, row that is gone or -1, outcome). flags: as in apply_changes."""
    by_bytes, unique, is_indexed = flags
    slot, word = changes.slots[r], changes.words[r]
    old, cell = np.int64(-1), np.int64(-1)
    if is_indexed:
        old, cell = find_row(where.index, where.rows, slot, changes.rows, r, h)
    row = store_row(where.rows, changes.rows, r)
    # Stamps are never used again. 60 bits last for 36,000 years at a million rows a second.
    where.tree.meta[STAMP] += 1
    # The tier tells a NULL from a value that has its word; it lies above 60 bits of stamps.
    arrival = (changes.tiers[r] << TIER) + where.tree.meta[STAMP]
    stays = (
        # Only with a unique key may the row that was found differ from the new one: the sort keys have to be compared.
        unique
        and old >= 0
        and state.word[old] == word
        and state.arrival[old] >> TIER == changes.tiers[r]
    )
    if stays:
        # An update that leaves the sort key as it is keeps the row's place among its equals.
        arrival = np.int64(state.arrival[old])
    state.word[row], state.arrival[row] = word, arrival
    state.newer[row] = state.older[row] = row
    # A cell names the oldest of equal rows: the one that a retraction takes.
    if not is_indexed:
        where.index.slot[row] = slot
    elif old < 0 or unique:
        name_row(where.index, cell, h, slot, row)
    else:
        # The newest is in front of the oldest, since they are a ring: both ends are found without a walk.
        newest = np.int64(state.older[old])
        where.index.slot[row] = slot
        state.newer[row], state.older[row] = old, newest
        state.newer[newest], state.older[old] = row, row
    outcome, gone = NEW, np.int64(-1)
    if old >= 0 and unique:
        outcome, gone = REPLACED, old
    if stays:
        # Shape and weights of the tree stay as they are: only the id in a leaf changes.
        order_replace(where.tree, pool, by_bytes, slot, word, arrival, row=row)
        return row, gone, outcome
    # The old row is removed before the new one is inserted: both descents use the same `path`.
    if gone >= 0:
        order_remove(
            where.tree, pool, by_bytes, slot, state.word[old], state.arrival[old], path=path
        )
    order_insert(where.tree, pool, by_bytes, slot, word, arrival, row=row, path=path)
    return row, gone, outcome


@kernel
def _remove(
    state: SortedArrays,
    where: Where,
    pool: PoolArrays,
    by_bytes: bool,
    latest: bool,
    changes: SortedChanges,
    r: int,
    h: int,
    path: Array,
) -> tuple[int, int, int]:
    """Retract a row: (row, row that is gone or -1, outcome)."""
    slot = changes.slots[r]
    row, cell = find_row(where.index, where.rows, slot, changes.rows, r, h)
    if row < 0:
        return row, row, ORPHAN
    # In a ring the newest is next to the oldest; no cell names it.
    if latest and state.older[row] != row:
        row, cell = np.int64(state.older[row]), np.int64(-1)
    _leave_ring(state, where.index, row, cell)
    order_remove(where.tree, pool, by_bytes, slot, state.word[row], state.arrival[row], path=path)
    return row, row, GONE


@kernel
def apply_changes(
    state: SortedArrays,
    where: Where,
    pool: PoolArrays,
    flags: tuple[bool, bool, bool],
    latest: bool,
    changes: SortedChanges,
    applied: Applied,
    start: int,
    stop: int,
    ahead: Ahead,
    path: Array,
) -> int:
    """Apply changes from one on, up to another or to one that there is no room for: the next change.

    flags: words are bytes; identities are unique; rows are named by the index. Without that, no row is retracted.
    """
    while start < stop:
        end = min(stop, start + BLOCK)
        if flags[2]:
            ahead_to = look_ahead(
                where.index, where.rows, changes.slots, changes.rows, start, ahead
            )
            end = min(stop, ahead_to)
        for r in range(start, end):
            h = ahead.hashes[r - start]
            # A retraction needs no room: rows, cells and texts only become fewer.
            if changes.retracts[r]:
                row, gone, outcome = _remove(
                    state, where, pool, flags[0], latest, changes, r=r, h=h, path=path
                )
            elif has_room(where.index, where.rows, flags[2], changes.rows, r):
                row, gone, outcome = _insert(state, where, pool, flags, changes, r, h=h, path=path)
            else:
                return r
            applied.ids[r], applied.gone[r], applied.outcomes[r] = row, gone, outcome
        start = end
    return start


@kernel
def take_rows(
    state: SortedArrays,
    where: Where,
    pool: PoolArrays,
    flags: tuple[bool, bool, bool],
    ids: Array,
    path: Array,
) -> None:
    """Remove stored rows. flags: as in apply_changes."""
    by_bytes, _, is_indexed = flags
    for k in range(len(ids)):
        row, slot = ids[k], np.int64(where.index.slot[ids[k]])
        # Without an index every row is a ring by itself, and no cell names it.
        if is_indexed:
            h = row_hash(where.rows, row, slot, where.index.identity)
            _leave_ring(state, where.index, row, cell_of(where.index, row, h))
        order_remove(
            where.tree, pool, by_bytes, slot, state.word[row], state.arrival[row], path=path
        )


@kernel
def plant_rows(
    state: SortedArrays, where: Where, pool: PoolArrays, by_bytes: bool, ids: Array, path: Array
) -> None:
    """Insert rows, which are in order, into the tree."""
    for k in range(len(ids)):
        row, slot = ids[k], np.int64(where.index.slot[ids[k]])
        order_insert(
            where.tree,
            pool,
            by_bytes,
            slot,
            state.word[row],
            state.arrival[row],
            row=row,
            path=path,
        )


@kernel
def _position(state: SortedArrays, where: Where, pool: PoolArrays, by_bytes: bool, row: int) -> int:
    """Return the number of rows of its slot that precede a row."""
    # No two rows of a slot have one arrival: all up to the arrival before precede the row.
    slot, before = np.int64(where.index.slot[row]), state.arrival[row] - 1
    return rows_in(weight_upto(where.tree, pool, by_bytes, slot, state.word[row], before))


@kernel
def locate_rows(
    state: SortedArrays,
    where: Where,
    pool: PoolArrays,
    by_bytes: bool,
    ids: Array,
    places: Places,
) -> None:
    """Write the places of rows."""
    for k in range(len(ids)):
        row, slot = ids[k], np.int64(where.index.slot[ids[k]])
        word, arrival = state.word[row], state.arrival[row]
        # The weight before the first possible equal has both counts: of rows and of sort keys.
        key = weight_upto(where.tree, pool, by_bytes, slot, word, before_key(arrival))
        places.position[k] = _position(state, where, pool, by_bytes, row)
        places.rank[k], places.dense_rank[k] = rows_in(key), keys_in(key)


@kernel
def locate_positions(
    state: SortedArrays, where: Where, pool: PoolArrays, by_bytes: bool, ids: Array, out: Array
) -> None:
    """Write the number of rows of its slot that precede each row."""
    for k in range(len(ids)):
        out[k] = _position(state, where, pool, by_bytes, ids[k])


@kernel
def count_before(
    tree: Tree,
    pool: PoolArrays,
    by_bytes: bool,
    slots: Array,
    words: Array,
    tiers: Array,
    equals: bool,
    out: Array,
) -> None:
    """Write the number of rows of slots that precede sort keys, be they there or not; `equals`: or have them."""
    for k in range(len(slots)):
        # The last arrival that the tier before can have or, with the equals, that this one can.
        arrival = ((tiers[k] + np.int64(equals)) << TIER) - 1
        out[k] = rows_in(weight_upto(tree, pool, by_bytes, slots[k], words[k], arrival))


@kernel
def measure_slots(tree: Tree, slots: Array, rows: Array, keys: Array) -> None:
    """The rows and the distinct sort keys of slots; a slot of -1 has none."""
    for k in range(len(slots)):
        weight = weight_of(tree, slots[k]) if slots[k] >= 0 else np.int64(0)
        rows[k], keys[k] = rows_in(weight), keys_in(weight)


@kernel
def start_keys(tree: Tree, slots: Array, keys: Array, out: Array) -> None:
    """The position at which distinct sort key number `keys[k]` of a slot starts."""
    for k in range(len(slots)):
        out[k] = key_start(tree, slots[k], keys[k]) if slots[k] >= 0 else 0


@kernel
def collect_rows(
    tree: Tree, slots: Array, starts: Array, lengths: Array, positions: Array, ids: Array
) -> None:
    """The rows of some positions of each slot, all of which are there."""
    n = np.int64(0)
    for k in range(len(slots)):
        at, end = starts[k], starts[k] + lengths[k]
        while at < end:
            entry, there = order_at(tree, slots[k], at)
            # The rows of a leaf lie side by side: one way down from the root finds them all.
            for j in range(min(there, end - at)):
                positions[n], ids[n] = k, tree.heap[entry + 1 + j * ENTRY]
                n += 1
            at += there
