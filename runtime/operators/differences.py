"""The difference between removed and added rows: which are halves of one update, their kinds, their order.

Rows stand in one list, those that go first. A partner is the place of the row on the other side, or -1. Operators
choose what makes partners: the same key, number, identity, or nothing.
"""

from __future__ import annotations

import numpy as np

from aggloom.runtime.state.row_index import row_hash
from aggloom.runtime.state.row_kernels import RowArrays, is_null, same_rows
from aggloom.runtime.state.row_store import RowStore
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray, RowIdArray, SlotArray
from aggloom.runtime.storage.hashing import combine
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.key_index import around, cells_for, home
from aggloom.runtime.values.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Kinds


@kernel
def hash_rows(
    rows: RowArrays, ids: RowIdArray, slots: SlotArray, identity: NumberArray, out: Array
) -> None:
    """The hash of stored rows in their slots, by some columns. That of a NULL is no value's."""
    for k in range(len(ids)):
        h = row_hash(rows, ids[k], slots[k], identity)
        # The hash of a row has a word of 0 for a NULL, and its flag in one bit: mixed once more, no value comes near
        # it.
        for place in range(len(identity)):
            if is_null(rows.flags, ids[k], identity[place]):
                h = combine(h, place + 1)
        out[k] = h


@kernel
def pair_off(
    places: NumberArray,
    marks: NumberArray,
    comes: FlagArray,
    table: Array,
    waiting: Array,
    after: Array,
    partner: NumberArray,
) -> None:
    """Write for each row the one with its mark at its place on the other side, the first beside the first; -1 before.

    table, zero before: by hash the first row with a place and mark, + 1, with room to spare. waiting, after: by row.
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
        # Those that wait are of one side: a ring, in which the last is followed by the first.
        last = np.int64(waiting[own])
        # Nobody waits: a ring of one.
        if last < 0:
            waiting[own] = after[r] = r
        elif comes[last] == comes[r]:
            after[r], after[last] = after[last], r
            waiting[own] = r
        else:
            # The first that has come is paired first, so that equal rows keep their order.
            first = np.int64(after[last])
            partner[r], partner[first] = first, r
            waiting[own] = -1 if first == last else last
            after[last] = after[first]


def pair_marks(places: NumberArray, marks: NumberArray, comes: FlagArray) -> Array:
    """Return for each row the one with its mark at its place on the other side, the first beside the first (int64[n]).

    places, marks: int64[n]. comes: bool[n].

    Example:
        >>> comes = np.array([False, False, True])
        >>> pair_marks(np.array([0, 0, 0]), np.array([4, 5, 5]), comes).tolist()
        [-1, 2, 1]
    """
    n = len(marks)
    partner, table = np.full(n, -1, np.int64), np.zeros(cells_for(n), np.int32)
    waiting, after = np.empty(n, np.int32), np.empty(n, np.int32)
    pair_off(places, marks, comes, table=table, waiting=waiting, after=after, partner=partner)
    return partner


def pair_rows(
    store: RowStore,
    places: NumberArray,
    ids: RowIdArray,
    comes: FlagArray,
    slots: SlotArray,
    identity: NumberArray,
) -> Array:
    """Return for each stored row the one on the other side with its place and the same columns `identity` (int64[n]).

    slots: those of the rows, which count in their hashes.
    """
    marks = np.empty(len(ids), np.int64)
    hash_rows(store.arrays, ids, slots, identity, marks)
    partner = pair_marks(places, marks, comes)
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


def name_kinds(comes: FlagArray, partner: NumberArray) -> Kinds:
    """Return the kind of each row: +I or -D without a partner, +U or -U with one.

    Example:
        >>> name_kinds(np.array([False, False, True]), np.array([-1, 2, 1])).tolist()
        [3, 1, 2]
    """
    kinds = np.where(comes, INSERT, DELETE).astype(np.int8)
    paired = partner >= 0
    kinds[paired] = np.where(comes[paired], UPDATE_AFTER, UPDATE_BEFORE)
    return kinds


def order_halves(comes: FlagArray, partner: NumberArray, *groups: NumberArray) -> Array:
    """Return the order of rows: what goes, what changes, what comes; the halves of an update stand together.

    groups: what rows are ordered by before that, the last one first.

    Example:
        >>> order_halves(np.array([False, False, True]), np.array([2, -1, 0])).tolist()
        [1, 0, 2]
    """
    phase = np.where(partner >= 0, 1, np.where(comes, 2, 0))
    return np.lexsort((comes, place_halves(partner), phase, *groups))


def place_halves(partner: NumberArray) -> Array:
    """Return the place of the first half of each row's update, or its own (int64[n])."""
    at = np.arange(len(partner))
    return np.where(partner >= 0, np.minimum(at, partner), at)


def diff_rows(
    store: RowStore,
    slots: SlotArray,
    ids: RowIdArray,
    comes: FlagArray,
    *,
    columns: NumberArray,
    key: NumberArray | None,
    update_before: bool,
) -> tuple[Array, Kinds]:
    """Return the order of the changes between stored rows that go and come, and the kind of each.

    A row that goes and comes alike is no change. columns: those of the result. key: those by which what goes and comes
    is an update; None: nothing is one.
    """
    partner = np.full(len(ids), -1, np.int64)
    left = np.arange(len(ids))
    if comes.any() and not comes.all():
        left = np.flatnonzero(pair_rows(store, slots, ids, comes, slots, columns) < 0)
        partner = partner[left]
        if key is not None:
            # Of the rows that are left, a pair by key is an update.
            own = slots[left]
            partner = pair_rows(store, own, ids[left], comes[left], own, key)
    kinds, order = name_kinds(comes[left], partner), order_halves(comes[left], partner)
    if not update_before:
        order = order[kinds[order] != UPDATE_BEFORE]
    return left[order], kinds[order]
