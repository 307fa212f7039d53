"""The order of rows of several files."""

from __future__ import annotations

import json
from typing import Any

from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

FILE_TIME, FILE_PATH = "file time", "file path"


def file_order(df: DataFrame) -> list[Any]:
    """The columns by which rows of several input files are put in order: when each was written, and its path.

    Spark packs a batch's files into tasks by size, so without them a correction might overtake what it corrects.
    """
    wanted = {"file_path", "file_modification_time"}
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
    if not wanted <= {field["name"] for field in metadata.get("fields", [])}:
        return []
    return [
        F.col("_metadata.file_modification_time").alias(FILE_TIME),
        F.col("_metadata.file_path").alias(FILE_PATH),
    ]
