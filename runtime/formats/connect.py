"""Values by the schema that Kafka Connect sends with them: numbers that are decimals, times and dates by a name.

A name such as `io.debezium.time.MicroTimestamp` says what the number means; the column's type says what it becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from aggloom.runtime.formats import times
from aggloom.runtime.formats.base import FormatSettings
from aggloom.runtime.formats.values import (
    Reader,
    decode_unscaled,
    fit_decimal,
    make_float_reader,
    reader,
    variant_reader,
)
from aggloom.type_layout import is_variant

_DAYS = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_MOMENTS = {
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Timestamp": "ms",
}
_CLOCKS = {
    "io.debezium.time.Time": "ms",
    "io.debezium.time.MicroTime": "us",
    "io.debezium.time.NanoTime": "ns",
    "org.apache.kafka.connect.data.Time": "ms",
}
_TEXT_MOMENTS = ("io.debezium.time.ZonedTimestamp", "io.debezium.time.IsoTimestamp")
_TEXT_CLOCKS = ("io.debezium.time.ZonedTime", "io.debezium.time.IsoTime")
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE = "io.debezium.data.VariableScaleDecimal"
_JSON = "io.debezium.data.Json"
_ISO_DATE = "io.debezium.time.IsoDate"


def connect_schema(content: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any] | None:
    """The schema of an object that is Kafka Connect's schema and payload around a row; None of another object."""
    if content.keys() != {"schema", "payload"} or {"schema", "payload"} & {
        n.lower() for n in names
    }:
        return None
    schema = content["schema"]
    return schema if isinstance(schema, Mapping) else {}


def connect_readers(
    columns: pa.Schema,
    image: Mapping[str, Any] | None,
    settings: FormatSettings,
    plain: Sequence[Reader],
) -> list[Reader]:
    """The readers of a row whose schema arrived with it; a field that it does not have is read as any other."""
    fields = {
        str(f.get("field")): f for f in (image or {}).get("fields") or () if isinstance(f, dict)
    }
    # Two fields may differ by case alone: the exact name goes first.
    lower = {name.lower(): f for name, f in fields.items()}
    return [
        _reader(
            fields.get(column.name) or lower.get(column.name.lower()), column.type, settings, own
        )
        for column, own in zip(columns, plain, strict=True)
    ]


def _reader(field: Any, dtype: pa.DataType, settings: FormatSettings, plain: Reader) -> Reader:
    if not isinstance(field, dict):
        return plain
    if field.get("type") == "array" and pt.is_list(dtype):
        item = _reader(
            field.get("items"), dtype.value_type, settings, reader(dtype.value_type, settings)
        )
        return lambda value: [None if one is None else item(one) for one in check_list(value)]
    scale = (field.get("parameters") or {}).get("scale")
    return named_reader(field.get("name"), scale, dtype) or plain


def named_reader(name: Any, scale: Any, dtype: pa.DataType) -> Reader | None:
    """Return a reader of values whose meaning has a name, into a column's type; None for a name that says nothing more.

    scale: of the name that is a decimal.
    """
    if name == _DECIMAL:
        scale = int(scale)
        return _as_decimal(
            lambda v: decode_unscaled(v, scale) if isinstance(v, str | bytes) else Decimal(v), dtype
        )
    if name == _VARIABLE:
        return _as_decimal(lambda v: decode_unscaled(v["value"], int(v["scale"])), dtype)
    if name == _JSON and is_variant(dtype):
        return variant_reader(texts=True)
    if name in _DAYS:
        return _as_day(_whole, dtype)
    if name == _ISO_DATE:
        return _as_day(lambda value: times.day(value.removesuffix("Z")), dtype)
    if name in _MOMENTS:
        unit = _MOMENTS[name]
        return _as_moment(
            lambda value: times.to_microseconds(_whole(value), unit), dtype, zoned=False
        )
    if name in _TEXT_MOMENTS:
        zoned = name == _TEXT_MOMENTS[0]
        return _as_moment(lambda value: times.moment(value, times.UTC), dtype, zoned)
    if name in _CLOCKS:
        unit = _CLOCKS[name]
        return _as_clock(lambda value: times.to_microseconds(_whole(value), unit), dtype)
    if name in _TEXT_CLOCKS:
        return _as_clock(times.clock, dtype)
    return None


def _as_decimal(number: Callable[[Any], Decimal], dtype: pa.DataType) -> Reader:
    if pt.is_decimal(dtype):
        return lambda value: fit_decimal(number(value), dtype)
    if pt.is_string(dtype):
        return lambda value: format(number(value), "f")
    if pt.is_floating(dtype):
        read = make_float_reader(dtype.bit_width)
        return lambda value: read(number(value))
    if pt.is_integer(dtype):
        # 38 digits hold every integer of 64 bits, and nothing behind the point is let through.
        whole = pa.decimal128(38, 0)
        bits = dtype.bit_width - 1
        return lambda value: _within(int(fit_decimal(number(value), whole)), 1 << bits)
    return refuse_value


def _as_day(days: Reader, dtype: pa.DataType) -> Reader:
    def check(value: Any) -> int:
        number = int(days(value))
        times.in_range(number * times.DAY)
        return number

    if pt.is_date(dtype):
        return check
    if pt.is_timestamp(dtype):
        return lambda value: check(value) * times.DAY
    if pt.is_string(dtype):
        return lambda value: times.shown_day(check(value))
    return _whole if pt.is_integer(dtype) else refuse_value


def _as_moment(micros: Reader, dtype: pa.DataType, zoned: bool) -> Reader:
    def check(value: Any) -> int:
        return times.in_range(int(micros(value)))

    if pt.is_timestamp(dtype):
        # A clock on a wall is no instant, but for those who read it in Greenwich, as Debezium does; not the other way.
        return refuse_value if zoned and dtype.tz is None else check
    if pt.is_date(dtype):
        return lambda value: _midnight(check(value))
    if pt.is_string(dtype):
        end = "Z" if zoned else ""
        return lambda value: times.shown_moment(check(value)) + end
    return _whole if pt.is_integer(dtype) else refuse_value


def _as_clock(micros: Reader, dtype: pa.DataType) -> Reader:
    def check(value: Any) -> int:
        # A clock shows no 24:00, and nothing before midnight.
        return _within(int(micros(value)), times.DAY, lowest=0)

    if pt.is_time(dtype):
        return check
    if pt.is_string(dtype):
        return lambda value: times.shown_clock(check(value))
    return _whole if pt.is_integer(dtype) else refuse_value


def _midnight(micros: int) -> int:
    # A date would lose the time of day.
    if micros % times.DAY:
        raise ValueError(micros)
    return micros // times.DAY


def _whole(value: Any) -> int:
    # The exact type, since True is an integer, too.
    if type(value) is not int:
        raise ValueError(value)
    return value


def _within(value: int, limit: int, lowest: int | None = None) -> int:
    if not (-limit if lowest is None else lowest) <= value < limit:
        raise ValueError(value)
    return value


def check_list(value: Any) -> list[Any]:
    """A value that is an array."""
    if not isinstance(value, list):
        raise ValueError(value)
    return value


def refuse_value(value: Any) -> Any:
    """The reader of what the column's type does not have."""
    raise ValueError(value)
