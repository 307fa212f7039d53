"""Sinks whose result has gained a column: the table gets it with the first batch that has it, however often that is
written, and only what was gained is added.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aggloom.errors import SinkError
from aggloom.runtime.connectors.registry import made_sink, sink_options

NARROW = pa.table({"k": [1, 2], "v": ["a", "b"]})
WIDE = pa.table({"k": [2, 3], "extra": [7, None], "v": ["c", "d"]})


def entries(kind: str, path: Path) -> dict[str, Any]:
    if kind == "database":
        return {"kind": kind, "driver": "sqlite3", "connect": str(path / "d.db"), "table": "t"}
    if kind == "delta":
        pytest.importorskip("deltalake")
        return {"kind": kind, "path": str(path / "t")}
    pytest.importorskip("pyiceberg.catalog")
    connect = {"type": "sql", "uri": f"sqlite:///{path}/c.db", "warehouse": f"file://{path}/w"}
    return {"kind": kind, "table": "db.t", "connect": connect}


def rows(kind: str, path: Path) -> list[tuple[Any, ...]]:
    """The rows of a table, by k: its own library reads them."""
    names = ["k", "v", "extra"]
    if kind == "database":
        with sqlite3.connect(path / "d.db") as connection:
            return sorted(connection.execute(f"SELECT {', '.join(names)} FROM t").fetchall())
    if kind == "delta":
        import deltalake

        table = deltalake.DeltaTable(str(path / "t")).to_pyarrow_table()
    else:
        from pyiceberg.catalog import load_catalog

        table = (
            load_catalog("default", **entries(kind, path)["connect"])
            .load_table("db.t")
            .scan()
            .to_arrow()
        )
    return sorted(tuple(row[name] for name in names) for row in table.to_pylist())


@pytest.mark.parametrize("kind", ["database", "delta", "iceberg"])
def test_a_table_gains_what_its_result_has_gained(kind: str, tmp_path: Path) -> None:
    def sink(*added: str) -> Any:
        _, options = sink_options(entries(kind, tmp_path))
        opened, _ = made_sink(options, ["k"], True, frozenset(added))
        return opened

    inserts = np.zeros(2, np.int8)
    assert sink().write(NARROW, inserts, 0, "own")
    # The column is none that was gained: somebody else's table is not changed.
    for other in (sink(), sink("v2")):
        with pytest.raises(SinkError, match="no column 'extra'"):
            other.write(WIDE, inserts, 1, "own")
    wide = sink("extra")
    if hasattr(wide, "check_start"):
        wide.check_start(WIDE.schema)
    changes = np.array([2, 0], np.int8)
    assert wide.write(WIDE, changes, 1, "own")
    # After a kill the batch comes once more, and the column is there.
    assert not sink("extra").write(WIDE, changes, 1, "own")
    assert rows(kind, tmp_path) == [(1, "a", None), (2, "c", 7), (3, "d", None)]
