"""Files of changes as DataFrames: Parquet, CSV, and messages in lines or in documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from aggloom.codegen import to_schema
from aggloom.errors import InputFormatError, SpecError, UnknownColumnError, nearest
from aggloom.runtime.connectors.files.options import MESSAGE_OPTIONS, FileOptions
from aggloom.runtime.connectors.files.paths import (
    names_of_directories,
    split_by_directories,
)
from aggloom.runtime.formats.csv_dialect import CSV_OPTIONS, READ_OPTIONS, CsvDialect
from aggloom.runtime.formats.csv_files import CsvReader
from aggloom.runtime.formats.csv_header import check_header
from aggloom.runtime.formats.decoder import decoder
from aggloom.runtime.formats.partitions import missing_advice
from aggloom.runtime.formats.registry import MESSAGES
from aggloom.runtime.spark.disk import on_this_disk
from aggloom.runtime.spark.failures import translate_failures
from aggloom.runtime.spark.plan.expressions import quote
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
from aggloom.runtime.values.change_column import OPTIONS as CHANGE_OPTIONS
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.markers import MARKER_HINT

_PEEKED = 1_000
_ANY_AGE = "36500d"


@dataclass(frozen=True, kw_only=True)
class FilesOfChanges:
    """The files that one call of `read_changes` reads, and its checked options.

    key: the columns that identify upserts. options: of Spark's source of files. lenient: a missing column is NULL.
    inferred: the types were inferred from the first rows.
    """

    spark: SparkSession
    path: str
    columns: StructType
    key: tuple[str, ...]
    words: ChangeWords
    chosen: FileOptions
    options: Mapping[str, Any]
    streaming: bool
    lenient: bool
    inferred: bool

    def read_parquet(self) -> DataFrame:
        """Return the changes of Parquet files; raises UnknownColumnError for a column that they lack."""
        names_of_directories(self.spark, self.path, self._file_options)
        if not self.lenient:
            _check_parquet(self.spark, self.path, self._file_options, self.columns)
        reader, words = self._new_reader(), self.words
        df = self._mark_rows(
            parquet_rows(self.spark, reader, self.path, self.columns, self.lenient, words)
        )
        if not self.chosen.whole_files:
            return df
        names = (*words.names(self.columns.names), *words.list_markers(self.columns.names))
        return remember(
            df,
            *(self._new_reader(), self.path, self.options, names),
            *(self.lenient, on_this_disk(self.spark, self.path), self._is_by_name, words),
            self.chosen.nanoseconds == "cut",
        )

    def read_csv(self) -> DataFrame:
        """Return the changes of CSV files; raises SpecError and its kin, and InputFormatError for a wrong header."""
        own, parts = split_by_directories(self.spark, self.path, self._file_options, self.columns)
        if not self.chosen.whole_files:
            return self._mark_rows(self._read_spark_csv())
        csv_reader = self._csv_reader(own)
        check_first_header(self.spark, self.path, self._file_options, csv_reader)
        rows = csv_rows(self._new_reader(), self.path, csv_reader, self.columns, parts)
        rows = self._mark_rows(rows)
        # Arrow reads a file by itself, without the values that only its directories have.
        if len(parts):
            return rows
        return remember(
            rows,
            *(self._new_reader(), self.path, self._file_options, ()),
            *(self.lenient, on_this_disk(self.spark, self.path), self._is_by_name, self.words),
            *(False, csv_reader),
        )

    def read_messages(self, format: str, is_document: bool) -> DataFrame:
        """Return the changes of messages, each of which is a line or, in a document, a JSON object."""
        spark, path, chosen = self.spark, self.path, self.chosen
        own, parts = split_by_directories(spark, path, self._file_options, self.columns)
        kind = MESSAGES[format]
        decoded = decoder(
            format,
            to_schema(own),
            self.key if kind.takes_keys or self.words.lacks_before else (),
            chosen.unreadable,
            path,
            **chosen.select(*MESSAGE_OPTIONS, *CHANGE_OPTIONS),
            zone=session_zone(spark),
            inferred=self.inferred or None,
        )
        packed = has_unknown_packing(spark, path, self._file_options)
        if format == "jsonl" and not self.lenient and not is_document:
            plain = spark.read.options(**self._file_options)
            _check_json(packed_lines(plain, path, parts) if packed else plain.text(path), path, own)
        if packed:
            lines = (packed_objects if is_document else packed_lines)(
                self._new_reader(), path, parts
            )
        else:
            lines = _texts(self._new_reader().option("wholetext", is_document), path, parts)
            lines = objects_of(lines) if is_document else lines
        separator = kind.separator if chosen.key_separator is None else chosen.key_separator
        return decode_messages(
            lines,
            decoded,
            value=F.col("value"),
            key=F.lit(None).cast("binary"),
            place=F.col("file"),
            side=chosen.side,
            separator=None if is_document else separator,
            parts=parts.names,
            order=self.columns.names,
            by_name=self._is_by_name,
        )

    @property
    def _file_options(self) -> dict[str, Any]:
        """The options that choose files: to a look at them as plain text, the others mean nothing."""
        return {name: value for name, value in self.options.items() if name.lower() in FILE_OPTIONS}

    @property
    def _is_by_name(self) -> bool:
        return self.chosen.order == "name"

    def _new_reader(self) -> Any:
        if not self.streaming:
            return self.spark.read.options(**self.options)
        # Spark passes over files that are older than the newest by a week, and says nothing.
        return self.spark.readStream.option("maxFileAge", _ANY_AGE).options(**self.options)

    def _mark_rows(self, rows: DataFrame) -> DataFrame:
        """Mark rows with the order of their files, and upserts with their key."""
        marked = mark_by_name(rows) if self._is_by_name else rows
        return remember_keys(marked, self.key) if self.words.lacks_before else marked

    def _csv_reader(self, columns: StructType) -> CsvReader:
        """Return the reader of CSV files that every engine has; raises SpecError for an option of Spark's own."""
        names = [name for name in self.options if name.lower() not in FILE_OPTIONS]
        for name in names:
            if name.lower() not in READ_OPTIONS:
                raise SpecError(
                    f"read_changes: {name} is an option of Spark's own reader of CSV; whole_files=False takes that "
                    f"one, which needs the same header in all files. {nearest(name, sorted(CSV_OPTIONS))}"
                )
        dialect = CsvDialect.of(
            {
                **{name: self.options[name] for name in names},
                "missing": self.chosen.missing,
                "zero_dates": self.chosen.zero_dates or "error",
            }
        )
        return CsvReader(
            to_schema(columns), dialect, session_zone(self.spark), self.words, self.inferred
        )

    def _read_spark_csv(self) -> DataFrame:
        """Return the rows of CSV files by Spark's reader, which needs the first file's header in all of them."""
        options = {name.lower(): str(value).lower() for name, value in self.options.items()}
        if options.get("header") != "false":
            return self._read_headed_csv()
        if options.get("enforceschema") == "true":
            raise SpecError(
                "read_changes: enforceSchema checks headers; leave it out beside header=false."
            )
        # Without headers the columns are those at the same position.
        change = [] if self.words.column is None else [StructField(self.words.column, StringType())]
        reader = self._new_reader().option("mode", "FAILFAST")
        plain = reader.schema(StructType([*change, *self.columns])).csv(self.path)
        named = plain.where(well_named(F.lit(True), F.col("_metadata.file_path")))
        present = {each.name: (F.lit(True), F.col(quote(each.name))) for each in change}
        return with_change(named, self.columns, present, self.words)

    def _read_headed_csv(self) -> DataFrame:
        columns, words, path = self.columns, self.words, self.path
        headed = self.spark.read.options(**{"header": True, **self.options}).csv(path)
        header = headed.columns
        first = next(iter(headed.inputFiles()), path)
        check_header(path, first, header, columns.names, self.lenient)
        lower = {name.lower() for name in header}
        for name in words.list_markers(columns.names):
            if name in lower:
                raise InputFormatError(f"{path}: column {name!r} {MARKER_HINT}")
        changes = [name for name in words.names(columns.names) if name.lower() in lower]
        if words.column is not None and words.absent is None and not changes:
            raise words.missing_column(f"the header of {path}", header)
        rows = self._read_under_header(header)
        place = Place(F.col("_metadata.file_path"))
        for field in columns:
            if field.name.lower() not in lower:
                rows = rows.withColumn(field.name, F.lit(None).cast(field.dataType))
            elif self.inferred:
                typed = value_of(place, F.col(quote(field.name)), field, self.inferred)
                rows = rows.withColumn(field.name, typed)
        present = {name: (F.lit(True), F.col(quote(name))) for name in changes}
        return with_change(rows, columns, present, words)

    def _read_under_header(self, header: Sequence[str]) -> DataFrame:
        """Return the columns of a header; those that are not in the schema, or are inferred, as texts."""
        known = {} if self.inferred else {field.name.lower(): field for field in self.columns}
        fields = [
            StructField(
                name, known[name.lower()].dataType if name.lower() in known else StringType()
            )
            for name in header
        ]
        options = {"header": True, "mode": "FAILFAST", "enforceSchema": False}
        rows = self._new_reader().options(**options).schema(StructType(fields)).csv(self.path)
        return rows.where(well_named(F.lit(True), F.col("_metadata.file_path")))


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
