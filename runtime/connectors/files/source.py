"""Sources of changes: Debezium JSON, JSON lines, Parquet and CSV files as a DataFrame with `_change_type`.

Unreadable input fails the query, with the name of its file: a lost change would make every later number wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from aggloom.errors import SpecError, UnknownColumnError, nearest
from aggloom.runtime.connectors.files.discovery import check_caps, check_one_batch
from aggloom.runtime.connectors.files.frames import FilesOfChanges
from aggloom.runtime.connectors.files.options import FileOptions, check_choice
from aggloom.runtime.connectors.files.paths import locate_files, parquet_columns
from aggloom.runtime.connectors.files.source_log import note_files
from aggloom.runtime.formats.registry import FILES, LINES, check_in_lines
from aggloom.runtime.formats.whole_json import take_option
from aggloom.runtime.spark.arguments import check_session, check_text
from aggloom.runtime.spark.failures import explain_failure
from aggloom.runtime.spark.plan.expressions import as_marked, spark_schema
from aggloom.runtime.values.change_column import NEEDS_KEYS, ChangeWords
from aggloom.runtime.values.change_column import OPTIONS as CHANGE_OPTIONS


@note_files
def read_changes(
    spark: SparkSession,
    path: str | Path,
    format: str = "debezium-json",
    schema: pa.Schema | StructType | str | None = None,
    streaming: bool = True,
    max_files_per_trigger: int | None = None,
    time_unit: str = "auto",
    whole_files: bool = True,
    missing: str = "error",
    concatenated: str = "refuse",
    keys: str | Sequence[str] | None = None,
    unreadable: str = "error",
    side: str | Path | None = None,
    key_separator: str | None = None,
    decimals: str | None = None,
    truncate: str | None = None,
    snapshot: str | None = None,
    database: str | None = None,
    table: str | None = None,
    images: str | None = None,
    order: str = "time",
    change_column: str | None = None,
    change_values: Mapping[Any, str] | str | None = None,
    markers: str | None = None,
    zero_dates: str | None = None,
    nanoseconds: str | None = None,
    inferred: bool = False,
    **options: Any,
) -> DataFrame:
    """The schema's columns and `_change_type`, read from files as a DataFrame.

    spark: the session. path: a directory, a pattern or one file. format: see docs/formats.md. schema: DDL or a schema
    of Arrow or Spark; may be omitted for Parquet, whose files have it. streaming: False reads the existing files once.
    max_files_per_trigger: the most files of a batch.

    Integer timestamps count from 1970 in `time_unit` ("auto": that of a column's first values); integer dates count
    days. Rows of files without a change column are insertions. whole_files: Parquet files of a DataFrame that an
    operator reads unchanged are read by Arrow, a file at a time, instead of row by row; each CSV file is read by
    its own header. missing: a column that a file, a Debezium image or every line lacks is an "error", or "null".
    concatenated: a line with several JSON objects is refused ("refuse"), or split into rows ("split").

    keys: the key columns of messages without the old row, which are then upserts. unreadable: a message that cannot be
    read is an "error", is dropped and counted ("drop"), or is written with the reason ("side") to Parquet files in
    the directory `side`. key_separator: the text between key and value of a line. decimals, truncate, snapshot,
    database, table, images, zero_dates: as the format has them (docs/formats.md). order: files of a batch are read by
    "time" of modification and then by path, or by "name", only by path, which needs all files in one batch.
    inferred: the types were inferred from the first rows, so a later value that does not fit them is refused.

    change_column, change_values: the column with the row kind, and the meaning of its words, such
    as {"I": "insert", "U": "update_after", "D": "delete"}; the empty word is that of rows without one. markers:
    columns by which other systems mark changes are refused, or "data". nanoseconds: times of Parquet with digits below
    microseconds are an "error", or "cut". options: of Spark's source of files, and of CSV.

    Raises SpecError for wrong options; a faulty file fails the query with an InputFormatError.

    Example: see `write_changes`.
    """
    check_session("read_changes", spark)
    check_text("read_changes", "format", format)
    check_in_lines(format, "read_changes")
    check_choice("format", format, (*LINES, *FILES), "read_changes")
    chosen = FileOptions(
        max_files_per_trigger=max_files_per_trigger,
        time_unit=time_unit,
        whole_files=whole_files,
        missing=missing,
        concatenated=concatenated,
        unreadable=unreadable,
        side=None if side is None else str(side),
        key_separator=key_separator,
        decimals=decimals,
        truncate=truncate,
        snapshot=snapshot,
        database=database,
        table=table,
        images=images,
        order=order,
        change_column=change_column,
        change_values=change_values,
        markers=markers,
        zero_dates=zero_dates,
        nanoseconds=nanoseconds,
    )
    chosen.check(format, "read_changes")
    words = ChangeWords.of(chosen.select(*CHANGE_OPTIONS), "read_changes")
    caps = {"max_files_per_trigger": max_files_per_trigger, **options}
    check_caps(caps, "read_changes")
    check_one_batch(order, caps if streaming else {}, "read_changes")
    # Only formats of messages may be JSON over several lines; a file of columns is read as its format has it.
    is_document = False
    if format not in FILES:
        is_document, options = take_option(options, key_separator, "read_changes")
    path, options = locate_files(spark, path, options)
    if schema is None and format == "parquet":
        # The columns of all files together: none has to have all of them.
        schema, missing = parquet_columns(spark, path, options, words), "null"
    columns = _columns(schema)
    words.check_declared(columns.names, "read_changes")
    key = _key(keys, columns)
    if words.lacks_before and not key:
        raise SpecError(f"read_changes: {NEEDS_KEYS}")
    if max_files_per_trigger and streaming:
        options["maxFilesPerTrigger"] = max_files_per_trigger
    files = FilesOfChanges(
        spark=spark,
        path=path,
        columns=columns,
        key=key,
        words=words,
        chosen=chosen,
        options=options,
        streaming=streaming,
        lenient=missing == "null",
        inferred=inferred,
    )
    if format == "parquet":
        return files.read_parquet()
    if format == "csv":
        return files.read_csv()
    return files.read_messages(format, is_document)


def _key(keys: str | Sequence[str] | None, columns: StructType) -> tuple[str, ...]:
    """The columns of the schema that keys name; raises SpecError and UnknownColumnError."""
    listed = (keys,) if isinstance(keys, str) else tuple(keys or ())
    for name in listed:
        if name not in columns.names:
            hint = nearest(name, columns.names)
            raise UnknownColumnError(f"read_changes: keys names column {name!r}. {hint}")
    return listed


def _columns(schema: pa.Schema | StructType | str | None) -> StructType:
    """The schema as Spark's."""
    if isinstance(schema, str):
        try:
            return as_marked(StructType.fromDDL(schema))
        except PySparkException as failure:
            raise SpecError(
                f"read_changes: schema is {schema!r}: {explain_failure(failure)}"
            ) from None
    if isinstance(schema, pa.Schema):
        return spark_schema(schema)
    if isinstance(schema, StructType):
        return as_marked(schema)
    raise SpecError("read_changes: give the columns as schema=, a pyarrow.Schema or DDL text")
