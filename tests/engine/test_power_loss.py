"""Queries of the local engine on a machine that loses power: the table is DuckDB's, whatever was not synced is gone.

The queries are those of tests/spark/test_spark_nested.py. `make simulate ENGINE=local SEEDS=1000` plays so many.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from simulated_disk import Killed, SimulatedDisk

from aggloom.codegen.planner import PlanOptions, plan_query
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.engine import state_rows
from aggloom.runtime.engine.file_source import FileInput
from aggloom.runtime.engine.query import LocalQuery, QuerySettings
from aggloom.runtime.engine.sources import Source
from tests.spark.test_spark_nested import drawn_options, folded, over_tables, over_windows, write

_COUNT = int(os.environ.get("AGGLOOM_LOSSES", "10"))
_MOST = 6
"""So often a run is ended before it may come to its end."""


@pytest.mark.parametrize("seed", range(_COUNT))
@pytest.mark.sampled(4)
def test_a_loss_of_power_loses_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = random.Random(seed)
    # Of every third, logs lie in files of their own, which a thread writes.
    monkeypatch.setattr(state_rows, "LOG_IN_COMMIT", 0 if seed % 3 == 0 else 1 << 20)
    windows, retracts = seed % 2 == 0, draws.random() < 0.5
    asked = (over_windows if windows else over_tables)(draws, retracts)
    buckets, files = draws.choice([1, 3, 8]), draws.choice([1, 1, 2])
    sink = draws.choice(["table", "parquet"])
    plan = plan_query(
        asked.script,
        asked.tables,
        input_changes="retract" if retracts else "append",
        dialect=asked.dialect,
        watermarks=asked.watermarks,
        options=PlanOptions.of(drawn_options(draws)),
    )
    disk = SimulatedDisk(tmp_path / "disk", draws)

    def open_source(root: Path, name: str, position: Any) -> Source:
        place, most = str(tmp_path / "in" / name), {"maxFilesPerTrigger": files}
        return FileInput(
            root, place, "parquet", plan.scans[name], most, ends=True, position=position
        )

    def run() -> None:
        to = sink if sink == "table" else f"parquet:{disk.root / 'out'}"
        settings = QuerySettings(
            to, asked.watermarks or {}, backend="python", buckets=buckets, keep_open=True
        )
        query = LocalQuery(plan, open_source, disk.root / "checkpoint", settings)
        try:
            query.run()
        finally:
            query.close()

    half = draws.randint(1, len(asked.batches) - 1)
    for batches in (range(half), range(half, len(asked.batches))):
        for number in batches:
            for name, schema in asked.tables.items():
                rows = [row for table, row in asked.batches[number] if table == name]
                write(tmp_path / "in" / name, number, schema, rows)
        for ends in range(_MOST + 1):
            left = draws.randint(1, 80) if ends < _MOST else -1
            try:
                with disk.dying_after(left):
                    run()
            except Killed:
                if draws.random() < 0.8:
                    disk.lose_power()
                continue
            break
        # What was committed outlives a loss after it, too.
        disk.lose_power()
    out = sorted((disk.root / "out").rglob("*.parquet"))
    if sink == "table":
        rows = read_table(disk.root / "checkpoint")
        out = [tmp_path / "table.parquet"]
        words = pa.array(["insert"] * rows.num_rows, pa.string())
        pq.write_table(rows.append_column("_change_type", words), out[0])
    found = folded(out, windows)
    assert found == asked.table, (asked.script, sink)
