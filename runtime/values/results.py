"""Lists of elements to Arrow results: arrays, maps, joined text, JSON.

A row's elements stand one after the other; row k has those from `offsets[k]` to `offsets[k + 1]`. The function of a
kind says what becomes of them.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import DataError, TypeMismatchError
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray
from aggloom.runtime.values.scalars import bitmap, validity
from aggloom.type_layout import is_nested

Options = Mapping[str, Any]
# As Jackson escapes what a string of JSON may not contain.
_ESCAPES = {code: f"\\u{code:04X}" for code in range(32)}
_ESCAPES |= {ord(c): "\\" + e for c, e in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)}


@dataclass(frozen=True)
class _Lists:
    """The elements of all rows with their counts, where each row's begin and end, and which rows are not NULL."""

    elements: pa.Array
    counts: Array  # int64[elements] or int64[0]
    offsets: Array  # int64[rows + 1]
    valid: Array  # bool[rows]

    def only(self, keep: FlagArray) -> _Lists:
        """The same rows with some elements left out."""
        # By the number of elements that stay before each place, old ends become new ones.
        places = np.concatenate([[0], np.cumsum(keep)])
        counts = self.counts[keep] if len(self.counts) else self.counts
        elements = self.elements.filter(pa.array(keep))
        return _Lists(elements, counts, places[self.offsets], self.valid)

    def without_nulls(self) -> _Lists:
        return self.only(validity(self.elements)) if self.elements.null_count else self

    def to_arrow(self, elements: pa.Array, dtype: pa.DataType) -> pa.Array:
        """An array or a map of what has been made of the elements."""
        buffers = [bitmap(self.valid), pa.py_buffer(self.offsets.astype(np.int32))]
        return pa.Array.from_buffers(dtype, len(self.valid), buffers, children=[elements])

    def join(self, elements: pa.Array, separator: Any) -> pa.Array:
        return pc.binary_join(self.to_arrow(elements, pa.list_(elements.type)), separator)


def finish(
    kind: str,
    elements: pa.Array,
    counts: Array,
    offsets: NumberArray,
    valid: FlagArray,
    result: pa.DataType,
    options: Options,
) -> pa.Array:
    """One result of type `result` for each row of elements, NULL where it is not `valid`.

    kind: array, map, items, join, join_last, json_array or json_object. counts (int64[elements]): for each element, how
    often it is there (map, items; else it may be empty). offsets (int64[rows + 1]): the ends of the rows.
    Options: `separator` (join), and either `absent_on_null` or `on_null="absent"`, which leave nulls out of arrays and
    JSON.
    """
    # A slice of the elements is taken once, and ends count from 0: no later step has to think of an offset.
    first, last = int(offsets[0]), int(offsets[-1])
    lists = _Lists(
        elements.slice(first, last - first),
        counts[first:last],
        np.asarray(offsets, np.int64) - first,
        np.asarray(valid, np.bool_),
    )
    return _KINDS[kind](lists, result, options)


def texts(values: pa.Array) -> pa.Array:
    """CAST AS STRING as Spark does it, instants in UTC."""
    dtype = values.type
    if is_nested(dtype) or pa.types.is_map(dtype):
        raise TypeMismatchError(f"type {dtype} has no text; cast the column to STRING first")
    if pa.types.is_float32(dtype):
        return _by_distinct(values, lambda value: _float_text(value, str(np.float32(value))))
    if pa.types.is_floating(dtype):
        return _by_distinct(values, lambda value: _float_text(value, repr(value)))
    if pa.types.is_decimal(dtype):
        return _by_distinct(values, lambda value: format(value, "f"))
    if pa.types.is_timestamp(dtype):
        # Without its zone: Arrow would write the zone behind the instant.
        values = values.cast(pa.timestamp(dtype.unit))
    text = values.cast(pa.string())
    if pa.types.is_timestamp(dtype) or pa.types.is_time(dtype):
        # Spark writes no digits below seconds that are zero, and no point without any behind it.
        return pc.replace_substring_regex(text, pattern=r"\.0+$|(\.\d*?)0+$", replacement=r"\1")
    return text


def json_texts(values: pa.Array) -> pa.Array:
    """Each value as JSON, as Flink writes it."""
    dtype = values.type
    if len(values) == 0:
        return pa.array([], pa.string())
    if pa.types.is_nested(dtype):
        json = _json_nested(values)
    elif pa.types.is_floating(dtype):
        json = _by_distinct(texts(values), _json_float)
    elif pa.types.is_binary(dtype):
        json = _by_distinct(values, lambda value: f'"{base64.b64encode(value).decode()}"')
    elif pa.types.is_string(dtype):
        json = _by_distinct(values, _quote)
    elif pa.types.is_timestamp(dtype):
        iso = pc.replace_substring(texts(values), pattern=" ", replacement="T")
        json = _concat('"', iso, '"' if dtype.tz is None else 'Z"')
    elif pa.types.is_temporal(dtype):
        json = _concat('"', texts(values), '"')
    else:
        json = texts(values)
    # JSON's null, not SQL's: the value is in the text.
    return pc.if_else(values.is_valid(), json, "null")


def _array(lists: _Lists, result: pa.DataType, options: Options) -> pa.Array:
    if _absent(options):
        lists = lists.without_nulls()
    return lists.to_arrow(lists.elements.cast(result.value_type), result)


def _map(lists: _Lists, result: pa.DataType, options: Options) -> pa.Array:
    lists = lists.without_nulls()
    return lists.to_arrow(_build_counted(lists, [result.key_field, result.item_field]), result)


def _items(lists: _Lists, result: pa.DataType, options: Options) -> pa.Array:
    return lists.to_arrow(_build_counted(lists, list(result.value_type)), result)


def _join(lists: _Lists, result: pa.DataType, options: Options) -> pa.Array:
    lists = lists.without_nulls()
    separator = options["separator"] or ""
    if pa.types.is_binary(result):
        return lists.join(lists.elements, separator.encode())
    return lists.join(texts(lists.elements), separator)


def _join_last(lists: _Lists, result: pa.DataType, options: Options) -> pa.Array:
    """The elements are structs of a separator and an item: the separator of the last item joins all."""
    lists = lists.only(validity(lists.elements.flatten()[1]))
    separators, items = lists.elements.flatten()
    last = lists.offsets[1:] - 1
    # An empty list has no last item; the mask makes its separator NULL, and nothing is there to be joined.
    chosen = pa.array(last, mask=last < lists.offsets[:-1])
    return lists.join(texts(items), pc.fill_null(texts(separators).take(chosen), ""))


def _json_array(lists: _Lists, result: pa.DataType, options: Options) -> pa.Array:
    if _absent(options):
        lists = lists.without_nulls()
    return _concat("[", lists.join(json_texts(lists.elements), ","), "]")


def _json_object(lists: _Lists, result: pa.DataType, options: Options) -> pa.Array:
    """The elements are structs of a key and a value."""
    if _absent(options):
        lists = lists.only(validity(lists.elements.flatten()[1]))
    names, values = lists.elements.flatten()
    if names.null_count:
        raise DataError("JSON_OBJECTAGG: a key is NULL; leave such rows out with a FILTER")
    keys, members_json = json_texts(texts(names)).to_pylist(), json_texts(values).to_pylist()
    json = []
    for (start, end), valid in zip(pairwise(lists.offsets.tolist()), lists.valid, strict=True):
        # A key that comes twice has the value that arrived last, as in a Python dictionary.
        members = dict(zip(keys[start:end], members_json[start:end], strict=True))
        text = ",".join(f"{key}:{value}" for key, value in members.items())
        json.append(f"{{{text}}}" if valid else None)
    return pa.array(json, pa.string())


_KINDS: dict[str, Callable[[_Lists, pa.DataType, Options], pa.Array]] = {
    "array": _array,
    "map": _map,
    "items": _items,
    "join": _join,
    "join_last": _join_last,
    "json_array": _json_array,
    "json_object": _json_object,
}


def _absent(options: Options) -> bool:
    return bool(options.get("absent_on_null")) or options.get("on_null") == "absent"


def _build_counted(lists: _Lists, fields: list[pa.Field]) -> pa.Array:
    """Structs of an element and its count."""
    counts = pa.array(lists.counts, pa.int64()).cast(fields[1].type)
    columns = [lists.elements.cast(fields[0].type), counts]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _concat(*pieces: Any) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, "")


def _by_distinct(values: pa.Array, text: Callable[[Any], str]) -> pa.Array:
    """The text of each value, made once for those that are equal."""
    coded = values.dictionary_encode()
    known = [text(value) for value in coded.dictionary.to_pylist()]
    return pa.array(known, pa.string()).take(coded.indices)


def _float_text(value: float, shortest: str) -> str:
    """A double as Java writes it, from the fewest digits that tell it from others."""
    # Aggregated columns repeat: most texts are made a few times instead of once a row.
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    plain = format(Decimal(shortest), "f")
    # Java's bounds for plain notation; beyond them it writes an exponent.
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return plain if "." in plain else plain + ".0"
    # Java looks for no fewer than two digits, which matters for the smallest numbers alone: 4.9E-324.
    two = f"{value:.1e}"
    number = Decimal(two if len(shortest.partition("e")[0].lstrip("-")) == 1 else shortest)
    sign, digits, exponent = number.normalize().as_tuple()
    first, *rest = map(str, digits)
    point = len(rest) + int(exponent)
    return f"{'-' * sign}{first}.{''.join(rest) or '0'}E{point}"


def _json_float(text: str) -> str:
    """Java's text of a double as Flink's JSON has it: as a decimal number, or quoted if it is none."""
    return str(Decimal(text)) if text[-1].isdigit() else f'"{text}"'


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _json_nested(values: pa.Array) -> pa.Array:
    dtype = values.type
    if pa.types.is_struct(dtype):
        return _json_struct(values)
    if pa.types.is_map(dtype):
        # Arrow measures and flattens lists only.
        entry = pa.struct([("key", dtype.key_type), ("value", dtype.item_type)])
        entries = values.cast(pa.list_(entry))
        keys, items = entries.flatten().flatten()
        return _json_list(
            "{", _concat(json_texts(texts(keys)), ":", json_texts(items)), entries, "}"
        )
    return _json_list("[", json_texts(values.flatten()), values, "]")


def _json_struct(values: pa.Array) -> pa.Array:
    pieces: list[Any] = []
    for field, child in zip(values.type, values.flatten(), strict=True):
        pieces += [f"{',' if pieces else ''}{_quote(field.name)}:", json_texts(child)]
    return _concat("{", *pieces, "}")


def _json_list(opened: str, texts_of_elements: pa.Array, values: pa.Array, closed: str) -> pa.Array:
    """The texts of all elements of the lists `values`, list by list."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    whole = np.ones(len(values), np.bool_)
    lists = _Lists(texts_of_elements, np.zeros(0, np.int64), offsets, whole)
    return _concat(opened, lists.join(texts_of_elements, ","), closed)
