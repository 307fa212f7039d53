"""Files that are read whole, cut into messages: a row of Spark's is a file, and each object or line in it a message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, BinaryType, StructType

from aggloom.errors import SpecError
from aggloom.runtime.connectors.files.discovery import files_at, which
from aggloom.runtime.formats.lines import cut_lines
from aggloom.runtime.formats.packed_files import unpack_bytes
from aggloom.runtime.formats.whole_json import cut_values
from aggloom.runtime.spark.disk import local, on_this_disk
from aggloom.runtime.spark.failures import translate_failures
from aggloom.runtime.spark.plan.arrow_udf import arrow_udf
from aggloom.runtime.spark.read.csv_files import contents_of
from aggloom.runtime.spark.read.files import METRIC

UNKNOWN_TO_SPARK = ".zst"
"""The ending of packed files that Spark's own reader of text cannot unpack before Spark 4.3."""


def has_unknown_packing(spark: SparkSession, path: str, options: Mapping[str, Any]) -> bool:
    """Tell whether Spark's reader of text cannot unpack one of the files that are there now."""
    place = local(path)
    if place is None or not on_this_disk(spark, path):
        with translate_failures(f"read_changes: {path}"):
            names = list(spark.read.options(**options).text(path).inputFiles())
    else:
        try:
            names = [file.name for file in files_at(place, **which(options))]
        except SpecError:
            return False
    return any(PurePath(name).suffix.lower() == UNKNOWN_TO_SPARK for name in names)


def packed_lines(reader: Any, path: str, parts: StructType) -> DataFrame:
    """The lines of files that workers unpack as their names say, the place of each, and what directories give."""
    return _cut_files(_pack_parts(reader, path, parts), cut_lines, "line", unpack_bytes)


def packed_objects(reader: Any, path: str, parts: StructType) -> DataFrame:
    """The objects of files that are JSON as a whole, which workers unpack as their names say."""
    return _cut_files(_pack_parts(reader, path, parts), cut_values, "value", unpack_bytes)


def objects_of(files: DataFrame) -> DataFrame:
    """The objects of files, which are in `value`; `file` has the place of each, other columns stay."""
    return _cut_files(files, cut_values, "value", lambda content, file: content)


def _pack_parts(reader: Any, path: str, parts: StructType) -> DataFrame:
    return contents_of(reader, path, parts).withColumnRenamed("content", "value")


def _cut_files(
    files: DataFrame,
    parts_of: Callable[[bytes], Iterable[bytes]],
    word: str,
    unpacked: Callable[[bytes, str], bytes],
) -> DataFrame:
    """The parts of files as `value`, and in `file` the place of each, behind a word."""
    metric = f"{METRIC} {word}s {uuid4().hex}"
    # Spark counts a file that it reads at once as one row.
    files = files.observe(f"{metric} files", F.lit(0).alias("rows"), F.count("*").alias("files"))

    def cut_texts(texts: pa.Array, names: pa.Array) -> pa.Array:
        pieces = [
            None if text is None else list(parts_of(unpacked(text, name)))
            for text, name in zip(texts.to_pylist(), names.to_pylist(), strict=True)
        ]
        return pa.array(pieces, pa.list_(pa.binary()))

    carried = [name for name in files.columns if name not in ("value", "file")]
    cutting = arrow_udf(cut_texts, ArrayType(BinaryType()))(
        F.col("value").cast("binary"), F.col("file")
    )
    each = files.select("file", *carried, F.posexplode(cutting))
    place = F.concat("file", F.lit(f", {word} "), (F.col("pos") + 1).cast("string"))
    values = each.select(F.col("col").alias("value"), place.alias("file"), *carried)
    return values.observe(metric, F.count("*").alias("rows"), F.lit(0).alias("files"))
