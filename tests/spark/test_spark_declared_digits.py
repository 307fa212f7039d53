"""Columns of times keep the digits that are declared, however Spark's rows come into a query."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.interpreted]

pytest.importorskip("pyspark")

from aggloom.runtime.spark import read_changes, sql  # noqa: E402

FIRST: Final = dt.datetime(1960, 1, 1, 0, 0, 0, 123_456)
SECOND: Final = FIRST.replace(microsecond=123_999)
CUT: Final = FIRST.replace(microsecond=123_000)
CREATED: Final = (
    "CREATE TABLE t (k INT, ts TIMESTAMP(3), lz TIMESTAMP_LTZ(4), w TIMESTAMP(6)) "
    "WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json'); "
)
ONLY_SPARK: Final = "DATE_FORMAT(ts, 'SSSSSS')"


def given(spark: Any, path: Path, door: str) -> Any:
    """Two rows within a millisecond, from a DataFrame or from a file that workers read whole."""
    zoned = [each.replace(tzinfo=dt.UTC) for each in (FIRST, SECOND)]
    plain = pa.timestamp("us")
    columns = {
        "k": pa.array([1, 2], pa.int32()),
        "ts": pa.array([FIRST, SECOND], plain),
        "lz": pa.array(zoned, pa.timestamp("us", "UTC")),
        "w": pa.array([FIRST, SECOND], plain),
    }
    pq.write_table(pa.table(columns), path / "a.parquet")
    if door == "rows":
        return spark.read.parquet(str(path))
    return read_changes(spark, str(path), format="parquet", streaming=False)


@pytest.mark.parametrize("door", ["rows", "files"])
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT ts, COUNT(*) AS c, MAX(w) AS w FROM t GROUP BY ts", [(CUT, 2, SECOND)]),
        ("SELECT COUNT(DISTINCT ts) AS a, COUNT(DISTINCT lz) AS b FROM t", [(1, 2)]),
        ("SELECT k, ts FROM t", [(1, CUT), (2, CUT)]),
        (f"SELECT {ONLY_SPARK} AS s, COUNT(*) AS c FROM t GROUP BY {ONLY_SPARK}", [("123000", 2)]),
        ("SELECT a.k, b.k AS o FROM t AS a JOIN t AS b ON a.ts = b.ts AND a.k < b.k", [(1, 2)]),
    ],
)
@pytest.mark.sampled(3)
def test_digits_that_are_declared(
    spark: Any, tmp_path: Path, door: str, query: str, rows: list[Any]
) -> None:
    df = sql(CREATED + query, t=given(spark, tmp_path, door), dialect="flink")
    assert sorted(tuple(row)[:-1] for row in df.collect()) == rows


def test_times_of_day(spark: Any) -> None:
    if spark.version < "4.1":
        pytest.skip("this Spark has no TIME")
    times = "(1, TIME'01:02:03.123456'), (2, TIME'01:02:03.123999')"
    created = "CREATE TABLE t (k INT, at TIME(3)) WITH ('connector' = 'print'); "
    df = spark.sql(f"SELECT * FROM VALUES {times} AS v(k, at)")
    cut = dt.time(1, 2, 3, 123_000)
    for query, rows in (
        ("SELECT at, COUNT(*) AS c FROM t GROUP BY at", [(cut, 2)]),
        ("SELECT k, at FROM t", [(1, cut), (2, cut)]),
    ):
        found = sql(created + query, t=df, dialect="flink").collect()
        assert sorted(tuple(row)[:-1] for row in found) == rows
