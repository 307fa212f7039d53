"""Columns that mark what became of a row: refused at every input unless the schema declares them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from aggloom.errors import AggloomError
from aggloom.runtime.connectors.delta.changes import DeltaLake
from aggloom.runtime.connectors.delta.options import DeltaSource
from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.decoder import decoder
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.values.markers import MARKERS
from aggloom.tables import read_table_option

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
WRITTEN = (*MARKERS, "METADATA$ACTION", "_CHANGE_TYPE", "Op")
KNOWN = "marks what became of a row|change type '?D"


def _decode(format: str, marker: str, schema: pa.Schema, **more: Any) -> int:
    row = {"id": 1, "v": 2, marker: "D"}
    text = json.dumps(row).encode()
    key = b"1" if more else None
    return len(decoder(format, schema, **more).decode([Message(text, key)]).words)


def _jsonl(path: Path, marker: str, schema: pa.Schema) -> int:
    return _decode("jsonl", marker, schema)


def _upsert(path: Path, marker: str, schema: pa.Schema) -> int:
    return _decode("upsert-json", marker, schema, keys="id")


def _csv(path: Path, marker: str, schema: pa.Schema) -> int:
    (path / "t.csv").write_text(f"id,v,{marker}\n1,2,D\n", encoding="utf-8")
    return _read(path / "t.csv", "csv", schema)


def _parquet(path: Path, marker: str, schema: pa.Schema) -> int:
    pq.write_table(pa.table({"id": [1], "v": [2], marker: ["D"]}), path / "t.parquet")
    return _read(path / "t.parquet", "parquet", schema)


def _read(path: Path, format: str, schema: pa.Schema) -> int:
    with Harness.from_sql(
        "SELECT COUNT(*) AS n FROM t", {"t": schema}, backend="python"
    ) as harness:
        return int(harness.read(path, format))


def _delta(path: Path, marker: str, schema: pa.Schema) -> int:
    if marker == "_CHANGE_TYPE":
        marker = "__op"
    write_deltalake(str(path / "d"), pa.table({"id": [1], "v": [2], marker: ["D"]}))
    return DeltaLake.of(DeltaSource(path=path / "d"), schema).first()["version"] + 2


INPUTS = [_jsonl, _upsert, _csv, _parquet, _delta]


@pytest.mark.parametrize("marker", WRITTEN)
@pytest.mark.parametrize("read", INPUTS)
def test_markers_are_refused_unless_declared(
    tmp_path: Path, read: Callable[[Path, str, pa.Schema], int], marker: str
) -> None:
    with pytest.raises(AggloomError, match=KNOWN):
        read(tmp_path, marker, SCHEMA)
    if read is not _upsert and read is not _delta:
        declared = SCHEMA.append(pa.field(marker, pa.string()))
        (tmp_path / "declared").mkdir()
        assert read(tmp_path / "declared", marker, declared) == 1


@pytest.mark.parametrize("marker", WRITTEN)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_markers_are_no_columns_of_an_inferred_schema(
    tmp_path: Path, suffix: str, marker: str
) -> None:
    path = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.table({"id": [1], marker: ["D"]}), path)
    elif suffix == "csv":
        path.write_text(f"id,{marker}\n1,D\n", encoding="utf-8")
    else:
        path.write_text(json.dumps({"id": 1, marker: "D"}) + "\n", encoding="utf-8")
    source = read_table_option(f"t={path}")
    columns = source.columns()
    assert isinstance(columns, pa.Schema)
    assert columns.names == ["id"]
    with pytest.raises(AggloomError, match=KNOWN):
        _read(path, suffix, columns)
