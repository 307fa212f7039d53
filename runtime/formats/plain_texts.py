"""Texts in the plainest spelling of their type, of which every reader says the same: many at once, by Arrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

# 18 digits fit into 64 bits, whichever they are.
_WHOLE = r"^-?[0-9]{1,18}$"
_NUMBER = r"^-?[0-9]{1,300}(\.[0-9]{1,300})?([eE]-?[0-9]{1,3})?$"
# Without the year 0, which Arrow would take; the years 100 to 900 in hundreds are left out along with it.
_DAY = r"[0-9]{3}[1-9]-[0-9]{2}-[0-9]{2}|[0-9]{2}[1-9]0-[0-9]{2}-[0-9]{2}|[1-9][0-9]00-[0-9]{2}-[0-9]{2}"
_MOMENT = rf"^({_DAY})[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?$"


def find_pattern(kind: pa.DataType, zone: str) -> str | None:
    """The pattern of a type's plain values; None for a type that has none. zone: where times are that name none."""
    if pt.is_string(kind):
        return ""
    if pt.is_integer(kind):
        return _WHOLE
    if pt.is_floating(kind):
        return _NUMBER
    if pt.is_boolean(kind):
        return "^(true|false)$"
    if pt.is_decimal128(kind):
        return rf"^-?[0-9]{{1,30}}(\.[0-9]{{1,{kind.scale}}})?$" if kind.scale else _WHOLE
    if pt.is_date(kind):
        return f"^({_DAY})$"
    if pt.is_timestamp(kind) and (kind.tz is None or zone == "UTC"):
        return _MOMENT
    return None


def parse_texts(texts: pa.Array, kind: pa.DataType, zone: str) -> pa.Array | None:
    """Texts as values of a type; None where one is not plain, or no value of the type."""
    pattern = find_pattern(kind, zone)
    if pattern is None:
        return None
    if not pattern:
        return texts
    if not len(texts):
        return pa.array([], kind)
    if pc.all(pc.match_substring_regex(texts, pattern)).as_py() is False:
        return None
    try:
        if pt.is_timestamp(kind):
            bare = texts.cast(pa.timestamp("us"))
            return bare if kind.tz is None else bare.cast(kind)
        column = texts.cast(kind)
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    if pt.is_floating(kind) and not finite(column):
        return None
    return column


def finite(numbers: pa.Array) -> bool:
    """Tell whether none of the numbers, which may be NULL, is infinite or NaN."""
    return bool(np.isfinite(numbers.drop_null().to_numpy(zero_copy_only=False)).all())
