"""The difference between removed and added rows: which are halves of one update, their kinds, their order.

Removed and added rows are in one list, the removed ones first. The partner of a row is the place of the row on the
other side that belongs to it, or -1. Operators choose what makes two rows partners: the same key, number or identity,
or nothing.
"""

from __future__ import annotations

import numpy as np

from aggloom.runtime.state.row_index import row_hash
from aggloom.runtime.state.row_kernels import RowArrays, is_null, same_rows
from aggloom.runtime.state.row_store import RowStore
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray, RowIdArray, SlotArray
from aggloom.runtime.storage.cells import around, cells_for, home
from aggloom.runtime.storage.hashing import combine
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.values.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Kinds


@kernel
def hash_rows(
    rows: RowArrays, ids: RowIdArray, slots: SlotArray, identity: NumberArray, out: Array
) -> None:
    """Write the hash of stored rows in their slots, by some columns; a NULL has another hash than any value."""
    for k in range(len(ids)):
        h = row_hash(rows, ids[k], slots[k], identity)
        # The hash of a row has a word of 0 for a NULL, and its flag in one bit: mixed once more, it is
        # far from the hash of any value.
        for place in range(len(identity)):
            if is_null(rows.flags, ids[k], identity[place]):
                h = combine(h, place + 1)
        out[k] = h


@kernel
def pair_off(
    places: NumberArray,
    marks: NumberArray,
    is_added: FlagArray,
    table: Array,
    waiting: Array,
    after: Array,
    partner: NumberArray,
) -> None:
    """Write for each row its partner: the row on the other side with the same mark and place, the first with the first.

    partner: -1 before. table, zero before: by hash the first row with a place and mark, + 1, with empty cells left.
    waiting, after: room for a number by row.
    """
    cells = len(table)
    for r in range(len(marks)):
        at = home(combine(places[r], marks[r]), cells)
        own = np.int64(table[at]) - 1
        while own >= 0 and (places[own] != places[r] or marks[own] != marks[r]):
            at = around(at + 1, cells)
            own = np.int64(table[at]) - 1
        if own < 0:
            own = np.int64(r)
            # One more than the number, as 0 is an empty cell.
            table[at] = r + 1
            waiting[own] = -1
        # Rows without a partner so far are of one side. They form a ring, in which the first follows the last.
        last = np.int64(waiting[own])
        # No row waits: this one becomes a ring of one.
        if last < 0:
            waiting[own] = after[r] = r
        elif is_added[last] == is_added[r]:
            after[r], after[last] = after[last], r
            waiting[own] = r
        else:
            # The first row of the ring is paired first, so that equal rows keep their order.
            first = np.int64(after[last])
            partner[r], partner[first] = first, r
            waiting[own] = -1 if first == last else last
            after[last] = after[first]


def pair_marks(places: NumberArray, marks: NumberArray, is_added: FlagArray) -> Array:
    """Return for each row its partner, the row on the other side with the same mark and place (int64[n]).

    places, marks: int64[n]. is_added: bool[n].

    Example:
        >>> is_added = np.array([False, False, True])
        >>> pair_marks(np.array([0, 0, 0]), np.array([4, 5, 5]), is_added).tolist()
        [-1, 2, 1]
    """
    n = len(marks)
    partner, table = np.full(n, -1, np.int64), np.zeros(cells_for(n), np.int32)
    waiting, after = np.empty(n, np.int32), np.empty(n, np.int32)
    pair_off(places, marks, is_added, table=table, waiting=waiting, after=after, partner=partner)
    return partner


def pair_rows(
    store: RowStore,
    places: NumberArray,
    ids: RowIdArray,
    is_added: FlagArray,
    slots: SlotArray,
    identity: NumberArray,
) -> Array:
    """Return for each stored row its partner: the row on the other side with its place and equal `identity` columns.

    slots: those of the rows, which count in their hashes.
    """
    marks = np.empty(len(ids), np.int64)
    hash_rows(store.arrays, ids, slots, identity, marks)
    partner = pair_marks(places, marks, is_added)
    paired = np.flatnonzero(partner >= 0)
    # Marks are hashes: rows of one hash may still be others.
    unlike = paired[~mark_same(store, ids[paired], ids[partner[paired]], identity)]
    partner[unlike] = -1
    return partner


def mark_same(store: RowStore, left: RowIdArray, right: RowIdArray, columns: NumberArray) -> Array:
    """Tell whether stored rows are the same in some columns as those beside them (bool[n])."""
    out = np.empty(len(left), np.bool_)
    same_rows(store.arrays, left, right, columns, out)
    return out


def name_kinds(is_added: FlagArray, partner: NumberArray) -> Kinds:
    """Return the kind of each row: +I or -D without a partner, +U or -U with one.

    Example:
        >>> name_kinds(np.array([False, False, True]), np.array([-1, 2, 1])).tolist()
        [3, 1, 2]
    """
    kinds = np.where(is_added, INSERT, DELETE).astype(np.int8)
    paired = partner >= 0
    kinds[paired] = np.where(is_added[paired], UPDATE_AFTER, UPDATE_BEFORE)
    return kinds


def order_halves(is_added: FlagArray, partner: NumberArray, *groups: NumberArray) -> Array:
    """Return the order of rows: deletions, updates, insertions; the halves of an update are adjacent.

    groups: sort keys that come before that, the last one first.

    Example:
        >>> order_halves(np.array([False, False, True]), np.array([2, -1, 0])).tolist()
        [1, 0, 2]
    """
    phase = np.where(partner >= 0, 1, np.where(is_added, 2, 0))
    return np.lexsort((is_added, place_halves(partner), phase, *groups))


def place_halves(partner: NumberArray) -> Array:
    """Return the place of the first half of each row's update, or its own (int64[n])."""
    at = np.arange(len(partner))
    return np.where(partner >= 0, np.minimum(at, partner), at)


def diff_rows(
    store: RowStore,
    slots: SlotArray,
    ids: RowIdArray,
    is_added: FlagArray,
    *,
    columns: NumberArray,
    key: NumberArray | None,
    update_before: bool,
) -> tuple[Array, Kinds]:
    """Return the order of the changes between removed and added stored rows, and the kind of each.

    A row that is removed and added again is no change. columns: those of the result. key: columns by which a removed
    and an added row are an update; None: there are no updates.
    """
    partner = np.full(len(ids), -1, np.int64)
    left = np.arange(len(ids))
    if is_added.any() and not is_added.all():
        left = np.flatnonzero(pair_rows(store, slots, ids, is_added, slots, columns) < 0)
        partner = partner[left]
        if key is not None:
            # Of the rows that are left, a pair by key is an update.
            own = slots[left]
            partner = pair_rows(store, own, ids[left], is_added[left], own, key)
    kinds, order = name_kinds(is_added[left], partner), order_halves(is_added[left], partner)
    if not update_before:
        order = order[kinds[order] != UPDATE_BEFORE]
    return left[order], kinds[order]
