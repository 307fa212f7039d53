"""`aggloom test`: queries held against tables in YAML; what differs is shown, what is misspelt is named."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner, Result

from aggloom.cli import main
from aggloom.codegen import parse_type
from aggloom.errors import AggloomError, SpecError
from aggloom.sample import write_sample
from aggloom.testing.diff import difference
from aggloom.testing.values import equal, value_of

SCRIPT = """
CREATE TABLE orders (id BIGINT, customer STRING, amount INT) WITH
  ('connector' = 'kafka', 'topic' = 'o', 'properties.bootstrap.servers' = 'h:1', 'format' = 'debezium-json');
CREATE TABLE totals (customer STRING, n BIGINT, spent BIGINT, PRIMARY KEY (customer) NOT ENFORCED)
  WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://db/shop', 'table-name' = 'totals');
CREATE TABLE counts (n BIGINT, PRIMARY KEY (n) NOT ENFORCED)
  WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://db/shop', 'table-name' = 'counts');
INSERT INTO totals SELECT customer, COUNT(*), SUM(amount) FROM orders GROUP BY customer;
"""
SECOND = "INSERT INTO counts SELECT n FROM (SELECT COUNT(*) AS n FROM orders);"
QUERY: dict[str, Any] = {
    "sql": "SELECT k, SUM(n) AS s FROM t GROUP BY k",
    "tables": {"t": "k STRING, n INT"},
}


def run(place: Path, content: Any, *options: str) -> Result:
    """Run the tests of a file."""
    text = content if isinstance(content, str) else yaml.safe_dump(content, allow_unicode=True)
    (place / "t.yaml").write_text(text, encoding="utf-8")
    return CliRunner().invoke(main, ["test", str(place / "t.yaml"), *options], prog_name="aggloom")


def one(place: Path, given: Any, expect: Any, **more: Any) -> Result:
    """Run a file of one test."""
    test = {"name": "one", "given": given, "expect": expect}
    return run(place, {**QUERY, **more, "tests": [test]})


def test_a_script_of_topics_needs_none_of_them(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text(SCRIPT)
    given = {
        "orders": [
            {"id": 1, "customer": "Ada", "amount": 3},
            {"id": 2, "customer": None, "amount": 4},
        ]
    }
    test = {
        "name": "sums",
        "given": given,
        "expect": [{"customer": "Ada", "spent": 3}, {"customer": None, "spent": 4}],
    }
    found = run(tmp_path, {"job": "job.sql", "tests": [test]})
    assert (found.exit_code, found.stdout) == (0, f"{tmp_path}/t.yaml\n  ok    sums\n1 passed\n")
    (tmp_path / "job.sql").write_text(SCRIPT + SECOND)
    unclear = run(tmp_path, {"job": "job.sql", "tests": [test]})
    assert unclear.exit_code == 2 and "`into`, one of totals, counts" in unclear.stdout
    into = [
        {**test, "into": "TOTALS"},
        {**test, "name": "n", "into": "counts", "expect": [{"n": 2}]},
    ]
    assert run(tmp_path, {"job": "job.sql", "tests": into}).exit_code == 0
    wrong = run(tmp_path, {"job": "job.sql", "tests": [{**test, "into": "totls"}]})
    assert "no query goes into 'totls'. Did you mean 'totals'?" in wrong.stdout


def test_what_differs_is_shown(tmp_path: Path) -> None:
    expect = [{"s": 3, "k": "a"}, {"k": "b", "s": 5}, {"k": "NULL", "s": None}]
    rows = [{"k": "a", "n": 3}, {"k": "b", "n": 4}, {"k": None, "n": 1}]
    found = one(tmp_path, {"t": rows}, expect)
    assert found.exit_code == 1
    assert found.stdout.splitlines()[1:] == [
        "  FAIL  one",
        "        expected 3 rows, found 3 rows; 1 row as expected",
        "          k       s",
        "        + NULL    1",
        "        - 'NULL'  NULL",
        "        - b       5",
        "        + b       4",
        "                  ^",
        "0 passed, 1 failed".removeprefix("0 passed, "),
    ]


def test_steps_changes_and_watermarks(tmp_path: Path) -> None:
    steps = [
        {"t": [{"k": "a", "n": 1}]},
        {
            "t": [
                {"op": "-U", "k": "a", "n": 1},
                {"_change_type": "update_postimage", "k": "a", "n": 5},
            ]
        },
        {"t": [{"op": "DELETE", "k": "a", "n": 5}]},
    ]
    changes = [("+I", 1), ("-U", 1), ("+U", 5), ("-D", 5)]
    told = [{"op": kind, "k": "a", "s": s} for kind, s in changes]
    assert one(tmp_path, steps, {"changes": told, "rows": []}).exit_code == 0
    missing = one(tmp_path, steps, {"changes": told[1:]})
    assert missing.exit_code == 1 and "        + +I  a  1" in missing.stdout.splitlines()
    windows: dict[str, Any] = {
        "sql": "SELECT window_end, SUM(n) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end",
        "tables": {"t": {"schema": "ts TIMESTAMP, n INT", "watermark": "ts 0 seconds"}},
    }
    rows = [{"ts": "2026-01-01 00:10:00", "n": 1}, {"ts": dt.datetime(2026, 1, 1, 1, 10), "n": 2}]
    first = [{"window_end": "2026-01-01 01:00:00", "s": 1}]
    both = [*first, {"window_end": "2026-01-01 02:00:00", "s": 2}]
    mark = {"watermark": "2026-01-01 01:00:00"}
    for given, expect in (
        ({"t": rows}, both),
        ([{"t": rows}, mark], first),
        ([{"t": rows}, {"watermark": {"t": 1767229200000}}], first),
        ([{"t": rows}, mark, {"end": True}], both),
        ([{"t": rows}, {"clock": "2026-01-01 05:00:00"}], both),
    ):
        found = one(tmp_path, given, expect, **windows)
        assert found.exit_code == 0, found.stdout


def test_files_are_given_too(tmp_path: Path) -> None:
    write_sample(tmp_path / "changes")
    query = {"sql": "SELECT COUNT(*) AS n FROM t", "tables": {"t": "id BIGINT"}}
    given = {"t": {"file": "changes/"}}
    assert one(tmp_path, given, [{"n": 5}], **query).exit_code == 0
    typo = one(tmp_path, {"t": {"fiel": "changes/"}}, [], **query)
    assert "give rows, or a mapping with `file`" in typo.stdout


def test_errors_may_be_expected(tmp_path: Path) -> None:
    rows = {"t": [{"op": "-D", "k": "a", "n": 1}]}
    strict = {"options": {"on_orphan_retraction": "error"}}
    assert one(tmp_path, rows, {"error": "which holds no row"}, **strict).exit_code == 0
    said = one(tmp_path, rows, {"error": "no such words"}, **strict)
    assert said.exit_code == 1 and "expected an error with 'no such words'; it was:" in said.stdout
    none = one(tmp_path, rows, {"error": "x"})
    assert none.exit_code == 1 and "there was none" in none.stdout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"given": {"tt": []}}, "the query reads no table 'tt'. Did you mean 't'?"),
        (
            {"given": {"t": [{"kk": 1}]}},
            "given t, row 1: there is no column 'kk'. Did you mean 'k'?",
        ),
        ({"given": {"t": [{"k": True}]}}, "column 'k' is STRING, not True"),
        ({"given": {"t": [{"n": "x"}]}}, "row 1: column 'n' is INT, not x"),
        ({"given": {"t": [{"n": 2**31}]}}, "out of its range"),
        ({"given": {"t": [{"op": "+X", "n": 1}]}}, "op is '+X'"),
        ({"given": {"t": [3]}}, "row 1 is no mapping"),
        ({"given": {"t": 3}}, "give a list of rows"),
        ({"given": {"watermrk": 3}}, "Did you mean 'watermark'?"),
        ({"given": [3]}, "`given` must be tables with rows, or a list of such steps"),
        ({"expect": [{"kk": 1}]}, "expect: there is no column 'kk'. Did you mean 'k'?"),
        ({"expect": [{"k": "a"}, {"s": 1}]}, "row 1 does not say 's', as others do; write s: null"),
        ({"expect": [{"s": "1"}]}, "expect, row 1: column 's' is BIGINT, not 1"),
        ({"expect": {"row": []}}, "there is no entry 'row'. Did you mean 'rows'?"),
        ({"expect": {"rows": 3}}, "rows must be a list of mappings"),
        ({"expect": 3}, "`expect` must be rows, or one of rows, changes, error"),
        ({"expects": []}, "Did you mean 'expect'?"),
        ({"name": ""}, "give it a `name`"),
        ({"options": {"state_tll": 1}}, "state_tll"),
        ({"options": 3}, "`options` must be a mapping"),
    ],
)
def test_what_is_wrong_in_a_test_is_named(tmp_path: Path, change: Any, said: str) -> None:
    test = {"name": "one", "given": {"t": []}, "expect": [], **change}
    found = run(tmp_path, {**QUERY, "tests": [test, {"name": "two", "given": {}, "expect": []}]})
    assert found.exit_code == 2 and said in found.stdout.replace("\n", " "), found.stdout
    assert "Traceback" not in found.output and found.exception.__class__ is SystemExit


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("tests: [", "the file cannot be read"),
        ("[]", "a file of tests is a mapping"),
        ({"sql": "SELECT 1", "tets": []}, "Did you mean 'tests' or"),
        ({**QUERY, "tests": []}, "`tests` must be a list of tests"),
        ({"tests": [{}]}, "give either `job`, a script or a job file, or `sql`"),
        ({**QUERY, "job": "x", "tests": [{}]}, "give either `job`"),
        ({"job": "none.sql", "tests": [{}]}, "none.sql: cannot be read: there is no such file"),
        ({"job": "none.yaml", "tests": [{}]}, "none.yaml: cannot be read: there is no such file"),
        (
            {**QUERY, "tables": {"t": {"schema": "k INT", "key": "k"}}, "tests": [{}]},
            "Did you mean 'keys'?",
        ),
        ({**QUERY, "tables": {"t": 3}, "tests": [{}]}, "give its columns"),
        ({**QUERY, "dialect": "sprak", "tests": [{}]}, "Did you mean 'spark'?"),
        (
            {**QUERY, "tests": [{"name": "a", "given": {}, "expect": []}] * 2},
            "two tests are named 'a'",
        ),
        ("sql: SELECT 1\nsql: SELECT 2\ntests: []", "is there twice"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, content: Any, said: str) -> None:
    found = run(tmp_path, content)
    assert found.exit_code == 2 and said in found.stdout.replace("\n", " "), found.stdout


def test_files_and_names_are_chosen(tmp_path: Path) -> None:
    tests = [{"name": name, "given": {}, "expect": []} for name in ("Adding", "taking back")]
    bad = {"name": "wrong", "given": {}, "expect": [{"k": "x", "s": 1}]}
    below = tmp_path / "tests" / "deep"
    below.mkdir(parents=True)
    for name, listed in (("a.yaml", tests), ("deep/b.yml", [bad, *tests])):
        (tmp_path / "tests" / name).write_text(yaml.safe_dump({**QUERY, "tests": listed}))
    (tmp_path / "tests" / "job.yaml").write_text(yaml.safe_dump(QUERY))
    (tmp_path / "tests" / ".hidden.yaml").write_text("tests: [")

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["test", *arguments], prog_name="aggloom")

    whole = call(str(tmp_path / "tests"))
    assert whole.exit_code == 1 and whole.stdout.endswith("4 passed, 1 failed\n")
    assert "job.yaml: there is no `tests` in it; passed over" in whole.stderr
    named = call(str(tmp_path / "tests"), "-k", "TAKING")
    assert (named.exit_code, named.stdout.splitlines()[-1]) == (0, "2 passed, 3 left out")
    quiet = call(str(tmp_path / "tests"), "-q", "-x")
    assert quiet.exit_code == 1 and quiet.stdout.splitlines()[-1] == "2 passed, 1 failed"
    assert quiet.stdout.count("ok") == 0 and quiet.stdout.startswith(str(below / "b.yml"))
    none = call(str(tmp_path / "tests" / "a.yaml"), "-k", "nothing")
    assert none.exit_code == 2 and "there is no test with 'nothing' in its name" in none.stderr
    assert call(str(tmp_path / "nowhere")).exit_code == 2


VALUES: list[tuple[str, Any, Any]] = [
    ("BIGINT", 2**63 - 1, 2**63 - 1),
    ("DOUBLE", 1, 1.0),
    ("DECIMAL(5,2)", 1.5, Decimal("1.50")),
    ("DECIMAL(5,2)", "-999.99", Decimal("-999.99")),
    ("BOOLEAN", True, True),
    ("STRING", "", ""),
    ("BINARY", b"ab", b"ab"),
    ("BINARY", "YWI=", b"ab"),
    ("DATE", dt.date(2026, 1, 2), dt.date(2026, 1, 2)),
    ("DATE", "2026-01-02", dt.date(2026, 1, 2)),
    ("TIME", "10:30:00", dt.time(10, 30)),
    ("TIMESTAMP", "2026-01-02 03:00:00+02:00", dt.datetime(2026, 1, 2, 1, tzinfo=dt.UTC)),
    ("TIMESTAMP", dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, tzinfo=dt.UTC)),
    ("TIMESTAMP_NTZ", "2026-01-02 03:00:00", dt.datetime(2026, 1, 2, 3)),
    ("ARRAY<INT>", [1, None], [1, None]),
    ("STRUCT<a INT, b STRING>", {"b": "x"}, {"a": None, "b": "x"}),
    ("MAP<STRING,INT>", {"a": 1}, [("a", 1)]),
    ("INT", None, None),
]


@pytest.mark.parametrize(("kind", "raw", "value"), VALUES)
def test_values_of_every_type(kind: str, raw: Any, value: Any) -> None:
    made = pa.map_(pa.string(), pa.int32()) if kind.startswith("MAP") else parse_type(kind)
    found = value_of(raw, made, "here")
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        *(("INT", 1.5), ("INT", True), ("TINYINT", 128), ("DOUBLE", "1"), ("DECIMAL(3,1)", "1.25")),
        *(
            ("DECIMAL(3,1)", 100),
            ("DECIMAL(3,1)", "x"),
            ("BOOLEAN", 1),
            ("STRING", 1),
            ("STRING", False),
        ),
        *(("BINARY", "?"), ("DATE", "soon"), ("DATE", dt.datetime(2026, 1, 1)), ("TIME", 630)),
        *(("TIMESTAMP_NTZ", "2026-01-02T00:00:00Z"), ("TIMESTAMP", "x"), ("ARRAY<INT>", 1)),
        *(("STRUCT<a INT>", {"b": 1}), ("ARRAY<INT>", ["x"])),
    ],
)
def test_values_that_do_not_fit(kind: str, raw: Any) -> None:
    with pytest.raises(SpecError, match=r"^here is "):
        value_of(raw, parse_type(kind), "here")


def test_differences() -> None:
    nan = float("nan")
    assert equal(nan, nan) and equal(0.1 + 0.2, 0.3) and not equal(0.0, 1e-300)
    assert equal([("b", 2), ("a", 1)], [("a", 1), ("b", 2)]) and not equal([1, 2], [2, 1])
    assert equal({"a": [0.3]}, {"a": [0.1 + 0.2]}) and not equal({"a": 1}, {"b": 1})
    assert difference(["a"], [(nan,), (1.0,)], [(1.0 + 1e-12,), (nan,)]) == []
    assert difference(["a"], [(1,), (1,)], [(1,)])[-1] == "- 1"
    # Without a key no two rows are one that differs; wide letters take two places.
    assert difference(["a", "b"], [("東", 1)], [("東", 2)]) == [
        *("expected 1 row, found 1 row", "  a   b", "- 東  1", "+ 東  2")
    ]
    many = difference(["a"], [(n,) for n in range(30)], [])
    assert many[-1] == "  and 10 more" and len(many) == 23
    assert issubclass(SpecError, AggloomError)


@pytest.mark.filterwarnings("error::aggloom.errors.DroppedRowsWarning")
@pytest.mark.parametrize("sums", [[{"k": "a", "s": 1}], [{"k": "a", "s": 9}]], ids=["ok", "FAIL"])
def test_rows_that_are_dropped_are_reported(tmp_path: Path, sums: list[Any]) -> None:
    rows = [{"k": "a", "n": 1}, {"op": "-D", "k": "b", "n": 7}]
    found = one(tmp_path, {"t": rows}, sums)
    assert "        dropped: 1 orphan (" in found.stdout, found.output
