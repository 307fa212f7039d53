"""The order of rows of several files."""

from __future__ import annotations

import json
from typing import Any

from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from aggloom.runtime.spark.plan.expressions import quote

FILE_TIME, FILE_PATH = "file time", "file path"
_MARK = {"aggloom.order": "name"}
"""Metadata of the columns of files that are read by name, which a filter or a selection leaves on them."""


def mark_by_name(df: DataFrame) -> DataFrame:
    """Note in the columns of a DataFrame that its files are ordered by their paths alone."""
    fields = df.schema.fields
    return df.select(
        *(F.col(quote(f.name)).alias(f.name, metadata={**f.metadata, **_MARK}) for f in fields)
    )


def _is_by_name(df: DataFrame) -> bool:
    return any(_MARK.items() <= field.metadata.items() for field in df.schema.fields)


def file_order(df: DataFrame) -> list[Any]:
    """The columns by which rows of several input files are put in order: when each was written, and its path.

    Of files that are read by name the time is NULL.

    Spark packs a batch's files into tasks by size, so without them a correction might overtake what it corrects.
    """
    needed = {"file_path", "file_modification_time"}
    if "_metadata" in df.columns:
        return []
    # The logger is of a class of Spark's own, which a plain `logging.getLogger` would keep it from being.
    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")
    disabled, logger.disabled = logger.disabled, True
    try:
        metadata = json.loads(df.select("_metadata").schema["_metadata"].dataType.json())
    except Exception:
        # Not a file source; each Spark, classic and Connect, says so with an error class of its own.
        return []
    finally:
        logger.disabled = disabled
    if not needed <= {field["name"] for field in metadata.get("fields", [])}:
        return []
    time = F.col("_metadata.file_modification_time")
    if _is_by_name(df):
        time = F.lit(None).cast("timestamp")
    return [
        time.alias(FILE_TIME),
        F.col("_metadata.file_path").alias(FILE_PATH),
    ]
