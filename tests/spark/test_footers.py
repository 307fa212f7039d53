"""Java and a worker say the same of the footers of Parquet files that Spark reads row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812

import aggloom as al
from aggloom.errors import InputFormatError
from aggloom.runtime.spark.failures import explain_failure
from aggloom.runtime.spark.read import footers, parquet_rows
from aggloom.runtime.spark.read.footers import Footers


def written(path: Path, rows: int) -> bytes:
    table = pa.table({"name": [f"{n:09}" for n in range(rows)], "cnt": range(rows)})
    pq.write_table(table, path, row_group_size=1000, compression="none")
    return path.read_bytes()


def look(path: Path) -> int:
    return len(Footers(("name", "cnt"))(pa.array([path.as_uri(), None])))


@pytest.mark.parametrize("rows", [0, 1, 5000])
def test_nothing_is_said_of_a_sound_file(tmp_path: Path, rows: int) -> None:
    written(path := tmp_path / "f.parquet", rows)
    assert look(path) == 2


def test_groups_of_rows_behind_the_file_s_end_are_told(tmp_path: Path) -> None:
    # Spark reads such a file without a word, and without the groups that seem to lie elsewhere.
    content = written(path := tmp_path / "f.parquet", 5000)
    path.write_bytes(content[:4] + content[50_004:])
    with pytest.raises(InputFormatError, match=r"f\.parquet: cannot be read as Parquet"):
        look(path)


def test_nothing_is_said_of_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    (path := tmp_path / "f.parquet").write_bytes(b"PAR1 no Parquet PAR1")
    assert look(path) == 2
    assert look(tmp_path / "gone.parquet") == 2


def behind_the_end(path: Path) -> None:
    """A file with its first group of rows and its footer, by which the other groups lie behind the file's end."""
    content = written(path, 5000)
    second = pq.ParquetFile(path).metadata.row_group(1).column(0)
    begin = second.dictionary_page_offset or second.data_page_offset
    footer = 8 + int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[:begin] + content[-footer:])


def without_a_column(path: Path) -> None:
    pq.write_table(pa.table({"cnt": range(10), "inner": [{"name": "x"}] * 10}), path)


def of_another_order(path: Path) -> None:
    inner = {"inner": [{"more": [1], "name": "x"}] * 10}
    pq.write_table(pa.table({**inner, "CNT": range(10), "name": ["a"] * 10}), path)


def flattened(path: Path) -> None:
    pq.write_table(pa.table({"name": ["a"], "cnt": [1], "__DELETED": ["true"]}), path)


def with_two_change_columns(path: Path) -> None:
    pq.write_table(pa.table({"name": ["a"], "cnt": [1], "OP": ["+I"], "_change_type": ["x"]}), path)


def with_an_unknown_change(path: Path) -> None:
    pq.write_table(pa.table({"name": ["a", "b"], "cnt": [8, 9], "op": ["+I", "+X"]}), path)


def with_a_change_that_is_null(path: Path) -> None:
    kinds = pa.array(["insert", None])
    pq.write_table(pa.table({"name": ["a", "b"], "cnt": [8, 9], "_change_type": kinds}), path)


def with_changes(path: Path) -> None:
    pq.write_table(pa.table({"name": ["a", "b"], "cnt": [8, 9], "op": ["+I", "INSERT"]}), path)


def without_rows(path: Path) -> None:
    written(path, 0)


@pytest.mark.spark
@pytest.mark.parametrize("looks", [pytest.param("Java", marks=pytest.mark.shortcut), "a worker"])
@pytest.mark.parametrize(
    ("made", "says"),
    [
        (behind_the_end, r"b\.parquet: cannot be read as Parquet: its footer is damaged"),
        (without_a_column, r"b\.parquet: the file lacks column 'name'\. Known: 'cnt', 'inner'\."),
        (flattened, r"b\.parquet: column '__deleted' marks what became of a row"),
        (
            with_two_change_columns,
            r"b\.parquet: both '_change_type' and 'op' are there; keep one",
        ),
        (with_an_unknown_change, r"b\.parquet: change type '\+X' in 'op'; known are"),
        (with_a_change_that_is_null, r"b\.parquet: change type NULL in '_change_type'; known are"),
        (with_changes, ""),
        (of_another_order, ""),
        (without_rows, ""),
    ],
)
@pytest.mark.sampled(5)
def test_files_that_spark_would_read_without_a_word(
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    looks: str,
    made: Any,
    says: str,
) -> None:
    if looks == "a worker":
        monkeypatch.setattr(footers, "is_local", lambda spark: False)
    (data := tmp_path / "in" / "day=1").mkdir(parents=True)
    written(data / "a.parquet", 10)
    # The column of the directory is in no file.
    rows = al.read_changes(
        spark, tmp_path / "in", "parquet", "name STRING, cnt BIGINT, day INT", whole_files=False
    )
    assert ("look_at_footers" in _plan(rows)) == (looks == "a worker")
    made(data / "b.parquet")
    # What the filter leaves out is looked at, too.
    query = al.write_changes(
        al.sql("SELECT name FROM rows WHERE cnt > 7", rows=rows, input_changes="append"),
        f"parquet:{tmp_path / 'out'}",
        tmp_path / "checkpoint",
    )
    if not says:
        assert query.awaitTermination(60)
        return
    with pytest.raises(Exception, match="STREAM_FAILED") as failed:
        query.awaitTermination(60)
    error = explain_failure(failed.value)
    assert isinstance(error, InputFormatError)
    with pytest.raises(InputFormatError, match=says):
        raise error


@pytest.mark.spark
def test_flattened_records_are_told_where_no_worker_can_open_a_file(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footers, "is_local", lambda spark: False)
    monkeypatch.setattr(parquet_rows, "sound_in_workers", lambda look: F.lit(True))
    flattened(tmp_path / "b.parquet")
    rows = al.read_changes(
        spark, tmp_path, "parquet", "name STRING, cnt BIGINT", streaming=False, whole_files=False
    )
    with pytest.raises(Exception, match="column '__deleted' marks what became of a row"):
        rows.collect()


def _plan(df: Any) -> str:
    return str(df._jdf.queryExecution().logical().toString())
