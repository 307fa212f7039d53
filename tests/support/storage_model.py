"""Parts of the tests of the storage components: rows of hostile values, their order, and going on with a state."""

from __future__ import annotations

import datetime
import decimal
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from aggloom.runtime.state.sort_key import SortColumn
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.pool import Pool

Row = tuple[Any, ...]
Least, Most = -(2**63), 2**63 - 1
SLOTS = 5

FIELDS = [
    pa.field("n", pa.int64()),
    pa.field("x", pa.float64()),
    pa.field("s", pa.string()),
    pa.field("d", pa.decimal128(38, 2)),
    pa.field("l", pa.list_(pa.int32())),
    *(pa.field(f"b{i}", pa.bool_()) for i in range(4)),
]
"""More columns than a byte has flags for."""
_VALUES: list[list[Any]] = [
    [None, 0, 1, Least, Most],
    [None, 0.0, -0.0, math.nan, math.inf, -1.5],
    [None, "", "a", "a\0b", "é", "1234567", "12345678", "1234567890abcdef", "1234567890abcdeg" * 3],
    [None, decimal.Decimal("0.00"), decimal.Decimal("-" + "9" * 36 + ".99")],
    [None, [], [1, None], [1]],
]
rows = st.tuples(
    *(st.sampled_from(values) for values in _VALUES),
    *(st.sampled_from([None, True]) for _ in "1234"),
)
changes = st.lists(
    st.tuples(st.integers(0, SLOTS - 1), rows, st.sampled_from([False, False, True])), max_size=40
)
steps = st.lists(
    st.one_of(changes, changes, st.sampled_from(["restore", "compact", "reopen", "clear"])),
    min_size=3,
    max_size=8,
)
"""A history: batches of (slot, row, whether it is taken back), with what happens between them."""


def plain(value: Any) -> Any:
    """A value as one that Python compares as the house does."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def batch_of(found: Sequence[Row], fields: Sequence[pa.Field] = FIELDS) -> pa.RecordBatch:
    """Rows as a batch; they may have been made plain."""
    found = [tuple(math.nan if value == "NaN" else value for value in row) for row in found]
    columns = list(zip(*found, strict=True)) if found else [()] * len(fields)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """The rows of a batch, comparable."""
    return [plain(tuple(row.values())) for row in batch.to_pylist()]


def numbers(values: Sequence[int]) -> Any:
    """Slots, or ids."""
    return np.array(values, np.int64)


def restored(arena: Arena) -> tuple[Arena, Pool]:
    """The arena that a snapshot makes."""
    new = Arena()
    new.restore(arena.snapshot())
    return new, Pool(new)


def reopened(arena: Arena) -> tuple[Arena, Pool]:
    """The arena that another process finds in the directory."""
    assert arena.directory is not None
    arena.flush()
    new = Arena(Path(arena.directory))
    assert new.reopened
    return new, Pool(new)


class StoredSubject(ABC):
    """Rows in an arena beside a model of them, through a history of `steps`."""

    arena: Arena
    pool: Pool
    held: Any

    @abstractmethod
    def open(self) -> None:
        """Find the rows in the arena again."""

    @abstractmethod
    def apply(self, changes: list[tuple[int, Row, bool]]) -> None:
        """Apply a batch to both, and compare what becomes of each change."""

    @abstractmethod
    def clear(self) -> None:
        """Take all rows out."""

    @abstractmethod
    def turn(self) -> None:
        """Give the model's slots the opposite order."""

    def step(self, step: Any) -> None:
        if step == "restore":
            self.arena, self.pool = restored(self.arena)
        elif step == "reopen" and self.arena.directory:
            self.arena, self.pool = reopened(self.arena)
        elif step == "compact":
            # Slots change their places, as keys do that are copied.
            into = Arena()
            turned = SLOTS - 1 - np.arange(SLOTS)
            copied, moved = self.held.copy_into(into, Pool(into), turned, SLOTS)
            assert sorted(moved[moved >= 0].tolist()) == list(range(len(copied)))
            self.arena.adopt(into)
            self.pool = Pool(self.arena)
            self.turn()
        elif step == "clear":
            self.clear()
        elif isinstance(step, list):
            self.apply(step)
        self.open()


def identity_of(row: Row, unique: Sequence[int]) -> Row:
    """Return the values that identify a row: the columns of a unique key, or all."""
    return tuple(plain(row)[c] for c in unique) if unique else plain(row)


def arrays_of(changes: list[tuple[int, Row, bool]]) -> tuple[Any, pa.RecordBatch, Any]:
    """A batch as components take it: slots, rows, and which are taken back."""
    slots = numbers([slot for slot, _, _ in changes])
    retracts = np.array([taken for _, _, taken in changes], np.bool_)
    return slots, batch_of([row for _, row, _ in changes]), retracts


def order_of(row: Row, order: Sequence[SortColumn]) -> tuple[Any, ...]:
    """Return a value that sorts as the row does."""
    found = []
    for each in order:
        value = row[each.column]
        null = value is None
        tier = (-1 if each.nulls_first else 1) if null else 0
        inner = () if null else _comparable(value)
        found.append((tier, _Backwards(inner) if each.descending else inner))
    return tuple(found)


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        return _comparable(list(value.values()))
    if isinstance(value, list | tuple):
        return tuple((0,) if each is None else (1, _comparable(each)) for each in value)
    return value


class _Backwards:
    """A value that sorts the other way round."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Backwards) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Backwards) and bool(self.value == other.value)


D = decimal.Decimal
UTC = datetime.UTC
SORTED_VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False]),
    (pa.int8(), [3, -128, 127]),
    (pa.int64(), [0, Least, Most, -1]),
    (pa.float32(), [0.5, math.nan, -0.0, 0.0, -math.inf, math.inf]),
    (pa.float64(), [1e300, math.nan, -0.0, 0.0, -math.inf, -1e-300]),
    (pa.decimal128(10, 2), [D("0.01"), D("-99999999.99"), D("5.00")]),
    (pa.decimal128(38, 0), [D(10**37), D(-(10**37)), D(0), D(2**64), D(-(2**64) - 1)]),
    (pa.string(), ["b", "", "a\0", "a", "é", "\U0001f600", "\uffff"]),
    (pa.binary(), [b"\xff", b"", b"\0", b"\0\xff", b"a"]),
    (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(9999, 1, 1)]),
    (pa.time64("us"), [datetime.time(23, 59, 59, 999999), datetime.time(0)]),
    (pa.timestamp("us"), [datetime.datetime(1, 1, 1), datetime.datetime(2026, 1, 1)]),
    (pa.timestamp("us", "UTC"), [datetime.datetime(2, 1, 1, tzinfo=UTC)]),
    (pa.list_(pa.int64()), [[], [1], [1, None], [-5, 3], [None]]),
    (
        pa.struct([("a", pa.string()), ("b", pa.float64())]),
        [{"a": "x", "b": 0.0}, {"a": None, "b": 2.0}],
    ),
]
"""Every type that sorts."""
