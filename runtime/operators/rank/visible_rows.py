"""The rows of keys that are seen: those whose number is in the range that is asked for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.operators.rank.kernels import DENSE_RANK, RANK, ROW_NUMBER
from aggloom.runtime.state.sorted_rows import SortedRows
from aggloom.runtime.storage.arena import Array, NumberArray, SlotArray

FUNCTIONS = {"ROW_NUMBER": ROW_NUMBER, "RANK": RANK, "DENSE_RANK": DENSE_RANK}


class VisibleRows(NamedTuple):
    """Rows, key by key in their order: the key's place in the list that was asked about, the row, its number."""

    places: Array  # int64[rows]
    ids: Array  # int64[rows]
    numbers: Array  # int64[rows]


def ends_of(rows: SortedRows, function: int, slots: SlotArray, ends: NumberArray) -> Array:
    """The position behind the last row of each slot with a number up to its end."""
    sizes, keys = rows.sizes(slots)
    if function == ROW_NUMBER:
        return np.minimum(np.maximum(ends, 0), sizes)
    if function == DENSE_RANK:
        count = np.minimum(np.maximum(ends, 0), keys)
        return np.where(count < keys, rows.key_starts(slots, count), sizes)
    return _after_ties(rows, slots, np.maximum(ends, 0), sizes)


def find_visible(
    rows: SortedRows, function: int, slots: SlotArray, start: int, ends: NumberArray
) -> VisibleRows:
    """The rows of slots that are numbered from `start` to the end of each."""
    # Positions behind the last row are none.
    stops = ends if function == ROW_NUMBER else ends_of(rows, function, slots, ends)
    first = np.full(len(slots), start - 1, np.int64)
    plain = start == 1 or function == ROW_NUMBER
    starts = first if plain else ends_of(rows, function, slots, first)
    places, ids = rows.collect_between(slots, starts, stops)
    if function == ROW_NUMBER:
        opens = np.flatnonzero(np.r_[True, places[1:] != places[:-1]]) if len(places) else places
        lengths = np.diff(np.r_[opens, len(places)])
        # Numbers continue from `start` within a key, and begin anew with the next.
        numbers = start + np.arange(len(places)) - np.repeat(opens, lengths)
    else:
        standing = rows.places(ids)
        numbers = 1 + (standing.rank if function == RANK else standing.dense_rank)
    return VisibleRows(places, ids, numbers)


def _after_ties(rows: SortedRows, slots: SlotArray, ends: Array, sizes: Array) -> Array:
    """The position behind the rows that tie with the one at position `ends` - 1."""
    out = np.minimum(ends, sizes)
    cut = np.flatnonzero((ends > 0) & (ends < sizes))
    if len(cut):
        _, ids = rows.collect_between(slots[cut], ends[cut] - 1, ends[cut])
        keys = rows.places(ids).dense_rank + 1
        _, every = rows.sizes(slots[cut])
        starts = rows.key_starts(slots[cut], keys)
        out[cut] = np.where(keys < every, starts, sizes[cut])
    return out
