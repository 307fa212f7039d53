"""Columns in the names of directories: the same of every format, in a harness, the shell and on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aggloom.codegen import type_name
from aggloom.errors import InputFormatError
from aggloom.job import Job
from aggloom.job_plan import feed_job
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.formats.partitions import infer_partition_columns, partition_texts
from aggloom.runtime.spark import await_end, read_changes, sql, write_changes
from aggloom.tables import read_table_option

QUERY = "SELECT k, SUM(v) AS s FROM t GROUP BY k"
DIRECTORIES = {
    "k=a%3Ab": 1,
    "k=x y": 2,
    "k=__HIVE_DEFAULT_PARTITION__": 4,
    "k=007": 8,
    "k=007/in": 16,
}
TEXTS = {"a:b": 1, "x y": 2, None: 4, "007": 24}
FORMATS = ("jsonl", "csv", "parquet")


def put(root: Path, format: str, directories: dict[str, int]) -> str:
    """Files in directories with a row each, which has another k where the format can."""
    for name, number in directories.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        file = root / name / f"f.{format}"
        if format == "parquet":
            pq.write_table(pa.table({"v": pa.array([number], pa.int32())}), file)
        else:
            file.write_text(
                f'{{"v": {number}, "k": "no"}}\n' if format == "jsonl" else f"k,v\nno,{number}\n"
            )
    return str(root)


def run_shell(path: str, format: str, schema: str = "") -> dict[Any, int]:
    """The result of what `aggloom sql` reads."""
    table = read_table_option(f"t={path},format={format}{schema and ',schema=' + schema}")
    with feed_job(Job(QUERY, (table,), backend="python")) as harness:
        return dict(harness.table())


@pytest.mark.parametrize("format", FORMATS)
def test_directories_are_columns_in_a_harness(tmp_path: Path, format: str) -> None:
    path = put(tmp_path / "in", format, DIRECTORIES)
    assert run_shell(path, format, "k STRING, v INT") == TEXTS
    assert run_shell(path, format) == TEXTS
    days = put(tmp_path / "days", format, {"K=1": 1, "K=02": 2})
    assert run_shell(days, format, "k INT, v INT") == {1: 1, 2: 2}
    assert run_shell(days, format, "k STRING, v INT") == {"1": 1, "02": 2}
    # Below a directory that is named as such, its name says nothing; nor does it with recursiveFileLookup.
    if format != "parquet":
        assert run_shell(f"{days}/K=1", format, "k STRING, v INT") == {"no": 1}
    with pytest.raises(InputFormatError, match="k=x is no INT; declare the column as STRING"):
        run_shell(put(tmp_path / "odd", format, {"k=x": 1}), format, "k INT, v INT")
    with pytest.raises(InputFormatError, match="its directories give the columns"):
        run_shell(put(tmp_path / "two", format, {"k=1": 1, "k=1/j=1": 1}), format, "k INT, v INT")
    with pytest.raises(InputFormatError, match="a column '_change_type'"):
        odd = put(tmp_path / "kinds", format, {"_change_type=delete": 1})
        run_shell(odd, format, "k STRING, v INT")


@pytest.mark.spark
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.sampled(1)
def test_directories_are_columns_on_spark(spark: Any, tmp_path: Path, format: str) -> None:
    path = put(tmp_path / "in", format, DIRECTORIES)
    for schema in ("k STRING, v INT", "v INT, K STRING"):
        df = sql(QUERY, t=read_changes(spark, path, format, schema), buckets=1)
        home = tmp_path / f"home {schema[0]}"
        await_end(write_changes(df, "table", home))
        found = read_table(home)
        assert dict(zip(*(found.column(c).to_pylist() for c in (0, 1)), strict=True)) == TEXTS


@pytest.mark.parametrize(
    ("values", "type"),
    [
        (["1", "02", "+3"], "INT"),
        (["1", "3000000000"], "BIGINT"),
        (["1", "12345678901234567890"], "DECIMAL(38,0)"),
        (["1", "1.5"], "DOUBLE"),
        (["3000000000", "1.5"], "STRING"),
        (["2026-01-02"], "DATE"),
        (["2026-01-02", "2026-01-02 03%3A04%3A05"], "TIMESTAMP"),
        (["1", "x"], "STRING"),
        (["__HIVE_DEFAULT_PARTITION__", "1"], "INT"),
        (["__HIVE_DEFAULT_PARTITION__"], "STRING"),
    ],
)
def test_types_of_directories(values: list[str], type: str) -> None:
    texts = {Path(value): partition_texts(Path(f"k={value}")) for value in values}
    assert [type_name(field.type) for field in infer_partition_columns(texts)] == [type]


def test_directories_that_escape_bytes_of_utf_8_are_texts(tmp_path: Path) -> None:
    for name, text in {
        "gr%C3%B6%C3%9Fe": "größe",
        "größe": "größe",
        "a%3Ab": "a:b",
        "%E6%97%A5": "日",
    }.items():
        assert partition_texts(Path(f"name={name}")) == {"name": text}
    with pytest.raises(InputFormatError, match="no UTF-8"):
        partition_texts(Path("name=gr%F6%DFe"))


@pytest.mark.spark
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_directories_that_spark_takes_apart_are_refused(
    spark: Any, tmp_path: Path, format: str
) -> None:
    path = tmp_path / "name=gr%C3%B6%C3%9Fe"
    path.mkdir()
    (path / "a").write_text('{"v": 1}')
    with pytest.raises(InputFormatError, match="rename the directory to 'name=größe'"):
        read_changes(spark, str(tmp_path), format, "v INT, name STRING", streaming=False)
