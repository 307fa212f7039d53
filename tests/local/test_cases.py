"""The case runner: on the shared changelogs if they are there, on its own, and on wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cases.format import Case, column_type, computed_columns, parse_case
from cases.functions import spelled_out
from cases.joins import join_program
from cases.program import query_program
from cases.run import deviations, main, report, run_directory
from cases.settings import settings
from click.testing import CliRunner

from aggloom.codegen.planner import PlanOptions, Scan, walk
from aggloom.errors import CaseFormatError

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared" / "cases"
USER_DEFINED = HERE.parent / "cases"
WHOLE = ("group_agg", "mini_batch_agg", "incremental_agg")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared cases are not beside the repository")
def test_shared_cases_pass() -> None:
    outcomes = run_directory(SHARED, backends=("python",), known=deviations())
    assert [o for o in outcomes if o.status == "failed"] == []
    assert [o for o in outcomes if o.family in WHOLE and o.status == "not supported"] == []
    assert {o.family for o in outcomes if o.family in WHOLE and o.status == "passed"} == set(WHOLE)
    assert sum(o.status == "passed" for o in outcomes) >= 180


def test_own_cases_pass() -> None:
    outcomes = run_directory(USER_DEFINED, backends=("python",))
    assert [(o.id, o.status, o.reason) for o in outcomes if o.status != "passed"] == []


def test_own_cases_pass_on_the_local_engine() -> None:
    """Each bundle is committed, and the next one runs from the checkpoint."""
    outcomes = run_directory(USER_DEFINED, backends=("python",), committed=True)
    assert [(o.id, o.status, o.reason) for o in outcomes if o.status != "passed"] == []


COMPILED = {"an aggregate of an aggregate under every setting", "grouping sets"}
"""Cases of plans that are compiled, too: each is several handlers."""


@pytest.mark.slow
@pytest.mark.thorough
def test_own_cases_pass_compiled(tmp_path: Path) -> None:
    plans = json.loads((USER_DEFINED / "plans.json").read_text("utf-8"))
    _write(tmp_path, *(case for case in plans if case["id"] in COMPILED))
    (tmp_path / "basics.json").write_text((USER_DEFINED / "basics.json").read_text("utf-8"))
    outcomes = run_directory(tmp_path, backends=("numba",))
    assert {o.id for o in outcomes} > COMPILED
    assert [(o.id, o.status, o.reason) for o in outcomes if o.status != "passed"] == []


def _write(folder: Path, *cases: dict[str, Any]) -> Path:
    (folder / "wrong.json").write_text(json.dumps(list(cases)), encoding="utf-8")
    return folder


def _own(identifier: str) -> dict[str, Any]:
    cases = [
        case
        for path in sorted(USER_DEFINED.glob("*.json"))
        for case in json.loads(path.read_text("utf-8"))
    ]
    found: dict[str, Any] = next(case for case in cases if case["id"] == identifier)
    return found


@pytest.mark.parametrize(
    "identifier",
    [
        c["id"]
        for p in sorted(USER_DEFINED.glob("*.json"))
        for c in json.loads(p.read_text("utf-8"))
    ],
)
def test_a_wrong_expectation_fails(identifier: str, tmp_path: Path) -> None:
    case = _own(identifier)
    for phase in case.get("phases", [case]):
        expect = phase["expect"]
        if expect["mode"] == "accumulator_empty":
            phase["events"] = phase["events"][1:]
        elif expect["mode"] == "count":
            expect["message_count"] += 1
        elif expect["mode"] == "none":
            expect["materialized"] = [{"op": "+I", "row": ["nobody", 1]}]
        else:
            expect["rows"] = expect["rows"][1:] if expect["rows"] else [{"op": "+I", "row": [1]}]
    outcome = run_directory(_write(tmp_path, case))[0]
    assert outcome.status == "failed"
    assert outcome.reason


def test_a_listed_deviation_is_not_a_failure(tmp_path: Path) -> None:
    case = _own("ordered changes")
    case["expect"]["rows"] = []
    outcomes = run_directory(_write(tmp_path, case), known=frozenset([case["id"]]))
    assert [o.status for o in outcomes] == ["deviation"]
    assert (
        next(iter(report(outcomes, False)))
        == "wrong: 0 passed, 0 failed, 0 not supported, 1 deviations"
    )


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT k, MEDIANISH(v) FROM t GROUP BY k", "UnknownFunctionError"),
        ("SELECT k, COUNT(*) FROM u GROUP BY k", "UnknownTableError"),
        ("SELECT k, v FROM t ORDER BY k OFFSET 1", "UnsupportedSqlError"),
    ],
)
def test_what_is_missing_is_told_by_the_error_of_the_product(
    sql: str, reason: str, tmp_path: Path
) -> None:
    case = _own("ordered changes")
    case["params"]["sql"] = sql
    outcome = run_directory(_write(tmp_path, case))[0]
    assert (outcome.status, outcome.reason.partition(":")[0]) == ("not supported", reason)


SMALL: dict[str, Any] = {
    "tables": {"t": {"k": "STRING", "v": "INT"}},
    "sql": "SELECT k, COUNT(DISTINCT v) AS n FROM t GROUP BY k",
}


def _case(params: dict[str, Any], mode: str = "unordered") -> Case:
    item = {"id": "x", "kind": "incremental_agg", "params": {**SMALL, **params}, "events": []}
    return parse_case("own", {**item, "expect": {"mode": mode, "rows": []}})


def test_settings_are_the_listed_combinations() -> None:
    listed = {
        "mini_batch_variants": [None, 3],
        "local_global_variants": [False, True],
        "distinct_agg_split_variants": [False, True],
    }
    assert [str(setting) for setting in settings(_case(listed), ("python",))] == [
        "python, per record",
        "python, bundles of 3",
        "python, bundles of 3, split",
        "python, bundles of 3, two phase",
        "python, bundles of 3, two phase, split",
        "python, bundles of 3, two phase, split, spread",
    ]
    assert [str(setting) for setting in settings(_case({"ttl_ms": 5}), ("python",))] == [
        "python, per record"
    ]


def test_a_split_aggregate_in_bundles_of_one_row_is_incremental() -> None:
    case = _case({"mini_batch_size": 1, "distinct_agg_split": True})
    program = query_program(case)
    each = list(settings(case, ("python",)))
    plans = [program.plan(setting.options(case)) for setting in each]
    nodes = [{type(node).__name__ for node in walk(plan.root)} for plan in plans]
    assert ["IncrementalAggregate" in names for names in nodes] == [False, True, True]
    assert [setting.tells(p, case) for setting, p in zip(each, plans, strict=True)] == [
        True,
        True,
        False,
    ]


NESTED = "SELECT n, COUNT(*) AS ks FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) GROUP BY n"


def test_messages_between_bundles_are_compared_as_a_table(tmp_path: Path) -> None:
    case = _own("ordered changes")
    case["params"] |= {"sql": NESTED, "mini_batch_size": 2}
    case["expect"]["rows"] = [{"op": "+I", "row": [1, 2]}, {"op": "-D", "row": [1, 2]}]
    case["expect"]["rows"].append({"op": "+I", "row": [2, 1]})
    (outcome,) = run_directory(_write(tmp_path, case))
    assert outcome.status == "passed"
    assert "only as the table" in outcome.reason
    assert outcome.reason in "".join(report([outcome], True))
    case["expect"]["rows"].pop()
    (outcome,) = run_directory(_write(tmp_path, case))
    assert (outcome.status, "table: " in outcome.reason) == ("failed", True)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("INT (unique)", "int32"),
        ("BIGINT (seconds)", "int64"),
        ("TIMESTAMP(3) epoch ms", "timestamp[us]"),
        ("DECIMAL(5, 2) (primary key)", "decimal128(5, 2)"),
        ("BIGINT NOT NULL", "int64"),
    ],
)
def test_remarks_after_a_type_are_ignored(text: str, type_: str) -> None:
    assert str(column_type(text)) == type_


def test_remarks_after_a_computed_column_are_ignored() -> None:
    declared = {
        "a": "INT",
        "b": "AS ROUND(f(a), 1), time zone UTC; WATERMARK = b",
        "c": "AS f(g(a)) (read as seconds)",
        "d": "AS a * (a + 1)",
    }
    assert computed_columns(declared) == {"b": "ROUND(f(a), 1)", "c": "f(g(a))", "d": "a * (a + 1)"}


def test_an_event_of_no_table_is_told(tmp_path: Path) -> None:
    case = _own("two tables in a union")
    del case["events"][0]["table"]
    (outcome,) = run_directory(_write(tmp_path, case))
    assert (outcome.status, outcome.reason) == ("not supported", "an event of the table None")


def test_the_exit_code_tells(tmp_path: Path) -> None:
    good = CliRunner().invoke(main, [str(USER_DEFINED), "--backend", "python"])
    assert (good.exit_code, "0 failed" in good.output) == (0, True)
    case = _own("ordered changes")
    case["expect"]["rows"] = []
    bad = CliRunner().invoke(main, [str(_write(tmp_path, case)), "--backend", "python"])
    assert bad.exit_code == 1
    assert "failed ordered changes" in bad.output


def test_a_malformed_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaseFormatError, match=r"wrong\.json, case 0"):
        run_directory(_write(tmp_path, {"id": "x"}))


def _sums(**params: Any) -> dict[str, Any]:
    """A case of one table t(a, b), summed by a."""
    rows = [{"op": "+I", "row": [1, 2]}, {"op": "+I", "row": [1, 3]}]
    return {
        "source": "own",
        "id": "own",
        "kind": "group_agg",
        "params": {"schema": {"a": "INT", "b": "BIGINT"}, **params},
        "events": [*rows, {"end_of_input": True}],
        "expect": {"mode": "materialized", "rows": [{"op": "+I", "row": [1, 5]}]},
    }


def _outcome(tmp_path: Path, case: dict[str, Any]) -> tuple[str, str]:
    (outcome,) = run_directory(_write(tmp_path, case))
    return outcome.status, outcome.reason


def test_a_query_may_be_told_by_its_calls(tmp_path: Path) -> None:
    assert _outcome(tmp_path, _sums(key=["a"], aggs=["SUM(b)"])) == ("passed", "")
    status, reason = _outcome(tmp_path, _sums())
    assert (status, "without 'sql'" in reason) == ("not supported", True)


def test_params_that_are_missing_are_told(tmp_path: Path) -> None:
    case = _sums(sql="SELECT a, SUM(b) FROM T GROUP BY a")
    del case["params"]["schema"]
    assert _outcome(tmp_path, case) == ("not supported", "params without 'schema'")


def test_unknown_events_and_modes_do_not_stop_the_others(tmp_path: Path) -> None:
    for change in ({"events": [{"pause": 1}]}, {"expect": {"mode": "guess", "rows": []}}):
        case = {**_sums(key=["a"], aggs=["SUM(b)"]), **change}
        status, reason = _outcome(tmp_path, case)
        assert (status, reason.startswith("unknown ")) == ("not supported", True)


def test_a_time_column_may_be_declared_beside_the_schema(tmp_path: Path) -> None:
    sql = "SELECT a, MAX(rowtime) AS last FROM T GROUP BY a"
    case = _sums(sql=sql, rowtime="b (epoch ms), ascending")
    case["expect"]["rows"] = [{"op": "+I", "row": [1, "1970-01-01T00:00:00.003"]}]
    assert _outcome(tmp_path, case)[0] == "passed"
    case = _sums(sql=sql, rowtime="TIMESTAMP(3)")
    case["events"] = [{"op": "+I", "row": [1, 2, "1970-01-01 00:00:07"]}]
    case["expect"]["rows"] = [{"op": "+I", "row": [1, "1970-01-01 00:00:07"]}]
    assert _outcome(tmp_path, case)[0] == "passed"


@pytest.mark.parametrize("said", [{"mode": "set"}, {"compare": "set"}, {"as_set": True}])
def test_a_case_may_ask_for_a_set(tmp_path: Path, said: dict[str, Any]) -> None:
    case = _sums(sql="SELECT b FROM T WHERE b > 0 UNION ALL SELECT b FROM T")
    case["expect"] = {"mode": "unordered", "rows": [{"op": "+I", "row": [b]} for b in (3, 2)]}
    assert _outcome(tmp_path, case)[0] == "failed"
    case["expect"] |= said
    assert _outcome(tmp_path, case)[0] == "passed"
    case["expect"]["rows"].pop()
    assert _outcome(tmp_path, case)[0] == "failed"


def test_windows_may_count_rows(tmp_path: Path) -> None:
    case = _sums()
    case["kind"] = "group_window"
    for window in ({"type": "COUNT", "size": 2}, {"type": "COUNT_TUMBLE", "size_rows": 2}):
        case["params"] |= {
            "key": ["a"],
            "aggs": ["SUM(b)"],
            "output": ["a", "SUM(b)"],
            "window": window,
        }
        assert _outcome(tmp_path, case)[0] == "passed"


@pytest.mark.parametrize("value", [2**70, "soon", None])
def test_a_time_that_is_none_is_told(tmp_path: Path, value: Any) -> None:
    case = _sums(sql="SELECT a, SUM(b) FROM T GROUP BY a")
    case["events"].insert(0, {"watermark": value})
    status, reason = _outcome(tmp_path, case)
    assert (status, reason.startswith("CaseFormatError: event")) == ("failed", True)


def test_a_time_outside_microseconds_is_told(tmp_path: Path) -> None:
    case = _sums(sql="SELECT a, MAX(b) FROM T GROUP BY a")
    case["params"]["schema"]["b"] = "TIMESTAMP(3)"
    case["events"][0]["row"][1] = 10**18
    status, reason = _outcome(tmp_path, case)
    assert (status, reason) == ("not supported", "a time outside of the years 1 to 9999")


@pytest.mark.parametrize(
    ("sql", "meaning", "spelled"),
    [
        ("SELECT twice(a + 1, f(b, c)) FROM t", "SUM(x * y)", "SELECT SUM(a + 1 * f(b, c)) FROM t"),
        (
            "SELECT TWICE(a), twice (b)",
            "COUNT(DISTINCT x)",
            "SELECT COUNT(DISTINCT a), COUNT(DISTINCT b)",
        ),
        ("SELECT twice(a) OVER w", "TWICE(x)", "SELECT twice(a) OVER w"),
    ],
)
def test_a_function_may_be_told_by_what_it_means(sql: str, meaning: str, spelled: str) -> None:
    assert spelled_out(sql, {"twice": meaning}) == spelled


@pytest.mark.parametrize(
    ("before", "status"),
    [("snapshot", "passed"), ("finish bundle", "passed"), ("pray", "not supported")],
)
def test_what_comes_before_a_phase(tmp_path: Path, before: str, status: str) -> None:
    case = _own("restore between phases")
    for phase in case["phases"][1:]:
        phase["before"] = before
    assert _outcome(tmp_path, case)[0] == status


def test_the_last_watermark_may_be_javas(tmp_path: Path) -> None:
    case = _sums(sql="SELECT a, SUM(b) FROM T GROUP BY a")
    case["events"].append({"watermark": 2**63 - 1})
    assert _outcome(tmp_path, case)[0] == "passed"


def test_the_report_counts_reasons(tmp_path: Path) -> None:
    case = _sums()
    case["kind"] = "matching"
    (outcome,) = run_directory(_write(tmp_path, case))
    lines = list(report([outcome, outcome], False))
    assert lines[0].endswith("0 passed, 0 failed, 2 not supported")
    assert lines[1] == "  2 not supported: operators of the kind matching are not there yet"


def test_params_that_nothing_reads_are_told(tmp_path: Path) -> None:
    case = _sums(sql="SELECT a, SUM(b) FROM T GROUP BY a", impl="MySum", idle_ms=5, emit="never")
    (outcome,) = run_directory(_write(tmp_path, case))
    assert (outcome.status, outcome.unheeded) == ("passed", "emit, idle_ms")
    assert "  not heeded: emit, idle_ms, in own" in list(report([outcome], False))


@pytest.mark.parametrize(
    ("kind", "params", "reason"),
    [
        ("group_window", {"early_fire": {"at": "dawn"}}, "early_fire {'at': 'dawn'}"),
        ("group_window", {"early_fire": "at dawn"}, "early_fire 'at dawn'"),
        ("group_window", {"time": "by the moon"}, "time 'by the moon'"),
        ("group_window", {"window": {"type": "TUMBLE", "size_ms": 5, "skew_ms": 1}}, "window {"),
        ("group_agg", {"sql": "SELECT a FROM T", "options": {"skew": 1}}, "options skew"),
        ("group_agg", {"sql": "SELECT a FROM T", "variants": ["by night"]}, "the variant 'by "),
        ("dedup", {"key": ["a"], "order": "price", "keep": "last"}, "order 'price'"),
    ],
)
def test_what_a_param_says_is_heeded_or_told(
    tmp_path: Path, kind: str, params: dict[str, Any], reason: str
) -> None:
    windows = {"key": ["a"], "aggs": ["SUM(b)"], "output": ["a", "SUM(b)"]}
    case = _sums(**windows, window={"type": "TUMBLE", "size_ms": 5})
    case["kind"] = kind
    case["params"] |= params
    status, said = _outcome(tmp_path, case)
    assert (status, said[: len(reason)]) == ("not supported", reason)


@pytest.mark.parametrize(
    ("said", "key"),
    [
        (None, ()),
        ([], ()),
        ("none", ()),
        ("NoUniqueKey", ()),
        ("contained in join key: (k)", ("k",)),
        ("JoinKeyContainsUniqueKey", ("k",)),
        ("id (not contained in the join key)", ("id",)),
        ("has unique key: (id, v)", ("id", "v")),
        (["id"], ("id",)),
    ],
)
def test_a_unique_key_may_be_told_in_words(said: Any, key: tuple[str, ...]) -> None:
    sides = {"left_schema": {"id": "INT", "k": "INT", "v": "INT"}, "right_schema": {"k0": "INT"}}
    keys = {"left_key": ["k"], "right_key": ["k0"], "left_unique_key": said}
    item = {"id": "x", "kind": "join", "params": {**sides, **keys, "join_type": "INNER"}}
    case = parse_case("own", {**item, "events": [], "expect": {"mode": "ordered", "rows": []}})
    plan = join_program(case).plan(PlanOptions())
    (scan,) = (node for node in walk(plan.root) if isinstance(node, Scan) and node.table == "left")
    assert scan.unique_keys == ((key,) if key else ())


@pytest.mark.parametrize(
    ("watermark", "computed", "late"),
    [
        ("rt - 1 s", "TO_TIMESTAMP(ts)", True),
        ("rt - INTERVAL '1' MINUTE", "TO_TIMESTAMP(ts)", False),
        ("WATERMARK FOR rt AS rt - INTERVAL '0.5' SECOND", "CAST(ts AS TIMESTAMP(3))", True),
        ("rt, after each row", "TO_TIMESTAMP(ts)", True),
        ({"T": "rt - 60 seconds"}, "TO_TIMESTAMP(ts)", False),
    ],
)
def test_a_watermark_may_be_told_in_words(
    tmp_path: Path, watermark: Any, computed: str, late: bool
) -> None:
    sql = "SELECT SUM(b) FROM T GROUP BY TUMBLE(rt, INTERVAL '10' SECOND)"
    case = _sums(sql=sql, watermark=watermark, computed={"rt": computed})
    case["params"]["schema"] = {"ts": "STRING", "b": "INT"}
    times = ("2026-01-01 00:00:01", "2026-01-01 00:00:12", "2026-01-01 00:00:02")
    case["events"] = [{"op": "+I", "row": [time, 1]} for time in times]
    sums = [1, 1] if late else [2, 1]
    rows = [{"op": "+I", "row": [total]} for total in sums]
    case["expect"] = {"mode": "unordered", "rows": rows, "late_records_dropped": int(late)}
    assert _outcome(tmp_path, case) == ("passed", "")


@pytest.mark.parametrize("watermark", ["soon", "rt - a bit"])
def test_a_watermark_that_is_none_is_told(tmp_path: Path, watermark: str) -> None:
    sql = "SELECT SUM(b) FROM T GROUP BY TUMBLE(rt, INTERVAL '10' SECOND)"
    case = _sums(sql=sql, watermark=watermark)
    case["params"]["schema"] = {"rt": "TIMESTAMP(3)", "b": "INT"}
    case["events"] = [{"op": "+I", "row": ["2026-01-01 00:00:01", 1]}]
    assert _outcome(tmp_path, case) == ("not supported", f"watermark {watermark!r}")
