"""Lines of messages that are packed by Zstandard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aggloom.errors import InputFormatError

pytest.importorskip("pyspark")

import aggloom as al
from aggloom.runtime.spark import explain_failure

pytestmark = pytest.mark.spark
DDL = "k STRING, v INT"


def pack(*values: int) -> bytes:
    lines = "".join(json.dumps({"k": "a", "v": v}) + "\n" for v in values)
    return bytes(pa.compress(lines.encode(), "zstd", asbytes=True))


def read_sum(spark: Any, path: Path, checkpoint: Path) -> Any:
    df = al.read_changes(spark, str(path), "jsonl", DDL)
    out = al.sql("SELECT SUM(v) AS s FROM t", t=df, buckets=1, backend="python")
    query = al.write_changes(out, "table", checkpoint)
    al.await_end(query)
    return al.read_table(checkpoint).to_pylist()[0]["s"], al.progress(query).rows


def test_a_packed_file_that_comes_later(spark: Any, tmp_path: Path) -> None:
    there, home = tmp_path / "in", tmp_path / "home"
    there.mkdir()
    (there / "a.jsonl").write_text('{"k": "a", "v": 1}\n\n{"k": "a", "v": 1}\n')
    assert read_sum(spark, there, home) == (2, 3)
    # A run that starts with such a file goes on where the last one has stopped.
    (there / "b.jsonl.zst").write_bytes(pack(2, 3))
    assert read_sum(spark, there, home) == (7, 2)


def test_a_damaged_file_is_refused_with_its_place(spark: Any, tmp_path: Path) -> None:
    there = tmp_path / "in"
    there.mkdir()
    (there / "b.jsonl.zst").write_bytes(pack(2, 3)[:-4])
    with pytest.raises(Exception, match="cannot be unpacked as zstd") as raised:
        read_sum(spark, there, tmp_path / "home")
    assert isinstance(explain_failure(raised.value), InputFormatError)


def test_what_spark_cannot_unpack_is_read_after_a_restart() -> None:
    said = "native zStandard library not available: this version of libhadoop was built without zstd support."
    error = explain_failure(RuntimeError(said))
    assert isinstance(error, InputFormatError)
    assert "start the query again from the same checkpoint" in str(error)
