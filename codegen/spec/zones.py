"""Names of time zones: those of Java, and so of Spark and Flink, in a spelling of Arrow and Python."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from aggloom.errors import OptionError, nearest

_FARTHEST = 18 * 3600
"""The largest offset from UTC in Java, in seconds."""
_UTC = ("Z", "UTC", "GMT", "UT")
# Hours alone may have one digit or two; without colons each part has two digits.
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])"
    r"(?:(?P<hours>\d{1,2})(?::(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d))?)?"
    r"|(?P<hh>\d\d)(?P<mm>[0-5]\d)(?P<ss>[0-5]\d)?)"
)
_REGION = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
_NOT_JAVAS = ("posix", "right/", "localtime", "Factory")
"""Prefixes of names that the system's files have and Java lacks; zones of right/ count leap seconds."""
_SHORT_IDS = (
    "EST=-05:00 MST=-07:00 HST=-10:00 ACT=Australia/Darwin AET=Australia/Sydney "
    "AGT=America/Argentina/Buenos_Aires ART=Africa/Cairo AST=America/Anchorage "
    "BET=America/Sao_Paulo BST=Asia/Dhaka CAT=Africa/Harare CNT=America/St_Johns "
    "CST=America/Chicago CTT=Asia/Shanghai EAT=Africa/Addis_Ababa ECT=Europe/Paris "
    "IET=America/Indiana/Indianapolis IST=Asia/Kolkata JST=Asia/Tokyo MIT=Pacific/Apia "
    "NET=Asia/Yerevan NST=Pacific/Auckland PLT=Asia/Karachi PNT=America/Phoenix "
    "PRT=America/Puerto_Rico PST=America/Los_Angeles SST=Pacific/Guadalcanal "
    "VST=Asia/Ho_Chi_Minh"
)
"""Java's ZoneId.SHORT_IDS, which Spark takes."""
_SHORT = dict(pair.split("=") for pair in _SHORT_IDS.split())


def spell_zone(name: object) -> str:
    """Return the name of a time zone for Arrow and Python; raises OptionError for a name that Java does not accept.

    An offset from UTC is written as in Java: GMT+08:00, UTC+8, -03:30, +0800. Z, GMT and an offset of 0 are UTC.

    Example:
        >>> spell_zone("GMT+8"), spell_zone("Z"), spell_zone("Europe/Berlin"), spell_zone("PST")
        ('+08:00', 'UTC', 'Europe/Berlin', 'America/Los_Angeles')
    """
    if not isinstance(name, str):
        raise _unknown(name)
    if name in _UTC:
        return "UTC"
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        return _spell_offset(offset)
    # Java's short names (PST, JST), some of which are fixed offsets.
    name = _SHORT.get(name, name)
    # EST is -05:00 in Java, without summer time.
    if _OFFSET.fullmatch(name):
        return name
    # Python has more zones than Java, such as `posix/Europe/Berlin`, on which Spark would fail later.
    if not _REGION.fullmatch(name) or name.startswith(_NOT_JAVAS):
        raise _unknown(name)
    try:
        ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise _unknown(name) from None
    return name


def _spell_offset(offset: re.Match[str]) -> str:
    hours, minutes, seconds = (
        int(offset[long] or offset[short] or 0)
        for long, short in (("hours", "hh"), ("minutes", "mm"), ("seconds", "ss"))
    )
    distance = (hours * 60 + minutes) * 60 + seconds
    if distance > _FARTHEST:
        raise OptionError(
            f"there is no time zone {offset[0]!r}: none is further from UTC than 18 hours."
        )
    if not distance:
        return "UTC"
    text = f"{offset['sign']}{hours:02}:{minutes:02}"
    return f"{text}:{seconds:02}" if seconds else text


def _unknown(name: object) -> OptionError:
    known = [*available_timezones(), *_UTC]
    hint = nearest(name, known) if isinstance(name, str) else ""
    # A list of six hundred names is no help.
    close = hint if hint.startswith("Did you mean") else ""
    write = "write one such as 'Asia/Shanghai', '+08:00', 'GMT+8' or 'UTC'."
    return OptionError(f"there is no time zone {name!r}; {close or write}")
