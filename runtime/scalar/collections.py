"""Arrays, maps and rows: made of values, and functions of whole ones, row by row.

A map is a list of pairs here, as pyarrow gives it out; a key comes once. NaN is equal to itself, as in Spark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.scalar.values import Value, array, by_row
from aggloom.runtime.storage.allocation import require_memory

Items = list[Any]
Pairs = list[tuple[Any, Any]]

_PLACE_BYTES, _NUMBER_BYTES = 16, 32
"""Bytes of a place in a list of Python and in the array that is made of it, and of an integer in the list."""


def make_list(dtype: pa.DataType, rows: pa.RecordBatch, *values: Value) -> pa.Array:
    """ARRAY(a, b, ..) of values of one type."""
    return _lists(dtype, rows.num_rows, values)


def make_map(dtype: pa.DataType, sql: str, rows: pa.RecordBatch, *values: Value) -> pa.Array:
    """MAP(key, value, ..)."""
    keys = _lists(pa.list_(dtype.key_type), rows.num_rows, values[::2])
    items = _lists(pa.list_(dtype.item_type), rows.num_rows, values[1::2])
    return by_row(map_from_arrays, dtype, keys, items, sql=sql)


def make_row(names: Sequence[str], rows: pa.RecordBatch, *values: Value) -> pa.Array:
    """A row of named fields."""
    arrays = [array(value, rows.num_rows) for value in values]
    fields = [pa.field(name, each.type) for name, each in zip(names, arrays, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _lists(dtype: pa.DataType, count: int, values: Sequence[Value]) -> pa.Array:
    arrays = [array(value, count) for value in values]
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * len(arrays))
    # concat_arrays needs one array at least, and ARRAY() has none.
    if not arrays:
        return pa.ListArray.from_arrays(offsets, pa.nulls(0, dtype.value_type))
    # Behind each other stand columns, where a list needs the values of one row side by side.
    order = np.arange(count * len(arrays)).reshape(len(arrays), count).T.ravel()
    items = pa.concat_arrays(arrays).take(pa.array(order))
    return pa.ListArray.from_arrays(offsets, items.cast(dtype.value_type))


def key_of(value: Any) -> Any:
    """A value by which it is found again: NaN is one, -0.0 is 0.0, and lists can be hashed."""
    if isinstance(value, float):
        # In Python NaN is not equal to itself. The sum of -0.0 and 0.0 is 0.0.
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list | tuple):
        return tuple(map(key_of, value))
    if isinstance(value, dict):
        return tuple((name, key_of(each)) for name, each in value.items())
    return value


def size(items: Sequence[Any]) -> int:
    """The number of items."""
    return len(items)


def contains(items: Items, value: Any) -> bool | None:
    """Tell whether an item is there; None if it is not and a NULL is."""
    if key_of(value) in map(key_of, items):
        return True
    return None if None in items else False


def position(items: Items, value: Any) -> int:
    """The place of an item, from 1; 0 if it is not there."""
    keys = list(map(key_of, items))
    return keys.index(key_of(value)) + 1 if key_of(value) in keys else 0


def distinct(items: Items) -> Items:
    """Each item once, in the order of the first ones."""
    firsts: dict[Any, Any] = {}
    for each in items:
        firsts.setdefault(key_of(each), each)
    return list(firsts.values())


def union(left: Items, right: Items) -> Items:
    """The items of both, each once."""
    return distinct([*left, *right])


def intersect(left: Items, right: Items) -> Items:
    """The items of the first that are in the second too, each once."""
    keys = set(map(key_of, right))
    return distinct([each for each in left if key_of(each) in keys])


def subtract(left: Items, right: Items) -> Items:
    """The items of the first that are not in the second, each once."""
    keys = set(map(key_of, right))
    return distinct([each for each in left if key_of(each) not in keys])


def overlap(left: Items, right: Items) -> bool | None:
    """Tell whether two arrays have an item in common; None if they have none and one of them has a NULL."""
    common = set(map(key_of, left)) & set(map(key_of, right))
    if common - {None}:
        return True
    # What is empty has nothing in common with anything, NULL included.
    return None if left and right and (None in left or None in right) else False


def remove(items: Items, unwanted: Any) -> Items:
    """The items that are not that one."""
    return [each for each in items if each is None or key_of(each) != key_of(unwanted)]


def compact(items: Items) -> Items:
    """The items that are not NULL."""
    return [each for each in items if each is not None]


def append(items: Items | None, item: Any) -> Items | None:
    """The items and one more at the end."""
    return None if items is None else [*items, item]


def prepend(items: Items | None, item: Any) -> Items | None:
    """The items and one more at the beginning."""
    return None if items is None else [item, *items]


def insert(items: Items | None, place: int | None, item: Any) -> Items | None:
    """The items with one more at a place, from 1, or from the end if that is negative; NULLs fill what is between."""
    if items is None or place is None:
        return None
    if place == 0:
        raise ValueError("places count from 1")
    if place > 0:
        short = place - 1 - len(items)
        return (
            [*items, *[None] * short, item]
            if short >= 0
            else [*items[: place - 1], item, *items[place - 1 :]]
        )
    # -1 is the place behind the last item; Spark before 3.5 put it before that.
    at = len(items) + place + 1
    return [*items[:at], item, *items[at:]] if at >= 0 else [item, *[None] * -at, *items]


def concat(*lists: Items) -> Items:
    """The items of all, one after the other."""
    return [each for items in lists for each in items]


def flatten(lists: list[Items | None]) -> Items | None:
    """The items of the arrays in an array; None if one of them is NULL."""
    return None if None in lists else concat(*[each for each in lists if each is not None])


def repeat(item: Any, count: int | None) -> Items | None:
    """An item so many times; raises StateRoomError if memory has no room for them."""
    if count is None:
        return None
    require_memory(count * _PLACE_BYTES, f"{count:,} places of one array")
    return [item] * max(count, 0)


def reverse(items: Items) -> Items:
    """The items from the last to the first."""
    return items[::-1]


def cut(items: Items, start: int, length: int) -> Items:
    """Return `length` items from a place on, which counts from 1, or from the end if it is negative."""
    if start == 0:
        raise ValueError("places count from 1")
    if length < 0:
        raise ValueError("the length is negative")
    # Before the first item there is nothing, where Python's slices would count from the end once more.
    at = start - 1 if start > 0 else len(items) + start
    return items[at : at + length] if 0 <= at < len(items) else []


def sequence(first: int, last: int, step: int | None = None) -> Items:
    """The numbers from one to another, by a step of 1 or -1 unless one is given.

    Raises ValueError where the step leads away from the end, and StateRoomError if memory has no room for the numbers.
    """
    by = step if step is not None else 1 if first <= last else -1
    if first != last and (by == 0 or (by > 0) != (last > first)):
        raise ValueError("the step leads away from the end")
    if not by:
        return [first]
    numbers = range(first, last + (1 if by > 0 else -1), by)
    count = (last - first) // by + 1
    require_memory(count * (_PLACE_BYTES + _NUMBER_BYTES), f"{count:,} numbers of one array")
    return list(numbers)


def item(items: Items, place: int) -> Any:
    """ELEMENT_AT: the item at a place, from 1, or from the end if it is negative; ValueError if there is none."""
    index = place - 1 if place > 0 else len(items) + place
    if place == 0 or not 0 <= index < len(items):
        raise ValueError(f"there are {len(items)} items")
    return items[index]


def try_item(items: Items, place: int) -> Any:
    """Return the `item`, or None if there is none."""
    # As in Spark an error even here, since no array has such a place.
    if place == 0:
        raise ValueError("places count from 1")
    index = place - 1 if place > 0 else len(items) + place
    return items[index] if 0 <= index < len(items) else None


def item_from_zero(items: Items, place: int) -> Any:
    """items[place], which counts from 0; ValueError if there is none."""
    if not 0 <= place < len(items):
        raise ValueError(f"there are {len(items)} items")
    return items[place]


def try_item_from_zero(items: Items, place: int) -> Any:
    """Return the `item_from_zero`, or None if there is none."""
    return items[place] if 0 <= place < len(items) else None


def lookup(pairs: Pairs, key: Any) -> Any:
    """The value of a key; None if it is not there."""
    own_key = key_of(key)
    return next((value for each, value in pairs if key_of(each) == own_key), None)


def has_key(pairs: Pairs, key: Any) -> bool:
    """Tell whether a map has a key."""
    return any(key_of(each) == key_of(key) for each, _ in pairs)


def order_of(value: Any) -> tuple[bool, Any]:
    """A value by which it is sorted: NaN is above all numbers."""
    if isinstance(value, float):
        return math.isnan(value), 0.0 if math.isnan(value) else value
    if isinstance(value, list | tuple):
        # Inside an array NULL is the least: False is below True.
        return False, [
            (each is not None, *(() if each is None else order_of(each))) for each in value
        ]
    return False, value


def sort_items(items: Items, ascending: bool = True) -> Items:
    """SORT_ARRAY: NULLs come first if it ascends, else last."""
    known = sorted(
        (each for each in items if each is not None), key=order_of, reverse=not ascending
    )
    nothing = [None] * (len(items) - len(known))
    return [*nothing, *known] if ascending else [*known, *nothing]


def array_sort(items: Items) -> Items:
    """ARRAY_SORT: upwards, NULLs last."""
    known = sorted((each for each in items if each is not None), key=order_of)
    return [*known, *[None] * (len(items) - len(known))]


def least(items: Items) -> Any:
    """The least item that is not NULL."""
    return min((each for each in items if each is not None), key=order_of, default=None)


def greatest(items: Items) -> Any:
    """The greatest item that is not NULL."""
    return max((each for each in items if each is not None), key=order_of, default=None)


def join(items: Items, separator: str, nothing: str | None = None) -> str:
    """The items as one text; NULLs are left out unless something stands for them."""
    texts = [nothing if each is None else each for each in items]
    return separator.join(each for each in texts if each is not None)


def zip_lists(*lists: Items) -> list[tuple[Any, ...]]:
    """ARRAYS_ZIP: rows of the items at the same place, NULL where an array has ended."""
    longest = max(map(len, lists), default=0)
    return [tuple(each[at] if at < len(each) else None for each in lists) for at in range(longest)]


def keys(pairs: Pairs) -> Items:
    """The keys of a map."""
    return [key for key, _ in pairs]


def values(pairs: Pairs) -> Items:
    """The values of a map."""
    return [value for _, value in pairs]


def entries(pairs: Pairs) -> list[dict[str, Any]]:
    """The pairs of a map as rows."""
    return [{"key": key, "value": value} for key, value in pairs]


def map_from_arrays(names: Items, values: Items) -> Pairs:
    """A map of keys and values; ValueError for a key that is NULL or comes twice."""
    if len(names) != len(values):
        raise ValueError("there are not as many keys as values")
    return checked_pairs(list(zip(names, values, strict=True)))


def map_from_entries(rows: list[dict[str, Any] | None]) -> Pairs | None:
    """A map of rows of two fields; None if one of them is NULL."""
    if None in rows:
        return None
    return checked_pairs([tuple(row.values()) for row in rows if row is not None])


def map_concat(*maps: Pairs) -> Pairs:
    """The pairs of all maps; ValueError for a key that comes twice."""
    return checked_pairs(concat(*maps))


def checked_pairs(pairs: Pairs) -> Pairs:
    """The pairs of a map; ValueError for a key that is NULL or comes twice."""
    names = [key_of(key) for key, _ in pairs]
    if None in names:
        raise ValueError("a key is NULL")
    if len(set(names)) < len(names):
        raise ValueError("a key comes twice")
    return pairs


def text_to_map(text: str, pairs: str = ",", separator: str = ":") -> list[tuple[str, str | None]]:
    """STR_TO_MAP by plain separators."""
    entries: list[tuple[str, str | None]] = []
    for pair in text.split(pairs):
        key, between, value = pair.partition(separator)
        entries.append((key, value if between else None))
    return checked_pairs(entries)
