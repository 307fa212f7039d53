"""Patterns of dates and times, as Java's DateTimeFormatter has them: how to write a time, and how to read one.

To write one, a pattern becomes a template of fields (`{year}-{month:02}`); to read one, a regular expression with a
group for each field. Letters that Spark refuses, or that a zone decides, are refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Final

from sqlglot import exp

from aggloom.codegen.scalar.lowering import NEEDS_SPARK
from aggloom.codegen.scalar.operand_types import unsupported_error

_PIECE: Final = re.compile(
    r"(?P<field>([a-zA-Z])\2*)|'(?P<quoted>(?:[^']|'')*)'|(?P<plain>[^a-zA-Z'])"
)
# From fine to coarse: the first one that a template has is its finest.
_UNITS: Final = ("microsecond", "second", "minute", "hour", "day")
_UNIT_FIELDS: Final = {
    "microsecond": ("fraction",),
    "second": ("second",),
    "minute": ("minute",),
    "hour": ("hour", "hour12", "hour24", "hour0", "half"),
}
_WRITTEN: Final = {
    **dict.fromkeys(("y", "yyy"), "{plain_year}"),
    "yy": "{year2:02}",
    "yyyy": "{year}",
    **dict.fromkeys(("M", "L"), "{month}"),
    **dict.fromkeys(("MM", "LL"), "{month:02}"),
    **dict.fromkeys(("MMM", "LLL"), "{short_month}"),
    **dict.fromkeys(("MMMM", "LLLL"), "{long_month}"),
    "d": "{day}",
    "dd": "{day:02}",
    "D": "{day_of_year}",
    "DD": "{day_of_year:02}",
    "DDD": "{day_of_year:03}",
    **dict.fromkeys(("Q", "q"), "{quarter}"),
    **dict.fromkeys(("QQ", "qq"), "{quarter:02}"),
    **dict.fromkeys(("QQQ", "qqq"), "Q{quarter}"),
    **dict.fromkeys(("E", "EE", "EEE"), "{short_weekday}"),
    "EEEE": "{long_weekday}",
    "a": "{half}",
    "H": "{hour}",
    "HH": "{hour:02}",
    "h": "{hour12}",
    "hh": "{hour12:02}",
    "K": "{hour0}",
    "KK": "{hour0:02}",
    "k": "{hour24}",
    "kk": "{hour24:02}",
    "m": "{minute}",
    "mm": "{minute:02}",
    "s": "{second}",
    "ss": "{second:02}",
    **{"S" * n: f"{{fraction:.{min(n, 6)}}}" + "0" * max(n - 6, 0) for n in range(1, 10)},
}
"""The form in which each field is written; a fraction of a second is a text of six digits."""
_WRITTEN_IN_UTC: Final = {
    **dict.fromkeys(("X", "XX", "XXX"), "Z"),
    "x": "+00",
    **dict.fromkeys(("xx", "Z", "ZZ", "ZZZ"), "+0000"),
    "xxx": "+00:00",
}
# In English, as Spark's formatter has it without regard to the system's language.
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_SHORT: Final = "|".join(month[:3] for month in _MONTHS)
_LONG: Final = "|".join(_MONTHS)
_READ: Final = {
    **dict.fromkeys(("y", "yyyy"), "(?P<year>[0-9]{4})"),
    "yy": "(?P<year2>[0-9]{2})",
    **dict.fromkeys(("M", "L"), "(?P<month>[0-9]{1,2})"),
    **dict.fromkeys(("MM", "LL"), "(?P<month>[0-9]{2})"),
    **dict.fromkeys(("MMM", "LLL"), f"(?P<month_name>(?i:{_SHORT}))"),
    **dict.fromkeys(("MMMM", "LLLL"), f"(?P<month_name>(?i:{_LONG}))"),
    "d": "(?P<day>[0-9]{1,2})",
    "dd": "(?P<day>[0-9]{2})",
    "D": "(?P<day_of_year>[0-9]{1,3})",
    "DDD": "(?P<day_of_year>[0-9]{3})",
    "a": "(?P<half>(?i:AM|PM))",
    "H": "(?P<hour>[0-9]{1,2})",
    "HH": "(?P<hour>[0-9]{2})",
    "h": "(?P<hour12>[0-9]{1,2})",
    "hh": "(?P<hour12>[0-9]{2})",
    "K": "(?P<hour0>[0-9]{1,2})",
    "KK": "(?P<hour0>[0-9]{2})",
    "k": "(?P<hour24>[0-9]{1,2})",
    "kk": "(?P<hour24>[0-9]{2})",
    "m": "(?P<minute>[0-9]{1,2})",
    "mm": "(?P<minute>[0-9]{2})",
    "s": "(?P<second>[0-9]{1,2})",
    "ss": "(?P<second>[0-9]{2})",
    **{"S" * n: f"(?P<fraction>[0-9]{{1,{n}}})" for n in range(1, 10)},
    "X": "(?P<offset>Z|[+-][0-9]{2}(?:[0-9]{2})?)",
    "XX": "(?P<offset>Z|[+-][0-9]{4})",
    "XXX": "(?P<offset>Z|[+-][0-9]{2}:[0-9]{2})",
    "x": "(?P<offset>[+-][0-9]{2}(?:[0-9]{2})?)",
    **dict.fromkeys(("xx", "Z", "ZZ", "ZZZ"), "(?P<offset>[+-][0-9]{4})"),
    "xxx": "(?P<offset>[+-][0-9]{2}:[0-9]{2})",
}
_VARYING: Final = "{1,"
"""The mark of a field of one digit or more, which may not stand right before another number."""


def template_of(pattern: str, node: exp.Expression, utc: bool) -> tuple[str, str]:
    """The template of a pattern by which times are written, and the finest unit in it.

    utc: offsets from UTC are known to be zero. Raises UnsupportedExpressionError.
    """
    known = {**_WRITTEN, **(_WRITTEN_IN_UTC if utc else {})}

    def spell(text: str) -> str:
        # The template is one of str.format.
        if set(text) & set("{}"):
            raise unsupported_error(node, NEEDS_SPARK)
        return text

    template = "".join(_pieces(pattern, node, known, spell, "[]"))
    for unit in _UNITS:
        fields = _UNIT_FIELDS.get(unit, ())
        if any(f"{{{field}" in template for field in fields):
            return template, unit
    return template, "day"


def reader_of(pattern: str, node: exp.Expression) -> str:
    """The regular expression of a pattern by which times are read; raises UnsupportedExpressionError."""
    pieces = list(_pieces(pattern, node, _READ, _escape, ""))
    for piece, after in itertools.pairwise(pieces):
        # Java would take as many digits as make the whole fit; a regular expression takes the most for the first field.
        if _VARYING in piece and re.match(r"\(\?P<\w+>\[0-9\]", after):
            raise unsupported_error(node, NEEDS_SPARK)
    text = "".join(pieces)
    names = re.findall(r"\(\?P<(\w+)>", text)
    # Each optional part doubles the ways to read a text.
    optional = text.count("(?:(") + text.count(")?")
    halves = {"hour12", "hour0"} & set(names)
    clash = len({"hour", "hour12", "hour0", "hour24"} & set(names)) > 1
    # Two fields for one thing may contradict each other: what then holds is Java's affair.
    doubled = len(set(names)) < len(names) or {"month", "month_name"} <= set(names)
    # An hour of twelve means nothing without its half, nor does a half without it.
    lonely = bool(halves) != ("half" in names) or ("day_of_year" in names and "month" in names)
    if not names or doubled or clash or lonely or optional > 8:
        raise unsupported_error(node, NEEDS_SPARK)
    return text


def _escape(text: str) -> str:
    # Java reads letters between quotes whatever their case.
    known = {"[": "(?:", "]": ")?"}
    if text in known:
        return known[text]
    escaped = re.escape(text)
    return f"(?i:{escaped})" if any(map(str.isalpha, text)) else escaped


def _pieces(
    pattern: str,
    node: exp.Expression,
    known: dict[str, str],
    spell: Callable[[str], str],
    refused: str,
) -> Iterator[str]:
    """The pieces of a pattern, each as `known` or `spell` has it."""
    end = depth = 0
    for piece in _PIECE.finditer(pattern):
        plain = piece["plain"] or ""
        # Java reserves these characters; a gap is a letter that no piece has.
        if piece.start() != end or plain in (*"{}#", *refused):
            raise unsupported_error(node, NEEDS_SPARK)
        end = piece.end()
        depth += (plain == "[") - (plain == "]")
        if depth < 0:
            raise unsupported_error(node, NEEDS_SPARK)
        if piece["field"]:
            if piece["field"] not in known:
                raise unsupported_error(node, NEEDS_SPARK)
            yield known[piece["field"]]
        elif piece["quoted"] is not None:
            # '' is a quote, inside a quotation and alone.
            text = (piece["quoted"] or "'").replace("''", "'")
            yield spell(text) if text not in "[]" else re.escape(text)
        else:
            yield spell(plain)
    if end != len(pattern) or not pattern or depth:
        raise unsupported_error(node, NEEDS_SPARK)
