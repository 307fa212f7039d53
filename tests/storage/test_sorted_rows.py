"""Sorted rows against sorted lists: random histories, every type and order, ties, ranks; hostile sizes."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_model import (
    FIELDS,
    SLOTS,
    SORTED_VALUES,
    Row,
    StoredSubject,
    arrays_of,
    batch_of,
    identity_of,
    numbers,
    order_of,
    plain,
    rows_of,
    steps,
)

from aggloom.runtime.state.row_index import GONE, NEW, ORPHAN, REPLACED
from aggloom.runtime.state.sort_key import SortColumn
from aggloom.runtime.state.sorted_rows import SortedRows
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.pool import Pool

UNIQUE = (0, 2)
ORDERS = [
    [SortColumn(0)],
    [SortColumn(1, descending=True, nulls_first=False)],
    [SortColumn(2)],
    [SortColumn(2, descending=True), SortColumn(0, nulls_first=False)],
]
Entry = tuple[Any, int, Row, Row]
"""Sort key, arrival, identity, row."""


class Subject(StoredSubject):
    """Sorted rows in an arena of a directory, beside lists of entries by slot."""

    def __init__(
        self, directory: Path, order: list[SortColumn], unique: tuple[int, ...], latest: bool
    ) -> None:
        self.arena, self.order, self.unique, self.latest = Arena(directory), order, unique, latest
        self.pool = Pool(self.arena)
        self.model: list[list[Entry]] = [[] for _ in range(SLOTS)]
        self.arrivals = itertools.count()
        self.open()
        self.fresh = self.arena.nbytes

    def open(self) -> None:
        self.held = SortedRows(
            self.arena, self.pool, "sorted", FIELDS, self.order, SLOTS, unique=self.unique
        )

    def turn(self) -> None:
        self.model.reverse()

    def clear(self) -> None:
        # All but the middle of each slot, and then that.
        slots = np.arange(SLOTS)
        sizes, _ = self.held.sizes(slots)
        _, middle = self.held.collect_between(slots, sizes // 4, sizes - sizes // 4)
        _, ids = self.held.first(slots, 1 << 40)
        for some in (np.setdiff1d(ids, middle), middle):
            self.held.take(some)
            self.held.free(some)
        self.model = [[] for _ in range(SLOTS)]

    def changed(self, slot: int, row: Row, retracts: bool) -> int:
        """Apply a change to the model; return the code of its effect."""
        identity = identity_of(row, self.unique)
        entries = self.model[slot]
        same = [entry for entry in entries if entry[2] == identity]
        if retracts and not same:
            return ORPHAN
        arrival, key = next(self.arrivals), order_of(row, self.order)
        if same and (retracts or self.unique):
            by_arrival = sorted(same, key=lambda entry: entry[1])
            old = by_arrival[-1 if self.latest else 0]
            entries.remove(old)
            if old[0] == key:
                # A row in the place of another with its sort key stands where that one stood.
                arrival = old[1]
        if retracts:
            return GONE
        entries.append((key, arrival, identity, plain(row)))
        entries.sort(key=lambda entry: entry[:2])
        return REPLACED if same and self.unique else NEW

    def apply(self, changes: list[tuple[int, Row, bool]]) -> None:
        slots, batch, retracts = arrays_of(changes)
        wanted = [self.changed(*change) for change in changes]
        applied = self.held.apply(slots, batch, retracts, latest=self.latest)
        assert applied.outcomes.tolist() == wanted
        self.held.free(applied.gone[applied.gone >= 0])

    def check(self) -> None:
        slots = np.arange(SLOTS)
        sizes, keys = self.held.sizes(slots)
        at, ids = self.held.first(slots, 1 << 40)
        shown = rows_of(self.held.rows.gather(ids))
        places = self.held.places(ids)
        for slot, entries in enumerate(self.model):
            mine = np.flatnonzero(at == slot)
            assert [shown[i] for i in mine] == [row for _, _, _, row in entries]
            order = [key for key, _, _, _ in entries]
            distinct = [key for i, key in enumerate(order) if not i or order[i - 1] != key]
            assert (sizes[slot], keys[slot]) == (len(entries), len(distinct))
            assert places.position[mine].tolist() == list(range(len(entries)))
            assert places.rank[mine].tolist() == [order.index(key) for key in order]
            assert places.dense_rank[mine].tolist() == [distinct.index(key) for key in order]
            wanted = [order.index(key) for key in distinct] + [len(order)] * 2
            asked = np.arange(len(wanted))
            assert self.held.key_starts(asked * 0 + slot, asked).tolist() == wanted
        starts, stops = numbers([1, 0, 2, 5, 3]), numbers([3, 1, 2, 100, 0])
        _, some = self.held.collect_between(slots, starts, stops)
        parts = [ids[at == s][starts[s] : stops[s]] for s in slots]
        assert some.tolist() == np.concatenate(parts).tolist()


@settings(max_examples=20 if os.environ.get("NUMBA_DISABLE_JIT") else 60, deadline=None)
@given(steps, st.sampled_from(ORDERS), st.sampled_from([(), UNIQUE]), st.booleans())
def test_history(
    history: list[Any], order: list[SortColumn], unique: tuple[int, ...], latest: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        subject = Subject(Path(directory) / "a", order, unique, latest)
        for step in history:
            subject.step(step)
            subject.pool.sweep()
            subject.check()
        subject.step("clear")
        subject.pool.sweep()
        assert not subject.pool.arrays.refs.any() and subject.arena.nbytes <= subject.fresh


@pytest.mark.parametrize(
    ("dtype", "values"), SORTED_VALUES, ids=[str(dtype) for dtype, _ in SORTED_VALUES]
)
def test_every_type_sorts_as_its_values_do(dtype: pa.DataType, values: list[Any]) -> None:
    fields = [pa.field("v", dtype), pa.field("n", pa.int64())]
    found = [(value, n) for n, value in enumerate([None, *values, None, *reversed(values)])]
    for descending, nulls_first, alone in itertools.product((False, True), repeat=3):
        order = [SortColumn(0, descending, nulls_first), SortColumn(1, descending=True)]
        order = order[:1] if alone else order
        arena = Arena()
        subject = SortedRows(arena, Pool(arena), "sorted", fields, order, 1)
        subject.insert(np.zeros(len(found), np.int64), batch_of(found, fields))
        _, ids = subject.first(np.zeros(1, np.int64), len(found))
        wanted = sorted(found, key=lambda row: order_of(row, order))
        shown = subject.rows.gather(ids)
        assert shown.column(1).to_pylist() == [n for _, n in wanted]
        shown.validate(full=True)
        _, keys = subject.sizes(np.zeros(1, np.int64))
        found_keys = [order_of(row, order) for row in wanted]
        assert keys[0] == len(list(itertools.groupby(found_keys)))


def expected(where: Any, values: Any) -> tuple[Any, Any, Any]:
    """(position, rank, dense rank) of rows by slot, value and arrival, as NumPy has them."""
    order = np.lexsort((np.arange(len(values)), values, where))
    slots, keys = where[order], values[order]
    new_slot = np.concatenate([[True], slots[1:] != slots[:-1]])
    new_key = new_slot | np.concatenate([[True], keys[1:] != keys[:-1]])
    n = np.arange(len(values))
    first = np.maximum.accumulate(np.where(new_slot, n, 0))
    place, rank, dense = np.empty_like(n), np.empty_like(n), np.empty_like(n)
    place[order] = n - first
    rank[order] = np.maximum.accumulate(np.where(new_key, n, 0)) - first
    dense[order] = np.cumsum(new_key) - np.cumsum(new_key)[first]
    return place, rank, dense


@pytest.mark.parametrize(
    ("slots", "kind"), [(1, "rising"), (1, "random"), (1, "ties"), (1_000_000, "random")]
)
@pytest.mark.sampled(1)
def test_a_million_rows(slots: int, kind: str) -> None:
    """One slot of a million rows, a million slots of one: bytes as stated; half of them gone."""
    rows, arena, rng = 1_000_000, Arena(), np.random.default_rng(1)
    n = np.arange(rows)
    values = {"rising": n, "random": rng.integers(0, rows, rows), "ties": rng.integers(0, 10, rows)}
    fields = [pa.field("v", pa.int64()), pa.field("n", pa.int64())]
    subject = SortedRows(arena, Pool(arena), "sorted", fields, [SortColumn(0)], slots, unique=[1])
    batch = pa.RecordBatch.from_arrays([values[kind], n], schema=pa.schema(fields))
    where = n % slots
    ids = subject.insert(where, batch).ids
    subject.trim()
    assert abs(arena.nbytes / (rows * subject.row_bytes + 8 * slots) - 1) < 0.2
    for left in (n, n[::2]):
        places = subject.places(ids[left])
        for found, wanted in zip(places, expected(where[left], values[kind][left]), strict=True):
            assert (found == wanted).all()
        _, first = subject.first(np.arange(min(slots, 1000)), 1000)
        by_place = ids[left][np.lexsort((left, values[kind][left], where[left]))]
        assert slots > 1 or (first == by_place[:1000]).all()
        if left is n:
            subject.free(subject.remove(where[1::2], batch.take(pa.array(n[1::2]))).gone)
    gone = ids[::2][5:]
    subject.take(gone)
    subject.free(gone)
    assert subject.is_airy
    into = Arena()
    small, moved = subject.copy_into(into, Pool(into), np.zeros(slots, np.int64), 1)
    kept = values[kind][0:10:2]
    assert small.rows.gather(moved[ids[0:10:2]]).column(0).to_pylist() == kept.tolist()
    small.trim()
    assert into.nbytes < 5_000
