"""Rows as JSON, exactly: a format of messages reads back the value that was written."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from aggloom.errors import SpecError
from aggloom.type_layout import is_variant

Writer = Callable[[Any], str]


def object_writer(
    schema: pa.Schema, text_documents: bool = False
) -> Callable[[Sequence[Any]], str]:
    """Return a writer of a schema's rows as objects; raises SpecError for a type that JSON has no words for.

    text_documents: VARIANTs are written as their JSON in a text, which readers of Debezium's rows expect.
    """
    writers = [
        _text if text_documents and is_variant(field.type) else _writer(field.type)
        for field in schema
    ]
    names = [json.dumps(name, ensure_ascii=False) for name in schema.names]
    named = list(zip(names, writers, strict=True))

    def write(row: Sequence[Any]) -> str:
        pairs = zip(named, row, strict=True)
        return "{" + ", ".join(f"{name}: {_or_null(make, v)}" for (name, make), v in pairs) + "}"

    return write


def _or_null(write: Writer, value: Any) -> str:
    return "null" if value is None else write(value)


def _writer(dtype: pa.DataType) -> Writer:
    """Return the writer of a type's values, of which none is NULL."""
    if pt.is_boolean(dtype):
        return lambda value: "true" if value else "false"
    if pt.is_integer(dtype):
        return str
    if pt.is_floating(dtype):
        return _float
    if pt.is_decimal(dtype):
        return lambda value: format(value, "f")
    if pt.is_string(dtype) or pt.is_large_string(dtype):
        return _text
    if is_variant(dtype):
        return str
    if pt.is_binary(dtype) or pt.is_large_binary(dtype):
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    if pt.is_timestamp(dtype):
        return _instant if dtype.tz else lambda value: f'"{value.isoformat(" ")}"'
    if pt.is_date(dtype) or pt.is_time(dtype):
        return lambda value: f'"{value.isoformat()}"'
    if pt.is_map(dtype):
        return _map(_writer(dtype.key_type), _writer(dtype.item_type))
    if pt.is_list(dtype) or pt.is_large_list(dtype):
        item = _writer(dtype.value_type)
        return lambda value: f"[{', '.join(_or_null(item, each) for each in value)}]"
    if pt.is_struct(dtype):
        write = object_writer(pa.schema(list(dtype)))
        names = [field.name for field in dtype]
        return lambda value: write([value[name] for name in names])
    raise SpecError(f"there is no JSON for a column of type {dtype}; cast it in the query")


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else f'"{"-" if value < 0 else ""}Infinity"'


def _instant(value: dt.datetime) -> str:
    return f'"{value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(" ")}Z"'


def _map(key: Writer, item: Writer) -> Writer:
    def write(value: Any) -> str:
        pairs = value.items() if isinstance(value, dict) else value
        fields = [(key(name), _or_null(item, each)) for name, each in pairs]
        named = ((n if n.startswith('"') else _text(n), each) for n, each in fields)
        return "{" + ", ".join(f"{name}: {each}" for name, each in named) + "}"

    return write
