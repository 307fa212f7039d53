"""What Parquet files that Spark reads row by row have to have: every column, and every group of rows within the file.

Spark gives NULLs for a column that is not there, and passes over a group that seems to lie behind the file's end. The
worker that meets a file's first row looks at its footer. Of a file that it cannot open, as on a file system that Arrow
does not know, nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType

from aggloom.errors import InputFormatError, nearest
from aggloom.runtime.spark.arrow_udf import arrow_udf
from aggloom.runtime.spark.file_names import check_name

_FILE = "_metadata.file_path"


@dataclass(frozen=True)
class Footers:
    """The function of files' paths, NULL where there is nothing to look at, that raises InputFormatError."""

    names: tuple[str, ...]

    def __call__(self, paths: pa.Array) -> pa.Array:
        """Look at each file; nothing comes of it but NULLs."""
        for path in paths.drop_null().unique().to_pylist():
            self._look_at(path)
        return pa.nulls(len(paths), pa.bool_())

    def _look_at(self, path: str) -> None:
        check_name(unquote(path))
        found = _columns(path)
        if found is None:
            return
        below = [part.partition("=")[0] for part in path.split("/")[:-1] if "=" in part]
        lower = {name.lower() for name in (*found, *map(unquote, below))}
        lacks = [name for name in self.names if name.lower() not in lower]
        if lacks:
            raise InputFormatError(
                f"{path}: the file lacks column {lacks[0]!r}. {nearest(lacks[0], found)} "
                'missing="null" takes what is missing for NULL.'
            )


def _columns(path: str) -> list[str] | None:
    """The columns of a file; None if it cannot be opened here."""
    try:
        system, place = fs.FileSystem.from_uri(path)
        with system.open_input_file(place) as file:
            opened = pq.ParquetFile(file)
            size = file.size()
    except (pa.ArrowException, OSError, ValueError):
        return None
    _check_groups(path, opened.metadata, size)
    return list(opened.schema_arrow.names)


def _check_groups(path: str, metadata: pq.FileMetaData, size: int) -> None:
    """Raise InputFormatError unless the groups of rows have the file's rows, and begin within it."""
    try:
        groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
        rows = sum(group.num_rows for group in groups)
        firsts = [group.column(0) for group in groups if group.num_columns]
        ends = [_begin(each) + each.total_compressed_size for each in firsts]
        sound = rows == metadata.num_rows and all(0 < end <= size for end in ends)
    except (pa.ArrowException, OSError):
        sound = False
    if not sound:
        raise InputFormatError(
            f"{path}: cannot be read as Parquet: its footer is damaged, and Spark would pass over rows. "
            "Take the file away, or write it anew."
        )


def _begin(column: pq.ColumnChunkMetaData) -> int:
    """Where a column's pages begin: with its dictionary, if it has one."""
    own = column.dictionary_page_offset if column.has_dictionary_page else None
    return int(column.data_page_offset if own is None else min(own, column.data_page_offset))


def lacks_column(names: list[str]) -> Column:
    """A column that is NULL, and fails the query at a file that lacks one of the columns."""
    look = Footers(tuple(names))

    def looked(paths: pa.Array) -> pa.Array:
        return look(paths)

    # It is not to be moved behind a filter, which may leave out the row that it looks at.
    return arrow_udf(looked, BooleanType())(F.when(F.col("_metadata.row_index") == 0, F.col(_FILE)))
