"""The values of all functions of rows that are there, stretch by stretch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.over.bounds import Holes, Lines, Standing, find_holes, frame_lines
from aggloom.runtime.operators.over.exclusion import HoledLines, slide_around
from aggloom.runtime.operators.over.position_values import standing_values
from aggloom.runtime.operators.over.settings import OverSettings
from aggloom.runtime.operators.over.sliding import slide
from aggloom.runtime.state.sorted_rows import SortedRows
from aggloom.runtime.storage.arena import Array, NumberArray, RowIdArray
from aggloom.runtime.values.batches import empty_columns


class Computing:
    """Computes values over sorted rows. handler: of the aggregates; None if there are none."""

    def __init__(self, spec: OverSettings, handler: Any) -> None:
        self.spec, self.handler = spec, handler
        self._read = np.zeros(0, np.int64)
        if spec.spec is not None:
            names = spec.spec.handler_schema.names
            self._read = np.array([spec.schema.get_field_index(n) for n in names], np.int64)

    def some(
        self,
        rows: SortedRows,
        standing: Standing,
        stretch: NumberArray,
        place: Callable[[int], str],
        is_needed: list[bool],
    ) -> list[Any]:
        """Return the `values` of the calls that are needed; None for the others."""
        spec = self.spec
        columns: list[Any] = [None] * len(spec.calls)
        for number, call in enumerate(spec.calls):
            if call.function and is_needed[number]:
                columns[number] = standing_values(call, standing)
        aggregates = spec.aggregates
        fields = [spec.results[number] for number in aggregates]
        for frame in dict.fromkeys(spec.calls[number].frame for number in aggregates):
            lines = frame_lines(standing, frame)
            holes = find_holes(standing, frame)
            results = self._slid(rows, standing, stretch, lines, holes, fields=fields, place=place)
            for number, column in zip(aggregates, results, strict=True):
                if spec.calls[number].frame == frame:
                    columns[number] = column
        return columns

    def values(
        self,
        rows: SortedRows,
        standing: Standing,
        stretch: NumberArray,
        place: Callable[[int], str],
    ) -> pa.RecordBatch:
        """The values of rows. stretch: by row the number of the stretch of neighbours that it is in, rising.

        place: how messages name the key of a stretch.
        """
        columns = self.some(rows, standing, stretch, place, [True] * len(self.spec.calls))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(self.spec.results))

    def _slid(
        self,
        rows: SortedRows,
        standing: Standing,
        stretch: Array,
        lines: Lines,
        holes: Holes | None,
        *,
        fields: list[pa.Field],
        place: Callable[[int], str],
    ) -> list[pa.Array]:
        """The aggregates over frames, of which every one reads all rows of its stretch."""
        count = int(stretch[-1]) + 1 if len(stretch) else 0
        opens = np.flatnonzero(np.r_[True, stretch[1:] != stretch[:-1]]) if count else stretch
        if not count:
            return [pa.array([], field.type) for field in fields]
        # Frames never go back: the first one's start and the last one's end bound them all.
        last = np.r_[opens[1:] - 1, len(stretch) - 1]
        first, until = lines.starts[opens], lines.stops[last]
        lengths = np.maximum(until - first, 0)
        _, ids = rows.collect_within(standing.slots[opens], first, first + lengths)
        # Positions in slots become places in the batch, in which the stretches lie one behind the other.
        shift = np.r_[0, np.cumsum(lengths)[:-1]] - first
        batch = self._inputs(rows, ids)
        here = shift[stretch]
        frames = stretch, lines.starts + here, lines.stops + here
        if holes is not None:
            moved = Holes(holes.starts + here, holes.stops + here, holes.keeps)
            holed = HoledLines(*frames, standing.position + here, moved)
            order = self.spec.adds_in_order
            return slide_around(self.handler, batch, holed, fields, place, in_order=order)
        return slide(self.handler, batch, count, frames, fields, place)

    def _inputs(self, rows: SortedRows, ids: RowIdArray) -> pa.RecordBatch:
        """Return the values that the handler reads of rows."""
        if not len(self._read):
            return empty_columns(len(ids))
        names = self.spec.spec.handler_schema.names if self.spec.spec else []
        return pa.RecordBatch.from_arrays(rows.rows.gather_columns(ids, self._read), names)
