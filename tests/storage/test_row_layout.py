"""Stored rows that are laid out in more columns: a plain list of rows says what they are, before and after."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from aggloom.runtime.state.row_layout import lay_out
from aggloom.runtime.state.row_store import RowStore
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.pool import Pool

TYPES = {
    "a": pa.int64(),
    "b": pa.string(),
    "c": pa.float64(),
    "d": pa.bool_(),
    "e": pa.decimal128(30, 2),
    "f": pa.binary(),
    "g": pa.list_(pa.int32()),
    "h": pa.date32(),
    "i": pa.timestamp("us"),
    "j": pa.string(),
}
VALUES: dict[str, list[Any]] = {
    "a": [None, 0, -1, 2**62],
    "b": [None, "", "x", "a longer text " * 3],
    "c": [None, 0.0, 1.5],
    "d": [None, True, False],
    "e": [None, Decimal("0.00"), Decimal("12345678901234567890.12")],
    "f": [None, b"", b"\0\xff"],
    "g": [None, [], [1, None]],
    "h": [None],
    "i": [None],
    "j": [None, "x"],
}


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_rows_keep_their_ids_and_values_and_get_nulls(data: st.DataObject) -> None:
    every = data.draw(st.permutations(sorted(TYPES)))
    # Old columns in the order of the new ones, as a table that gains columns has them, or not.
    there = data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    old = RowStore(Arena(), "rows", [pa.field(n, TYPES[n]) for n in there])
    new = RowStore(Arena(), "rows", [pa.field(n, TYPES[n]) for n in every])
    model: dict[int, dict[str, Any]] = {}

    def insert(store: RowStore, names: list[str]) -> None:
        row = st.fixed_dictionaries({n: st.sampled_from(VALUES[n]) for n in names})
        rows = data.draw(st.lists(row, max_size=30))
        columns = [pa.array([each[n] for each in rows], TYPES[n]) for n in names]
        batch = pa.RecordBatch.from_arrays(columns, names=names)
        ids = store.insert(store.encode(batch)).tolist()
        assert not model.keys() & set(ids)
        model.update(zip(ids, rows, strict=True))

    def delete(store: RowStore) -> None:
        gone = [id for id in model if data.draw(st.booleans())]
        store.delete(np.array(gone, np.int64))
        for each in gone:
            del model[each]

    insert(old, there)
    delete(old)
    insert(old, there)
    arena = Arena()
    laid_out = lay_out(arena, new, old)
    for name, array in old.arena:
        if name not in laid_out:
            arena.array(name, len(array), array.dtype.str)[:] = array
    wide = RowStore(arena, "rows", list(new.schema))
    for _ in range(2):
        audit = Audit(Pool(arena))
        wide.check_restored(audit)
        assert sorted(model) == wide.live().tolist()
        expected = [{n: model[id].get(n) for n in every} for id in sorted(model)]
        assert wide.gather(wide.live()).to_pylist() == expected
        delete(wide)
        insert(wide, every)
