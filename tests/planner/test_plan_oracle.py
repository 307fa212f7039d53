"""Every plan of a query gives DuckDB's table after every batch: random queries, and chosen ones compiled."""

from __future__ import annotations

import os
from collections import Counter
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queries import (
    AND_SOME,
    ONE_PHASE,
    PER_RECORD,
    SETS,
    SOME,
    TWO_PHASE,
    WAYS,
    Change,
    Query,
    Way,
    agree,
    batches_of,
    feed,
    multiset,
    open_plan,
    plan_of,
    queries,
    split,
)
from strategies import examples

from aggloom.codegen.planner import Expand, IncrementalAggregate, LocalAggregate, Plan, walk
from aggloom.runtime.values.changelog import fold

many = examples(12)
some = examples(6)
few = examples(2)

CHOSEN = {
    "balances": f"""
        SELECT SUM(b) AS total, COUNT(*) AS n FROM (SELECT k, SUM(y) AS b FROM
          (SELECT k, y FROM t UNION ALL SELECT k, -y FROM u) AS m GROUP BY k) AS s {SOME}""",
    "counts of counts": """
        SELECT n, COUNT(*) AS groups FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS s
        GROUP BY n""",
    "the longest": f"""
        SELECT MAX(n) AS most, COUNT(DISTINCT n) AS sizes FROM
          (SELECT k, g, COUNT(*) AS n FROM t GROUP BY k, g) AS s {SOME}""",
    "several distinct": """
        SELECT k, COUNT(DISTINCT x) AS a, SUM(DISTINCT y) AS b, AVG(DISTINCT x) AS c,
          COUNT(DISTINCT d) FILTER (WHERE ok) AS e, COUNT(*) AS n
        FROM t GROUP BY k""",
    "distinct, extremes and whole": """
        SELECT g, COUNT(DISTINCT k) AS a, MIN(x) AS lo, MAX(d) AS hi, SUM(DISTINCT f) AS s
          FROM t GROUP BY g""",
    "distinct of the key": """
        SELECT g, k, COUNT(DISTINCT g) AS a, COUNT(DISTINCT x) AS b, SUM(DISTINCT g) AS c,
          MIN(DISTINCT k) AS d FROM t GROUP BY g, k""",
    "distinct of everything": f"""
        SELECT COUNT(DISTINCT x) AS a, SUM(DISTINCT d) AS b, MAX(DISTINCT k) AS c FROM t {SOME}""",
    "cube": f"""
        SELECT k, g, COUNT(DISTINCT x) AS n, SUM(y) AS s, GROUPING(k) AS a, GROUPING(g) AS b
        FROM t GROUP BY CUBE (k, g) {SETS}""",
    "sets over sets": """
        SELECT a, SUM(n) AS s, GROUPING(a) AS gr FROM (SELECT k AS a, ok AS b, COUNT(*) AS n FROM t
          GROUP BY GROUPING SETS ((k, ok), (k), (ok))) AS s GROUP BY GROUPING SETS ((a), (a, b))""",
    "having": f"""
        SELECT COUNT(k) AS n, MIN(m) AS m FROM (SELECT k, MAX(x) AS m FROM t WHERE g = 1
          GROUP BY k HAVING COUNT(*) > 1 AND MAX(x) >= 1) AS s {SOME}""",
    "union": """
        SELECT k, g FROM t WHERE ok UNION SELECT k, g + 1 FROM u""",
    "union of aggregates": f"""
        SELECT k AS who, COUNT(*) AS n FROM t GROUP BY k UNION ALL
        SELECT 'all', COUNT(*) AS n FROM u {SOME}""",
    "a view twice": """
        WITH c AS (SELECT k, COUNT(DISTINCT x) AS n FROM t GROUP BY k)
        SELECT w, MAX(n) AS m FROM (SELECT 'many' AS w, n FROM c WHERE n > 1 UNION ALL
          SELECT 'few', n FROM c WHERE n <= 1) AS s GROUP BY w""",
    "distinct over aggregates": """
        SELECT DISTINCT n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS s""",
    "having without a key": f"""
        SELECT SUM(x) AS s FROM t WHERE x IS NOT NULL HAVING (COUNT(DISTINCT x) > 1) {AND_SOME}""",
}
"""Queries by name: all of them are asked in every plan."""
_SIMILAR = {
    *("union of aggregates", "having without a key", "the longest"),
    *("several distinct", "distinct of the key"),
}
COMPILED = [name for name in CHOSEN if os.environ.get("AGGLOOM_EXAMPLES") or name not in _SIMILAR]
"""Those that Numba compiles, too: one of each shape, in a soak all of them."""


def shapes(plan: Plan) -> set[type]:
    return {type(node) for node in walk(plan.root)}


@many
@given(data=st.data())
def test_random_queries_give_duckdbs_table_in_every_plan(data: st.DataObject) -> None:
    query = data.draw(queries)
    changes = data.draw(st.sampled_from(["append", "retract"]))
    batches = data.draw(batches_of(changes))
    spread = split(data.draw(st.integers(1, 8)), incremental_agg_enabled=data.draw(st.booleans()))
    for way in (PER_RECORD, ONE_PHASE, TWO_PHASE, spread):
        parts = way.cut(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4)))
        agree(query, batches, parts, changes)


@pytest.mark.parametrize("changes", ["append", "retract"])
@pytest.mark.parametrize("name", CHOSEN)
@few
@given(data=st.data())
def test_chosen_queries_give_duckdbs_table_in_every_plan(
    name: str, changes: str, data: st.DataObject
) -> None:
    batches = data.draw(batches_of(changes, 24))
    for way in WAYS.values():
        parts = way.cut(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4)))
        agree(Query((), CHOSEN[name]), batches, parts, changes)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
@few
@given(data=st.data())
def test_compiled_plans_give_duckdbs_table(name: str, data: st.DataObject) -> None:
    """One way each, for compiling takes seconds: where nothing is split, that is two phases."""
    batches = data.draw(batches_of("retract", 24))
    way = split(3).cut(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4)))
    agree(Query((), CHOSEN[name]), batches, way, "retract", backend="numba")


def test_the_chosen_queries_have_every_kind_of_plan() -> None:
    found = set()
    for sql in CHOSEN.values():
        for way in WAYS.values():
            found |= shapes(plan_of(Query((), sql), way))
    assert {LocalAggregate, IncrementalAggregate, Expand} <= found


@some
@given(data=st.data())
def test_the_cut_into_batches_does_not_matter(data: st.DataObject) -> None:
    """All rows in one bundle fold to the table that they fold to in many."""
    query = data.draw(queries)
    batches = data.draw(batches_of("retract", 24))
    whole = list(chain.from_iterable(batches))
    for way in WAYS.values():
        one, many_ = (_run(plan_of(query, way), way, each) for each in ([whole], batches))
        assert multiset(fold(one)) == multiset(fold(many_))


def _run(plan: Plan, way: Way, batches: list[list[tuple[str, Change]]]) -> list[Change]:
    with open_plan(plan, way) as harness:
        return list(chain.from_iterable(feed(harness, batch) for batch in batches))


@some
@given(data=st.data())
def test_parts_change_the_order_of_changes_only(data: st.DataObject) -> None:
    """Partitions and buckets are where the work is done: the changes of a bundle are the same ones."""
    query = data.draw(queries)
    batches = data.draw(batches_of("append"))
    for way in WAYS.values():
        plan = plan_of(query, way, "append")
        with open_plan(plan, way) as one, open_plan(plan, way.cut(3, 4)) as other:
            for batch in batches:
                left, right = (multiset(feed(each, batch)) for each in (one, other))
                if way.plan_options.mini_batch_enabled:
                    assert left == right


@some
@given(data=st.data())
def test_without_update_before_only_the_replaced_rows_are_missing(data: st.DataObject) -> None:
    """The rows that come are the same; more may be taken back, for a HAVING sees no row before."""
    query = data.draw(queries)
    batches = data.draw(batches_of("retract"))
    for way in (PER_RECORD, TWO_PHASE, split(2)):
        brief = Way((*way.options, ("update_before", False)))
        plan = plan_of(query, brief)
        if plan.key is None:
            continue
        with open_plan(plan_of(query, way), way) as full, open_plan(plan, brief) as harness:
            for batch in batches:
                expected, got = feed(full, batch), feed(harness, batch)
                assert _come(got) == _come(expected)
                assert "-U" not in {change[0] for change in got}
                assert not (_gone(expected) - _gone(got))


def _come(changes: list[Change]) -> Counter[Any]:
    return multiset(change[1:] for change in changes if change[0] in ("+I", "+U"))


def _gone(changes: list[Change]) -> Counter[Any]:
    return multiset(change[1:] for change in changes if change[0] == "-D")
