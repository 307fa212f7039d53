"""Times made of numbers, moved by units, and the units between two of them."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aggloom.runtime.scalar.dates import add_months
from aggloom.runtime.scalar.values import Value, apply_to_arrays, by_row, row_by_row, run_checked

_STAMP: Final = pa.timestamp("us")
_DAY: Final = 86_400_000_000
_SIZES: Final = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": _DAY,
    "week": 7 * _DAY,
}
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()
_FAR: Final = "the result is beyond the last time; filter such rows."

Numbers = NDArray[np.int64]  # int64[rows]


def shift_time(value: Value, count: Value, unit: str, sql: str) -> Value:
    """A wall clock's time so many units later."""

    def shift(times: pa.Array, counts: pa.Array) -> pa.Array:
        counts = pc.cast(counts, pa.int64())
        number = pc.cast(times, pa.int64())
        if unit in _MONTHS:
            day = pc.cast(pc.cast(pc.floor_temporal(times, unit="day"), pa.date32()), pa.int32())
            months = pc.multiply_checked(counts, pa.scalar(_MONTHS[unit]))
            dates = add_months(pc.cast(day, pa.date32()), pc.cast(months, pa.int32()))
            rest = pc.subtract(number, pc.multiply(pc.cast(day, pa.int64()), pa.scalar(_DAY)))
            moved = pc.cast(pc.cast(dates, pa.int32()), pa.int64())
            return pc.add_checked(pc.multiply_checked(moved, pa.scalar(_DAY)), rest)
        return pc.add_checked(number, pc.multiply_checked(counts, pa.scalar(_SIZES[unit])))

    shifted = run_checked(lambda *v: apply_to_arrays(shift, *v), (value, count), sql, what=_FAR)
    return pc.cast(shifted, _STAMP)


def units_between(start: Value, end: Value, unit: str) -> Value:
    """The whole units from one wall clock's time to another, towards zero."""

    def count(first: pa.Array, last: pa.Array) -> pa.Array:
        nulls = pc.or_(pc.is_null(first), pc.is_null(last)).to_numpy(zero_copy_only=False)
        begin, stop = _numbers(first), _numbers(last)
        difference = _months_between(begin, stop) if unit in _MONTHS else stop - begin
        size = _MONTHS.get(unit) or _SIZES[unit]
        return pa.array(_towards_zero(difference, size), mask=nulls.astype(np.bool_))

    return apply_to_arrays(count, start, end)


def months_between(end: Value, start: Value, rounded: bool = True) -> Value:
    """The months between two wall clocks' times, days as parts of 31; whole if both are the same or the last day."""

    def count(stop: int, begin: int) -> float:
        one, other = _split(stop), _split(begin)
        months = (one[0] - other[0]) * 12 + one[1] - other[1]
        if one[2] == other[2] or (one[3] and other[3]):
            return float(months)
        seconds = (one[2] - other[2]) * 86400 + one[4] - other[4]
        months_and_days = months + seconds / (31 * 86400.0)
        # Java's Math.round goes half up, below zero as well, where Python's goes half to even.
        return math.floor(months_and_days * 1e8 + 0.5) / 1e8 if rounded else months_and_days

    numbers = (pc.cast(each, pa.int64()) for each in (end, start))
    return row_by_row(count, pa.float64(), *numbers)


def make_timestamp(
    year: Value, month: Value, day: Value, hour: Value, minute: Value, second: Value, sql: str
) -> Value:
    """The wall clock's time of its parts; a second of 60 is the first of the next minute."""
    parts = (year, month, day, hour, minute, second)
    return pc.cast(by_row(_microseconds, pa.int64(), *parts, sql=sql), _STAMP)


def try_make_timestamp(
    year: Value, month: Value, day: Value, hour: Value, minute: Value, second: Value
) -> Value:
    """Make timestamps like `make_timestamp`, with NULL where there is no such time."""

    def make(*parts: int) -> int | None:
        try:
            return _microseconds(*parts)
        except ValueError:
            return None

    parts = (year, month, day, hour, minute, second)
    return pc.cast(row_by_row(make, pa.int64(), *parts), _STAMP)


def seconds_to_microseconds(seconds: Decimal | float) -> int | None:
    """Seconds since 1970, perhaps with a fraction, as microseconds; None for what is no number."""
    if isinstance(seconds, float):
        if not math.isfinite(seconds):
            return None
        number = seconds * 1_000_000
        # Java's cast stops at the ends of BIGINT.
        return int(number) if abs(number) < 2**63 else 2**63 - 1 if number > 0 else -(2**63)
    exact = seconds * 1_000_000
    if exact != int(exact):
        raise ValueError("the fraction has more than six digits")
    if not -(2**63) <= exact < 2**63:
        raise ValueError("there is no such time")
    return int(exact)


def next_day(date: Value, weekday: int) -> Value:
    """The first date after another that is a day of the week, of which Monday is 0."""

    def find(dates: pa.Array) -> pa.Array:
        days = pc.cast(pc.cast(dates, pa.int32()), pa.int64())
        # From 1 to 7 days ahead: the next one of the same day of the week is a week away.
        ahead = pc.subtract(pa.scalar(weekday + 7), pc.day_of_week(dates))
        over = pc.cast(pc.greater(ahead, pa.scalar(7)), pa.int64())
        ahead = pc.subtract(ahead, pc.multiply(over, pa.scalar(7)))
        return pc.cast(pc.cast(pc.add(days, ahead), pa.int32()), pa.date32())

    return apply_to_arrays(find, date)


def second_with_fraction(value: Value) -> Value:
    """The second of a wall clock's time, with six digits after the point."""

    def find(times: pa.Array) -> pa.Array:
        numbers = pc.cast(times, pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        rest = pa.array(numbers % 60_000_000, mask=times.is_null().to_numpy(zero_copy_only=False))
        one = pa.scalar(Decimal("0.000001"), pa.decimal128(6, 6))
        return pc.cast(pc.multiply(pc.cast(rest, pa.decimal128(19, 0)), one), pa.decimal128(8, 6))

    return apply_to_arrays(find, value)


def _microseconds(
    year: int, month: int, day: int, hour: int, minute: int, second: Decimal | int
) -> int:
    days = datetime.date(year, month, day).toordinal() - _EPOCH
    whole_second = int(second)
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second <= 60):
        raise ValueError("there is no such time of day")
    fraction = int((second - whole_second) * 1_000_000)
    return ((days * 24 + hour) * 60 + minute) * 60_000_000 + whole_second * 1_000_000 + fraction


def _numbers(times: pa.Array) -> Numbers:
    numbers: Numbers = pc.cast(times, pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _towards_zero(value: Numbers, size: int) -> Numbers:
    rounded_value: Numbers = np.sign(value) * (np.abs(value) // size)
    return rounded_value


def _months_between(begin: Numbers, end: Numbers) -> Numbers:
    """Whole months: a month has passed on the same day at the same time of day."""
    first, last = begin // _DAY, end // _DAY
    early, late = begin - first * _DAY, end - last * _DAY
    # The last day counts only from that time of day on.
    last = last - ((last > first) & (late < early)) + ((last < first) & (late > early))
    packed = [_pack_fields(days) for days in (first, last)]
    return _towards_zero(packed[1] - packed[0], 32)


def _pack_fields(days: Numbers) -> Numbers:
    """The month, times 32, and the day in it."""
    month = days.astype("datetime64[D]").astype("datetime64[M]")
    day = (days.astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.int64)
    packed: Numbers = month.astype(np.int64) * 32 + day
    return packed


def _split(number: int) -> tuple[int, int, int, bool, int]:
    """Year, month, day, whether that is the month's last, and the second of the day."""
    days, rest = divmod(number, _DAY)
    date = datetime.date.fromordinal(days + _EPOCH)
    last = (date + datetime.timedelta(days=1)).month != date.month
    return date.year, date.month, date.day, last, rest // 1_000_000
