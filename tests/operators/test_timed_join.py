"""Joins whose rows leave with the watermark, beside plain models and DuckDB: random bounds, rows, cuts, restarts."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from timed_joins import (
    SECOND,
    TABLES,
    Query,
    Row,
    at,
    check,
    check_changes,
    check_windows,
    duck,
    joined,
)

import aggloom as al
from aggloom.codegen import AggSpec
from aggloom.codegen.planner import TimedJoin, plan_query, walk
from aggloom.errors import AggloomError, SpecError
from aggloom.runtime.operators.registry import operator_from, operator_of


@pytest.mark.parametrize("seed", range(25))
def test_interval_joins_of_insertions(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(20))
def test_interval_joins_of_changes(seed: int) -> None:
    check_changes(seed)


@pytest.mark.parametrize("seed", range(20))
def test_joins_in_windows(seed: int) -> None:
    check_windows(seed)


WATERMARKS = {"a": ("t", "0 s"), "b": ("t", "0 s")}
NEAR = "a.k = b.k AND a.t BETWEEN b.t - INTERVAL '5' SECOND AND b.t + INTERVAL '10' SECOND"


def explained(sql: str, **options: Any) -> str:
    given = {"input_changes": "append", "watermarks": dict.fromkeys(TABLES, "t"), **options}
    return al.explain(sql, tables=TABLES, **given)


def test_explain_shows_the_bounds_as_flink_does() -> None:
    text = explained(f"SELECT a.id FROM a LEFT JOIN b ON {NEAR}")
    assert (
        "IntervalJoin(joinType=[LeftOuterJoin], windowBounds=[isRowTime=true, leftLowerBound=-5000, "
        "leftUpperBound=10000, leftTimeIndex=2, rightTimeIndex=1], where=[(k = b.k) AND `t` BETWEEN"
        in text
    )
    assert (
        "state bounded by rows that can still match: those of the left until the watermark is 5 s past t, "
        "those of the right until the watermark is 10 s past b.t" in text
    )
    strict = explained(
        "SELECT a.id FROM a JOIN b ON a.k = b.k AND b.t < a.t AND a.t < b.t + INTERVAL '1' HOUR"
    )
    assert "leftLowerBound=1, leftUpperBound=3599999" in strict


@pytest.mark.parametrize(
    ("condition", "times", "why"),
    [
        ("a.t >= b.t - INTERVAL '1' HOUR", "ab", "bounds `t` and `b.t` on one side only"),
        ("a.t BETWEEN b.t AND b.t + INTERVAL '1' DAY", "a", "`b.t` is no column of a watermark"),
        (
            "a.t BETWEEN b.t AND b.t + INTERVAL '1' DAY",
            "",
            "`t` and `b.t` are no columns of watermarks",
        ),
    ],
)
def test_what_is_no_interval_join_is_a_plain_one_that_says_why(
    condition: str, times: str, why: str
) -> None:
    sql = f"SELECT a.id FROM a JOIN b ON a.k = b.k AND {condition}"
    text = explained(sql, watermarks=dict.fromkeys(times, "t"))
    assert "Join(joinType=[InnerJoin], where=" in text and "IntervalJoin" not in text
    assert "interval_join did not fire: " in text and why in text


def test_a_window_above_an_outer_interval_join_loses_no_row() -> None:
    """Rows without a partner come behind the watermark: above, it is held back by the bounds."""
    for kind, rows in (("LEFT JOIN", 40), ("JOIN", 20)):
        h = al.Harness.from_sql(
            f"""WITH j AS (SELECT a.id, a.t AS at FROM a {kind} b ON {NEAR})
                SELECT window_start, COUNT(*) AS n
                FROM TABLE(TUMBLE(TABLE j, DESCRIPTOR(at), INTERVAL '3' SECOND))
                GROUP BY window_start, window_end""",
            TABLES,
            input_changes="append",
            watermarks=WATERMARKS,
            backend="python",
        )
        for second in range(40):
            h.process([("+I", second, second % 2, 0, at(second * SECOND))], table="a")
            h.process([("+I", second, 7 * (second % 10 != 3), 0, at(second * SECOND))], table="b")
        h.end_of_input()
        found = sum(n for _, n in h.table())
        brute = joined(
            "left" if rows == 40 else "inner",
            Counter((s, s % 2, 0, at(s * SECOND)) for s in range(40)),
            Counter((s, 7 * (s % 10 != 3), 0, at(s * SECOND)) for s in range(40)),
            Query("left", -5 * SECOND, 10 * SECOND, False, "").match,
        )
        assert found == sum(brute.values()) and h.counters["late_dropped"] == 0


@pytest.mark.parametrize("kind", ["JOIN", "FULL JOIN", "LEFT ANTI JOIN"])
@pytest.mark.parametrize("changes", ["append", "retract"])
def test_bytes_stay_flat_over_time(kind: str, changes: str) -> None:
    h = al.Harness.from_sql(
        f"SELECT a.id FROM a {kind} b ON {NEAR}",
        TABLES,
        input_changes=changes,
        watermarks=WATERMARKS,
    )
    sizes = []
    for minute in range(30):
        times = [at((60 * minute + s) * SECOND) for s in range(60)]
        for name in "ab":
            h.process([("+I", n, n % 7, minute, t) for n, t in enumerate(times)], table=name)
        h.flush()
        sizes.append(sum(each.state_bytes for each in h.pipeline.operators))
        assert (
            sum(len(side.bag) for each in h.pipeline.operators for side in each.state.sides) < 200
        )
    assert max(sizes) == max(sizes[:3])


def test_a_time_to_live_lets_rows_leave_before_the_watermark_does() -> None:
    sql = f"SELECT /*+ STATE_TTL('a' = '1 s') */ a.id, b.id AS other FROM a LEFT JOIN b ON {NEAR}"
    h = al.Harness.from_sql(sql, TABLES, input_changes="append", watermarks=WATERMARKS)
    h.set_ttl_time(1000)
    h.process([("+I", 1, 1, 0, at(0))], table="a")
    h.flush()
    h.set_ttl_time(3000)
    h.process([("+I", 2, 1, 0, at(0))], table="b")
    h.flush()
    assert h.changes() == [("+I", 1, None)]
    with pytest.raises(SpecError, match="STATE_TTL on a join of the same windows"):
        explained(
            """SELECT /*+ STATE_TTL('l' = '1 s') */ l.id FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), INTERVAL '1' HOUR)) l
            JOIN TABLE(TUMBLE(TABLE b, DESCRIPTOR(t), INTERVAL '1' HOUR)) r USING (k, window_start, window_end)"""
        )


def test_a_row_whose_end_was_late_stays_beside_the_one_that_replaces_it() -> None:
    """As it does whether or not a key is declared: what is on time is joined, and nothing else."""
    for keys in ({}, {"a": ["id"], "b": ["id"]}):
        h = al.Harness.from_sql(
            f"SELECT a.id, a.v, b.id AS other FROM a LEFT JOIN b ON {NEAR}",
            TABLES,
            watermarks=WATERMARKS,
            keys=keys,
        )
        h.process([("+I", 1, 1, 0, at(0))], table="a")
        h.process([("+I", 8, 1, 0, at(4 * SECOND))], table="b")
        h.process([("+I", 2, 2, 0, at(3 * SECOND))], table="a")
        h.process([("-U", 1, 1, 0, at(0)), ("+U", 1, 1, 5, at(6 * SECOND))], table="a")
        h.end_of_input()
        assert h.table() == [(1, 0, 8), (1, 5, 8), (2, 0, None)]
        assert h.counters["late_dropped_left"] == 1 == h.counters["late_dropped"]


def test_windows_and_aggregates_in_windows_join_as_in_duckdb() -> None:
    """Three sides, of which one is an aggregate that gives its rows out by the same watermark."""
    window = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(t), INTERVAL '10' SECOND))"
    sql = f"""SELECT l.id, r.id AS other, m.n FROM {window.format("a")} l
        LEFT JOIN {window.format("b")} r
        ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end
        JOIN (SELECT k, window_start, window_end, COUNT(*) AS n FROM {window.format("b")}
              GROUP BY k, window_start, window_end) m
        ON m.k = l.k AND m.window_start = l.window_start AND m.window_end = l.window_end"""
    h = al.Harness.from_sql(
        sql, TABLES, input_changes="append", watermarks=WATERMARKS, backend="python", buckets=2
    )
    assert explained(sql).count("WindowJoin(") == 2
    rnd = random.Random(5)
    rows: tuple[list[Row], list[Row]] = ([], [])
    for second in range(60):
        for name, given in zip("ab", rows, strict=True):
            given.append((second, rnd.randint(0, 2), 0, at(second * SECOND)))
            h.process([("+I", *given[-1])], table=name)
    h.end_of_input()
    text = """WITH l AS (SELECT *, time_bucket(INTERVAL 10 SECOND, t) AS w FROM a),
        r AS (SELECT *, time_bucket(INTERVAL 10 SECOND, t) AS w FROM b),
        m AS (SELECT k, w, COUNT(*) AS n FROM r GROUP BY k, w)
        SELECT l.id, r.id, m.n FROM l LEFT JOIN r ON l.k = r.k AND l.w = r.w JOIN m ON m.k = l.k AND m.w = l.w"""
    assert {kind for kind, *_ in h.changes()} == {"+I"}
    assert Counter(h.table()) == duck(text, rows)


def test_more_joined_rows_than_a_bundle_may_bring_name_their_key() -> None:
    sql = """SELECT l.id FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), INTERVAL '10' SECOND)) l
        JOIN TABLE(TUMBLE(TABLE b, DESCRIPTOR(t), INTERVAL '10' SECOND)) r USING (k, window_start, window_end)"""
    h = al.Harness.from_sql(sql, TABLES, input_changes="append", options={"join_match_limit": 8})
    for name in "ab":
        h.process([("+I", n, 4, 0, at(0)) for n in range(3)], table=name)
    with pytest.raises(AggloomError, match="joins more than 8 rows, most of them of key k=4"):
        h.end_of_input()


def test_what_a_checkpoint_holds_makes_the_same_operator() -> None:
    plan = plan_query(
        f"SELECT a.id FROM a LEFT JOIN b ON {NEAR}", TABLES, watermarks=dict.fromkeys(TABLES, "t")
    )
    (node,) = (each for each in walk(plan.root) if isinstance(each, TimedJoin))
    spec = operator_of(node, plan.options)
    data = json.loads(json.dumps(spec.to_data()))
    assert operator_from(spec.kind, data, AggSpec(node.stored_schema, ("k",), (), "append")) == spec


def test_a_condition_that_only_spark_evaluates_stands_above_the_bounds() -> None:
    text = explained(
        f"SELECT a.id FROM a JOIN b ON {NEAR} AND SOUNDEX(CAST(a.v AS STRING)) = CAST(b.v AS STRING) || 'x'"
    )
    assert "IntervalJoin" in text


def test_the_python_front_door_finds_the_bounds() -> None:
    sql = al.join_sql(condition=NEAR.replace("a.", "l.").replace("b.", "r."), how="left")
    tables = {"l": TABLES["a"], "r": TABLES["b"]}
    text = al.explain(
        sql, tables=tables, input_changes="append", watermarks=dict.fromkeys("lr", "t")
    )
    assert "IntervalJoin(joinType=[LeftOuterJoin]" in text


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("b.t BETWEEN a.t AND TIMESTAMPADD(MINUTE, 5, a.t)", (-300_000, 0)),
        ("a.t < DATE_ADD(HOUR, 1, b.t) AND a.t >= DATEADD(SECOND, -1, b.t)", (-1_000, 3_599_999)),
        ("b.t BETWEEN a.t AND TIMESTAMPADD(DAY, 1, a.t)", (-86_400_000, 0)),
        # A month has no fixed length.
        ("b.t BETWEEN a.t AND TIMESTAMPADD(MONTH, 1, a.t)", None),
    ],
)
def test_bounds_by_timestampadd(condition: str, bounds: tuple[int, int] | None) -> None:
    text = explained(f"SELECT a.id FROM a JOIN b ON a.k = b.k AND {condition}")
    assert ("IntervalJoin" in text) is (bounds is not None)
    if bounds is not None:
        assert f"leftLowerBound={bounds[0]}, leftUpperBound={bounds[1]}," in text
