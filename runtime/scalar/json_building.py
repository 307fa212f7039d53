"""JSON that is built of values: JSON_OBJECT, JSON_ARRAY, JSON_STRING, and quotes around texts."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.scalar.java_numbers import double_to_text
from aggloom.runtime.scalar.json_documents import (
    document_converter,
    order_names,
    read_json,
    write_json,
)
from aggloom.runtime.scalar.values import Value, by_row_with_nulls
from aggloom.runtime.scalar.variants import to_json
from aggloom.type_layout import is_variant


def json_strings(value: Value) -> Value:
    """JSON_STRING: each value as JSON; NULL stays NULL."""
    convert = document_converter(value.type, _leaf_converter)

    def write(item: Any) -> str | None:
        return None if item is None else write_json(convert(item))

    return by_row_with_nulls(write, pa.string(), value)


def normalize_json(text: str) -> str | None:
    """JSON(text) as an argument: the document written anew; None for a blank text. Raises ValueError."""
    return write_json(read_json(text)) if text.strip() else None


def json_object(*values: Value, keeps_nulls: bool, sql: str) -> Value:
    """JSON_OBJECT of names and values in turn; values: names as texts, values as JSON."""

    def write(*row: str | None) -> str:
        fields: dict[str, str] = {}
        for name, text in zip(row[::2], row[1::2], strict=True):
            if name is None:
                raise ValueError("a name is NULL")
            if text is not None or keeps_nulls:
                fields[name] = "null" if text is None else text
        pairs = (f"{write_json(name)}:{fields[name]}" for name in order_names(fields))
        return "{" + ",".join(pairs) + "}"

    return by_row_with_nulls(write, pa.string(), *values, sql=sql)


def json_array(*values: Value, keeps_nulls: bool) -> Value:
    """JSON_ARRAY of values as JSON."""

    def write(*row: str | None) -> str:
        return (
            "["
            + ",".join(
                "null" if each is None else each for each in row if keeps_nulls or each is not None
            )
            + "]"
        )

    return by_row_with_nulls(write, pa.string(), *values)


def _leaf_converter(dtype: pa.DataType) -> Callable[[Any], Any]:
    """The function that turns values of a type without parts that are not NULL into JSON's."""
    if is_variant(dtype):
        return lambda text: read_json(to_json(text))
    if pa.types.is_floating(dtype):
        return (
            _float_as_json
            if dtype == pa.float64()
            else lambda value: _float_as_json(np.float32(value))
        )
    if pa.types.is_binary(dtype):
        return lambda value: base64.b64encode(value).decode()
    if pa.types.is_timestamp(dtype):
        ending = "Z" if dtype.tz else ""
        return lambda value: _time_text(value) + ending
    if pa.types.is_date(dtype) or pa.types.is_time(dtype):
        return datetime.date.isoformat if pa.types.is_date(dtype) else _time_text
    return lambda value: value


def _float_as_json(value: Any) -> Any:
    """A number with the digits that Java gives it; what is no number as a text."""
    if not np.isfinite(value):
        return double_to_text(float(value))
    return Decimal(double_to_text(float(str(value))))


def _time_text(value: datetime.datetime | datetime.time) -> str:
    """A time as ISO has it, with as many digits of a second as it needs: none, 3 or 6, as Java's formatter."""
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=None)
    if not value.microsecond:
        return value.isoformat(timespec="seconds")
    return value.isoformat(timespec="microseconds").rstrip("0")


def quote_text(text: str) -> str:
    """JSON_QUOTE: a text between quotes, with all but ASCII escaped, a slash too."""
    return json.dumps(text).replace("/", "\\/")


def unquote_text(text: str) -> str:
    """JSON_UNQUOTE: the text of a JSON string; any other text as it is."""
    try:
        document = read_json(text)
    except ValueError:
        return text
    return document if isinstance(document, str) else text
