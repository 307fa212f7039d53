"""The rows of a piece of a Delta table, a batch of Arrow's at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from aggloom.errors import InputFormatError, MissingFileError
from aggloom.runtime.connectors.delta.table import BEGIN_ANEW, DeltaPlace
from aggloom.runtime.lakes.pieces import File, Piece
from aggloom.runtime.lakes.types import CHANGE
from aggloom.runtime.values.batches import empty_columns

Rows = Iterator[tuple[pa.RecordBatch, pa.Array]]
_BATCH_ROWS = 65_536
_RETRACTIONS = pa.array(["delete", "update_preimage"])
_RETRACTS = f"{CHANGE} IN ('delete', 'update_preimage')"
_INSERTS = f"{CHANGE} IN ('insert', 'update_postimage')"


def file_rows(place: DeltaPlace, piece: Piece, schema: pa.Schema) -> Rows:
    """The rows of files, and their kinds of change: those of a column, or one of the whole piece."""
    has_kinds = piece.kind == "changes"
    word = "delete" if piece.retracts else "insert"
    for file in piece.files:
        try:
            with place.open_file(file.path) as source:
                # Without threads of Arrow's, which would outlive the interpreter where a store is read through Python.
                parquet = pq.ParquetFile(source, pre_buffer=False, coerce_int96_timestamp_unit="us")
                in_file = parquet.schema_arrow.names
                # A column that the file lacks was added to the table later, and is NULL. Values of the partition come
                # from the log, whether the file has them or not.
                names = [n for n in schema.names if n in in_file and n not in file.values]
                names += [CHANGE] * has_kinds
                for batch in parquet.iter_batches(_BATCH_ROWS, columns=names, use_threads=False):
                    rows = _add_partition_values(place, batch, schema, file)
                    if not has_kinds:
                        yield rows, _words(word, batch.num_rows)
                        continue
                    words = batch.column(CHANGE).cast(pa.string())
                    mask = pc.is_in(words, _RETRACTIONS)
                    mask = mask if piece.retracts else pc.invert(mask)
                    yield rows.filter(mask), words.filter(mask)
        except FileNotFoundError as error:
            raise MissingFileError(
                f"{place.where}: {file.path} of version {piece.version} is gone. {BEGIN_ANEW}"
            ) from error
        except pa.ArrowException as error:
            raise InputFormatError(
                f"{place.where}: {file.path} of version {piece.version} cannot be read: {error}"
            ) from error


def feed_rows(place: DeltaPlace, piece: Piece, schema: pa.Schema) -> Rows:
    """The rows that a version retracted, or those that it inserted, from its change data feed."""
    version = piece.version
    table = place.table(version)
    with place.translate_errors(version):
        reader = table.load_cdf(
            starting_version=version,
            ending_version=version,
            predicate=_RETRACTS if piece.retracts else _INSERTS,
        )
        for batch in pa.RecordBatchReader.from_stream(reader):
            if batch.num_rows:
                yield _cast(place, batch, schema), batch.column(CHANGE).cast(pa.string())


def scanned_rows(place: DeltaPlace, piece: Piece, schema: pa.Schema) -> Rows:
    """The rows of a version, read by the library: files of such a table are not its rows."""
    table = place.table(piece.version)
    with place.translate_errors(piece.version):
        for batch in pa.RecordBatchReader.from_stream(table.scan()):
            if batch.num_rows:
                yield _cast(place, batch, schema), _words("insert", batch.num_rows)


def _add_partition_values(
    place: DeltaPlace, batch: pa.RecordBatch, schema: pa.Schema, file: File
) -> pa.RecordBatch:
    """A file's rows with the values of its partition."""
    columns: list[Any] = []
    for field in schema:
        if field.name in file.values:
            columns.append(pa.repeat(_value(place, field, file), batch.num_rows))
        elif field.name in batch.schema.names:
            columns.append(batch.column(field.name))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return _cast(place, pa.RecordBatch.from_arrays(columns, names=schema.names), schema)


def _value(place: DeltaPlace, field: pa.Field, file: File) -> pa.Scalar:
    """The value of a partition, which the log has as text; an empty one is NULL."""
    text = file.values[field.name]
    if text is None or text == "":
        return pa.scalar(None, field.type)
    if field.type == pa.binary():
        raise InputFormatError(
            f"{place.where}: it is partitioned by {field.name!r}, which is BINARY and not supported; partition it by "
            "another column"
        )
    if pa.types.is_timestamp(field.type) and not field.type.tz:
        return pa.scalar(text.replace("T", " ").removesuffix("Z")).cast(field.type)
    # Writers differ in whether the text of an instant names its zone; by Delta's protocol it is UTC.
    if pa.types.is_timestamp(field.type) and text[-1] != "Z" and "+" not in text:
        text += "Z"
    return pa.scalar(text).cast(field.type)


def _cast(place: DeltaPlace, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema in its types; one that the batch lacks is NULL. Raises InputFormatError."""
    columns = []
    for field in schema:
        if field.name not in batch.schema.names:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(field.name)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException as error:
            raise InputFormatError(
                f"{place.where}: column {field.name!r} is {column.type} in a file, not {field.type}: {error}"
            ) from error
    if not columns:
        return empty_columns(batch.num_rows)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _words(word: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(word), count)
