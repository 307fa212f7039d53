"""Estimates from a sample: near to the need of all rows, part by part, and clear about samples that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest
from click.testing import CliRunner

import aggloom as al
from aggloom.cli import main
from aggloom.errors import (
    DataError,
    SpecError,
    TypeMismatchError,
    UnknownChangeTypeError,
    UnknownColumnError,
    UnknownTableError,
)
from aggloom.runtime.sizing.distinct_keys import expect_distinct

ROWS = 400_000
SUMS = "SELECT a, SUM(b) AS s, COUNT(*) AS n FROM t GROUP BY a"


def table(keys: str, number: int = ROWS, different: int = 40_000) -> pa.Table:
    """Rows in random order, of keys that are as frequent as one another or follow a power law."""
    random = np.random.default_rng(11)
    a = random.integers(0, different, number)
    if keys != "uniform":
        law = np.cumsum(1 / np.arange(1, different + 1) ** float(keys))
        a = np.searchsorted(law, random.random(number) * law[-1])
    b = random.integers(1, 100, number)
    return pa.table({"a": a * 7919, "b": b, "c": [f"customer {x:07d}" for x in a.tolist()]})


def kept(sql: str, rows: pa.Table) -> dict[str, int]:
    """Let DuckDB count each part of the state: the oracle."""
    connection = duckdb.connect()
    connection.register("t", rows)
    made = connection.execute(sql)
    names = [column[0] for column in made.description or ()]
    return dict(zip(names, made.fetchall()[0], strict=True))


# Numbers


@pytest.mark.parametrize(
    ("keys", "share", "within"),
    [
        ("uniform", 0.01, 0.1),
        ("uniform", 0.1, 0.02),
        ("1.0", 0.1, 0.3),
        ("1.2", 0.1, 0.2),
        ("1.5", 0.1, 0.2),
        ("1.2", 0.01, 1.5),
        ("1.5", 0.01, 0.5),
    ],
)
def test_keys_from_a_sample(keys: str, share: float, within: float) -> None:
    whole = table(keys)
    found = al.estimate(SUMS, whole.slice(0, int(ROWS * share)), rows=ROWS)
    (operator,) = found.operators
    truth = kept("SELECT COUNT(DISTINCT a) AS keys FROM t", whole)["keys"]
    assert operator.keys_in_sample < truth
    assert operator.keys == pytest.approx(truth, rel=within)


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        ("SELECT a, COUNT(DISTINCT b) AS n FROM t GROUP BY a", "append"),
        ("SELECT c, MAX(b) AS n FROM t GROUP BY c", "retract"),
        ("SELECT b, COUNT(DISTINCT c) AS n FROM t GROUP BY b", "append"),
        ("SELECT b, ARRAY_AGG(a) AS n FROM t GROUP BY b", "append"),
        ("SELECT a, APPROX_PERCENTILE(b, 0.5) AS n FROM t GROUP BY a", "append"),
    ],
)
def test_a_tenth_says_nearly_what_all_rows_say(sql: str, changes: str) -> None:
    whole = table("uniform", 200_000, 10_000)
    part = al.estimate(sql, whole.slice(0, 20_000), rows=200_000, input_changes=changes, buckets=4)
    full = al.estimate(sql, whole, input_changes=changes, buckets=4)
    assert full.rows == full.sample_rows == part.rows == 200_000
    (told,), (true,) = part.operators, full.operators
    assert told.keys == pytest.approx(true.keys, rel=0.05)
    assert part.bytes == pytest.approx(full.bytes, rel=0.1)
    # How small a compressed tree becomes depends on how full its blocks are, which a part of the rows does not say.
    assert part.checkpoint_bytes == pytest.approx(full.checkpoint_bytes, rel=0.6)
    assert [part.name for part in told.parts] == [part.name for part in true.parts]
    for one, other in zip(told.parts, true.parts, strict=True):
        assert one.number == pytest.approx(other.number, rel=0.1), one.name


def test_entries_and_texts_are_those_that_the_rows_have() -> None:
    whole = table("uniform", 100_000, 3000)
    sql = "SELECT a, COUNT(DISTINCT b) AS n, MIN(c) AS m FROM t GROUP BY a"
    (operator,) = al.estimate(sql, whole, input_changes="retract").operators
    parts = {part.name: part for part in operator.parts}
    truth = kept(
        "SELECT COUNT(DISTINCT a) AS keys, COUNT(DISTINCT (a, b)) AS entries, COUNT(DISTINCT c) AS texts FROM t",
        whole,
    )
    assert operator.keys == parts["keys"].number == truth["keys"]
    assert parts["distinct_b"].number == truth["entries"]
    assert parts["ordered_c"].number == truth["texts"]
    assert parts["texts"].number == truth["texts"]
    assert parts["texts"].bytes > truth["texts"] * len("customer 0000000")
    assert sum(part.bytes for part in operator.parts) == operator.bytes


def test_rows_that_were_taken_back_take_no_room() -> None:
    changes = pa.table({"a": [1, 2, 3, 2], "op": ["+I", "+I", "+I", "-D"]})
    (operator,) = al.estimate("SELECT a, COUNT(*) AS n FROM t GROUP BY a", changes).operators
    assert operator.keys == 2


def test_given_keys_have_as_many_entries_each_as_those_of_the_sample() -> None:
    sql = "SELECT a, COUNT(DISTINCT b) AS n FROM t GROUP BY a"
    sample = table("uniform", 20_000, 500)
    (told,) = al.estimate(sql, sample, keys=5_000_000).operators
    (seen,) = al.estimate(sql, sample).operators
    assert (told.keys, told.keys_in_sample) == (5_000_000, 500)
    assert told.bytes is not None and told.bytes == pytest.approx(
        (seen.bytes or 0) * 10_000, rel=0.001
    )
    assert told.bytes_per_key == pytest.approx(seen.bytes_per_key, rel=0.001)


def test_every_operator_has_a_line_and_the_largest_is_named() -> None:
    sql = "SELECT n, COUNT(*) AS m FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) GROUP BY n"
    found = al.estimate(sql, table("uniform", 30_000, 10_000), rows=300_000, buckets=6)
    outer, inner = found.operators
    assert (outer.id, inner.id, found.largest) == (1, 2, inner)
    text, data = str(found), json.loads(found.to_json())
    assert text.startswith(
        "state after 300,000 rows, from a sample of 30,000\nnode[1] GroupAggregate: "
    )
    assert f"node[2] GroupAggregate: {inner.keys:,} keys" in text
    assert "most of it in node[2]" in text and "in each of 6 buckets" in text
    assert data["largest"] == 2 and data["bytes"] == found.bytes == sum(
        each["bytes"] for each in data["operators"]
    )
    assert data["operators"][1]["bucket_bytes"] == -(-(inner.bytes or 0) // 6)
    (told,) = (
        each for each in al.estimate(sql, table("uniform"), keys={2: 7}).operators if each.id == 2
    )
    assert told.keys == 7


def test_grouping_by_nothing_stays_one_key() -> None:
    (operator,) = al.estimate(
        "SELECT SUM(b) AS s FROM t", table("uniform", 1000), rows=10**9
    ).operators
    assert (operator.keys, operator.buckets) == (1, 1)
    assert str(al.estimate("SELECT a FROM t", table("uniform", 10))).endswith(
        "nothing: no operator remembers anything"
    )


def test_tables_of_different_shares() -> None:
    sql = "SELECT a, COUNT(*) AS n FROM (SELECT a FROM x UNION ALL SELECT a FROM y) GROUP BY a"
    sample = {"x": table("uniform", 10_000), "y": table("uniform", 10_000).slice(0, 100)}
    found = al.estimate(sql, sample, rows={"x": 20_000})
    assert (found.rows, found.sample_rows) == (20_100, 10_100)
    assert al.estimate(sql, sample, rows=20_200).rows == 20_200


@pytest.mark.parametrize(
    ("window", "per"),
    [
        (al.Tumble("10 minutes", on="ts"), "key and slice"),
        (al.Session("1 s", on="ts"), "key and session"),
    ],
)
def test_windows_stay_open(window: Any, per: str) -> None:
    times = pa.array(np.arange(60_000) * 60_000_000, pa.timestamp("us"))
    sample = table("uniform", 60_000, 50).append_column("ts", times)
    spec = al.AggSpec(sample.schema, ("a",), (al.AggCall("SUM", ("b",)),), input_changes="append")
    (operator,) = al.estimate(spec, sample, window=window).operators
    slices = "SELECT COUNT(DISTINCT (a, epoch_us(ts) // 600000000)) AS n FROM t"
    truth = kept(slices, sample)["n"] if per == "key and slice" else 60_000
    assert (operator.per, operator.keys) == (per, truth)
    (again,) = al.estimate(
        spec, sample, window=al.Windowing.of(window, allowed_lateness="1 h")
    ).operators
    assert {part.name: part.number for part in again.parts}.get("emitted") is not None


def test_python_objects_have_keys_and_a_checkpoint() -> None:
    found = al.estimate(SUMS, table("uniform", 2000, 300), rows=20_000, backend="python")
    (operator,) = found.operators
    assert operator.bytes is None and operator.bytes_per_key is None and operator.parts == ()
    assert operator.keys == pytest.approx(300, abs=3) and operator.checkpoint_bytes > 300
    assert "Python objects" in str(found)


# Species


def test_expected_of_what_was_seen() -> None:
    assert expect_distinct(np.array([3, 4, 9]), 100) == 3
    assert expect_distinct(np.ones(50, np.int64), 1) == 50
    assert expect_distinct(np.ones(50, np.int64), 10) == pytest.approx(500, rel=0.01)
    assert expect_distinct(np.zeros(0, np.int64), 10) == 0


# How samples come


def test_forms_of_samples() -> None:
    arrow = table("uniform", 5000, 200)
    truth = al.estimate(SUMS, arrow)
    frame = arrow.to_pandas()
    (batch,) = arrow.to_batches()

    class Spark:
        def toArrow(self) -> pa.Table:  # noqa: N802
            return arrow

    assert isinstance(frame, pd.DataFrame)
    for form in (
        frame,
        batch,
        Spark(),
        {"t": arrow},
        pa.RecordBatchReader.from_batches(arrow.schema, [batch]),
    ):
        assert al.estimate(SUMS, form) == truth
    coded = arrow.set_column(2, "c", arrow["c"].dictionary_encode())
    assert al.estimate("SELECT c, SUM(b) AS s FROM t GROUP BY c", coded).operators[0].keys == 200


T = pa.table({"a": [1, 2], "b": [3, 4]})


@pytest.mark.parametrize(
    ("sample", "options", "error", "said"),
    [
        (T.slice(0, 0), {}, DataError, "sample of 't' is empty"),
        (T.select(["b"]), {}, UnknownColumnError, "a"),
        (T.select(["b"]), {"tables": {"t": "a INT, b INT"}}, UnknownColumnError, "no column 'a'"),
        (
            pa.table({"a": ["x"], "b": [1]}),
            {"tables": {"t": "a INT, b INT"}},
            TypeMismatchError,
            "column 'a' of the sample of 't' is string and cannot be read as INT",
        ),
        ([(1, 2)], {}, TypeMismatchError, "is a list, which is no table"),
        (7, {}, TypeMismatchError, "is a int, which is no table"),
        ({"u": T}, {}, UnknownTableError, "t"),
        ({}, {"tables": {"t": "a INT, b INT"}}, UnknownTableError, "no sample of 't'"),
        (T.append_column("op", [["+I", "?"]]), {}, UnknownChangeTypeError, "'?'"),
        (T, {"rows": 1}, SpecError, "less than the sample has"),
        (T, {"rows": {"t": 1}}, SpecError, "less than the sample has"),
        (T, {"rows": {"u": 10}}, UnknownTableError, "rows of 'u'"),
        (T, {"keys": 0}, SpecError, "at least 1"),
        (T, {"keys": {3: 5}}, SpecError, "keys={1: ...}"),
        (T, {"ttl": 5}, SpecError, "ttl"),
    ],
)
def test_mistakes(sample: Any, options: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error) as raised:
        al.estimate(SUMS, sample, **options)
    assert said in str(raised.value).splitlines()[0]


def test_mistakes_with_several_tables_or_a_spec() -> None:
    sql = "SELECT a, COUNT(*) AS n FROM (SELECT a FROM x UNION ALL SELECT a FROM y) GROUP BY a"
    with pytest.raises(SpecError, match=r"reads 2 tables; give \{'x': \.\.\., 'y'"):
        al.estimate(sql, T)
    spec = al.AggSpec("a BIGINT, b BIGINT", ("a",), (al.AggCall("SUM", ("b",)),))
    assert al.estimate(spec, T).operators[0].keys == 2
    with pytest.raises(SpecError, match="a spec has a schema"):
        al.estimate(spec, T, input_changes="append")


# The command line


def call(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["estimate", *arguments])


def test_the_command_line(tmp_path: Path) -> None:
    sample = table("uniform", 5000, 200)
    parquet.write_table(sample, tmp_path / "t.parquet")
    csv.write_csv(sample, tmp_path / "t.csv")
    (tmp_path / "t.jsonl").write_text(
        "\n".join(json.dumps(row, default=str) for row in sample.to_pylist())
    )
    truth = al.estimate(SUMS, sample, rows=50_000, buckets=4)
    options = ["--sql", SUMS, "--rows", "50000", "--buckets", "4"]
    for name in ("t.parquet", "t.csv", "t.jsonl"):
        shown = call(*options, "--sample", str(tmp_path / name))
        assert shown.exit_code == 0, shown.output
        assert shown.output == f"{truth}\n"
    data = call(*options, "--sample", f"t={tmp_path / 't.parquet'}", "--format", "json")
    assert data.output == truth.to_json() + "\n"
    typed = ["--table", "t=a STRING, b INT, c STRING", "--sample", str(tmp_path / "t.csv")]
    assert "texts" in call(*options, *typed).output


def test_mistakes_on_the_command_line(tmp_path: Path) -> None:
    bad = tmp_path / "t.parquet"
    bad.write_text("no")
    good = tmp_path / "u.parquet"
    parquet.write_table(T, good)
    cases = [
        (["--sample", str(bad)], "cannot be read"),
        (["--sample", str(tmp_path / "no.csv")], "there is no file"),
        (["--sample", f"t={good}", "--sample", f"t={good}"], "two samples"),
        ([], "--sample"),
    ]
    for arguments, said in cases:
        result = call("--sql", SUMS, *arguments)
        assert result.exit_code == 2, result.output
        assert said in result.output and "Traceback" not in result.output
    (tmp_path / "t.txt").write_text("a")
    assert "must end in" in call("--sql", SUMS, "--sample", str(tmp_path / "t.txt")).output
