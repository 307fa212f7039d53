"""Files that are JSON as a whole, as messages: a row of Spark's is a file, and each object in it a message."""

from __future__ import annotations

from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, BinaryType

from aggloom.runtime.formats.whole_json import cut_values
from aggloom.runtime.spark.plan.arrow_udf import arrow_udf
from aggloom.runtime.spark.read.files import METRIC


def objects_of(files: DataFrame) -> DataFrame:
    """The objects of files, which are in `value`; `file` tells the place of each, other columns stay."""
    metric = f"{METRIC} json {uuid4().hex}"
    # Spark counts a file that it reads as one text as one row.
    files = files.observe(f"{metric} files", F.lit(0).alias("rows"), F.count("*").alias("files"))

    def cut(texts: pa.Array) -> pa.Array:
        found = [None if text is None else list(cut_values(text)) for text in texts.to_pylist()]
        return pa.array(found, pa.list_(pa.binary()))

    kept = [name for name in files.columns if name not in ("value", "file")]
    cutting = arrow_udf(cut, ArrayType(BinaryType()))(F.col("value").cast("binary"))
    each = files.select("file", *kept, F.posexplode(cutting))
    place = F.concat("file", F.lit(", value "), (F.col("pos") + 1).cast("string"))
    values = each.select(F.col("col").alias("value"), place.alias("file"), *kept)
    return values.observe(metric, F.count("*").alias("rows"), F.lit(0).alias("files"))
