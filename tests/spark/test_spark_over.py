"""Window functions by time on Spark: rows wait for the watermark, over restarts, and late ones are counted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import aggloom as al
from aggloom.runtime.spark.failures import await_end

pytestmark = pytest.mark.spark

SCHEMA = "g STRING, ts TIMESTAMP, n BIGINT"
SQL = """
    SELECT g, ts, n, SUM(n) OVER w AS two, COUNT(*) OVER (PARTITION BY g ORDER BY ts) AS so_far
    FROM t WINDOW w AS (PARTITION BY g ORDER BY ts ROWS 1 PRECEDING)"""
BATCHES = (
    [("a", 5, 2), ("a", 1, 1), ("b", 9, None)],
    [("a", 3, 4), ("b", 20, 7)],
    # 11 is the watermark that 20 brought, and 4 is late.
    [("a", 4, 100), ("a", 30, 8), (None, 31, 1)],
    [("a", 60, 0)],
)


def at(seconds: int) -> str:
    return f"2026-01-01 00:00:{seconds:02}" if seconds < 60 else "2026-01-01 00:01:00"


def test_rows_wait_for_the_watermark_over_restarts(spark: Any, tmp_path: Path) -> None:
    source, checkpoint, out = tmp_path / "in", tmp_path / "checkpoint", tmp_path / "out"
    source.mkdir()
    for number, rows in enumerate(BATCHES):
        text = "".join(
            json.dumps({"g": g, "ts": at(ts), "n": n}, default=str) + "\n" for g, ts, n in rows
        )
        (source / f"{number}.jsonl").write_text(text, encoding="utf-8")
        df = al.read_changes(spark, str(source), "jsonl", SCHEMA, change_column=None)
        result = al.sql(
            SQL,
            t=df,
            input_changes="append",
            watermarks={"t": ("ts", "9 seconds")},
            over_insert_only=True,
        )
        await_end(al.write_changes(result, f"parquet:{out}", checkpoint))
    found = spark.read.parquet(str(out)).collect()
    assert {row["_change_type"] for row in found} == {"insert"}
    assert Counter(
        (row["g"], row["ts"].second, row["n"], row["two"], row["so_far"]) for row in found
    ) == {
        ("a", 1, 1, 1, 1): 1,
        ("a", 3, 4, 5, 2): 1,
        ("a", 5, 2, 6, 3): 1,
        ("b", 9, None, None, 1): 1,
        ("b", 20, 7, 7, 2): 1,
        ("a", 30, 8, 10, 4): 1,
        (None, 31, 1, 1, 1): 1,
    }
