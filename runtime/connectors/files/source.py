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
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from aggloom.codegen import to_schema
from aggloom.errors import InputFormatError, SpecError, UnknownColumnError, nearest
from aggloom.runtime.connectors.files.discovery import check_caps, check_one_batch
from aggloom.runtime.connectors.files.options import MESSAGE_OPTIONS, FileOptions, check_choice
from aggloom.runtime.connectors.files.paths import (
    locate_files,
    names_of_directories,
    parquet_columns,
    split_by_directories,
)
from aggloom.runtime.connectors.files.source_log import note_files
from aggloom.runtime.formats.csv_dialect import CSV_OPTIONS, READ_OPTIONS, CsvDialect
from aggloom.runtime.formats.csv_files import CsvReader
from aggloom.runtime.formats.csv_header import check_header
from aggloom.runtime.formats.decoder import decoder
from aggloom.runtime.formats.partitions import missing_advice
from aggloom.runtime.formats.registry import FILES, LINES, MESSAGES, check_in_lines
from aggloom.runtime.formats.whole_json import take_option
from aggloom.runtime.spark.arguments import check_session, check_text
from aggloom.runtime.spark.disk import on_this_disk
from aggloom.runtime.spark.failures import explain_failure, translate_failures
from aggloom.runtime.spark.plan.expressions import as_marked, quote, spark_schema
from aggloom.runtime.spark.read.csv_files import check_first_header, csv_rows
from aggloom.runtime.spark.read.file_names import well_named
from aggloom.runtime.spark.read.file_order import mark_by_name
from aggloom.runtime.spark.read.file_pieces import (
    has_unknown_packing,
    objects_of,
    packed_lines,
    packed_objects,
)
from aggloom.runtime.spark.read.files import FILE_OPTIONS, remember
from aggloom.runtime.spark.read.messages import decode_messages, remember_keys, session_zone
from aggloom.runtime.spark.read.parquet_rows import parquet_rows, with_change
from aggloom.runtime.spark.read.records import (
    PARTS,
    Place,
)
from aggloom.runtime.spark.read.text_values import value_of
from aggloom.runtime.values.change_column import NEEDS_KEYS, ChangeWords
from aggloom.runtime.values.change_column import OPTIONS as CHANGE_OPTIONS
from aggloom.runtime.values.markers import MARKER_HINT

_PEEKED = 1_000
_ANY_AGE = "36500d"


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
    change_options = chosen.select(*CHANGE_OPTIONS)
    words = ChangeWords.of(change_options, "read_changes")
    check_caps({"max_files_per_trigger": max_files_per_trigger, **options}, "read_changes")
    capped = {"max_files_per_trigger": max_files_per_trigger, **options} if streaming else {}
    check_one_batch(order, capped, "read_changes")
    # Only formats of messages may be JSON over several lines; a file of columns is read as its format has it.
    by_name, whole = order == "name", False
    if format not in FILES:
        whole, options = take_option(options, key_separator, "read_changes")
    path, options = locate_files(spark, path, options)
    if schema is None and format == "parquet":
        # The columns of all files together: none has to have all of them.
        schema, missing = parquet_columns(spark, path, options, words), "null"
    columns, lenient = _columns(schema), missing == "null"
    words.check_declared(columns.names, "read_changes")
    key = _key(keys, columns)
    if words.lacks_before and not key:
        raise SpecError(f"read_changes: {NEEDS_KEYS}")
    # Of the options those that choose files: where these are looked at as plain text, the others mean nothing.
    looked = {key: value for key, value in options.items() if key.lower() in FILE_OPTIONS}
    if max_files_per_trigger and streaming:
        options["maxFilesPerTrigger"] = max_files_per_trigger

    def new_reader() -> Any:
        if not streaming:
            return spark.read.options(**options)
        # Spark passes over files that are older than the newest by a week, and says nothing.
        return spark.readStream.option("maxFileAge", _ANY_AGE).options(**options)

    def order_rows(rows: DataFrame) -> DataFrame:
        decoded = mark_by_name(rows) if by_name else rows
        return remember_keys(decoded, key) if words.lacks_before else decoded

    if format == "parquet":
        names_of_directories(spark, path, looked)
        if not lenient:
            _check_parquet(spark, path, looked, columns)
        df = order_rows(parquet_rows(spark, new_reader(), path, columns, lenient, words))
        names = (*words.names(columns.names), *words.list_markers(columns.names))
        here = on_this_disk(spark, path)
        if not whole_files:
            return df
        told_parquet = (lenient, here, by_name, words, nanoseconds == "cut")
        return remember(df, new_reader(), path, options, names, *told_parquet)
    own, parts = split_by_directories(spark, path, looked, columns)
    if format == "csv":
        if whole_files:
            format_options = {n: v for n, v in options.items() if n.lower() not in FILE_OPTIONS}
            odd = {"missing": missing, "zero_dates": zero_dates or "error"}
            own_reader = _csv_reader(spark, own, format_options, odd, words, inferred)
            check_first_header(spark, path, looked, own_reader)
            rows = order_rows(csv_rows(new_reader(), path, own_reader, columns, parts))
            if len(parts):
                return rows
            here = on_this_disk(spark, path)
            told_csv = (lenient, here, by_name, words, False, own_reader)
            return remember(rows, new_reader(), path, looked, (), *told_csv)
        return order_rows(
            _csv(
                spark,
                *(new_reader(), path, columns, options),
                lenient=lenient,
                words=words,
                inferred=inferred,
            )
        )
    kind = MESSAGES[format]
    key = key if kind.takes_keys or words.lacks_before else ()
    decoded = decoder(
        format,
        to_schema(own),
        key,
        unreadable,
        path,
        **chosen.select(*MESSAGE_OPTIONS, *CHANGE_OPTIONS),
        zone=session_zone(spark),
        inferred=inferred or None,
    )
    packed = has_unknown_packing(spark, path, looked)
    if format == "jsonl" and not lenient and not whole:
        plain = spark.read.options(**looked)
        _check_json(packed_lines(plain, path, parts) if packed else plain.text(path), path, own)
    if packed:
        lines = (packed_objects if whole else packed_lines)(new_reader(), path, parts)
    else:
        lines = _texts(new_reader().option("wholetext", whole), path, parts)
        lines = objects_of(lines) if whole else lines
    separator = kind.separator if key_separator is None else key_separator
    return decode_messages(
        lines,
        decoded,
        value=F.col("value"),
        key=F.lit(None).cast("binary"),
        place=F.col("file"),
        side=side,
        separator=None if whole else separator,
        parts=parts.names,
        order=columns.names,
        by_name=by_name,
    )


def _key(keys: str | Sequence[str] | None, columns: StructType) -> tuple[str, ...]:
    """The columns of the schema that keys name; raises SpecError and UnknownColumnError."""
    listed = (keys,) if isinstance(keys, str) else tuple(keys or ())
    for name in listed:
        if name not in columns.names:
            hint = nearest(name, columns.names)
            raise UnknownColumnError(f"read_changes: keys names column {name!r}. {hint}")
    return listed


def _csv_reader(
    spark: SparkSession,
    columns: StructType,
    options: Mapping[str, Any],
    odd: Mapping[str, str],
    words: ChangeWords,
    inferred: bool,
) -> CsvReader:
    """The reader of CSV files that every engine has; raises SpecError for an option of Spark's own.

    odd: what becomes of columns that are missing, and of dates that are none.
    """
    for name in options:
        if name.lower() not in READ_OPTIONS:
            raise SpecError(
                f"read_changes: {name} is an option of Spark's own reader of CSV; whole_files=False takes that one, "
                f"which needs the same header in all files. {nearest(name, sorted(CSV_OPTIONS))}"
            )
    dialect = CsvDialect.of({**options, **odd})
    return CsvReader(to_schema(columns), dialect, session_zone(spark), words, inferred)


def _texts(reader: Any, path: str, parts: StructType) -> DataFrame:
    """The lines of files, or their whole texts, the file of each, and what its directories give in PARTS."""
    if len(parts):
        reader = reader.schema(StructType([StructField("value", StringType()), *parts]))
    lines: DataFrame = reader.format("text").load(path)
    file = F.col("_metadata.file_path")
    directory_values = [F.col(quote(name)).alias(f"c{at}") for at, name in enumerate(parts.names)]
    extra_columns = [F.struct(*directory_values).alias(PARTS)] if directory_values else []
    value = well_named(F.col("value"), file).alias("value")
    return lines.select(value, file.alias("file"), *extra_columns)


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


def _csv(
    spark: SparkSession,
    reader: Any,
    path: str,
    columns: StructType,
    options: Mapping[str, Any],
    lenient: bool,
    words: ChangeWords,
    inferred: bool,
) -> DataFrame:
    """CSV files by Spark's reader: all of them need the header of the first; header=false: columns by position."""
    options_by_name = {key.lower(): str(value).lower() for key, value in options.items()}
    if options_by_name.get("header") == "false":
        if options_by_name.get("enforceschema") == "true":
            raise SpecError(
                "read_changes: enforceSchema checks headers; leave it out beside header=false."
            )
        change = [] if words.column is None else [StructField(words.column, StringType())]
        by_place = StructType([*change, *columns])
        plain = reader.option("mode", "FAILFAST").schema(by_place).csv(path)
        named = plain.where(well_named(F.lit(True), F.col("_metadata.file_path")))
        present = {each.name: (F.lit(True), F.col(quote(each.name))) for each in change}
        return with_change(named, columns, present, words)
    headed = spark.read.options(**{"header": True, **options}).csv(path)
    header = headed.columns
    known = {} if inferred else {field.name.lower(): field for field in columns}
    fields = [
        StructField(name, known[name.lower()].dataType if name.lower() in known else StringType())
        for name in header
    ]
    first = next(iter(headed.inputFiles()), path)
    check_header(path, first, header, columns.names, lenient)
    strict = reader.option("header", True).option("mode", "FAILFAST").option("enforceSchema", False)
    rows = strict.schema(StructType(fields)).csv(path)
    rows = rows.where(well_named(F.lit(True), F.col("_metadata.file_path")))
    lower = {name.lower() for name in header}
    place = Place(F.col("_metadata.file_path"))
    for field in columns if inferred else ():
        if field.name.lower() in lower:
            typed = value_of(place, F.col(quote(field.name)), field, inferred)
            rows = rows.withColumn(field.name, typed)
    for name in words.list_markers(columns.names):
        if name in lower:
            raise InputFormatError(f"{path}: column {name!r} {MARKER_HINT}")
    for field in columns:
        if field.name.lower() not in lower:
            rows = rows.withColumn(field.name, F.lit(None).cast(field.dataType))
    changes = [name for name in words.names(columns.names) if name.lower() in lower]
    if words.column is not None and words.absent is None and not changes:
        raise words.missing_column(f"the header of {path}", header)
    present_changes = {name: (F.lit(True), F.col(quote(name))) for name in changes}
    return with_change(rows, columns, present_changes, words)


def _check_found(columns: StructType, file_columns: list[str], where: str, file: str) -> None:
    """Refuse a column that is none of the names of the file, in any case; file: one of those that lack it."""
    lower = {name.lower() for name in file_columns}
    for name in columns.names:
        if name.lower() not in lower:
            raise UnknownColumnError(
                f"read_changes: column {name!r} is not in {where}. {nearest(name, file_columns)} "
                f"{missing_advice(name, file)}"
            )


def _check_parquet(
    spark: SparkSession, path: str, options: Mapping[str, Any], columns: StructType
) -> None:
    """Refuse a column that a file of those there are lacks; each file that is read whole is looked at then."""
    try:
        rows = spark.read.options(**options).parquet(path)
        file_columns, files = rows.columns, rows.inputFiles()
    except Exception:
        # There is no file yet, or none that can be read: each Spark says so in its own way, and the query says more.
        return
    _check_found(columns, file_columns, f"the Parquet files of {path}", next(iter(files), path))


def _check_json(lines: DataFrame, path: str, columns: StructType) -> None:
    """Refuse a column that none of the first lines has: writers leave out NULLs, but not all over."""
    with translate_failures(f"read_changes: {path}"):
        lines = lines.limit(_PEEKED)
        text = F.col("value").cast("string")
        keys = [row[0] for row in lines.select(F.json_object_keys(text)).collect()]
    file_names = list(dict.fromkeys(key for each in keys if each for key in each))
    if any(name.lower() in map(str.lower, file_names) for name in columns.names):
        where = f"the first {len(keys):,} lines of {path}"
        _check_found(columns, file_names, where, next(iter(lines.inputFiles()), path))
