"""Windows in plans: the rule that finds them, what stays as it was, when they fire, traits, lineage and explain."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from window_plans import EARLY, FIVE, HOUR, KEYS, SUMS, TVF, made, planned, windows

from aggloom.codegen.planner import (
    Exchange,
    GroupAggregate,
    LocalAggregate,
    Node,
    Plan,
    WindowAssign,
    WindowTable,
    as_tree,
    lineage,
    plan_query,
    walk,
)
from aggloom.codegen.spec.dtypes import INSTANT
from aggloom.codegen.windows import (
    CountTrigger,
    CountWindow,
    EventTimeTrigger,
    GlobalWindow,
    PurgingTrigger,
    Session,
    Tumble,
    Windowing,
)


def kinds(plan: Plan) -> list[str]:
    """The names of a plan's nodes, inputs first."""
    return [type(node).__name__ for node in walk(plan.root)]


def notes(plan: Plan, rule: str) -> list[tuple[bool, str]]:
    """List a rule's notes on the plan's aggregates."""
    listed = [note for told in plan.notes.by_spec.values() for note in told]
    return [(note.fired, note.why) for note in listed if note.rule == rule]


# The rule


def test_a_group_by_of_the_bounds_becomes_an_aggregate_in_windows() -> None:
    plan = planned(SUMS, agg_phase_strategy="ONE_PHASE")
    assert as_tree(plan).splitlines() == [
        "Calc(select=[name, window_start, window_end, s], changelogMode=[I])",
        "+- WindowAggregate(groupBy=[name], window=[TUMBLE(on=`ts`, size=1 h)], "
        "select=[name, window_start, window_end, window_time, SUM(cnt) AS s], changelogMode=[I])",
        "   +- Exchange(distribution=[hash[name]], changelogMode=[I])",
        "      +- Calc(select=[name, $window, cnt], changelogMode=[I])",
        "         +- WindowAssign(window=[TUMBLE(on=`ts`, size=1 h)], changelogMode=[I])",
        "            +- Calc(select=[name, cnt, ts], changelogMode=[I])",
        "               +- TableSourceScan(table=[[bid]], fields=[name, cnt, ts, gap, window], changelogMode=[I])",
    ]
    (node,) = windows(plan)
    assert node.spec.namespace
    assert node.spec.group_by == ("name", "$window")
    assert node.spec.schema == node.spec.handler_schema
    assert node.input.schema == node.spec.handler_schema
    assert node.input.schema.field("$window").type == pa.int64()
    assert any(isinstance(each, WindowTable) for each in walk(plan.logical))


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT w, u, COUNT(*) FROM (SELECT UPPER(name) AS u, window_end AS e, window_start AS w FROM {TVF}) "
        "GROUP BY u, w, e",
        f"SELECT name, COUNT(*) FROM (SELECT name, cnt + 1 AS c, window_start AS a, window_end AS b, window_start AS d "
        f"FROM {TVF} WHERE cnt > 2) WHERE c > 4 GROUP BY a, b, d, name",
        # What is computed from the bounds but not read does no harm.
        f"SELECT MAX(cnt) FROM (SELECT *, CAST(window_start AS STRING) AS text FROM {TVF}) {KEYS}",
        f"SELECT window_end, name FROM {TVF} GROUP BY window_end, name, window_start",
        f"SELECT DISTINCT window_end, window_start FROM {TVF}",
        f"SELECT COUNT(*) AS window_time, name AS window_end FROM {TVF} {KEYS}, name",
    ],
)
def test_projections_and_filters_may_stand_between(query: str) -> None:
    plan = planned(query)
    assert len(windows(plan)) == 1
    assert "WindowTable" not in kinds(plan)
    assert plan.schema == plan.logical.schema


def test_the_names_of_bounds_give_way_to_those_of_calls() -> None:
    (node,) = windows(planned(f"SELECT COUNT(*) AS window_time FROM {TVF} {KEYS}"))
    assert node.bounds.names == ("$window_start", "$window_end", "$window_time")
    assert node.schema.names[-1] == "window_time"


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (f"SELECT window_end, COUNT(*) FROM {TVF} GROUP BY window_end", "GROUP BY lacks"),
        (
            f"SELECT COUNT(*) FROM {TVF} WHERE window_start > TIMESTAMP '2020-01-01 00:00:00' {KEYS}",
            "reads the window's bounds",
        ),
        (
            f"SELECT MAX(window_time) FROM {TVF} {KEYS}",
            "max(window_time) reads the window's bounds",
        ),
        (
            f"SELECT COUNT(*) FILTER (WHERE window_end > ts) FROM {TVF} {KEYS}",
            "is computed from the window's bounds",
        ),
        (
            f"SELECT COUNT(*) FROM {TVF} {KEYS}, CAST(window_start AS STRING)",
            "CAST(window_start AS STRING) is computed from the window's bounds",
        ),
        (
            f"SELECT COUNT(*) FROM {TVF} GROUP BY GROUPING SETS ((window_start, window_end), (window_start))",
            "GROUP BY lacks",
        ),
    ],
)
def test_what_computes_with_the_bounds_stays_a_group_aggregate(query: str, why: str) -> None:
    plan = planned(query)
    assert not windows(plan)
    assert "WindowTable" in kinds(plan)
    ((fired, reason),) = notes(plan, "windows")
    assert not fired
    assert why in reason


def test_what_reads_windows_knows_that_they_are_given_out_once() -> None:
    query = f"SELECT s, COUNT(*), APPROX_COUNT_DISTINCT(name) FROM ({SUMS}) GROUP BY s"
    plan = planned(query, changes="retract")
    (outer,) = (node for node in walk(plan.root) if isinstance(node, GroupAggregate))
    assert outer.spec.input_changes == "append"
    (inner,) = windows(plan)
    assert inner.spec.input_changes == "retract"
    plan = planned(query.replace(", APPROX_COUNT_DISTINCT(name)", ""), **EARLY)
    (outer,) = (node for node in walk(plan.root) if isinstance(node, GroupAggregate))
    assert outer.spec.input_changes == "retract"


def test_the_columns_of_a_window_aggregate_are_plain_to_what_comes_after() -> None:
    plan = planned(f"SELECT window_start, window_end, MAX(s) FROM ({SUMS}) {KEYS}")
    assert len(windows(plan)) == 1
    assert kinds(plan)[-1] == "GroupAggregate"


def test_a_window_over_windows_is_chained() -> None:
    hourly = (
        "CREATE VIEW few AS SELECT name, window_start, window_end, window_time, COUNT(*) AS n "
        f"FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), {FIVE})) {KEYS}, window_time, name; "
    )
    source = f"TABLE(TUMBLE(TABLE few, DESCRIPTOR(window_time), {HOUR}))"
    plan = planned(f"{hourly}SELECT window_start, window_end, SUM(n) AS n FROM {source} {KEYS}")
    first, second = windows(plan)
    assert (first.is_chained, second.is_chained) == (False, True)
    assert second.windowing.assigner == Tumble("1 h", "window_time0")
    assert second.spec.input_changes == "append"


def test_a_window_over_a_changelog_takes_rows_back() -> None:
    counted = "(SELECT name, MAX(ts) AS at, COUNT(*) AS n FROM bid GROUP BY name)"
    plan = planned(f"SELECT SUM(n) AS n FROM {counted} GROUP BY TUMBLE(at, {HOUR})")
    (node,) = windows(plan)
    assert node.spec.input_changes == "retract"
    assert plan.root.changelog == ("I",)


def test_nothing_of_a_row_is_kept_that_no_window_reads() -> None:
    view = f"CREATE VIEW v AS SELECT *, PROCTIME() AS pt, cnt * 2 AS more FROM bid; {SUMS}"
    (node,) = windows(planned(view.replace("TABLE bid", "TABLE v").replace("(ts)", "(pt)")))
    assert node.input.schema.names == ["name", "$window", "cnt"]
    plan = planned(f"SELECT name, window_start FROM ({SUMS})")
    assert windows(plan)[0].spec.calls == ()
    assert [why for fired, why in notes(plan, "prune_calls") if fired] == ["nothing reads sum(cnt)"]


# Phases


@pytest.mark.parametrize(
    ("query", "options", "why"),
    [
        (SUMS, {}, "every call merges"),
        (f"SELECT COUNT(*) FROM bid GROUP BY HOP(ts, {FIVE}, {HOUR})", EARLY, "every call merges"),
        (SUMS, {"mini_batch_enabled": False}, "mini-batch.enabled is false"),
        (SUMS, {"agg_phase_strategy": "ONE_PHASE"}, "is ONE_PHASE"),
        (SUMS.replace("SUM(", "FIRST_VALUE("), {}, "depends on the order of rows"),
        (f"SELECT COUNT(*) FROM bid GROUP BY SESSION(ts, {HOUR})", {}, "sessions are known only"),
        (f"SELECT COUNT(*) FROM bid GROUP BY TUMBLE(PROCTIME(), {HOUR})", {}, "processing time"),
        (SUMS, {"changes": "retract"}, "on_orphan_retraction='drop'"),
        (SUMS, {"changes": "retract", "on_orphan_retraction": "keep"}, "every call merges"),
        (
            f"SELECT name, SUM(n) FROM (SELECT name, COUNT(*) AS n, MAX(ts) AS t FROM bid GROUP BY name) "
            f"GROUP BY name, TUMBLE(t, {HOUR})",
            {},
            "in one place already",
        ),
    ],
)
def test_rows_are_added_up_by_slice_before_the_exchange(
    query: str, options: dict[str, Any], why: str
) -> None:
    plan = planned(query, **options)
    (node,) = windows(plan)
    merges = why == "every call merges"
    assert any(fired == merges and why in reason for fired, reason in notes(plan, "two_phase"))
    assert node.merges == merges
    assert node.distribution == node.keys
    # In one stateful node with what is below it, it has no exchange of its own.
    assert isinstance(node.input, Exchange) == (why != "in one place already")
    if merges:
        assert isinstance(node.input, Exchange)
        local = node.input.input
        assert isinstance(local, LocalAggregate)
        assert local.spec == node.spec


def test_windows_after_windows_by_the_same_key_are_in_one_place() -> None:
    rows = (
        f"(SELECT name, TUMBLE_ROWTIME(ts, {FIVE}) AS t FROM bid GROUP BY name, TUMBLE(ts, {FIVE}))"
    )
    plan = planned(f"SELECT name, COUNT(*) FROM {rows} GROUP BY name, TUMBLE(t, {HOUR})")
    assert (False, "the rows of a key are in one place already") in notes(plan, "two_phase")


def test_distinct_in_windows_stays_whole() -> None:
    query = SUMS.replace("SUM(cnt)", "COUNT(DISTINCT cnt)")
    plan = planned(query, distinct_agg_split_enabled=True)
    assert notes(plan, "split_distinct") == [(False, "an aggregate in windows is not split")]
    assert len(windows(plan)) == 1


# What is known of changes


AGAIN = EventTimeTrigger(early="5 s")
ONCE = ["I"]
UPDATES = ["I", "UB", "UA"]


@pytest.mark.parametrize(
    ("windowing", "changes", "expected", "keyed"),
    [
        (Windowing(Tumble("1 h", "ts")), "append", ONCE, True),
        (Windowing(Tumble("1 h", "ts")), "retract", ONCE, True),
        (Windowing(Tumble("1 h", "ts"), AGAIN), "append", UPDATES, True),
        (Windowing(Tumble("1 h", "ts"), AGAIN), "retract", [*UPDATES, "D"], True),
        (Windowing(Tumble("1 h", "ts"), AGAIN, updates=False), "retract", ONCE, False),
        (Windowing(Tumble("1 h", "ts"), allowed_lateness="1 h"), "append", UPDATES, True),
        (Windowing(Session("1 h", "ts")), "retract", ONCE, True),
        (Windowing(Session("1 h", "ts"), AGAIN), "append", [*UPDATES, "D"], True),
        (Windowing(Tumble("1 h", "ts"), PurgingTrigger(CountTrigger(3))), "append", ONCE, False),
        (Windowing(CountWindow(10, 5)), "append", ONCE, False),
        (Windowing(GlobalWindow(), CountTrigger(3)), "append", [*UPDATES, "D"], True),
    ],
)
def test_the_changes_of_windows(
    windowing: Windowing, changes: str, expected: list[str], keyed: bool
) -> None:
    plan = made(windowing, changes)
    assert list(plan.root.changelog) == expected
    assert plan.key == (("name", "window_start", "window_end") if keyed else None)
    assert plan.root.is_complete
    assert plan.root.trends.get("s") == (None if "UA" in expected else "constant")
    assert plan.root.trends["window_end"] == "constant"


def test_the_last_windows_may_come_without_what_they_replace() -> None:
    plan = made(Windowing(Tumble("1 h", "ts"), AGAIN), update_before=False)
    assert plan.root.changelog == ("I", "UA")


def test_rows_of_windows_have_the_key_of_their_rows_and_the_window() -> None:
    counted = "(SELECT name, MAX(ts) AS t FROM bid GROUP BY name)"
    plan = planned(f"SELECT * FROM TABLE(HOP(TABLE {counted}, DESCRIPTOR(t), {FIVE}, {HOUR}))")
    assert plan.root.unique_key == ("name", "window_start", "window_end")
    assert list(plan.root.changelog) == ["I", "D"] and not plan.root.never_deletes
    tumbled = planned(f"SELECT * FROM TABLE(TUMBLE(TABLE {counted}, DESCRIPTOR(t), {HOUR}))")
    assert list(tumbled.root.changelog) == UPDATES


def test_the_lineage_of_windows_does_not_depend_on_phases() -> None:
    def digest(sql: str = SUMS, **options: Any) -> str:
        (node,) = windows(planned(sql, **options))
        return lineage(node)

    same = digest()
    assert digest(agg_phase_strategy="ONE_PHASE") == same
    other = {
        digest(SUMS.replace("'1' HOUR", "'2' HOUR")),
        digest(**EARLY),
        digest(local_time_zone="Asia/Shanghai"),
        digest(dialect="flink"),
        digest(f"SELECT name, SUM(cnt) AS s FROM bid GROUP BY name, HOP(ts, {FIVE}, {HOUR})"),
    }
    assert len(other | {same}) == 6
    tables = [f"SELECT * FROM {TVF}", f"SELECT * FROM {TVF.replace('1', '2')}"]
    assert len({lineage(planned(sql).root) for sql in tables}) == 2


def assigned(node: Node) -> WindowAssign:
    """The node that gives rows their windows."""
    (found,) = (each for each in walk(node) if isinstance(each, WindowAssign))
    return found


def test_the_column_of_the_window_has_a_name_that_no_column_has() -> None:
    tables = {"t": "`$window` STRING, ts TIMESTAMP"}
    query = f"SELECT `$window`, COUNT(*) AS n FROM t GROUP BY `$window`, TUMBLE(ts, {HOUR})"
    plan = plan_query(query, tables, input_changes="append")
    node = assigned(plan.root)
    assert node.name == "$$window"
    assert node.schema.field("$$window").type == pa.int64()
    assert plan.schema.field("$window").type == pa.string()
    assert windows(plan)[0].bounds.type == INSTANT
