"""Functions that take a function of an item: it is computed over all the items of a batch at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.scalar.collections import Pairs, checked_pairs, key_of
from aggloom.runtime.scalar.values import Value, apply_to_arrays, array

Body = Callable[..., Value]


def _extend_batch(
    lists: Sequence[pa.Array], names: Sequence[str], rows: pa.RecordBatch, parents: pa.Array
) -> pa.RecordBatch:
    """The rows of items: the item under its name, and the columns of the row that it is in."""
    outer_rows = rows.take(parents)
    # A name of the lambda's hides the column that is called so.
    hidden = [place for place, name in enumerate(rows.schema.names) if name not in names]
    arrays = [outer_rows.column(place) for place in hidden]
    names_of_hidden = [rows.schema.names[place] for place in hidden]
    return pa.RecordBatch.from_arrays([*arrays, *lists], names=[*names_of_hidden, *names])


def for_each(
    items: Value, body: Body, names: Sequence[str], rows: pa.RecordBatch
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The arrays themselves, and the body's value for all their items in one column, with their rows' places.

    names: those that the body has for an item and for its place, which counts from 0.
    """
    lists = array(items, rows.num_rows)
    parents = pc.list_parent_indices(lists)
    flat = pc.list_flatten(lists)
    columns = [flat]
    # Only where the body asks for the places of items.
    if len(names) > 1:
        counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        places = np.concatenate([np.arange(count) for count in counts] or [np.arange(0)])
        columns.append(pa.array(places.astype(np.int32)))
    inner = _extend_batch(columns, names, rows, parents)
    return lists, array(body(inner), len(flat)), parents


def transform(items: Value, body: Body, names: Sequence[str], rows: pa.RecordBatch) -> pa.Array:
    """TRANSFORM: each item as the body makes it."""
    lists, values, _ = for_each(items, body, names, rows)
    return _relist(lists, values)


def keep_items(items: Value, body: Body, names: Sequence[str], rows: pa.RecordBatch) -> pa.Array:
    """FILTER: the items for which the body is true."""
    lists, holds, parents = for_each(items, body, names, rows)
    holds = pc.fill_null(holds, False)
    counts = np.bincount(parents.filter(holds).to_numpy(zero_copy_only=False), minlength=len(lists))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    flat = pc.list_flatten(lists).filter(holds)
    return pa.ListArray.from_arrays(pa.array(offsets), flat, mask=lists.is_null()).cast(lists.type)


def any_item(items: Value, body: Body, names: Sequence[str], rows: pa.RecordBatch) -> pa.Array:
    """EXISTS: whether the body is true for an item; NULL if it is for none and unknown for one."""
    lists, holds, parents = for_each(items, body, names, rows)
    return _judge(lists, holds, parents, True)


def every_item(items: Value, body: Body, names: Sequence[str], rows: pa.RecordBatch) -> pa.Array:
    """FORALL: whether the body is true for all items; NULL if it is false for none and unknown for one."""
    lists, holds, parents = for_each(items, body, names, rows)
    return _judge(lists, holds, parents, False)


def _judge(lists: pa.Array, holds: pa.Array, parents: pa.Array, polarity: bool) -> pa.Array:
    at = parents.to_numpy(zero_copy_only=False)
    # One item decides: a true one for EXISTS, a false one for FORALL. Unknown ones count only without it.
    decided = pc.equal(holds, pa.scalar(polarity))
    verdicts = np.zeros(len(lists), np.bool_)
    unknown = np.zeros(len(lists), np.bool_)
    verdicts[at[pc.fill_null(decided, False).to_numpy(zero_copy_only=False)]] = True
    unknown[at[pc.is_null(holds).to_numpy(zero_copy_only=False)]] = True
    nulls = lists.is_null().to_numpy(zero_copy_only=False) | (unknown & ~verdicts)
    return pa.array(verdicts if polarity else ~verdicts, mask=nulls)


def fold(
    items: Value,
    start: Value,
    merge: Body,
    names: Sequence[str],
    rows: pa.RecordBatch,
) -> pa.Array:
    """AGGREGATE: a value that takes up one item after the other, for all rows at once."""
    lists = array(items, rows.num_rows)
    state = array(start, rows.num_rows)
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    starts = np.cumsum(counts) - counts
    flat = pc.list_flatten(lists)
    # A step folds the items at one place of all rows, so there are as many as the longest array has.
    for place in range(int(counts.max(initial=0))):
        longer = np.flatnonzero(counts > place)
        at = pa.array(longer)
        elements = flat.take(pa.array(starts[longer] + place))
        inner = _extend_batch([state.take(at), elements], names, rows, at)
        merged = array(merge(inner), len(longer)).cast(state.type)
        order = np.arange(len(counts))
        # Rows that had an item take their new value, which follows all old ones.
        order[longer] = len(counts) + np.arange(len(longer))
        state = pa.concat_arrays([state, merged]).take(pa.array(order))
    return pc.if_else(pc.is_valid(lists), state, pa.scalar(None, state.type))


def finish(state: Value, body: Body, names: Sequence[str], rows: pa.RecordBatch) -> Value:
    """The end of AGGREGATE: what the body makes of each row's value."""
    values_of = array(state, rows.num_rows)
    at = pa.array(np.arange(rows.num_rows))
    return body(_extend_batch([values_of], names, rows, at))


def zip_with(
    left: Value, right: Value, body: Body, names: Sequence[str], rows: pa.RecordBatch
) -> pa.Array:
    """ZIP_WITH: what the body makes of the items at the same place, NULL where an array has ended."""
    lists = [array(each, rows.num_rows) for each in (left, right)]
    padded = [apply_to_arrays(_pad_lists(*pair), *pair) for pair in (lists, lists[::-1])]
    # Where one array is NULL so is the result, and the body must not run, or fail, over the other's items.
    both = pc.and_(lists[0].is_valid(), lists[1].is_valid())
    first, second = (pc.if_else(both, each, pa.scalar(None, each.type)) for each in padded)
    columns = [pc.list_flatten(first), pc.list_flatten(second)]
    inner = _extend_batch(columns, names, rows, pc.list_parent_indices(first))
    return _relist(first, array(body(inner), len(columns[0])))


def _pad_lists(one: pa.Array, other: pa.Array) -> Callable[..., pa.Array]:
    def pad(items: pa.Array, others: pa.Array) -> pa.Array:
        padded = [
            None if a is None or b is None else [*a, *[None] * (len(b) - len(a))]
            for a, b in zip(items.to_pylist(), others.to_pylist(), strict=True)
        ]
        return pa.array(padded, items.type)

    return pad


def of_pairs(
    pairs: Value,
    body: Body,
    names: Sequence[str],
    rows: pa.RecordBatch,
    part: str,
    dtype: pa.DataType,
) -> pa.Array:
    """TRANSFORM_KEYS, TRANSFORM_VALUES, MAP_FILTER: what the body makes of each key and value; `part` says where to."""
    maps = array(pairs, rows.num_rows)
    counts = [0 if each is None else len(each) for each in maps.to_pylist()]
    parents = pa.array(np.repeat(np.arange(len(maps)), counts))
    flat = [pair for each in maps.to_pylist() for pair in each or []]
    columns = [
        pa.array([key for key, _ in flat], maps.type.key_type),
        pa.array([value for _, value in flat], maps.type.item_type),
    ]
    inner = _extend_batch(columns, names, rows, parents)
    results = array(body(inner), len(flat)).to_pylist()
    new: list[Any] = []
    for (key, value), each in zip(flat, results, strict=True):
        pair = {"key": (each, value), "value": (key, each), "keep": (key, value)}[part]
        new.append(pair if part != "keep" or each else None)
    new_maps: list[Pairs | None] = []
    at = 0
    for known, count in zip(maps.is_valid().to_pylist(), counts, strict=True):
        pairs_of_map = [each for each in new[at : at + count] if each is not None]
        new_maps.append(
            (checked_pairs(pairs_of_map) if part == "key" else pairs_of_map) if known else None
        )
        at += count
    return pa.array(new_maps, dtype)


def zip_maps(
    left: Value,
    right: Value,
    body: Body,
    names: Sequence[str],
    rows: pa.RecordBatch,
    dtype: pa.DataType,
) -> pa.Array:
    """MAP_ZIP_WITH: what the body makes of each key of two maps and its two values, NULL where a map lacks it."""
    maps = [array(each, rows.num_rows) for each in (left, right)]
    merged = [_merge_maps(*pair) for pair in zip(*(each.to_pylist() for each in maps), strict=True)]
    counts = [0 if each is None else len(each) for each in merged]
    flat = [each for several in merged for each in several or []]
    kinds = [maps[0].type.key_type, maps[0].type.item_type, maps[1].type.item_type]
    columns = [pa.array([each[place] for each in flat], kind) for place, kind in enumerate(kinds)]
    parents = pa.array(np.repeat(np.arange(len(merged)), counts))
    results = array(body(_extend_batch(columns, names, rows, parents)), len(flat)).to_pylist()
    pairs = iter(zip((each[0] for each in flat), results, strict=True))
    zipped = [None if each is None else [next(pairs) for _ in each] for each in merged]
    return pa.array(zipped, dtype)


def _merge_maps(left: Pairs | None, right: Pairs | None) -> list[tuple[Any, Any, Any]] | None:
    """The keys of the first map and then those of the second alone, with both values."""
    if left is None or right is None:
        return None
    first, second = ({key_of(key): value for key, value in each} for each in (left, right))
    keys = {key_of(key): key for key, _ in [*right, *left]}
    order = dict.fromkeys([*first, *second])
    return [(keys[name], first.get(name), second.get(name)) for name in order]


def _relist(lists: pa.Array, items: pa.Array) -> pa.Array:
    """The items in arrays as long as those were."""
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=lists.is_null())
