"""Dates and times: calendar arithmetic in the proleptic Gregorian calendar, and the texts that Spark reads as such."""

from __future__ import annotations

import datetime
import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import InvalidCastError
from aggloom.runtime.scalar.values import Value, apply_to_arrays, failure, row_by_row, run_checked

_DATE: Final = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.S)
_TIMESTAMP: Final = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?\s*(Z|UTC|[+-]\d{1,2}(?::\d{1,2})?)?)?)?)?"
)
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()
_FAR: Final = "the result is beyond the last date; filter such rows."


def date_of(value: Value) -> Value:
    """The day of a wall clock's time."""
    return pc.cast(pc.floor_temporal(value, unit="day"), pa.date32())


def units_since_epoch(value: Value, unit: str) -> Value:
    """Whole seconds ("s"), milliseconds ("ms") or microseconds ("us") since 1970, rounded down."""
    names = {"s": "second", "ms": "millisecond", "us": "microsecond"}
    zone = value.type.tz
    # A cast refuses to lose digits, and one that may lose them rounds towards zero before 1970.
    floored = pc.floor_temporal(value, unit=names[unit])
    return pc.cast(pc.cast(floored, pa.timestamp(unit, zone)), pa.int64())


def seconds_since_epoch(value: Value) -> Value:
    """Seconds since 1970 as a DOUBLE, with the microseconds in its fraction."""
    return pc.divide(pc.cast(pc.cast(value, pa.int64()), pa.float64()), pa.scalar(1e6))


def add_days(value: Value, days: Value, sql: str) -> Value:
    """A date so many days later."""

    def add(date: pa.Array, number: pa.Array) -> pa.Array:
        return pc.add_checked(pc.cast(date, pa.int32()), number)

    return pc.cast(
        run_checked(lambda *v: apply_to_arrays(add, *v), (value, days), sql, what=_FAR), pa.date32()
    )


def days_between(end: Value, start: Value) -> Value:
    """datediff(end, start)."""
    return pc.cast(pc.days_between(start, end), pa.int32())


def add_duration(value: Value, microseconds: int, sql: str) -> Value:
    """A timestamp so many microseconds later."""
    shift = pa.scalar(microseconds, pa.duration("us"))
    return run_checked(lambda v: pc.add_checked(v, shift), (value,), sql, what=_FAR)


def add_months(value: Value, months: Value) -> Value:
    """A date so many months later, on the last day of the month if that has no such day."""

    def add(dates: pa.Array, numbers: pa.Array) -> pa.Array:
        days = _days(dates)
        first = days.astype("datetime64[M]")
        day = (days - first.astype("datetime64[D]")).astype(np.int64)
        month = first + numbers.fill_null(0).to_numpy(zero_copy_only=False)
        return _dates(np.minimum(month.astype("datetime64[D]") + day, _end(month)), dates, numbers)

    return apply_to_arrays(add, value, months)


def last_day(value: Value) -> Value:
    """The last day of a date's month."""
    return apply_to_arrays(
        lambda dates: _dates(_end(_days(dates).astype("datetime64[M]")), dates), value
    )


def make_date(year: Value, month: Value, day: Value, sql: str) -> Value:
    """The date of year, month and day; an error if there is none."""

    def make(*parts: int) -> int:
        try:
            return datetime.date(*parts).toordinal() - _EPOCH
        except ValueError as error:
            raise failure(InvalidCastError, sql, parts, f"{error}; filter such rows.") from None

    return pc.cast(row_by_row(make, pa.int32(), year, month, day), pa.date32())


def parse_date(text: str) -> int | None:
    """Days since 1970 of a text, or None if it is no date of four digits of year."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    return _day_number(*match.groups())


def parse_timestamp(text: str, local: bool) -> int | None:
    """Microseconds since 1970 of a text, in UTC unless it has an offset, which the wall clock (`local`) ignores."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    day = _day_number(*match.groups()[:3])
    hour, minute, second = (int(part or 0) for part in match.groups()[3:6])
    if day is None or hour > 23 or minute > 59 or second > 59:
        return None
    # Spark cuts off digits beyond six and does not round.
    fraction = int((match[7] or "").ljust(6, "0")[:6] or 0)
    seconds = day * 86400 + hour * 3600 + minute * 60 + second
    if not local and match[8] not in (None, "Z", "UTC"):
        hours, _, minutes = match[8][1:].partition(":")
        # Java knows no offset beyond 18 hours.
        if int(hours) > 18 or int(minutes or 0) > 59:
            return None
        offset = int(hours) * 3600 + int(minutes or 0) * 60
        seconds -= -offset if match[8][0] == "-" else offset
    return seconds * 1_000_000 + fraction


def _day_number(year: str, month: str | None, day: str | None) -> int | None:
    try:
        return datetime.date(int(year), int(month or 1), int(day or 1)).toordinal() - _EPOCH
    except ValueError:
        return None


def _days(dates: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.datetime64]]:
    numbers = pc.cast(dates, pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers.astype("datetime64[D]")


def _end(
    month: np.ndarray[tuple[int], np.dtype[np.datetime64]],
) -> np.ndarray[tuple[int], np.dtype[np.datetime64]]:
    return (month + 1).astype("datetime64[D]") - 1


def _dates(days: np.ndarray[tuple[int], np.dtype[np.datetime64]], *inputs: pa.Array) -> pa.Array:
    """Return days, as int64[rows] from 1970 on, as dates; NULL where an input is."""
    nulls = np.zeros(len(days), np.bool_)
    for each in inputs:
        nulls |= each.is_null().to_numpy(zero_copy_only=False)
    return pa.array(days.astype(np.int32), pa.int32(), mask=nulls).cast(pa.date32())
