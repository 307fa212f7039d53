"""Delta tables on Spark: a script from one into others, over restarts and a kill between two commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pytest
from click.testing import CliRunner

import tests.sinks.test_iceberg as iceberg
from aggloom.cli import main
from aggloom.errors import SpecError
from aggloom.runtime.connectors.delta.options import delta_options
from aggloom.runtime.connectors.delta.sink import DeltaSink
from tests.sinks.test_delta_sink import rows

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

import deltalake

import aggloom as al

SCRIPT = """
    CREATE TABLE source (k BIGINT, f DOUBLE, v STRING)
      WITH ('connector' = 'delta', 'table-path' = 'source', 'max_versions_per_trigger' = '3');
    CREATE TABLE totals (v STRING, n BIGINT, s BIGINT, PRIMARY KEY (v) NOT ENFORCED)
      WITH ('connector' = 'delta', 'table-path' = 'totals', 'delta.enableChangeDataFeed' = 'true');
    INSERT INTO totals SELECT v, COUNT(*), SUM(k) FROM source GROUP BY v;
"""


@pytest.mark.spark
def test_from_delta_into_delta(
    spark: Any, tmp_path: Path, killed_after_writing: Callable[[], AbstractContextManager[None]]
) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    sink = DeltaSink(
        delta_options({"path": tmp_path / "source", "properties": feed}), ("k", "f"), True
    )
    told = list(lakes.random_batches(11, 10))
    (tmp_path / "job.sql").write_text(SCRIPT)
    command = [
        "run",
        str(tmp_path / "job.sql"),
        "--checkpoint",
        str(tmp_path / "c"),
        "--backend",
        "python",
    ]

    def run(first: int, end: int) -> Any:
        for number in range(first, end):
            sink.write(*lakes.batch(told[number][0]), number, "c")
        return CliRunner().invoke(main, command)

    def check(now: int) -> None:
        wanted = Counter[Any]()
        sums: dict[Any, int] = {}
        for k, _, v in told[now][1]:
            wanted[v] += 1
            if k is not None:
                sums[v] = sums.get(v, 0) + k
        found = rows(tmp_path / "totals", "v", "n", "s")
        assert lakes.in_words(found) == lakes.in_words(
            (v, n, sums.get(v)) for v, n in wanted.items()
        )

    result = run(0, 4)
    assert result.exit_code == 0, result.output
    check(3)
    with killed_after_writing():
        struck = run(4, 8)
        assert struck.exit_code and "killed" in struck.output + str(struck.exception)
    result = run(8, 10)
    assert result.exit_code == 0, result.output
    check(9)
    # The result is a source, too; and its first batch is the table as it is.
    frame = al.read_delta(spark, tmp_path / "totals", "v STRING, n BIGINT", streaming=False)
    assert lakes.in_words(map(tuple, frame.drop("_change_type").collect())) == lakes.in_words(
        rows(tmp_path / "totals", "v", "n")
    )
    iceberg.sink(tmp_path).write(*lakes.batch(told[3][0]), 0, "c")
    frame = al.read_iceberg(spark, "db.t", connect=iceberg.connect(tmp_path), streaming=False)
    assert frame.columns == ["k", "f", "v", "_change_type"]
    assert lakes.in_words(row[:3] for row in frame.collect()) == lakes.in_words(
        iceberg.rows(tmp_path)
    )
    with pytest.raises(SpecError, match="max_versions_per_trigger is 0"):
        al.read_delta(spark, tmp_path / "totals", max_versions_per_trigger=0)


@pytest.mark.spark
def test_rows_under_a_watermark_are_packed_where_they_are_read(spark: Any, tmp_path: Path) -> None:
    """The watermark goes by all rows, those that a filter drops among them, version by version."""
    versions = [[(1, 3), (2, 12)], [(1, 31), (8, 9)], [(16, 14), (9, 90)], [(1, 91), (4, 75)]]
    for rows_of in versions:
        at = pa.array([second * 1_000_000 for _, second in rows_of], pa.timestamp("us", "UTC"))
        table = pa.table({"v": pa.array([v for v, _ in rows_of], pa.int32()), "at": at})
        deltalake.write_deltalake(tmp_path / "in", table, mode="append")
    source = al.read_delta(spark, tmp_path / "in", start=0, max_versions_per_trigger=1)
    query = """CREATE VIEW w AS SELECT * FROM t WHERE v <> 9; SELECT window_start, SUM(v) AS s
      FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY window_start, window_end"""
    watermarks, more = {"t": ("at", "5 s")}, {"buckets": 1, "backend": "python", "dialect": "flink"}
    out = al.sql(query, t=source, input_changes="append", watermarks=watermarks, **more)
    assert "PackPieces" in out._jdf.queryExecution().toString()
    running = al.write_changes(out, "table", tmp_path / "c")
    al.await_end(running)
    assert sorted(row["s"] for row in al.read_table(tmp_path / "c").to_pylist()) == [1, 2, 8 + 1]
    assert sum(each.late for each in al.progress(running).operators) == 2
