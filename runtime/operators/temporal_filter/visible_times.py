"""The times between which rows are there, by the comparisons of the clock with their columns.

The clock has milliseconds, and values have microseconds: a bound is rounded so that a comparison of the clock, taken
as microseconds, would say the same at each of its milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.codegen.windows import to_instants, to_local
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray
from aggloom.runtime.values import scalars
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL

_DAY_US: Final = 86_400_000_000
_DAY_MS: Final = 86_400_000
_FIRST: Final = -62_135_596_800_000_000
"""The start of the year 1 in microseconds; a moment before it is before every clock."""
_LAST: Final = 253_402_300_800_000_000
"""The end of the year 9999; a moment after it is one that no clock comes to."""


@dataclass(frozen=True, kw_only=True)
class BoundSettings:
    """A comparison of the clock with columns of a row, by their numbers; see TimeBound."""

    sign: Literal["<", "<=", ">", ">="]
    clock: Literal["instant", "wall", "date"]
    column: int
    shift: int = 0
    unless: int | None = None


def visible_times(
    batch: pa.RecordBatch, bounds: Sequence[BoundSettings], zone: str
) -> tuple[Array, Array]:
    """Return the first millisecond at which each row is there, and the first at which it is no more (int64[n]).

    A row is never there where the second is not after the first. zone: on whose clocks wall clocks and dates lie.

    Example:
        >>> day = pa.array([1], pa.date32())
        >>> today = [BoundSettings(sign=sign, clock="date", column=0) for sign in ("<=", ">=")]
        >>> [int(times[0]) for times in visible_times(pa.record_batch([day], ["d"]), today, "UTC")]
        [86400000, 172800000]
    """
    n = batch.num_rows
    first, end = np.full(n, BEFORE_ALL, np.int64), np.full(n, AFTER_ALL, np.int64)
    for bound in bounds:
        column = batch.column(bound.column)
        moments = _moments(column, bound, zone)
        ends = bound.sign in ("<", "<=")
        # A comparison with NULL is never true.
        missing = BEFORE_ALL if ends else AFTER_ALL
        moments = np.where(scalars.validity(column), moments, missing)
        if bound.unless is not None:
            passes = _is_true(batch.column(bound.unless))
            moments = np.where(passes, AFTER_ALL if ends else BEFORE_ALL, moments)
        if ends:
            end = np.minimum(end, moments)
        else:
            first = np.maximum(first, moments)
    return first, end


def _moments(column: pa.Array, bound: BoundSettings, zone: str) -> Array:
    """The milliseconds before which, or from which on, a comparison holds."""
    if bound.clock == "date":
        return _midnights(_days(column, bound.sign, zone) + bound.shift, bound.sign, zone)
    if _is_date(column) or column.type.tz is None:
        wall = _microseconds(column)
        if bound.clock == "wall":
            return _to_instants(_round(wall + bound.shift, bound.sign), zone)
        # The times of a zone become instants before the clock is moved.
        micros = _to_instants(wall // 1000, zone) * 1000 + wall % 1000
        return _within(_round(micros + bound.shift, bound.sign))
    return _within(_round(_microseconds(column) + bound.shift, bound.sign))


def _days(column: pa.Array, sign: str, zone: str) -> Array:
    """The days since 1970 with which the clock's date is compared.

    A date is compared with a time as its midnight: `day < time` asks for the day after the time's unless that is a
    midnight, and `day <= time` for the time's own.
    """
    if _is_date(column):
        return _microseconds(column) // _DAY_US
    wall = _microseconds(column)
    if column.type.tz is not None:
        wall = to_local(wall // 1000, zone) * 1000 + wall % 1000
    return -(-wall // _DAY_US) if sign in ("<", ">=") else wall // _DAY_US


def _midnights(days: NumberArray, sign: str, zone: str) -> Array:
    """The moment from which on the date of the clock is, or is no more, on its side of days."""
    later = days + (sign in ("<=", ">"))
    return _to_instants(later * _DAY_MS, zone)


def _round(micros: NumberArray, sign: str) -> Array:
    """The first millisecond at which `clock < micros`, or another comparison, has changed."""
    return micros // 1000 + 1 if sign in ("<=", ">") else -(-micros // 1000)


def _to_instants(wall: NumberArray, zone: str) -> Array:
    """Instants of wall clocks; those beyond the calendar are beyond every clock."""
    known = (wall * 1000 > _FIRST) & (wall * 1000 < _LAST)
    return _within(np.where(known, to_instants(np.where(known, wall, 0), zone), wall))


def _within(moments: NumberArray) -> Array:
    """Moments, those beyond the calendar as the ends of time."""
    early, late = moments * 1000 <= _FIRST, moments * 1000 >= _LAST
    return np.where(early, BEFORE_ALL, np.where(late, AFTER_ALL, moments))


def _microseconds(column: pa.Array) -> Array:
    """A column of times or dates in microseconds, within the calendar; NULL is 0."""
    if _is_date(column):
        days = column.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
        return np.clip(days.astype(np.int64), _FIRST // _DAY_US, _LAST // _DAY_US) * _DAY_US
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).fill_null(0)
    return np.clip(np.asarray(micros.to_numpy(zero_copy_only=False), np.int64), _FIRST, _LAST)


def _is_date(column: pa.Array) -> bool:
    return bool(pa.types.is_date32(column.type))


def _is_true(column: pa.Array) -> FlagArray:
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), np.bool_)
