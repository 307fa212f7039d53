"""Values of JSON as those of a column: a function for each type, which takes a value that is not NULL.

It raises ValueError, or one of its kin, for a value that the type does not have. Nothing is rounded, cut, or guessed.
Times are the numbers that Arrow makes times of.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Container, Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from aggloom.errors import DataError, SpecError
from aggloom.runtime.formats import times
from aggloom.runtime.formats.base import FormatSettings
from aggloom.runtime.formats.inferred_values import as_inferred
from aggloom.runtime.formats.json_text import Object, format_value, write_document
from aggloom.type_layout import is_variant

Reader = Callable[[Any], Any]
WRONG = (ValueError, TypeError, ArithmeticError, KeyError, AttributeError, binascii.Error)
"""Errors that a reader may raise."""
_NUMBER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_ZERO_DATE = re.compile(
    r"(?:0000-00-00|\d{4}-00-\d\d|\d{4}-\d\d-00)(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z|[+-]00:?00)?"
)
_FLOATS = {
    **dict.fromkeys(("NaN", "nan"), math.nan),
    **dict.fromkeys(("Infinity", "+INF", "INF", "+Infinity"), math.inf),
    **dict.fromkeys(("-Infinity", "-INF"), -math.inf),
}
_INFINITE_FLOAT = math.ldexp(2 - 2**-24, 127)
"""The least number that is nearer to infinity than to any FLOAT."""
_TRUTH = {"true": True, "false": False, "1": True, "0": False, "t": True, "f": False}


def reader(dtype: pa.DataType, settings: FormatSettings, texts: bool = False) -> Reader:
    """Return a reader of a type. texts: numbers may come as texts, and binaries with a byte in each character."""
    read = _reader(dtype, settings, texts)
    return as_inferred(dtype, read) if settings.inferred else read


def _reader(dtype: pa.DataType, settings: FormatSettings, texts: bool) -> Reader:
    if pt.is_boolean(dtype):
        return _boolean(texts)
    if pt.is_integer(dtype):
        return _integer(dtype.bit_width, texts)
    if pt.is_floating(dtype):
        return make_float_reader(dtype.bit_width, texts)
    if pt.is_decimal(dtype):
        return _decimal(dtype, settings.decimals, texts)
    if pt.is_string(dtype):
        return _text
    if is_variant(dtype):
        return variant_reader(texts or settings.text_documents)
    if pt.is_binary(dtype):
        return _latin if texts else _base64
    if pt.is_date(dtype):
        return _Days(settings.zero_dates)
    if pt.is_timestamp(dtype):
        return _Moments(dtype, settings)
    if pt.is_time(dtype):
        return _time(settings)
    if pt.is_map(dtype):
        return _map(dtype, settings, texts)
    if pt.is_list(dtype):
        return _list(reader(dtype.value_type, settings, texts))
    if pt.is_struct(dtype) and dtype.num_fields:
        return _struct({f.name: reader(f.type, settings, texts) for f in dtype})
    raise SpecError(
        f"a column of type {dtype} cannot be read from JSON; leave it out of the schema"
    )


def _boolean(texts: bool) -> Reader:
    def read_value(value: Any) -> bool:
        if value is True or value is False:
            return value
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        return _TRUTH[value.lower()] if texts else _no(value)

    return read_value


def _integer(bits: int, texts: bool) -> Reader:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def read_value(value: Any) -> int:
        if _is_scaled(value):
            value = int(fit_decimal(decode_unscaled(value["value"], int(value["scale"])), _WHOLE))
        if type(value) is not int:
            value = int(value) if texts and _NUMBER.fullmatch(value) else _no(value)
        return value if low <= value <= high else _no(value)

    return read_value


def make_float_reader(bits: int, texts: bool = False) -> Reader:
    """Return a reader of numbers with a point of 32 or 64 bits; one that would become infinite does not fit."""
    limit = _INFINITE_FLOAT if bits == 32 else math.inf

    def read_value(value: Any) -> float:
        if _is_scaled(value):
            value = decode_unscaled(value["value"], int(value["scale"]))
        if isinstance(value, str):
            if value in _FLOATS:
                return _FLOATS[value]
            value = Decimal(value) if texts and _DECIMAL.fullmatch(value) else _no(value)
        if isinstance(value, bool):
            _no(value)
        number = float(value)
        # A constant of JavaScript's comes as a float.
        return _no(value) if abs(number) >= limit and not isinstance(value, float) else number

    return read_value


def fit_decimal(value: Decimal, dtype: pa.DataType) -> Decimal:
    """A number as one of a column's; raises ValueError if it has more digits, before the point or behind it."""
    if not value.is_finite():
        _no(value)
    exponent = value.as_tuple().exponent
    if value and (isinstance(exponent, int) and -exponent > dtype.scale):
        # Zeros at the end are no digits: they go before a number is refused for having too many.
        value = value.normalize(_WIDE)
    whole = value.adjusted() + 1 if value else 0
    exponent = value.as_tuple().exponent
    if whole > dtype.precision - dtype.scale or (
        value and isinstance(exponent, int) and -exponent > dtype.scale
    ):
        _no(value)
    return value


_WIDE = Context(prec=200)


def _decimal(dtype: pa.DataType, kind: str, texts: bool) -> Reader:
    def read_value(value: Any) -> Decimal:
        if isinstance(value, str):
            if texts or kind == "text":
                number = Decimal(value) if _DECIMAL.fullmatch(value) else _no(value)
            elif kind == "base64":
                number = decode_unscaled(value, dtype.scale)
            else:
                number = _either(value, dtype.scale)
        elif _is_scaled(value):
            number = decode_unscaled(value["value"], int(value["scale"]))
        elif isinstance(value, bool) or not isinstance(value, int | Decimal):
            _no(value)
        else:
            number = Decimal(value)
        return fit_decimal(number, dtype)

    return read_value


def _is_scaled(value: Any) -> bool:
    """Tell whether a value is Oracle's NUMBER of no declared scale, as Debezium writes it."""
    return isinstance(value, dict) and value.keys() == {"scale", "value"}


_WHOLE = pa.decimal128(38, 0)


def decode_unscaled(source: str | bytes, scale: int) -> Decimal:
    """A number whose digits without a point are bytes (base64 in a text), the highest first, in two's complement."""
    data = source if isinstance(source, bytes) else base64.b64decode(source, validate=True)
    digits = int.from_bytes(data, "big", signed=True)
    return Decimal(digits).scaleb(-scale, _WIDE)


def _either(text: str, scale: int) -> Decimal:
    """A number as text, or as bytes; raises Unsaid for a text that may be both."""
    is_number = bool(_DECIMAL.fullmatch(text))
    # Base64 comes in fours of letters and digits: another length, a sign or a point is a number's alone.
    if is_number and (not text.isdigit() or len(text) % 4):
        return Decimal(text)
    number = decode_unscaled(text, scale)
    if is_number:
        raise UnsaidError(
            'a text that is a number, and base64 as well: say decimals="text" (decimal.handling.mode=string) or '
            'decimals="base64" (precise), or send the schema with the messages'
        )
    return number


class UnsaidError(ValueError):
    """A value that may be read in two ways; the text says how to tell."""


def _text(value: Any) -> str:
    text = format_value(value)
    if not text.isascii():
        # Half of a surrogate pair is no character, and says so here.
        text.encode()
    return text


def variant_reader(texts: bool) -> Reader:
    """Return a reader of any value of JSON as a VARIANT. texts: it comes as its text."""
    # Loaded where there are any: the functions of expressions take longer to load than all formats.
    from aggloom.runtime.scalar.variant_columns import variant_text

    def read_value(value: Any) -> str:
        is_text = texts and isinstance(value, str)
        try:
            return variant_text(value if is_text else write_document(value))
        except (DataError, RecursionError):
            # The one value is too deep, and other messages are not: it goes where unreadable ones go.
            raise UnsaidError("which has too many levels for a VARIANT: declare a STRING") from None

    return read_value


def _base64(value: str) -> bytes:
    return base64.b64decode(value, validate=True)


def _latin(value: str) -> bytes:
    return value.encode("latin-1")


def _is_none(value: Any, kind: str) -> bool:
    """Tell whether a text is a date with month or day 0, to be NULL; raises UnsaidError where that is not said."""
    if not isinstance(value, str) or not _ZERO_DATE.fullmatch(value):
        return False
    if kind == "null":
        return True
    raise UnsaidError(
        'a date that does not exist, as MySQL has them: zero_dates="null" reads it as NULL'
    )


class _Days:
    """The reader of dates; zeros: as Settings has zero_dates."""

    def __init__(self, zeros: str) -> None:
        self._zeros = zeros

    def __call__(self, value: Any) -> int | None:
        if type(value) is int:
            times.in_range(value * times.DAY)
            return value
        return None if _is_none(value, self._zeros) else times.day(value)


class _Moments:
    """The reader of times since 1970; column: the unit of its numbers, if nobody has said it."""

    def __init__(self, dtype: pa.DataType, settings: FormatSettings) -> None:
        self._zone = times.find_zone(settings.zone) if dtype.tz is not None else None
        self._said, self._zeros = settings.time_unit, settings.zero_dates
        self.column = times.ColumnUnit()

    def __call__(self, value: Any) -> int | None:
        if type(value) is not int:
            return None if _is_none(value, self._zeros) else times.moment(value, self._zone)
        if self._said != "auto":
            return times.in_range(times.to_microseconds(value, self._said))
        try:
            return self.column.micros(value)
        except times.UnknownUnitError as error:
            raise UnsaidError(f"{error}: give time_unit (s, ms, us or ns)") from None


class ColumnUnits:
    """The units of time columns before a block is read: one that is given up says nothing of them."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._units = [
            (each.column, each.column.unit) for each in readers if isinstance(each, _Moments)
        ]

    @property
    def are_new(self) -> bool:
        """True if a unit is known that was not."""
        return any(column.unit != unit for column, unit in self._units)

    def restore(self) -> None:
        """Put the units back to those of then."""
        for column, unit in self._units:
            column.unit = unit


def _time(settings: FormatSettings) -> Reader:
    def read_value(value: Any) -> int:
        if type(value) is not int:
            return times.clock(value)
        if settings.time_unit == "auto":
            raise UnsaidError("a number for a time of day: give time_unit")
        micros = times.to_microseconds(value, settings.time_unit)
        return micros if 0 <= micros < times.DAY else _no(value)

    return read_value


def _list(item: Reader) -> Reader:
    def read_value(value: Any) -> list[Any]:
        if not isinstance(value, list):
            _no(value)
        return [None if one is None else item(one) for one in value]

    return read_value


def _map(dtype: pa.DataType, settings: FormatSettings, texts: bool) -> Reader:
    key = reader(dtype.key_type, settings, texts=True)
    item = reader(dtype.item_type, settings, texts)

    def read_value(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict) or _twice(value):
            _no(value)
        return [(key(name), None if one is None else item(one)) for name, one in value.items()]

    return read_value


def _struct(fields: dict[str, Reader]) -> Reader:
    def read_value(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            _no(value)
        if twice := sorted(fields.keys() & _twice(value)):
            raise UnsaidError(f"where the field {twice[0]!r} is there twice")
        parts = {n: value[n] if n in value else _in_another_case(n, value, fields) for n in fields}
        return {n: None if one is None else fields[n](one) for n, one in parts.items()}

    return read_value


def _in_another_case(name: str, value: dict[str, Any], fields: Container[str]) -> Any:
    """The value of the one name that differs in case alone and is no other field's; None if there is none."""
    lower = name.lower()
    matches = [each for each in value if each.lower() == lower and each not in fields]
    if len(matches) > 1 or (_twice(value) and matches and matches[0] in _twice(value)):
        _no(value)
    return value[matches[0]] if matches else None


def _twice(value: Any) -> tuple[str, ...]:
    return value.twice if isinstance(value, Object) else ()


def _no(value: Any) -> Any:
    raise ValueError(value)
