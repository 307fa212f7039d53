"""Intervals of months, days and microseconds, made of numbers, and times that are moved by them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.scalar.values import Value, apply_to_arrays, run_checked

_BIG: Final = pa.int64()
_DAY: Final = 86_400_000_000
_FIELDS: Final = ("months", "days", "microseconds")
_LARGE: Final = "the interval is too large; filter such rows."
_FAR: Final = "the result is beyond the last time; filter such rows."
_FINE: Final = (
    "a date takes no hours, minutes or seconds; cast it to a timestamp, or the result is beyond the last date."
)


def make_interval(
    years: Value,
    months: Value,
    weeks: Value,
    days: Value,
    hours: Value,
    minutes: Value,
    seconds: Value,
    sql: str | None,
) -> Value:
    """An interval as a row of its months, days and microseconds; sql: None gives NULL for one that is too large."""

    def make(*parts: pa.Array) -> pa.Array:
        numbers = [pc.cast(each, _BIG) for each in parts[:6]]
        fraction = pc.multiply(parts[6], pa.scalar(1_000_000, pa.decimal128(7, 0)))
        microseconds = pc.cast(fraction, _BIG)
        for number, size in zip(numbers[4:], (3_600_000_000, 60_000_000), strict=True):
            microseconds = pc.add_checked(
                microseconds, pc.multiply_checked(number, pa.scalar(size))
            )
        # In 32 bits, as Spark has them.
        whole_months = pc.cast(
            pc.add(pc.multiply(numbers[0], pa.scalar(12)), numbers[1]), pa.int32()
        )
        whole_days = pc.cast(pc.add(pc.multiply(numbers[2], pa.scalar(7)), numbers[3]), pa.int32())
        nulls = np.logical_or.reduce(
            [each.is_null().to_numpy(zero_copy_only=False) for each in parts]
        )
        rows = [whole_months, whole_days, microseconds]
        return pa.StructArray.from_arrays(rows, names=list(_FIELDS), mask=pa.array(nulls))

    parts = (years, months, weeks, days, hours, minutes, seconds)
    return run_checked(lambda *values: apply_to_arrays(make, *values), parts, sql, what=_LARGE)


def shift_time(value: Value, interval: Value, sign: int, sql: str) -> Value:
    """A timestamp, read as the clocks of UTC show it, or a date, later by an interval, or earlier if the sign is -1."""
    is_date = pa.types.is_date(value.type)

    def shift(times: pa.Array, intervals: pa.Array) -> pa.Array:
        return (_shift_dates if is_date else _shift_times)(times, intervals, sign)

    what = _FINE if is_date else _FAR
    return run_checked(
        lambda *values: apply_to_arrays(shift, *values), (value, interval), sql, what=what
    )


def find_bucket(value: Value, size: int, origin: Value | None) -> Value:
    """The beginning of the bucket of so many microseconds, counted from an origin, in which a time is."""

    def find(times: pa.Array, origins: pa.Array) -> pa.Array:
        number, start = (
            pc.cast(each, _BIG).fill_null(0).to_numpy(zero_copy_only=False)
            for each in (times, origins)
        )
        floored = (number - start) // size * size + start
        nulls = pc.or_(pc.is_null(times), pc.is_null(origins)).to_numpy(zero_copy_only=False)
        return pc.cast(pa.array(floored, mask=nulls), times.type)

    return apply_to_arrays(find, value, pa.scalar(0, value.type) if origin is None else origin)


def find_months(value: Value, months: int) -> Value:
    """The beginning of the bucket of so many months, counted from 1970 on, in which a time is."""

    def find(times: pa.Array) -> pa.Array:
        number = pc.cast(times, _BIG).fill_null(0).to_numpy(zero_copy_only=False)
        month = (number // _DAY).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        start = (month // months * months).astype("datetime64[M]").astype("datetime64[D]")
        nulls = times.is_null().to_numpy(zero_copy_only=False)
        return pc.cast(pa.array(start.astype(np.int64) * _DAY, mask=nulls), times.type)

    return apply_to_arrays(find, value)


def _shift_times(times: pa.Array, intervals: pa.Array, sign: int) -> pa.Array:
    months, days, microseconds = _fields(intervals, sign)
    numbers = pc.cast(times, _BIG).fill_null(0).to_numpy(zero_copy_only=False)
    day = numbers // _DAY
    moved = pc.multiply_checked(pa.array(_add_months(day, months) + days), pa.scalar(_DAY))
    moved = pc.add_checked(moved, pa.array(numbers - day * _DAY))
    moved = pc.add_checked(moved, pa.array(microseconds))
    nulls = pc.or_(pc.is_null(times), pc.is_null(intervals))
    return pc.cast(pc.if_else(nulls, pa.scalar(None, _BIG), moved), times.type)


def _shift_dates(dates: pa.Array, intervals: pa.Array, sign: int) -> pa.Array:
    months, days, microseconds = _fields(intervals, sign)
    nulls = pc.or_(pc.is_null(dates), pc.is_null(intervals))
    if np.any(microseconds[~nulls.to_numpy(zero_copy_only=False)]):
        raise pa.ArrowInvalid(_FINE)
    numbers = pc.cast(dates, pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    moved = _add_months(numbers.astype(np.int64), months) + days
    return pc.cast(
        pc.cast(pc.if_else(nulls, pa.scalar(None, _BIG), pa.array(moved)), pa.int32()), dates.type
    )


def _fields(intervals: pa.Array, sign: int) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The months, days and microseconds of intervals: int64[n] each; zero for NULL."""
    fields = [pc.cast(pc.struct_field(intervals, name), _BIG) for name in _FIELDS]
    return [sign * each.fill_null(0).to_numpy(zero_copy_only=False) for each in fields]


def _add_months(
    days: np.ndarray[tuple[int], np.dtype[np.int64]],
    months: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Days since 1970 so many months later, on the last day of a month that is too short."""
    dates = days.astype("datetime64[D]")
    first = dates.astype("datetime64[M]")
    day = (dates - first.astype("datetime64[D]")).astype(np.int64)
    month = first + months
    last = (month + 1).astype("datetime64[D]").astype(np.int64) - 1
    return np.minimum(month.astype("datetime64[D]").astype(np.int64) + day, last)
