"""Dates and times as texts by a pattern, and read from them."""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.scalar.values import Value, apply_to_arrays, by_row, row_by_row

_STAMP = pa.timestamp("us")
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def date_format(value: Value, template: str, unit: str) -> Value:
    """A wall clock's time in a template of fields, of which `unit` is the finest."""

    def format_times(times: pa.Array) -> pa.Array:
        # There are far fewer days, or minutes, than times: each is written once.
        floored = pc.floor_temporal(pc.cast(times, _STAMP), unit=unit).dictionary_encode()
        return pa.array(_texts(floored.dictionary, template), pa.string()).take(floored.indices)

    return apply_to_arrays(format_times, value)


def parse_times(value: Value, reader: str, sql: str) -> Value:
    """The wall clock's time of each text, read by a regular expression of fields."""
    return pc.cast(by_row(find_reader(reader), pa.int64(), value, sql=sql), _STAMP)


def try_parse_times(value: Value, reader: str) -> Value:
    """Parse texts like `parse_times`, with NULL for a text that cannot be read."""
    read = find_reader(reader)

    def parse(text: str) -> int | None:
        try:
            return read(text)
        except ValueError:
            return None

    return pc.cast(row_by_row(parse, pa.int64(), value), _STAMP)


def short_month(value: Value) -> Value:
    """The first three letters of a date's month."""
    return date_format(value, "{short_month}", "day")


def short_weekday(value: Value) -> Value:
    """The first three letters of a date's day of the week."""
    return date_format(value, "{short_weekday}", "day")


def find_reader(reader: str) -> Callable[[str], int]:
    """The function that reads a text to microseconds; it raises ValueError."""
    pattern = _compile(reader)

    def read(text: str) -> int:
        match = pattern.fullmatch(text)
        if match is None:
            raise ValueError("the text does not have the form of the pattern")
        fields = {name: digits for name, digits in match.groupdict().items() if digits is not None}
        seconds = _day(fields) * 86400 + _second(fields) - _offset(fields.get("offset", "Z"))
        return seconds * 1_000_000 + int(fields.get("fraction", "0").ljust(6, "0")[:6])

    return read


@lru_cache(maxsize=256)
def _compile(reader: str) -> re.Pattern[str]:
    return re.compile(reader)


def _day(fields: dict[str, str]) -> int:
    """Days since 1970; what is not given is the first."""
    year = int(fields["year2"]) + 2000 if "year2" in fields else int(fields.get("year", 1970))
    if "day_of_year" in fields:
        number = int(fields["day_of_year"])
        if not 1 <= number <= 365 + calendar.isleap(year):
            raise ValueError("the year has no such day")
        return datetime.date(year, 1, 1).toordinal() - _EPOCH + number - 1
    month = int(fields.get("month", 1))
    if "month_name" in fields:
        names = [name[:3].lower() for name in _MONTHS]
        month = names.index(fields["month_name"][:3].lower()) + 1
    return datetime.date(year, month, int(fields.get("day", 1))).toordinal() - _EPOCH


def _second(fields: dict[str, str]) -> int:
    """Seconds since midnight."""
    hour = _within(fields.get("hour", "0"), 0, 23)
    if "hour24" in fields:
        hour = _within(fields["hour24"], 1, 24) % 24
    if "hour12" in fields:
        hour = _within(fields["hour12"], 1, 12) % 12
    if "hour0" in fields:
        hour = _within(fields["hour0"], 0, 11)
    if fields.get("half", "").lower() == "pm":
        hour += 12
    minute, second = (_within(fields.get(name, "0"), 0, 59) for name in ("minute", "second"))
    return (hour * 60 + minute) * 60 + second


def _within(digits: str, least: int, most: int) -> int:
    number = int(digits)
    if not least <= number <= most:
        raise ValueError(f"{number} is not between {least} and {most}")
    return number


def _offset(text: str) -> int:
    """The seconds of an offset from UTC."""
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    hours, minutes = _within(digits[:2], 0, 18), _within(digits[2:], 0, 59)
    return (hours * 60 + minutes) * (-60 if text[0] == "-" else 60)


def _texts(times: pa.Array, template: str) -> list[str]:
    parts = (pc.year, pc.month, pc.day, pc.hour, pc.minute, pc.second, pc.quarter, pc.day_of_year)
    weekdays = pc.day_of_week(times).to_pylist()
    fractions = pc.subsecond(times).to_pylist()
    rows = zip(*(part(times).to_pylist() for part in parts), weekdays, fractions, strict=True)
    return [_text(template, *row) for row in rows]


def _text(
    template: str,
    year: int,
    month: int,
    day: int,
    hour: int,
    minute: int,
    second: int,
    quarter: int,
    day_of_year: int,
    weekday: int,
    fraction: float,
) -> str:
    of_era = year if year > 0 else 1 - year
    return template.format(
        year=_year(year),
        plain_year=of_era,
        year2=of_era % 100,
        month=month,
        short_month=_MONTHS[month - 1][:3],
        long_month=_MONTHS[month - 1],
        day=day,
        hour=hour,
        hour12=(hour + 11) % 12 + 1,
        hour24=hour or 24,
        hour0=hour % 12,
        half="AM" if hour < 12 else "PM",
        minute=minute,
        second=second,
        fraction=f"{round(fraction * 1_000_000):06}",
        quarter=quarter,
        day_of_year=day_of_year,
        short_weekday=_DAYS[weekday][:3],
        long_weekday=_DAYS[weekday],
    )


def _year(year: int) -> str:
    """Format a year as Spark does: of its era, in four digits, and with a sign if it needs more."""
    return f"+{year}" if year > 9999 else f"{year if year > 0 else 1 - year:04}"
