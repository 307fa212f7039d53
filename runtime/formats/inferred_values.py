"""Values of columns whose types the first rows suggested: those that would have made it another type are refused.

A reader takes what fits its type: `007` of a BIGINT is 7, and a DOUBLE rounds an id of 20 digits. That is right for a
type that somebody declared, and a wrong answer for one that nobody did.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from aggloom.codegen import quote_name, type_name

WHOLE = r"-?(0|[1-9][0-9]*)"
NUMBER = rf"{WHOLE}(\.[0-9]+)?([eE][+-]?[0-9]+)?"
DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME = rf"{DAY}[T ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,6}})?)?"
ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
MANY_DIGITS = r"[0-9][0-9.]{15}"
"""A part of each number that a DOUBLE may round: one of 15 digits is kept."""


def declared_advice(name: str, kind: pa.DataType) -> str:
    """Return advice about a value that a column of an inferred type would change."""
    column = name if re.fullmatch(r"[A-Za-z_]\w*", name) else quote_name(name)
    return f'Declare the columns, such as schema="{column} STRING, ..", or {type_name(kind)} to read it so.'


def is_exact(value: int) -> bool:
    """Return whether a DOUBLE keeps a whole number."""
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def is_kept(text: str) -> bool:
    """Return whether a DOUBLE is written with the digits of this number again, so that no two ids fall together."""
    number = Decimal(text)
    # `repr` has the fewest digits that lead back to the same DOUBLE.
    return number == Decimal(repr(float(number)))


def first_misfit(texts: pa.Array, kind: pa.DataType) -> int | None:
    """Return the index of the first text that inference would not have given this type."""
    pattern = spelling_of(kind)
    if pattern is None:
        return None
    is_other = pc.invert(pc.match_substring_regex(texts, f"^(?:{pattern})$"))
    at = pc.index(is_other, True).as_py()
    misfits = [at] if at >= 0 else []
    if pt.is_floating(kind):
        is_long = pc.match_substring_regex(texts, MANY_DIGITS)
        for index in pc.indices_nonzero(pc.fill_null(is_long, False)).to_pylist():
            # Behind the first misfit nothing matters: the earliest is the one that is reported.
            if misfits and index >= misfits[0]:
                break
            if not is_kept(texts[index].as_py()):
                return int(index)
    return misfits[0] if misfits else None


def spelling_of(kind: pa.DataType) -> str | None:
    """Return the pattern of texts that are inferred as a type; None where all are."""
    if pt.is_boolean(kind):
        return "(?i)true|false"
    if pt.is_integer(kind):
        return WHOLE
    if pt.is_floating(kind):
        return NUMBER
    if pt.is_decimal(kind):
        # Zeros behind the digits of the type are none.
        return rf"{WHOLE}(\.[0-9]{{1,{kind.scale}}}0*)?" if kind.scale else WHOLE
    if pt.is_date(kind):
        return DAY
    if pt.is_timestamp(kind):
        return TIME if kind.tz is None else TIME + ZONE
    return None


def is_checked(kind: pa.DataType) -> bool:
    """Tell whether a type's readers take more than the values it is inferred from; a DOUBLE does so of long ones."""
    return bool(
        pt.is_boolean(kind) or pt.is_decimal(kind) or pt.is_date(kind) or pt.is_timestamp(kind)
    )


def as_inferred(kind: pa.DataType, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A reader of JSON's values that raises ValueError for one that is not of its inferred type."""
    if not is_checked(kind) and not pt.is_floating(kind):
        return read
    pattern = re.compile(spelling_of(kind) or "")

    def check(value: Any) -> Any:
        if pt.is_boolean(kind):
            is_other = type(value) is not bool
        elif pt.is_floating(kind):
            is_other = type(value) is int and not is_exact(value)
        elif pt.is_decimal(kind):
            is_other = isinstance(value, str)
        else:
            is_other = not isinstance(value, str) or not pattern.fullmatch(value)
        if is_other:
            raise ValueError(value)
        return read(value)

    return check
