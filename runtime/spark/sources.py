"""Sources of changes: Debezium JSON, JSON lines, Parquet and CSV files as a DataFrame with `_change_type`.

JSON is parsed by Spark's own expressions, inside the JVM. A line that cannot be read fails the query and is shown: a
lost change would make every later number wrong.
"""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    DataType,
    DateType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from aggloom.errors import SpecError
from aggloom.runtime.spark.expressions import quote, spark_schema
from aggloom.runtime.spark.files import remember
from aggloom.runtime.spark.paths import check_header, located, parquet_columns
from aggloom.runtime.spark.source_log import noted

FORMATS = ("debezium-json", "jsonl", "parquet", "csv")
CHANGE_COLUMN = "_change_type"
_CORRUPT = "_aggloom_corrupt"
_SHOWN = 300
_UNITS = {"ms": 1_000, "us": 1, "s": 1_000_000}
# Integers from here on are microseconds, below milliseconds (which reach the year 5138).
_MICROS_FROM = 100_000_000_000_000


@noted
def read_changes(
    spark: SparkSession,
    path: str | Path,
    format: str = "debezium-json",
    schema: pa.Schema | StructType | str | None = None,
    streaming: bool = True,
    max_files_per_trigger: int | None = None,
    time_unit: str = "auto",
    whole_files: bool = True,
    **options: Any,
) -> DataFrame:
    """A DataFrame of the schema's columns and `_change_type`, read from files.

    path: a directory, a pattern or one file. schema: may be left out for Parquet, whose files have it.

    Integer timestamps count from 1970 in `time_unit` ("auto" tells milliseconds from microseconds by size); integer
    dates count days. Rows of files without a change column are insertions. whole_files: Parquet files of a DataFrame
    that goes into an operator as it is are read by Arrow, a file at a time, instead of row by row.
    """
    if format not in FORMATS:
        raise SpecError(f"read_changes: unknown format {format!r}; known are {', '.join(FORMATS)}")
    if time_unit not in ("auto", *_UNITS):
        raise SpecError(f"read_changes: unknown time_unit {time_unit!r}; known are auto, s, ms, us")
    path, options = located(spark, path, options)
    if schema is None and format == "parquet":
        schema = parquet_columns(spark, path, options)
    columns = _columns(schema)
    if max_files_per_trigger and streaming:
        options["maxFilesPerTrigger"] = max_files_per_trigger

    def configured() -> Any:
        return (spark.readStream if streaming else spark.read).options(**options)

    reader = configured()
    if format == "debezium-json":
        return _debezium(reader.format("text").load(path), columns, time_unit)
    if format == "jsonl":
        return _json_lines(reader.format("text").load(path), columns, time_unit)
    if format == "csv":
        header = spark.read.options(**{"header": True, **options}).csv(path).columns
        check_header(path, header, columns)
        known = {field.name: field for field in columns}
        found = [known.get(name, StructField(name, StringType())) for name in header]
        rows = reader.option("header", True).option("mode", "FAILFAST").schema(StructType(found))
        return _with_change(rows.csv(path), columns, [f.name for f in found])
    extra = [f for f in _change_fields(columns) if f.name not in columns.names]
    rows = reader.schema(StructType([*columns.fields, *extra])).parquet(path)
    df = _with_change(rows, columns, rows.columns)
    names = tuple(field.name for field in extra)
    return remember(df, configured(), path, options, names) if whole_files else df


def reader_keywords() -> dict[str, type]:
    """The keywords of `read_changes` that say how a file is read, and their types: bool, int or str."""
    kinds = {"bool": bool, "int": int, "int | None": int}
    ours = ("spark", "path", "format", "schema", "streaming", "options")
    found = signature(read_changes).parameters
    return {n: kinds.get(str(p.annotation), str) for n, p in found.items() if n not in ours}


def _columns(schema: pa.Schema | StructType | str | None) -> StructType:
    """The schema as Spark's."""
    if isinstance(schema, str):
        return StructType.fromDDL(schema)
    if isinstance(schema, pa.Schema):
        return spark_schema(schema)
    if isinstance(schema, StructType):
        return schema
    raise SpecError("read_changes: give the columns as schema=, a pyarrow.Schema or DDL text")


def _change_fields(columns: StructType) -> list[StructField]:
    """The names under which a file may say what kind of change a row is."""
    names = [name for name in (CHANGE_COLUMN, "op") if name not in columns.names]
    return [StructField(name, StringType()) for name in names]


def _with_change(rows: DataFrame, columns: StructType, found: list[str]) -> DataFrame:
    """The schema's columns and the change column, under whichever name the file has it."""
    names = [field.name for field in _change_fields(columns) if field.name in found]
    change = F.coalesce(*(F.col(name) for name in names), F.lit("insert"))
    wanted = [F.col(quote(field.name)) for field in columns]
    return rows.select(*wanted, change.alias(CHANGE_COLUMN))


def _is_time(kind: DataType) -> bool:
    """True for types that JSON carries as numbers or as text."""
    return isinstance(kind, TimestampType | TimestampNTZType | DateType)


def _raw(columns: StructType) -> StructType:
    """The schema with which JSON is parsed: times stay text until `_convert`."""
    return StructType(
        [StructField(f.name, StringType() if _is_time(f.dataType) else f.dataType) for f in columns]
    )


def _convert(value: Column, kind: DataType, time_unit: str) -> Column:
    """A JSON value as its column's type."""
    if not _is_time(kind):
        return value
    digits = value.rlike("^-?[0-9]+$")
    number = F.when(digits, value).cast("bigint")
    if isinstance(kind, DateType):
        return F.when(digits, F.date_from_unix_date(number.cast("int"))).otherwise(
            value.cast("date")
        )
    if time_unit == "auto":
        micros = F.when(F.abs(number) >= _MICROS_FROM, number).otherwise(number * 1_000)
    else:
        micros = number * _UNITS[time_unit]
    stamp = F.timestamp_micros(micros).cast(kind)
    return F.when(digits, stamp).otherwise(value.cast(kind))


def _row(image: Column, columns: StructType, time_unit: str, change: Column) -> Column:
    """One output row as a struct."""
    # Columns are numbered, not named: a user's name must not meet the change column's.
    fields = [
        _convert(image.getField(f.name), f.dataType, time_unit).alias(f"c{place}")
        for place, f in enumerate(columns)
    ]
    return F.struct(*fields, change.alias("change"))


def _refuse(condition: Column, why: str, line: Column, rest: Column) -> Column:
    """`rest`, unless the condition holds: then an error that shows the line."""
    message = F.concat(F.lit(f"InputFormatError: {why}: "), F.substring(line, 1, _SHOWN))
    return F.when(condition, F.raise_error(message)).otherwise(rest)


def _present(rows: Column) -> Column:
    """`rows`, or NULL where the line is empty or a tombstone."""
    return F.when(~F.col("absent"), rows)


def _parse(lines: DataFrame, top: StructType) -> DataFrame:
    """The lines (`line`), their parsed form (`parsed`), and whether they are empty or tombstones (`absent`)."""
    schema = StructType([*top.fields, StructField(_CORRUPT, StringType())])
    settings = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    return lines.select(
        F.col("value").alias("line"),
        F.trim("value").isin("", "null").alias("absent"),
        F.from_json("value", schema, settings).alias("parsed"),
    )


def _explode(rows: DataFrame, columns: StructType) -> DataFrame:
    """One row for each struct in the array `rows` (NULL: none), under the schema's names."""
    # Not a filter before parsing, nor a plain explode: the optimizer would move conditions across
    # the checks, and compute the array twice.
    one = rows.select(F.explode_outer("rows").alias("row")).where(F.col("row").isNotNull())
    fields = [F.col(f"row.c{place}").alias(f.name) for place, f in enumerate(columns)]
    return one.select(*fields, F.col("row.change").alias(CHANGE_COLUMN))


def _debezium(lines: DataFrame, columns: StructType, time_unit: str) -> DataFrame:
    """Debezium envelopes, with or without the `schema`/`payload` wrapper."""
    image = _raw(columns)
    envelope = [
        StructField("before", image),
        StructField("after", image),
        StructField("op", StringType()),
    ]
    wrapped = [StructField("schema", StringType()), StructField("payload", StructType(envelope))]
    parsed = _parse(lines, StructType([*envelope, *wrapped]))
    p, line = F.col("parsed"), F.col("line")
    bare = F.struct(*(p.getField(f.name).alias(f.name) for f in envelope))
    message = parsed.select(
        "line",
        F.coalesce(p.getField("payload"), bare).alias("e"),
        (p.isNull() | p.getField(_CORRUPT).isNotNull()).alias("corrupt"),
        # A tombstone in the wrapper has a schema and no payload.
        (
            F.col("absent") | (p.getField("schema").isNotNull() & p.getField("payload").isNull())
        ).alias("absent"),
    )
    e = F.col("e")
    before, after, op = (e.getField(name) for name in ("before", "after", "op"))
    old = _row(before, columns, time_unit, F.when(op == "u", "update_preimage").otherwise("delete"))
    new = _row(after, columns, time_unit, F.when(op == "u", "update_postimage").otherwise("insert"))
    rows = (
        F.when(op == "u", F.array(old, new)).when(op == "d", F.array(old)).otherwise(F.array(new))
    )
    known = op.isin("c", "r", "u", "d")
    fix = "the table needs full row images (PostgreSQL: REPLICA IDENTITY FULL)"
    rows = _refuse(op.isin("u", "d") & before.isNull(), f"`before` is missing; {fix}", line, rows)
    rows = _refuse(op.isin("c", "r", "u") & after.isNull(), "`after` is missing", line, rows)
    rows = _refuse(op.isNull() | ~known, "`op` is not one of c, r, u, d", line, rows)
    rows = _refuse(F.col("corrupt"), "malformed line, or a value of the wrong type", line, rows)
    return _explode(message.select(_present(rows).alias("rows")), columns)


def _json_lines(lines: DataFrame, columns: StructType, time_unit: str) -> DataFrame:
    """Flat JSON objects, one a line."""
    changes = _change_fields(columns)
    parsed = _parse(lines, StructType([*_raw(columns).fields, *changes]))
    p, line = F.col("parsed"), F.col("line")
    change = F.coalesce(*(p.getField(f.name) for f in changes), F.lit("insert"))
    rows = F.array(_row(p, columns, time_unit, change))
    corrupt = p.isNull() | p.getField(_CORRUPT).isNotNull()
    rows = _refuse(corrupt, "malformed line, or a value of the wrong type", line, rows)
    return _explode(parsed.select(_present(rows).alias("rows")), columns)
