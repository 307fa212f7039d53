"""The messages of a Join: joined rows that go and come, as the net difference of what its reader sees."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.join.matches import Weighted
from aggloom.runtime.operators.join.output_kernels import add_up, name_rows, pair_up
from aggloom.runtime.operators.join.settings import JoinSettings
from aggloom.runtime.operators.join.state import JoinState
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Kinds

Columns = tuple[Array, Array]
"""Numbers of stored columns of the left and of the right."""


class Output:
    """Tells which joined rows go and come, in the columns that leave."""

    def __init__(self, settings: JoinSettings, state: JoinState) -> None:
        self.settings, self.state = settings, state
        self._shown = self._places(settings.columns)
        key = settings.output_key
        self._key = None if key is None else self._places(key)

    def net(self, rows: Weighted) -> Rows:
        """The messages by which a reader comes to what is now: first what goes, then what changes, then what comes."""
        left, right, weight = rows
        if not len(weight):
            return no_rows(self.settings.result)
        if weight.min() > 0:
            return self.messages(rows, np.full(len(weight), INSERT, np.int8))
        if weight.max() > 0:
            groups, firsts = self._named(rows, self._shown)
            total = np.zeros(len(firsts), np.int64)
            add_up(groups, weight, total)
            left_over = total != 0
            firsts, weight = firsts[left_over], total[left_over]
            left, right = left[firsts], right[firsts]
        kinds = np.where(weight > 0, INSERT, DELETE).astype(np.int8)
        partner = np.full(len(weight), -1, np.int64)
        if self._key is not None:
            groups, firsts = self._named(Weighted(left, right, weight), self._key)
            gone, come = (np.full(len(firsts), -1, np.int64) for _ in range(2))
            pair_up(groups, weight, gone, come, partner)
        paired = partner >= 0
        kinds[paired] = np.where(weight[paired] > 0, UPDATE_AFTER, UPDATE_BEFORE)
        phase = np.where(paired, 1, np.where(weight > 0, 2, 0))
        places = np.arange(len(weight))
        seat = np.where(paired, np.minimum(places, partner), places)
        order = np.lexsort((weight > 0, seat, phase))
        if not self.settings.update_before:
            order = order[kinds[order] != UPDATE_BEFORE]
        return self.messages(Weighted(left[order], right[order], weight[order]), kinds[order])

    def messages(self, rows: Weighted, kinds: Kinds) -> Rows:
        """Joined rows as they leave, each as often as its weight says."""
        left, right, weight = rows
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

    def _named(self, rows: Weighted, columns: Columns) -> tuple[Array, Array]:
        """By joined row the number of its equals in some columns, and by number the first of them."""
        n = len(rows.left)
        hashes, firsts, groups = (np.empty(n, np.int64) for _ in range(3))
        table = np.zeros(1 << max(4, int(2 * n - 1).bit_length()), np.int32)
        left, right = (side.bag.rows.arrays for side in self.state.sides)
        found = name_rows(
            left, right, *columns, rows.left, rows.right, table, hashes, firsts, groups
        )
        return groups, firsts[:found]

    def _places(self, names: tuple[str, ...]) -> Columns:
        left, right = (
            np.array([side.places[n] for n in names if n in side.settings.kept], np.int64)
            for side in self.state.sides
        )
        return left, right
