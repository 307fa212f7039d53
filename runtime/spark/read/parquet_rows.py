"""Parquet files as rows by Spark's own reader, where no worker reads them whole."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, StringType, StructField, StructType

from aggloom.runtime.spark.plan.expressions import AS_TEXT, quote
from aggloom.runtime.spark.plan.variant_frames import read_texts
from aggloom.runtime.spark.read.footers import Footers, sound_in_java, sound_in_workers
from aggloom.runtime.spark.read.records import CHANGE_COLUMN, Place, change_of
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.markers import MARKER_HINT

# Eight bytes: Java compares them at once.
_ABSENT = "\0absent\0"


def parquet_rows(
    spark: SparkSession,
    reader: Any,
    path: str,
    columns: StructType,
    lenient: bool,
    words: ChangeWords,
) -> DataFrame:
    """Parquet files by Spark's reader; not lenient: each of them has to have every column."""
    changes, flattened = words.names(columns.names), words.list_markers(columns.names)
    look = Footers(() if lenient else tuple(columns.names), tuple(changes), tuple(flattened))
    passes = sound_in_java(spark, look)
    # The words of a column that is named may be numbers, and one that is absent is as good as NULL.
    usual = [name for name in changes if name != words.column]
    names = usual if passes is not None else [*usual, *flattened]
    # What a file does not have is distinguished from a NULL by Spark's defaults of columns that were added later.
    absent = {"EXISTS_DEFAULT": f"'{_ABSENT}'", "CURRENT_DEFAULT": f"'{_ABSENT}'"}
    extra = [StructField(name, StringType(), True, absent) for name in names]
    if words.column is not None:
        extra.append(StructField(words.column, _type_of(spark, path, words.column)))
    rows = reader.schema(StructType([*columns.fields, *extra])).parquet(path)
    there = {name: ~F.col(name).eqNullSafe(F.lit(_ABSENT)) for name in names}
    if words.column is not None:
        there[words.column] = F.lit(True)
    if passes is None:
        # Records that must not be taken for insertions are reported even for a file that no worker can open.
        place = Place(F.col("_metadata.file_path"))
        passes = sound_in_workers(look)
        for name in flattened:
            refused = place.refuse(f"column {name!r} {MARKER_HINT}")
            passes &= F.when(there[name], refused).isNull()
    candidates = {name: (there[name], F.col(quote(name))) for name in changes}
    return with_change(rows.where(passes), columns, candidates, words)


def _type_of(spark: SparkSession, path: str, column: str) -> DataType:
    """The type that a column has in the Parquet files that are there; STRING if none has it."""
    try:
        schema = spark.read.option("recursiveFileLookup", True).parquet(path).schema
    except PySparkException:
        return StringType()
    same = [field.dataType for field in schema if field.name.lower() == column.lower()]
    return same[0] if same else StringType()


def with_change(
    rows: DataFrame,
    columns: StructType,
    candidates: dict[str, tuple[Column, Column]],
    words: ChangeWords,
) -> DataFrame:
    """The schema's columns, and the change type; candidates: as `change_of` takes it."""
    # Spark has read VARIANTs as any texts.
    selected = [
        (
            read_texts(F.col(quote(field.name)), field.name)
            if field.metadata == AS_TEXT
            else F.col(quote(field.name))
        )
        for field in columns
    ]
    change = change_of(candidates, Place(F.col("_metadata.file_path")), words)
    return rows.select(*selected, change.alias(CHANGE_COLUMN))
