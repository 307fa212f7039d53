"""Explanations of plans are true, in text and JSON: their bytes are those of the arrays."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner, Result
from handlers import handler_class

import aggloom as al
from aggloom.cli import main
from aggloom.codegen.operators.footprint import KEY_TABLE, TABLE, state_of
from aggloom.codegen.planner import (
    Plan,
    PlanOptions,
    as_json,
    as_svg,
    as_text,
    as_tree,
    describe,
    plan_query,
    plan_spec,
)
from aggloom.errors import AggloomError, OptionError, SpecError, UnknownTableError
from aggloom.runtime.operators.group_aggregate import GroupAggOperator
from aggloom.runtime.storage.blocks import STRIDE
from aggloom.runtime.views.sequence import SequenceView

T = {"t": "a BIGINT, b INT, c STRING, d DOUBLE"}
SPLIT = PlanOptions.of({"table.optimizer.distinct-agg.split.enabled": "true"})
USER_DEFINED = """
class MyCount:
    def create(self):
        return 0

    def accumulate(self, state, x):
        return state + 1

    def retract(self, state, x):
        return state - 1

    def value(self, state):
        return state
"""


def tree_of(sql: str, changes: str = "append", **options: Any) -> str:
    return as_tree(planned(sql, changes, **options))


def planned(sql: str, changes: str = "append", **options: Any) -> Plan:
    return plan_query(sql, T, input_changes=changes, options=PlanOptions.of(options))


# What a node says


def test_a_described_node_says_what_it_keeps_and_why() -> None:
    plan = planned("SELECT a, COUNT(DISTINCT c) AS n FROM t GROUP BY a")
    described = describe(plan)
    node = described["plan"]
    assert json.loads(as_json(plan)) == described
    assert (node["node"], node["id"], node["keys"]) == ("GlobalGroupAggregate", 1, ["a"])
    assert node["details"] == {"groupBy": ["a"], "select": ["a", "COUNT(DISTINCT c) AS n"]}
    assert node["changelog_mode"] == ["I", "UB", "UA"]
    assert node["unique_key"] == described["unique_key"] == ["a"]
    assert node["columns"] == described["columns"] == {"a": "BIGINT", "n": "BIGINT"}
    assert node["state"]["bounded_by"] == [
        "the number of keys",
        "per key, the distinct values of c",
    ]
    assert node["state"]["texts"] is True
    exchange = node["inputs"][0]
    assert exchange["details"] == {"distribution": ["hash[a]"]}
    (local,) = exchange["inputs"]
    assert local["node"] == "LocalGroupAggregate" and local["handler"] == node["handler"]
    assert "state" not in local and local["unique_key"] is None
    rules = {rule["rule"]: rule["fired"] for rule in node["rules"]}
    assert rules == {"split_distinct": False, "two_phase": True}


def test_the_digest_is_that_of_the_spec() -> None:
    spec = al.AggSpec.from_sql("SELECT a, SUM(b) AS s FROM t GROUP BY a", "a INT, b INT")
    node = describe(plan_spec(spec))["plan"]
    assert node["handler"] == spec.digest
    assert f"handler {spec.digest}" in as_text(plan_spec(spec))


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("SELECT a FROM t WHERE b > 1", "Calc(select=[a], where=[`b` > 1], changelogMode=[I])"),
        ("SELECT a + 1 AS x FROM t", "Calc(select=[`a` + 1 AS x], changelogMode=[I])"),
        ("SELECT a AS x FROM t", "Calc(select=[a AS x], changelogMode=[I])"),
        ("SELECT COUNT(*) AS n FROM t", "Exchange(distribution=[single], changelogMode=[I])"),
        (
            "SELECT COUNT(b) FILTER (WHERE a > 1) AS n FROM t",
            "GlobalGroupAggregate(select=[COUNT(b) FILTER (WHERE (a > 1)) AS n], "
            "changelogMode=[I,UB,UA])",
        ),
        ("SELECT DISTINCT a FROM t", "LocalGroupAggregate(groupBy=[a], select=[a], changelogMode"),
        ("SELECT * FROM t UNION ALL SELECT * FROM t", "Union(all=[true], union=[a, b, c, d], "),
        ("SELECT * FROM t UNION ALL SELECT * FROM t", ":- TableSourceScan(table=[[t]], fields=[a,"),
        (
            "SELECT a, COUNT(*) AS n FROM t GROUP BY ROLLUP (a)",
            "Expand(projects=[{a, 0 AS $e}, {null AS a, 1 AS $e}], changelogMode=[I])",
        ),
    ],
)
def test_lines_of_the_tree(sql: str, line: str) -> None:
    assert line in tree_of(sql)


def test_rows_that_are_taken_back_show() -> None:
    tree = tree_of("SELECT a, SUM(b) AS s FROM t GROUP BY a", "retract")
    assert tree.startswith("GroupAggregate(groupBy=[a], select=[a, SUM_RETRACT(b) AS s]")
    assert tree.count("changelogMode=[I,UB,UA,D]") == 3 + 1


def test_a_function_of_the_users_is_called_by_its_name() -> None:
    arguments = {"arguments": {"x": "INT"}, "result": "BIGINT"}
    al.register({"name": "MY_COUNT", **arguments, "source": USER_DEFINED})
    try:
        tree = tree_of("SELECT a, MY_COUNT(b) AS n, SUM(b) AS s FROM t GROUP BY a", "retract")
    finally:
        al.unregister("MY_COUNT")
    assert "select=[a, MY_COUNT(b) AS n, SUM_RETRACT(b) AS s]" in tree


def test_steps_between_the_halves_of_one_node_show() -> None:
    sql = "SELECT a, COUNT(DISTINCT c), SUM(d) FROM t GROUP BY a"
    plan = plan_query(sql, T, input_changes="append", options=SPLIT)
    text = as_text(plan)
    assert "partialAggGrouping=[a, $h0, $w], finalAggGrouping=[a]" in text
    assert "MOD(HASH_CODE(c), 1024) AS $h0" in text
    assert "SINGLE_VALUE_RETRACT($p1) FILTER (WHERE $w) AS $f1" in text
    assert re.search(
        r"IncrementalGroupAggregate: unique key none; handler \w+, for the final", text
    )


@pytest.mark.parametrize(
    ("sql", "options", "said"),
    [
        ("COUNT(b)", {}, "two_phase fired: every call merges"),
        ("FIRST_VALUE(b)", {}, "two_phase did not fire: FIRST_VALUE depends on the order of rows"),
        (
            "COUNT(b)",
            {"agg_phase_strategy": "one_phase"},
            "two_phase did not fire: table.optimizer.agg-phase-strategy is ONE_PHASE",
        ),
        (
            "COUNT(DISTINCT b)",
            {"distinct_agg_split_enabled": True, "distinct_agg_split_bucket_num": 7},
            "split_distinct fired: keys are spread over 7 buckets of (b)",
        ),
        (
            "SUM(DISTINCT d)",
            {"distinct_agg_split_enabled": True},
            "split_distinct did not fire: sum(DISTINCT d) is exact only where all",
        ),
        (
            "COUNT(DISTINCT b)",
            {"distinct_agg_split_enabled": True, "incremental_agg_enabled": False},
            "incremental did not fire: table.optimizer.incremental-agg-enabled is false",
        ),
    ],
)
def test_why_a_rule_fired_or_did_not(sql: str, options: dict[str, Any], said: str) -> None:
    text = as_text(planned(f"SELECT a, {sql} AS r FROM t GROUP BY a", **options))
    assert f"    {said}" in text


def test_options_that_differ_are_named_as_flink_names_them() -> None:
    text = as_text(planned("SELECT COUNT(*) FROM t", state_ttl="1 min", update_before=False))
    assert text.endswith("options\n  table.exec.state.ttl = 60000\n  update_before = false")
    assert "a key is forgotten 60000 ms after its last change" in text
    assert "written                          time         8" in text
    assert "options" not in as_text(planned("SELECT COUNT(*) FROM t"))


def test_two_aggregates_are_numbered_from_the_result_on() -> None:
    sql = "SELECT n, COUNT(*) AS m FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) GROUP BY n"
    text = as_text(planned(sql))
    outer, inner = re.findall(r"GlobalGroupAggregate\(groupBy=\[(\w)\].*node=\[(\d)\]\)", text)
    assert (outer, inner) == (("n", "1"), ("a", "2"))
    assert text.index("node[1] GlobalGroupAggregate: unique key n") < text.index("node[2] ")


# Bytes


@pytest.mark.parametrize(
    ("keys", "calls", "changes"),
    [
        ("", "COUNT(*) AS n", "append"),
        ("a", "SUM(b) AS s, AVG(d) AS m", "append"),
        ("a", "SUM(d) AS s, VAR_POP(d) AS v", "retract"),
        ("a, c", "SUM(a) AS s", "retract"),
        ("a", "COUNT(DISTINCT c) AS n, SUM(DISTINCT b) FILTER (WHERE b > 1) AS s", "retract"),
        ("a", "COUNT(DISTINCT c) AS n, COUNT(DISTINCT c) FILTER (WHERE b > 1) AS m", "append"),
        ("a", "MAX(b) AS x, MIN(c) AS y", "retract"),
        ("a", "FIRST_VALUE(b) AS x, LAST_VALUE(c) AS y", "retract"),
        ("a", "FIRST_VALUE(b ORDER BY d) AS x", "retract"),
        ("a", "MEDIAN(b) AS m", "retract"),
        ("a", "BIT_AND(b) AS x", "retract"),
        ("a", "APPROX_COUNT_DISTINCT(c) AS n", "append"),
        ("a", "APPROX_PERCENTILE(b, 0.5) AS p", "append"),
    ],
)
@pytest.mark.parametrize("ttl", [0, 1000])
def test_bytes_are_those_of_the_arrays(keys: str, calls: str, changes: str, ttl: int) -> None:
    group = f" GROUP BY {keys}" if keys else ""
    sql = f"SELECT {', '.join(filter(None, [keys, calls]))} FROM t{group}"
    plan = plan_query(sql, T, input_changes=changes, options=PlanOptions(state_ttl=ttl))
    node = describe(plan)["plan"]
    while "state" not in node:
        (node,) = node["inputs"]
    spec = next(
        each.spec for each in _nodes(plan.root) if getattr(each, "update_before", None) is not None
    )
    assert spec.digest == node["handler"]
    operator = GroupAggOperator(handler_class(spec, "numba"), state_ttl=ttl)
    state = operator.state
    state.table.reserve(101)
    state._fit()
    assert state.capacity == 101
    by_key = sum(
        array.nbytes
        for name, array in state.arena
        if len(array) == 101 and not name.startswith("pool.")
    )
    assert node["state"]["bytes_per_key"] == by_key // 101 + KEY_TABLE
    parts = {part["name"]: part for part in node["state"]["parts"]}
    for name, view in state.accumulators.views.items():
        said = parts[name].get("bytes_per_entry", 0)
        arrays = getattr(view, "_tree", view).arrays
        if isinstance(view, SequenceView):
            nodes = sum(int(kind[1:]) for name, kind in SequenceView._BY_NODE if name != "free")
            assert said == nodes + TABLE
        elif hasattr(arrays, "root"):
            assert 1.5 < said / (8 * int(arrays.meta[STRIDE])) < 1.82
        else:
            assert said == 0
    operator.close()


def test_the_table_has_as_many_cells_as_the_page_says(tmp_path: Path) -> None:
    spec = al.AggSpec("a BIGINT", ("a",), (al.AggCall("COUNT"),))
    index = GroupAggOperator(handler_class(spec, "numba"), directory=tmp_path).state.index
    cells = []
    for start in range(0, 150_000, 997):
        index.lookup(np.arange(start, start + 997)[:, None], np.zeros(997, np.uint8))
        cells.append(index.arrays.table.nbytes / len(index))
    kept = cells[20:]
    assert min(kept) < KEY_TABLE < max(kept)
    assert max(kept) / KEY_TABLE < 1.1 and min(kept) / KEY_TABLE > 0.8


def test_what_cannot_be_compiled_has_no_bytes() -> None:
    spec = al.AggSpec("a INT, b INT", ("a",), (al.AggCall("SUM", ("b",)),))
    assert state_of(spec, "numba", 0)["bytes_per_key"] == 48
    kept = state_of(spec, "python", 0)
    assert kept["bytes_per_key"] is None and kept["compiled"] is False
    assert "the number of keys: Python objects" in as_text(plan_spec(spec), "python")


@pytest.mark.parametrize(
    ("call", "changes", "bound"),
    [
        ("SUM(b)", "retract", "the number of keys: "),
        ("MAX(b)", "append", "the number of keys: "),
        ("MAX(b)", "retract", "the number of keys and, per key, the distinct values of b: "),
        ("FIRST_VALUE(b)", "retract", "the number of keys and, per key, the rows, for b: "),
        ("APPROX_COUNT_DISTINCT(c)", "append", "the number of keys: "),
        ("FIRST_VALUE(b ORDER BY d)", "retract", "and, per key, the distinct values of (d, b): "),
    ],
)
def test_what_bounds_a_state(call: str, changes: str, bound: str) -> None:
    text = as_text(planned(f"SELECT a, {call} AS r FROM t GROUP BY a", changes))
    assert bound in text


def test_one_group_is_bounded_by_one_key() -> None:
    text = as_text(planned("SELECT MAX(b) AS m FROM t", "retract"))
    assert "unique key one row" in text
    assert "state bounded by one key and the distinct values of b: " in text


# The front door


def test_a_single_aggregate_keeps_its_words_and_gets_a_plan() -> None:
    spec = al.AggSpec.from_sql("SELECT a, SUM(b) AS s FROM x GROUP BY a", "a INT, b INT")
    for text in (
        al.explain(spec),
        al.explain("SELECT a, SUM(b) AS s FROM x GROUP BY a", "a INT, b INT"),
    ):
        assert text.startswith(
            "GROUP BY a\ninput   retracting, dialect spark\ncalls\n  SUM(b) AS s"
        )
        assert "sum_b                            int      8 bytes a key" in text
        assert "\nplan\n  GroupAggregate(groupBy=[a], select=[a, SUM_RETRACT(b) AS s]" in text
    assert "table=[[t]]" in al.explain(spec)
    assert "table=[[x]]" in text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n FROM (SELECT a, COUNT(*) AS n FROM x GROUP BY a)",
        "CREATE TEMPORARY VIEW v AS SELECT a FROM x; SELECT COUNT(*) FROM v",
        "WITH v AS (SELECT a FROM x), w AS (SELECT a FROM v) SELECT COUNT(*) FROM w",
        "WITH x AS (SELECT a FROM x) SELECT COUNT(*) FROM x",
        "SELECT a FROM x UNION ALL SELECT a FROM X",
    ],
)
def test_a_schema_is_that_of_the_only_table(sql: str) -> None:
    text = al.explain(sql, "a INT, b INT")
    assert text.startswith("plan\n  ")
    assert "TableSourceScan(table=[[x]]" in text


def test_tables_options_and_changes_by_name() -> None:
    text = al.explain(
        "SELECT a, COUNT(*) AS n FROM (SELECT a FROM x UNION ALL SELECT a FROM y) GROUP BY a",
        tables={"x": "a INT, b INT", "y": "a INT"},
        input_changes={"x": "append"},
        options={"table.exec.state.ttl": "1 h"},
        on_orphan_retraction="keep",
    )
    assert "table=[[x]], fields=[a, b], changelogMode=[I])" in text
    assert "table=[[y]], fields=[a], changelogMode=[I,UB,UA,D])" in text
    assert "LocalGroupAggregate" in text
    assert text.endswith("    table.exec.state.ttl = 3600000\n    on_orphan_retraction = keep")
    one = al.explain("SELECT COUNT(*) FROM x", "a INT", options=PlanOptions(state_ttl=5))
    assert "table.exec.state.ttl = 5" in one
    script = "SET 'table.exec.state.ttl' = '7 ms'; SELECT COUNT(*) FROM x"
    assert "table.exec.state.ttl = 7" in al.explain(script, "a INT", state_ttl=5)


def test_formats() -> None:
    query = ("SELECT a, SUM(b) AS s FROM t GROUP BY a", "a INT, b INT")
    plan = plan_query(query[0], {"t": query[1]})
    assert json.loads(al.explain(*query, format="json")) == describe(plan)
    assert al.explain(*query, format="svg") == as_svg(plan)
    assert al.explain(*query, backend="python", format="json") == as_json(plan, "python")


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"query": "SELECT a FROM x"}, SpecError, "SQL needs a schema"),
        ({"query": "SELECT a FROM x", "format": "html", "schema": "a INT"}, SpecError, "'html'"),
        ({"query": "SELECT a FROM x", "schema": "a INT", "tables": {}}, SpecError, "leave out one"),
        (
            {"query": "SELECT a FROM x UNION ALL SELECT a FROM y", "schema": "a INT"},
            SpecError,
            "reads 'x' and 'y'; give tables={'x': ..., 'y': ...}",
        ),
        ({"query": "SELECT a FROM x", "tables": {"y": "a INT"}}, UnknownTableError, "no table 'x'"),
        (
            {"query": "SELECT a FROM x JOIN y", "schema": "a INT"},
            SpecError,
            "reads 'x' and 'y'; give tables={'x': ..., 'y': ...}",
        ),
        ({"query": "SELECT a FROM x", "schema": "a INT", "ttl": 1}, OptionError, "option 'ttl'"),
        ({"query": "SELECT SUM(z) FROM x", "schema": "a INT"}, AggloomError, "z"),
        (
            {"query": al.AggSpec("a INT", ("a",)), "schema": "a INT"},
            SpecError,
            "a spec has a schema already",
        ),
    ],
)
def test_mistakes(arguments: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error) as raised:
        al.explain(**arguments)
    assert said in str(raised.value)


# The command line


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments])


def test_the_command_line_plans_queries_over_tables() -> None:
    sql = "SELECT a, SUM(b) AS s FROM (SELECT * FROM x UNION ALL SELECT * FROM y) GROUP BY a"
    tables = ["--table", "x=a INT, b INT", "--table", "y=a INT, b INT"]
    options = ["--set", "table.exec.mini-batch.enabled=false", "--set", "state_ttl=1 h"]
    shown = call("--sql", sql, *tables, *options, "--changes", "append")
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith("plan\n  GroupAggregate(groupBy=[a], select=[a, SUM(b) AS s]")
    assert ":- TableSourceScan(table=[[x]]" in shown.output
    assert "two_phase did not fire: table.exec.mini-batch.enabled is false" in shown.output
    assert "table.exec.state.ttl = 3600000" in shown.output
    data = json.loads(call("--sql", sql, *tables, "--format", "json").output)
    assert data["plan"]["details"]["groupBy"] == ["a"]
    svg = call("--sql", sql, *tables, "--format", "svg").output
    assert ElementTree.fromstring(svg).tag.endswith("svg") and not svg.endswith("\n\n")


def test_the_command_line_explains_a_spec_file(tmp_path: Path) -> None:
    path = tmp_path / "query.yaml"
    spec = al.AggSpec.from_sql("SELECT a, SUM(b) AS s FROM t GROUP BY a", "a INT, b INT")
    path.write_text(spec.to_yaml())
    assert call("--yaml", str(path)).output == al.explain(spec) + "\n"
    assert json.loads(call("--yaml", str(path), "--format", "json").output)["plan"]["keys"] == ["a"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sql", "SELECT a FROM x"], "a query is --sql with --schema"),
        (["--table", "x=a INT"], "--table goes with --sql"),
        (["--sql", "SELECT a FROM x", "--schema", "a INT", "--table", "x=a INT"], "instead of"),
        (["--sql", "SELECT a FROM x", "--table", "x"], "--table is 'x'; it must be"),
        (["--sql", "SELECT a FROM x", "--schema", "a INT", "--set", "=1"], "--set is '=1'"),
        (
            ["--sql", "SELECT a FROM x", "--table", "x=a INT", "--table", "x=b INT"],
            "--table names 'x' twice",
        ),
        (["--sql", "SELECT a FROM x", "--schema", "a INT", "--set", "stat_ttl=1"], "'state_ttl'"),
    ],
)
def test_mistakes_on_the_command_line(arguments: list[str], said: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert said in result.output and "Traceback" not in result.output


def _nodes(root: Any) -> list[Any]:
    return [root, *(found for each in root.inputs for found in _nodes(each))]
