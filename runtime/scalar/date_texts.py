"""Dates and times as texts by a pattern."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.scalar.values import Value, whole

_STAMP = pa.timestamp("us")


def date_format(value: Value, template: str, unit: str) -> Value:
    """A wall clock's time in a template of fields, of which `unit` is the finest."""

    def format_times(times: pa.Array) -> pa.Array:
        # There are far fewer days, or minutes, than times: each is written once.
        floored = pc.floor_temporal(pc.cast(times, _STAMP), unit=unit).dictionary_encode()
        return pa.array(_texts(floored.dictionary, template), pa.string()).take(floored.indices)

    return whole(format_times, value)


def _texts(times: pa.Array, template: str) -> list[str]:
    parts = (pc.year, pc.month, pc.day, pc.hour, pc.minute, pc.second)
    rows = zip(*(part(times).to_pylist() for part in parts), strict=True)
    names = ("month", "day", "hour", "minute", "second")
    return [
        template.format(year=_year(year), **dict(zip(names, rest, strict=True)))
        for year, *rest in rows
    ]


def _year(year: int) -> str:
    """As Spark writes it: of its era, in four digits, and with a sign if it needs more."""
    return f"+{year}" if year > 9999 else f"{year if year > 0 else 1 - year:04}"
