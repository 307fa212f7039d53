"""The checks of Parquet files that Spark reads row by row: by their footers, they have every column, one change column
at the most, and every group of rows within the file.

Spark gives NULLs for a column that is not there, and passes over a group that seems to lie behind the file's end. Who
meets a file's first row looks at its footer: under a local master Java itself, elsewhere a worker, for which every row
goes through Python. Of a file that cannot be opened, as on a file system that Arrow does not know, nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType

from aggloom.errors import InputFormatError, nearest
from aggloom.runtime.platform.java_class import function_of
from aggloom.runtime.spark.plan.arrow_udf import arrow_udf
from aggloom.runtime.spark.read.file_names import check_name
from aggloom.runtime.spark.read.footers_in_java import CLASS, DAMAGED, LENIENT, SOURCE, TEXTS
from aggloom.runtime.spark.read.records import Place
from aggloom.runtime.spark.sessions.session import is_local
from aggloom.runtime.values.markers import MARKER_HINT


@dataclass(frozen=True)
class Footers:
    """The function of files' paths, NULL where there is nothing to look at, that raises InputFormatError.

    required: the columns that a file has to have. changes: those of which it may have one. flattened: those that it
    must not have.
    """

    required: tuple[str, ...]
    changes: tuple[str, ...] = ()
    flattened: tuple[str, ...] = ()

    def __call__(self, paths: pa.Array) -> pa.Array:
        """Look at each file; nothing comes of it but NULLs."""
        # A file once, whatever number of rows names it.
        for path in paths.drop_null().unique().to_pylist():
            self._look_at(path)
        return pa.nulls(len(paths), pa.bool_())

    def _look_at(self, path: str) -> None:
        check_name(unquote(path))
        columns = _columns(path)
        if columns is None:
            return
        lower = {name.lower() for name in columns}
        for name in self.flattened:
            if name in lower:
                raise InputFormatError(f"{path}: column {name!r} {MARKER_HINT}")
        there = [name for name in self.changes if name in lower]
        if len(there) > 1:
            raise InputFormatError(
                f"{path}: both {there[0]!r} and {there[1]!r} are there; keep one"
            )
        # Columns that directories give (day=1/) are in no footer.
        below = [part.partition("=")[0] for part in path.split("/")[:-1] if "=" in part]
        lower |= {unquote(name).lower() for name in below}
        lacks = [name for name in self.required if name.lower() not in lower]
        if lacks:
            raise InputFormatError(
                f"{path}: the file lacks column {lacks[0]!r}. {nearest(lacks[0], columns)} {LENIENT}"
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
    # Outside of `try`: damage is an error, a file system that Arrow does not know is none.
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
        raise InputFormatError(f"{path}: {DAMAGED}")


def _begin(column: pq.ColumnChunkMetaData) -> int:
    """Return the offset at which a column's pages begin: with its dictionary, if it has one."""
    own = column.dictionary_page_offset if column.has_dictionary_page else None
    return int(column.data_page_offset if own is None else min(own, column.data_page_offset))


def sound_in_java(spark: Any, look: Footers) -> Column | None:
    """The condition that rows pass which Spark reads from Parquet files, asked by Java under a local master; else None.

    The first row of a file at which something is wrong fails the query instead. The condition is not determined by the
    row, so that Spark does not move it behind a filter, which may leave out the row that it looks at.
    """
    if not is_local(spark):
        return None
    names = ("\n".join(each) for each in (look.required, look.changes, look.flattened))
    wrong = function_of(spark, CLASS, SOURCE, TEXTS, *names)
    if wrong is None:
        return None
    # The file that has just been read: that of `_metadata` costs something for each row.
    refusal = Place(F.input_file_name()).refuse(wrong())
    return F.when(wrong().isNotNull(), refusal).isNull()


def sound_in_workers(look: Footers) -> Column:
    """Ask `sound_in_java` in workers; they cannot open every file that Spark reads."""

    def look_at_footers(paths: pa.Array) -> pa.Array:
        return look(paths)

    first = F.when(F.col("_metadata.row_index") == 0, F.col("_metadata.file_path"))
    return arrow_udf(look_at_footers, BooleanType())(first).isNull()
