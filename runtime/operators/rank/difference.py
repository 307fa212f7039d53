"""The difference between the rows that were seen and those that are: the changes from one to the other, in order."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from aggloom.runtime.operators.differences import (
    mark_same,
    name_kinds,
    order_halves,
    pair_marks,
    pair_rows,
    place_halves,
)
from aggloom.runtime.operators.rank.kernels import drop_same, pair_numbers
from aggloom.runtime.operators.rank.visible_rows import VisibleRows
from aggloom.runtime.state.row_store import RowStore
from aggloom.runtime.storage.arena import (
    Array,
    FlagArray,
    NumberArray,
    RowIdArray,
    SelectionArray,
    SlotArray,
)
from aggloom.runtime.values.changelog import UPDATE_BEFORE, Kinds

By = Literal["key", "number", "row", "nothing"]
"""The thing that makes a row that arrives the successor of one that goes: the same key, number or identity."""


class NumberedChanges(NamedTuple):
    """Rows that come and go: the place of their key, the stored row, its number, the kind."""

    places: Array  # int64[changes]
    ids: Array  # int64[changes]
    numbers: Array  # int64[changes]
    kinds: Kinds

    def some(self, which: SelectionArray | slice) -> NumberedChanges:
        """Those with these places, in this order."""
        return NumberedChanges(
            self.places[which], self.ids[which], self.numbers[which], self.kinds[which]
        )


class Difference:
    """Compares rows of a store. identity: the columns by which a row is known.

    numbered: whether the number is a part of the rows. A row that arrives for one that is the same is no change.
    """

    def __init__(self, identity: Array, *, by: By, numbered: bool, update_before: bool) -> None:
        self.identity, self.by, self.numbered = identity, by, numbered
        self.update_before = update_before
        self._mark = np.zeros(0, np.int32)

    def find_changes(
        self,
        store: RowStore,
        before: VisibleRows,
        after: VisibleRows,
        slots: SlotArray,
        replaced: RowIdArray | None,
    ) -> NumberedChanges:
        """Return the changes that lead from `before` to `after`, key by key.

        slots: by place. replaced: rows of which the old half of an update is emitted before everything else of the key.
        """
        places = np.concatenate([before.places, after.places])
        ids = np.concatenate([before.ids, after.ids])
        numbers = np.concatenate([before.numbers, after.numbers])
        left = self._different(store, ids, numbers, len(before.ids))
        gone = int(np.count_nonzero(left[: len(before.ids)]))
        places, ids, numbers = places[left], ids[left], numbers[left]
        if self.by in ("key", "number") and replaced is None:
            # A place, or a number of it, has one row: the halves of an update meet in a walk, without a search.
            return self._pair_in_place(store, places, ids, numbers, gone)
        comes = np.arange(len(ids)) >= gone
        partner = self._partners(store, places, ids, numbers, comes, slots)
        twin = partner
        # A row that goes and comes alike is no change, though nothing makes it the half of an update.
        if self.by == "nothing" and 0 < gone < len(ids):
            twin = pair_rows(store, places, ids, comes, slots[places], store.every_column)
        same = np.zeros(len(ids), np.bool_)
        pairs = np.flatnonzero(twin >= 0)
        if len(pairs):
            same[pairs] = mark_same(store, ids[pairs], ids[twin[pairs]], store.every_column)
            if self.numbered:
                # The same row at another number has changed where the number is one of its columns.
                same[pairs] &= numbers[pairs] == numbers[twin[pairs]]
        kinds = name_kinds(comes, partner)
        is_emitted = ~same & (self.update_before | (kinds != UPDATE_BEFORE))
        chosen = self._order(places, ids, numbers, comes, partner, replaced)
        chosen = chosen[is_emitted[chosen]]
        return NumberedChanges(places[chosen], ids[chosen], numbers[chosen], kinds[chosen])

    def _different(
        self, store: RowStore, ids: RowIdArray, numbers: NumberArray, before: int
    ) -> Array:
        """Tell whether each row is not there both before and after, at the same number if that counts."""
        # Zeros between calls (drop_same), so that it is made anew only where the store has grown.
        if len(self._mark) < store.capacity:
            self._mark = np.zeros(store.capacity, np.int32)
        left = np.ones(len(ids), np.bool_)
        drop_same(ids, numbers, before, self.numbered or self.by == "number", self._mark, left)
        return left

    def _pair_in_place(
        self, store: RowStore, places: NumberArray, ids: RowIdArray, numbers: NumberArray, gone: int
    ) -> NumberedChanges:
        """Return the changes where a place, or a number of it, has one row."""
        chosen, kinds = np.empty(len(ids), np.int64), np.empty(len(ids), np.int8)
        count = pair_numbers(
            store.arrays,
            store.every_column,
            places,
            ids=ids,
            numbers=numbers,
            before=gone,
            marked=self.by == "number",
            chosen=chosen,
            kinds=kinds,
        )
        chosen, kinds = chosen[:count], kinds[:count]
        if not self.update_before:
            news = kinds != UPDATE_BEFORE
            chosen, kinds = chosen[news], kinds[news]
        return NumberedChanges(places[chosen], ids[chosen], numbers[chosen], kinds)

    def _partners(
        self,
        store: RowStore,
        places: Array,
        ids: RowIdArray,
        numbers: Array,
        comes: FlagArray,
        slots: SlotArray,
    ) -> Array:
        """Return for each row the one that it replaces or that replaces it, or -1."""
        n = len(ids)
        if self.by == "nothing" or not n:
            return np.full(n, -1, np.int64)
        if self.by == "row":
            return pair_rows(store, places, ids, comes, slots[places], self.identity)
        marks = numbers if self.by == "number" else np.zeros(n, np.int64)
        return pair_marks(places, marks, comes)

    def _order(
        self,
        places: Array,
        ids: RowIdArray,
        numbers: Array,
        comes: FlagArray,
        partner: Array,
        replaced: Array | None,
    ) -> Array:
        """Return the order of changes: by number, or deletions, updates (their halves together) and insertions."""
        if self.by != "number":
            return order_halves(comes, partner, places)
        phase = numbers.copy()
        if replaced is not None:
            # A row that was replaced is emitted before any new row takes a number.
            phase[~comes & np.isin(ids, replaced)] = -1
        # The last of these is the first to sort by.
        return np.lexsort((comes, place_halves(partner), phase, places))
