"""Documents of JSON without mistakes as rows, arrays and maps, for FROM_JSON: decoded at once, then converted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from aggloom.runtime.scalar.json_leaves import (
    JsonReading,
    Number,
    PartialValueError,
    leaf_reader,
    leaf_text,
    quote_halves,
    replace_halves,
    whole_or_partial,
)
from aggloom.runtime.scalar.json_texts import SPACE

Read = Callable[[Any], Any]
"""Makes a value of a type of a part of a document that is not null; raises ValueError, or `PartialValueError`."""
_LONG: Final = re.compile(r"[0-9.eE+-]{1000}")
_MANY: Final = 300
"""The number of brackets, or of digits of a number, from which Jackson's own tokens say whether they are too many for
it."""


class _Fields(tuple[tuple[str, Any], ...]):
    """The fields of an object, in their order."""

    __slots__ = ()


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_Fields, parse_float=Number, parse_constant=Number
)


def decode(text: str) -> Any:
    """The object or array that a text begins with; None for a text with a mistake, or with anything else."""
    match = SPACE.match(text)
    assert match is not None
    start = match.end()
    if text[start : start + 1] not in ("{", "["):
        return None
    if len(text) > _MANY and (_LONG.search(text) or text.count("[") + text.count("{") > _MANY):
        return None
    try:
        return _DECODER.raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return None


def tree_reader(dtype: pa.DataType, options: JsonReading) -> Read:
    """The reader of a whole document."""
    if pa.types.is_struct(dtype):
        return _row_reader(dtype, options, options.corrupt)
    read = _reader(dtype, options)
    if not (pa.types.is_list(dtype) and pa.types.is_struct(dtype.value_type)):
        return read
    # One object is an array of one row.
    return lambda value: read([value] if isinstance(value, _Fields) else value)


def _reader(dtype: pa.DataType, options: JsonReading) -> Read:
    if pa.types.is_struct(dtype):
        return _row_reader(dtype, options, None)
    if pa.types.is_list(dtype):
        return _array_reader(dtype, options)
    if pa.types.is_map(dtype):
        return _map_reader(dtype, options)
    leaf = leaf_reader(dtype, options)
    if dtype == pa.string():
        return lambda value: _text(value) if isinstance(value, _Fields | list) else leaf(value)

    def read(value: Any) -> Any:
        if isinstance(value, _Fields | list):
            raise ValueError(f"an object or an array is no {dtype}")
        return leaf(value)

    return read


def _row_reader(dtype: pa.DataType, options: JsonReading, corrupt: str | None) -> Read:
    fields = {each.name: _reader(each.type, options) for each in dtype if each.name != corrupt}
    empty = {each.name: None for each in dtype}

    def read(value: Any) -> Any:
        if not isinstance(value, _Fields):
            raise ValueError(f"{value!r:.80} is no object")
        row: dict[str, Any] = dict(empty)
        first: ValueError | None = None
        for name, part in value:
            convert = fields.get(name)
            if convert is None:
                continue
            try:
                row[name] = None if part is None else convert(part)
            except PartialValueError as error:
                row[name] = error.value
                first = first or error
            except ValueError as error:
                # A value of the same name before it stays.
                first = first or error
        return whole_or_partial(row, first)

    return read


def _array_reader(dtype: pa.DataType, options: JsonReading) -> Read:
    convert = _reader(dtype.value_type, options)

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"{value!r:.80} is no array")
        return _convert_all(value, convert)

    return read


def _map_reader(dtype: pa.DataType, options: JsonReading) -> Read:
    convert = _reader(dtype.item_type, options)

    def read(value: Any) -> Any:
        if not isinstance(value, _Fields):
            raise ValueError(f"{value!r:.80} is no object")
        keys = [replace_halves(name) for name, _ in value]
        try:
            values = _convert_all([part for _, part in value], convert)
        except PartialValueError as error:
            raise PartialValueError(list(zip(keys, error.value, strict=True)), error) from None
        return list(zip(keys, values, strict=True))

    return read


def _convert_all(parts: list[Any], convert: Read) -> list[Any]:
    values: list[Any] = []
    first: ValueError | None = None
    for part in parts:
        try:
            values.append(None if part is None else convert(part))
        except PartialValueError as error:
            values.append(error.value)
            first = first or error
    return whole_or_partial(values, first)


def _text(value: Any) -> str:
    """A part of a document as JSON."""
    if isinstance(value, _Fields):
        return "{" + ",".join(f"{quote_halves(name)}:{_text(part)}" for name, part in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return leaf_text(value)
