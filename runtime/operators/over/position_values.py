"""Functions that go by where a row stands: numbers, ranks, shares, and the values of other rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.operators.over.bounds import Lines, Standing, find_holes, frame_lines
from aggloom.runtime.operators.over.settings import ColumnCall
from aggloom.runtime.storage.arena import Array, SlotArray
from aggloom.type_layout import is_variant


def standing_values(call: ColumnCall, standing: Standing) -> pa.Array:
    """The values of a call of rows that are there, slot by slot in their order."""
    if call.function in ("LAG", "LEAD", "NTH_VALUE"):
        return _of_others(call, standing)
    sizes = standing.sizes[0]
    if call.function == "ROW_NUMBER":
        return pa.array(standing.position + 1)
    if call.function == "RANK":
        return pa.array(standing.first + 1)
    if call.function == "DENSE_RANK":
        return pa.array(standing.dense + 1)
    if call.function == "PERCENT_RANK":
        # The share of a row that is alone is 0.
        return pa.array(standing.first / np.maximum(sizes - 1, 1))
    if call.function == "CUME_DIST":
        return pa.array(standing.behind / sizes)
    return pa.array(_bucket(standing.position, sizes, call.number))


def _bucket(position: Array, sizes: Array, buckets: int) -> Array:
    """The bucket of each row, from 1 on; the first ones have a row more where the rows do not go into them."""
    least, more = sizes // buckets, sizes % buckets
    # Rows in the larger buckets, which come first.
    large = more * (least + 1)
    inside = (position - large) // np.maximum(least, 1)
    return np.where(position < large, position // (least + 1), more + inside) + 1


def _of_others(call: ColumnCall, standing: Standing) -> pa.Array:
    """The values of other rows of the slot; of one that is not there NULL, or the row's own default."""
    rows, store = standing.rows, standing.rows.rows
    if call.ignores_nulls:
        targets = _with_values(call, standing)
    elif call.function == "NTH_VALUE":
        targets = _count_in(call, standing)
    else:
        shift = call.number if call.function == "LEAD" else -call.number
        targets = standing.position + shift
    there = np.flatnonzero((targets >= 0) & (targets < standing.sizes[0]))
    ids = np.full(len(targets), -1, np.int64)
    ids[there] = _ids_at(rows, standing.slots[there], targets[there])
    values = store.gather_columns(ids, np.array(call.columns[:1]))[0]
    if len(call.columns) < 2:
        return values
    default = store.gather_columns(standing.ids, np.array(call.columns[1:]))[0]
    there = pa.array(ids >= 0)
    if not is_variant(values.type):
        return pc.if_else(there, values, default)
    # Arrow has no kernel for JSON's type, but for the texts below it.
    chosen = pc.if_else(there, values.storage, default.storage)
    return pa.ExtensionArray.from_storage(values.type, chosen)


class _Split(NamedTuple):
    """Frames around the holes of their rows: before `opens`, the row itself where it is kept, from `closes` on."""

    lines: Lines
    opens: Array  # int64[rows]
    closes: Array  # int64[rows]
    keeps: Array  # bool[rows]


def _split_frames(call: ColumnCall, standing: Standing) -> _Split:
    """The frames of rows that are there, around what EXCLUDE leaves out."""
    lines = frame_lines(standing, call.frame)
    holes = find_holes(standing, call.frame)
    starts, stops, own = lines.starts, lines.stops, standing.position
    if holes is None:
        return _Split(lines, stops, stops, np.zeros(len(own), np.bool_))
    opens, closes = np.clip(holes.starts, starts, stops), np.clip(holes.stops, starts, stops)
    return _Split(lines, opens, closes, holes.keeps & (own >= starts) & (own < stops))


def _count_in(call: ColumnCall, standing: Standing) -> Array:
    """The position of the row of this number in each frame; -1: there are fewer."""
    lines, opens, closes, keeps = _split_frames(call, standing)
    skipped, before = call.number - 1, opens - lines.starts
    at = np.where(skipped < before, lines.starts + skipped, closes + skipped - before - keeps)
    at = np.where(keeps & (skipped == before), standing.position, at)
    return np.where(at < lines.stops, at, -1)


def _ids_at(rows: object, slots: SlotArray, positions: Array) -> Array:
    """The row at a position of each slot; neighbouring positions are read together."""
    if not len(slots):
        return slots
    opens = np.r_[True, (slots[1:] != slots[:-1]) | (positions[1:] != positions[:-1] + 1)]
    at = np.flatnonzero(opens)
    lengths = np.diff(np.r_[at, len(slots)])
    starts = positions[at]
    _, ids = rows.collect_between(slots[at], starts, starts + lengths)  # type: ignore[attr-defined]
    return np.asarray(ids)


def _with_values(call: ColumnCall, standing: Standing) -> Array:
    """The positions of the rows asked for among those that have a value; -1: there is none."""
    rows = standing.rows
    slots, place = np.unique(standing.slots, return_inverse=True)
    sizes, _ = rows.sizes(slots)
    _, ids = rows.collect_between(slots, np.zeros(len(slots), np.int64), sizes)
    column = rows.rows.gather_columns(ids, np.array(call.columns[:1]))[0]
    valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    opens = np.r_[0, np.cumsum(sizes)]
    # How many values precede each row, in all slots together.
    before = np.r_[0, np.cumsum(valid)]
    valued = np.flatnonzero(valid)
    base = opens[place]
    if call.function == "NTH_VALUE":
        return _nth(call, standing, base, before, valued)
    here = base + standing.position
    if call.function == "LAG":
        target = before[here] - call.number if call.number else before[here]
        inside = target >= before[base]
    else:
        target = before[here + 1] + call.number - 1 if call.number else before[here]
        inside = target < before[opens[place + 1]]
    if not call.number:
        return standing.position
    # Clipped to what can be read; what was outside becomes -1 below.
    at = valued[np.clip(target, 0, max(len(valued) - 1, 0))] if len(valued) else here
    return np.where(inside & (len(valued) > 0), at - base, -1)


def _nth(call: ColumnCall, standing: Standing, base: Array, before: Array, valued: Array) -> Array:
    """The position of the row of this number among those of each frame that have a value; -1: there are fewer."""
    if not len(valued):
        return np.full(len(base), -1, np.int64)
    lines, opens, closes, keeps = _split_frames(call, standing)
    own = base + standing.position
    own_stays = keeps & (before[own + 1] > before[own])
    first, skipped = before[base + lines.starts], call.number - 1
    ahead = before[base + opens] - first
    target = np.where(skipped < ahead, first, before[base + closes] - ahead - own_stays) + skipped
    inside = target < before[base + lines.stops]
    # Clipped to what can be read; what was outside becomes -1 below.
    at = valued[np.clip(target, 0, len(valued) - 1)] - base
    places = np.where(inside, at, -1)
    return np.where(own_stays & (skipped == ahead), standing.position, places)
