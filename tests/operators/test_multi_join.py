"""Chains of joins on one key as one operator: beside DuckDB and the chain, its state, its messages, its limits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from multi_joins import check

import aggloom as al
from aggloom import Harness
from aggloom.codegen import AggSpec
from aggloom.codegen.planner import MultiJoin, Plan, PlanOptions, TimedJoin, plan_query, walk
from aggloom.errors import AggloomError, OrphanRetractionError, SpecError
from aggloom.runtime.operators.multi_join.spec import MultiJoinSpec

TABLES = {
    "a": "id INT, k INT, v INT",
    "b": "k INT, w INT",
    "c": "k INT, x INT",
    "d": "k INT, z STRING",
}
KEYS = {"a": ["id"], "b": ["k"], "c": ["k"], "d": ["k"]}
LEFTS = "SELECT id, w, x, z FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.k = c.k LEFT JOIN d ON a.k = d.k"
INNERS = "SELECT id, w, x FROM a JOIN b ON a.k = b.k JOIN c ON c.k = a.k"


def planned(sql: str, keys: Any = KEYS, **options: Any) -> Plan:
    return plan_query(sql, TABLES, keys=keys, options=PlanOptions.of(options))


def joins(plan: Plan) -> list[MultiJoin]:
    return [node for node in walk(plan.root) if isinstance(node, MultiJoin)]


def said(plan: Plan) -> list[tuple[bool, str]]:
    notes = (note for listed in plan.notes.by_spec.values() for note in listed)
    return [(note.fired, note.why) for note in notes if note.rule == "multi_join"]


def opened(sql: str, keys: Any = KEYS, **options: Any) -> Harness:
    return Harness.from_sql(sql, TABLES, keys=keys, options=options)


def batch(harness: Harness, **tables: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    for name, rows in tables.items():
        harness.process(rows, table=name)
    harness.flush()
    return harness.changes()


def test_random_chains_give_duckdbs_table() -> None:
    assert sum(check(seed) for seed in range(40)) > 20


def test_twelve_inputs_and_the_chain_give_the_same_table() -> None:
    names = [f"t{n}" for n in range(12)]
    on = " ".join(
        f"{'LEFT ' * (n % 2)}JOIN {name} ON t0.k = {name}.k" for n, name in enumerate(names[1:])
    )
    sql = f"SELECT {', '.join(f'{name}.v AS v{n}' for n, name in enumerate(names))} FROM t0 {on}"
    rng = np.random.default_rng(1)
    both = [
        Harness.from_sql(sql, dict.fromkeys(names, "k INT, v INT"), multi_join_enabled=way)
        for way in (True, False)
    ]
    for _ in range(4):
        for name in names:
            rows = [("+I", int(k), int(v)) for k, v in rng.integers(0, 4, (2, 2))]
            for each in both:
                each.process(rows, table=name)
        for each in both:
            each.flush()
        assert both[0].table() == both[1].table()
    assert both[0].table()


def test_a_plan_says_what_it_joins_and_why_it_does_not() -> None:
    (node,) = joins(planned(LEFTS))
    name, details = node.title
    assert name == "MultiJoin"
    assert details == {
        "joinType": ["LEFT", "LEFT", "LEFT"],
        "inputUniqueKeys": ["(id)", "(b.k)", "(c.k)", "(d.k)"],
        "joinConditions": ["(k = b.k)", "(b.k = c.k)", "(k = d.k)"],
        "commonJoinKey": ["k"],
        "select": ["id", "w", "x", "z"],
    }
    assert node.via == ((), (1,), ())
    assert said(planned(LEFTS)) == [
        (True, "4 inputs share the key k, and no joined row of fewer inputs is stored")
    ]
    near = INNERS + " AND x > v"
    for sql, keys, options, why in (
        (LEFTS, KEYS, {"multi_join_enabled": "false"}, "multi-join.enabled is false"),
        (LEFTS, KEYS, {"mini_batch_enabled": "false"}, "per record the changes are those"),
        (LEFTS, KEYS, {"state_ttl": "1 d"}, "input 2 of a LEFT JOIN forgets rows"),
        (near, {}, {}, "input 1 and input 2 and input 3 may have several rows a key"),
        (
            "SELECT x FROM (SELECT id, a.k AS k FROM a LEFT JOIN b ON a.k = b.k WHERE w IS NULL) q "
            "JOIN c ON q.k = c.k",
            KEYS,
            {},
            "a filter, or a column that is computed, is between",
        ),
        (
            "SELECT x FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.k <=> c.k",
            KEYS,
            {},
            "a padded row's key, which is NULL",
        ),
    ):
        plan = planned(sql, keys, **options)
        assert not joins(plan)
        assert any(not fired and why in reason for fired, reason in said(plan)), (sql, said(plan))
    for sql, keys, options in (
        (near, {}, {"table.optimizer.multi-join.enabled": "true"}),
        (near, {**KEYS, "a": ["id"]}, {}),
        (INNERS, {}, {}),
        (INNERS, KEYS, {"state_ttl": "1 d"}),
        (LEFTS, KEYS, {"mini_batch_enabled": False, "multi_join_enabled": True}),
    ):
        assert joins(planned(sql, keys, **options)), (sql, options)
    # Another key, or none in common: no word of it.
    assert not said(planned("SELECT 1 AS one FROM a JOIN b ON a.k = b.k JOIN c ON c.k = a.id"))


def test_what_a_bundle_of_all_inputs_brings() -> None:
    harness = opened(LEFTS)
    a, b = ("+I", 1, 7, 0), ("+I", 7, 5)
    assert batch(harness, a=[a]) == [("+I", 1, None, None, None)]
    assert batch(harness, c=[("+I", 7, 3)]) == []
    assert batch(harness, b=[b], d=[("+I", 7, "z")]) == [
        ("-U", 1, None, None, None),
        ("+U", 1, 5, 3, "z"),
    ]
    # A row that another takes the place of, and one that goes with what it stood beside.
    assert batch(harness, b=[("-U", 7, 5), ("+U", 7, 6)]) == [
        ("-U", 1, 5, 3, "z"),
        ("+U", 1, 6, 3, "z"),
    ]
    assert batch(harness, b=[("-D", 7, 6)], c=[("-D", 7, 3)]) == [
        ("-U", 1, 6, 3, "z"),
        ("+U", 1, None, None, "z"),
    ]
    assert (
        batch(harness, c=[("+I", 7, 3), ("-D", 7, 3)], a=[("-U", 1, 7, 0), ("+U", 1, 7, 9)]) == []
    )
    assert batch(harness, a=[("-D", 1, 7, 9)]) == [("-D", 1, None, None, "z")]


def test_row_by_row_each_change_is_a_bundle_of_its_own() -> None:
    inner = opened(INNERS, mini_batch_enabled=False, multi_join_enabled=True)
    assert batch(inner, a=[("+I", 1, 7, 0)], b=[("+I", 7, 5)], c=[("+I", 7, 3), ("-U", 7, 3), ("+U", 7, 4)]) == [
        ("+I", 1, 5, 3),
        ("-U", 1, 5, 3),
        ("+U", 1, 5, 4),
    ]  # fmt: skip
    left = opened(LEFTS, mini_batch_enabled=False, multi_join_enabled=True)
    assert batch(left, a=[("+I", 1, 7, 0)], b=[("+I", 7, 5), ("-D", 7, 5)]) == [
        ("+I", 1, None, None, None),
        ("-D", 1, None, None, None),
        ("+I", 1, 5, None, None),
        ("-D", 1, 5, None, None),
        ("+I", 1, None, None, None),
    ]


def test_what_is_remembered_forgotten_and_refused() -> None:
    harness = opened(INNERS, state_ttl="10 s")
    (operator,) = harness.pipeline.operators
    assert operator.name == "multi join (inner, inner) on k"
    harness.set_ttl_time(1_000)
    batch(harness, a=[("+I", 1, 7, 0)], b=[("+I", 7, 5)], c=[("+I", 7, 3), ("+I", None, 0)])
    assert (operator.keys, [len(side.bag) for side in operator.state.sides]) == (1, [1, 1, 1])
    harness.set_ttl_time(5_000)
    batch(harness, b=[("-U", 7, 5), ("+U", 7, 6)])
    harness.set_ttl_time(12_000)
    # The first and the third input are forgotten: what was joined stays.
    assert batch(harness, c=[("+I", 7, 4)]) == []
    assert [len(side.bag) for side in operator.state.sides] == [0, 1, 1]
    hinted = INNERS.replace("SELECT", "SELECT /*+ STATE_TTL('b' = '1 d') */")
    assert joins(planned(hinted))[0].ttls == (None, 86_400_000, None)
    assert batch(harness, c=[("-D", 7, 9)]) == []
    assert operator.counters["orphans_dropped"] == 0
    strict = opened(
        INNERS, on_orphan_retraction="error", multi_join_enabled=True, mini_batch_enabled=False
    )
    with pytest.raises(OrphanRetractionError, match="row 1 of the input 3 retracts from key k=8"):
        batch(strict, c=[("+I", 7, 3), ("-D", 8, 3)])
    limited = opened(INNERS, {}, join_match_limit=7)
    batch(limited, b=[("+I", 7, 5)] * 2, c=[("+I", 7, 3)] * 2)
    with pytest.raises(AggloomError, match="more than 7 rows, most of them of key k=7"):
        batch(limited, a=[("+I", 1, 7, 0)] * 2)


def test_a_retraction_that_comes_early_waits_if_it_is_to_be_kept() -> None:
    harness = opened(INNERS, {}, on_orphan_retraction="keep")
    assert batch(harness, a=[("-D", 1, 7, 0)], b=[("+I", 7, 5)], c=[("+I", 7, 3)]) == []
    assert batch(harness, a=[("+I", 1, 7, 0)]) == []
    assert batch(harness, a=[("+I", 1, 7, 0)]) == [("+I", 1, 5, 3)]


def test_settings_travel_and_the_state_with_them() -> None:
    plan = planned(LEFTS.replace("b ON a.k = b.k", "b ON a.k = b.k AND w > v"))
    (node,) = joins(plan)
    spec = MultiJoinSpec.of(node, plan.options)
    assert MultiJoinSpec.from_data(spec.to_data(), AggSpec(spec.rows, ("k",), ())) == spec
    other = replace(spec, update_before=False, match_limit=3)
    assert spec.with_changing(other.to_data()) == other
    with pytest.raises(SpecError, match="multi join: settings that cannot be read"):
        MultiJoinSpec.from_data({"tables": []}, AggSpec(spec.rows, ("k",), ()))
    assert spec.needs_order and spec.time_mode == "None" and len(spec.inputs) == 4


def test_a_crowded_key_goes_out_in_chunks() -> None:
    """More pairs than a chunk, with padded rows at its end, before and after."""
    sql = "SELECT a.id, w, x FROM a LEFT JOIN b ON a.k = b.k AND w >= v LEFT JOIN c ON c.k = b.k"
    harness = opened(sql, {"a": ["id"]}, multi_join_enabled=True)
    many, few = 1_500, 100
    batch(harness, b=[("+I", 1, n) for n in range(few)], c=[("+I", 1, 0), ("+I", 1, 1)])
    new = batch(harness, a=[("+I", n, 1, n % (few + 1)) for n in range(many)])
    expected = sum(2 * (few - n % (few + 1)) or 1 for n in range(many))
    assert len(new) == expected > 1 << 17
    gone = batch(harness, b=[("-D", 1, n) for n in range(few)])
    padded = Counter(row[0] for row in gone)
    matched = sum(1 for n in range(many) if n % (few + 1) < few)
    assert padded == {"-D": expected - (many - matched), "+I": matched}
    assert len(harness.table()) == many


def test_state_estimate_and_explain_know_it() -> None:
    text = al.explain(LEFTS, tables=TABLES, keys=KEYS)
    assert "MultiJoin(joinType=[LEFT, LEFT, LEFT]" in text and "its rows of input 4" in text
    (node,) = joins(planned(LEFTS))
    parts = {part["name"]: part for part in node.state("numba", 0)["parts"]}
    assert list(parts) == ["key", "input 1", "input 2", "input 3", "input 4"]
    harness = opened(LEFTS)
    batch(harness, a=[("+I", 1, 7, 0)], b=[("+I", 7, 5)])
    (operator,) = harness.pipeline.operators
    key = operator.state.table.key_columns(operator.state.used_slots())
    held = list(operator.read_key_state(pa.RecordBatch.from_arrays(key, names=["k"])))
    assert [(each.records, each.results) for each in held] == [
        (2, {"id": 1, "w": 5, "x": None, "z": None})
    ]


def test_joins_that_forget_by_the_watermark_stay_joins_of_two() -> None:
    tables = {name: f"k INT, t TIMESTAMP, {name}v INT" for name in "abc"}
    near = "{0}.k = a.k AND {0}.t BETWEEN a.t AND a.t + INTERVAL '1' MINUTE"
    sql = f"SELECT a.k, bv, cv FROM a JOIN b ON {near.format('b')} JOIN c ON {near.format('c')}"
    asked: Any = {"options": PlanOptions.of({"table.optimizer.multi-join.enabled": "true"})}
    asked["input_changes"] = "append"
    assert len(joins(plan_query(sql, tables, **asked))) == 1
    plan = plan_query(sql, tables, watermarks=dict.fromkeys(tables, "t"), **asked)
    assert not joins(plan)
    assert sum(isinstance(node, TimedJoin) for node in walk(plan.root)) == 2
