"""Parquet files read whole in the Python worker, so that no row crosses from the JVM into Python by itself.

Spark lists the files, keeps track of which batch has which, and hands over their bytes (its `binaryFile` source); what
its own Parquet reader would do row by row, Arrow does column by column where the rows are packed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from aggloom.runtime.spark.blobs import empty_columns
from aggloom.runtime.spark.pack import Pack, order_key, packed_batch
from aggloom.runtime.spark.parquet import read_parquet
from aggloom.runtime.spark.routes import PACKED_DDL, PackedRow, Packer
from aggloom.runtime.values.changelog import Kinds

METRIC = "aggloom input"
"""Begins the names of the observed metrics that count rows and files."""

_COUNTED_DDL = f"{PACKED_DDL}, rows BIGINT, files BIGINT"
_FILE_DDL = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
FILE_OPTIONS = {
    *("cleansource", "filenameonly", "latestfirst", "maxbytespertrigger", "maxfileage"),
    *("maxfilespertrigger", "modifiedafter", "modifiedbefore", "pathglobfilter"),
    *("recursivefilelookup", "sourcearchivedir"),
}
"""Options, in lower case, that say which files are read and not how."""

_READ: WeakKeyDictionary[DataFrame, Packable] = WeakKeyDictionary()


class Packable(Protocol):
    """What can be read where its rows are packed."""

    def packed(self, pack: Pack, table: str) -> DataFrame:
        """Its rows, packed; how many there are is an observed metric of the query."""


@dataclass(frozen=True)
class WholeFiles:
    """A DataFrame of Parquet files once more, as their bytes.

    base: where directories whose names are columns (`day=1/`) begin. changes: names under which a file may say what
    kind of change a row is, and those that are refused. lenient: a column that a file lacks is NULL.
    """

    files: DataFrame
    base: str
    changes: tuple[str, ...]
    lenient: bool

    def packed(self, pack: Pack, table: str) -> DataFrame:
        """The files' rows, packed; how many there are is an observed metric of the query."""
        columns = self.files.select("path", "modificationTime", "content")
        packed = columns.mapInArrow(
            PackFiles(pack, self.base, self.changes, self.lenient), _COUNTED_DDL
        )
        counts = (F.sum(name).alias(name) for name in ("rows", "files"))
        return packed.observe(f"{METRIC} {table}", *counts).drop("rows", "files")


def remember(
    df: DataFrame,
    reader: Any,
    path: str,
    options: Iterable[str],
    changes: tuple[str, ...],
    lenient: bool,
) -> DataFrame:
    """Note of a DataFrame that it is nothing but the Parquet files at `path`, if they can be read here as Spark does.

    reader: a DataFrameReader or DataStreamReader that has been given `options`.
    """
    if {name.lower() for name in options} <= FILE_OPTIONS and not set("*?[{") & set(path):
        files = reader.format("binaryFile").schema(_FILE_DDL).load(path)
        _READ[df] = WholeFiles(files, path, changes, lenient)
    return df


def remember_packed(df: DataFrame, source: Packable) -> DataFrame:
    """Note of a DataFrame that it is nothing but what is read from a source."""
    _READ[df] = source
    return df


def packable(df: DataFrame) -> Packable | None:
    """What a DataFrame is read from, if a reader noted it and the DataFrame is still as it was."""
    return _READ.get(df)


@dataclass(frozen=True)
class PackFiles:
    """The `mapInArrow` stage over whole files, as Pack is over rows."""

    pack: Pack
    base: str
    changes: tuple[str, ...]
    lenient: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack one map task's files."""
        from pyspark import TaskContext

        context = TaskContext.get()
        packer = Packer(self.pack.route, context.partitionId() if context else 0)
        rows = files = 0
        for batch in batches:
            for path, time, content in zip(*batch.columns, strict=True):
                order = order_key(time, path) if self.pack.ordered else b""
                for piece, kinds in self.rows(content.as_buffer(), path.as_py()):
                    for packed in packer.add(piece, kinds, order):
                        yield _counted(packed)
                    rows += piece.num_rows
                files += 1
        for packed in packer.finish():
            yield _counted(packed, rows, files)
            rows = files = 0

    def rows(self, content: pa.Buffer, path: str) -> Iterator[tuple[pa.RecordBatch, Kinds]]:
        """The rows of a file, and their kinds; raises DataError and its kin."""
        width = len(self.pack.schema)
        for piece, change in read_parquet(
            content, path, self.base, self.pack.schema, self.changes, self.lenient
        ):
            kinds = np.zeros(piece.num_rows, np.int8)
            if change is not None and self.pack.change_column:
                kinds = self.pack.kinds(change, path)
            yield (piece if width else empty_columns(piece.num_rows)), kinds


def _counted(packed: PackedRow, rows: int = 0, files: int = 0) -> pa.RecordBatch:
    """A packed row, and how many rows and files have been read since the last that said so."""
    batch = packed_batch(packed)
    counts = (("rows", rows), ("files", files))
    for name, count in counts:
        batch = batch.append_column(name, pa.array([count], pa.int64()))
    return batch
