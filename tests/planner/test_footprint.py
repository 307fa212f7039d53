"""The bytes that explain prints are within a fifth of those that running operators hold, at sizes of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from handlers import handler_class

import aggloom as al
from aggloom.codegen.planner import Plan, PlanOptions, describe, plan_query, plan_windows
from aggloom.codegen.planner.tree import stateful
from aggloom.runtime.local.pipeline import Pipeline
from aggloom.runtime.operators.slot_state import SlotState
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.pool import HEAP_LIVE, LIVE
from aggloom.runtime.values.clock import Clock

SCHEMA = pa.schema(
    [
        ("a", "i8"),
        ("e", "i4"),
        ("b", "i8"),
        ("c", "string"),
        ("d", "f8"),
        ("ts", pa.timestamp("us")),
    ]
)
PAGE = 4096
BUNDLE = 20_000
HOUR = 3_600_000_000


def rows(seed: int, number: int, keys: int, values: int) -> pa.RecordBatch:
    """Rows of so many keys, each with a text of its own and `values` values, over an hour; no zeros."""
    random = np.random.default_rng(seed)
    a, b = random.integers(1, keys + 1, number), random.integers(1, values + 1, number)
    texts = [f"customer {x:08d}" for x in a.tolist()]
    e = random.integers(1, 4, number, np.int32)
    times = pa.array(random.integers(1, HOUR, number), pa.timestamp("us"))
    return pa.RecordBatch.from_arrays([a * 7919, e, b, texts, b / 7, times], schema=SCHEMA)


def fed(plan: Plan, batch: pa.RecordBatch) -> Pipeline:
    """The operators of a plan after rows, which come in bundles."""
    pipeline = Pipeline(plan, lambda spec: handler_class(spec, "numba"))
    for at in range(0, len(batch), BUNDLE):
        part = batch.slice(at, BUNDLE)
        pipeline.process({"t": (part, np.zeros(len(part), np.int8))}, Clock(1000))
    return pipeline


def states(pipeline: Pipeline) -> list[SlotState]:
    (operator,) = pipeline.operators
    return list(getattr(operator, "states", None) or [operator.state])


def in_memory(arena: Arena) -> int:
    """Bytes of the pages that something has been written to."""
    return sum(_touched(array) for _, array in arena)


def _touched(array: Any) -> int:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    page = min(PAGE, max(1, len(flat)))
    return int(np.add.reduceat(flat != 0, np.arange(0, len(flat), page)).astype(bool).sum()) * page


def printed(plan: Plan, found: list[SlotState]) -> float:
    """Add up the bytes that explain tells of a plan's only operator, for the keys that the operator holds."""
    (node,) = stateful(describe(plan)["plan"])
    said = node["state"]
    by_key = {part["name"]: part["bytes_per_key"] for part in said["parts"]}
    given = by_key.pop("emitted", 0)
    assert said["bytes_per_key"] == sum(by_key.values()) + given
    kept = len(found[0].used_slots())
    total = float(kept * sum(by_key.values()) + given * sum(map(held, found[1:])))
    for state in found:
        for part in said["parts"]:
            if "entries" in part:
                rows = getattr(state, "entries", None)
                live = rows[part["name"]].live if rows else state.accumulators.views[part["name"]].live  # type: ignore[attr-defined]
                total += live * part["bytes_per_entry"]
                total += rows[part["name"]].text_bytes if rows else 0
            elif part["kind"] == "row store":
                total += state.rows.text_bytes  # type: ignore[attr-defined]
        if said["texts"]:
            pool = state.pool.arrays
            total += int(pool.meta[LIVE]) * said["bytes_per_text"] + int(pool.meta[HEAP_LIVE])
    return total


def held(state: SlotState) -> int:
    """Slots that hold rows."""
    return int((state.records != 0).sum())


# Keys, calls, input, the different values of `b`, rows a key, TTL.
CASES = [
    ("a", "SUM(b) AS s, COUNT(*) AS n, MAX(b) AS m", "append", 1000, 5, 0),
    ("a", "SUM(b) AS s, COUNT(*) AS n, MAX(b) AS m", "append", 1000, 3, 10_000),
    ("a", "SUM(b) AS s, COUNT(*) AS n, MAX(d) AS m, AVG(d) AS v", "retract", 1, 5, 0),
    ("c", "SUM(b) AS s, COUNT(*) AS n", "append", 1000, 5, 0),
    ("a, c", "COUNT(*) AS n", "retract", 1000, 3, 0),
    ("a", "MAX(b) AS m", "retract", 10**6, 3, 0),
    ("a", "MAX(b) AS m", "retract", 10**6, 20, 0),
    ("a", "MAX(b) AS m", "retract", 10**6, 600, 0),
    ("e", "MAX(c) AS m", "retract", 10**6, 3, 0),
    ("a", "COUNT(DISTINCT b) AS n", "append", 10**6, 10, 0),
    ("a", "ARRAY_AGG(b) AS l", "append", 10**6, 40, 0),
    ("a", "FIRST_VALUE(b ORDER BY d) AS l", "retract", 10**6, 5, 0),
    ("a", "MEDIAN(b) AS m", "append", 10**6, 300, 0),
    ("a", "APPROX_COUNT_DISTINCT(b) AS n", "append", 10**6, 90, 0),
    ("a", "APPROX_PERCENTILE(b, 0.5) AS p", "append", 10**6, 900, 0),
]


@pytest.mark.parametrize(("keys", "calls", "changes", "values", "each", "ttl"), CASES)
def test_groups(keys: str, calls: str, changes: str, values: int, each: int, ttl: int) -> None:
    sql = f"SELECT {keys}, {calls} FROM t GROUP BY {keys}"
    options = PlanOptions(agg_phase_strategy="ONE_PHASE", state_ttl=ttl)
    plan = plan_query(sql, {"t": SCHEMA}, input_changes=changes, options=options)
    seed = len(calls) + each
    number = int(np.random.default_rng(seed).integers(200_000, 400_000))
    pipeline = fed(plan, rows(seed, number, max(1, number // each), values))
    found = states(pipeline)
    measured = sum(in_memory(state.arena) for state in found)
    assert printed(plan, found) == pytest.approx(measured, rel=0.2)


TOP = "SELECT {0} FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY {1}) <= {2}"
RANKS = [
    (TOP.format("*", "b", 3), "append", 40_000),
    (TOP.format("*", "b", 1), "append", 60_000),
    (TOP.format("a, b", "b", 3), "retract", 2),
    (TOP.format("a, b", "b", 3), "retract", 30_000),
    (TOP.format("a, b", "b, e", 3), "retract", 30_000),
    (TOP.format("a, b", "b", 3), "retract", 250_000),
]


@pytest.mark.parametrize(("sql", "changes", "keys"), RANKS)
def test_ranks(sql: str, changes: str, keys: int) -> None:
    plan = plan_query(sql, {"t": SCHEMA}, input_changes=changes)
    found = states(fed(plan, rows(3, 250_000, keys, 1000)))
    assert printed(plan, found) == pytest.approx(in_memory(found[0].arena), rel=0.2)


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        ("SELECT a, b FROM t WHERE ts > LOCALTIMESTAMP", "append"),
        ("SELECT * FROM t WHERE ts > LOCALTIMESTAMP", "retract"),
    ],
)
def test_temporal_filters(sql: str, changes: str) -> None:
    plan = plan_query(sql, {"t": SCHEMA}, input_changes=changes)
    found = states(fed(plan, rows(3, 150_000, 20_000, 1000)))
    assert printed(plan, found) == pytest.approx(in_memory(found[0].arena), rel=0.2)


JOINS = [
    ("SELECT t.b, t.c, u.d FROM t JOIN u ON t.a = u.a", 30_000, 0),
    ("SELECT t.c, u.d FROM t LEFT JOIN u ON t.a = u.a AND t.d < u.d", 30_000, 0),
    ("SELECT t.b, u.e, u.d FROM t FULL JOIN u ON t.a = u.a", 100_000, 10_000),
]


@pytest.mark.parametrize(("sql", "keys", "ttl"), JOINS)
def test_joins(sql: str, keys: int, ttl: int) -> None:
    plan = plan_query(sql, {"t": SCHEMA, "u": SCHEMA}, options=PlanOptions(state_ttl=ttl))
    pipeline = Pipeline(plan, lambda spec: handler_class(spec, "numba"))
    for number in range(8):
        parts = {name: rows(number + 9 * (name == "u"), 20_000, keys, 1000) for name in "tu"}
        given = {name: (part, np.zeros(len(part), np.int8)) for name, part in parts.items()}
        pipeline.process(given, Clock(1000))
    found = states(pipeline)
    assert printed(plan, found) == pytest.approx(in_memory(found[0].arena), rel=0.2)


WINDOWS = [
    (al.Tumble("10 minutes", on="ts"), 0),
    (al.Hop("1 hour", "10 minutes", on="ts"), 0),
    (al.Hop("1 hour", "30 minutes", on="ts"), "2 hours"),
    (al.Session("1 hour", on="ts"), 0),
    (al.Session("1 hour", on="ts"), "2 hours"),
]


@pytest.mark.parametrize(("window", "lateness"), WINDOWS)
def test_windows(window: Any, lateness: Any) -> None:
    calls = (al.AggCall("SUM", ("b",)), al.AggCall("MAX", ("b",)))
    spec = al.AggSpec(SCHEMA, ("a",), calls, input_changes="append")
    windowing = al.Windowing.of(window, allowed_lateness=lateness)
    plan = plan_windows(spec, windowing, options=PlanOptions(agg_phase_strategy="ONE_PHASE"))
    pipeline = fed(plan, rows(3, 250_000, 40_000, 1000))
    found = states(pipeline)
    if lateness:
        pipeline.process({}, Clock(1000, 2 * HOUR // 1000))
        assert held(found[1]) > 30_000
    measured = sum(in_memory(state.arena) for state in found)
    assert printed(plan, found) == pytest.approx(measured, rel=0.2)
