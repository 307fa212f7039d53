"""What a worker says of the footer of a Parquet file that Spark reads row by row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from aggloom.errors import InputFormatError
from aggloom.runtime.spark.footers import Footers


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
