"""Values of YAML as values of a column's type; what does not fit is refused by row and column."""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from aggloom.codegen import type_name
from aggloom.display import text_of
from aggloom.errors import SpecError, nearest
from aggloom.runtime.values.changelog import same_value
from aggloom.type_layout import is_variant

_CLOSE = 1e-9
"""Two floating numbers are equal if they differ by no more than this part of the larger one."""


class Unfit(Exception):
    """A value that its column's type does not have; the text says why."""


def value_of(raw: Any, kind: pa.DataType, where: str) -> Any:
    """The value; raises SpecError, which begins with `where`."""
    if raw is None:
        return None
    try:
        return _value(raw, kind)
    except Unfit as why:
        reason = f": {why}" if str(why) else ""
        raise SpecError(f"{where} is {type_name(kind)}, not {text_of(raw)}{reason}") from None


def equal(one: Any, other: Any) -> bool:
    """Tell whether two values of a column are the same: floats nearly, and NaN is NaN."""
    if isinstance(one, float) and isinstance(other, float):
        # Nearly, because the order in which rows arrive decides how a sum of floats is rounded. No absolute tolerance:
        # it would take every tiny value for zero.
        both = math.isnan(one) and math.isnan(other)
        return both or math.isclose(one, other, rel_tol=_CLOSE, abs_tol=0.0)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        # Arrow gives a map as pairs in the order of insertion, which no map of SQL has.
        if is_map(one) and is_map(other):
            return bool(same_value(one) == same_value(other))
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def is_map(value: Any) -> bool:
    """Tell whether a value is a map, which is a list of entries."""
    return isinstance(value, list) and bool(value) and all(isinstance(v, tuple) for v in value)


def _value(raw: Any, kind: pa.DataType) -> Any:
    # Before numbers: to Python True is an int, and YAML reads `yes` as one.
    if pt.is_boolean(kind):
        return _of(raw, bool)
    if isinstance(raw, bool):
        words = " YAML reads yes, no, on and off as such, too" if pt.is_string(kind) else ""
        raise Unfit(f"a boolean; put a text in quotes.{words}")
    if pt.is_integer(kind):
        return _whole(raw, kind)
    if pt.is_floating(kind):
        return float(_of(raw, int, float))
    if pt.is_decimal(kind):
        return _decimal(raw, kind)
    if is_variant(kind):
        return _document(raw)
    if pt.is_string(kind):
        if not isinstance(raw, str):
            raise Unfit("put a text in quotes")
        return raw
    if pt.is_binary(kind):
        return _binary(raw)
    if pt.is_date(kind) or pt.is_timestamp(kind) or pt.is_time(kind):
        return _moment(raw, kind)
    return _parse_nested(raw, kind)


def _of(raw: Any, *kinds: type) -> Any:
    if not isinstance(raw, kinds):
        raise Unfit
    return raw


def _document(raw: Any) -> str:
    """A VARIANT in its one form."""
    # Loaded where there are any: the functions of expressions take long to load.
    from aggloom.runtime.scalar.variant_columns import variant_text

    if not isinstance(raw, str):
        raise Unfit("write its JSON as a text in quotes")
    try:
        return variant_text(raw)
    except ValueError as error:
        raise Unfit(str(error)) from None


def _whole(raw: Any, kind: pa.DataType) -> int:
    number = int(_of(raw, int))
    limit = 1 << (kind.bit_width - 1)
    if not -limit <= number < limit:
        raise Unfit("out of its range")
    return number


def _decimal(raw: Any, kind: pa.DataType) -> Decimal:
    try:
        decimal = Decimal(str(_of(raw, int, float, str)))
        scaled = decimal.quantize(Decimal(1).scaleb(-kind.scale))
    except InvalidOperation:
        raise Unfit from None
    # quantize rounds: a value with more digits than its column would be another value.
    if scaled != decimal or len(scaled.as_tuple().digits) > kind.precision:
        raise Unfit("it has more digits")
    return scaled


def _binary(raw: Any) -> bytes:
    if isinstance(raw, bytes):
        return raw
    try:
        return base64.b64decode(_of(raw, str), validate=True)
    except ValueError:
        raise Unfit("write !!binary and Base64") from None


def _moment(raw: Any, kind: pa.DataType) -> Any:
    """A day or a time, of YAML's own or as text; times without a zone are UTC where the type has one."""
    try:
        if pt.is_time(kind):
            # YAML reads 10:30:00 as a number in base 60.
            return dt.time.fromisoformat(_of(raw, str))
        if pt.is_date(kind):
            if isinstance(raw, dt.datetime):
                raise Unfit("a time, not a day")
            return raw if isinstance(raw, dt.date) else dt.date.fromisoformat(_of(raw, str))
        moment = raw if isinstance(raw, dt.date) else dt.datetime.fromisoformat(_of(raw, str))
    except ValueError:
        raise Unfit("write it as '2026-01-31 10:30:00'") from None
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime(moment.year, moment.month, moment.day)
    if kind.tz is None:
        if moment.tzinfo is not None:
            raise Unfit("a time with a zone; leave the zone out")
        return moment
    return moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _parse_nested(raw: Any, kind: pa.DataType) -> Any:
    if pt.is_list(kind):
        return [None if each is None else _value(each, kind.value_type) for each in _of(raw, list)]
    if pt.is_map(kind):
        entries = _of(raw, Mapping)
        return [
            (_value(k, kind.key_type), _optional(v, kind.item_type)) for k, v in entries.items()
        ]
    if not pt.is_struct(kind):
        raise Unfit("values of this type cannot be written here")
    names = [field.name for field in kind]
    for name in _of(raw, Mapping):
        if name not in names:
            raise Unfit(f"there is no field {name!r}. {nearest(str(name), names)}")
    return {field.name: _optional(raw.get(field.name), field.type) for field in kind}


def _optional(raw: Any, kind: pa.DataType) -> Any:
    return None if raw is None else _value(raw, kind)
