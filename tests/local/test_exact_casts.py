"""Columns of files and tables as their declared types: a DOUBLE that FLOAT would round is an error, at any depth."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import aggloom.local as local
from aggloom.errors import AggloomError
from aggloom.runtime.values.type_fit import cast_exactly

WIDE, NARROW = pa.float64(), pa.float32()
SHAPES = {
    "plain": (WIDE, NARROW, lambda value: value),
    "array": (pa.list_(WIDE), pa.list_(NARROW), lambda value: [0.5, value]),
    "map": (
        pa.map_(pa.string(), WIDE),
        pa.map_(pa.string(), NARROW),
        lambda value: [("a", 0.5), ("b", value)],
    ),
    "row": (pa.struct([("a", WIDE)]), pa.struct([("a", NARROW)]), lambda value: {"a": value}),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("value", [0.1, 16_777_217.0, 1e300, -1e-300])
def test_a_double_that_float_would_round_is_refused(shape: str, value: float) -> None:
    wide, narrow, wrap = SHAPES[shape]
    column = pa.array([wrap(0.5), None, wrap(value)], wide)
    with pytest.raises(pa.ArrowInvalid, match="would become FLOAT"):
        cast_exactly(column, narrow)
    # Rows before and after a slice are not those that are cast.
    assert cast_exactly(column.slice(0, 2), narrow).to_pylist() == [wrap(0.5), None]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("value", [0.25, -0.0, math.inf, None, math.nan])
def test_a_double_that_float_has_is_cast(shape: str, value: float | None) -> None:
    wide, narrow, wrap = SHAPES[shape]
    column: Any = pa.array([None, wrap(value)], wide)
    assert repr(cast_exactly(column, narrow).to_pylist()) == repr(column.to_pylist())
    assert len(cast_exactly(column.slice(0, 0), narrow)) == 0


def test_a_parquet_file_with_doubles_for_floats(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": ["a", "a"], "v": [0.5, 0.25]}), tmp_path / "t.parquet")
    query = "SELECT k, MAX(v) AS m FROM t GROUP BY k"
    rows = local.read_changes(tmp_path / "t.parquet", schema="k STRING, v FLOAT")
    assert local.collect(local.sql(query, t=rows, backend="python")).to_pylist() == [
        {"k": "a", "m": 0.5}
    ]
    pq.write_table(pa.table({"k": ["a"], "v": [0.1]}), tmp_path / "t.parquet")
    rows = local.read_changes(tmp_path / "t.parquet", schema="k STRING, v FLOAT")
    with pytest.raises(AggloomError, match=r"column 'v' is FLOAT.*DOUBLE 0\.1 would become FLOAT"):
        local.collect(local.sql(query, t=rows, backend="python"))
