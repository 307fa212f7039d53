"""The messages of a Join: joined rows that go and come, as the net difference of what its reader sees."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.join.matches import Weighted
from aggloom.runtime.operators.join.output_kernels import (
    add_up,
    hash_joined,
    name_rows,
    pair_up,
    same_joined,
)
from aggloom.runtime.operators.join.stored import Stored
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.state.row_store import RowArrays
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Kinds

Columns = tuple[Array, Array]
"""Numbers of stored columns of the left and of the right."""


class Shown(Protocol):
    """What leaves: the columns, those by which an update is told, and whether its old half is."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def output_key(self) -> tuple[str, ...] | None: ...

    @property
    def update_before(self) -> bool: ...

    @property
    def result(self) -> pa.Schema: ...


class Output:
    """Tells which joined rows go and come, in the columns that leave."""

    def __init__(self, settings: Shown, state: Stored) -> None:
        self.settings, self.state = settings, state
        self._shown = self._places(settings.columns)
        key = settings.output_key
        self._key = None if key is None else self._places(key)

    def net(self, rows: Weighted) -> Rows:
        """The messages by which a reader comes to what is now: first what goes, then what changes, then what comes."""
        return self.messages(*self.told(rows))

    def told(self, rows: Weighted) -> tuple[Weighted, Kinds]:
        """As net, as the stored rows that messages are made of."""
        left, right, weight = rows
        if not len(weight) or weight.min() > 0:
            return rows, np.full(len(weight), INSERT, np.int8)
        partner = self._by_key(rows)
        if partner is None:
            rows = self._left_over(rows)
            left, right, weight = rows
            partner = self._partners(rows)
        else:
            same = np.zeros(len(weight), np.bool_)
            same_joined(*self._arrays, *self._shown, left, right, partner, same)
            if same.any():
                places = np.cumsum(~same) - 1
                partner = np.where(partner >= 0, places[partner], -1)[~same]
                left, right, weight = left[~same], right[~same], weight[~same]
        kinds = np.where(weight > 0, INSERT, DELETE).astype(np.int8)
        paired = partner >= 0
        kinds[paired] = np.where(weight[paired] > 0, UPDATE_AFTER, UPDATE_BEFORE)
        phase = np.where(paired, 1, np.where(weight > 0, 2, 0))
        places = np.arange(len(weight))
        seat = np.where(paired, np.minimum(places, partner), places)
        order = np.lexsort((weight > 0, seat, phase))
        if not self.settings.update_before:
            order = order[kinds[order] != UPDATE_BEFORE]
        return Weighted(left[order], right[order], weight[order]), kinds[order]

    def messages(self, rows: Weighted, kinds: Kinds) -> Rows:
        """Joined rows as they leave, each as often as its weight says."""
        left, right, weight = rows
        if not len(weight):
            return no_rows(self.settings.result)
        times = np.abs(weight)
        if len(times) and times.max() > 1:
            left, right = np.repeat(left, times), np.repeat(right, times)
            kinds = np.repeat(kinds, times)
        found: dict[str, pa.Array] = {}
        for side, places, ids in zip(self.state.sides, self._shown, (left, right), strict=True):
            names = [side.fields[place].name for place in places]
            found |= zip(names, side.bag.rows.gather_columns(ids, places), strict=True)
        arrays = [found[name] for name in self.settings.columns]
        if not arrays:
            return (
                pa.RecordBatch.from_struct_array(pa.array([{}] * len(kinds), pa.struct([]))),
                kinds,
            )
        return pa.RecordBatch.from_arrays(arrays, schema=self.settings.result), kinds

    def _by_key(self, rows: Weighted) -> Array | None:
        """As `_partners` at once, where each key has one row that goes and one that comes at most; else None."""
        if self._key is None or np.abs(rows.weight).max() > 1:
            return None
        groups, firsts = self._named(rows, self._key)
        sides = 2 * groups + (rows.weight > 0)
        if np.bincount(sides, minlength=2 * len(firsts)).max() > 1:
            return None
        return _pairs(groups, firsts, rows.weight)

    def _left_over(self, rows: Weighted) -> Weighted:
        """The rows that do not go as often as they come."""
        if rows.weight.max() < 0:
            return rows
        groups, firsts = self._named(rows, self._shown)
        total = np.zeros(len(firsts), np.int64)
        add_up(groups, rows.weight, total)
        there = total != 0
        firsts = firsts[there]
        return Weighted(rows.left[firsts], rows.right[firsts], total[there])

    def _partners(self, rows: Weighted) -> Array:
        """By row the one of its key that it replaces or that replaces it, or -1."""
        if self._key is None:
            return np.full(len(rows.weight), -1, np.int64)
        groups, firsts = self._named(rows, self._key)
        return _pairs(groups, firsts, rows.weight)

    def _named(self, rows: Weighted, columns: Columns) -> tuple[Array, Array]:
        """By joined row the number of its equals in some columns, and by number the first of them."""
        n = len(rows.left)
        hashes, firsts, groups = (np.empty(n, np.int64) for _ in range(3))
        table = np.zeros(1 << max(4, int(2 * n - 1).bit_length()), np.int64)
        joined = *self._arrays, *columns, rows.left, rows.right, hashes
        hash_joined(*joined)
        found = name_rows(*joined, table, firsts, groups)
        return groups, firsts[:found]

    @property
    def _arrays(self) -> tuple[RowArrays, RowArrays]:
        left, right = self.state.sides
        return left.bag.rows.arrays, right.bag.rows.arrays

    def _places(self, names: tuple[str, ...]) -> Columns:
        left, right = (
            np.array([side.places[n] for n in names if n in side.places], np.int64)
            for side in self.state.sides
        )
        return left, right


def _pairs(groups: Array, firsts: Array, weight: Array) -> Array:
    partner = np.full(len(weight), -1, np.int64)
    gone, come = (np.full(len(firsts), -1, np.int64) for _ in range(2))
    pair_up(groups, weight, gone, come, partner)
    return partner
