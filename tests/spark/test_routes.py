"""Packed rows on their way: steps, buckets, and a local aggregate that gives up where it does not pay."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aggloom.codegen import AggSpec, generate, load
from aggloom.codegen.planner import Bucket, Column, Constant, Expand, Scan
from aggloom.errors import AggloomError
from aggloom.runtime.hosting.blobs import is_partial
from aggloom.runtime.hosting.bucket_store import Blob, gather
from aggloom.runtime.hosting.handler_text import HandlerText
from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.operators.group_aggregate import GroupAggOperator
from aggloom.runtime.operators.local_aggregate import LocalAggregator
from aggloom.runtime.operators.steps import split
from aggloom.runtime.spark.node.partitioning import bucket_keys
from aggloom.runtime.spark.plan.routes import SIDE, Packer, Route
from aggloom.runtime.values.clock import NO_TIME

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
SQL = "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY k"
DISTINCT = "SELECT k, COUNT(DISTINCT v) AS n FROM t GROUP BY k"


def handler(sql: str, changes: Any = "append") -> type[Any]:
    return load(generate(AggSpec.from_sql(sql, SCHEMA, changes), backend="python"))


def route(of: type[Any] | None, **options: Any) -> Route:
    text = None
    if of is not None:
        text = HandlerText(Path(of.SOURCE_PATH).read_text(), of.DIGEST)
    return Route(SCHEMA, (0,), 3, local=text, **options)


def packed(path: Route, batches: list[pa.RecordBatch], source: int = 0) -> list[Any]:
    packer = Packer(path, source)
    rows = [row for b in batches for row in packer.add(b, np.zeros(len(b), np.int8))]
    return rows + list(packer.finish())


def came(rows: list[Any], schema: pa.Schema = SCHEMA) -> InputBatch:
    return gather([Blob(*row[1:]) for row in rows], [schema]).bundles[0]


def batch(keys: Any, values: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(keys, pa.int64()), pa.array(values)], schema=SCHEMA)


def table(of: type[Any], rows: list[Any]) -> dict[Any, tuple[Any, ...]]:
    """Return the table that an operator for each bucket makes of packed rows."""
    found = {}
    for key in bucket_keys(3):
        bundle = came([row for row in rows if row[0] == key])
        operator = GroupAggOperator(of, on_orphan_retraction="keep")
        out, _ = operator.process(bundle.batch, bundle.kinds, NO_TIME, bundle.partials)
        found |= {
            row[0]: row[1:] for row in zip(*(c.to_pylist() for c in out.columns), strict=True)
        }
    return found


def expected(batches: list[pa.RecordBatch]) -> dict[Any, tuple[int, int]]:
    sums: Counter[Any] = Counter()
    counts: Counter[Any] = Counter()
    for each in batches:
        for key, value in zip(*(c.to_pylist() for c in each.columns), strict=True):
            sums[key] += value
            counts[key] += 1
    return {key: (sums[key], counts[key]) for key in counts}


@pytest.mark.parametrize(
    ("rows", "keys", "local"),
    [(1000, 5, False), (10_000, 50, True), (10_000, 9_000, False), (300_000, 400_000, False)],
)
def test_rows_are_aggregated_where_that_makes_them_fewer(rows: int, keys: int, local: bool) -> None:
    of = handler(SQL)
    rng = np.random.default_rng(rows)
    whole = [
        batch(rng.integers(0, keys, 5000), rng.integers(0, 9, 5000)) for _ in range(rows // 5000)
    ]
    whole = whole or [batch(rng.integers(0, keys, rows), rng.integers(0, 9, rows))]
    if rows == 300_000:
        of = handler(DISTINCT)
        out = packed(route(of), whole[:4])
        assert not any(is_partial(row[4]) for row in out)
        return
    out = packed(route(of), whole)
    assert any(is_partial(row[4]) for row in out) == local
    assert table(of, out) == expected(whole)


def test_a_task_gives_up_once_keys_turn_out_to_be_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggloom.runtime.hosting.local_phase._TRIAL", 20_000)
    of = handler(SQL)
    few, many = np.arange(5000) % 10, np.arange(5000)
    whole = [batch(few, few), *(batch(many + 5000 * i, many) for i in range(6))]
    out = packed(route(of), whole)
    assert not any(is_partial(row[4]) for row in out)
    assert table(of, out) == expected(whole)
    # The other way round it has decided before it knows, and goes on.
    decided = packed(route(of), [batch(few, few)] * 4 + whole)
    assert any(is_partial(row[4]) for row in decided)
    assert table(of, decided) == expected([batch(few, few)] * 4 + whole)


def test_accumulators_leave_before_they_take_too_much_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggloom.runtime.hosting.local_phase._TRIAL", 10_000)
    monkeypatch.setattr("aggloom.runtime.hosting.local_phase._LOCAL_BYTES", 1)
    of = handler(SQL)
    whole = [batch(np.arange(5000) % 10, np.arange(5000)) for _ in range(6)]
    out = packed(route(of), whole)
    assert sum(is_partial(row[4]) for row in out) > 3
    assert table(of, out) == expected(whole)


def test_many_keys_are_split_by_bucket_before_they_are_aggregated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whenever accumulators are given to buckets, and rows after that go to theirs, the table is the same."""
    of = handler(SQL)
    rng = np.random.default_rng(3)
    whole = [batch(rng.integers(0, 60, 5000), rng.integers(0, 3, 5000)) for _ in range(5)]
    bare = packed(route(None), whole)
    monkeypatch.setattr("aggloom.runtime.hosting.local_phase._LOOKS", (100, 9000))
    for few, repeats in ((10_000, 16), (30, 1 << 20), (0, 1 << 20), (0, 300)):
        monkeypatch.setattr("aggloom.runtime.hosting.local_phase._FEW", few)
        monkeypatch.setattr("aggloom.runtime.hosting.local_phase._REPEATS", repeats)
        out = packed(route(of), whole)
        assert came(out).batch.num_rows == 0 and any(is_partial(row[4]) for row in out)
        # A key is in one bucket, and that is where its rows would be.
        assert keys_by_bucket(out, of) == keys_by_bucket(bare, of)
        assert table(of, out) == table(of, bare) == expected(whole)


def keys_by_bucket(rows: list[Any], of: type[Any]) -> dict[int, set[Any]]:
    """The keys that packed rows bring to each bucket."""
    found = {}
    for key in bucket_keys(3):
        bundle = came([row for row in rows if row[0] == key])
        operator = GroupAggOperator(of, on_orphan_retraction="keep")
        operator.process(bundle.batch, bundle.kinds, NO_TIME, bundle.partials)
        found[key] = set(zip(*(c.to_pylist() for c in operator.key_columns()), strict=True))
    return found


KEYS = {
    "STRING": ["", "a", "žluť", None, "x" * 40],
    "BINARY": [b"", b"\0", None, b"\xff" * 9],
    "BOOLEAN": [True, False, None],
    "DOUBLE": [0.0, -0.0, float("nan"), None, 1e300],
    "FLOAT": [0.0, -0.0, float("nan"), 0.5],
    "DECIMAL(20, 3)": [Decimal("0.000"), Decimal("-1.125"), None, Decimal(10) ** 15],
    "DATE": [dt.date(1969, 12, 31), None, dt.date(2024, 5, 1)],
    "TIMESTAMP": [dt.datetime(1960, 1, 1, 0, 0, 0, 1, dt.UTC), None],
    "TIMESTAMP_NTZ": [dt.datetime(2024, 5, 1, 2, 3, 4, 5), None],
    "TINYINT": [-128, 127, None],
    "STRUCT<a: INT, b: STRING>": [{"a": 1, "b": None}, None, {"a": None, "b": "x"}],
}


@pytest.mark.parametrize("changes", ["append", "retract"])
def test_accumulators_go_where_the_rows_of_their_keys_go(changes: Any) -> None:
    ddl = ", ".join(f"`k{number}` {kind}" for number, kind in enumerate(KEYS))
    names = ", ".join(f"k{number}" for number in range(len(KEYS)))
    spec = AggSpec.from_sql(
        f"SELECT {names}, COUNT(v) AS n FROM t GROUP BY {names}", f"{ddl}, v INT", changes
    )
    of = load(generate(spec, backend="python"))
    rng = np.random.default_rng(5)
    schema = spec.handler_schema
    picked = [[values[i] for i in rng.integers(0, len(values), 60)] for values in KEYS.values()]
    columns = [pa.array(each, f.type) for each, f in zip(picked, schema, strict=False)]
    rows = pa.RecordBatch.from_arrays([*columns, pa.array(range(60), pa.int32())], schema=schema)
    local = LocalAggregator(of)
    local.add(rows, np.zeros(60, np.int8))
    places = list(range(len(KEYS)))
    spread = dict(local.spread(places, 5))
    wanted = {bucket: part for bucket, (part, _) in split((rows, np.zeros(60, np.int8)), places, 5)}
    assert sorted(spread) == sorted(wanted)
    for bucket, part in wanted.items():
        kinds = np.zeros(part.num_rows, np.int8)
        told = []
        for given, partials in ((part, []), (part.slice(0, 0), [spread[bucket].take()])):
            operator = GroupAggOperator(of, on_orphan_retraction="keep")
            out, _ = operator.process(given, kinds[: len(given)], NO_TIME, partials)
            told.append(Counter(map(repr, out.to_pylist())))
        assert told[0] == told[1]


def test_retractions_that_cancel_in_a_task_still_arrive() -> None:
    of = handler("SELECT k, MAX(v) AS m, COUNT(*) AS n FROM t GROUP BY k", "retract")
    operator = GroupAggOperator(of, on_orphan_retraction="keep")
    before = batch([1, 1], [5, 9])
    operator.process(before, np.zeros(2, np.int8))
    packer = Packer(route(of), 0)
    rows = batch([1, 1] * 3000, [9, 4] * 3000)
    # Each pair takes a 9 back and brings a 4: no net row, but another maximum.
    kinds = np.tile(np.array([1, 2], np.int8), 3000)
    pieces = [*packer.add(rows, kinds), *packer.finish()]
    bundle = came(pieces)
    assert bundle.partials
    out, codes = operator.process(bundle.batch, bundle.kinds, NO_TIME, bundle.partials)
    assert codes.tolist() == [1, 2]
    assert out.column("m").to_pylist() == [9, 5]
    assert out.column("n").to_pylist() == [2, 2]


def test_accumulators_may_come_in_any_order() -> None:
    # One task corrects a row that another one brings: its part comes first, and has no row net.
    of = handler("SELECT k, MAX(v) AS m, SUM(v) AS s FROM t GROUP BY k", "retract")
    parts = []
    for values, kinds in (([7, 3], [1, 2]), ([7], [0])):
        local = LocalAggregator(of)
        local.add(batch([1] * len(values), values), np.array(kinds, np.int8))
        parts.append(local.take())
    nothing = batch([], pa.array([], pa.int64()))
    operator = GroupAggOperator(of, on_orphan_retraction="keep")
    out, kinds_out = operator.process(nothing, np.zeros(0, np.int8), NO_TIME, parts)
    assert (kinds_out.tolist(), out.to_pylist()) == ([0], [{"k": 1, "m": 3, "s": 3}])
    # The same rows as rows, and then all taken back: nothing is left, and the slot is as new.
    rows = GroupAggOperator(of, on_orphan_retraction="keep")
    out, _ = rows.process(batch([1, 1, 1], [7, 3, 7]), np.array([1, 2, 0], np.int8))
    assert out.to_pylist() == [{"k": 1, "m": 3, "s": 3}]
    _, gone = rows.process(batch([1, 1, 1], [3, 5, 5]), np.array([3, 3, 0], np.int8))
    assert (gone.tolist(), rows.keys) == ([3], 0)
    out, _ = rows.process(batch([1], [2]), np.zeros(1, np.int8))
    assert out.to_pylist() == [{"k": 1, "m": 2, "s": 2}]


def test_what_takes_orphans_for_errors_merges_nothing() -> None:
    of = handler("SELECT k, MAX(v) AS m FROM t GROUP BY k", "retract")
    with pytest.raises(AggloomError, match="keep orphans"):
        GroupAggOperator(of).process(
            batch([], pa.array([], pa.int64())), np.zeros(0, np.int8), 0, [b""]
        )


def test_sides_of_a_union_do_not_mix_their_order() -> None:
    first = packed(route(None), [batch([1], [1])], 5)
    second = packed(route(None, side=1), [batch([1], [2])], 2)
    bundle = came(second + first)
    assert {row[2] for row in first} == {5} and {row[2] for row in second} == {SIDE + 2}
    assert bundle.batch.column("v").to_pylist() == [1, 2]


def test_steps_run_before_the_rows_are_split() -> None:
    wide = pa.schema([("k", pa.int64()), ("h", pa.int32()), ("v", pa.int64()), ("g", pa.bool_())])
    expand = Expand(
        Scan("t", SCHEMA, "append"),
        (
            (Column("k"), Bucket(("v",), 4), Column("v"), Constant(True)),
            (Column("k"), Constant(None), Column("v"), Constant(False)),
        ),
        wide,
    )
    packer = Packer(Route(wide, (0, 1), 1, steps=(expand,)), 0)
    rows = [*packer.add(batch([1, 2], [7, 7]), np.array([0, 3], np.int8)), *packer.finish()]
    bundle = came(rows, wide)
    out = bundle.batch.to_pydict()
    assert out["k"] == [1, 2, 1, 2] and out["g"] == [True, True, False, False]
    assert out["h"][0] == out["h"][1] and 0 <= out["h"][0] < 4 and out["h"][2:] == [None, None]
    assert bundle.kinds.tolist() == [0, 3, 0, 3]
