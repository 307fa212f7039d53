"""A table of Delta's or Iceberg's that is there is held against the result before a row is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aggloom.errors import SinkError
from aggloom.runtime.sinks.registry import made_sink, sink_options

RESULT = pa.schema([("k", pa.int32()), ("v", pa.decimal128(10, 2))])
OTHER = [
    pa.schema([("k", pa.int32()), ("v", pa.decimal128(10, 1))]),
    pa.schema([("k", pa.string()), ("v", pa.decimal128(10, 2))]),
    pa.schema([("v", pa.decimal128(10, 2))]),
]


def place(kind: str, folder: Path) -> dict[str, Any]:
    if kind == "delta":
        return {"kind": "delta", "path": str(folder / "t")}
    connect = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w"}
    return {"kind": "iceberg", "table": "db.t", "connect": connect}


def make(kind: str, folder: Path, schema: pa.Schema) -> None:
    if kind == "delta":
        library = pytest.importorskip("deltalake")
        library.DeltaTable.create(folder / "t", library.Schema.from_arrow(schema))
        return
    library = pytest.importorskip("pyiceberg.catalog")
    catalog = library.load_catalog("default", **place(kind, folder)["connect"])
    catalog.create_namespace("db")
    catalog.create_table("db.t", schema)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("there", OTHER)
def test_other_types_are_refused_before_the_start(
    kind: str, there: pa.Schema, tmp_path: Path
) -> None:
    make(kind, tmp_path, there)
    _, options = sink_options(place(kind, tmp_path))
    sink, _ = made_sink(options, ("k",), True)
    with pytest.raises(SinkError, match=r"in the table, and|no column 'k'"):
        sink.check_start(RESULT)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("form", ["table", "changelog"])
def test_a_table_that_is_not_there_is_not_made_by_the_check(
    kind: str, form: str, tmp_path: Path
) -> None:
    pytest.importorskip("deltalake" if kind == "delta" else "pyiceberg.catalog")
    _, options = sink_options({**place(kind, tmp_path), "form": form})
    sink, _ = made_sink(options, ("k",), True)
    sink.check_start(RESULT)  # type: ignore[attr-defined]
    assert not sink._exists()  # type: ignore[attr-defined]
    rows = pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([None], RESULT.field(1).type)})
    sink.write(rows, np.zeros(1, np.int8), 0, "c")
    sink.check_start(RESULT)  # type: ignore[attr-defined]


@pytest.mark.spark
def test_a_query_does_not_start(spark: Any, tmp_path: Path) -> None:
    import aggloom as al

    make("delta", tmp_path, OTHER[0])
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.json").write_text('{"k": 1, "v": 1.25}')
    t = al.read_changes(spark, folder, "jsonl", "k INT, v DECIMAL(10, 2)")
    out = al.sql("SELECT k, MAX(v) AS v FROM t GROUP BY k", t=t, buckets=1)
    with pytest.raises(SinkError, match=r"'v' is decimal128\(10, 1\) in the table"):
        al.write_changes(out, place("delta", tmp_path), tmp_path / "state")
    assert not (tmp_path / "state" / "commits").exists()
