"""Files whose names Spark's streams take for patterns are refused: it would read the others of a batch twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import aggloom as al
from aggloom.errors import InputFormatError
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.spark.read.file_names import check_name

PLAIN = ("a b", "a%5Bb", "a+b&c#d", "\u00e9'")
PATTERNS = ("{x}", "[z]", "w?", "w*", "a\\b")
SCHEMA = "k STRING, v BIGINT"
SQL = "SELECT k, SUM(v) AS s FROM t GROUP BY k"


def write(directory: Path, name: str, format: str) -> None:
    """A file with one row, whose key is its name."""
    directory.mkdir(exist_ok=True)
    if format == "parquet":
        pq.write_table(pa.table({"k": [name], "v": [1]}), directory / name)
    elif format == "csv":
        (directory / name).write_text(f"k,v\n{name},1\n")
    else:
        (directory / name).write_text(json.dumps({"k": name, "v": 1}) + "\n")


def table(spark: Any, directory: Path, format: str, **options: Any) -> dict[str, int]:
    """Add up the stream of a directory; raises as the query does."""
    rows = al.read_changes(spark, directory, format, SCHEMA, **options)
    checkpoint = directory.with_name("checkpoint")
    al.await_end(al.write_changes(al.sql(SQL, t=rows), "table", checkpoint))
    return {row["k"]: row["s"] for row in read_table(checkpoint).to_pylist()}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_is_named(name: str) -> None:
    with pytest.raises(InputFormatError, match="Rename it"):
        check_name(f"/data/{name}.parquet")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("parquet", {}),
        ("parquet", {"whole_files": False, "missing": "null"}),
        ("csv", {}),
        ("csv", {"whole_files": False}),
        ("jsonl", {}),
    ],
)
@pytest.mark.sampled(1)
def test_files_that_spark_takes_for_patterns_are_refused(
    spark: Any, tmp_path: Path, format: str, options: dict[str, Any]
) -> None:
    for name in PLAIN:
        write(tmp_path / "rows", name, format)
    assert table(spark, tmp_path / "rows", format, **options) == dict.fromkeys(PLAIN, 1)
    write(tmp_path / "rows", PATTERNS[len(options)], format)
    write(tmp_path / "rows", "later", format)
    with pytest.raises(InputFormatError, match="Rename it"):
        table(spark, tmp_path / "rows", format, **options)


@pytest.mark.spark
def test_every_pattern_is_refused_in_lines(spark: Any, tmp_path: Path) -> None:
    for place, name in enumerate(PATTERNS):
        write(tmp_path / f"{place}", name, "jsonl")
        rows = al.read_changes(spark, tmp_path / f"{place}", "jsonl", SCHEMA)
        query = al.write_changes(rows, "table", tmp_path / f"checkpoint {place}")
        with pytest.raises(InputFormatError, match="Rename it"):
            al.await_end(query)


@pytest.mark.spark
def test_files_of_another_stream_are_refused_where_their_order_counts(
    spark: Any, tmp_path: Path
) -> None:
    for name in ("{x}", "later"):
        write(tmp_path / "rows", name, "parquet")
    rows = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "rows"))
    query = al.write_changes(
        al.sql("SELECT LAST_VALUE(v) AS v FROM t", t=rows), "table", tmp_path / "checkpoint"
    )
    with pytest.raises(InputFormatError, match="Rename it"):
        al.await_end(query)
