"""A Parquet file's bytes as batches of a given schema, by the rules of Spark's own reader.

Columns are found by name, whatever the case; one that the file does not have is what the file's directory says
(`day=1/`), or an error; a number may be wider in the schema than in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from aggloom.errors import InputFormatError, nearest
from aggloom.runtime.formats.partitions import (
    missing_advice,
    partition_texts,
    partition_value,
    split_columns,
)
from aggloom.runtime.values.batches import empty_columns
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.markers import MARKER_HINT, MARKERS
from aggloom.runtime.values.type_fit import (
    NANOSECONDS_HINT,
    cast_exactly,
    cut_nanoseconds,
    fits,
    is_of_nanoseconds,
    plain_array,
)
from aggloom.type_layout import is_variant

ROWS_AT_ONCE = 1 << 17
"""Rows of a piece: what is hashed and sorted at once should fit into the nearer caches."""

_USUAL = ChangeWords()
_LEGACY = {b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"}


def read_parquet(
    content: pa.Buffer | Path,
    path: str,
    base: str,
    schema: pa.Schema,
    changes: Sequence[str] = (),
    lenient: bool = False,
    read_names: Sequence[str] | None = None,
    words: ChangeWords = _USUAL,
    cut: bool = False,
) -> Iterator[tuple[pa.RecordBatch, pa.Array | None]]:
    """The rows of the file at `path`, below the directory `base`, each piece with its change column if there is one.

    content: the file's bytes, or where it is on this disk. Only the columns of the schema are read there.
    changes: the names that a change column may have, and those of Debezium's flattened records, which are refused.
    lenient: a column that the file lacks is NULL. read_names: the columns of the schema that are read; the file has to
    have all of them. words: what the change column says.
    cut: whether times in nanoseconds are cut to microseconds.
    Raises InputFormatError.
    """
    try:
        with _source(content) as source:
            reader = _Reader(
                source,
                path,
                base,
                schema,
                changes=changes,
                lenient=lenient,
                words=words,
                cut=cut,
            )
            yield from reader.pieces(read_names)
    except FileNotFoundError as error:
        raise InputFormatError(
            f"{path}: the file is not there any more, or may not be seen. Files belong to a batch once they are "
            "listed: put it back, or start over with an empty checkpoint directory."
        ) from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputFormatError(
            f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}. "
            "Remove the file, or write it again."
        ) from error


class _Reader:
    """One file, and where each column of the schema comes from."""

    def __init__(
        self,
        source: pa.NativeFile,
        path: str,
        base: str,
        schema: pa.Schema,
        *,
        changes: Sequence[str],
        lenient: bool,
        words: ChangeWords,
        cut: bool,
    ) -> None:
        self._file = pq.ParquetFile(
            source,
            # In nanoseconds, Arrow's default, times before 1678 and after 2262 would overflow.
            coerce_int96_timestamp_unit="us",
            # A damaged page may well decode to other values; a checksum, where its writer left one, tells.
            page_checksum_verification=True,
        )
        self._path, self._words, self._cut = path, words, cut
        self._file_schema = self._file.schema_arrow
        self._change = self._change_column(changes)
        extra = [pa.field(self._change, self._change_type())] if self._change else []
        self._schema = schema = pa.schema([*schema, *extra])
        directories = _directories(path, base, schema)
        # As in Spark, a directory's value wins over a column of the same name in the file.
        self._fixed = {
            field.name: directories.get(field.name)
            for field in schema
            if field.name in directories or self._place(field.name) is None
        }
        lacks = [name for name in self._fixed if name not in directories]
        if lacks and not lenient:
            raise InputFormatError(
                f"{path}: the file lacks column {lacks[0]!r}. {nearest(lacks[0], self._file_schema.names)} "
                f"{missing_advice(lacks[0], path)}"
            )
        self._read = {
            field.name: self._file_schema.names[self._place(field.name) or 0]
            for field in schema
            if field.name not in self._fixed
        }
        for name, there in self._read.items():
            self._check(schema.field(name), self._file_schema.field(there).type)

    def _change_column(self, names: Sequence[str]) -> str | None:
        """The name of the file's change column, if it has one."""
        there = [name for name in names if self._place(name) is not None]
        for name in there:
            if name in MARKERS and name != self._words.column:
                raise InputFormatError(f"{self._path}: column {name!r} {MARKER_HINT}")
        if len(there) > 1:
            raise InputFormatError(
                f"{self._path}: both {there[0]!r} and {there[1]!r} are there; keep one"
            )
        if not there and self._words.column is not None and self._words.absent is None:
            raise self._words.missing_column(self._path, self._file_schema.names)
        return there[0] if there else None

    def _change_type(self) -> pa.DataType:
        """The type in which the change column is read: texts, or what the file has where options say its words."""
        if self._words.column is None or self._change is None:
            return pa.string()
        dtype = self._file_schema.types[self._place(self._change) or 0]
        return dtype.value_type if pa.types.is_dictionary(dtype) else dtype

    def _kinds(self, piece: pa.RecordBatch) -> pa.Array | None:
        """The change column of a piece, its last; None if there is none."""
        words = piece.column(piece.num_columns - 1) if self._change else None
        if self._words.column is None:
            return words
        if words is None:
            words = pa.nulls(piece.num_rows, pa.string())
        return self._words.read_kinds(words, self._path)

    def pieces(
        self, read_names: Sequence[str] | None
    ) -> Iterator[tuple[pa.RecordBatch, pa.Array | None]]:
        """The rows, some at a time, in the wanted columns."""
        if read_names is not None:
            needed = {*read_names, self._change}
            self._schema = pa.schema([field for field in self._schema if field.name in needed])
            self._read = {name: own for name, own in self._read.items() if name in needed}
        for group in range(self._file.num_row_groups):
            # Of the footer, since COUNT(*) reads no column that would tell.
            rows = self._file.metadata.row_group(group).num_rows
            names = list(self._read.values())
            # Without threads: Spark runs a task on each core already.
            table = self._file.read_row_group(group, names, use_threads=False) if names else None
            for start in range(0, rows, ROWS_AT_ONCE):
                piece = self._piece(table, start, min(ROWS_AT_ONCE, rows - start))
                kinds = self._kinds(piece)
                yield piece.remove_column(piece.num_columns - 1) if self._change else piece, kinds

    def _piece(self, table: pa.Table | None, start: int, rows: int) -> pa.RecordBatch:
        if not self._schema.names:
            return empty_columns(rows)
        arrays = []
        for field in self._schema:
            if table is None or field.name in self._fixed:
                value = self._fixed[field.name]
                arrays.append(
                    pa.nulls(rows, field.type) if value is None else pa.repeat(value, rows)
                )
                continue
            column = table.column(self._read[field.name]).slice(start, rows)
            arrays.append(self._cast(plain_array(column), field))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _cast(self, array: pa.Array, field: pa.Field) -> pa.Array:
        if is_variant(field.type):
            return self._read_variants(array, field.name)
        try:
            return cast_exactly(cut_nanoseconds(array) if self._cut else array, field.type)
        except pa.ArrowInvalid as error:
            fix = "Declare the column with the file's type."
            if is_of_nanoseconds(array.type):
                fix = f"{NANOSECONDS_HINT}."
            raise InputFormatError(
                f"{self._path}: column {field.name!r} is {array.type} in the file, and not all of it fits "
                f"{field.type}: {str(error).splitlines()[0]}. {fix}"
            ) from error

    def _read_variants(self, texts: pa.Array, name: str) -> pa.Array:
        # Loaded where there are any: the functions of expressions take long to load.
        from aggloom.runtime.scalar.variant_columns import read_variants

        try:
            return read_variants(texts.cast(pa.string()))
        except ValueError as error:
            raise InputFormatError(
                f"{self._path}: column {name!r} is VARIANT, and {error}. Declare it as STRING."
            ) from None

    def _place(self, name: str) -> int | None:
        """Return the place of a column in the file: by its name, else by its name in another case."""
        names = self._file_schema.names
        if name in names:
            return int(names.index(name))
        same = [place for place, other in enumerate(names) if other.lower() == name.lower()]
        if len(same) > 1:
            raise InputFormatError(
                f"{self._path}: column {name!r} is {' and '.join(names[p] for p in same)} in the file; "
                "name it as in the file."
            )
        return same[0] if same else None

    def _check(self, field: pa.Field, dtype: pa.DataType) -> None:
        """Refuse what Spark would refuse to read, or read as another value than Arrow does."""
        if not fits(dtype, field.type):
            raise InputFormatError(
                f"{self._path}: column {field.name!r} is {dtype} in the file, not {field.type}; "
                "give the schema of the file, and cast afterwards."
            )
        # Spark 2 wrote days before 1582 in the Julian calendar, and marked the file.
        legacy = _LEGACY & set(self._file.metadata.metadata or {})
        if legacy and (pa.types.is_date(field.type) or pa.types.is_timestamp(field.type)):
            raise InputFormatError(
                f"{self._path}: column {field.name!r} is in the calendar of Spark 2; "
                "pass whole_files=False, so that Spark reads it."
            )


def _source(content: pa.Buffer | Path) -> pa.NativeFile:
    """A file to read from. It is not mapped: one that became shorter would end the worker without a word."""
    return pa.OSFile(str(content)) if isinstance(content, Path) else pa.BufferReader(content)


def _directories(path: str, base: str, schema: pa.Schema) -> dict[str, pa.Scalar]:
    """The columns that the directories between `base` and the file give: `day=1/` is the column day."""
    bare = (base.partition("://")[2] or base.removeprefix("file:")).rstrip("/")
    # What is read is this one file, not a directory above it.
    if path.endswith(bare):
        return {}
    below = path.partition(bare + "/")[2] or path
    texts = partition_texts(PurePosixPath(below).parent)
    _, own = split_columns(list(texts), schema, path)
    return {field.name: partition_value(texts[name], field, path) for name, field in own.items()}
