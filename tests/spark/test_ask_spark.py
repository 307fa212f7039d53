"""`aggloom ask` over a checkpoint of Spark: result and operators of one batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import job_over, random_changes, rows_of_table, write_files

from aggloom.runtime.asking.database import ask_live
from aggloom.runtime.asking.snapshot import LiveSnapshots
from tests.spark.test_move import run_on_spark

pytestmark = pytest.mark.spark


def test_a_checkpoint_of_spark_is_asked(spark: Any, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    write_files(tmp_path / "in", random_changes(11, 80), 4)
    run_on_spark(spark, job_over(tmp_path / "in", "sums", tmp_path / "state"))
    live = LiveSnapshots({"state": str(tmp_path / "state")}, spark=spark)
    rows = Counter(rows_of_table(tmp_path / "state"))
    assert len(rows) == 4
    for table in ("result", "operator_0"):
        found = ask_live(live, f"FROM {table}").to_pylist()
        assert Counter(tuple(row.values()) for row in found) == rows
    sql = "SELECT n FROM operator_0 WHERE customer = 'Ada'"
    assert ask_live(live, sql).to_pylist() == [{"n": row[1]} for row in rows if row[0] == "Ada"]
