"""Key table and row store against dictionaries: random histories, restored, copied, given back; bytes as stated."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_model import FIELDS, Row, batch_of, numbers, plain, reopened, restored, rows, rows_of

from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.state.row_store import FIRST_ROWS, RowStore
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.pool import Pool

some_rows = st.lists(rows, min_size=1, max_size=30)


@settings(max_examples=30, deadline=None)
@given(st.lists(some_rows, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_history_of_rows(batches: list[list[Row]], rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as directory:
        arena = Arena(Path(directory) / "a")
        pool = Pool(arena)
        empty = arena.nbytes
        store = RowStore(arena, "rows", FIELDS)
        fresh, model = arena.nbytes, dict[int, Row]()
        for found in batches:
            batch = batch_of(found)
            given_rows = store.encode(batch)
            ids = store.insert(given_rows)
            assert not set(ids.tolist()) & set(model)
            model |= zip(ids.tolist(), map(plain, found), strict=True)
            probes = numbers([rng.choice(list(model)) for _ in found])
            equal = [model[i] == plain(row) for i, row in zip(probes.tolist(), found, strict=True)]
            assert store.equal(probes, given_rows).tolist() == equal
            texts = store.equal(probes, given_rows, among=numbers([2])).tolist()
            assert texts == [
                model[i][2] == row[2] for i, row in zip(probes.tolist(), found, strict=True)
            ]
            gone = rng.sample(sorted(model), rng.randrange(len(model) + 1))
            store.delete(numbers(gone))
            for row in gone:
                del model[row]
            pool.sweep()
            step = rng.choice(("restore", "reopen", "copy", "none"))
            if step == "copy":
                into = Arena()
                _, moved = store.copy_into(into)
                model = {int(moved[row]): value for row, value in model.items()}
                assert sorted(model) == list(range(len(model)))
                arena.adopt(into)
                pool = Pool(arena)
            elif step == "restore":
                arena, pool = restored(arena)
            elif step == "reopen" and arena.directory:
                arena, pool = reopened(arena)
            store = RowStore(arena, "rows", FIELDS)
            assert len(store) == len(model) and store.live().tolist() == sorted(model)
            every = [*model, -1]
            assert rows_of(store.gather(numbers(every)))[:-1] == list(model.values())
            assert set(rows_of(store.gather(numbers(every)))[-1]) == {None}
            store.gather(numbers(every)).validate(full=True)
        store.delete(numbers(list(model)))
        store.shrink()
        pool.sweep()
        assert not pool.arrays.refs.any()
        assert arena.nbytes <= fresh and empty < fresh


def test_a_row_takes_the_bytes_that_are_stated() -> None:
    arena = Arena()
    fields = [pa.field(name, pa.int64()) for name in "abcdefgh"]
    store = RowStore(arena, "rows", fields)
    before = arena.nbytes
    batch = pa.RecordBatch.from_arrays([np.arange(200_000)] * 8, schema=pa.schema(fields))
    ids = store.insert(store.encode(batch))
    store.trim()
    assert abs((arena.nbytes - before) / (len(ids) * store.row_bytes) - 1) < 0.2
    assert store.gather(ids).equals(batch)
    store.delete(ids[: len(ids) - 1000])
    assert store.is_airy
    into = Arena()
    copied, moved = store.copy_into(into)
    assert into.nbytes < arena.nbytes / 50 and copied.capacity < 3000
    assert copied.gather(moved[ids[-1000:]]).equals(batch.slice(len(ids) - 1000))


KEYS = FIELDS[:3]


@settings(max_examples=30, deadline=None)
@given(st.lists(some_rows, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_history_of_keys(batches: list[list[Row]], rng: random.Random) -> None:
    arena = Arena()
    pool = Pool(arena)
    table = KeyTable(arena, pool, KEYS, ("written",), "left.")
    other = KeyTable(arena, pool, KEYS, prefix="right.")
    fresh, model, times = arena.nbytes, dict[Row, int](), dict[Row, int]()
    for time, found in enumerate(batches, 1):
        batch = batch_of([row[:3] for row in found], KEYS)
        keys = [plain(row[:3]) for row in found]
        assert table.find(batch).tolist() == [model.get(key, -1) for key in keys]
        slots = table.lookup(batch)
        for key, slot in zip(keys, slots.tolist(), strict=True):
            assert model.setdefault(key, slot) == slot
            times[key] = time
        table.stamps("written")[slots] = time
        gone = rng.sample(sorted(model, key=str), rng.randrange(len(model) + 1))
        table.forget(numbers([model.pop(key) for key in gone]))
        pool.sweep()
        step = rng.choice(("restore", "copy", "none"))
        if step == "restore":
            arena, pool = restored(arena)
        elif step == "copy":
            into = Arena()
            copied_pool = Pool(into)
            _, moved = table.copy_into(into, copied_pool)
            model = {key: int(moved[slot]) for key, slot in model.items()}
            assert int((moved >= 0).sum()) == len(model)
            other.copy_into(into, copied_pool)
            arena.adopt(into)
            pool = Pool(arena)
        table = KeyTable(arena, pool, KEYS, ("written",), "left.")
        other = KeyTable(arena, pool, KEYS, prefix="right.")
        assert len(table) == len(model) and len(other) == 0
        assert table.used_slots().tolist() == sorted(model.values())
        shown = table.key_columns(numbers(list(model.values())))
        assert rows_of(pa.RecordBatch.from_arrays(shown, schema=pa.schema(KEYS))) == list(model)
        stamps = table.stamps("written")
        assert len(stamps) == table.capacity and stamps.sum() == sum(times[key] for key in model)
    table.forget(table.used_slots())
    pool.sweep()
    assert not pool.arrays.refs.any() and arena.nbytes <= fresh


def test_keys_take_the_bytes_that_are_stated_and_give_them_back() -> None:
    arena = Arena()
    pool = Pool(arena)
    table = KeyTable(arena, pool, [pa.field("k", pa.int64())], ("written",))
    fresh = arena.nbytes
    keys = pa.RecordBatch.from_arrays([np.arange(1_000_000)], names=["k"])
    table.lookup(keys)
    more = table.capacity
    slots = table.lookup(pa.RecordBatch.from_arrays([np.arange(more)], names=["k"]))
    assert slots.tolist() == list(range(more)) == table.used_slots().tolist()
    assert abs((arena.nbytes - fresh) / (more * table.key_bytes) - 1) < 0.2
    assert table.place(7) == "key k=7"
    table.forget(slots[100:])
    assert table.is_airy and len(table) == 100
    table.forget(slots[:100])
    assert arena.nbytes == fresh and table.capacity == FIRST_ROWS
