"""The changes that an Over emits: for removed rows, for inserted rows, and for rows whose values have changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.operators.differences import pair_rows
from aggloom.runtime.operators.grouping import order_by_arrival
from aggloom.runtime.state.row_store import RowStore
from aggloom.runtime.storage.arena import Array, NumberArray, RowIdArray, SelectionArray, SlotArray
from aggloom.runtime.values.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Kinds

_SHIFT = 32


class ValuedRows(NamedTuple):
    """Rows as they were or are: the place of their key, the stored row, the number of its values."""

    places: Array  # int64[rows]
    ids: Array  # int64[rows]
    value_numbers: Array  # int64[rows]

    def take(self, which: SelectionArray) -> ValuedRows:
        """Some of them."""
        return ValuedRows(self.places[which], self.ids[which], self.value_numbers[which])


class ValuedChanges(NamedTuple):
    """The place of a key, the stored row, the number of its values, the kind."""

    places: Array  # int64[changes]
    ids: Array  # int64[changes]
    value_numbers: Array  # int64[changes]
    kinds: Kinds


def order_changes(
    gone: ValuedRows,
    before: ValuedRows,
    after: ValuedRows,
    inserted: Kinds,
    positions: tuple[NumberArray, NumberArray],
    firsts: NumberArray,
    rows: int,
    *,
    update_before: bool,
) -> ValuedChanges:
    """The changes, key by key, those of a key in the order of its rows.

    before, after: the same rows side by side; inserted rows have none before. inserted: their kinds, -1 for other rows.
    positions: of the removed rows, which precede the row that is there now, and of the others. firsts: by place
    the first row of the key, of so many rows.
    """
    news = inserted >= 0
    sides = [gone, before.take(~news), after]
    every = ValuedRows(*(np.concatenate(parts) for parts in zip(*sides, strict=True)))
    rank = np.concatenate([positions[0], positions[1][~news], positions[1]])
    left, changed = len(gone.ids), len(sides[1].ids)
    kinds = np.where(news, inserted, UPDATE_AFTER)
    kinds = np.concatenate([np.full(left, DELETE), np.full(changed, UPDATE_BEFORE), kinds])
    # Of a row what went precedes it, and what it was before what it is, as they stand here.
    order = np.argsort((every.places << _SHIFT) + rank, kind="stable")
    order = order[order_by_arrival(every.places[order], firsts, rows)]
    if not update_before:
        order = order[kinds[order] != UPDATE_BEFORE]
    some = every.take(order)
    return ValuedChanges(some.places, some.ids, some.value_numbers, kinds[order].astype(np.int8))


def pair_values(
    store: RowStore, gone: ValuedRows, fresh: ValuedRows, slots: SlotArray, identity: NumberArray
) -> tuple[Array, Array]:
    """The removed and inserted rows with the same identity: their numbers in `gone` and in `fresh`.

    slots: by place.
    """
    if not len(gone.ids) or not len(fresh.ids):
        none = np.zeros(0, np.int64)
        return none, none
    places = np.concatenate([gone.places, fresh.places])
    ids = np.concatenate([gone.ids, fresh.ids])
    comes = np.arange(len(ids)) >= len(gone.ids)
    partner = pair_rows(store, places, ids, comes, slots[places], identity)[: len(gone.ids)]
    replaced = np.flatnonzero(partner >= 0)
    return replaced, partner[replaced] - len(gone.ids)


def inserts(places: NumberArray, ids: RowIdArray, value_numbers: NumberArray) -> ValuedChanges:
    """Rows as insertions."""
    return ValuedChanges(places, ids, value_numbers, np.full(len(ids), INSERT, np.int8))
