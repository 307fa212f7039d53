"""The net difference between the joined rows that go and those that come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.state.row_store import RowStore
from aggloom.runtime.storage.arena import Arena, Array
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE


class SlotRows(NamedTuple):
    """Joined rows, and by each the slot of its key."""

    slots: Array  # int64[rows]
    rows: pa.RecordBatch


def diff_rows(
    old: SlotRows, new: SlotRows, schema: pa.Schema, key: Sequence[str] | None, update_before: bool
) -> Rows:
    """Return what goes, then what changes (with a key), then what comes. What goes and comes alike is not told."""
    gone, came = np.ones(len(old.slots), np.bool_), np.ones(len(new.slots), np.bool_)
    shared = np.intersect1d(old.slots, new.slots)
    pairs: list[tuple[int, int]] = []
    if len(shared):
        lefts = np.flatnonzero(np.isin(old.slots, shared))
        rights = np.flatnonzero(np.isin(new.slots, shared))
        whole = _words(schema, old, new, lefts, rights, schema.names)
        for left, right in _pair_equal(whole, lefts, rights):
            gone[left] = came[right] = False
        if key is not None:
            lefts, rights = lefts[gone[lefts]], rights[came[rights]]
            pairs = _pair_equal(_words(schema, old, new, lefts, rights, key), lefts, rights)
            for left, right in pairs:
                gone[left] = came[right] = False
    both = pa.concat_batches([old.rows.cast(schema), new.rows.cast(schema)])
    first = len(old.slots)
    order: list[Array] = [np.flatnonzero(gone)]
    kinds = [np.full(int(gone.sum()), DELETE, np.int8)]
    if pairs:
        sides: Array = np.array(pairs, np.int64) + np.array([0, first])
        codes = np.tile(np.array([UPDATE_BEFORE, UPDATE_AFTER], np.int8), len(pairs))
        if not update_before:
            sides, codes = sides[:, 1:], codes[1::2]
        order.append(sides.reshape(-1))
        kinds.append(codes)
    order.append(np.flatnonzero(came) + first)
    kinds.append(np.full(int(came.sum()), INSERT, np.int8))
    return both.take(pa.array(np.concatenate(order))), np.concatenate(kinds)


def _words(
    schema: pa.Schema,
    old: SlotRows,
    new: SlotRows,
    lefts: Array,
    rights: Array,
    names: Sequence[str],
) -> tuple[list[bytes], list[bytes]]:
    """Rows as bytes that are the same where slot and columns are."""
    arena = Arena()
    fields = [schema.field(name) for name in names] or [pa.field("", pa.int8())]
    store = RowStore(arena, Pool(arena), "rows", fields)
    found = []
    for side, places in ((old, lefts), (new, rights)):
        batch = side.rows.select(list(names)).take(pa.array(places))
        if not names:
            batch = pa.RecordBatch.from_arrays([pa.nulls(len(places), pa.int8())], names=[""])
        rows = store.encode(batch)
        marks = rows.flags.astype(np.int64)
        table = np.column_stack([side.slots[places], rows.words, marks])
        found.append([row.tobytes() for row in table])
    return found[0], found[1]


def _pair_equal(
    words: tuple[list[bytes], list[bytes]], lefts: Array, rights: Array
) -> list[tuple[int, int]]:
    """Rows of both sides that are the same, each at most once."""
    waiting: dict[bytes, list[Any]] = defaultdict(list)
    for word, right in zip(words[1][::-1], rights[::-1].tolist(), strict=True):
        waiting[word].append(right)
    return [
        (left, waiting[word].pop())
        for word, left in zip(words[0], lefts.tolist(), strict=True)
        if waiting.get(word)
    ]
