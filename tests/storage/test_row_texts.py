"""Texts of stored rows: equal as words of the pool are, shared where they repeat, given back, checked before use."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_model import FIELDS, Row, batch_of, numbers, rows

from aggloom.errors import DataError, StateCorruptError, StateRoomError
from aggloom.runtime.state import row_store
from aggloom.runtime.state.row_bag import RowBag
from aggloom.runtime.state.row_index import NEW
from aggloom.runtime.state.row_kernels import HEAP_LIVE, HEAP_USED, LENGTH_BITS
from aggloom.runtime.state.row_store import RowStore
from aggloom.runtime.state.stored_texts import find_stored_texts
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values import columns

TEXT = [pa.field("s", pa.string())]


def texts_of(values: list[str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.string())], schema=pa.schema(TEXT))


@settings(max_examples=60, deadline=None)
@given(st.lists(rows, min_size=1, max_size=12))
def test_rows_are_the_same_where_words_of_the_pool_are(found: list[Row]) -> None:
    arena = Arena()
    pool, batch = Pool(arena), batch_of(found)
    words = [columns.words(column, pool) for column in batch.columns]
    known = [tuple((int(w[r]), bool(v[r])) for w, v in words) for r in range(len(found))]
    store = RowStore(arena, "rows", FIELDS)
    encoded = store.encode(batch)
    ids = store.insert(encoded)
    for left, right in itertools.product(range(len(found)), repeat=2):
        same = store.equal(ids[[left]], encoded, numbers([right]))
        assert same.tolist() == [known[left] == known[right]]
    bag = RowBag(arena, pool, "bag", FIELDS, 1)
    applied = bag.insert(np.zeros(len(found), np.int64), batch)
    assert int((applied.outcomes == NEW).sum()) == len(bag) == len(set(known))


def test_texts_that_repeat_are_shared_and_others_take_their_bytes() -> None:
    many = 50_000
    few = [f"{n:>100}" for n in range(40)]
    store = RowStore(Arena(), "rows", TEXT)
    ids = store.insert(store.encode(texts_of([few[n % 40] for n in range(many)])))
    assert int(store.arrays.meta[HEAP_USED]) < 20_000
    store.delete(ids[::2])
    gathered = store.gather(ids[1::2])["s"].to_pylist()
    assert gathered == [few[n % 40] for n in range(1, many, 2)]
    other = RowStore(Arena(), "rows", TEXT)
    values = [f"{n:>100}" for n in range(many)]
    ids = other.insert(other.encode(texts_of(values)))
    assert int(other.arrays.meta[HEAP_USED]) == 100 * many == other.text_bytes
    other.delete(ids[1000:])
    assert len(other.arrays.heap) < 500_000
    assert other.gather(ids[:1000])["s"].to_pylist() == values[:1000]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["", "a", "same text again", *map(str, range(9))]), max_size=60),
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_shared_texts_outlive_the_rows_that_brought_them(
    batches: list[list[str]], rng: random.Random
) -> None:
    store, model = RowStore(Arena(), "rows", TEXT), dict[int, str]()
    for values in batches:
        ids = store.insert(store.encode(texts_of(list(values))))
        model |= zip(ids.tolist(), values, strict=True)
        gone = rng.sample(sorted(model), rng.randrange(len(model) + 1))
        store.delete(numbers(gone))
        for row in gone:
            del model[row]
        store.shrink()
        assert store.gather(numbers(list(model)))["s"].to_pylist() == list(model.values())
        assert store.text_bytes == sum(map(len, model.values()))


def test_a_text_beyond_the_limits_is_refused_before_anything_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = RowStore(Arena(), "rows", TEXT)
    monkeypatch.setattr(row_store, "LONGEST", 9)
    with pytest.raises(DataError, match=r"column 's': a value of 10 bytes in row 1.*Shorten it"):
        store.encode(texts_of(["a", "0123456789"]))
    monkeypatch.undo()
    monkeypatch.setattr(row_store, "FARTHEST", 100)
    with pytest.raises(StateRoomError, match=r"rows: the texts .* more partitions"):
        store.insert(store.encode(texts_of(["x" * 90])))
    assert len(store) == 0


def damaged(change: str) -> RowStore:
    """A store of two rows, after a change of its arrays."""
    store = RowStore(Arena(), "rows", TEXT)
    store.insert(store.encode(texts_of(["first text", "second text"])))
    exec(change, {"rows": store.arrays, "BITS": LENGTH_BITS, "USED": HEAP_USED, "LIVE": HEAP_LIVE})
    return store


@pytest.mark.parametrize(
    "change",
    [
        "rows.words[0, 0] = -1",
        "rows.words[0, 0] = 50 << BITS | 10",
        "rows.words[0, 0] = (1 << 34) << BITS | 10",
        "rows.words[0, 0] += 1",
        "rows.meta[USED] = 1 << 20",
        "rows.meta[USED] = -1",
        "rows.meta[LIVE] = 1",
        "rows.flags[0, 0] |= 2",
        "rows.heap[3] = 0xFF",
    ],
)
def test_a_snapshot_that_names_other_bytes_is_refused(change: str) -> None:
    store = damaged(change)
    with pytest.raises(StateCorruptError, match="rows"):
        store.check_restored(Audit(Pool(store.arena)))


def test_a_whole_snapshot_is_taken() -> None:
    store = damaged("")
    store.check_restored(Audit(Pool(store.arena)))
    assert store.gather(store.live())["s"].to_pylist() == ["first text", "second text"]


def test_texts_are_found_without_their_operator() -> None:
    store = RowStore(Arena(), "rows", [*FIELDS[:1], *TEXT])
    fields = store.schema
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1, 2, 3]), pa.array(["Ada", "Adam", "Bob"])], schema=fields
    )
    ids = store.insert(store.encode(batch))
    assert sorted(find_stored_texts(store.arena, b"Ada")) == [b"Ada", b"Adam"]
    store.delete(ids[:1])
    assert list(find_stored_texts(store.arena, b"Ada")) == [b"Adam"]
    assert list(find_stored_texts(store.arena, b"Adamant")) == []
