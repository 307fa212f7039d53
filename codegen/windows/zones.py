"""Instants and wall clocks: windows are laid out on the wall clock of a time zone and fire at instants.

A local time that a change of the clocks skips is the instant of the change; one that occurs twice is the later instant
(Flink's rule). All times are int64 arrays of milliseconds since 1970.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aggloom.codegen.spec.zones import spell_zone
from aggloom.errors import OptionError

Times = NDArray[np.int64]  # int64[n]: milliseconds after 1970
_UTC = ("UTC", "Etc/UTC", "Z", "GMT", "+00:00")


def check_zone(name: str) -> str:
    """Return the name of a time zone as Arrow spells it, as `spell_zone` does; raises OptionError if it knows none."""
    zone = spell_zone(name)
    try:
        # A zone is only known by its use: Arrow reads the name when it converts a time.
        _local(np.zeros(1, np.int64), zone)
    except (pa.ArrowException, ValueError, TypeError) as e:
        raise OptionError(f"Arrow has no time zone {name!r}; write one of whole minutes.") from e
    return zone


def to_local(instants: Times, zone: str) -> Times:
    """Return the times that the clocks of a zone show at instants."""
    return instants if zone in _UTC else _local(instants, zone)


def to_instants(local: Times, zone: str) -> Times:
    """Return the instants at which the clocks of a zone show these times."""
    if zone in _UTC or not len(local):
        return local
    naive = pa.array(local, pa.timestamp("ms"))
    # "latest" is Flink's rule for hours that are skipped or come twice.
    zoned = pc.assume_timezone(naive, zone, ambiguous="latest", nonexistent="latest")
    return _numbers(zoned)


def _local(instants: Times, zone: str) -> Times:
    zoned = pa.array(instants, pa.timestamp("ms", zone))
    return _numbers(pc.local_timestamp(zoned))


def _numbers(times: Any) -> Times:
    return np.asarray(times.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
