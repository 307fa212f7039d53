"""The changes of a Join: joined rows that go and come, as the net difference of what its reader sees."""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.differences import name_kinds, order_halves
from aggloom.runtime.operators.join.output_kernels import (
    add_up,
    differ,
    hash_joined,
    name_hashes,
    pair_up,
)
from aggloom.runtime.operators.join.stored_rows import Stored
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.storage.allocation import require_memory
from aggloom.runtime.storage.arena import Array, NumberArray, SelectionArray
from aggloom.runtime.values.batches import empty_columns
from aggloom.runtime.values.changelog import INSERT, UPDATE_BEFORE, Kinds

Columns = list[Array]
"""Numbers of the stored columns of each input."""


class JoinedRows(Protocol):
    """Joined rows by the stored rows that they are made of (-1: padded), and how many of each come (negative: go)."""

    @property
    def ids(self) -> tuple[Array, ...]:
        """The stored rows of each input."""

    @property
    def weight(self) -> Array: ...

    def some(self, which: SelectionArray) -> Self:
        """Those that are marked, or have these numbers."""

    def with_weight(self, weight: NumberArray) -> Self:
        """The same rows, so many of each."""


J = TypeVar("J", bound=JoinedRows)


class OutputSettings(Protocol):
    """The emitted rows: their columns, the unique key that pairs the halves of an update, whether -U is emitted."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def output_key(self) -> tuple[str, ...] | None: ...

    @property
    def update_before(self) -> bool: ...

    @property
    def result(self) -> pa.Schema: ...


class JoinOutput:
    """The changes of joined rows, in the emitted columns."""

    def __init__(self, settings: OutputSettings, state: Stored) -> None:
        self.settings, self.state = settings, state
        self._column_places = self._places(settings.columns)
        key = settings.output_key
        self._key = None if key is None else self._places(key)

    def net(self, rows: JoinedRows) -> Rows:
        """Return the changes that bring a reader up to date: deletions, then updates, then insertions."""
        return self.build_changes(*self.find_changes(rows))

    def find_changes(self, rows: J) -> tuple[J, Kinds]:
        """Return the changes of net as stored rows and kinds, without their columns."""
        weight = rows.weight
        if not len(weight) or weight.min() > 0:
            # Insertions alone replace nothing and cannot cancel each other.
            return rows, np.full(len(weight), INSERT, np.int8)
        partner = self._by_key(rows)
        if partner is None:
            rows = self.cancel_rows(rows)
            partner = self._partners(rows)
        else:
            same = (partner >= 0) & ~self._differ(self._column_places, rows, partner)
            if same.any():
                # The places of the partners among the remaining rows.
                places = np.cumsum(~same) - 1
                partner = np.where(partner >= 0, places[partner], -1)[~same]
                rows = rows.some(~same)
        weight = rows.weight
        comes = weight > 0
        kinds, order = name_kinds(comes, partner), order_halves(comes, partner)
        if not self.settings.update_before:
            order = order[kinds[order] != UPDATE_BEFORE]
        return rows.some(order), kinds[order]

    def build_changes(self, rows: JoinedRows, kinds: Kinds) -> Rows:
        """Return the emitted changes of joined rows, each as often as its weight says."""
        if not len(rows.weight):
            return no_rows(self.settings.result)
        ids, times = rows.ids, np.abs(rows.weight)
        if len(times) and times.max() > 1:
            require_memory(64 * int(times.sum()), "joined rows")
            ids = tuple(np.repeat(each, times) for each in ids)
            kinds = np.repeat(kinds, times)
        column_of: dict[str, pa.Array] = {}
        for side, places, own in zip(self.state.sides, self._column_places, ids, strict=True):
            names = [side.fields[place].name for place in places]
            column_of |= zip(names, side.bag.rows.gather_columns(own, places), strict=True)
        arrays = [column_of[name] for name in self.settings.columns]
        if not arrays:
            return empty_columns(len(kinds)), kinds
        return pa.RecordBatch.from_arrays(arrays, schema=self.settings.result), kinds

    def cancel_rows(self, rows: J) -> J:
        """Return the rows whose insertions and deletions do not cancel, with their net weights."""
        if not len(rows.weight) or rows.weight.max() < 0:
            return rows
        groups, firsts = self._number_rows(rows, self._column_places)
        total = np.zeros(len(firsts), np.int64)
        add_up(groups, rows.weight, total)
        there = total != 0
        return rows.some(firsts[there]).with_weight(total[there])

    def _by_key(self, rows: JoinedRows) -> Array | None:
        """Return the partners if each key has at most one deleted and one inserted row; else None."""
        if self._key is None or np.abs(rows.weight).max() > 1:
            return None
        groups, firsts = self._number_rows(rows, self._key)
        sides = 2 * groups + (rows.weight > 0)
        if np.bincount(sides, minlength=2 * len(firsts)).max() > 1:
            # Two rows of a key on one side: some of them may cancel, which must happen first.
            return None
        return _pairs(groups, firsts, rows.weight)

    def _partners(self, rows: JoinedRows) -> Array:
        """Return for each row the row of its key that it replaces or that replaces it, or -1."""
        if self._key is None:
            return np.full(len(rows.weight), -1, np.int64)
        groups, firsts = self._number_rows(rows, self._key)
        return _pairs(groups, firsts, rows.weight)

    def _number_rows(self, rows: JoinedRows, columns: Columns) -> tuple[Array, Array]:
        """Return for each joined row the number of its equals in some columns, and by number the first of them."""
        n = len(rows.weight)
        hashes, firsts, groups = np.zeros(n, np.int64), *(np.empty(n, np.int64) for _ in range(2))
        for side, places, ids in zip(self.state.sides, columns, rows.ids, strict=True):
            if len(places):
                hash_joined(side.bag.rows.arrays, places, ids, hashes)
        while True:
            # At least twice as many cells as rows, so that an empty one is near.
            table = np.zeros(1 << max(4, int(2 * n - 1).bit_length()), np.int64)
            count = name_hashes(hashes, table, firsts, groups)
            other = self._differ(columns, rows, firsts[groups])
            if not other.any():
                return groups, firsts[:count]
            # Different rows with one hash: those equal to the first of them keep it.
            hashes[other] += 1

    def _differ(self, columns: Columns, rows: JoinedRows, others: NumberArray) -> Array:
        """Tell whether joined rows differ in some columns from those with these numbers; -1: no."""
        out = np.zeros(len(others), np.bool_)
        for side, places, ids in zip(self.state.sides, columns, rows.ids, strict=True):
            if len(places):
                differ(side.bag.rows.arrays, places, ids, others, out)
        return out

    def _places(self, names: tuple[str, ...]) -> Columns:
        return [
            np.array([side.places[n] for n in names if n in side.places], np.int64)
            for side in self.state.sides
        ]


def _pairs(groups: NumberArray, firsts: NumberArray, weight: NumberArray) -> Array:
    partner = np.full(len(weight), -1, np.int64)
    gone, come = (np.full(len(firsts), -1, np.int64) for _ in range(2))
    pair_up(groups, weight, gone, come, partner)
    return partner
