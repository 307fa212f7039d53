"""Instants and wall clocks: windows are laid out on the wall clock of a time zone and fire at instants.

A local time that a change of the clocks skips is the instant of the change; one that occurs twice is the later instant
(Flink's rule). All times are int64 arrays of milliseconds since 1970.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aggloom.errors import OptionError

Times = NDArray[np.int64]
_UTC = ("UTC", "Etc/UTC", "Z", "GMT", "+00:00")


_FARTHEST = 18 * 60
"""Number of minutes that a zone is away from UTC at most, in Java."""
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?([0-5]\d))?")


def check_zone(name: str) -> str:
    """The name of a time zone as Arrow spells it; raises OptionError if there is none of that name.

    A distance from UTC may be written as in Java: GMT+08:00, UTC+8, -03:30. Z is UTC.
    """
    zone = _spelled(name)
    try:
        _local(np.zeros(1, np.int64), zone)
    except (pa.ArrowException, ValueError, TypeError) as e:
        raise OptionError(
            f"there is no time zone {name!r}; write one such as 'Asia/Shanghai', '+08:00' or 'UTC'."
        ) from e
    return zone


def _spelled(name: str) -> str:
    """The zone `+08:00` for what Java, and so Flink and Spark, call GMT+8, UTC+08:00 or +8."""
    found = _OFFSET.fullmatch(name)
    if found is None:
        return "UTC" if name == "Z" else name
    sign, hours, minutes = found.groups()
    distance = int(hours) * 60 + int(minutes or 0)
    if distance > _FARTHEST:
        return name
    return f"{sign}{distance // 60:02}:{distance % 60:02}"


def to_local(instants: Times, zone: str) -> Times:
    """Return the times that the clocks of a zone show at instants."""
    return instants if zone in _UTC else _local(instants, zone)


def to_instants(local: Times, zone: str) -> Times:
    """When the clocks of a zone show these times."""
    if zone in _UTC or not len(local):
        return local
    naive = pa.array(local, pa.timestamp("ms"))
    zoned = pc.assume_timezone(naive, zone, ambiguous="latest", nonexistent="latest")
    return _numbers(zoned)


def _local(instants: Times, zone: str) -> Times:
    zoned = pa.array(instants, pa.timestamp("ms", zone))
    return _numbers(pc.local_timestamp(zoned))


def _numbers(times: Any) -> Times:
    return np.asarray(times.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
