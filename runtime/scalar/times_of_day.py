"""Times of day: made of numbers, read from texts and written, cut off, and the units between two of them."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.scalar.date_texts import find_reader
from aggloom.runtime.scalar.values import Value, apply_to_arrays, by_row, row_by_row

_TIME: Final = pa.time64("us")
_BIG: Final = pa.int64()
_DAY: Final = 86_400_000_000
_SIZES: Final = {
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}
_TEXT: Final = re.compile(
    r"[\x00-\x20]*T?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?[\x00-\x20]*([AaPp][Mm])?[\x00-\x20]*",
    re.ASCII,
)


def make_time(hour: int, minute: int, second: Decimal) -> int:
    """The microseconds since midnight of a time's parts; raises ValueError."""
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        raise ValueError("there is no such time of day")
    return (hour * 60 + minute) * 60_000_000 + int(second * 1_000_000)


def parse_time(text: str) -> int | None:
    """The microseconds since midnight that a text such as 9:05, 21:05:07.25 or 9:05 PM says; None if it says none."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    if match[5]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if match[5][0] in "pP" else 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    # Digits beyond six are cut off.
    fraction = int((match[4] or "").ljust(6, "0")[:6])
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction


def text_to_time(value: Value, sql: str | None) -> Value:
    """The time of day of each text; sql: None gives NULL for a text that is none."""

    def read(text: str) -> int:
        number = parse_time(text)
        if number is None:
            raise ValueError("the text is no time of day")
        return number

    if sql is None:
        return from_microseconds(row_by_row(parse_time, _BIG, value))
    return from_microseconds(by_row(read, _BIG, value, sql=sql))


def parse_by(value: Value, reader: str, sql: str | None) -> Value:
    """The time of day of each text, read by a regular expression of fields; sql: as of `text_to_time`."""
    read = find_reader(reader)

    def try_read(text: str) -> int | None:
        try:
            return read(text)
        except ValueError:
            return None

    if sql is None:
        return from_microseconds(row_by_row(try_read, _BIG, value))
    return from_microseconds(by_row(read, _BIG, value, sql=sql))


def time_to_text(value: Value) -> Value:
    """Each time as a text, with as many digits after the second as it needs."""

    def write(number: int) -> str:
        seconds, fraction = divmod(number, 1_000_000)
        text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{text}.{fraction:06}".rstrip("0") if fraction else text

    return row_by_row(write, pa.string(), pc.cast(value, _BIG))


def from_microseconds(value: Value) -> Value:
    """Microseconds since midnight, known to be fewer than a day has, as times."""
    return pc.cast(value, _TIME)


def time_of(value: Value) -> Value:
    """The time of day of a wall clock's time."""

    def take_rest(times: pa.Array) -> pa.Array:
        numbers = pc.cast(times, _BIG).fill_null(0).to_numpy(zero_copy_only=False)
        nulls = times.is_null().to_numpy(zero_copy_only=False)
        return from_microseconds(pa.array(numbers % _DAY, mask=nulls))

    return apply_to_arrays(take_rest, value)


def of_units(value: Value, size: int, sql: str) -> Value:
    """The time so many units of so many microseconds after midnight; units may have a fraction."""

    def convert(number: int | float | Decimal) -> int:
        if number != number or not 0 <= number * size < _DAY:
            raise ValueError("a day has no such time")
        return int(number * size)

    return from_microseconds(by_row(convert, _BIG, value, sql=sql))


def whole_units(value: Value, size: int) -> Value:
    """The whole units of so many microseconds since midnight."""
    return pc.divide(pc.cast(value, _BIG), pa.scalar(size))


def to_seconds(value: Value) -> Value:
    """The seconds since midnight, with six digits after the point."""

    def convert(times: pa.Array) -> pa.Array:
        exact = pc.cast(pc.cast(times, _BIG), pa.decimal128(19, 0))
        one = pa.scalar(Decimal("0.000001"), pa.decimal128(6, 6))
        return pc.cast(pc.multiply(exact, one), pa.decimal128(14, 6))

    return apply_to_arrays(convert, value)


def cut_off(value: Value, unit: str) -> Value:
    """The beginning of the unit in which each time is."""
    size = pa.scalar(_SIZES[unit])
    return from_microseconds(pc.multiply(pc.divide(pc.cast(value, _BIG), size), size))


def units_between(start: Value, end: Value, unit: str) -> Value:
    """The whole units from one time to another, towards zero."""
    microseconds = pc.subtract(pc.cast(end, _BIG), pc.cast(start, _BIG))
    return pc.divide(microseconds, pa.scalar(_SIZES[unit]))
