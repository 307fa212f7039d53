"""Numbers in texts of a given form, as TO_NUMBER reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Final, NamedTuple

import pyarrow as pa

from aggloom.runtime.scalar.values import Value, by_row, row_by_row

Group = tuple[bool, int]
"""A group of digits: True if it has exactly as many as the number says, False if at most."""
_BLANK: Final = r"\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000"
"""Blanks as Java knows them, which may be anywhere among digits."""
_FAULT: Final = "the text does not have the form of the format"


class NumberForm(NamedTuple):
    """The parts of a format, each a piece of a regular expression, and its groups of digits before the point."""

    before: str
    groups: tuple[Group, ...]
    fraction: int | None
    after: str


def to_numbers(value: Value, form: Sequence[object], dtype: pa.DataType, sql: str | None) -> Value:
    """The number of each text in a form; sql: None gives NULL for a text that does not have it."""
    read = _reader(NumberForm(*form), dtype.scale)  # type: ignore[arg-type]

    def try_read(text: str) -> Decimal | None:
        try:
            return read(text)
        except ValueError:
            return None

    if sql is None:
        return row_by_row(try_read, dtype, value)
    return by_row(read, dtype, value, sql=sql)


@lru_cache(maxsize=64)
def _reader(form: NumberForm, scale: int) -> Callable[[str], Decimal]:
    digits = rf"(?P<whole>[\d,{_BLANK}]*)" if form.groups else "(?P<whole>)"
    fraction = "" if form.fraction is None else rf"(?:\.(?P<part>[\d{_BLANK}]*))?"
    blank = re.compile(f"[{_BLANK}]")
    pattern = re.compile(form.before + digits + fraction + form.after)

    def read(text: str) -> Decimal:
        match = pattern.fullmatch(text)
        if match is None:
            raise ValueError(_FAULT)
        pieces = match.groupdict()
        groups = blank.sub("", pieces["whole"]).split(",")
        part = blank.sub("", pieces.get("part") or "")
        whole = "".join(groups)
        if not whole + part or len(part) > (form.fraction or 0) or not _fits(groups, form.groups):
            raise ValueError(_FAULT)
        number = Decimal(f"{whole or 0}.{part or 0}")
        negative = pieces.get("sign") == "-" or pieces.get("angle") is not None
        return (-number if negative else number).quantize(Decimal(1).scaleb(-scale))

    return read


def _fits(texts: list[str], groups: tuple[Group, ...]) -> bool:
    """Tell whether groups of digits are those of a form, of which the first may be missing."""
    if len(texts) > max(len(groups), 1):
        return False
    missing = [""] * (len(groups) - len(texts))
    pairs = zip([*missing, *texts], groups, strict=False)
    return all(len(text) == most if exact else len(text) <= most for text, (exact, most) in pairs)
