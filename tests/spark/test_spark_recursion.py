"""WITH RECURSIVE on Spark and on the local engine gives DuckDB's table over a restart, and its error at the limit."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from recursions import QUERIES, TABLES, Batch, ask_duckdb, draw_batches, net_tables

import aggloom as al
from aggloom.codegen.planner import plan_query
from aggloom.errors import RecursionLimitError
from tests.engine.test_local_oracle import open_query
from tests.spark.test_spark_nested import Asked, folded, write

_LAST = "SELECT id, id + 1 AS next FROM r WHERE id > 0"


def add_files(folder: Path, batches: list[Batch], first: int) -> None:
    for number, batch in enumerate(batches, first):
        for name, schema in TABLES.items():
            rows = [row for table, row in batch if table == name]
            write(folder / name, number, schema, rows)


def run_on_spark(spark: Any, sql: str, folder: Path) -> None:
    frames = {
        name: al.read_changes(spark, folder / "in" / name, "parquet", schema)
        for name, schema in TABLES.items()
    }
    out = al.sql(sql, tables=frames, backend="python", buckets=2)
    al.await_end(al.write_changes(out, f"parquet:{folder / 'out'}", folder / "checkpoint"))


@pytest.mark.spark
def test_spark_gives_duckdbs_table_and_stops_at_the_limit(spark: Any, tmp_path: Path) -> None:
    sql = QUERIES["reached"].replace("LEVEL 6", "LEVEL 3").replace("SELECT id FROM r", _LAST)
    batches = draw_batches(random.Random(3), True, 4)
    shallow = [[c for c in batch if c[0] == "s" or c[1][2] - c[1][1] > 1] for batch in batches]
    for first in (0, 2):
        add_files(tmp_path / "in", shallow[first : first + 2], first)
        run_on_spark(spark, sql, tmp_path)
    found = folded((tmp_path / "out").rglob("*.parquet"), windows=True)
    assert found == ask_duckdb(sql, net_tables(shallow)) and found
    beyond: Batch = [("s", ("+I", 11)), *(("e", ("+I", n, n + 1, 1)) for n in range(11, 15))]
    add_files(tmp_path / "in", [beyond], 9)
    with pytest.raises(RecursionLimitError, match="query r is not at its end after 3 steps"):
        run_on_spark(spark, sql, tmp_path)


@pytest.mark.parametrize("name", ["pairs", "walks"])
def test_the_local_engine_gives_duckdbs_table_over_a_restart(name: str, tmp_path: Path) -> None:
    plan = plan_query(QUERIES[name], TABLES)
    batches = draw_batches(random.Random(7), False, 6)
    asked = Asked(QUERIES[name], "spark", TABLES, batches, Counter())
    for first in (0, 3):
        add_files(tmp_path / "in", batches[first : first + 3], first)
        query = open_query(asked, plan, tmp_path, buckets=3, files=1)
        try:
            query.run()
        finally:
            query.close()
    found = folded(sorted((tmp_path / "out").rglob("*.parquet")), windows=True)
    assert found == ask_duckdb(QUERIES[name], net_tables(batches)) and found
