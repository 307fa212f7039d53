"""A bundle has one result, whether it is added up slot by slot or as rows came, after a bundle that failed or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aggloom.codegen import AggSpec, generate, load
from aggloom.errors import ArithmeticOverflowError
from aggloom.runtime.operators.group_aggregate import GroupAggOperator

SQL = "SELECT k, SUM(v) AS s, MAX(v) AS m, COUNT(*) AS n FROM t GROUP BY k"
Bundle = tuple[pa.RecordBatch, Any]


def operator(changes: str, backend: str = "numba") -> GroupAggOperator:
    spec = AggSpec.from_sql(SQL, schema="k BIGINT, v BIGINT", input_changes=changes)
    handler: Any = load(generate(spec, backend=backend))
    return GroupAggOperator(handler)


def bundle(keys: Any, values: Any) -> Bundle:
    columns = {"k": np.asarray(keys, np.int64), "v": np.asarray(values, np.int64)}
    return pa.RecordBatch.from_pydict(columns), np.zeros(len(keys), np.int8)


def table(of: GroupAggOperator) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = of.contents()[0].to_pylist()
    return sorted(rows, key=lambda row: row["k"])


@pytest.mark.parametrize("changes", ["append", "retract"])
def test_a_restored_operator_forgets_the_bundle_that_failed(changes: str) -> None:
    rng = np.random.default_rng(1)
    first = bundle(rng.integers(0, 40, 100), rng.integers(-9, 9, 100))
    failing = bundle([3, 3, *range(40)], [2**62, 2**62, *[2**62] * 40])
    last = bundle(rng.integers(0, 40, 60), rng.integers(-9, 9, 60))
    undisturbed, disturbed = operator(changes), operator(changes)
    for each in (undisturbed, disturbed):
        each.process(*first)
    saved = disturbed.snapshot()
    with pytest.raises(ArithmeticOverflowError, match="k=3"):
        disturbed.process(*failing)
    disturbed.restore(saved)
    wanted, kinds = undisturbed.process(*last)
    found, found_kinds = disturbed.process(*last)
    assert found.equals(wanted)
    assert found_kinds.tolist() == kinds.tolist()


@pytest.mark.parametrize("changes", ["append", "retract"])
@pytest.mark.parametrize(("keys", "rows"), [(3, 200), (150, 200), (5_000, 20)])
def test_few_or_many_rows_a_key_give_the_same_changes(changes: str, keys: int, rows: int) -> None:
    """Bundles in which many slots are touched or few, by many rows each or few, against plain Python."""
    rng = np.random.default_rng(keys)
    compiled, plain = operator(changes), operator(changes, "python")
    for size in (keys, rows, rows):
        keys_, values = rng.integers(0, keys, size), rng.integers(-50, 50, size)
        given = bundle(keys_, values)
        if changes == "retract":
            # What came is taken back by half of the next bundle's rows.
            kinds = (np.arange(size) % 2 * 3).astype(np.int8)
            given = given[0].take(np.arange(size) // 2), kinds
        (found, kinds), (wanted, wanted_kinds) = compiled.process(*given), plain.process(*given)
        assert found.equals(wanted)
        assert kinds.tolist() == wanted_kinds.tolist()
    assert table(compiled) == table(plain)
