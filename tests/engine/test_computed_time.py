"""WATERMARK FOR a computed column: windows, late rows and bounded joins are those of a column that rows have."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import rows_of_table, run_to_end

import aggloom as al
from aggloom.codegen.planner import plan_query
from aggloom.errors import AggloomError, DataError
from aggloom.job import Job
from aggloom.script import jobs_of

SOURCE = "WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', "
SOURCE += "'max_files_per_trigger' = '1')"
STORED = f"""
CREATE TABLE t (
  id INT, ms BIGINT, s STRING, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) {SOURCE};"""
BY_NUMBER = STORED.replace("ts TIMESTAMP_LTZ(3)", "ts AS TO_TIMESTAMP_LTZ(ms, 3)")
BY_TEXT = STORED.replace("ts TIMESTAMP_LTZ(3)", "ts AS CAST(s AS TIMESTAMP_LTZ)")
BY_JSON = STORED.replace(
    "ts TIMESTAMP_LTZ(3)", "ts AS TO_TIMESTAMP_LTZ(JSON_VALUE(s2, '$.ms' RETURNING BIGINT), 3)"
).replace("s STRING", "s STRING, s2 STRING")
WINDOWS = """
SELECT window_start, COUNT(*) AS n, SUM(id) AS s
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
"""
JOIN = """
SELECT a.id, b.id AS other FROM t a JOIN t b
ON a.id % 3 = b.id % 3 AND a.ts BETWEEN b.ts - INTERVAL '3' SECOND AND b.ts
"""


def write_rows(folder: Path, seed: int) -> None:
    """Files of rows, some of which come far too late."""
    folder.mkdir()
    draw = random.Random(seed)
    for number in range(6):
        lines = []
        for place in range(8):
            late = draw.choice([0, 0, 0, 1, 5, 30])
            ms = max(0, (number * 8 + place) * 1000 - late * 1000)
            text = f"1970-01-01 00:00:{ms // 1000:02d}.{ms % 1000:03d}"
            row = {"id": number * 8 + place, "ms": ms, "s": text, "ts": f"{text}Z"}
            lines.append(json.dumps({**row, "s2": json.dumps({"ms": ms})}) + "\n")
        file = folder / f"{number}.json"
        file.write_text("".join(lines))
        os.utime(file, (1_700_000_000 + number,) * 2)


def job_of(text: str, name: str) -> Job:
    base = Job(text, (), checkpoint=Path(name), sink="table", backend="python", dialect="flink")
    (job,), _ = jobs_of(base)
    return job


def table_of(text: str, name: str) -> list[tuple[Any, ...]]:
    """The table of a query on the local engine, run twice with a restart in between."""
    for _ in range(2):
        run_to_end(job_of(text, name))
    return rows_of_table(Path(name))


@pytest.mark.parametrize("query", [WINDOWS, JOIN], ids=["windows", "join"])
@pytest.mark.parametrize("table", [BY_NUMBER, BY_TEXT, BY_JSON], ids=["number", "text", "json"])
def test_on_the_local_engine(
    query: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "in", 3)
    expected = table_of(STORED + query, "stored")
    assert table_of(table + query, "computed") == expected
    assert len(expected) > 3


@pytest.mark.spark
def test_on_spark(spark: Any, tmp_path: Path) -> None:
    """Each file is a batch, on which it depends which rows are late."""
    write_rows(tmp_path / "in", 3)
    columns, found = "id INT, ms BIGINT, ts TIMESTAMP", []
    for time in ("ts", "TO_TIMESTAMP_LTZ(ms, 3)"):
        rows = al.read_changes(
            spark, str(tmp_path / "in"), "jsonl", columns, changes="append", maxFilesPerTrigger=1
        )
        view = f"CREATE VIEW v AS SELECT id, {time} AS ts FROM t;"
        text = view + WINDOWS.replace("TABLE t", "TABLE v")
        result = al.sql(text, t=rows, watermarks={"t": (time, "2 s")}, dialect="flink")
        state = tmp_path / f"state{len(found)}"
        al.write_changes(result, "table", state).awaitTermination(300)
        found.append(rows_of_table(state))
    assert found[0] == found[1]
    assert len(found[0]) > 2


def test_the_harness_follows_it() -> None:
    harness = al.Harness.from_sql(
        "CREATE VIEW v AS SELECT id, TO_TIMESTAMP_LTZ(ms, 3) AS ts FROM t;"
        + WINDOWS.replace("TABLE t", "TABLE v"),
        {"t": "id INT, ms BIGINT"},
        input_changes="append",
        watermarks={"t": ("TO_TIMESTAMP_LTZ(ms, 3)", "2 s")},
        backend="python",
        dialect="flink",
    )
    harness.process([("+I", 1, 1_000), ("+I", 2, 2_000)])
    harness.flush()
    assert harness.table() == []
    harness.process([("+I", 3, 30_000)])
    harness.process([("+I", 4, 3_000)])
    harness.flush()
    assert [row[1:] for row in harness.table()] == [(2, 3)]
    with pytest.raises(DataError, match="no event time"):
        harness.process([("+I", 5, None)])


def test_a_join_is_bounded_by_it() -> None:
    shown = al.explain(BY_NUMBER + JOIN, dialect="flink")
    assert "the watermark bounds the state" in shown
    through = JOIN.replace("FROM t a", "FROM (SELECT id, ts FROM t WHERE id > 0) a")
    assert "the watermark bounds the state" in al.explain(BY_NUMBER + through, dialect="flink")


@pytest.mark.parametrize(
    ("column", "match"),
    [
        ("ts AS ms + 1", "and no TIMESTAMP"),
        ("ts AS PROCTIME()", "the clock"),
        ("ts AS TO_TIMESTAMP_LTZ(nothing, 3)", "there is no column 'nothing'"),
        ("ts AS TO_TIMESTAMP_LTZ(ms", "a parenthesis is open"),
    ],
)
def test_refusals(column: str, match: str) -> None:
    text = STORED.replace("ts TIMESTAMP_LTZ(3)", column) + WINDOWS
    with pytest.raises(AggloomError, match=match):
        plan_query(text, {}, dialect="flink", input_changes="append")
