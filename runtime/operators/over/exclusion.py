"""Aggregates over frames with a hole around the row: what EXCLUDE leaves out is retracted, and added again afterwards.

Functions by arrival and those that take no row back are computed anew for each row, over what its frame leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.codegen.windows import count_up
from aggloom.runtime.operators.over.bounds import Holes
from aggloom.runtime.operators.over.sliding import Steps, results_of_steps
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.jit import kernel

_MOST_STEPS = 1 << 22
"""The number of rows, roughly, that are added up together where each frame is computed by itself."""


class HoledLines(NamedTuple):
    """Frames by row: the stretch of each, the first row in it, the one behind the last, its own row, its hole."""

    stretch: Array  # int64[rows]
    starts: Array  # int64[rows]
    stops: Array  # int64[rows]
    own: Array  # int64[rows]
    holes: Holes


@kernel
def _steps(
    stretch: Array,
    starts: Array,
    stops: Array,
    own: Array,
    opens: Array,
    closes: Array,
    keeps: bool,
    rows: Array,
    retracts: Array,
    stretches: Array,
    items: Array,
    values: Array,
    write: bool,
) -> int:
    """Lay out what is done for each row in order, and return how many steps. values: by row its item, or -1."""
    n, item = np.int64(0), np.int64(-1)
    first, last = np.int64(0), np.int64(0)
    for k in range(len(stretch)):
        start, stop, before = starts[k], stops[k], n
        fresh = k == 0 or stretch[k] != stretch[k - 1]
        if fresh:
            first = last = start
        # What the row before has left out comes back, then the frame moves on, then this row's hole is made. Rows of
        # all three are laid out in this order, each as (from, until, whether they are retracted, which one is passed).
        for part in range(4):
            low, high, takes, passed = np.int64(0), np.int64(0), False, np.int64(-1)
            if part == 0 and not fresh:
                low, high = max(opens[k - 1], first), min(closes[k - 1], last)
                passed = own[k - 1] if keeps else np.int64(-1)
            elif part == 1:
                low, high, takes = first, last if start >= last else start, True
            elif part == 2:
                low, high = start if start >= last else last, stop
            elif part == 3:
                low, high, takes = max(opens[k], start), min(closes[k], stop), True
                passed = own[k] if keeps else np.int64(-1)
            for r in range(low, high):
                if r == passed:
                    continue
                if write:
                    rows[n], retracts[n], stretches[n], items[n] = r, takes, stretch[k], item + 1
                n += 1
        low, high = max(opens[k], start), min(closes[k], stop)
        left = max(stop - start, 0) - max(high - low, 0)
        left += keeps and start <= own[k] < stop
        item += n > before
        first, last = start, stop
        if write:
            values[k] = item if left > 0 else -1
    return int(n)


def _take_out(lines: HoledLines) -> tuple[Steps, Array]:
    """The steps of frames, which never go back within a stretch, and by row the item that has its values, or -1."""
    none, flags = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    holes = lines.holes
    frames = *lines[:4], holes.starts, holes.stops, holes.keeps
    # Twice: the first walk counts, so that the second has room for what it writes.
    count = _steps(
        *frames, rows=none, retracts=flags, stretches=none, items=none, values=none, write=False
    )
    rows, owners, items = (np.empty(count, np.int64) for _ in range(3))
    retracts, values = np.empty(count, np.bool_), np.empty(len(lines.stretch), np.int64)
    _steps(
        *frames,
        rows=rows,
        retracts=retracts,
        stretches=owners,
        items=items,
        values=values,
        write=True,
    )
    return Steps(rows, retracts, owners, items), values


def slide_around(
    handler: Any,
    batch: pa.RecordBatch,
    lines: HoledLines,
    fields: list[pa.Field],
    place: Callable[[int], str],
    *,
    in_order: bool,
) -> list[pa.Array]:
    """The results of a handler over frames with holes, of the rows of a batch.

    place: how messages name the key of a stretch. in_order: the order in which rows are added counts.
    """
    if not in_order:
        steps, values = _take_out(lines)
        stretches = int(lines.stretch[-1]) + 1 if len(lines.stretch) else 0
        return results_of_steps(
            handler, batch, stretches, steps, values, fields=fields, place=place
        )
    parts = []
    for steps, values, owners in _add_anew(lines):
        named = partial(_name_row, place, owners)
        parts.append(
            results_of_steps(handler, batch, len(values), steps, values, fields=fields, place=named)
        )
    return [pa.concat_arrays(list(columns)) for columns in zip(*parts, strict=True)]


def _name_row(place: Callable[[int], str], owners: Array, row: int) -> str:
    """The key of a row in words; owners: by row its stretch (int64[n])."""
    return place(int(owners[row]))


def _add_anew(lines: HoledLines) -> Iterator[tuple[Steps, Array, Array]]:
    """The steps of each frame by itself, some frames at a time, their items, and the stretch of each frame."""
    lengths = np.maximum(lines.stops - lines.starts, 0)
    cuts = np.flatnonzero(np.diff(np.cumsum(lengths) // _MOST_STEPS)) + 1
    for some in np.split(np.arange(len(lengths)), cuts):
        rows = np.repeat(lines.starts[some], lengths[some]) + count_up(lengths[some])
        frame = np.repeat(np.arange(len(some)), lengths[some])
        inside = rows >= lines.holes.starts[some][frame]
        inside &= rows < lines.holes.stops[some][frame]
        if lines.holes.keeps:
            inside &= rows != lines.own[some][frame]
        rows, frame = rows[~inside], frame[~inside]
        known = np.zeros(len(some), np.bool_)
        known[frame] = True
        numbers = np.cumsum(known) - 1
        steps = Steps(rows, np.zeros(len(rows), np.bool_), frame, numbers[frame])
        yield steps, np.where(known, numbers, -1), lines.stretch[some]
