"""CSV files on Spark: Spark lists them and passes their bytes to workers, which read them as on every other engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from aggloom.runtime.formats.csv_files import CsvReader
from aggloom.runtime.formats.packed_files import PACKED, unpack_bytes
from aggloom.runtime.spark.failures import translate_failures
from aggloom.runtime.spark.plan.arrow_udf import arrow_udf
from aggloom.runtime.spark.plan.expressions import quote, spark_arrow, spark_schema
from aggloom.runtime.spark.read.file_names import well_named
from aggloom.runtime.spark.read.files import FILE_DDL, METRIC
from aggloom.runtime.spark.read.records import CHANGE_COLUMN, PARTS, explode_rows

_PEEKED = 1 << 16
"""Bytes of a file in which its header is."""


def csv_rows(
    reader: Any, path: str, read: CsvReader, columns: StructType, parts: StructType
) -> DataFrame:
    """The rows of files by the names in their headers, and `_change_type`.

    reader: a DataFrameReader or DataStreamReader with options. columns: all columns in order; parts: those that
    directories give.
    """
    files = contents_of(reader, path, parts)
    # Spark counts a file that it reads at once as one row.
    metric = f"{METRIC} csv {uuid4().hex}"
    files = files.observe(f"{metric} files", F.lit(0).alias("rows"), F.count("*").alias("files"))
    own = StructType([field for field in columns if field.name not in parts.names])
    rows = _Reading(read).column(F.col("content"), F.col("file")).alias("rows")
    carried = [PARTS] if len(parts) else []
    changes = explode_rows(files.select(rows, *carried), own, parts.names)
    changes = changes.select(*map(quote, [*columns.names, CHANGE_COLUMN]))
    return changes.observe(metric, F.count("*").alias("rows"), F.lit(0).alias("files"))


def check_first_header(
    spark: SparkSession, path: str, options: Mapping[str, Any], read: CsvReader
) -> None:
    """Check the header of one of the files that are there, before a query starts; raises UnknownColumnError."""
    if not read.dialect.header:
        return
    with translate_failures(f"read_changes: {path}"):
        files = spark.read.options(**options).format("binaryFile").load(path)
        # The first bytes of a packed file are no header, and an empty file has none.
        packed = F.lower("path").rlike(rf"({'|'.join(PACKED)})$")
        start = F.substring("content", 1, _PEEKED).alias("start")
        headers = (
            files.where(~packed & (F.col("length") > 0)).select("path", start).limit(1).collect()
        )
    for file, text in headers:
        lines = bytes(text)
        # The cut may be in the middle of a letter: UTF-8 has a safe place at the last line's end, others may have none.
        if len(lines) < _PEEKED or read.dialect.encoding == "utf-8":
            whole = lines if len(lines) < _PEEKED else lines[: lines.rfind(b"\n") + 1]
            read.check_header(whole, file)


def contents_of(reader: Any, path: str, parts: StructType) -> DataFrame:
    """The bytes of files, the file of each, and what its directories give in PARTS."""
    schema = StructType([*StructType.fromDDL(FILE_DDL), *parts])
    files: DataFrame = reader.schema(schema).format("binaryFile").load(path)
    file = F.col("_metadata.file_path")
    part_columns = [F.col(quote(name)).alias(f"c{at}") for at, name in enumerate(parts.names)]
    carried = [F.struct(*part_columns).alias(PARTS)] if part_columns else []
    content = well_named(F.col("content"), file).alias("content")
    return files.select(content, file.alias("file"), *carried)


@dataclass(frozen=True)
class _Reading:
    """The function of whole files and their names that gives a list of rows for each."""

    read: CsvReader

    def column(self, content: Column, file: Column) -> Column:
        """The rows of files as an array of structs: c0, c1, .. and change."""
        fields = [StructField(f"c{n}", f.dataType) for n, f in enumerate(self._columns())]
        row = StructType([*fields, StructField("change", StringType())])
        reading = self

        def read_content(content: pa.Array, file: pa.Array) -> pa.Array:
            return reading.lists(content, file)

        return arrow_udf(read_content, ArrayType(row))(content, file)

    def lists(self, content: pa.Array, file: pa.Array) -> pa.Array:
        """A list of rows for each file."""
        types = [*spark_arrow(self.read.schema).types, pa.string()]
        names = [*(f"c{n}" for n in range(len(types) - 1)), "change"]
        offsets, pieces = [0], []
        for one, name in zip(content, file.to_pylist(), strict=True):
            rows = self.read(unpack_bytes(one.as_py(), name), name)
            arrays = [
                array if array.type == kind else array.cast(kind)
                for array, kind in zip([*rows.columns, rows.words], types, strict=True)
            ]
            pieces.append(pa.StructArray.from_arrays(arrays, names=names))
            offsets.append(offsets[-1] + rows.count)
        return pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), _join_pieces(pieces, names, types)
        )

    def _columns(self) -> Sequence[StructField]:
        return spark_schema(self.read.schema).fields


def _join_pieces(
    pieces: list[pa.StructArray], names: list[str], types: list[pa.DataType]
) -> pa.StructArray:
    kind = pa.struct(list(zip(names, types, strict=True)))
    return pa.concat_arrays(pieces) if pieces else pa.array([], kind)
