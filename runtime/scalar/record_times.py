"""Dates and times in records of JSON and CSV: read by a cast or by a pattern, written in Spark's usual forms."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import DataError, InvalidCastError
from aggloom.runtime.scalar.casts import try_parse
from aggloom.runtime.scalar.date_texts import date_format, find_reader
from aggloom.runtime.scalar.dates import parse_date, parse_timestamp
from aggloom.runtime.scalar.zones import to_instant
from aggloom.runtime.values.zones import make_zone

_DAY: Final = 86_400_000_000
_INSTANT: Final = pa.timestamp("us", "UTC")
_OFFSET: Final = re.compile(r"(Z|UTC|[+-]\d{1,2}(:\d{1,2})?)\Z")
_NUMBER: Final = re.compile(r"[+-]?\d{1,10}")
_FIRST_DAY: Final = -141_427
"""The first day of the Gregorian calendar. Spark moves those before it, which were days of the Julian one."""
_NAMES: Final = {pa.date32(): "date", _INSTANT: "timestamp"}


def time_reader(
    dtype: pa.DataType, zone: str, readers: Mapping[str, str], has_fallback: bool = True
) -> Callable[[str], int]:
    """The function that reads a text as a DATE (days) or a timestamp (microseconds); it raises ValueError.

    readers: regular expressions of fields by "date", "timestamp", "timestamp_ntz". has_fallback: a number of days
    counts as a DATE. The function raises DataError for texts that only Spark reads.
    """
    reader = readers.get(_NAMES.get(dtype, "timestamp_ntz"))
    if reader is not None:
        read = find_reader(reader)
        if dtype == pa.date32():
            return lambda text: read(text) // _DAY
        return read if dtype != _INSTANT else lambda text: _to_instant(read(text), zone)
    if dtype == pa.date32():
        return lambda text: _read_date(text, has_fallback)
    if dtype == _INSTANT:
        return lambda text: _read_instant(text, zone)
    return _read_wall_clock


def _try_parse(
    text: str, parse: Callable[[str], int | None], number: pa.DataType, kind: str
) -> int | None:
    try:
        return try_parse(text, parse, number, kind)
    except InvalidCastError as error:
        # Not a ValueError, which would be a NULL in the record.
        raise DataError(f"{error}") from None


def _read_date(text: str, has_fallback: bool) -> int:
    days = _try_parse(text, parse_date, pa.int32(), "DATE")
    if days is None:
        days = _try_parse(text.replace("GMT", ""), parse_date, pa.int32(), "DATE")
    if days is None and has_fallback and _NUMBER.fullmatch(text):
        days = int(text) if abs(2 * int(text) + 1) < 1 << 32 else None
        if days is not None and not _FIRST_DAY <= days < 2_932_897:
            raise DataError(
                f"DATE: {text!r} is a number of days that only Spark reads; filter such rows."
            )
    if days is None:
        raise ValueError(f"{text!r} is no date")
    return days


def _read_instant(text: str, zone: str) -> int:
    # Spark passes over GMT where the text is no time with it.
    bare = re.sub(r"GMT\s*\Z", "Z", text).replace("GMT", "")
    local = _try_parse(bare, lambda each: parse_timestamp(each, True), pa.int64(), "TIMESTAMP")
    if local is None:
        raise ValueError(f"{text!r} is no time")
    has_offset = _OFFSET.search(bare.strip()) and ":" in bare
    if not has_offset:
        return _to_instant(local, zone)
    ticks = parse_timestamp(bare.strip(), False)
    if ticks is None:
        raise ValueError(f"{text!r} is no time")
    return ticks


def _read_wall_clock(text: str) -> int:
    # A zone makes it no wall clock's time, whatever the zone: only years beyond four digits are in doubt, as of a DATE.
    ticks = _try_parse(text, lambda each: parse_timestamp(each, True), pa.int32(), "TIMESTAMP_NTZ")
    if ticks is None or (":" in text and _OFFSET.search(text.strip())):
        raise ValueError(f"{text!r} is no time without a zone")
    return ticks


@lru_cache(maxsize=4096)
def _to_instant(ticks: int, zone: str) -> int:
    """The instant at which the clocks of a zone show a time, in microseconds."""
    if zone == "UTC":
        return ticks
    moment = to_instant(pa.scalar(ticks, pa.int64()).cast(pa.timestamp("us")), zone)
    number: int = pc.cast(moment, pa.int64()).as_py()
    return number


def time_writer(
    dtype: pa.DataType, zone: str, templates: Mapping[str, tuple[str, str]]
) -> Callable[[Any], str]:
    """The function that writes a DATE, a time or a timestamp as Python has it.

    templates: template and finest unit by "date", "timestamp", "timestamp_ntz", where the query gives a pattern.
    """
    template = templates.get(_NAMES.get(dtype, "timestamp_ntz"))
    if pa.types.is_time(dtype):
        return _write_time
    region = make_zone(zone)
    if template is not None:

        def write(value: Any) -> str:
            if dtype == _INSTANT:
                value = value.astimezone(region).replace(tzinfo=None)
            text: str = date_format(pa.scalar(value), *template).as_py()
            return text

        return write
    if dtype == pa.date32():
        return lambda value: value.isoformat()
    if dtype == _INSTANT:
        return lambda value: _write_instant(value.astimezone(region))
    return lambda value: value.isoformat(timespec="milliseconds")


def _write_instant(moment: datetime.datetime) -> str:
    text = moment.isoformat(timespec="milliseconds")
    return text[:-6] + "Z" if text.endswith("+00:00") else text


def _write_time(value: datetime.time) -> str:
    text = value.isoformat(timespec="microseconds")
    return text.rstrip("0").rstrip(".")
