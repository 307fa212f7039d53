"""Any operator over any other gives DuckDB's table after every batch."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nested_queries import nested_queries, nested_query
from queries import ONE_PHASE, PER_RECORD, TWO_PHASE, Query, agree, batches_of, plan_of
from strategies import examples

from aggloom.codegen.planner import Stateful, collect_lineage, walk

NOT_BY_KEY = {
    "a limit behind an offset": """
        SELECT ok, n FROM (SELECT ok, COUNT(*) AS n FROM t GROUP BY ok) AS s
        ORDER BY ok DESC NULLS FIRST, n DESC LIMIT 2 OFFSET 1""",
    "the only row, numbered": """
        SELECT n, DENSE_RANK() OVER (ORDER BY n) AS r FROM (SELECT COUNT(x) AS n FROM t) AS s""",
    "the only row, behind a limit": """
        SELECT n FROM (SELECT COUNT(x) AS n FROM t) AS s ORDER BY n LIMIT 4""",
}
"""Queries whose changes are no updates of a key, though their result has one."""


@examples(8)
@given(data=st.data())
def test_nested_queries_give_duckdbs_table(data: st.DataObject) -> None:
    query = data.draw(nested_queries)
    changes = data.draw(st.sampled_from(["append", "retract"]))
    batches = data.draw(batches_of(changes, 24))
    for way in (data.draw(st.sampled_from([PER_RECORD, ONE_PHASE])), TWO_PHASE):
        parts = way.cut(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4)))
        agree(query, batches, parts, changes)


@pytest.mark.parametrize("name", NOT_BY_KEY)
def test_a_key_whose_new_row_may_come_first_is_not_in_order(name: str) -> None:
    root = plan_of(Query((), NOT_BY_KEY[name]), PER_RECORD).root
    assert root.unique_keys
    assert root.ordered_keys == ()


def test_random_queries_have_operators_of_all_kinds_above_one_another() -> None:
    plans = [plan_of(nested_query(seed), TWO_PHASE) for seed in range(160)]
    pairs = {
        (type(node).__name__, type(below).__name__)
        for plan in plans
        for node in walk(plan.root)
        for each in node.inputs
        for below in walk(each)
    }
    nodes = [node for plan in plans for node in walk(plan.root) if isinstance(node, Stateful)]
    assert all(json.dumps(collect_lineage(node)) for node in nodes)
    kinds = {"Join", "Over", "Rank", "GroupAggregate", "Correlate"}
    assert {(above, below) for above in kinds for below in kinds} <= pairs
