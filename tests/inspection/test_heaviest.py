"""The heaviest keys of operators are those that a plain count of the rows names."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import pytest

import aggloom as al
from aggloom.runtime.inspection.heaviest import Heaviest, weigh

BASE = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
KEYS = [None, "", "a", "größe", "x" * 5000, "<b>"]


def operators(harness: Any) -> list[Any]:
    """The operators of a harness."""
    return list(harness.pipeline.operators)


def weighed(operator: Any, *names: str, limit: int = 100) -> dict[Any, tuple[int, int | None]]:
    known, _, found = weigh(operator, 3, list(names), limit)
    assert known >= len(found) and all(each.bucket == 3 for each in found)
    return {tuple(each.key.values()): (each.held, each.rows) for each in found}


def test_keys_by_the_rows_behind_them() -> None:
    rows = [(key, n) for place, key in enumerate(KEYS) for n in range(place * 3 + 1)]
    with al.Harness.from_sql(
        "SELECT k, SUM(v) AS s FROM t GROUP BY k", {"t": "k STRING, v INT"}
    ) as h:
        h.process([("+I", *row) for row in rows])
        h.process([("-D", *rows[-1])])
        h.flush()
        (operator,) = operators(h)
        found = weighed(operator, "k")
        wanted = Counter((key,) for key, _ in rows[:-1])
        assert found == {key: (1, count) for key, count in wanted.items()}
        best = weigh(operator, 0, ["k"], 2)[2]
        assert [each.rows for each in best] == [count for _, count in wanted.most_common(2)]
        tally = Heaviest()
        for bucket in range(3):
            tally.take(operator, bucket, ["k"], 4)
        assert (tally.known, len(tally.keys)) == (3 * len(KEYS), 4)
        assert [each.rows for each in tally.keys] == [15, 15, 15, 13]


def test_many_keys_and_only_the_heaviest() -> None:
    with al.Harness.from_sql("SELECT k, SUM(v) AS s FROM t GROUP BY k", {"t": "k INT, v INT"}) as h:
        h.process(
            [("+I", k, 1) for k in range(3000) for _ in range(1 + (k % 997 == 5) * (k % 7 + 1))]
        )
        h.flush()
        (operator,) = operators(h)
        known, _, found = weigh(operator, 0, ["k"], 3)
    counts = Counter({k: 1 + (k % 997 == 5) * (k % 7 + 1) for k in range(3000)})
    assert known == 3000
    assert [each.rows for each in found] == [count for _, count in counts.most_common(3)]


def test_a_global_group_and_rows_that_nobody_counts() -> None:
    with al.Harness.from_sql("SELECT SUM(v) AS s FROM t", {"t": "v INT"}, backend="python") as h:
        h.process([("+I", 1), ("+I", 2)])
        h.flush()
        assert weighed(operators(h)[0]) == {(): (1, 2)}
    spec = al.AggSpec.from_sql(
        "SELECT k, SUM(v) AS s FROM t GROUP BY k", "k INT, v INT", input_changes="append"
    )
    with al.Harness(spec, backend="python") as h:
        h.process([("+I", 1, 1), ("+I", 1, 2)])
        h.flush()
        assert weighed(operators(h)[0], "k") == {(1,): (1, None)}


def test_windows_of_the_heaviest_keys() -> None:
    spec = al.AggSpec.from_sql(
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k", "k STRING, ts TIMESTAMP"
    )
    window = al.Tumble("10 s", on="ts")
    with al.Harness(spec, window=window, watermarks={"t": ("ts", "1 h")}) as h:
        seconds = {"a": (1, 2, 25), "b": (3,)}
        h.process(
            [("+I", k, BASE + dt.timedelta(seconds=s)) for k, all_ in seconds.items() for s in all_]
        )
        h.flush()
        *_, (first, second) = weigh(operators(h)[0], 0, ["k"], 5)
    assert (first.key, first.held, first.rows) == ({"k": "a"}, 2, 3)
    assert (second.key, second.held, second.rows) == ({"k": "b"}, 1, 1)
    starts = [(each.start, each.rows) for each in first.windows]
    assert starts == [(BASE, 2), (BASE + dt.timedelta(seconds=20), 1)]


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        (
            "SELECT t.k, t.v, u.w FROM t JOIN u ON t.k = u.k",
            {"t": "k INT, v INT", "u": "k INT, w INT"},
        ),
        (
            "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS r FROM t) WHERE r <= 2",
            {"t": "k INT, v INT"},
        ),
        ("SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY v) AS s FROM t", {"t": "k INT, v INT"}),
    ],
    ids=["join", "rank", "over"],
)
def test_operators_that_remember_rows(sql: str, tables: dict[str, str]) -> None:
    with al.Harness.from_sql(sql, tables) as h:
        for table in tables:
            rows = [("+I", k, v) for k in range(4) for v in range(k + 1)]
            h.process(rows, table=table)
        h.flush()
        (operator,) = operators(h)
        found = weighed(operator, "k")
    assert found == {(k,): (1, (k + 1) * len(tables)) for k in range(4)}


@pytest.mark.parametrize("query", ["join", "sums"])
def test_hot_keys_are_those_with_a_large_share(query: str) -> None:
    sql, tables = {
        "join": (
            "SELECT t.k, t.v, u.w FROM t JOIN u ON t.k = u.k",
            {"t": "k INT, v INT", "u": "k INT, w INT"},
        ),
        "sums": ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", {"t": "k INT, v INT"}),
    }[query]
    # Of 100 rows and 30 keys one has 40, one 12, the others about two each; in the first bucket of two.
    keys = [7] * 40 + [8] * 12 + [100 + n % 28 for n in range(48)]
    with al.Harness.from_sql(sql, tables) as h:
        h.process([("+I", k, n) for n, k in enumerate(keys)], table="t")
        h.flush()
        (operator,) = operators(h)
        tally = Heaviest()
        tally.take(operator, 0, ["k"], 5)
        assert (tally.rows, tally.known) == (100, 30)
        assert [tally.share_of(key) for key in tally.keys[:3]] == [0.4, 0.12, 0.02]
        # A key has 3.3 rows on average: 12 are not five times as many.
        assert [key.key["k"] for key in tally.keys if tally.is_hot(key)] == [7]
        tally.take(operator, 1, ["k"], 5)
        assert tally.rows == 200 and tally.share_of(tally.keys[0]) == 0.2


def test_of_few_keys_none_is_hot_and_without_counts_none_either() -> None:
    with al.Harness.from_sql("SELECT k, COUNT(*) AS n FROM t GROUP BY k", {"t": "k INT"}) as h:
        h.process([("+I", k) for k in (1, 1, 1, 2, 3)])
        h.flush()
        tally = Heaviest()
        tally.take(operators(h)[0], 0, ["k"], 5)
    assert [tally.is_hot(key) for key in tally.keys] == [False] * 3
    key = tally.keys[0]
    assert Heaviest().share_of(key) is None and not Heaviest().is_hot(key)
