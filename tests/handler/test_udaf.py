"""Users' own functions in specs, text, modules and operators: registered, shipped, merged, explained."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from udafs import (
    BACKENDS,
    CHANGES,
    COUNT,
    PRODUCT,
    RETRACT,
    SCHEMA,
    define,
    define_sum,
    entry,
    my_avg,
    one,
    source,
    spec_of,
    table,
)

import aggloom as al
from aggloom.errors import (
    AggloomError,
    NotMergeableError,
    NotRetractableError,
    SpecError,
    UnknownFunctionError,
)

pytestmark = pytest.mark.usefixtures("registry")

DOCS = Path(__file__).parents[2] / "docs" / "user-functions.md"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["mini_batch", "per_record"])
def test_a_class_in_sql(backend: str, mode: Any) -> None:
    my_avg()
    calls = "MY_AVG(x, y) AS m, my_avg(DISTINCT x, y) AS d, MY_AVG(x, y) FILTER (WHERE x > 3) AS f"
    got = table(calls, CHANGES, backend=backend, mode=mode)
    assert got == [("a", 3, 3, 5), ("b", -2, -2, None)]


def test_a_class_in_calls_yaml_and_json() -> None:
    my_avg()
    spec = al.AggSpec(SCHEMA, ["k"], [al.AggCall("my_avg", ["x", "y"], alias="m")])
    assert spec.calls[0].function == "MY_AVG"
    assert spec == spec_of("MY_AVG(x, y) AS m")
    for text in (spec.to_json(), spec.to_yaml()):
        al.unregister("MY_AVG")
        again = al.AggSpec.from_json(text) if text[0] == "{" else al.AggSpec.from_yaml(text)
        assert again == spec
        assert again.digest == spec.digest
        al.register(again.functions[0])
    assert json.loads(spec.to_json())["functions"] == [dict(spec.functions[0])]


def test_sql_in_yaml_brings_its_functions_along() -> None:
    my_avg()
    function = dict(spec_of("MY_AVG(x, y) AS m").functions[0])
    al.unregister("MY_AVG")
    text = {"sql": "SELECT MY_AVG(x, y) AS m FROM t", "schema": {"x": "INT", "y": "INT"}}
    spec = al.AggSpec.from_json(json.dumps({**text, "functions": [function]}))
    assert spec.functions == (function,)
    with pytest.raises(UnknownFunctionError):
        al.AggSpec.from_json(json.dumps(text))


@pytest.mark.parametrize("backend", ["python", "numba"])
def test_a_spec_and_its_module_work_where_nothing_is_registered(
    tmp_path: Path, backend: Any
) -> None:
    my_avg()
    entry("TWICE", [COUNT], "count * 2", result="BIGINT")
    source = al.generate(spec_of("MY_AVG(x, y) AS m, TWICE(x) AS t"), backend, tmp_path)
    script = (
        "import sys, aggloom as al\n"
        "from aggloom.codegen.catalogue.registry import USER_DEFINED\n"
        "with al.Harness(sys.argv[1]) as harness:\n"
        "    harness.process([('+I', 'a', 3, 2), ('+I', 'a', 9, 1)])\n"
        "    harness.flush()\n"
        "    print(harness.table(), USER_DEFINED, harness.handler.spec().digest)"
    )
    command = [sys.executable, "-c", script, str(source.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    digest = al.AggSpec.from_json(al.load(source).SPEC_JSON).digest
    assert done.stdout.strip() == f"[('a', 5, 4)] {{}} {digest}", done.stderr


def test_two_definitions_under_one_name_are_two_specs() -> None:
    define_sum()
    first = spec_of("MY_SUM(x) AS s", changes="append")
    call = al.AggCall("MY_SUM", "x")
    al.unregister("MY_SUM")
    define("MY_SUM", "0", "return state - x", "state", "BIGINT")
    second = spec_of("MY_SUM(x) AS s", changes="append")
    assert first != second
    assert first.digest != second.digest
    assert al.AggSpec.from_json(first.to_json()) == first
    for spec, total in ((first, 3), (al.AggSpec.from_json(first.to_json()), 3), (second, -3)):
        with al.Harness(spec, backend="python") as harness:
            harness.process([("+I", "a", 3, 0)])
            harness.flush()
            assert harness.table() == [("a", total)]
    with pytest.raises(SpecError, match="two definitions"):
        al.AggSpec(SCHEMA, ["k"], [call, al.AggCall("MY_SUM", "y")], "append")


def test_a_call_is_checked_when_it_is_made() -> None:
    with pytest.raises(AggloomError, match="there is no aggregate function MY_SUM"):
        al.AggCall("MY_SUM", "x")
    define_sum()
    call = al.AggCall("MY_SUM", "x")
    assert al.AggSpec(SCHEMA, ["k"], [call], "append").functions[0]["name"] == "MY_SUM"


def test_names() -> None:
    define_sum()
    define_sum()
    with pytest.raises(
        SpecError, match="registered already with another definition; say replace=True"
    ):
        define("MY_SUM", "0", "return state - x", "state", "BIGINT")
    define("MY_SUM", "0", "return state - x", "state", "BIGINT", replace=True)
    al.unregister("my_sum")
    with pytest.raises(UnknownFunctionError, match="MY_SUM"):
        al.unregister("MY_SUM")
    with pytest.raises(UnknownFunctionError, match="catalogue has a function MY_SUM"):
        spec_of("MY_SUM(x)")
    for taken in ("SUM", "mean", "ROW_NUMBER"):
        with pytest.raises(SpecError, match="built-in function"):
            entry(taken, [COUNT], "count")
    for word in ("COUNT", "UPPER", "CASE", "SELECT", "IF"):
        with pytest.raises(SpecError, match="word of SQL"):
            al.register(
                al.Aggregate(word, append=al.Shape((COUNT,), "count"), result="BIGINT"),
                replace=True,
            )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_state_survives_a_snapshot(backend: Any) -> None:
    my_avg()
    entry("PROD", [COUNT, PRODUCT], "p", "count == 0")
    spec = spec_of("MY_AVG(x, y) AS m, PROD(x) AS p")
    with al.Harness(spec, backend=backend) as harness:
        harness.process(CHANGES)
        saved, shown = harness.snapshot(), harness.table()
        assert backend == harness.handler.BACKEND
    with al.Harness(spec, backend=backend) as harness:
        harness.restore(saved)
        harness.process([("+I", "c", 9, 1), ("+I", "a", 10, 1)])
        harness.flush()
        assert harness.table() == [("a", 5, 150.0), ("b", -2, -14.0), ("c", 9, 9.0)]
    assert shown[0] == ("a", 3, 15.0)


def test_a_class_without_arguments() -> None:
    text = source(
        "def create(): return 0\ndef accumulate(state): return state + 2\ndef value(state): return state"
    )
    al.register({"name": "PAIRS", "arguments": [], "result": "BIGINT", "source": text})
    for backend in ("python", "numba"):
        assert one("PAIRS() AS p, COUNT(*) AS n", (1, None), changes="append", backend=backend) == (
            4,
            2,
        )


def test_what_cannot_take_rows_back_is_refused_over_a_retracting_input() -> None:
    define_sum()
    # A class is given what it lacks: tests/handler/test_without_retract.py.
    for changes in ("append", "retract"):
        assert one("MY_SUM(DISTINCT x)", (1, 1, 2), changes=changes) == 3
    entry("TOP", [al.Field("top", "double", "max(top, x)", "max(top, other_top)")], "top")
    with pytest.raises(
        NotRetractableError, match="TOP cannot retract rows, for its field 'top' has no"
    ):
        spec_of("TOP(x)")
    shape = al.Shape((al.View("ranked", "real"),), "percentile(ranked, 1.0)", "none(ranked)")
    entry(
        "TOP2",
        [al.Field("top", "double", "max(top, x)", "max(top, other_top)")],
        "top",
        retract=shape,
    )
    assert table("TOP2(x) AS t", CHANGES) == [("a", 5.0), ("b", 7.0)]


def handlers(calls: str, backend: str, *batches: Any) -> list[Any]:
    made = []
    for rows in batches:
        handler = al.load(al.generate(spec_of(calls, changes="append"), backend))()  # type: ignore[arg-type]
        handler.setAccumulators(handler.createAccumulators())
        for row in rows:
            handler.accumulate(row)
        made.append(handler)
    return made


@pytest.mark.parametrize("backend", BACKENDS)
def test_merging(backend: str) -> None:
    my_avg()
    entry("PROD", [COUNT, PRODUCT], "p")
    calls = "MY_AVG(x, y) AS m, MY_AVG(DISTINCT x, y) AS d, PROD(x) AS p, PROD(DISTINCT x) AS q"
    rows = [("a", 3, 2), ("a", 5, 1), ("a", 3, 2)]
    ours, theirs = handlers(calls, backend, rows[:2], rows[2:])
    ours.merge(theirs.getAccumulators())
    assert ours.getValue() == (17 // 5, 11 // 3, 45.0, 15.0)
    assert theirs.getValue() == (3, 3, 3.0, 3.0)


def test_merging_objects_shares_nothing() -> None:
    define(
        "ALL_OF",
        "[]",
        "state.append(x)",
        "state",
        "ARRAY<INT>",
        methods={"merge(state, other)": "return state or other"},
    )
    ours, theirs = handlers("ALL_OF(x) AS a", "python", [], [("a", 1, 0)])
    ours.merge(theirs.getAccumulators())
    ours.accumulate(("a", 2, 0))
    assert (ours.getValue(), theirs.getValue()) == (([1, 2],), ([1],))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_cannot_be_merged(backend: str) -> None:
    define_sum(**RETRACT)
    ours, theirs = handlers("MY_SUM(x) AS s", backend, [("a", 1, 0)], [("a", 2, 0)])
    with pytest.raises(
        NotMergeableError, match=r"MY_SUM has no merge; give its class `def merge\(state, other\)`"
    ):
        ours.merge(theirs.getAccumulators())
    assert ours.getValue() == (1,)
    # DISTINCT merges by accumulating what is new.
    ours, theirs = handlers(
        "MY_SUM(DISTINCT x) AS s", backend, [("a", 1, 0)], [("a", 2, 0), ("a", 1, 0)]
    )
    ours.merge(theirs.getAccumulators())
    assert ours.getValue() == (3,)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_operator_without_merge_does_not_compact(backend: Any) -> None:
    define_sum(**RETRACT)
    with al.Harness(spec_of("MY_SUM(x) AS s, COUNT(DISTINCT x) AS n"), backend=backend) as harness:
        rows = [("+I", f"k{n}", n, 0) for n in range(6000)]
        harness.process(rows)
        harness.flush()
        harness.process([("-D", *row[1:]) for row in rows[1:]])
        harness.flush()
        assert not harness.handler.COMPACTS
        assert harness.table() == [("k0", 0, 1)]


def test_explain_on_the_command_line(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from aggloom.cli import main

    my_avg()
    path = tmp_path / "query.yaml"
    path.write_text(spec_of("MY_AVG(x, y) AS m").to_yaml())
    al.unregister("MY_AVG")
    shown = CliRunner().invoke(main, ["explain", "--yaml", str(path), "--backend", "python"])
    assert shown.exit_code == 0, shown.output
    assert "MY_AVG(x, y) AS m: BIGINT" in shown.output
    shown = CliRunner().invoke(
        main, ["explain", "--sql", "SELECT SUM(x) AS s FROM t", "--schema", "x INT"]
    )
    assert "SUM(x) AS s: BIGINT" in shown.output
    with pytest.raises(SpecError, match="SQL needs a schema"):
        al.explain("SELECT x FROM t")


def test_sql_after_registering_and_unregistering() -> None:
    for _ in range(2):
        with pytest.raises(AggloomError):
            spec_of("MY_SUM(x)", changes="append")
        define_sum()
        assert spec_of("MY_SUM(x)", changes="append").calls[0].function == "MY_SUM"
        al.unregister("MY_SUM")


def test_the_page_for_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of Python prints what the block of text after it says."""
    blocks = re.findall(r"```(python|text)\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    assert len(blocks) > 8
    space: dict[str, Any] = {"__name__": "user_functions"}
    printed = io.StringIO()
    for number, (kind, text) in enumerate(blocks):
        if kind == "text":
            assert printed.getvalue() == text
            continue
        path = tmp_path / f"block{number}.py"
        path.write_text(text, encoding="utf-8")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, str(path), "exec"), space)


@pytest.mark.spark
def test_on_spark(spark: Any) -> None:
    from aggloom.runtime.spark.api.group_aggregate import group_aggregate

    my_avg()
    define("JOINED", "[]", "state.append(x)", "'|'.join(sorted(state))", "STRING", "STRING",
           methods={"retract(state, x)": "state.remove(x)"})  # fmt: skip
    entry("PROD", [COUNT, PRODUCT], "p", "count == 0")
    rows = [
        ("a", 10, 1, "x", "+I"),
        ("a", 40, 2, "y", "+I"),
        ("b", 7, 1, "z", "+I"),
        ("a", 10, 1, "x", "-D"),
    ]
    df = spark.createDataFrame(rows, "k STRING, x INT, y INT, s STRING, op STRING").coalesce(1)
    for calls, expected in [
        ("MY_AVG(x, y) AS m, PROD(x) AS p", [("a", 40, 40.0), ("b", 7, 7.0)]),
        ("MY_AVG(x, y) AS m, JOINED(s) AS j", [("a", 40, "y"), ("b", 7, "z")]),
    ]:
        spec = spec_of(calls, "k STRING, x INT, y INT, s STRING")
        out = group_aggregate(df, spec, output_profile="flink").collect()
        assert sorted(tuple(row)[:-1] for row in out) == expected
