"""SCHEMA_OF_CSV: the types that Spark infers of a line, which is a literal."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Final

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?|[+-]?(NaN|Infinity)|-?Inf"
)
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_WORD: Final = re.compile(r"[^0-9\x00-\x20:+-][^0-9:+-]*")
_DIGITS: Final = 38


def schema_of_csv(text: str, separator: str) -> str:
    """The columns of a line as DDL; raises ValueError for a field whose type only Spark infers.

    >>> schema_of_csv("1,x,2020-02-29", ",")
    'STRUCT<_c0: INT, _c1: STRING, _c2: DATE>'
    """
    if not text or re.search("[\n\r\0\uffff]", text):
        raise ValueError("a line has one field at least, and one line")
    fields = _split_line(text, separator)
    return f"STRUCT<{', '.join(f'_c{at}: {_infer(each)}' for at, each in enumerate(fields))}>"


def _split_line(text: str, separator: str) -> list[str]:
    """The fields of a line, without quotes around them; raises ValueError for quotes at any other place."""
    sep = re.escape(separator)
    field = re.compile(f'(?:"([^"\\\\]*)"|([^"{sep}][^{sep}]*)?)(?:{sep}|$)')
    fields, at = list[str](), 0
    while True:
        match = field.match(text, at)
        if match is None:
            raise ValueError("its quotes are read by Spark alone; write the schema")
        fields.append(match[1] or match[2] or "")
        at = match.end()
        if at == len(text) and not match[0].endswith(separator):
            return fields


def _infer(field: str) -> str:
    if not field:
        return "STRING"
    if _WHOLE.fullmatch(field):
        number = int(field)
        if -(1 << 31) <= number < 1 << 31:
            return "INT"
        digits = len(str(abs(number)))
        if -(1 << 63) <= number < 1 << 63:
            return "BIGINT"
        return f"DECIMAL({digits},0)" if digits <= _DIGITS else "DOUBLE"
    if _NUMBER.fullmatch(field):
        return _infer_number(field)
    if _is_date(field):
        return "DATE"
    if field.lower() in ("true", "false"):
        return "BOOLEAN"
    if _WORD.fullmatch(field):
        return "STRING"
    raise ValueError(f"whether {field!r} is a time is known to Spark alone; write the schema")


def _infer_number(field: str) -> str:
    """The type of a number with a point, an exponent or a letter: DECIMAL if it is whole as it is written."""
    try:
        number = decimal.Decimal(field).as_tuple()
    except decimal.InvalidOperation:
        return "DOUBLE"
    whole = number.exponent == 0 and len(number.digits) <= _DIGITS
    return f"DECIMAL({len(number.digits)},0)" if whole else "DOUBLE"


def _is_date(field: str) -> bool:
    match = _DATE.fullmatch(field)
    if match is None:
        return False
    try:
        datetime.date(*map(int, match.groups()))
    except ValueError:
        return False
    return True
