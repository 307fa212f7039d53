"""Rolling horizons on the local engine: the model's table at each watermark, restarts, `why`, the end of input."""

from __future__ import annotations

from pathlib import Path

import pytest
from rolling_model import COLUMNS, QUERY, ROLLING, Row, random_batches, write_batch

from aggloom.errors import StateMismatchError
from aggloom.job import Job
from aggloom.run_local import open_query
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.inspection.checkpoint import state, why
from aggloom.script import jobs_of

TABLE = """CREATE TABLE t (k STRING, v INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '3' MINUTE)
  WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'changes' = 'retract');"""


def table_of(checkpoint: Path) -> list[Row]:
    return sorted(
        tuple(row[name] for name in COLUMNS) for row in read_table(checkpoint).to_pylist()
    )


def job_of(query: str, folder: Path) -> Job:
    job = Job(TABLE + query, (), checkpoint=folder / "c", sink="table", backend="python")
    (asked,), _ = jobs_of(job, folder)
    return asked


def test_each_batch_has_what_its_watermark_says(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "nothing.json").write_text("")
    checkpoint = tmp_path / "c"
    asked = job_of(QUERY, tmp_path)
    query = open_query(asked, checkpoint)
    for number, (changes, table) in enumerate(random_batches(4, 13)):
        write_batch(tmp_path / "in", number, changes)
        # The watermark of rows is that of the batch after them, which has none where something is due by it.
        while query.run_batch():
            pass
        assert table_of(checkpoint) == table, number
        if number % 4 == 3:
            query.close()
            query = open_query(asked, checkpoint)
    query.close_windows()
    query.close()
    # The end of input is no time that passes.
    assert table_of(checkpoint) == table != []
    key = {"k": table[0][0]}
    (operator,) = state(checkpoint, key=key).operators
    assert operator.name == "GROUP BY k over rolling horizons" and operator.key is not None
    assert any(part.given for part in operator.key.parts)
    told = why(checkpoint, key=key)
    assert told.bundles and all(each.agrees for each in told.bundles)


def test_calls_change_by_horizon_and_columns_over_horizons_do_not(tmp_path: Path) -> None:
    by_horizon = f"SELECT k, horizon, SUM(v) AS total FROM {ROLLING} GROUP BY k, horizon"
    more = by_horizon.replace("AS total", "AS total, COUNT(*) AS n")
    for name, before, after in (
        ("long", by_horizon, more),
        (
            "wide",
            QUERY,
            QUERY.replace("AS top", "AS top, MAX(v) FILTER (WHERE horizon = '10 minutes') AS m"),
        ),
    ):
        folder = tmp_path / name
        folder.mkdir()
        write_batch(folder / "in", 0, [("+I", "x", 1, 0), ("+I", "x", 2, 9), ("+I", "y", 3, 20)])
        query = open_query(job_of(before, folder), folder / "c")
        while query.run_batch():
            pass
        query.close()
        # No edge moves: what is shown is what the first query has left.
        write_batch(folder / "in", 1, [("+I", "z", 1, 21)])
        if name == "wide":
            with pytest.raises(
                StateMismatchError, match="differs from the one that wrote it in the windows"
            ):
                _run(job_of(after, folder), folder / "c")
            continue
        _run(job_of(after, folder), folder / "c")
        rows = sorted(tuple(row.values()) for row in read_table(folder / "c").to_pylist())
        assert rows == [("x", "1 hour", 3, 2), ("x", "10 minutes", 2, 1)]


def _run(job: Job, checkpoint: Path) -> None:
    query = open_query(job, checkpoint)
    try:
        while query.run_batch():
            pass
    finally:
        query.close()
