"""Rows as ordinary columns of a DataFrame: those of a table, and after steps that Arrow does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ByteType, StringType, StructField, StructType

from aggloom.codegen import columns_of, cut_column, quicken_expression
from aggloom.codegen.planner import Calc, Lookup, LookupJoin, Node, Scan
from aggloom.runtime.operators.stateless import bare
from aggloom.runtime.spark.plan.expressions import check_columns, quote, spark_schema
from aggloom.runtime.spark.plan.lookup_frame import look_up_rows
from aggloom.runtime.spark.plan.unpack import Having, Stepped
from aggloom.runtime.spark.plan.variant_frames import read_columns
from aggloom.runtime.spark.read.file_order import FILE_PATH, FILE_TIME, file_order

KIND = "row kind"
"""The column of the kinds of rows on their way through a query."""


@dataclass(frozen=True)
class InputTable:
    """A DataFrame of the query, and its change column; without one every row is an insertion.

    time: the column of its watermark, if it has one. Columns of Spark's VARIANT become texts of the one form.
    """

    df: DataFrame
    change_column: str | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "df", read_columns(self.df))

    @property
    def has_watermark(self) -> bool:
        """Tell whether it has a watermark."""
        return self.time is not None


@dataclass(frozen=True)
class OrdinaryRows:
    """Rows as ordinary columns under the node's names; after them `kind`, and what orders input files.

    has_watermark: whether they move a watermark.
    """

    df: DataFrame
    kind: str | None = None
    files: tuple[str, ...] = ()
    change_column: str | None = None
    append_only: bool = False
    has_watermark: bool = False

    def filter(self, condition: str) -> DataFrame:
        """Those that pass a condition."""
        return filter_rows(self.df, condition) if self.has_watermark else self.df.where(condition)

    @property
    def extra(self) -> list[str]:
        """The names of the columns that stand after the node's."""
        return [*([self.kind] if self.kind else []), *self.files]


def scan_table(table: InputTable, node: Scan) -> OrdinaryRows:
    """A table of the query as the columns that a scan reads."""
    check_columns(table.df, node.without_clock.schema)
    columns = [_column(name, node) for name in node.schema.names]
    files: tuple[str, ...] = ()
    change = table.change_column
    if change is not None:
        columns.append(F.col(quote(change)).alias(KIND))
    ordered = file_order(table.df)
    if ordered:
        columns += ordered
        files = (FILE_TIME, FILE_PATH)
    if not columns:
        # A batch of Arrow without columns has lost its number of rows, which COUNT(*) needs.
        columns = [F.lit(0).cast("tinyint").alias("nothing")]
    append_only = node.changes == "append"
    kind = None if change is None else KIND
    return OrdinaryRows(
        table.df.select(*columns), kind, files, change, append_only, table.has_watermark
    )


def _column(name: str, node: Scan) -> Column:
    """A column of a table, with the digits after the second that are declared, or the time of the batch."""
    if name == node.clock:
        # One for a micro-batch, and the same when it runs again.
        return F.current_timestamp().alias(name)
    digits = dict(node.digits).get(name)
    if digits is None:
        return F.col(quote(name))
    return F.expr(cut_column(name, node.schema.field(name).type, digits)).alias(name)


def filter_rows(df: DataFrame, condition: str) -> DataFrame:
    """The rows of a DataFrame that pass a condition; all of them move its watermark.

    Spark evaluates a condition below a watermark if it can, which rows that do not pass never come to then. It leaves
    conditions alone that the row does not determine, as it does not determine a partition's number.
    """
    return df.where(f"({condition}) <=> (spark_partition_id() >= 0)")


def extra_fields(rows: OrdinaryRows) -> list[tuple[Any, str]]:
    """The types and names of the columns that stand after the node's."""
    return [(rows.df.schema[name].dataType, name) for name in rows.extra]


def apply_step(df: DataFrame, node: Node, *extra: tuple[Any, str]) -> DataFrame:
    """Rows as ordinary columns after a step that Arrow does; the extra columns go along."""
    if isinstance(node, Lookup | LookupJoin) and node.question.by_engine:
        return look_up_rows(df, node, *extra)
    fields = [*spark_schema(node.schema).fields, *(StructField(n, t) for t, n in extra)]
    return df.mapInArrow(Stepped(bare(node)), StructType(fields))


def filter_changes(
    df: DataFrame,
    node: Calc,
    late: list[str],
    profile: str | None,
    upsert: bool,
    beside: tuple[str, ...] = (),
) -> DataFrame:
    """The rows of a changelog that pass the filter of a Calc, with the kinds that they get, in the columns it reads.

    late: the column that is set in late rows, if there is one; these pass. profile: whose names of kinds are written;
    None: numbers. upsert: of updates only the +U comes. beside: further columns of the result.
    """
    if node.input.appends_only:
        # Insertions have no partners, so that Spark can filter them row by row, without Python.
        is_late = (f"{quote(name)} IS NOT NULL" for name in late)
        return df.where(" OR ".join([f"({quicken_expression(str(node.where))})", *is_late]))
    # Only columns that the filter or the values above it read cross into Python.
    expressions = [str(node.where), *(sql for _, sql in node.select)]
    read = {name for sql in expressions for name in columns_of(sql)}
    names = [name for name in df.columns if name in read] + [*beside, *late]
    fields = [StructField(name, df.schema[name].dataType, True) for name in names]
    fields.append(StructField(KIND, StringType() if profile else ByteType(), True))
    names.append(KIND)
    stage = Having(profile, upsert, bool(late))
    passes = f"({quicken_expression(str(node.where))}) AS `row passes`"
    return df.selectExpr(*map(quote, names), passes).mapInArrow(stage, StructType(fields))


def with_kind(schema: pa.Schema, kind: pa.DataType) -> pa.Schema:
    """Columns with that of kinds after them."""
    return schema.append(pa.field(KIND, kind))


def spark_fields(schema: pa.Schema, kind: Any) -> StructType:
    """The same as Spark's types."""
    return StructType([*spark_schema(schema).fields, StructField(KIND, kind)])
