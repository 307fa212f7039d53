"""A filter and a projection of the harness by a Spark session: for expressions that no worker evaluates."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from aggloom.codegen import having_kinds, spell_zone
from aggloom.codegen.planner import Calc
from aggloom.runtime.spark.plan.expressions import (
    project_columns,
    quote,
    refusals,
    spark_arrow,
    spark_schema,
    unused_name,
)
from aggloom.runtime.spark.plan.own_calls import compute_own_calls
from aggloom.runtime.values.batches import empty_columns
from aggloom.runtime.values.changelog import Kinds


def calculate_with(
    spark: SparkSession,
    node: Calc,
    batch: pa.RecordBatch,
    kinds: Kinds,
    *,
    is_shown: bool,
    upsert: bool,
) -> tuple[pa.RecordBatch, Kinds]:
    """Calculate as `aggloom.codegen.calculate` does, with the expressions evaluated by Spark."""
    zone = spell_zone(str(spark.conf.get("spark.sql.session.timeZone")))
    if node.where is not None:
        df, place, kind = _number_rows(spark, batch, kinds)
        df, own_node = compute_own_calls(df, node, zone)
        with refusals("WHERE"):
            ordered = df.selectExpr(f"({own_node.where}) AS passes", quote(kind), quote(place))
        flags, _ = _collect_rows(ordered, pa.schema([("passes", pa.bool_())]))
        keep = flags.column(0).fill_null(False).to_numpy(False)
        if is_shown:
            keep, kinds = having_kinds(kinds, keep, upsert)
        batch, kinds = batch.filter(pa.array(keep)), kinds[keep]
    # From the rows that pass alone: SELECT may fail on others.
    df, place, kind = _number_rows(spark, batch, kinds)
    df, node = compute_own_calls(df, node, zone)
    columns = [*project_columns(node), quote(kind), quote(place)]
    with refusals("SELECT"):
        df = df.selectExpr(*columns)
    return _collect_rows(df, node.schema)


def _number_rows(
    spark: SparkSession, batch: pa.RecordBatch, kinds: Kinds
) -> tuple[DataFrame, str, str]:
    """The batch as a DataFrame with its row numbers and kinds, and those two columns' names."""
    names = batch.schema.names
    # Spark promises no order of rows, so their numbers go along to sort them by.
    place, kind = unused_name("row place", names), unused_name("row kind", names)
    table = pa.Table.from_batches([batch])
    table = table.append_column(kind, pa.array(kinds, pa.int8()))
    table = table.append_column(place, pa.array(range(batch.num_rows), pa.int64()))
    df = spark.createDataFrame(table.cast(spark_arrow(table.schema)), spark_schema(table.schema))
    return df, place, kind


def _collect_rows(df: DataFrame, schema: pa.Schema) -> tuple[pa.RecordBatch, Kinds]:
    """The rows of a DataFrame whose last columns are kind and place, back in order."""
    table = df.toArrow()
    table = table.sort_by(table.column_names[-1]) if table.num_rows else table
    arrays = [
        column.combine_chunks().cast(field.type)
        for column, field in zip(table.columns, schema, strict=False)
    ]
    kinds = table.column(table.num_columns - 2).to_numpy().astype(np.int8)
    bare = (
        pa.RecordBatch.from_arrays(arrays, schema=schema)
        if arrays
        else empty_columns(table.num_rows)
    )
    return bare, kinds
