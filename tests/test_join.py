"""Join beside a plain model: random keys, conditions, updates, cuts and restarts; equal after every bundle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen import AggSpec
from aggloom.runtime.operators.base import Bundle
from aggloom.runtime.operators.join.operator import JoinOperator
from aggloom.runtime.operators.join.spec import JoinSpec
from aggloom.runtime.values.changelog import KIND_NAMES
from aggloom.runtime.values.clock import Clock

KINDS = ("inner", "left", "right", "full", "semi", "anti")
Row = tuple[Any, ...]
Change = tuple[str, Row]

LEFT = pa.schema([("a", pa.int64()), ("b", pa.string()), ("i", pa.int32()), ("v", pa.int64())])
RIGHT = pa.schema([("c", pa.int64()), ("d", pa.string()), ("j", pa.int32()), ("w", pa.float64())])
CONDITIONS: dict[str | None, Callable[[Row, Row], Any]] = {
    None: lambda x, y: True,
    "v < w": lambda x, y: None if x[3] is None or y[3] is None else x[3] < y[3],
    "v > 0": lambda x, y: None if x[3] is None else x[3] > 0,
    "i IS NULL OR j <> i": lambda x, y: x[2] is None or (y[2] is not None and y[2] != x[2]),
}


def given(schema: pa.Schema, changes: list[Change]) -> Bundle:
    columns = list(zip(*(row for _, row in changes), strict=True)) or [()] * len(schema)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    kinds = np.array([KIND_NAMES.index(kind) for kind, _ in changes], np.int8)
    return Bundle(pa.RecordBatch.from_arrays(arrays, schema=schema), kinds)


def told(changes: tuple[pa.RecordBatch, Any]) -> list[Change]:
    columns = [column.to_pylist() for column in changes[0].columns]
    rows = zip(*columns, strict=True) if columns else [()] * len(changes[1])
    return [(KIND_NAMES[k], row) for k, row in zip(changes[1], rows, strict=True)]


class Table:
    """A table of random changes; key: the places of a unique key, None: rows may be there several times."""

    def __init__(self, key: tuple[int, ...] | None, draw: Callable[[], Row], upserts: bool) -> None:
        self.key, self.draw, self.upserts = key, draw, upserts
        self.rows: Counter[Row] = Counter()

    def bundle(self, rng: random.Random, size: int) -> list[Change]:
        return [change for _ in range(size) for change in self.change(rng)]

    def change(self, rng: random.Random) -> list[Change]:
        there = list(self.rows.elements())
        if there and rng.random() < 0.4:
            row = rng.choice(there)
            self.rows -= Counter([row])
            return [("-D", row)]
        row = self.draw()
        if self.key is not None:
            known = [row[place] for place in self.key]
            old = next((o for o in there if [o[place] for place in self.key] == known), None)
            if old is not None:
                self.rows -= Counter([old])
                self.rows[row] += 1
                # An upsert must find the row that it replaces where it comes: under the same join key.
                bare = self.upserts and old[:2] == row[:2] and rng.random() < 0.5
                return [("+U", row)] if bare else [("-U", old), ("+U", row)]
        self.rows[row] += 1
        return [("+I", row)]


def joined(spec: JoinSpec, left: Counter[Row], right: Counter[Row]) -> Counter[Row]:
    """The join of two tables, row by row."""
    passes = CONDITIONS[spec.condition]
    names = [*spec.left.names, *spec.right.names]
    out: Counter[Row] = Counter()

    def leave(x: Row, y: Row, count: int) -> None:
        both = dict(zip(names, (*x, *y), strict=True))
        out[tuple(both[name] for name in spec.columns)] += count

    def agree(x: Row, y: Row) -> bool:
        return all(
            x[n] == y[n] and (safe or x[n] is not None) for n, safe in enumerate(spec.null_safe)
        )

    nothing_left, nothing_right = (None,) * len(spec.left), (None,) * len(spec.right)
    met: Counter[Row] = Counter()
    for x, m in left.items():
        matches = 0
        for y, n in right.items():
            if agree(x, y) and passes(x, y):
                matches += n
                met[y] += m
                if spec.pairs_leave:
                    leave(x, y, m * n)
        if spec.how in ("left", "full", "anti") and not matches:
            leave(x, nothing_right, m)
        if spec.how == "semi" and matches:
            leave(x, nothing_right, m)
    if spec.how in ("right", "full"):
        for y, n in right.items():
            if not met[y]:
                leave(nothing_left, y, n)
    return out


def folded(table: Counter[Row], changes: list[Change], key: list[int] | None) -> None:
    """Apply messages; without the old half of updates the row of the key goes."""
    for kind, row in changes:
        if kind == "+U" and key is not None:
            same = [old for old in table if [old[p] for p in key] == [row[p] for p in key]]
            for old in same:
                del table[old]
        table[row] += -1 if kind in ("-U", "-D") else 1
        if not table[row]:
            del table[row]
    assert all(count > 0 for count in table.values())


def drawn(rng: random.Random, per_record: bool = False) -> tuple[JoinSpec, Table, Table]:
    """A join of two tables with random keys."""
    pairs = rng.choice([0, 1, 1, 1, 2])
    kind = rng.choice(KINDS)
    keys = [rng.choice([None, (2,), (0, 2), (0,)[:pairs], (0, 1)[:pairs]]) for _ in range(2)]
    few = rng.choice([2, 3, 6])

    def value(numbers: list[Any]) -> Callable[[], Any]:
        return lambda: rng.choice(numbers)

    word = value([None, "", "x", "long enough for the pool"])
    number = value([None, *range(few)])

    def left_row() -> Row:
        return number(), word(), rng.choice([None, 1, 2, 3, 4]), rng.choice([None, -1, 0, 1, 2])

    def right_row() -> Row:
        return number(), word(), rng.choice([None, 1, 2, 3]), rng.choice([None, 0.0, 0.5, 1.5])

    lefts = LEFT.names if rng.random() < 0.5 else rng.sample(LEFT.names, rng.randint(1, 3))
    rights = RIGHT.names if rng.random() < 0.5 else rng.sample(RIGHT.names, rng.randint(0, 3))
    columns = lefts if kind in ("semi", "anti") else [*lefts, *rights]
    one, other = (
        None if key is None else tuple(schema.names[place] for place in key)
        for key, schema in zip(keys, (LEFT, RIGHT), strict=True)
    )
    output = None
    if kind in ("semi", "anti") and one is not None and set(one) <= set(columns):
        output = one
    elif kind == "inner" and one is not None and other is not None:
        output = (*one, *other) if {*one, *other} <= set(columns) else None
    elif kind == "left" and one is not None and other is not None:
        meets_one = set(other) <= set(RIGHT.names[:pairs])
        both = one if meets_one else (*one, *other)
        output = both if set(both) <= set(columns) else None
    spec = JoinSpec(
        LEFT,
        RIGHT,
        kind,
        tuple(rng.random() < 0.3 for _ in range(pairs)),
        tuple(columns),
        rng.choice(list(CONDITIONS)),
        one,
        other,
        output,
        update_before=output is None or rng.random() < 0.6,
        per_record=per_record,
    )
    left = Table(keys[0], left_row, not per_record)
    return spec, left, Table(keys[1], right_row, not per_record)


def again(operator: JoinOperator) -> JoinOperator:
    """The operator after a restart."""
    made = JoinSpec.from_data(operator.spec.to_data(), AggSpec(LEFT, ("a",), ())).make(None)
    made.restore(operator.snapshot())
    return made


def check(seed: int, per_record: bool = False, bundles: int = 8) -> None:
    rng = random.Random(seed)
    spec, left, right = drawn(rng, per_record)
    operator = spec.make(None)
    key = None
    if spec.output_key is not None:
        key = [spec.columns.index(name) for name in spec.output_key]
    seen: Counter[Row] = Counter()
    for _ in range(bundles):
        if rng.random() < 0.3:
            operator = again(operator)
        size = rng.choice([1, 3, 10])
        both = [table.bundle(rng, rng.randint(0, size)) for table in (left, right)]
        inputs = [given(s, c) for s, c in zip((LEFT, RIGHT), both, strict=True)]
        changes = told(operator.run(inputs, Clock(0)))
        before = Counter(seen)
        folded(seen, changes, None if spec.update_before else key)
        assert seen == joined(spec, left.rows, right.rows), (seed, spec)
        assert Counter(row for _, row in told(operator.contents())) == seen
        if per_record:
            continue
        minimal = sum(((seen - before) + (before - seen)).values())
        assert spec.update_before is False or len(changes) == minimal, (seed, changes)
        for (one, old), (other, new) in pairwise(changes):
            if one == "-U":
                assert key is not None and other == "+U"
                assert [old[p] for p in key] == [new[p] for p in key]
        if key is not None:
            counts = Counter((tuple(row[p] for p in key), kind) for kind, row in changes)
            assert not any(kind == "-D" and counts[k, "+I"] for k, kind in counts), seed


def test_bundles_beside_the_model() -> None:
    for seed in range(200):
        check(seed)


def test_rows_one_by_one_beside_the_model() -> None:
    for seed in range(100):
        check(seed, per_record=True)
