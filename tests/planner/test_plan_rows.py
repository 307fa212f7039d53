"""Plans over hostile names and rows, over restarts, and at the ends of their bundles."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from queries import TABLES as SAME_TABLES
from queries import WAYS, Batch, Query, Way, assert_laws, feed, multiset, open_plan, plan_of

from aggloom.codegen.operators import AggregateNode
from aggloom.codegen.planner import GroupAggregate, IncrementalAggregate, Node, plan_query, walk
from aggloom.errors import StateCorruptError, UnsupportedSqlError
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.local.mini_batch import MiniBatch
from aggloom.runtime.values.changelog import ChangelogLawError, fold

TABLES = {"t": "k STRING, g INT, x INT, y BIGINT, f DOUBLE, d DECIMAL(10,2), ok BOOLEAN"}
COUNTS = "(SELECT k, COUNT(*) AS n, MAX(x) AS hi, MIN(x) AS lo, SUM(x) AS s FROM t GROUP BY k) AS c"
SPLIT: dict[str, Any] = {"distinct_agg_split_enabled": True, "distinct_agg_split_bucket_num": 4}
Change = tuple[Any, ...]


def aggregates(node: Node) -> list[Any]:
    """The keyed nodes, inputs first."""
    return [
        n
        for n in walk(node)
        if isinstance(n, GroupAggregate | IncrementalAggregate | AggregateNode)
    ]


def row(**values: Any) -> Change:
    """A row of t."""
    base = {"k": "a", "g": 1, "x": 1, "y": 1, "f": 1.0, "d": None, "ok": True}
    return tuple({**base, **values}.values())


# Hostile names


HOSTILE = (
    "`$h0` INT, `$e` INT, `$p0` INT, `$f0` INT, `$w` BOOLEAN, `$g0` INT, `$left` INT, `$$h0` INT, "
    "`k$0` STRING, k STRING, x INT, `a``b` INT, `\"` INT, `'` INT, `größe` INT, `日本 語` INT, `-- ` INT"
)
_HOSTILE_ROWS = [
    (1, 2, 3, 4, True, 5, 6, 0, "q", "a", 7, 8, 9, 10, 11, 12, 13),
    (1, 3, 3, None, False, 6, 7, 0, "q", "a", 8, 8, None, 10, 12, 13, 14),
    (2, 2, None, 4, None, 5, 5, 1, None, None, 7, 9, 9, 11, 11, 12, 13),
]


@pytest.mark.parametrize("options", [{}, {**SPLIT, "on_orphan_retraction": "keep"}])
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT `$h0`, COUNT(DISTINCT x) a FROM t GROUP BY `$h0`", [(1, 2), (2, 1)]),
        ("SELECT `$$h0`, COUNT(DISTINCT `$h0`) `$p0` FROM t GROUP BY `$$h0`", [(0, 1), (1, 1)]),
        ("SELECT `$f0`, SUM(DISTINCT `$p0`) `$f1` FROM t GROUP BY `$f0`", [(None, 3), (4, 3)]),
        (
            "SELECT k, COUNT(DISTINCT x) `$w`, MEDIAN(`$g0`) FILTER (WHERE `$w`) m FROM t GROUP BY k",
            [(None, 1, None), ("a", 2, 5.0)],
        ),
        ("SELECT k, `k$0`, COUNT(k) n FROM s GROUP BY ROLLUP (k, `k$0`)", None),
        ("SELECT `$left` FROM t INTERSECT SELECT `$g0` FROM t", [(5,), (6,)]),
        ("SELECT `$left` AS `$all` FROM t EXCEPT SELECT `$g0` FROM t", [(7,)]),
        (
            "SELECT `größe` `'`, SUM(`a``b`) `\"`, COUNT(DISTINCT `日本 語`) `-- ` FROM t GROUP BY 1",
            [(11, 17, 1), (12, 8, 1)],
        ),
        ("SELECT COUNT(DISTINCT `-- `) `a``b`, MAX(`\"`) `'` FROM t", [(2, 9)]),
    ],
)
def test_hostile_names(
    sql: str, expected: list[tuple[Any, ...]] | None, options: Mapping[str, Any]
) -> None:
    """Names that the planner itself gives, and what SQL must quote: no plan mixes them up."""
    schema = {"t": HOSTILE, "s": "k STRING, `k$0` STRING"}
    with Harness.from_sql(sql, schema, backend="python", **options) as harness:
        if expected is None:
            harness.process([("+I", "a", "b"), ("+I", None, "b")])
            expected = [
                (None, None, 0),
                (None, None, 1),
                (None, "b", 0),
                ("a", None, 1),
                ("a", "b", 1),
            ]
        else:
            harness.process([("+I", *values) for values in _HOSTILE_ROWS])
        harness.flush()
        assert harness.table() == expected


def test_a_column_called_as_the_set_of_keys_is_refused_beside_grouping_sets() -> None:
    with pytest.raises(UnsupportedSqlError, match=r"\$e .*rename"):
        plan_query("SELECT k, COUNT(*) AS n FROM t GROUP BY CUBE (k)", {"t": HOSTILE})


def test_tables_and_views_by_hostile_names() -> None:
    tables = {"my table`s": "x INT", 'a"; --': "x INT", "größe": "x INT"}
    sql = (
        'CREATE TEMPORARY VIEW `v w` AS SELECT x FROM `my table``s` UNION ALL SELECT x FROM `a"; --`; '
        "SELECT SUM(x) AS s FROM (SELECT x FROM `V W` UNION ALL SELECT x FROM GRÖSSE) AS q"
    )
    with Harness.from_sql(sql, tables, backend="python") as harness:
        for place, table in enumerate(tables):
            harness.process([("+I", 10**place)], table=table)
        harness.flush()
        assert harness.table() == [(111,)]


# Hostile rows


QUERIES = {
    "counts": "SELECT k, COUNT(*) AS n, MAX(x) AS m FROM t GROUP BY k",
    "distinct": "SELECT k, COUNT(DISTINCT x) AS n, SUM(DISTINCT y) AS s, MIN(k) AS m FROM t GROUP BY k",
    "nested": "SELECT n, COUNT(DISTINCT k) AS c FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS s GROUP BY n",
    "sets": "SELECT k, g, COUNT(DISTINCT x) AS n FROM t GROUP BY CUBE (k, g)",
    "whole": "SELECT SUM(x) AS s, COUNT(DISTINCT k) AS n FROM t",
}
each_query = pytest.mark.parametrize("name", QUERIES)
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))


def same(**values: Any) -> Change:
    """A row of the tables of queries.py."""
    return tuple(values.get(name) for name in SAME_TABLES["t"].names)


@each_query
@each_way
def test_empty_batches_bring_nothing(name: str, way: Way) -> None:
    # A global aggregate is one row at all times.
    nothing = [("+I", None, 0)] if name == "whole" else []
    with open_plan(plan_of(Query((), QUERIES[name]), way), way.cut(3, 4)) as harness:
        assert feed(harness, []) == nothing
        harness.process([], table="t")
        harness.flush()
        assert harness.table() == [change[1:] for change in nothing]
        first = nothing + feed(harness, [("t", ("+I", *same(k="a")))])
        assert len(first) > len(nothing)
        assert feed(harness, []) == []
        assert multiset(harness.table()) == multiset(fold(first))


@each_query
@each_way
def test_keys_of_nulls_and_large_keys(name: str, way: Way) -> None:
    """NULL is a key, and so is a megabyte; both go again."""
    keys = [None, "", "x" * 1_000_000, "x" * 999_999 + "y", "\0", "ä" * 10_000]
    rows = [same(k=key, g=None, x=place, y=2**62) for place, key in enumerate(keys)]
    plan = plan_of(Query((), QUERIES[name]), way)
    with open_plan(plan, way.cut(2, 3)) as harness:
        come = feed(harness, [("t", ("+I", *values)) for values in rows[:-1]])
        come += feed(harness, [("t", ("+I", *rows[-1]))])
        if name == "counts":
            assert sorted(map(repr, harness.table())) == sorted(
                repr((key, 1, place)) for place, key in enumerate(keys)
            )
        gone = feed(harness, [("t", ("-D", *values)) for values in rows])
        left = [(None, 0)] if name == "whole" else []
        assert fold([*come, *gone]) == left
        assert harness.counters["keys"] == len(left)
        assert_laws(plan, [*come, *gone])


def some_batches(seed: int) -> list[Batch]:
    """Rows of t that come and go."""
    draw = random.Random(seed)
    live: list[Change] = []
    batches: list[Batch] = []
    for _ in range(6):
        batches.append([])
        for _ in range(draw.randrange(9)):
            if live and draw.random() < 0.4:
                values = live.pop(draw.randrange(len(live)))
                batches[-1].append(("t", ("-D", *values)))
            else:
                values = same(k=draw.choice(["a", "b", None]), g=1, x=draw.randrange(4), y=1)
                live.append(values)
                batches[-1].append(("t", ("+I", *values)))
    return batches


@each_query
@each_way
def test_a_restored_plan_goes_on_as_if_nothing_had_happened(name: str, way: Way) -> None:
    plan, way = plan_of(Query((), QUERIES[name]), way), way.cut(2, 3)
    with open_plan(plan, way) as unbroken:
        feed(unbroken, [])
        state = unbroken.snapshot()
        for batch in some_batches(5):
            expected = feed(unbroken, batch)
            with open_plan(plan, way.cut(3, 3)) as harness:
                harness.restore(state)
                got = feed(harness, batch)
                assert multiset(got) == multiset(expected)
                assert multiset(harness.table()) == multiset(unbroken.table())
                state = harness.snapshot()


@each_way
def test_a_snapshot_of_other_buckets_or_damaged_is_refused(way: Way) -> None:
    plan = plan_of(Query((), QUERIES["nested"]), way)
    with open_plan(plan, way.cut(1, 2)) as one, open_plan(plan, way.cut(1, 3)) as other:
        feed(one, some_batches(1)[0])
        state = one.snapshot()
        with pytest.raises(StateCorruptError, match="operators"):
            other.restore(state)
        for broken in (state[:-1], b"", state[:6], b"NONE" + state[4:], state + b"x"):
            with pytest.raises(StateCorruptError):
                one.restore(broken)
        one.restore(state)


def test_without_update_before_a_having_may_take_back_what_it_never_showed() -> None:
    sql = "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) > 2"
    options = {"backend": "python", "update_before": False}
    with Harness.from_sql(sql, TABLES, **options) as harness:  # type: ignore[arg-type]
        for expected in ([], [], [("a", 3)]):
            harness.process([("+I", *row())])
            harness.flush()
            assert harness.table() == expected


# When a bundle ends


def bundles(options: Mapping[str, Any], steps: str) -> list[int]:
    """List the number of rows of each bundle; steps are r(ow), p and w with a time, e(nd)."""
    sql, sizes = "SELECT COUNT(*) AS n FROM t", [0]
    with Harness.from_sql(sql, {"t": "x INT"}, backend="python", **options) as harness:
        for step in steps.split():
            if step == "r":
                harness.process([("+I", 1)])
            elif step[0] == "p":
                harness.processing_time(int(step[1:]))
            elif step[0] == "w":
                harness.watermark(int(step[1:]))
            else:
                harness.flush()
            counted = [change[1] for change in harness.changes() if change[0] in ("+I", "+U")]
            sizes += counted
    return [b - a for a, b in pairwise(sizes)]


@pytest.mark.parametrize(
    ("options", "steps", "sizes"),
    [
        # By size, and what is left at the end.
        ({"mini_batch_size": 2}, "r r r r r e", [2, 2, 1]),
        ({"mini_batch_size": 2}, "r r r", [2]),
        ({}, "r r r", []),
        ({}, "r r r e r e", [3, 1]),
        ({"mini_batch_enabled": False}, "r r", [1, 1]),
        # Any later watermark ends a bundle; with a latency only one in each interval.
        ({}, "r w1 r w1 r w2", [1, 2]),
        ({}, "r w5 r w4 r e", [1, 2]),
        ({"mini_batch_allow_latency": "10 ms"}, "r w5 r w9 r w10 r w18 r w19", [2, 3]),
        ({"mini_batch_allow_latency": "10 ms"}, "r w35 r w38 r w39", [1, 2]),
        # The clock does, where there is a latency.
        ({"mini_batch_allow_latency": "10 ms"}, "p3 r p9 r p10 r p19 r p25", [2, 2]),
        ({}, "p3 r p100 r p200 e", [2]),
        # Whatever comes first.
        ({"mini_batch_size": 3, "mini_batch_allow_latency": 10}, "p0 r r p10 r r r r e", [2, 3, 1]),
    ],
)
def test_when_a_bundle_ends(options: Mapping[str, Any], steps: str, sizes: list[int]) -> None:
    assert bundles(options, steps) == sizes


def test_a_batch_larger_than_a_bundle_is_cut() -> None:
    options = {"backend": "python", "mini_batch_size": 3}
    with Harness.from_sql("SELECT COUNT(*) AS n FROM t", {"t": "x INT"}, **options) as harness:  # type: ignore[arg-type]
        harness.process([("+I", n) for n in range(8)])
        assert harness.changes() == [("+I", 3), ("-U", 3), ("+U", 6)]
        harness.flush()
        assert harness.changes() == [("-U", 6), ("+U", 8)]


def test_the_first_processing_time_only_starts_the_clock() -> None:
    timer = MiniBatch(None, 10)
    assert [timer.processing_time(ms) for ms in (25, 29, 30, 31, 40)] == [
        *(False, False, True, False, True)
    ]


def test_rows_of_several_tables_are_one_bundle() -> None:
    sql = "SELECT SUM(x) AS s FROM (SELECT x FROM t UNION ALL SELECT x FROM u) AS q"
    with Harness.from_sql(sql, {"t": "x INT", "u": "x INT"}, backend="python") as harness:
        harness.process([("+I", 1)], table="t")
        harness.process([("+I", 10)], table="u")
        harness.process([("+I", 100)], table="t")
        assert harness.changes() == []
        harness.flush()
        assert harness.changes() == [("+I", 111)]


def test_a_law_is_broken_by_a_retraction_of_nothing() -> None:
    """The oracle's tests lean on this: the fold of a wrong changelog is no table but an error."""
    with pytest.raises(ChangelogLawError):
        fold([("+I", 1), ("-D", 2)])
