"""Values of JSON without parts as values of SQL, for FROM_JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.scalar.java_numbers import double_to_text
from aggloom.runtime.scalar.json_texts import HALF, quote_json
from aggloom.runtime.scalar.record_times import time_reader

V = TypeVar("V")
Leaf = Callable[[Any], Any]
"""Makes a value of a type of a str, an int, a bool or a `Number`; raises ValueError for one that does not fit."""
_EXACT: Final = Context(prec=1100)
_DECIMAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WORDS: Final = {
    "NaN": float("nan"),
    **dict.fromkeys(("+INF", "+Infinity", "Infinity"), float("inf")),
    **dict.fromkeys(("-INF", "-Infinity"), -float("inf")),
}
_SINGLE: Final = pa.float32()
_INSTANT: Final = pa.timestamp("us", "UTC")


class Number(str):
    """The text of a number with a point or an exponent, or of NaN or infinity."""

    __slots__ = ()


class PartialValueError(ValueError):
    """A row, an array or a map of which a part could not be read; `value`: the rest."""

    def __init__(self, value: Any, cause: ValueError) -> None:
        super().__init__(str(cause))
        self.value = value


def whole_or_partial(value: V, first: ValueError | None) -> V:
    """Return a value without mistakes; raises PartialValueError with it where the first mistake is given."""
    if first is not None:
        raise PartialValueError(value, first)
    return value


@dataclass(frozen=True)
class JsonReading:
    """The options of FROM_JSON.

    zone: the session's. readers: regular expressions of fields for "date", "timestamp" and "timestamp_ntz", where the
    query gives a pattern. corrupt: the name of the field for the text of a bad record, None if the type has none.
    """

    zone: str = "UTC"
    readers: Mapping[str, str] = field(default_factory=dict)
    corrupt: str | None = None


def leaf_reader(dtype: pa.DataType, options: JsonReading) -> Leaf:
    """The reader of a type without parts."""
    if dtype == pa.string():
        return lambda value: replace_halves(value) if type(value) is str else leaf_text(value)
    if dtype == pa.bool_():
        return lambda value: value if value is True or value is False else _misfit(value, dtype)
    if pa.types.is_integer(dtype):
        return lambda value: (
            fit_integer(value, dtype) if type(value) is int else _misfit(value, dtype)
        )
    if pa.types.is_floating(dtype):
        return lambda value: _as_float(value, dtype)
    if pa.types.is_decimal(dtype):
        return lambda value: _as_decimal(value, dtype)
    read_time = time_reader(dtype, options.zone, options.readers)
    if dtype == _INSTANT:
        return lambda value: _as_ticks(value, read_time)
    return lambda value: read_time(value) if type(value) is str else _misfit(value, dtype)


def _misfit(value: Any, dtype: pa.DataType) -> Any:
    raise ValueError(f"{value!r} is no {dtype}")


def fit_integer(number: int, dtype: pa.DataType) -> int:
    """A whole number of a type; raises ValueError. Of a byte Jackson takes also the half without a sign."""
    if abs(2 * number + 1) < 1 << dtype.bit_width:
        return number
    if dtype == pa.int8() and 128 <= number <= 255:
        return number - 256
    raise ValueError(f"{number} does not fit {dtype}")


def _as_float(value: Any, dtype: pa.DataType) -> float:
    if type(value) is str:
        # Only what is no number stands between quotes.
        return _WORDS[value] if value in _WORDS else _misfit(value, dtype)
    if value is True or value is False:
        return float(_misfit(value, dtype))
    return as_single(str(value)) if dtype == _SINGLE else as_double(str(value))


def as_double(text: str) -> float:
    """The DOUBLE nearest to a number's text."""
    return _WORDS[text] if text in _WORDS else float(text)


def as_single(text: str) -> float:
    """The FLOAT nearest to a number's text."""
    # By way of a DOUBLE it would be rounded twice.
    single = _WORDS[text] if text in _WORDS else pc.cast(pa.scalar(text), _SINGLE).as_py()
    return float(single)


def _as_ticks(value: Any, read_time: Callable[[str], int]) -> int:
    """The microseconds since 1970 of a text, or of a whole number of seconds, which overflows as in Java."""
    if type(value) is str:
        return read_time(value)
    if type(value) is not int:
        return int(_misfit(value, _INSTANT))
    return (fit_integer(value, pa.int64()) * 1_000_000 + (1 << 63)) % (1 << 64) - (1 << 63)


def _as_decimal(value: Any, dtype: pa.DataType) -> Decimal:
    if value is True or value is False:
        return Decimal(_misfit(value, dtype))
    # Between quotes commas may group the digits.
    return fit_decimal(value.replace(",", "") if type(value) is str else str(value), dtype)


def fit_decimal(text: str, dtype: pa.DataType) -> Decimal:
    """A number's text as a DECIMAL, rounded half up; raises ValueError."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text!r} is no {dtype}")
    try:
        number = Decimal(text).quantize(Decimal(1).scaleb(-dtype.scale), ROUND_HALF_UP, _EXACT)
    except InvalidOperation:
        raise ValueError(f"{text!r} does not fit {dtype}") from None
    if abs(number) >= Decimal(10) ** (dtype.precision - dtype.scale):
        raise ValueError(f"{text!r} does not fit {dtype}")
    return number


def leaf_text(value: Any) -> str:
    """A value without parts as JSON."""
    if type(value) is str:
        return quote_halves(value)
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if type(value) is int:
        return str(value)
    number = as_double(value)
    text = double_to_text(number)
    return f'"{text}"' if number - number else text


def replace_halves(text: str) -> str:
    """A text with a question mark for each half of a character, as Java writes it in UTF-8."""
    return text if text.isascii() else HALF.sub("?", text)


def quote_halves(text: str) -> str:
    """A text as JSON, halves of characters as escapes."""
    quoted = quote_json(text)
    return quoted if text.isascii() else HALF.sub(lambda half: f"\\u{ord(half[0]):04X}", quoted)
