"""The time of processing as a value on Spark: the batch's, one for all of its rows."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import aggloom as al

QUERY = """SELECT id, PROCTIME() AS p, NOW() AS n FROM t"""
WINDOWS = """CREATE VIEW v AS SELECT *, PROCTIME() AS p FROM t;
  SELECT id, window_start, window_end FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(p), INTERVAL '1' DAY))"""


def test_one_time_for_a_batch(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"id": number}) + "\n" for number in range(6)]
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text("".join(lines[2 * number : 2 * number + 2]))
    before = dt.datetime.now(dt.UTC)
    for name, sql in (("values", QUERY), ("windows", WINDOWS)):
        rows = al.read_changes(spark, tmp_path / "in", "jsonl", "id INT", max_files_per_trigger=1)
        out = al.sql(sql, t=rows, input_changes="append", dialect="flink", backend="python")
        al.await_end(al.write_changes(out, "table", tmp_path / name))
        found = sorted(tuple(each.values()) for each in al.read_table(tmp_path / name).to_pylist())
        assert [row[0] for row in found] == list(range(6))
        if name == "windows":
            assert all(end - start == dt.timedelta(days=1) for _, start, end in found)
            assert all(
                start <= dt.datetime.now(dt.UTC).replace(tzinfo=None) < end
                for _, start, end in found
            )
            continue
        times = {p for _, p, _ in found}
        assert len(times) == 3 and all(p == n for _, p, n in found)
        assert all(before - dt.timedelta(seconds=1) <= p <= dt.datetime.now(dt.UTC) for p in times)
