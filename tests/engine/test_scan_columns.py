"""Columns that nobody reads stay in their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aggloom import local
from aggloom.codegen.planner import plan_query
from aggloom.errors import AggloomError
from aggloom.runtime.engine import file_source
from aggloom.runtime.engine.scan_columns import scan_columns

SCHEMA = pa.schema(
    [("k", pa.string()), ("v", pa.int64()), ("wide", pa.string()), ("op", pa.string())]
)
DDL = "k STRING, v BIGINT, wide STRING, op STRING"


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("SELECT k, SUM(v) AS s FROM t GROUP BY k", ("k", "v")),
        ("SELECT v + 1 AS w FROM t WHERE op = 'x'", ("v", "op")),
        ("SELECT k, v FROM t UNION ALL SELECT wide, v FROM t", ("k", "v", "wide")),
        ("SELECT * FROM t", tuple(SCHEMA.names)),
    ],
)
def test_columns_of_all_readers_are_read(sql: str, read: tuple[str, ...]) -> None:
    plan = plan_query(sql, {"t": SCHEMA})
    assert scan_columns(plan, "t") == read
    assert set(scan_columns(plan, "t", ["wide"])) == {*read, "wide"}


def test_a_file_gives_the_columns_that_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"k": ["a", "b", "a"], "v": [1, 2, 3], "wide": ["x"] * 3, "op": ["o"] * 3})
    pq.write_table(table, tmp_path / "t.parquet")
    seen: list[list[str]] = []
    read = file_source.FileInput.read

    def read_noted(source: Any, planned: Any) -> Any:
        for each in read(source, planned):
            seen.append(each[0].schema.names)
            yield each

    monkeypatch.setattr(file_source.FileInput, "read", read_noted)
    rows = local.read_changes(tmp_path / "t.parquet", schema=DDL)
    found = local.collect(
        local.sql("SELECT k, SUM(v) AS s FROM t GROUP BY k", t=rows, backend="python")
    )
    assert found.to_pylist() == [{"k": "a", "s": 4}, {"k": "b", "s": 2}]
    assert seen == [["k", "v"]]


def test_a_declared_column_must_be_there_though_nobody_reads_it(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": ["a"], "v": [1]}), tmp_path / "t.parquet")
    rows = local.read_changes(tmp_path / "t.parquet", schema=DDL)
    totals = local.sql("SELECT k, SUM(v) AS s FROM t GROUP BY k", t=rows, backend="python")
    with pytest.raises(AggloomError, match="there is no column 'wide'"):
        local.collect(totals)
