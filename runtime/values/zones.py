"""Time zones as Python has them."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo


def make_zone(name: str) -> dt.tzinfo:
    """Return the zone of a name as `spell_zone` spells it: a region, or a distance from UTC.

    Example:
        >>> make_zone("-03:30")
        datetime.timezone(datetime.timedelta(days=-1, seconds=73800))
    """
    if name[0] not in "+-":
        return ZoneInfo(name)
    hours, minutes, seconds = (*map(int, name[1:].split(":")), 0)[:3]
    distance = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return dt.timezone(-distance if name[0] == "-" else distance)
