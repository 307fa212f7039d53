"""table.exec.source.idle-timeout on the local engine: a table without rows holds back the watermark for so long."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from engine_jobs import rows_of_table

from aggloom.job import Job
from aggloom.run_local import open_query
from aggloom.runtime.engine import query as engine_query
from aggloom.script import jobs_of

BEGIN = dt.datetime(2024, 1, 1, 9)
TEXT = """SET 'table.exec.source.idle-timeout' = '1 min';
CREATE TABLE web (id INT, ts TIMESTAMP_NTZ, WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = 'web', 'format' = 'json');
CREATE TABLE shop (id INT, ts TIMESTAMP_NTZ, WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = 'shop', 'format' = 'json');
CREATE VIEW v AS SELECT * FROM web UNION ALL SELECT * FROM shop;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
GROUP BY window_start, window_end"""


def write(folder: Path, name: str, number: int, minutes: list[int]) -> None:
    """Write a file of rows at so many minutes after nine, later than those before it."""
    rows = [{"id": n, "ts": str(BEGIN + dt.timedelta(minutes=n))} for n in minutes]
    (folder / name).mkdir(exist_ok=True)
    file = folder / name / f"{number}.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(file, (1_700_000_000 + number,) * 2)


def test_a_silent_table_holds_windows_back_for_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [1_700_000_000]
    clock = SimpleNamespace(time_ns=lambda: seconds[0] * 1_000_000_000)
    monkeypatch.setattr(engine_query, "time", clock)
    write(tmp_path, "web", 0, [1, 2, 12])
    write(tmp_path, "shop", 0, [])
    base = Job(TEXT, (), checkpoint=tmp_path / "c", sink="table", backend="python")
    (job,), _ = jobs_of(base, tmp_path)
    query = open_query(job, tmp_path / "c")

    def run() -> list[tuple[object, ...]]:
        while query.run_batch():
            pass
        return rows_of_table(tmp_path / "c")

    # It has had no rows yet, and is not idle for that.
    assert run() == []
    seconds[0] += 59
    assert run() == []
    write(tmp_path, "shop", 1, [3])
    assert run() == []
    seconds[0] += 59
    write(tmp_path, "web", 1, [13])
    assert run() == []
    seconds[0] += 2
    # A minute after its last row it holds nothing back, in a batch without rows.
    assert run() == [(BEGIN, 3)]
    write(tmp_path, "shop", 2, [14])
    write(tmp_path, "web", 2, [25])
    assert run() == [(BEGIN, 3)]
    query.close()
    # After a restart the time counts anew.
    query = open_query(job, tmp_path / "c")
    seconds[0] += 30
    assert run() == [(BEGIN, 3)]
    write(tmp_path, "web", 3, [26])
    seconds[0] += 31
    assert run() == [(BEGIN, 3), (BEGIN + dt.timedelta(minutes=10), 3)]
    query.close()
