"""Facts of table aggregates: results and messages that Flink's own tests assert, over the data that they use."""

# mypy: disable-error-code="no-untyped-def,misc"
# ruff: noqa: N805

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import aggloom as al
from aggloom.runtime.values.changelog import fold

Row = tuple[Any, ...]
NUMBERS = [(n, s) for s in range(1, 7) for n in range(s * (s - 1) // 2 + 1, s * (s + 1) // 2 + 1)]
"""The numbers 1 to 21 in groups of 1, 2, .. 6, as in TestData.tupleData3."""
PRICES = (6, 3, 5, 8, 4)
"""The prices of TestData.tupleData4."""


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    """Register the functions that Flink's tests call."""

    @al.table_aggregate("TOP3", arguments={"v": "BIGINT"}, columns={"f0": "BIGINT", "f1": "BIGINT"})
    class Top3:
        """The three largest values, each twice in a row."""

        def create():
            return []

        def accumulate(state, v):
            state.append(v)

        def retract(state, v):
            state.remove(v)

        def rows(state):
            for v in sorted(state, reverse=True)[:3]:
                yield v, v

    @al.table_aggregate(
        "TOP2_PRICES", arguments={"v": "INT"}, columns={"top_price": "INT", "place": "INT"}
    )
    class Top2:
        """The two largest values with their places."""

        def create():
            return []

        def accumulate(state, v):
            state.append(v)

        def rows(state):
            for place, v in enumerate(sorted(state, reverse=True)[:2], 1):
                yield v, place

    @al.table_aggregate("SUM_TWICE", arguments={"v": "BIGINT"}, columns={"s": "BIGINT"})
    class SumTwice:
        """The sum, in two rows."""

        def create():
            return 0

        def accumulate(state, v):
            return state + v

        def rows(state):
            yield (state,)
            yield (state,)

    yield
    for name in ("TOP3", "TOP2_PRICES", "SUM_TWICE"):
        al.unregister(name)


def tops(size: int) -> list[int]:
    """The three largest numbers of a group."""
    return sorted((n for n, s in NUMBERS if s == size), reverse=True)[:3]


FACTS: dict[str, tuple[str, list[Row]]] = {
    "testGroupByFlatAggregate": (
        "SELECT b, TOP3(a) FROM t GROUP BY b",
        [(s, n, n) for s in range(1, 7) for n in tops(s)],
    ),
    "testNonkeyedFlatAggregate": ("SELECT TOP3(a) FROM t", [(19, 19), (20, 20), (21, 21)]),
    "testAggregateAfterTableAggregate": (
        "SELECT b, MAX(f0) AS m FROM (SELECT b, TOP3(a) FROM t GROUP BY b) GROUP BY b",
        [(1, 1), (2, 3), (3, 6), (4, 10), (5, 15), (6, 21)],
    ),
    "testInputWithRetraction": (
        "SELECT TOP3(s) FROM (SELECT b, SUM(a) AS s FROM t GROUP BY b)",
        [(111, 111), (65, 65), (34, 34)],
    ),
    "testInternalAccumulatorType": (
        "SELECT b, SUM_TWICE(a) FROM t GROUP BY b",
        2 * [(6, 111), (5, 65), (4, 34), (3, 15), (2, 5), (1, 1)],
    ),
    # F5: Flink refuses a class without `retract` over changes; here the live rows of a key are kept.
    "testTableAggFunctionWithoutRetractionMethod": (
        "SELECT SUM_TWICE(s) FROM (SELECT b, SUM(a) AS s FROM t GROUP BY b)",
        2 * [(231,)],
    ),
}


@pytest.mark.parametrize("bundles", [True, False])
@pytest.mark.parametrize("name", FACTS)
def test_results_of_flinks_tests(name: str, bundles: bool) -> None:
    sql, wanted = FACTS[name]
    options: dict[str, Any] = {"backend": "python", "input_changes": "append"}
    tables = {"t": "a BIGINT, b INT"}
    with al.Harness.from_sql(sql, tables, mini_batch_enabled=bundles, **options) as harness:
        harness.process([("+I", *row) for row in NUMBERS])
        harness.flush()
        assert Counter(fold(harness.changes())) == Counter(wanted)


def test_messages_of_an_incremental_update() -> None:
    """testFlatAggregateWithIncrementalUpdate: only rows that differ leave (F3: here they do for every class)."""
    options: dict[str, Any] = {"mini_batch_enabled": False, "backend": "python"}
    table = {"t": "price INT"}
    with al.Harness.from_sql(
        "SELECT TOP2_PRICES(price) FROM t", table, input_changes="append", **options
    ) as harness:
        told = []
        for price in PRICES:
            harness.process([("+I", price)])
            told.append(Counter(harness.changes()))
    assert told == [
        Counter({("+I", 6, 1): 1}),
        Counter({("+I", 3, 2): 1}),
        Counter([("-D", 3, 2), ("+I", 5, 2)]),
        Counter([("-D", 6, 1), ("+I", 8, 1), ("-D", 5, 2), ("+I", 6, 2)]),
        Counter(),
    ]
