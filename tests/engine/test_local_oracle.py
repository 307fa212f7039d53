"""Random queries of all operators on the local engine, over files, kills and restarts, give DuckDB's table.

The queries, tables and options are those of tests/spark/test_spark_nested.py. `make sweep` has its seeds by
AGGLOOM_SEEDS, which this file heeds, too.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from aggloom.codegen.planner import Plan, PlanOptions, plan_query
from aggloom.durable_files import write_whole
from aggloom.runtime.connectors.files.discovery import files_at
from aggloom.runtime.engine import checkpoint, file_log, file_sink
from aggloom.runtime.engine.file_source import FileInput
from aggloom.runtime.engine.query import LocalQuery, QuerySettings
from aggloom.runtime.engine.sources import Source
from tests.spark.test_spark_nested import (
    Asked,
    drawn_options,
    folded,
    over_tables,
    over_windows,
    write,
)

_FIRST, _COUNT = map(int, os.environ.get("AGGLOOM_SEEDS", "0:14").split(":"))


class Killed(BaseException):
    """The end of a process, played."""


def open_query(asked: Asked, plan: Plan, folder: Path, buckets: int, files: int) -> LocalQuery:
    """The query over the files in a folder for each table."""

    def open_source(root: Path, name: str, position: Any) -> Source:
        options = {"maxFilesPerTrigger": files}
        return FileInput(
            root,
            str(folder / "in" / name),
            "parquet",
            plan.scans[name],
            options,
            ends=True,
            position=position,
        )

    settings = QuerySettings(
        f"parquet:{folder / 'out'}",
        asked.watermarks or {},
        backend="python",
        buckets=buckets,
        keep_open=True,
    )
    return LocalQuery(plan, open_source, folder / "checkpoint", settings)


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _COUNT))
def test_random_queries_give_duckdbs_table(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = random.Random(seed)
    windows, retracts = seed % 2 == 0, draws.random() < 0.5
    asked = (over_windows if windows else over_tables)(draws, retracts)
    options, buckets = drawn_options(draws), draws.choice([1, 3, 8])
    files, half = draws.choice([1, 1, 2]), draws.randint(1, len(asked.batches) - 1)
    plan = plan_query(
        asked.script,
        asked.tables,
        input_changes="retract" if retracts else "append",
        dialect=asked.dialect,
        watermarks=asked.watermarks,
        options=PlanOptions.of(options),
    )
    left = draws.randint(1, 30)

    def write_or_die(file: Path, pieces: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            if draws.random() < 0.5:
                write_whole(file, pieces)
            raise Killed
        write_whole(file, pieces)

    for module in (checkpoint, file_log, file_sink):
        monkeypatch.setattr(module, "write_whole", write_or_die)
    for batches in (range(half), range(half, len(asked.batches))):
        for number in batches:
            for name, schema in asked.tables.items():
                rows = [row for table, row in asked.batches[number] if table == name]
                write(tmp_path / "in" / name, number, schema, rows)
        while True:
            try:
                query = open_query(asked, plan, tmp_path, buckets, files)
                try:
                    query.run()
                    break
                finally:
                    query.close()
            except Killed:
                continue
    files_there = sorted((tmp_path / "out").rglob("*.parquet"))
    assert sorted(files_at(tmp_path / "out")) == files_there
    found = folded(files_there, windows)
    assert found == asked.table, (asked.script, options)
