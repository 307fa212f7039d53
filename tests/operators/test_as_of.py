"""ASOF JOIN and FOR SYSTEM_TIME AS OF: who finds whom, what is corrected, what waits, what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from as_of_rounds import check, check_temporal, ms, second
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import aggloom as al
from aggloom.errors import DataError, OrphanRetractionError, SpecError, UnsupportedSqlError
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.operators.as_of.nearest import NearestOperator
from aggloom.runtime.operators.as_of.spec import AsOfSpec
from aggloom.runtime.values.changelog import fold

TABLES = {"l": "id INT, k INT, t TIMESTAMP", "r": "k INT, t TIMESTAMP, v STRING"}
ASOF = "SELECT l.id, l.t, r.v FROM l ASOF {}JOIN r ON l.k = r.k AND l.t {} r.t"
TEMPORAL = "SELECT l.id, r.v FROM l {}JOIN r FOR SYSTEM_TIME AS OF l.t ON l.k = r.k"
CHANGES = {"l": "append", "r": "retract"}
KEY = {"r": ["k"]}
random_joins = examples(6)


def temporal(sql: str = TEMPORAL.format("LEFT "), **options: Any) -> Harness:
    """A harness of a temporal join; `r` has a key."""
    given: dict[str, Any] = {"tables": TABLES, "input_changes": CHANGES, "keys": KEY}
    return Harness.from_sql(sql, **(given | options))


@random_joins
@given(seed=st.integers(0, 10**6))
def test_random_asof_joins_give_duckdbs_table(seed: int) -> None:
    check(seed)


@random_joins
@given(seed=st.integers(0, 10**6))
def test_random_temporal_joins_give_the_models_rows(seed: int) -> None:
    check_temporal(seed)


@pytest.mark.parametrize(
    ("op", "first", "corrected"),
    [
        (">=", {1: "a", 2: "b"}, {1: "n", 2: "b"}),
        (">", {1: "a", 2: "a"}, {1: "n", 2: "n"}),
        ("<=", {1: "b", 2: "b"}, {1: "b", 2: "b"}),
        ("<", {1: "b", 2: None}, {1: "b", 2: None}),
    ],
)
def test_a_row_of_the_right_that_comes_late_corrects_those_that_used_another(
    op: str, first: dict[int, Any], corrected: dict[int, Any]
) -> None:
    sql = ASOF.format("LEFT ", op)
    with Harness.from_sql(sql, TABLES, keys={"l": ["id"]}) as run:
        run.process([("+I", 1, 7, second(5)), ("+I", 2, 7, second(8))], table="l")
        run.process([("+I", 7, second(1), "a"), ("+I", 7, second(8), "b")], table="r")
        run.flush()
        assert {row[0]: row[2] for row in run.table()} == first
        run.changes()
        run.process([("+I", 7, second(3), "n")], table="r")
        run.flush()
        moved = {key for key in first if first[key] != corrected[key]}
        told = run.changes()
        assert Counter(row[0] for row in told) == Counter(
            {"-U": len(moved), "+U": len(moved)} if moved else {}
        )
        assert {row[0]: row[2] for row in run.table()} == corrected
        run.process([("-D", 7, second(3), "n")], table="r")
        run.flush()
        assert {row[0]: row[2] for row in run.table()} == first


def test_only_the_rows_up_to_the_next_version_are_looked_at() -> None:
    with Harness.from_sql(ASOF.format("", ">="), TABLES) as run:
        run.process([("+I", n, 7, second(n)) for n in range(1000)], table="l")
        run.process([("+I", 7, second(n), f"{n}") for n in range(0, 1000, 100)], table="r")
        run.flush()
        run.changes()
        operator: Any = run.operator
        seen: list[int] = []
        reached = operator._find_reached_rows

        def counted(changed: Any) -> Any:
            ids = reached(changed)
            seen.append(len(ids))
            return ids

        operator._find_reached_rows = counted
        run.process([("+I", 7, second(250), "x"), ("-D", 7, second(500), "500")], table="r")
        run.flush()
        assert seen == [150] and len(run.changes()) == 2 * 150


def test_of_several_with_one_time_the_last_that_came_is_taken() -> None:
    with Harness.from_sql(ASOF.format("", ">="), TABLES, input_changes="retract") as run:
        run.process([("+I", 1, 7, second(5))], table="l")
        run.process([("+I", 7, second(5), v) for v in "abc"], table="r")
        run.flush()
        assert run.table()[0][2] == "c"
        run.process([("-D", 7, second(5), "c")], table="r")
        run.flush()
        assert run.table()[0][2] == "b"


def test_windows_above_an_asof_join_and_aggregates_below() -> None:
    sql = """SELECT k, COUNT(*) AS n, MAX(v) AS v FROM (
        SELECT l.k, x.v FROM l ASOF JOIN (SELECT k, t, MAX(v) AS v FROM r GROUP BY k, t) x
        ON l.k = x.k AND l.t >= x.t WHERE x.v <> 'b') j GROUP BY k"""
    with Harness.from_sql(sql, TABLES, backend="python") as run:
        run.process([("+I", 1, 7, second(5)), ("+I", 2, 7, second(8))], table="l")
        run.process([("+I", 7, second(1), "a"), ("+I", 7, second(6), "b")], table="r")
        run.flush()
        # The condition is tested on joined rows: row 2 finds b, and is dropped.
        assert run.table() == [(7, 1, "a")]
        run.process([("+I", 7, second(6), "c")], table="r")
        run.flush()
        assert run.table() == [(7, 2, "c")]


@pytest.mark.parametrize("policy", ["drop", "error", "keep"])
def test_rows_taken_back_before_they_come(policy: str) -> None:
    options: Any = {"on_orphan_retraction": policy}
    with Harness.from_sql(ASOF.format("LEFT ", ">="), TABLES, **options) as run:
        run.process([("+I", 1, 7, second(5))], table="l")
        run.process([("-D", 7, second(1), "a")], table="r")
        if policy == "error":
            with pytest.raises(OrphanRetractionError, match=r"the right retracts from key k=7"):
                run.flush()
            return
        run.flush()
        run.process([("+I", 7, second(1), "a")], table="r")
        run.flush()
        assert run.table()[0][2] == ("a" if policy == "drop" else None)
        assert run.counters["orphans_dropped"] == (policy == "drop")


def test_a_key_is_forgotten_when_neither_side_was_written() -> None:
    with Harness.from_sql(ASOF.format("LEFT ", ">="), TABLES, state_ttl=1000) as run:
        run.process([("+I", 1, 7, second(5))], table="l")
        run.process([("+I", 7, second(1), "a")], table="r")
        run.flush()
        run.set_ttl_time(999)
        run.process([("+I", 1, 8, second(5))], table="l")
        run.flush()
        assert run.counters["keys"] == 2
        run.set_ttl_time(1000)
        run.process([("+I", 2, 7, second(6))], table="l")
        run.flush()
        assert run.counters["expired"] == 1
        assert {row[0]: row[2] for row in run.table()} == {1: None, 2: None} or run.table()[-1][
            2
        ] is None


def test_versions_hold_from_their_time_until_the_next_one_or_a_deletion() -> None:
    with temporal() as run:
        run.process(
            [
                ("+I", 7, second(2), "a"),
                ("-U", 7, second(2), "a"),
                ("+U", 7, second(4), "b"),
                ("-D", 7, second(6), "b"),
                ("+I", 7, second(9), "c"),
            ],
            table="r",
        )
        run.process([("+I", n, 7, second(n)) for n in range(1, 11)], table="l")
        run.flush()
        assert run.changes() == []
        run.watermark(ms(7))
        told = run.changes()
        assert told == [
            ("+I", n, v) for n, v in zip(range(1, 8), [None, *"aabb", None, None], strict=True)
        ]
        run.end_of_input()
        assert run.changes() == [("+I", 8, None), ("+I", 9, "c"), ("+I", 10, "c")]


def test_the_watermark_is_that_of_both_tables_and_old_versions_leave() -> None:
    with temporal(TEMPORAL.format("")) as run:
        run.process([("+I", 7, second(n), f"{n}") for n in range(100)], table="r")
        run.process([("+I", 1, 7, second(50))], table="l")
        run.watermark(ms(60), "l")
        assert run.changes() == []
        run.watermark(ms(55), "r")
        assert run.changes() == [("+I", 1, "50")]
        operator: Any = run.operator
        # Those that hold at 55 and after it.
        assert len(operator.state.right.rows) == 45
        # A row behind the watermark is late; one of a key without versions finds none.
        run.process([("+I", 2, 7, second(55)), ("+I", 3, 8, second(56))], table="l")
        run.watermark(ms(1000))
        assert run.changes() == [] and run.counters["late_dropped"] == 1
        assert len(operator.state.right.rows) == 1 and len(operator.state.left.rows) == 0
        assert run.counters["keys"] == 1


def test_further_equalities_and_conditions_are_tested_on_the_version() -> None:
    sql = TEMPORAL.format("LEFT ") + " AND l.id = LENGTH(r.v) AND r.v <> 'bb'"
    with temporal(sql) as run:
        run.process([("+I", 7, second(1), "a"), ("+U", 7, second(3), "bb")], table="r")
        run.process([("+I", n, 7, second(n)) for n in (1, 2, 3)], table="l")
        run.end_of_input()
        assert run.changes() == [("+I", 1, "a"), ("+I", 2, None), ("+I", 3, None)]


def test_windows_above_a_temporal_join_lose_no_row() -> None:
    sql = """SELECT window_start, v, COUNT(*) AS n FROM TUMBLE(TABLE (
        SELECT l.t AS t, r.v AS v FROM l JOIN r FOR SYSTEM_TIME AS OF l.t ON l.k = r.k),
        DESCRIPTOR(t), INTERVAL '10' SECOND) GROUP BY window_start, window_end, v"""
    with temporal(sql, backend="python") as run:
        run.process([("+I", 7, second(0), "a"), ("+U", 7, second(12), "b")], table="r")
        run.process([("+I", n, 7, second(n)) for n in range(0, 20, 3)], table="l")
        run.watermark(ms(9.999))
        assert [row[2:] for row in run.changes()] == [("a", 4)]
        run.watermark(ms(60))
        assert [row[2:] for row in run.changes()] == [("b", 3)]
        assert run.counters["late_dropped"] == 0


def test_rows_behind_the_watermark_are_handed_out() -> None:
    with temporal(late_rows=True) as run:
        run.watermark(ms(5))
        run.process([("+I", 1, 7, second(5)), ("+I", 2, 7, second(6))], table="l")
        run.flush()
        assert [sorted(map(str, row[1:3])) for row in run.late()] == [["1", "7"]]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_versions_of_versions_on_wall_clocks(zone: str) -> None:
    """A chain of two temporal joins, whose times are those of clocks on a wall, over a restart."""
    tables = {
        "l": "id INT, k INT, t TIMESTAMP_NTZ",
        "r": "k INT, t TIMESTAMP_NTZ, v INT",
        "s": "v INT, t TIMESTAMP_NTZ, w STRING",
    }
    sql = """SELECT l.id, l.t, s.w FROM l
        JOIN r FOR SYSTEM_TIME AS OF l.t ON l.k = r.k
        LEFT JOIN s FOR SYSTEM_TIME AS OF l.t ON r.v = s.v"""
    options: dict[str, Any] = {
        "tables": tables,
        "input_changes": {"l": "append", "r": "upsert", "s": "upsert"},
        "keys": {"r": ["k"], "s": ["v"]},
        "local_time_zone": zone,
    }
    shift = 0 if zone == "UTC" else 5 * 3600
    wall = [second(n).replace(tzinfo=None) for n in range(60)]
    told = []
    run = Harness.from_sql(sql, **options)
    run.process([("+I", 7, wall[1], 1), ("+U", 7, wall[20], 2)], table="r")
    run.process(
        [("+I", 1, wall[0], "a"), ("+I", 2, wall[0], "b"), ("+U", 1, wall[9], "c")], table="s"
    )
    run.process([("+I", n, 7, wall[n]) for n in (0, 5, 10, 30)], table="l")
    run.watermark(ms(7 + shift))
    told += run.changes()
    state = run.snapshot()
    run.close()
    with Harness.from_sql(sql, **options) as run:
        run.restore(state)
        run.watermark(ms(7 + shift))
        run.watermark(ms(40 + shift))
        told += run.changes()
        assert run.counters["late_dropped"] == 0
    assert told == [("+I", 5, wall[5], "a"), ("+I", 10, wall[10], "c"), ("+I", 30, wall[30], "b")]


def test_a_deletion_without_a_time_is_an_error() -> None:
    changes = {"l": "append", "r": "upsert"}
    with temporal(input_changes=changes) as run:
        run.process([("-D", 7, None, None)], table="r")
        with pytest.raises(DataError, match=r"'r\.t': a deletion has no time"):
            run.flush()


VIEW = (
    "CREATE TEMPORARY VIEW v AS SELECT k, t, v FROM (SELECT *, ROW_NUMBER() OVER "
    "(PARTITION BY k ORDER BY t DESC) AS n FROM r) x WHERE n = 1{}; "
)


def test_a_view_of_the_last_rows_has_versions_however_batches_are_cut() -> None:
    sql = VIEW.format("") + TEMPORAL.format("").replace(" r ", " v AS r ").replace(
        "v AS r FOR SYSTEM_TIME AS OF l.t", "v FOR SYSTEM_TIME AS OF l.t AS r"
    )
    with temporal(sql, keys={}, input_changes="append") as run:
        run.process([("+I", 7, second(n), f"{n}") for n in (4, 2)], table="r")
        run.process([("+I", n, 7, second(n)) for n in (3, 5)], table="l")
        run.end_of_input()
        assert run.changes() == [("+I", 1 + 2, "2"), ("+I", 5, "4")]


@pytest.mark.parametrize(
    ("sql", "options", "words"),
    [
        (ASOF.format("", ">=") + " AND l.t <= r.t", {}, "ASOF JOIN with several inequalities"),
        (ASOF.format("", ">=") + " AND l.id = r.k + l.k", {}, "a further condition of an ASOF"),
        (ASOF.format("FULL ", ">="), {}, "ASOF in a FULL JOIN"),
        ("SELECT 1 AS x FROM l ASOF JOIN r ON l.k = r.k", {}, "ASOF JOIN with no inequality"),
        (
            "SELECT /*+ STATE_TTL('l' = '1 d') */ l.id FROM l ASOF JOIN r ON l.k = r.k AND l.t > r.t",
            {},
            "STATE_TTL by side",
        ),
        (TEMPORAL.format("RIGHT "), {}, "FOR SYSTEM_TIME AS OF in a RIGHT JOIN"),
        (TEMPORAL.format(""), {"input_changes": "retract"}, "rows that may be retracted"),
        (TEMPORAL.format(""), {"keys": {}}, "without a primary key"),
        (
            TEMPORAL.format("").replace("l.k = r.k", "l.id = LENGTH(r.v)"),
            {},
            "lacks the right's primary",
        ),
        (TEMPORAL.format("").replace("l.t ON", "l.id ON"), {}, "AS OF a INT"),
        (
            TEMPORAL.format(""),
            {"tables": {**TABLES, "r": "k INT, t TIMESTAMP, v TIMESTAMP"}},
            r"several TIMESTAMP columns \(t, v\)|several TIMESTAMP columns \(r.t, v\)",
        ),
        (
            VIEW.format(" AND v <> 'a'")
            + TEMPORAL.format("").replace(" r FOR", " v FOR").replace("r.", "v."),
            {"input_changes": "append"},
            "its filter would hide",
        ),
        (
            "CREATE TEMPORARY VIEW g AS SELECT k, MAX(t) AS t FROM r GROUP BY k; SELECT l.id FROM l "
            "JOIN g FOR SYSTEM_TIME AS OF l.t ON l.k = g.k",
            {},
            "after a bundle",
        ),
        ("SELECT k FROM r FOR SYSTEM_TIME AS OF TIMESTAMP '2026-01-01'", {}, "VERSION after"),
    ],
)
def test_what_is_refused(sql: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UnsupportedSqlError, match=words) as caught:
        temporal(sql, **options)
    assert "At line 1" in str(caught.value)


def test_plans_say_it_in_flinks_words() -> None:
    plan = al.explain(TEMPORAL.format(""), tables=TABLES, input_changes=CHANGES, keys=KEY)
    assert (
        "TemporalJoin(joinType=[InnerJoin], where=[(k = r.k) AND __TEMPORAL_JOIN_CONDITION(t, r.t)], "
        in plan
    )
    assert "its versions from the last one at the watermark on" in plan
    plan = al.explain(ASOF.format("LEFT ", ">="), tables=TABLES)
    assert "AsOfJoin(joinType=[LeftOuterJoin], where=[(k = r.k) AND (t >= r.t)], select=[" in plan


def test_the_query_as_text() -> None:
    assert al.asof_join_sql("k", match="l.t >= r.t", how="left") == (
        "SELECT * FROM `l` ASOF LEFT JOIN `r` MATCH_CONDITION (l.t >= r.t) USING (`k`)"
    )
    assert al.asof_join_sql("k", as_of="l.t", select="v") == (
        "SELECT v FROM `l` JOIN `r` FOR SYSTEM_TIME AS OF l.t AS `r` USING (`k`)"
    )
    for wrong in ({}, {"match": "l.t > r.t", "as_of": "l.t"}, {"as_of": "l.t"}, {"how": "full"}):
        with pytest.raises(SpecError, match="asof_join"):
            al.asof_join_sql(**wrong)  # type: ignore[arg-type]


def test_a_checkpoint_holds_the_settings() -> None:
    columns = pa.schema([("k", pa.int32()), ("t", pa.int64())])
    others = pa.schema([("r.k", pa.int32()), ("r.t", pa.int64()), ("v", pa.string())])
    spec = AsOfSpec(
        left=columns,
        right=others,
        how="left",
        null_safe=(False,),
        times=("t", "r.t"),
        matches="<",
        columns=("t", "v"),
        known=(None, ("r.k", "v")),
        output_key=("t",),
    )
    again = AsOfSpec.from_data(spec.to_data())
    assert again == spec and isinstance(spec.make(None), NearestOperator)
    with pytest.raises(SpecError, match="as of"):
        AsOfSpec.from_data({"left": []})


def test_many_keys_come_and_go_and_memory_with_them() -> None:
    with Harness.from_sql(ASOF.format("LEFT ", ">="), TABLES) as run:
        for start in range(0, 3000, 1000):
            lefts = [(n, n, second(5)) for n in range(start, start + 1000)]
            rights = [(n, second(1), f"text {n}") for n in range(start, start + 1000)]
            run.process([("+I", *row) for row in lefts], table="l")
            run.process([("+I", *row) for row in rights], table="r")
            run.flush()
            kept = 10
            run.process([("-D", *row) for row in lefts[kept:]], table="l")
            run.process([("-D", *row) for row in rights[kept:]], table="r")
            run.flush()
        assert run.counters["keys"] == 30
        assert len(fold(run.changes())) == 30
        assert all(row[2] == f"text {row[0]}" for row in run.table())
