"""MATCH_RECOGNIZE on Spark: matches over restarts with late rows, the end of WITHIN, changes, state of a key."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

import aggloom as al
from aggloom.runtime.spark.failures import await_end

pytestmark = pytest.mark.spark

SCHEMA = "g STRING, ts TIMESTAMP, n BIGINT"
SQL = """
    SELECT * FROM t MATCH_RECOGNIZE (
        PARTITION BY g ORDER BY ts
        MEASURES FIRST(n) AS low, LAST(up.n) AS high, COUNT(*) AS rows, SUM(up.n) AS total, CLASSIFIER() AS c
        AFTER MATCH SKIP PAST LAST ROW
        PATTERN (start up+ down | lone) WITHIN INTERVAL '15' SECOND
        DEFINE up AS up.n > LAST(n, 1), down AS n < LAST(n, 1), lone AS lone.n = 99)"""
BATCHES = (
    [("a", 5, 3), ("a", 1, 1), ("b", 9, 99)],
    [("a", 3, 2), ("b", 20, 7)],
    # 11 is the watermark that 20 brought, and 4 is late.
    [("a", 4, 100), ("a", 12, 0), ("b", 30, 8), (None, 31, 99)],
    [("a", 60, 0)],
)


def at(seconds: int) -> str:
    return f"2026-01-01 00:00:{seconds:02}" if seconds < 60 else "2026-01-01 00:01:00"


def test_matches_over_restarts(spark: Any, tmp_path: Path) -> None:
    source, checkpoint, out = tmp_path / "in", tmp_path / "checkpoint", tmp_path / "out"
    source.mkdir()
    for number, rows in enumerate(BATCHES):
        text = "".join(json.dumps({"g": g, "ts": at(ts), "n": n}) + "\n" for g, ts, n in rows)
        (source / f"{number}.jsonl").write_text(text, encoding="utf-8")
        df = al.read_changes(spark, str(source), "jsonl", SCHEMA, change_column=None)
        watermarks = {"t": ("ts", "9 seconds")}
        result = al.sql(SQL, t=df, input_changes="append", watermarks=watermarks)
        await_end(al.write_changes(result, f"parquet:{out}", checkpoint))
        if number == 1:
            (operator,) = al.state(checkpoint, key={"g": "a"}, spark=spark).operators
            assert operator.key.parts[0].results == {"waiting": 3, "before": 0}
    found = spark.read.parquet(str(out)).collect()
    assert {row["_change_type"] for row in found} == {"insert"}
    columns = ("g", "low", "high", "rows", "total", "c")
    assert {tuple(row[name] for name in columns) for row in found} == {
        ("a", 1, 3, 4, 5, "down"),
        ("b", 99, None, 1, None, "lone"),
        (None, 99, None, 1, None, "lone"),
    }


CHANGES = (
    [("a", 1, 1, "insert"), ("a", 3, 2, "insert"), ("a", 5, 0, "insert"), ("b", 40, 99, "insert")],
    # Behind the watermark of 31: a match begins later, and one is there that was not.
    [("a", 1, 1, "delete"), ("b", 20, 99, "insert"), ("b", 50, 1, "insert")],
    [("a", 3, 2, "update_preimage"), ("a", 3, 99, "update_postimage"), ("b", 20, 99, "delete")],
)
KINDS = {"+I": "insert", "-U": "update_preimage", "+U": "update_postimage", "-D": "delete"}


@pytest.mark.thorough
def test_changes_over_restarts(spark: Any, tmp_path: Path) -> None:
    """Each start reads one more file; the table has the matches of the rows that are there."""
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    columns = {"g": "STRING", "ts": "TIMESTAMP", "n": "BIGINT"}
    options: Any = {"input_changes": "retract", "backend": "python"}
    harness = al.Harness.from_sql(SQL, {"t": columns}, **options)
    kinds = {word: kind for kind, word in KINDS.items()}
    newest = 0
    for number, rows in enumerate(CHANGES):
        lines = [
            json.dumps({"g": g, "ts": at(ts), "n": n, "_change_type": kind}) + "\n"
            for g, ts, n, kind in rows
        ]
        (source / f"{number}.jsonl").write_text("".join(lines), encoding="utf-8")
        df = al.read_changes(spark, str(source), "jsonl", SCHEMA)
        result = al.sql(SQL, t=df, watermarks={"t": ("ts", "9 seconds")}, **options)
        await_end(al.write_changes(result, "table", checkpoint))
        for g, ts, n, kind in rows:
            harness.process([(kinds[kind], g, dt.datetime.fromisoformat(at(ts)), n)])
        harness.flush()
        newest = max(newest, *(ts for _, ts, _, _ in rows))
        harness.watermark(
            int(dt.datetime.fromisoformat(at(newest - 9) + "+00:00").timestamp() * 1000)
        )
        found = [tuple(row.values()) for row in al.read_table(checkpoint).to_pylist()]
        assert sorted(map(str, found)) == sorted(map(str, harness.table())), number
        assert len(found) == 1
