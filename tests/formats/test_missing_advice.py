"""The advice for a missing column: never NULL if the files have the value, or a row would be lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aggloom.errors import AggloomError
from aggloom.runtime.connectors.files.source import read_changes
from aggloom.runtime.formats.partitions import missing_advice

DDL = "id INT, a STRING, day INT"
NULL = 'missing="null"'
ROW = "header=false reads columns by position"
ABOVE = "give the directory above it as the path"


def test_the_name_of_a_directory_says_a_column() -> None:
    assert NULL in missing_advice("day", "in/f.csv", "day/f.csv")
    assert "directory day=1 says it" in missing_advice("DAY", "file:/in/day=1/f.csv")
    assert ABOVE in missing_advice("Day", "in/day=*/f.csv")
    assert ABOVE in missing_advice("a b", "file:///in/a%20b=1/f.csv")


@pytest.mark.spark
@pytest.mark.parametrize("whole_files", [True, False])
@pytest.mark.parametrize(
    ("first", "advice"),
    [
        ("id,a", NULL),
        ("id,a,_change_type", NULL),
        ("1,a,7", ROW),
        ("id,,a", ROW),
        ("1,b,7", "say header=false to read columns by position"),
    ],
)
def test_a_first_line_that_may_be_a_row(
    spark: Any, tmp_path: Path, first: str, advice: str, whole_files: bool
) -> None:
    (tmp_path / "1.csv").write_text(f"{first}\n")
    with pytest.raises(AggloomError) as raised:
        read_changes(spark, tmp_path, "csv", DDL, whole_files=whole_files)
    assert advice in str(raised.value)
    assert (NULL in str(raised.value)) == (advice == NULL)


@pytest.mark.spark
@pytest.mark.parametrize(("first", "advice"), [("id,a", NULL), ("1,a,7", ROW)])
def test_a_later_file_without_a_header(spark: Any, tmp_path: Path, first: str, advice: str) -> None:
    (tmp_path / "1.csv").write_text("id,a,day\n1,x,1\n")
    (tmp_path / "2.csv").write_text(f"{first}\n2,y,2\n")
    rows = read_changes(spark, tmp_path, "csv", DDL, streaming=False)
    with pytest.raises(Exception, match="first line does not name the column") as raised:
        rows.collect()
    assert advice in str(raised.value)
    assert (NULL in str(raised.value)) == (advice == NULL)


def write(file: Path, row: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True)
    if file.suffix == ".parquet":
        pq.write_table(pa.table({name: [value] for name, value in row.items()}), file)
    elif file.suffix == ".csv":
        file.write_text(f"{','.join(row)}\n{','.join(map(str, row.values()))}\n")
    else:
        file.write_text(json.dumps(row))


@pytest.mark.spark
@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("path", "options"), [("in/day=1", {}), ("in", {"recursiveFileLookup": "true"})]
)
def test_a_directory_that_is_no_column_of_the_path(
    spark: Any, tmp_path: Path, format: str, path: str, options: Any
) -> None:
    write(tmp_path / "in" / "day=1" / f"f.{format}", {"id": 1, "a": "x"})
    with pytest.raises(AggloomError, match="'day'") as raised:
        read_changes(spark, tmp_path / path, format, DDL, **options)
    assert ABOVE in str(raised.value) and NULL not in str(raised.value)
