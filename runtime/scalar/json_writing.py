"""TO_JSON of rows, arrays and maps, as Spark writes them."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from aggloom.runtime.scalar.java_numbers import double_to_text, float_to_text
from aggloom.runtime.scalar.json_documents import write_json as quote_text
from aggloom.runtime.scalar.record_times import time_writer
from aggloom.runtime.scalar.values import Value, row_by_row
from aggloom.runtime.scalar.variants import VARIANT
from aggloom.runtime.scalar.variants import to_json as variant_to_json

Write = Callable[[Any], str]
"""Writes a value that is not NULL."""


def to_json(
    value: Value,
    zone: str = "UTC",
    keeps_nulls: bool = False,
    templates: Mapping[str, tuple[str, str]] | None = None,
) -> Value:
    """TO_JSON of each row, array or map.

    zone: the session's. keeps_nulls: fields of rows that are NULL are written. templates: as for `time_writer`.
    """
    write = _writer(value.type, zone, keeps_nulls, templates or {})
    return row_by_row(write, pa.string(), value)


def _writer(
    dtype: pa.DataType, zone: str, keeps_nulls: bool, templates: Mapping[str, tuple[str, str]]
) -> Write:
    def inner(kind: pa.DataType) -> Write:
        write = _writer(kind, zone, keeps_nulls, templates)
        return lambda value: "null" if value is None else write(value)

    if dtype == VARIANT:
        return variant_to_json
    if pa.types.is_struct(dtype):
        fields = [(each.name, quote_text(each.name), inner(each.type)) for each in dtype]

        def write_row(row: Any) -> str:
            parts = (
                f"{quoted}:{write(row[name])}"
                for name, quoted, write in fields
                if keeps_nulls or row[name] is not None
            )
            return "{" + ",".join(parts) + "}"

        return write_row
    if pa.types.is_list(dtype):
        item = inner(dtype.value_type)
        return lambda values: "[" + ",".join(map(item, values)) + "]"
    if pa.types.is_map(dtype):
        key, entry = _key_writer(dtype.key_type), inner(dtype.item_type)
        return lambda pairs: "{" + ",".join(f"{key(k)}:{entry(v)}" for k, v in pairs) + "}"
    if dtype == pa.string():
        return quote_text
    if dtype == pa.binary():
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    if dtype == pa.bool_():
        return lambda value: "true" if value else "false"
    if pa.types.is_floating(dtype):
        return lambda value: _write_float(value, dtype)
    # Both write the exponent of a small DECIMAL in one way.
    if pa.types.is_integer(dtype) or pa.types.is_decimal(dtype):
        return str
    if pa.types.is_null(dtype):
        return lambda value: "null"
    write_time = time_writer(dtype, zone, templates)
    return lambda value: quote_text(write_time(value))


def _key_writer(dtype: pa.DataType) -> Write:
    if dtype == pa.string():
        return quote_text
    if dtype == pa.bool_():
        return lambda value: '"true"' if value else '"false"'
    if pa.types.is_floating(dtype):
        return lambda value: f'"{_float_text(value, dtype)}"'
    return lambda value: f'"{value}"'


def _write_float(value: float, dtype: pa.DataType) -> str:
    text = _float_text(value, dtype)
    return text if math.isfinite(value) else f'"{text}"'


def _float_text(value: float, dtype: pa.DataType) -> str:
    return float_to_text(value) if dtype == pa.float32() else double_to_text(value)
