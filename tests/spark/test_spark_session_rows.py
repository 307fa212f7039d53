"""Rows of sessions, and frames with holes, on Spark: as the harness has them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import aggloom as al

BEGIN = dt.datetime(2024, 1, 1)
SCHEMA = "id INT, k STRING, ts TIMESTAMP_NTZ, v INT"
QUERIES = {
    "sessions": """SELECT id, k, window_start, window_end FROM
      TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECOND))""",
    "frames": """SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY ts GROUPS 1 PRECEDING EXCLUDE TIES) AS s,
      COUNT(*) OVER (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) AS n FROM t""",
    "months": """SELECT k, window_start, window_end, COUNT(*) AS n FROM
      TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '1' MONTH))
      GROUP BY k, window_start, window_end""",
}


@pytest.mark.parametrize("name", QUERIES)
def test_spark_has_what_the_harness_has(name: str, spark: Any) -> None:
    seconds = [0, 5, 5, 14, 40, 41, 41, 90_000]
    rows = [(n, "ab"[n % 2], BEGIN + dt.timedelta(seconds=s), n) for n, s in enumerate(seconds)]
    about: dict[str, Any] = {"input_changes": "append", "dialect": "flink", "backend": "python"}
    with al.Harness.from_sql(QUERIES[name], {"t": SCHEMA}, **about) as harness:
        harness.process([("+I", *row) for row in rows])
        harness.end_of_input()
        expected = sorted(tuple(row) for row in harness.table())
    out = al.sql(
        QUERIES[name],
        t=spark.createDataFrame(rows, SCHEMA),
        watermarks={"t": ("ts", "0 s")},
        **about,
    )
    shown = [each for each in out.columns if each not in ("_change_type", "op")]
    found = [tuple(row[each] for each in shown) for row in out.collect()]
    assert sorted(found) == expected and expected
