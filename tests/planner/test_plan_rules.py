"""The rules of the planner and what they say, what is known of changes, and options."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from itertools import chain
from typing import Any

import pytest

from aggloom.codegen.operators import AggregateNode
from aggloom.codegen.planner import (
    Bucket,
    Expand,
    GroupAggregate,
    IncrementalAggregate,
    LocalAggregate,
    Node,
    Plan,
    PlanOptions,
    plan_query,
    walk,
)
from aggloom.errors import OptionError, SpecError
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.values.changelog import fold

TABLES = {"t": "k STRING, g INT, x INT, y BIGINT, f DOUBLE, d DECIMAL(10,2), ok BOOLEAN"}
COUNTS = "(SELECT k, COUNT(*) AS n, MAX(x) AS hi, MIN(x) AS lo, SUM(x) AS s FROM t GROUP BY k) AS c"
SPLIT: dict[str, Any] = {"distinct_agg_split_enabled": True, "distinct_agg_split_bucket_num": 4}
Change = tuple[Any, ...]


def planned(sql: str, changes: str = "append", **options: Any) -> Plan:
    """The plan of a query over t."""
    return plan_query(sql, TABLES, input_changes=changes, options=PlanOptions.of({}, **options))


def notes(plan: Plan, rule: str) -> list[tuple[bool, str]]:
    """List a rule's notes on the plan's aggregates."""
    listed = chain.from_iterable(plan.notes.by_spec.values())
    return [(note.fired, note.why) for note in listed if note.rule == rule]


def aggregates(node: Node) -> list[Any]:
    """The keyed nodes, inputs first."""
    return [
        n
        for n in walk(node)
        if isinstance(n, GroupAggregate | IncrementalAggregate | AggregateNode)
    ]


def calls(node: Node) -> list[list[str]]:
    """List the calls of each keyed node."""
    return [[call.text for call in each.spec.calls] for each in aggregates(node)]


# prune_calls


def test_calls_that_nothing_reads_are_not_made() -> None:
    plan = planned(f"SELECT SUM(n) AS m FROM {COUNTS}")
    assert calls(plan.root) == [["count(1)"], ["sum(n)"]]
    assert notes(plan, "prune_calls") == [(True, "nothing reads max(x), min(x), sum(x)")]


def test_calls_that_a_having_or_a_where_reads_are_made() -> None:
    sql = "SELECT k FROM t GROUP BY k HAVING MAX(x) > 1"
    assert calls(planned(sql).root) == [["max(x)"]]
    plan = planned(f"SELECT k FROM {COUNTS} WHERE s > 1")
    assert calls(plan.root) == [["sum(x)"]]
    everything = planned(f"SELECT * FROM {COUNTS}")
    assert notes(everything, "prune_calls") == []


def test_a_global_aggregate_of_which_nothing_is_read_still_has_its_row() -> None:
    sql = "SELECT 'some' AS answer FROM (SELECT SUM(x) AS s FROM t) AS c"
    plan = planned(sql)
    assert calls(plan.root) == [["count(1)"]]
    with Harness.from_sql(sql, TABLES, backend="python") as harness:
        assert harness.table() == []
        harness.process([("+I", *row()), ("+I", *row())])
        harness.flush()
        assert harness.table() == [("some",)]


def row(**values: Any) -> Change:
    """A row of t."""
    base = {"k": "a", "g": 1, "x": 1, "y": 1, "f": 1.0, "d": None, "ok": True}
    return tuple({**base, **values}.values())


def test_unread_columns_of_a_union_are_not_carried() -> None:
    sql = "SELECT SUM(x) AS s FROM (SELECT k, x FROM t UNION ALL SELECT k, g FROM t) AS u"
    assert aggregates(planned(sql).root)[0].spec.schema.names == ["x"]


# monotonic_extremes


def monotonic(plan: Plan) -> list[str]:
    specs = [node.spec for node in aggregates(plan.root)]
    return [call.text for spec in specs for call in spec.calls if call.monotonic]


@pytest.mark.parametrize(
    ("sql", "marked"),
    [
        (f"SELECT MAX(n) AS m FROM {COUNTS}", ["max(n)"]),
        (f"SELECT MAX(hi) AS m, MIN(lo) AS l FROM {COUNTS}", ["max(hi)", "min(lo)"]),
        (f"SELECT k, MAX(n) AS m FROM {COUNTS} GROUP BY k", ["max(n)"]),
        (f"SELECT MAX(n) AS m FROM {COUNTS} WHERE k > 'a'", ["max(n)"]),
        (f"SELECT MAX(n) FILTER (WHERE k > 'a') AS m FROM {COUNTS}", None),
        # It may go the other way, or it is not the column that grows.
        (f"SELECT MIN(n) AS m, MAX(lo) AS l, MAX(s) AS s FROM {COUNTS}", []),
        (f"SELECT MAX(-n) AS m FROM {COUNTS}", []),
        # The row changes its group, or leaves the filter.
        (f"SELECT n, MAX(hi) AS m FROM {COUNTS} GROUP BY n", []),
        (f"SELECT MAX(n) AS m FROM {COUNTS} WHERE n > 1", []),
        (f"SELECT MAX(n) FILTER (WHERE hi > 1) AS m FROM {COUNTS}", []),
        # Rows only come: there is nothing to save.
        ("SELECT k, MAX(x) AS m FROM t GROUP BY k", []),
    ],
)
def test_extremes_over_what_only_grows_are_marked(sql: str, marked: list[str] | None) -> None:
    found = monotonic(planned(sql))
    assert found == marked if marked is not None else len(found) == 1
    said = notes(planned(sql), "monotonic_extremes")
    assert len(said) == (found != [])
    assert all(fired and "only goes one way" in why for fired, why in said)


@pytest.mark.parametrize(
    ("changes", "options"), [("retract", {}), ("append", {"state_ttl": "1 h"})]
)
def test_extremes_are_not_marked_where_counts_may_fall(
    changes: str, options: Mapping[str, Any]
) -> None:
    plan = planned(f"SELECT MAX(n) AS m FROM {COUNTS}", changes, **options)
    assert monotonic(plan) == []


# split_distinct


def test_a_distinct_is_spread_over_buckets_and_put_together() -> None:
    plan = planned("SELECT k, COUNT(DISTINCT x) AS n, SUM(y) AS s FROM t GROUP BY k", **SPLIT)
    partial, final = aggregates(plan.root)
    assert isinstance(partial, IncrementalAggregate)
    assert partial.spec.group_by == ("k", "$h0")
    assert calls(plan.root) == [["count(DISTINCT x)", "sum(y)"], ["sum0($p0)", "sum($p1)"]]
    assert (final.role, final.spec.group_by) == ("final", ("k",))
    assert plan.schema.names == ["k", "n", "s"]
    assert (
        plan.schema.types
        == planned("SELECT k, COUNT(x) n, SUM(y) s FROM t GROUP BY k").schema.types
    )
    (expand,) = [node for node in walk(plan.root) if isinstance(node, Expand)]
    assert [item for item in expand.projects[0] if isinstance(item, Bucket)] == [Bucket(("x",), 4)]
    assert notes(plan, "split_distinct") == [(True, "keys are spread over 4 buckets of (x)")]


def test_each_distinct_argument_has_a_set_of_keys_and_the_whole_has_one() -> None:
    sql = (
        "SELECT COUNT(DISTINCT x) AS a, COUNT(DISTINCT y) AS b, MAX(x) AS m, VAR_POP(f) AS v FROM t"
    )
    plan = planned(sql, **SPLIT)
    (expand,) = [node for node in walk(plan.root) if isinstance(node, Expand)]
    assert aggregates(plan.root)[0].spec.group_by == ("$h0", "$h1", "$w")
    assert len(expand.projects) == 3
    assert notes(plan, "split_distinct") == [(True, "keys are spread over 4 buckets of (x), (y)")]
    assert calls(plan.root)[1] == [
        *("sum0($p0)", "sum0($p1)", "max($p2)"),
        "single_value($p3) FILTER (WHERE $w)",
    ]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT k, SUM(DISTINCT f) AS s FROM t GROUP BY k", "exact only where all values"),
        ("SELECT k, AVG(DISTINCT y) AS s FROM t GROUP BY k", "exact only where all values"),
        ("SELECT k, VAR_POP(DISTINCT x) AS s FROM t GROUP BY k", "exact only where all values"),
        ("SELECT k, COUNT(DISTINCT k) AS s FROM t GROUP BY k", "one value for each key"),
        (
            "SELECT k, COUNT(DISTINCT x) AS s, HISTOGRAM(y) AS h FROM t GROUP BY k",
            "histogram(y) cannot pass through a second aggregate",
        ),
    ],
)
def test_what_is_not_split_says_why(sql: str, why: str) -> None:
    plan = planned(sql, **SPLIT)
    ((fired, said),) = notes(plan, "split_distinct")
    assert not fired
    assert why in said
    assert len(aggregates(plan.root)) == 1


def test_a_split_has_to_be_asked_for_and_needs_a_distinct() -> None:
    plan = planned("SELECT k, COUNT(DISTINCT x) AS n FROM t GROUP BY k")
    off = "table.optimizer.distinct-agg.split.enabled is false"
    assert notes(plan, "split_distinct") == [(False, off)]
    assert (
        notes(planned("SELECT k, COUNT(x) AS n FROM t GROUP BY k", **SPLIT), "split_distinct") == []
    )


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("TINYINT", [127, 126, 125, -128, 3]),
        ("INT", [2**31 - 1, 2**31 - 2, 2**31 - 3, 7]),
        ("BIGINT", [2**53 + 1, 2**53 + 3, 2**53 + 4, -5]),
        ("DECIMAL(10,2)", [Decimal("99999999.99"), Decimal("99999999.98"), Decimal("-0.01")]),
    ],
)
def test_sums_and_means_of_large_values_are_what_they_are_unsplit(
    kind: str, values: list[Any], dialect: str
) -> None:
    """Also where a part wraps, in Flink's types."""
    assert_split_or_not(kind, values, dialect)


def test_a_part_without_room_is_no_null_in_flinks_sums() -> None:
    large = Decimal(10) ** 37 * 9
    assert_split_or_not("DECIMAL(38,0)", [large - 1, 1 - large, large - 2, 3 - large], "flink")


def assert_split_or_not(kind: str, values: list[Any], dialect: str) -> None:
    """Sums and means of values that come twice each, and of which the first goes again."""
    sql = "SELECT AVG(DISTINCT x) a, SUM(DISTINCT x) b, AVG(x) c, SUM(x) d, COUNT(DISTINCT x) e FROM t"
    found = []
    for options in ({}, {**SPLIT, "on_orphan_retraction": "keep"}):
        keywords: dict[str, Any] = {"backend": "python", "dialect": dialect, **options}
        with Harness.from_sql(sql, {"t": f"x {kind}"}, **keywords) as harness:
            for value in values:
                harness.process([("+I", value), ("+I", value)])
                harness.flush()
            harness.process([("-D", values[0]), ("-D", values[0])])
            harness.flush()
            found.append(harness.changes())
    assert fold(found[0]) == fold(found[1])


# two_phase and incremental


@pytest.mark.parametrize(
    ("sql", "changes", "options", "why"),
    [
        ("SUM(x)", "append", {}, ""),
        ("SUM(x)", "append", {"agg_phase_strategy": "TWO_PHASE"}, ""),
        ("SUM(x)", "retract", {"on_orphan_retraction": "keep"}, ""),
        ("SUM(x)", "append", {"mini_batch_enabled": False}, "mini-batch.enabled is false"),
        ("SUM(x)", "append", {"agg_phase_strategy": "ONE_PHASE"}, "strategy is ONE_PHASE"),
        ("SUM(x), LAST_VALUE(x)", "append", {}, "LAST_VALUE depends on the order of rows"),
        (
            "LISTAGG(k)",
            "append",
            {"agg_phase_strategy": "TWO_PHASE"},
            "LISTAGG depends on the order",
        ),
        ("SUM(x)", "retract", {}, "on_orphan_retraction='drop'"),
        ("SUM(x)", "retract", {"on_orphan_retraction": "error"}, "on_orphan_retraction='error'"),
    ],
)
def test_when_an_aggregate_has_two_phases(
    sql: str, changes: str, options: Mapping[str, Any], why: str
) -> None:
    plan = planned(f"SELECT k, {sql} FROM t GROUP BY k", changes, **options)
    assert any(isinstance(node, LocalAggregate) for node in walk(plan.root)) == (not why)
    ((fired, said),) = notes(plan, "two_phase")
    assert fired == (not why)
    assert (why or "every call merges") in said


def test_what_an_operator_emits_is_complete() -> None:
    """The lower aggregate must ask each retraction whether its row ever came; the upper one need not."""
    plan = planned(f"SELECT MAX(n) AS m FROM {COUNTS}", "retract")
    assert [fired for fired, _ in notes(plan, "two_phase")] == [False, True]
    assert [node.merges for node in aggregates(plan.root)] == [False, True]


def test_rows_that_are_in_one_place_stay_there() -> None:
    inner = "(SELECT k AS key, SUM(x) AS s FROM t GROUP BY k) AS c"
    plan = planned(f"SELECT key, MAX(s) AS m FROM {inner} GROUP BY key")
    assert notes(plan, "two_phase")[0] == (False, "the rows of a key are in one place already")
    plan = planned(f"SELECT s, MAX(key) AS m FROM {inner} GROUP BY s")
    assert notes(plan, "two_phase")[1][0]


@pytest.mark.parametrize(
    ("options", "fired", "why"),
    [
        ({}, True, "share a node"),
        ({"incremental_agg_enabled": False}, False, "incremental-agg-enabled is false"),
    ],
)
def test_the_halves_that_meet_become_one_node(
    options: Mapping[str, Any], fired: bool, why: str
) -> None:
    plan = planned("SELECT k, COUNT(DISTINCT x) AS n FROM t GROUP BY k", **SPLIT, **options)
    assert any(isinstance(node, IncrementalAggregate) for node in walk(plan.root)) == fired
    ((said, text),) = notes(plan, "incremental")
    assert (said, why in text) == (fired, True)


def test_halves_do_not_meet_over_a_partial_aggregate_of_one_phase() -> None:
    sql = "SELECT k, COUNT(DISTINCT x) AS n, FIRST_VALUE(x) AS f FROM t GROUP BY k"
    plan = planned(sql, **SPLIT)
    assert notes(plan, "incremental") == [(False, "the partial aggregate has one phase")]
    assert notes(planned(sql, agg_phase_strategy="ONE_PHASE", **SPLIT), "incremental") == []


# Traits


@pytest.mark.parametrize(
    ("sql", "changes", "kinds"),
    [
        ("SELECT k FROM t", "append", "I"),
        ("SELECT k FROM t", "retract", "I UB UA D"),
        ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", "append", "I UB UA"),
        ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", "retract", "I UB UA D"),
        ("SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) < 3", "append", "I UB UA D"),
        ("SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING k > 'a'", "append", "I UB UA"),
        (f"SELECT n, COUNT(*) AS c FROM {COUNTS} GROUP BY n", "append", "I UB UA D"),
        (f"SELECT COUNT(*) AS c FROM {COUNTS}", "append", "I UB UA"),
        ("SELECT k FROM t UNION ALL SELECT k FROM t GROUP BY k", "append", "I UB UA"),
    ],
)
def test_kinds_of_changes_that_leave_a_query(sql: str, changes: str, kinds: str) -> None:
    assert planned(sql, changes).root.changelog == tuple(kinds.split())


def test_a_local_half_only_sends_accumulators() -> None:
    plan = planned(
        "SELECT k, SUM(x) AS n FROM t GROUP BY k", "retract", on_orphan_retraction="keep"
    )
    (local,) = [node for node in walk(plan.root) if isinstance(node, LocalAggregate)]
    assert local.changelog == ("I",)


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT k, g, COUNT(*) AS n FROM t GROUP BY k, g", ("k", "g")),
        ("SELECT COUNT(*) AS n, g AS b, k AS a FROM t GROUP BY k, g", ("a", "b")),
        ("SELECT DISTINCT x FROM t", ("x",)),
        ("SELECT k, x FROM t UNION SELECT k, g FROM t", ("k", "x")),
        ("SELECT SUM(x) AS s FROM t", ()),
        ("SELECT COUNT(*) AS n FROM t GROUP BY k", None),
        ("SELECT UPPER(k) AS k, COUNT(*) AS n FROM t GROUP BY k", None),
        ("SELECT k FROM t", None),
        ("SELECT k FROM t GROUP BY k UNION ALL SELECT k FROM t GROUP BY k", None),
    ],
)
def test_the_key_of_a_result(sql: str, key: tuple[str, ...] | None) -> None:
    assert planned(sql).key == key
    assert planned(sql, **SPLIT).key == key


def test_trends() -> None:
    plan = planned(f"SELECT * FROM {COUNTS}")
    assert plan.logical.trends == {
        "k": "constant",
        "n": "increasing",
        "hi": "increasing",
        "lo": "decreasing",
    }
    # Over rows that are taken back nothing only grows; what stays is the key of a row.
    assert planned(f"SELECT * FROM {COUNTS}", "retract").logical.trends == {"k": "constant"}


def test_planning_takes_no_longer_for_depth() -> None:
    """Traits ask each other at every level: asked anew each time, thirty would take longer than the universe."""
    sql = "t"
    for depth in range(30):
        sql = f"(SELECT k, COUNT(*) AS g, MAX(x) AS x FROM {sql} AS q{depth} WHERE x > 0 GROUP BY k, g)"
    plan = planned(f"SELECT k, MAX(g) AS m FROM {sql} AS q GROUP BY k")
    assert len(aggregates(plan.root)) == 31


# Options


@pytest.mark.parametrize(
    ("name", "keyword", "value", "read"),
    [
        ("table.exec.mini-batch.enabled", "mini_batch_enabled", "false", False),
        ("table.exec.mini-batch.allow-latency", "mini_batch_allow_latency", "2 s", 2000),
        ("table.exec.mini-batch.size", "mini_batch_size", "500", 500),
        ("table.optimizer.agg-phase-strategy", "agg_phase_strategy", "one_phase", "ONE_PHASE"),
        ("table.optimizer.distinct-agg.split.enabled", "distinct_agg_split_enabled", "TRUE", True),
        ("table.optimizer.distinct-agg.split.bucket-num", "distinct_agg_split_bucket_num", "8", 8),
        ("table.optimizer.incremental-agg-enabled", "incremental_agg_enabled", "false", False),
        ("table.exec.state.ttl", "state_ttl", "1 h", 3_600_000),
    ],
)
def test_an_option_by_its_names_and_by_set(name: str, keyword: str, value: str, read: Any) -> None:
    expected = PlanOptions(**{keyword: read})
    assert PlanOptions.of({name: value}) == expected
    assert PlanOptions.of({name.upper(): value}) == expected
    assert PlanOptions.of({}, **{keyword: read}) == expected
    assert expected.changed_options == {name: read}
    sql = f"SET '{name}' = '{value}'; SELECT COUNT(*) AS n FROM t"
    assert plan_query(sql, TABLES).options == expected
    # What the script says wins.
    assert plan_query(sql, TABLES, options=PlanOptions()).options == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"table.exec.mini-batch.enable": True}, ["mini-batch.enable'", "mini-batch.enabled'"]),
        ({"mini_batch": True}, ["'mini_batch'", "'mini_batch_size'"]),
        ({"mini_batch_enabled": "yes"}, ["mini_batch_enabled", "'yes'", "true or false"]),
        ({"table.exec.state.ttl": "soon"}, ["table.exec.state.ttl", "'soon'", "duration"]),
        ({"table.exec.state.ttl": "-1 s"}, ["table.exec.state.ttl", "duration"]),
        ({"distinct_agg_split_bucket_num": 0}, ["distinct_agg_split_bucket_num", "from 1 on"]),
        ({"mini_batch_size": "many"}, ["mini_batch_size", "'many'", "whole number"]),
        ({"mini_batch_size": True}, ["mini_batch_size", "True"]),
        ({"agg_phase_strategy": "TWO-PHASE"}, ["agg_phase_strategy", "'TWO_PHASE'"]),
        ({"on_orphan_retraction": "ignore"}, ["on_orphan_retraction", "'drop'"]),
    ],
)
def test_a_wrong_option_is_named_with_a_hint(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(OptionError) as caught:
        PlanOptions.of(options)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("setting", ["SET x", "SET 'a' =", "SET = 1", "SET 'no.such' = '1'"])
def test_a_wrong_set_is_refused(setting: str) -> None:
    with pytest.raises(OptionError):
        plan_query(f"{setting}; SELECT COUNT(*) AS n FROM t", TABLES)


def test_input_changes_name_tables_that_are_there() -> None:
    with pytest.raises(OptionError, match="'u'"):
        plan_query("SELECT k FROM t", TABLES, input_changes={"u": "append"})
    with pytest.raises(SpecError, match="'appends'"):
        plan_query("SELECT k FROM t", TABLES, input_changes="appends")
