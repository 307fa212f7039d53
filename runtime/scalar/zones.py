"""Wall clocks and instants of a time zone: where clocks jump, as Java has it.

A time that the clock skips is read with the offset before the jump; of a time that comes twice the first is meant.
"""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.scalar.values import Value, apply_to_arrays

_INSTANT = pa.timestamp("us", "UTC")
_EPOCH = datetime.datetime(1970, 1, 1)
_LAST_KNOWN = 2_114_380_800_000_000
"""The beginning of 2037."""


def to_instant(value: Value, zone: str) -> Value:
    """The instant at which the clocks of a zone show a time."""
    return apply_to_arrays(lambda times: _instants(times, zone), value)


def to_wall_clock(value: Value, zone: str) -> Value:
    """The time that the clocks of a zone show at an instant."""
    return apply_to_arrays(lambda times: _clocks(times, zone), value)


def shift_zone(value: Value, source: str, target: str) -> Value:
    """The time of one zone's clocks by another's."""
    return to_wall_clock(to_instant(value, source), target)


def _clocks(times: pa.Array, zone: str) -> pa.Array:
    clock_times = pc.local_timestamp(pc.cast(times, pa.timestamp("us", zone)))
    return _by_python(times, clock_times, _places(times) if _is_region(zone) else [], zone, 1)


def _instants(times: pa.Array, zone: str) -> pa.Array:
    instants = pc.assume_timezone(times, zone, ambiguous="earliest", nonexistent="earliest")
    instants = pc.cast(instants, _INSTANT)
    if not _is_region(zone):
        return instants
    back = pc.local_timestamp(pc.cast(instants, pa.timestamp("us", zone)))
    skipped = pc.fill_null(pc.not_equal(back, times), False).to_numpy(zero_copy_only=False)
    places = sorted({*np.flatnonzero(skipped).tolist(), *_places(times)})
    return _by_python(times, instants, places, zone, -1)


def _is_region(zone: str) -> bool:
    """Tell whether a zone is a region, which may move its clocks, and no distance from UTC."""
    return zone[:1] not in "+-" and zone != "UTC"


def _places(times: pa.Array) -> list[int]:
    """The rows of times after which Arrow knows no rule by which clocks move."""
    late = pc.greater_equal(pc.cast(times, pa.int64()), pa.scalar(_LAST_KNOWN))
    return np.flatnonzero(pc.fill_null(late, False).to_numpy(zero_copy_only=False)).tolist()


def _by_python(
    times: pa.Array, arrow_result: pa.Array, places: list[int], zone: str, sign: int
) -> pa.Array:
    """The values that were found, with the times at some places moved by the zone's offset, as Python has it."""
    if not places:
        return arrow_result
    numbers, arrow_numbers = (
        pc.cast(each, pa.int64()).to_pylist() for each in (arrow_result, times)
    )
    region = ZoneInfo(zone)
    for place in places:
        moment = _EPOCH + datetime.timedelta(microseconds=arrow_numbers[place])
        if sign > 0:
            offset = moment.replace(tzinfo=datetime.UTC).astimezone(region).utcoffset()
        else:
            # fold=0: of two times the first, of none the one before the jump.
            offset = region.utcoffset(moment)
        assert offset is not None
        numbers[place] = arrow_numbers[place] + sign * round(offset.total_seconds()) * 1_000_000
    return pc.cast(pa.array(numbers, pa.int64()), arrow_result.type)
