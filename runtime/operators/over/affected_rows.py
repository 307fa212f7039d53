"""The reach of changes: which rows have to be computed again after rows were inserted and removed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.codegen import FrameClause
from aggloom.runtime.operators.over.bounds import Lines, Standing, touched_lines
from aggloom.runtime.operators.over.settings import ColumnCall
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray

_SHIFT = 32
_COUNTING = ("ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE")
_OF_ALL = ("PERCENT_RANK", "CUME_DIST", "NTILE")


class Stretches(NamedTuple):
    """Stretches of rows, in order and apart: the place of the slot, and positions."""

    places: Array  # int64[stretches]
    starts: Array  # int64[stretches]
    stops: Array  # int64[stretches]


class Balance(NamedTuple):
    """The balance by place of a slot: whether it has as many rows, and as many distinct sort keys, as it had."""

    rows: Array  # bool[keys]
    keys: Array  # bool[keys]


def reach(
    calls: tuple[ColumnCall, ...],
    standing: Standing,
    places: NumberArray,
    inserted: FlagArray,
    balance: Balance,
) -> Stretches:
    """The rows that changes touch; places: of the slots of the changed rows. inserted: which of these are there."""
    position, sizes = standing.position, standing.sizes[0]
    # A changed row itself is computed anew, if it is still there.
    parts = [Lines(position, position + inserted)]
    # Calls with one frame reach the same rows, which are looked for once.
    for call in {_key(call): call for call in calls}.values():
        if call.function in _COUNTING:
            parts.append(_reach_count(call, standing, places, balance))
            continue
        lines = touched_lines(standing, _frame(call), inserted)
        parts.append(lines)
    every = np.tile(places, len(parts))
    starts = np.clip(np.concatenate([p.starts for p in parts]), 0, None)
    stops = np.minimum(np.concatenate([p.stops for p in parts]), np.tile(sizes, len(parts)))
    return _merge_stretches(every, starts, stops)


def _key(call: ColumnCall) -> tuple[object, ...]:
    """Return the properties of a call that its reach follows from."""
    if call.function in _COUNTING:
        return (call.function,)
    frame = _frame(call)
    return frame.rows, frame.groups, frame.start, frame.end


def _frame(call: ColumnCall) -> FrameClause:
    """The rows that a call looks at."""
    if call.function == "LAG":
        return FrameClause(True, None if call.ignores_nulls else -call.number, 0)
    if call.function == "LEAD":
        return FrameClause(True, 0, None if call.ignores_nulls else call.number)
    return call.frame


def _reach_count(call: ColumnCall, standing: Standing, places: Array, balance: Balance) -> Lines:
    """The rows that are counted again: all that follow, or, if as many were added as removed, those between."""
    sizes = standing.sizes[0]
    balanced = (balance.keys if call.function == "DENSE_RANK" else balance.rows)[places]
    starts = standing.first
    if call.function in _OF_ALL:
        starts = np.where(balanced, starts, 0)
    last = np.zeros(int(places.max(initial=-1)) + 1, np.int64)
    if balanced.any():
        np.maximum.at(last, places, standing.behind)
        return Lines(starts, np.where(balanced, last[places], sizes))
    return Lines(starts, sizes)


def _merge_stretches(places: Array, starts: Array, stops: Array) -> Stretches:
    """The same rows, each once."""
    some = starts < stops
    places, starts, stops = places[some], starts[some], stops[some]
    # Slot and position in one number, so that the stretches of all slots are sorted at once.
    firsts, lasts = (places << _SHIFT) + starts, (places << _SHIFT) + stops
    order = np.argsort(firsts, kind="stable")
    firsts, lasts = firsts[order], lasts[order]
    # A stretch may end behind those that begin after it: the farthest end so far counts.
    ends = np.maximum.accumulate(lasts)
    opens = np.ones(len(firsts), np.bool_)
    # Slots lie so far apart that no stretch reaches the next one's.
    opens[1:] = firsts[1:] > ends[:-1]
    at = np.flatnonzero(opens)
    closes = np.r_[at[1:] - 1, len(firsts) - 1] if len(at) else at
    mask = (1 << _SHIFT) - 1
    return Stretches(firsts[at] >> _SHIFT, firsts[at] & mask, ends[closes] & mask)
