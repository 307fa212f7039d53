"""Times in messages: texts and numbers as days and microseconds since 1970, or of a day."""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo

from aggloom.codegen import spell_zone
from aggloom.runtime.values.zones import make_zone

UTC: dt.tzinfo = ZoneInfo("UTC")
_EPOCH = dt.datetime(1970, 1, 1)
_DAY = re.compile(r"\d{4}-\d{1,2}-\d{1,2}")
_MOMENT = re.compile(
    r"(?P<day>\d{4}-\d{1,2}-\d{1,2})"
    r"(?:[T ](?P<clock>\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)\s*(?P<zone>Z|UTC|[+-]\d{2}(?::?\d{2})?)?)?"
)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?")
_ZONED_CLOCK = re.compile(r"(.*?)(?:Z|[+-]00:?00)")
_SECOND = 1_000_000
DAY = 86_400 * _SECOND
# The first moment of the year 1 and the last microsecond of 9999.
_FIRST, _LAST = -62_135_596_800 * _SECOND, 253_402_300_800 * _SECOND - 1
_SECONDS_FROM, _MILLIS_FROM, _MILLIS_TO = 10**8, 10**11, 10**13
"""Sizes of seconds since 1970 from 1973 on, and of milliseconds from 1973 to 2286."""
_MICROS_FROM, _MICROS_TO, _NANOS_FROM = 26 * 10**13, 10**17, 26 * 10**16
"""Sizes beyond the year 9999 in the unit before; what lies between the ranges may be of either unit."""


def to_microseconds(number: int, unit: str) -> int:
    """Microseconds of a number in a unit."""
    if unit == "ns":
        return number // 1_000
    return number * {"s": _SECOND, "ms": 1_000, "us": 1}[unit]


class ColumnUnit:
    """The unit of a column of times as numbers, which nobody has said: that of its first values, for all of them."""

    def __init__(self) -> None:
        self.unit: str | None = None

    def micros(self, number: int) -> int:
        """Microseconds since 1970; raises UnknownUnitError for a number that may be, or is, of another unit."""
        if not number:
            return 0
        unit = _unit_of(abs(number), self.unit)
        if unit is None:
            raise UnknownUnitError("a time since 1970 in a unit that its size does not show")
        if self.unit not in (None, unit):
            raise UnknownUnitError(f"a time in {unit}, in a column that has had {self.unit}")
        micros = in_range(to_microseconds(number, unit))
        # A number that is no time says nothing of others.
        self.unit = unit
        return micros


class UnknownUnitError(ValueError):
    """A time as a number whose unit is unknown."""


def _unit_of(size: int, known: str | None) -> str | None:
    """The unit of a number of a size; known: of the values before. None: it may be one of two."""
    if size < _SECONDS_FROM:
        return "ms"
    if size < _MILLIS_FROM:
        return None
    if size < _MILLIS_TO:
        return "ms"
    if size < _MICROS_FROM:
        return known if known in ("ms", "us") else None
    if size < _MICROS_TO:
        return "us"
    if size < _NANOS_FROM:
        return known if known in ("us", "ns") else None
    return "ns"


def in_range(micros: int) -> int:
    """A time from the year 1 to 9999; raises ValueError for another, such as a database's infinity."""
    if not _FIRST <= micros <= _LAST:
        raise ValueError(micros)
    return micros


def find_zone(name: str) -> dt.tzinfo:
    """Return the zone of a name that Java takes, such as GMT+08:00; raises OptionError if there is none.

    Example:
        >>> find_zone("UTC+8"), find_zone("Z") is UTC
        (datetime.timezone(datetime.timedelta(seconds=28800)), True)
    """
    return make_zone(spell_zone(name))


def moment(text: str, zone: dt.tzinfo | None) -> int:
    """Microseconds since 1970 of a text; one that names no zone is in `zone`, and with None there may be none."""
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    wall = (day(match["day"]) * DAY) + (clock(match["clock"]) if match["clock"] else 0)
    if match["zone"]:
        if zone is None:
            raise ValueError(text)
        return in_range(wall - _offset(match["zone"]))
    if zone is None or zone is UTC:
        return wall
    # Of the two times that a clock shows twice it is the first, as `fold` is 0.
    local = (_EPOCH + dt.timedelta(microseconds=wall)).replace(tzinfo=zone)
    offset = local.utcoffset() or dt.timedelta()
    return in_range(wall - offset // dt.timedelta(microseconds=1))


def _offset(zone: str) -> int:
    if zone in ("Z", "UTC"):
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
    return (-1 if zone[0] == "-" else 1) * (hours * 3600 + minutes * 60) * _SECOND


def day(text: str) -> int:
    """Days since 1970 of a text, which may name midnight after the day."""
    if not _DAY.fullmatch(text):
        whole = moment(text, None)
        if whole % DAY:
            raise ValueError(text)
        return whole // DAY
    year, month, number = map(int, text.split("-"))
    # The ordinal of 1970-01-01.
    return dt.date(year, month, number).toordinal() - 719_163


def clock(text: str) -> int:
    """Microseconds of the day of a text; a zone may be that of Greenwich."""
    zoned = _ZONED_CLOCK.fullmatch(text)
    match = _CLOCK.fullmatch(zoned[1] if zoned else text)
    if match is None:
        raise ValueError(text)
    hours, minutes, seconds = int(match[1]), int(match[2]), int(match[3] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(text)
    # Digits below microseconds have no place in any type, and are cut off.
    micros = int((match[4] or "0").ljust(6, "0")[:6])
    return ((hours * 60 + minutes) * 60 + seconds) * _SECOND + micros


def shown_day(days: int) -> str:
    """A day as text."""
    return dt.date.fromordinal(days + 719_163).isoformat()


def shown_moment(micros: int) -> str:
    """A time as text, as Spark writes it."""
    return (_EPOCH + dt.timedelta(microseconds=micros)).isoformat(" ")


def shown_clock(micros: int) -> str:
    """A time of day as text."""
    return (_EPOCH + dt.timedelta(microseconds=micros)).time().isoformat()
