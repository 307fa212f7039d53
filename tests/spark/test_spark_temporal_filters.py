"""Temporal filters on Spark: rows come and leave by the clock of batches, over restarts, and without rows if let."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from pathlib import Path
from typing import Any

import aggloom as al
from aggloom.errors import CheckpointError

QUERY = """SELECT k, COUNT(*) AS n FROM t
  WHERE ts BETWEEN NOW() - INTERVAL '20' SECOND AND NOW() GROUP BY k"""
SCHEMA = "id INT, k INT, ts TIMESTAMP"


def write(folder: Path, number: int, rows: list[tuple[int, int, dt.datetime]]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": id, "k": k, "ts": ts.isoformat()}) + "\n" for id, k, ts in rows]
    file = folder / f"{number}.json"
    file.write_text("".join(lines))
    os.utime(file, (1_700_000_000 + number,) * 2)


def run(spark: Any, folder: Path, sql: str = QUERY, **trigger: Any) -> Any:
    rows = al.read_changes(spark, folder / "in", "jsonl", SCHEMA, max_files_per_trigger=1)
    out = al.sql(sql, t=rows, input_changes="append", backend="python", buckets=2)
    if trigger:
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    return al.write_changes(out, "table", folder / "c", trigger=trigger or None)


def table(folder: Path) -> list[tuple[Any, ...]]:
    try:
        return sorted(tuple(row.values()) for row in al.read_table(folder / "c").to_pylist())
    except CheckpointError:
        # No batch has run yet.
        return []


def test_rows_come_and_leave_over_a_restart(spark: Any, tmp_path: Path) -> None:
    began, stays = dt.datetime.now(dt.UTC), dt.timedelta(seconds=15)
    far = dt.timedelta(hours=1)
    # One that is over, one that is there for long, one that waits, and one that leaves soon.
    write(tmp_path / "in", 0, [(1, 1, began - far), (2, 1, began), (3, 2, began + far)])
    sql = QUERY.replace("'20' SECOND", "'1' HOUR")
    write(tmp_path / "in", 1, [(4, 2, began - far + stays)])
    al.await_end(run(spark, tmp_path, sql))
    left = stays - (dt.datetime.now(dt.UTC) - began)
    # On a slow machine its last moment is over before the batch.
    assert table(tmp_path) == [(1, 1), (2, 1)] or left < dt.timedelta()
    time.sleep(max(0.0, left.total_seconds() + 1))
    # The next batch that has rows takes it away, in whatever bucket it is.
    write(tmp_path / "in", 2, [(5, 1, began)])
    al.await_end(run(spark, tmp_path, sql))
    assert table(tmp_path) == [(1, 2)]


def test_rows_leave_without_input_if_batches_without_rows_are_let(
    spark: Any, tmp_path: Path
) -> None:
    write(tmp_path / "in", 0, [(1, 1, dt.datetime.now(dt.UTC) - dt.timedelta(hours=1))])
    query = run(spark, tmp_path, processingTime="500 milliseconds")

    def wait(is_there: Any) -> bool:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not is_there():
            time.sleep(0.1)
        return bool(is_there())

    try:
        # The first batch compiles.
        assert wait(lambda: query.lastProgress is not None)
        write(tmp_path / "in", 1, [(2, 7, dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))])
        assert wait(lambda: table(tmp_path) == [(7, 1)])
        assert wait(lambda: table(tmp_path) == [])
    finally:
        query.stop()


def test_a_batch_query_answers_for_the_moment(spark: Any) -> None:
    now = dt.datetime.now(dt.UTC)
    hour = dt.timedelta(hours=1)
    rows = [(1, 1, now - 2 * hour), (2, 1, now), (3, 1, now + hour), (4, 2, None)]
    df = spark.createDataFrame(rows, SCHEMA)
    out = al.sql(
        "SELECT k, COUNT(*) AS n FROM t WHERE ts > NOW() - INTERVAL '1' HOUR AND ts <= NOW() GROUP BY k",
        t=df,
        input_changes="append",
        backend="python",
    )
    assert [(row["k"], row["n"]) for row in out.collect()] == [(1, 1)]
