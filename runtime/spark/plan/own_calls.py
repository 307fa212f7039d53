"""Calls that Spark lacks: a worker computes them into columns before Spark evaluates the rest of a Calc."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from aggloom.codegen import LoweredCalc, OwnCalls, columns_of, infer_type, lower_calc
from aggloom.codegen.planner import Calc
from aggloom.errors import ArithmeticOverflowError
from aggloom.runtime.spark.plan.arrow_udf import arrow_udf
from aggloom.runtime.spark.plan.expressions import quote, spark_type, unused_name
from aggloom.runtime.values.changelog import INSERT
from aggloom.type_layout import is_variant

_COLUMN = "own call"


def compute_own_calls(df: DataFrame, node: Calc, zone: str) -> tuple[DataFrame, Calc]:
    """The rows with a column for each call that Spark lacks, and the Calc that reads these columns.

    Raises UnsupportedExpressionError for an argument that only Spark evaluates.
    """
    calls = OwnCalls(unused_name(_COLUMN, df.columns), _types(node), zone)
    where = None if node.where is None else calls.take_out(node.where)
    select = tuple((name, calls.take_out(sql)) for name, sql in node.select)
    if not calls.columns:
        return df, node
    for name, sql in calls.columns.items():
        df = df.withColumn(name, _column(node, sql, zone, tries=name in calls.tried))
    return df, replace(node, where=where, select=select)


def _types(node: Calc) -> dict[str, pa.DataType]:
    below = node.input.schema
    return dict(zip(below.names, below.types, strict=True))


def _column(node: Calc, sql: str, zone: str, *, tries: bool) -> Column:
    below = node.input.schema
    read = [below.field(name) for name in columns_of(sql)]
    dtype = infer_type(sql, below)
    # A call of literals has no column to come from: a constant gives it its number of rows.
    rows = pa.schema(read or [pa.field("nothing", pa.int32())])
    calc = lower_calc(None, (("value", sql),), pa.schema([("value", dtype)]), rows, zone=zone)
    columns = [F.col(quote(field.name)) for field in read] or [F.lit(0)]

    def compute_call(*arrays: pa.Array) -> pa.Array:
        return _try_values(calc, arrays) if tries else _values(calc, arrays)

    return arrow_udf(compute_call, spark_type(dtype))(*columns)


def _try_values(calc: LoweredCalc, arrays: Sequence[pa.Array]) -> pa.Array:
    """The values of a call, NULL in the rows for which it fails, which are found by halving."""
    try:
        return _values(calc, arrays)
    except ArithmeticOverflowError:
        count = len(arrays[0])
        if count == 1:
            return pa.nulls(1, calc.schema.field(0).type)
    half = count // 2
    parts = [[each.slice(0, half) for each in arrays], [each.slice(half) for each in arrays]]
    return pa.concat_arrays([_try_values(calc, part) for part in parts])


def _values(calc: LoweredCalc, arrays: Sequence[pa.Array]) -> pa.Array:
    """The values of a call for the rows of a batch; arrays: one for each column that it reads, in order."""
    cast = [
        array.cast(field.type) if array.type != field.type else array
        for array, field in zip(arrays, calc.rows, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(cast, schema=calc.rows)
    rows, _ = calc.run(batch, np.full(batch.num_rows, INSERT, np.int8))
    value = rows.column(0)
    # Between workers a VARIANT is its text.
    return value.storage if is_variant(value.type) else value
