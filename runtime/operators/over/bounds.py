"""The bounds of frames: by row the positions of the first row in its frame and of the one behind the last."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.codegen import Bound, FrameClause
from aggloom.runtime.operators.over.distances import key_at
from aggloom.runtime.state.sorted_rows import SortedRows
from aggloom.runtime.storage.arena import Array, FlagArray, RowIdArray, SlotArray
from aggloom.runtime.storage.pool import Pool

_FARTHEST = 1 << 40
"""An offset that leads beyond all rows."""


class Lines(NamedTuple):
    """Positions by row: from one on, up to before another."""

    starts: Array  # int64[rows]
    stops: Array  # int64[rows]


class Holes(NamedTuple):
    """Positions by row that its frame leaves out: from one on, up to before another. keeps: but for the row itself."""

    starts: Array  # int64[rows]
    stops: Array  # int64[rows]
    keeps: bool


class Standing:
    """The places of rows among those of their slots; they may have left, and then stand where they would.

    slots: by row. positions, sizes: by row, where they are known already.
    """

    def __init__(
        self,
        rows: SortedRows,
        pool: Pool,
        slots: SlotArray,
        ids: RowIdArray,
        positions: Array | None = None,
        sizes: tuple[Array, Array] | None = None,
    ) -> None:
        self.rows, self.pool, self.slots, self.ids = rows, pool, slots, ids
        self._positions, self._sizes = positions, sizes

    @cached_property
    def places(self) -> tuple[Array, Array, Array]:
        standing = self.rows.places(self.ids)
        return standing.position, standing.rank, standing.dense_rank

    @property
    def position(self) -> Array:
        """Number of rows that precede each."""
        if self._positions is None:
            self._positions = self.rows.positions(self.ids)
        return self._positions

    @property
    def sizes(self) -> tuple[Array, Array]:
        """The rows and the distinct sort keys of each one's slot."""
        if self._sizes is None:
            self._sizes = self.rows.sizes(self.slots)
        return self._sizes

    @property
    def first(self) -> Array:
        """The position of the first of those that tie with each."""
        return self.places[1]

    @property
    def dense(self) -> Array:
        """Number of distinct sort keys that precede each one's own."""
        return self.places[2]

    @cached_property
    def words(self) -> tuple[Array, Array]:
        """The sort key of each, as it is stored."""
        arrays = self.rows.arrays
        return arrays.word[self.ids], arrays.arrival[self.ids] >> 60

    @cached_property
    def behind(self) -> Array:
        """The position behind the last of those that tie with each."""
        return self.rows.before(self.slots, *self.words, equals=True)

    @cached_property
    def values(self) -> pa.Array:
        """The column by which they are ordered, where there is one."""
        column = np.array([self.rows.key.columns[0].column])
        return self.rows.rows.gather_columns(self.ids, column)[0]

    @cached_property
    def _null(self) -> Array:
        return np.asarray(self.values.is_null().to_numpy(zero_copy_only=False))

    def group_starts(self, offset: int) -> Array:
        """The position of the first row of the sort key that comes so many after each one's own; there may be none."""
        keys = self.dense + max(-_FARTHEST, min(_FARTHEST, offset))
        starts = self.rows.key_starts(self.slots, np.maximum(keys, 0))
        return np.where(keys < 0, 0, starts)

    def at(self, distance: str, *, equals: bool) -> Array:
        """Return the number of rows before the sort keys at a distance from these; `equals`: or that have them."""
        word, tier, beyond = key_at(self.values, distance, self.rows.key.columns[0], self.pool)
        before = self.rows.before(self.slots, word, tier, equals=equals)
        follows = not distance.startswith("-")
        if equals != follows and beyond.any():
            # What lies beyond the last value of the type lies behind, or before, the rows that have it, too.
            there = self.rows.before(self.slots, word, tier, equals=follows)
            before = np.where(beyond, there, before)
        # NULLs lie at no distance but among themselves.
        return np.where(self._null, self.behind if equals else self.first, before)


def frame_lines(standing: Standing, frame: FrameClause) -> Lines:
    """The frames of rows that are there."""
    sizes = standing.sizes[0]
    starts = np.clip(_start(standing, frame, frame.start), 0, sizes)
    stops = np.clip(_stop(standing, frame, frame.end), 0, sizes)
    return Lines(starts, np.maximum(starts, stops))


def find_holes(standing: Standing, frame: FrameClause) -> Holes | None:
    """The rows that EXCLUDE leaves out of the frames of rows that are there; None: it leaves out none."""
    if not frame.exclude:
        return None
    if frame.exclude == "CURRENT ROW":
        return Holes(standing.position, standing.position + 1, False)
    return Holes(standing.first, standing.behind, frame.exclude == "TIES")


def _start(standing: Standing, frame: FrameClause, bound: Bound) -> Array:
    if bound is None:
        return np.zeros(len(standing.slots), np.int64)
    if frame.rows:
        return standing.position + int(bound)
    if frame.groups and bound:
        return standing.group_starts(int(bound))
    return standing.first if not isinstance(bound, str) else standing.at(bound, equals=False)


def _stop(standing: Standing, frame: FrameClause, bound: Bound) -> Array:
    if bound is None:
        return standing.sizes[0]
    if frame.rows:
        return standing.position + int(bound) + 1
    if frame.groups and bound:
        return standing.group_starts(int(bound) + 1)
    return standing.behind if not isinstance(bound, str) else standing.at(bound, equals=True)


def touched_lines(standing: Standing, frame: FrameClause, inserted: FlagArray) -> Lines:
    """The rows whose frames these inserted or removed rows change; positions are the current ones."""
    first, last = frame.start, frame.end
    if frame.rows or frame.groups:
        # Rows, or groups, between a frame and its row shift it, too.
        first = None if first is None else min(int(first), 0)
        last = None if last is None else max(int(last), 0)
    if frame.groups:
        # A group more or less shifts those around it by one.
        first = None if first is None else int(first) - 1
        last = None if last is None else int(last) + 1
    starts = _start(standing, frame, _mirror_bound(last))
    stops = _stop(standing, frame, _mirror_bound(first))
    if frame.rows and first is not None:
        # Where a row went, there is one less behind it.
        stops = stops - ~inserted
    return Lines(starts, stops)


def _mirror_bound(bound: Bound) -> Bound:
    if bound is None or not bound:
        return bound
    if isinstance(bound, int):
        return -bound
    return bound[1:] if bound.startswith("-") else f"-{bound}"
