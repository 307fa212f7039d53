"""Join beside a plain model: random keys, conditions, updates, cuts and restarts; equal after every bundle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from aggloom.codegen import AggSpec
from aggloom.errors import AggloomError, OrphanRetractionError
from aggloom.runtime.operators.base import InputBatch
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


def given(schema: pa.Schema, changes: list[Change]) -> InputBatch:
    columns = list(zip(*(row for _, row in changes), strict=True)) or [()] * len(schema)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    kinds = np.array([KIND_NAMES.index(kind) for kind, _ in changes], np.int8)
    return InputBatch(pa.RecordBatch.from_arrays(arrays, schema=schema), kinds)


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
        left=LEFT,
        right=RIGHT,
        how=kind,  # type: ignore[arg-type]
        null_safe=tuple(rng.random() < 0.3 for _ in range(pairs)),
        columns=tuple(columns),
        condition=rng.choice(list(CONDITIONS)),
        left_key=one,
        right_key=other,
        output_key=output,
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


def joining(kind: str, **settings: Any) -> JoinSpec:
    """A join on the first column, the right's rows known by it and the left's by `i`."""
    columns = tuple(LEFT.names) if kind in ("semi", "anti") else (*LEFT.names, *RIGHT.names)
    chosen = {"left_key": ("i",), "right_key": ("c",), **settings}
    return JoinSpec(
        left=LEFT,
        right=RIGHT,
        how=kind,  # type: ignore[arg-type]
        null_safe=(False,),
        columns=columns,
        **chosen,
    )


def run(
    operator: JoinOperator, left: list[Change], right: list[Change], now: int = 0
) -> list[Change]:
    return told(operator.run([given(LEFT, left), given(RIGHT, right)], Clock(now)))


ONE, AIR, SEA = (1, "x", 7, 0), (1, "air", 1, 0.5), (1, "sea", 1, 0.5)
PADDED = (*ONE, None, None, None, None)


@pytest.mark.parametrize("per_record", [False, True])
@pytest.mark.parametrize("kind", ["left", "full", "semi", "anti"])
def test_a_row_of_the_inner_side_that_is_replaced_and_deleted(kind: str, per_record: bool) -> None:
    """Flink counts the new row as one more match, so that the deletion brings no padded row (FLINK-40681)."""
    operator = joining(kind, per_record=per_record).make(None)
    first = {"left": PADDED, "full": PADDED, "anti": ONE}.get(kind)
    assert run(operator, [("+I", ONE)], []) == ([("+I", first)] if first else [])
    met = run(operator, [], [("+I", AIR)])
    replaced = run(operator, [], [("+U", SEA)])
    gone = run(operator, [], [("-D", SEA)])
    if kind in ("semi", "anti"):
        comes, goes = ("+I", "-D") if kind == "semi" else ("-D", "+I")
        assert (met, replaced, gone) == ([(comes, ONE)], [], [(goes, ONE)])
        return
    assert met == [("-D", PADDED), ("+I", (*ONE, *AIR))]
    old = [] if per_record else [("-D", (*ONE, *AIR))]
    assert replaced == [*old, ("+I", (*ONE, *SEA))]
    assert gone == [("-D", (*ONE, *SEA)), ("+I", PADDED)]
    assert Counter(told(operator.contents())) == Counter([("+I", PADDED)])


def test_a_row_that_changes_a_hundred_times_in_a_bundle_is_told_once() -> None:
    operator = joining("left", output_key=("i",)).make(None)
    run(operator, [("+I", (1, "x", n, n)) for n in range(50)], [("+I", AIR)])
    versions = [(1, "air", 1, 0.5), *((1, f"version {n}", 1, n / 2) for n in range(100))]
    updates = [change for old, new in pairwise(versions) for change in [("-U", old), ("+U", new)]]
    changes = run(operator, [], updates)
    assert [kind for kind, _ in changes] == ["-U", "+U"] * 50
    assert {row[4:] for kind, row in changes if kind == "+U"} == {versions[-1]}
    assert run(operator, [], [("-U", versions[-1]), ("+U", AIR), ("+U", versions[-1])]) == []


def test_a_column_that_is_not_read_changes_nothing() -> None:
    spec = JoinSpec(
        left=LEFT,
        right=RIGHT,
        how="left",
        null_safe=(False,),
        columns=("a", "i", "d"),
        left_key=("i",),
        right_key=("c",),
        output_key=("i",),
    )
    operator = spec.make(None)
    run(operator, [("+I", ONE)], [("+I", AIR)])
    assert run(operator, [("+U", (1, "y", 7, 9))], [("+U", (1, "air", 3, 8.0))]) == []
    assert run(operator, [], [("+U", SEA)]) == [("-U", (1, 7, "air")), ("+U", (1, 7, "sea"))]


def test_a_crowded_key_goes_out_in_chunks_and_no_further_than_the_limit() -> None:
    many, few = 30_000, 100
    spec = joining("inner", left_key=None, right_key=None, match_limit=many * few)
    operator = spec.make(None)
    numbers = np.arange(many)
    left = pa.RecordBatch.from_arrays(
        [pa.array(np.ones(many, np.int64)), pa.nulls(many, pa.string()),
         pa.array(numbers.astype(np.int32)), pa.array(numbers)], schema=LEFT)  # fmt: skip
    rows = [("+I", (1, None, n, float(n))) for n in range(few)]
    changes = operator.run(
        [InputBatch(left, np.zeros(many, np.int8)), given(RIGHT, rows)], Clock(0)
    )
    assert len(changes[1]) == many * few
    assert len(set(changes[0].column("v").to_pylist())) == many
    more = [("+I", (1, None, n, -1.0)) for n in range(few + 1)]
    with pytest.raises(AggloomError, match=r"more than 3,000,000 rows, most of them of key a=1"):
        operator.run([given(LEFT, []), given(RIGHT, more)], Clock(0))
    with pytest.raises(AggloomError, match="restore"):
        run(operator, [], [])


def test_keys_of_null_in_masses() -> None:
    operator = joining("full", left_key=None, right_key=None).make(None)
    n = 50_000
    nothing = [pa.nulls(n, field.type) for field in LEFT]
    nothing[3] = pa.array(np.arange(n))
    left = pa.RecordBatch.from_arrays(nothing, schema=LEFT)
    right = pa.RecordBatch.from_arrays([pa.nulls(n, f.type) for f in RIGHT], schema=RIGHT)
    both = [InputBatch(left, np.zeros(n, np.int8)), InputBatch(right, np.zeros(n, np.int8))]
    changes = operator.run(both, Clock(0))
    assert len(changes[1]) == 2 * n and not changes[1].any()
    back = [InputBatch(each.batch, np.full(n, 3, np.int8)) for each in both]
    assert len(operator.run(back, Clock(0))[1]) == 2 * n
    assert operator.keys == 0
    inner = joining("inner").make(None)
    inner.run(both, Clock(0))
    assert (inner.keys, len(inner.state.sides[0].bag)) == (0, 0)


def test_wide_rows_of_every_kind_and_a_table_with_itself() -> None:
    types = [pa.int64(), pa.string(), pa.decimal128(38, 5), pa.list_(pa.string()), pa.float64()]
    types += [pa.struct([("x", pa.int32())]), pa.date32(), pa.bool_(), pa.binary()]
    values = [1, "text", Decimal("1.50000"), ["a", None], 0.5, {"x": 1}, date(2020, 1, 2), True]
    values += [b"\0"]
    schemas = [
        pa.schema([(f"{side}{n}", types[n % len(types)]) for n in range(300)]) for side in "lr"
    ]
    rows = [
        tuple(
            key if n == 0 else values[n % len(types)] if (n + key) % 3 else None for n in range(300)
        )
        for key in range(20)
    ]
    rows = [
        tuple(each if n % 9 or not n else key for n, each in enumerate(row))
        for key, row in enumerate(rows)
    ]
    spec = JoinSpec(
        left=schemas[0],
        right=schemas[1],
        how="full",
        null_safe=(False,),
        columns=tuple(schemas[0].names + schemas[1].names),
        condition="l9 <= r18",
    )
    operator = spec.make(None)
    both = [given(schema, [("+I", row) for row in rows]) for schema in schemas]
    assert Counter(map(repr, told(operator.run(both, Clock(0))))) == Counter(
        repr(("+I", (*row, *row))) for row in rows
    )
    made = JoinSpec.from_data(spec.to_data(), AggSpec(LEFT, ("a",), ())).make(None)
    made.restore(operator.snapshot())
    back = [given(schema, [("-D", row) for row in rows]) for schema in schemas]
    assert len(made.run(back, Clock(0))[1]) == len(rows)
    assert (made.keys, made.contents()[0].num_rows) == (0, 0)


@pytest.mark.parametrize("per_record", [False, True])
def test_rows_that_are_taken_back_before_they_come(per_record: bool) -> None:
    def made(policy: str) -> JoinOperator:
        settings = {"left_key": None, "on_orphan_retraction": policy, "per_record": per_record}
        operator = joining("left", **settings).make(None)
        run(operator, [], [("+I", AIR)])
        return operator

    kept = made("keep")
    assert run(kept, [("-D", ONE)], []) == []
    kept = again(kept)
    assert run(kept, [("+I", ONE)], []) == []
    assert run(kept, [("+I", ONE)], []) == [("+I", (*ONE, *AIR))]
    dropped = made("drop")
    # Row by row Flink takes back what would have been joined.
    assert run(dropped, [("-D", ONE)], []) == ([("-D", (*ONE, *AIR))] if per_record else [])
    assert run(dropped, [("+I", ONE)], []) == [("+I", (*ONE, *AIR))]
    assert dropped.counters["orphans_dropped"] == 1
    with pytest.raises(OrphanRetractionError, match="row 1 of the left retracts from key a=1"):
        run(made("error"), [("+I", (2, "x", 1, 1)), ("-D", ONE)], [])


def test_each_side_forgets_by_itself() -> None:
    operator = joining("left", ttls=(100, 10), output_key=("i",)).make(None)
    run(operator, [("+I", ONE)], [("+I", AIR)], 1)
    assert operator.spec.time_mode == "ProcessingTime"
    assert run(operator, [], [], 10) == []
    assert operator.counters["expired"] == 0
    # The joined row stays, as in Flink, and with it that the left's row is no padded one.
    assert run(operator, [], [], 11) == []
    assert (operator.counters["expired"], operator.keys) == (1, 1)
    operator = again(operator)
    assert run(operator, [], [("+I", SEA)], 12) == [("+I", (*ONE, *SEA))]
    assert run(operator, [], [], 101) == []
    assert (operator.keys, operator.state.pool.arrays.meta[5]) == (0, 0)


def test_a_time_to_live_that_is_new_begins_now() -> None:
    operator = joining("left").make(None)
    run(operator, [("+I", ONE)], [("+I", AIR)])
    spec = operator.spec.with_changing(joining("left", ttls=(10, 10)).to_data())
    later = spec.make(None)
    later.restore(operator.snapshot())
    assert run(later, [], [], 50) == [] and later.keys == 1
    assert later.state.sides[0].bag.arrays.degree.max() == 1
    assert run(later, [], [], 60) == [] and later.keys == 0


def test_memory_is_given_back() -> None:
    operator = joining("full").make(None)
    n = 20_000
    left = [("+I", (k, f"text {k}", k, k)) for k in range(n)]
    right = [("+I", (k, f"word {k}", k, 0.5)) for k in range(0, n, 2)]
    run(operator, left, right)
    full = operator.state_bytes
    run(operator, [("-D", row) for _, row in left[10:]], [("-D", row) for _, row in right[5:]])
    assert operator.state_bytes < full / 20
    assert operator.contents()[0].num_rows == 10
    changes = run(operator, [], [("+U", (k, "new", k, 0.5)) for k in range(0, 10, 2)])
    assert Counter(kind for kind, _ in changes) == {"-D": 5, "+I": 5}


def test_what_it_holds_of_a_key() -> None:
    operator = joining("left", ttls=(5, 5)).make(None)
    run(operator, [("+I", ONE), ("+I", (2, "y", 8, 1))], [("+I", AIR)], 3)
    key = pa.RecordBatch.from_arrays([pa.array([1], pa.int64())], names=["a"])
    (held,) = operator.read_key_state(key)
    assert (held.records, held.written, held.results) == (
        2,
        3,
        dict(zip((*LEFT.names, *RIGHT.names), (*ONE, *AIR), strict=True)),
    )
    assert operator.key_columns()[0].to_pylist() == [1, 2]
    met = operator.state.count_slot_rows(operator.state.used_slots())
    assert met is not None and met.tolist() == [2, 1]
    assert operator.name == "left join on a = c"


def test_the_model_is_duckdb() -> None:
    with duckdb.connect() as connection:
        for seed in range(40):
            rng = random.Random(seed)
            spec, left, right = drawn(rng)
            for table, schema, name in ((left, LEFT, "l"), (right, RIGHT, "r")):
                table.bundle(rng, 30)
                batch = given(schema, [("+I", row) for row in table.rows.elements()]).batch
                connection.register(name, pa.Table.from_batches([batch]))
            pairs = zip(LEFT.names, RIGHT.names, spec.null_safe, strict=False)
            words = [f"{x} {'IS NOT DISTINCT FROM' if safe else '='} {y}" for x, y, safe in pairs]
            on = " AND ".join([*words, f"({spec.condition or 'TRUE'})"])
            sql = f"SELECT {', '.join(spec.columns)} FROM l {spec.how} JOIN r ON {on}"
            found = Counter(connection.execute(sql).fetchall())
            assert found == joined(spec, left.rows, right.rows), (seed, sql)
