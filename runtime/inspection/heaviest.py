"""The keys for which an operator holds the most rows, and the windows that it holds of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.inspection.facts import Report, Row
from aggloom.runtime.inspection.parts import parts_of
from aggloom.runtime.operators.base import Operator
from aggloom.runtime.storage.arena import Array
from aggloom.type_layout import is_nested

_WINDOWS = 64
_HOT_SHARE, _HOT_TIMES = 0.1, 5


@dataclass(frozen=True)
class KeyWindow(Report):
    """A window of a key; rows: None where they are not counted."""

    start: Any
    end: Any
    rows: int | None


@dataclass(frozen=True)
class KeyWeight(Report):
    """A key and the size of its state: windows or slices (1 for a key without windows), and the rows behind them.

    windows: the first ones in order of time.
    """

    key: Row
    bucket: int
    held: int
    rows: int | None
    windows: tuple[KeyWindow, ...] = ()


@dataclass
class Heaviest(Report):
    """The heaviest keys of the buckets that were read.

    keys: the heaviest first. known: how many keys these buckets hold. rows: those behind all of them, None where they
    are not counted. buckets, bytes: those read, and all there are. stopped: why not all were read; the largest are.
    """

    keys: list[KeyWeight] = field(default_factory=list)
    known: int = 0
    held: int = 0
    rows: int | None = None
    buckets: tuple[int, int] = (0, 0)
    bytes: tuple[int, int] = (0, 0)
    stopped: str = ""

    @property
    def is_complete(self) -> bool:
        """True if every bucket was read."""
        return self.buckets[0] == self.buckets[1]

    def share_of(self, key: KeyWeight) -> float | None:
        """The share of a key in the rows of the buckets that were read; None where they are not counted."""
        return key.rows / self.rows if key.rows is not None and self.rows else None

    def is_hot(self, key: KeyWeight) -> bool:
        """True for a key with a tenth of the rows or more, and five times as many as a key has on average."""
        share = self.share_of(key)
        # With few keys a tenth is nothing special; with very many, five times the average is still too little.
        return share is not None and share >= max(_HOT_SHARE, _HOT_TIMES / max(1, self.known))

    def take(self, operator: Operator, bucket: int, names: list[str], limit: int) -> None:
        """Weigh the keys of one more bucket."""
        known, rows, heaviest = weigh(operator, bucket, names, limit)
        self.known += known
        # None says that this bucket counts no rows. It does not undo what other buckets counted.
        self.rows = self.rows if rows is None else (self.rows or 0) + rows
        self.held += operator.keys
        # Only the heaviest of all buckets so far are carried on, so memory is bounded by the limit.
        self.keys = nlargest(limit, [*self.keys, *heaviest], _weight)


def weigh(
    operator: Operator, bucket: int, names: list[str], limit: int
) -> tuple[int, int | None, list[KeyWeight]]:
    """(number of keys, the rows behind all of them, None if they are not counted, the heaviest keys) of an operator."""
    columns = operator.key_columns()
    rows = operator.count_key_rows()
    # Without key columns there is one group, which exists as soon as anything is stored.
    if not columns:
        if not operator.keys:
            return 0, None, []
        total = None if rows is None else int(np.sum(rows))
        return 1, total, [_make_weight(operator, bucket, names, [], (operator.keys, total))]
    count = len(columns[0])
    each = np.ones(count, np.int64) if rows is None else np.asarray(rows, np.int64)
    firsts, counts, weights = _sum_by_key(columns, each)
    order = _largest(weights, counts, limit)
    # Keys are decoded only for those that are shown: a bucket may have millions.
    chosen = [column.take(pa.array(firsts[order])) for column in columns]
    # Windows of a key are read for the shown keys alone, as each takes a look into the state.
    heaviest = [
        _make_weight(
            *(operator, bucket, names, [column.slice(place, 1) for column in chosen]),
            (int(counts[at]), None if rows is None else int(weights[at])),
        )
        for place, at in enumerate(order.tolist())
    ]
    return len(firsts), None if rows is None else int(np.sum(each)), heaviest


def _sum_by_key(columns: list[pa.Array], rows: Array) -> tuple[Array, Array, Array]:
    """Return for each key a place at which it stands, how often it does, and the sum of its rows."""
    # A key stands several times where each of its windows is an entry of its own.
    marks = pa.table([_groupable(each) for each in columns], names=_numbers(len(columns)))
    marks = marks.append_column("place", pa.array(np.arange(len(rows))))
    marks = marks.append_column("rows", pa.array(rows))
    sums = marks.group_by(_numbers(len(columns))).aggregate(
        [("place", "min"), ("place", "count"), ("rows", "sum")]
    )
    names = ("place_min", "place_count", "rows_sum")
    first, counts, weights = (sums.column(name).to_numpy() for name in names)
    return first, counts, weights


def _groupable(column: pa.Array) -> pa.Array:
    """Return a column that Arrow can group by: for arrays and structs, numbers that are equal where these are."""
    if not is_nested(column.type):
        return column
    numbers: dict[str, int] = {}
    # Equal values have equal texts, since all of them are of one type.
    return pa.array([numbers.setdefault(repr(each), len(numbers)) for each in column.to_pylist()])


def _largest(weights: Array, counts: Array, limit: int) -> Array:
    """The places of the largest, by rows and then by windows."""
    # Sorting everything pays off only for few keys; a partition finds the largest in one pass.
    if len(weights) > 4 * limit:
        candidates = np.argpartition(-weights, limit)[: 2 * limit]
        return np.asarray(
            candidates[np.lexsort((-counts[candidates], -weights[candidates]))][:limit]
        )
    return np.asarray(np.lexsort((-counts, -weights))[:limit])


def _make_weight(
    operator: Operator,
    bucket: int,
    names: list[str],
    values: list[pa.Array],
    weight: tuple[int, int | None],
) -> KeyWeight:
    key = pa.RecordBatch.from_arrays(values, names=names[: len(values)]) if values else None
    key_values = {} if key is None else {n: key.column(n)[0].as_py() for n in key.schema.names}
    windows = tuple(_windows(operator, key)) if operator.in_windows and key is not None else ()
    return KeyWeight(key_values, bucket, *weight, windows)


def _windows(operator: Operator, key: pa.RecordBatch) -> Iterator[KeyWindow]:
    for part in parts_of(operator, key)[:_WINDOWS]:
        if part.window is not None:
            yield KeyWindow(*part.window, part.records)


def _weight(key: KeyWeight) -> tuple[int, int]:
    # Where rows are not counted, windows are the best measure of weight that there is.
    return (key.held if key.rows is None else key.rows), key.held


def _numbers(count: int) -> list[str]:
    return [str(place) for place in range(count)]
