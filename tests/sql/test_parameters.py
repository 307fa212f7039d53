"""Parameters: `:name` and `?` with values, at each door that takes a query."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import aggloom as al
from aggloom import local
from aggloom.cli import main
from aggloom.codegen import bind_parameters
from aggloom.errors import SpecError, UnsupportedSqlError
from aggloom.job import read_job

ROWS = [("+I", "it's", 3), ("+I", "b\\c", -4), ("+I", "e", 5)]
DIALECTS = ("spark", "flink")


def rows_of(sql: str, args: Any, dialect: str = "spark") -> list[tuple[Any, ...]]:
    """The table of a query over ROWS."""
    t = local.from_rows(ROWS, "k STRING, n INT")
    asked: Any = {"dialect": dialect, "args": args}
    found = local.collect(local.sql(sql, t=t, backend="python", **asked))
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "value",
    [
        "it's",
        "b\\c",
        "",
        "ä\n🐍",
        0,
        -7,
        2**40,
        1.5,
        -math.inf,
        True,
        Decimal("1.50"),
        Decimal("-0.001"),
        b"\x00ab",
        date(2024, 2, 29),
        time(1, 2, 3),
        [1, 2],
        {"a": 1},
    ],
    ids=repr,
)
def test_a_value_comes_back(value: Any, dialect: str) -> None:
    ((found,),) = rows_of("SELECT :x AS c FROM t WHERE n = 3", {"x": value}, dialect)
    assert found == (list(value.items()) if isinstance(value, dict) else value)
    assert type(found) is type(value) or isinstance(value, dict)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_values_of_numpy_and_times(dialect: str) -> None:
    when = datetime(2024, 1, 2, 3, 4, 5, 6)
    ((number, moment, nan),) = rows_of(
        "SELECT ? AS a, ? AS b, ? AS c FROM t WHERE n = 3", [np.int64(3), when, math.nan], dialect
    )
    assert number == 3
    assert moment.replace(tzinfo=None) == when
    assert math.isnan(nan)


def test_a_time_with_a_zone() -> None:
    ((moment,),) = rows_of(
        "SELECT :at AS a FROM t WHERE n = 3", {"at": datetime(2024, 1, 2, tzinfo=UTC)}
    )
    assert moment == datetime(2024, 1, 2, tzinfo=UTC)
    with pytest.raises(SpecError, match=r":at is .* without a zone"):
        bind_parameters("SELECT :at", {"at": datetime(2024, 1, 2, tzinfo=UTC)}, "flink")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_where_parameters_stand(dialect: str) -> None:
    assert rows_of("SELECT k FROM t WHERE k IN (:a,:b)", {"a": "e", "b": "it's"}, dialect) == [
        ("e",),
        ("it's",),
    ]
    text = "SELECT k FROM t WHERE n BETWEEN ? AND ? -- ? and :x\n AND k <> ':x?'"
    assert rows_of(text, [4, 9], dialect) == [("e",)]
    # A sign directly before a parameter, whose value has one, too, makes no comment.
    assert rows_of("SELECT n-:x AS d FROM t WHERE n = 3", {"x": -1}, dialect) == [(4,)]
    assert rows_of("SELECT k FROM t ORDER BY n DESC LIMIT :n", {"n": 1}, dialect) == [("e",)]
    # One name may stand twice; a value of NULL is none that a row has.
    assert rows_of("SELECT n + :x + :x AS d FROM t WHERE n = 3", {"x": 1}, dialect) == [(5,)]
    assert rows_of("SELECT k FROM t WHERE n > :x", {"x": None}, dialect) == []


def test_paths_and_casts_are_no_parameters() -> None:
    text = "SELECT PARSE_JSON(k):a::INT, j:b.c, `x:y`, m['a:b'] FROM t WHERE n = :n"
    assert bind_parameters(text, {"n": 3}) == text.replace(":n", "3")
    assert bind_parameters(text, None) == text


@pytest.mark.parametrize(
    ("text", "args", "why"),
    [
        ("SELECT :kay", {"key": 1}, ":kay has no value. Did you mean 'key'"),
        ("SELECT :a", {"a": 1, "b": 2}, "a value for 'b', and the text no :b"),
        ("SELECT 1", {"a": 1}, "'a', and the text no :a. It has no parameters"),
        ("SELECT ?", {"a": 1}, "the parameter \\?; give args as a list"),
        ("SELECT :a", [1], "the parameter :a; give args as a mapping"),
        ("SELECT ?, ?", [1], "2 parameters \\?, and args 1 values"),
        ("SELECT 1", [1], "0 parameters \\?, and args 1 values"),
        ("SELECT :a", "a", "args is 'a'; it is a mapping"),
        ("SELECT :a", {"a": object()}, ":a is .*, for which there is no literal"),
        ("SELECT :a", {"a": Decimal("NaN")}, ":a is .*, for which there is no literal"),
    ],
)
def test_what_is_refused(text: str, args: Any, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        bind_parameters(text, args)


def test_a_parameter_without_a_value() -> None:
    with pytest.raises(UnsupportedSqlError, match=r"parameter :k is not .* args="):
        rows_of("SELECT k FROM t WHERE k = :k", None)


def test_each_door(tmp_path: Path) -> None:
    text, schema = "SELECT k FROM t WHERE n > :n", {"t": "k STRING, n INT"}
    assert "where=[`n` > 4]" in str(al.explain(text, tables=schema, args={"n": 4}))
    with al.Harness.from_sql(text, schema, backend="python", args={"n": 4}) as harness:
        harness.process(ROWS)
        harness.flush()
        assert harness.table() == [("e",)]
    with al.ScriptHarness(text, schema, backend="python", args={"n": 4}) as queries:
        queries.process(ROWS, table="t")
        queries.flush()
        assert queries["query 1"].table() == [("e",)]
    file = tmp_path / "t.jsonl"
    file.write_text('{"k":"a","n":3}\n{"k":"e","n":5}\n')
    job = tmp_path / "job.yaml"
    job.write_text(
        f"sql: {text} AND k <> :k\nargs: {{n: 4, k: x}}\nengine: local\n"
        "tables: {t: {path: t.jsonl, schema: 'k STRING, n INT'}}\n"
    )
    assert read_job(job).sql == "SELECT k FROM t WHERE n > 4 AND k <> 'x'"
    assert read_job(job, args={"k": "e"}).sql == "SELECT k FROM t WHERE n > 4 AND k <> 'e'"
    query = f"--sql={text} AND k <> :k", f"--table=t={file},schema=k STRING, n INT"
    done = CliRunner().invoke(
        main, ["run", *query, "--arg", "n=4", "--arg", "k='7'", "--engine=local", "--json"]
    )
    assert done.exit_code == 0, done.output
    assert "+I k=e" in done.output
    wrong = CliRunner().invoke(main, ["run", *query, "--arg", "n=4", "--engine=local"])
    assert ":k has no value" in wrong.output
    twice = CliRunner().invoke(main, ["run", *query, "--arg", "n=4", "--arg", "n=5"])
    assert "names 'n' twice" in twice.output
    empty = CliRunner().invoke(main, ["run", *query, "--arg", "n="])
    assert "--arg n is empty; write null for NULL" in empty.output
    unclear = CliRunner().invoke(main, ["run", *query, "--arg", "n=[4"])
    assert "no YAML; write a text in quotes" in unclear.output
