"""Hot keys of joins are spread where an aggregate stands above: the plan, the load of buckets, what is left alone."""

from __future__ import annotations

from typing import Any

import pytest

import aggloom as al
from aggloom.errors import OptionError
from aggloom.runtime.operators.join.operator import JoinOperator

TABLES = {"o": "id INT, c INT, v INT, tags ARRAY<INT>", "c": "cid INT, city STRING"}
TOTALS = "SELECT city, COUNT(*) AS n, SUM(v) AS s FROM o JOIN c ON o.c = c.cid GROUP BY city"


def notes(query: str, **options: Any) -> str:
    """The lines that the rule says of a query."""
    options = {"join_spread_buckets": 4, **options}
    text = al.explain(query, tables=TABLES, keys={"c": ("cid",)}, options=options)
    return "\n".join(line.strip() for line in text.splitlines() if "spread_joins" in line)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            TOTALS,
            "fired: the left's rows of a key are spread over 4 buckets of (v), the right's copied to each",
        ),
        (
            "SELECT city, SUM(v) AS s FROM c JOIN o ON o.c = c.cid GROUP BY city",
            "fired: the right's rows of a key",
        ),
        (
            "SELECT a.c, SUM(a.v - b.v) AS s FROM o a JOIN o b ON a.c = b.c GROUP BY a.c",
            "fired: the left's rows of a key",
        ),
        ("SELECT SUM(a.v) AS s FROM o a JOIN o b ON a.v < b.v", "fired: the left's rows of a key"),
    ],
)
def test_the_side_with_many_rows_of_a_key_is_spread(query: str, words: str) -> None:
    assert words in notes(query)


@pytest.mark.parametrize(
    ("query", "options", "why"),
    [
        (TOTALS.replace("JOIN", "LEFT JOIN"), {}, "a row of a left join that matches nothing"),
        (TOTALS, {"state_ttl": "1 h"}, "copies would be forgotten at other times"),
        (TOTALS.replace("SUM(v)", "LAST_VALUE(v)"), {}, "depends on the order of the rows"),
        (
            "SELECT city, COUNT(*) AS n FROM o JOIN c ON o.c = c.cid GROUP BY city",
            {},
            "nothing by which they could be spread",
        ),
        (
            "SELECT city, COUNT(tags) AS n FROM o JOIN c ON o.c = c.cid GROUP BY city",
            {},
            "nothing by which they could be spread",
        ),
    ],
)
def test_a_join_that_stays_as_it_is_says_why(query: str, options: Any, why: str) -> None:
    said = notes(query, **options)
    assert "did not fire" in said and why in said


def test_joins_without_an_aggregate_above_stay_as_they_are() -> None:
    query = "SELECT id, city FROM o JOIN c ON o.c = c.cid"
    assert notes(query) == ""
    assert notes(TOTALS, join_spread_buckets=1) == ""
    with pytest.raises(OptionError, match="from 1 on"):
        notes(TOTALS, join_spread_buckets=0)


@pytest.mark.parametrize(("spread", "low", "high"), [(1, 0.8, 1.0), (16, 0.0, 0.4)])
def test_the_load_of_the_fullest_bucket(spread: int, low: float, high: float) -> None:
    """Eight buckets, and one customer who has four of five orders."""
    options = {"join_spread_buckets": spread}
    with al.Harness.from_sql(
        TOTALS, TABLES, keys={"c": ("cid",)}, options=options, backend="python", buckets=8
    ) as harness:
        harness.process([("+I", customer, "x") for customer in range(20)], table="c")
        rows = [("+I", n, 0 if n % 5 else n % 20, n, None) for n in range(400)]
        harness.process(rows, table="o")
        harness.flush()
        loads = [
            each.counters["rows"]
            for each in harness.pipeline.operators
            if isinstance(each, JoinOperator)
        ]
        copies = 20 * spread
        assert sum(loads) == 400 + copies
        assert low <= (max(loads) - copies / 8) / 400 <= high
        assert harness.table() == [("x", 400, sum(range(400)))]
