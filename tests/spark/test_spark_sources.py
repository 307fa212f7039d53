"""Files that Spark reads and writes: Debezium, Parquet, CSV; the console, JSON lines; and a harness' questions to
Spark.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from aggloom.codegen import AggSpec
from aggloom.errors import InputFormatError, SpecError, UnsupportedExpressionError
from aggloom.runtime.local.harness import Harness
from tests.spark.test_spark import DDL, SPEC, write_file

pytestmark = pytest.mark.spark

pytest.importorskip("pyspark")

from aggloom.runtime.spark import (  # noqa: E402
    ProgressPrinter,
    explain_failure,
    read_changes,
    write_changes,
)
from aggloom.runtime.spark.api.group_aggregate import group_aggregate  # noqa: E402

DEBEZIUM = "id BIGINT, price DECIMAL(10,2), seen TIMESTAMP, day DATE"


def debezium(spark: Any, path: Path, lines: list[Any]) -> list[tuple[Any, ...]]:
    """The changes that Debezium lines give, as text."""
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (path / "d.json").write_text("\n".join(text) + "\n")
    df = read_changes(spark, str(path), schema=DEBEZIUM, streaming=False)
    return [tuple(map(str, row)) for row in df.collect()]


def test_debezium(spark: Any, tmp_path: Path) -> None:
    first = {"id": 1, "price": "12.34", "seen": 1357034400000, "day": 15706}
    second = {"id": 1, "price": 12.5, "seen": 1357034400000, "day": "2013-01-02"}
    third = {"id": 2, "price": None, "seen": "2013-01-01T10:00:00Z", "day": None}
    time, a, b = "2013-01-01 10:00:00", "2013-01-01", "2013-01-02"
    lines = [
        {"before": None, "after": first, "op": "c"},
        "",
        "null",
        {"schema": {"type": "struct"}, "payload": {"before": first, "after": second, "op": "u"}},
        {"schema": {"type": "struct"}, "payload": None},
        {"before": second, "after": None, "op": "d", "source": {"x": 1}, "ts_ms": 5},
        {"after": third, "op": "r"},
    ]
    assert debezium(spark, tmp_path, lines) == [
        ("1", "12.34", time, a, "insert"),
        ("1", "12.34", time, a, "update_preimage"),
        ("1", "12.50", time, b, "update_postimage"),
        ("1", "12.50", time, b, "delete"),
        ("2", "None", time, "None", "insert"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"op": "c", "after"', 'malformed line.*"after"'),
        ({"op": "c", "after": {"id": "seven"}}, "column 'id' cannot hold 'seven' as BIGINT"),
        ({"op": "u", "after": {"id": 1}}, "`before` is missing"),
        ({"op": "d", "after": None}, "`before` is missing"),
        ({"op": "c", "before": {"id": 1}}, "`after` is missing"),
        ({"op": "x", "after": {"id": 1}}, "`op` is not one of"),
        ({"after": {"id": 1}}, "`op` is not one of"),
    ],
)
def test_debezium_loses_nothing_silently(
    spark: Any, tmp_path: Path, line: Any, message: str
) -> None:
    with pytest.raises(Exception, match="InputFormatError") as failure:
        debezium(spark, tmp_path, [line])
    error = explain_failure(failure.value)
    assert isinstance(error, InputFormatError)
    assert re.search(message, str(error))


def test_parquet_and_csv_sources(spark: Any, tmp_path: Path) -> None:
    df = spark.createDataFrame([("a", 1, "delete")], f"{DDL}, _change_type STRING")
    df.write.parquet(str(tmp_path / "p"))
    df.selectExpr("_change_type AS op", "name", "cnt").write.csv(str(tmp_path / "c"), header=True)
    for format_, name in (("parquet", "p"), ("csv", "c")):
        read = read_changes(spark, str(tmp_path / name), format_, DDL, streaming=False)
        assert [tuple(row) for row in read.collect()] == [("a", 1, "delete")]


def test_console_and_file_sinks(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_file(tmp_path / "in", 0, [("+I", "a", 1)])
    source = read_changes(spark, str(tmp_path / "in"), "jsonl", DDL)
    out = group_aggregate(source, SPEC)
    query = write_changes(out, "console", tmp_path / "c1")
    with ProgressPrinter(query, sys.stdout, force=True) as progress:
        query.awaitTermination()
    write_changes(out, f"parquet:{tmp_path}/p", tmp_path / "c2").awaitTermination()
    assert [tuple(r) for r in spark.read.parquet(f"{tmp_path}/p").collect()] == [
        ("a", 1, 1, "insert")
    ]
    printed = capsys.readouterr().out
    assert "+I name=a, total=1, top=1" in printed
    assert "batch 0: 1 rows" in printed
    assert progress.counts.rows == 1
    with pytest.raises(SpecError, match="sink is a function"):
        write_changes(out, lambda batch, number: None, tmp_path / "c3")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="sink kafka: give it servers"):
        write_changes(out, "kafka", tmp_path / "c3")
    with pytest.raises(SpecError, match="unknown sink"):
        write_changes(out, "kafak", tmp_path / "c3")


def test_the_harness_asks_spark_for_what_it_cannot_evaluate(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = AggSpec.from_sql(
        "SELECT regexp_replace(name, '[0-9]', '') AS stem, "
        "CAST(sqrt(SUM(CAST(pow(cnt, 2) * xpath_double('<a>1</a>', 'a') AS DOUBLE))) AS DOUBLE) AS norm "
        "FROM t WHERE soundex(name) <> 'X000' GROUP BY regexp_replace(name, '[0-9]', '') "
        "HAVING CAST(sqrt(SUM(CAST(pow(cnt, 2) * xpath_double('<a>1</a>', 'a') AS DOUBLE))) AS DOUBLE) > 3",
        DDL,
    )
    with Harness(spec, session=spark) as harness:
        harness.process([("+I", "a1", 3), ("+I", "a2", 4), ("+I", "b", 1), ("+I", "X", 9)])
        harness.flush()
        assert harness.changes() == [("+I", "a", 5.0)]
        harness.process([("-D", "a1", 3), ("+I", "b3", 5)])
        harness.flush()
        assert harness.table() == [("a", 4.0), ("b", 26**0.5)]
    monkeypatch.setattr(type(spark), "getActiveSession", lambda: None)
    with pytest.raises(UnsupportedExpressionError, match="session"), Harness(spec) as harness:
        harness.process([("+I", "a1", 3)])
        harness.flush()
