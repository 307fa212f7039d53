"""Parquet and CSV files read whole in the Python worker, so that no row crosses from the JVM into Python by itself.

Spark lists the files, keeps track of which batch has which, and hands over their bytes (its `binaryFile` source), or,
where workers have its disk, only their paths; what its own readers would do row by row, Arrow does column by
column where the rows are packed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from aggloom.errors import InputFormatError
from aggloom.runtime.formats.csv_files import CsvReader
from aggloom.runtime.formats.packed_files import unpack_bytes
from aggloom.runtime.hosting.blobs import binaries
from aggloom.runtime.operators.stateless import columns_read
from aggloom.runtime.spark.disk import local
from aggloom.runtime.spark.node.batch_context import map_partition
from aggloom.runtime.spark.node.pack import Pack, order_key
from aggloom.runtime.spark.node.packed_counts import (
    CountingPacker,
    EventTime,
    counted_ddl,
    take_counts,
)
from aggloom.runtime.spark.read.file_names import check_name
from aggloom.runtime.spark.read.parquet import read_parquet
from aggloom.runtime.values.batches import empty_columns, make_batch
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.changelog import Kinds

METRIC = "aggloom input"
"""Begins the names of the observed metrics that count rows and files."""

_COUNTS = ("rows", "files")
_PIECE = 1 << 16
"""Rows of a file that are packed at once."""
FILE_DDL = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
FILE_OPTIONS = {
    *("cleansource", "filenameonly", "latestfirst", "maxbytespertrigger", "maxfileage"),
    *("maxfilespertrigger", "modifiedafter", "modifiedbefore", "pathglobfilter"),
    *("recursivefilelookup", "sourcearchivedir"),
}
"""Options, in lower case, that say which files are read and not how."""

_USUAL = ChangeWords()
_READ: WeakKeyDictionary[DataFrame, Packable] = WeakKeyDictionary()


class Packable(Protocol):
    """A source that can be read where its rows are packed."""

    @property
    def time(self) -> EventTime | None:
        """The event time by which a watermark moves, if one does."""

    def pack_rows(self, pack: Pack, table: str) -> DataFrame:
        """Its rows, packed; how many there are is an observed metric of the query."""


@dataclass(frozen=True)
class WholeFiles:
    """A DataFrame of Parquet or CSV files once more, as their bytes.

    base: where directories whose names are columns (`day=1/`) begin. changes: names under which a file may say what
    kind of change a row is, and those that are refused. lenient: a column that a file lacks is NULL. here: whether
    workers open the files themselves, and so read only the columns that are needed. by_name: files are ordered by their
    paths alone. words: what a change column says. cut: whether times in nanoseconds are cut to microseconds. csv: what
    reads CSV files; None of Parquet.
    """

    files: DataFrame
    base: str
    changes: tuple[str, ...]
    lenient: bool
    here: bool = False
    time: EventTime | None = None
    by_name: bool = False
    words: ChangeWords = _USUAL
    cut: bool = False
    csv: CsvReader | None = None

    def pack_rows(self, pack: Pack, table: str) -> DataFrame:
        """The files' rows, packed; how many there are is an observed metric of the query."""
        # Spark does not read the bytes of a file if nobody asks for them.
        columns = self.files.select("path", "modificationTime", *([] if self.here else ["content"]))
        times = () if self.time is None else self.time.columns
        read = columns_read(pack.route.steps, pack.schema)
        read_names = tuple(n for n in pack.schema.names if n in (*read, *times))
        about = (self.changes, self.lenient, read_names, self.time, self.by_name)
        packing = PackFiles(pack, self.base, *about, self.words, self.cut, self.csv)
        packed = columns.mapInArrow(packing, counted_ddl(_COUNTS, self.time))
        return take_counts(packed, {f"{METRIC} {table}": _COUNTS}, self.time)


def remember(
    df: DataFrame,
    reader: Any,
    path: str,
    options: Iterable[str],
    changes: tuple[str, ...],
    lenient: bool,
    here: bool = False,
    by_name: bool = False,
    words: ChangeWords = _USUAL,
    cut: bool = False,
    csv: CsvReader | None = None,
) -> DataFrame:
    """Note of a DataFrame that it is nothing but the files at `path`, if they can be read here as Spark does.

    reader: a DataFrameReader or DataStreamReader that has been given `options`. here: whether workers have the disk
    that the files are on. csv: what reads CSV files; None of Parquet.
    """
    if {name.lower() for name in options} <= FILE_OPTIONS and not set("*?[{") & set(path):
        files = reader.format("binaryFile").schema(FILE_DDL).load(path)
        arguments: dict[str, Any] = {"by_name": by_name, "words": words, "cut": cut, "csv": csv}
        whole = WholeFiles(files, path, changes, lenient, here, **arguments)
        remember_packed(df, whole)
    return df


def remember_packed(df: DataFrame, source: Packable) -> DataFrame:
    """Note of a DataFrame that it is nothing but what is read from a source."""
    _READ[df] = source
    return df


def remember_watermark(df: DataFrame, moving: DataFrame, time: EventTime) -> None:
    """Note of a DataFrame that it is another one under a watermark, if that is nothing but what is read."""
    source: Any = _READ.get(df)
    if source is not None:
        _READ[moving] = replace(source, time=time)


def packable(df: DataFrame, columns: Sequence[str] = ()) -> Packable | None:
    """Return the source a DataFrame is read from, if a reader noted it and the DataFrame is still as it was.

    columns: those that are read; of files those that a watermark goes by have to be among them.
    """
    source = _READ.get(df)
    if isinstance(source, WholeFiles) and source.time is not None:
        return source if set(source.time.columns) <= set(columns) else None
    return source


@dataclass(frozen=True)
class PackFiles:
    """The `mapInArrow` stage over whole files, as Pack is over rows. read_names: the columns that anybody reads."""

    pack: Pack
    base: str
    changes: tuple[str, ...]
    lenient: bool
    read_names: tuple[str, ...]
    time: EventTime | None = None
    by_name: bool = False
    words: ChangeWords = _USUAL
    cut: bool = False
    csv: CsvReader | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack one map task's files."""
        packer = CountingPacker(self.pack.route, _COUNTS, self.time, map_partition())
        for batch in batches:
            paths, times, *contents = batch.columns
            bytes_of = binaries(contents[0]) if contents else repeat(None, len(paths))
            for path, time, content in zip(paths, times, bytes_of, strict=True):
                check_name(path.as_py())
                moment = None if self.by_name else time
                order = order_key(moment, path.as_py()) if self.pack.ordered else b""
                for piece, kinds in self.rows(content, path.as_py()):
                    packer.note_times(piece)
                    yield from packer.add(piece, kinds, order)
                    packer.count(piece.num_rows, 0)
                packer.count(0, 1)
        yield from packer.finish()

    def rows(self, content: pa.Buffer | None, path: str) -> Iterator[tuple[pa.RecordBatch, Kinds]]:
        """The rows of a file, whose bytes are given or on this disk, and their kinds; raises DataError and its kin."""
        width = len(self.pack.schema)
        if self.csv is not None:
            yield from self._csv_rows(content, path, self.csv)
            return
        file = local(path) if content is None else content
        assert file is not None
        about = (self.changes, self.lenient, self.read_names, self.words, self.cut)
        for piece, change in read_parquet(file, path, self.base, self.pack.schema, *about):
            kinds = np.zeros(piece.num_rows, np.int8)
            if change is not None and self.pack.change_column:
                kinds = self.pack.kinds(change, path)
            yield (piece if width else empty_columns(piece.num_rows)), kinds

    def _csv_rows(
        self, content: pa.Buffer | None, path: str, read: CsvReader
    ) -> Iterator[tuple[pa.RecordBatch, Kinds]]:
        rows = read(unpack_bytes(_bytes_of(content, path), path), path)
        kinds = np.zeros(rows.count, np.int8)
        if rows.changes is not None and self.pack.change_column:
            kinds = self.pack.kinds(rows.changes, path)
        arrays = [rows.columns[read.schema.get_field_index(n)] for n in self.pack.schema.names]
        whole = make_batch(arrays, self.pack.schema, rows.count)
        for start in range(0, rows.count, _PIECE):
            yield whole.slice(start, _PIECE), kinds[start : start + _PIECE]


def _bytes_of(content: pa.Buffer | None, path: str) -> bytes:
    """The bytes of a file, which are given or on this disk."""
    if content is not None:
        return content.to_pybytes()
    file = local(path)
    assert file is not None
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputFormatError(
            f"{path}: cannot be read ({error.strerror}). Files belong to a batch once they are listed: put it back, or "
            "start over with an empty checkpoint directory."
        ) from error
