"""A batch DataFrame as a lookup table: Spark reads it again in every micro-batch, and lays answers beside rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from aggloom.codegen import BatchFrame, LookupTable, to_schema
from aggloom.codegen.planner import Lookup, LookupJoin, Scan
from aggloom.errors import SpecError
from aggloom.runtime.operators.lookup.step import combine_columns, pair_lists, with_lists
from aggloom.runtime.spark.plan.expressions import quote, spark_schema
from aggloom.runtime.values.batches import make_batch

_ANSWERS = "lookup answers"


def as_lookups(lookups: dict[str, Any]) -> dict[str, LookupTable]:
    """Lookup tables by name, batch DataFrames among them."""
    lookups_by_name = {}
    for name, each in lookups.items():
        if isinstance(each, DataFrame) or hasattr(each, "sparkSession"):
            if each.isStreaming:
                raise SpecError(
                    f"lookups: {name!r} streams; give it in tables, and join it plainly or AS OF a row time."
                )
            each = LookupTable(to_schema(each), BatchFrame(each))
        lookups_by_name[name] = each
    return lookups_by_name


def look_up_rows(df: DataFrame, node: Lookup | LookupJoin, *extra: tuple[Any, str]) -> DataFrame:
    """The rows of a lookup or lookup join; the extra columns go along."""
    question = node.question
    source = question.table.source
    assert isinstance(source, BatchFrame)
    keys = [
        F.col(quote(name)).alias(f"lookup key {n}") for n, (_, name) in enumerate(question.pairs)
    ]
    read = [F.col(quote(name)).alias(own) for own, name in question.names]
    # A struct has one field at least, also where no column of the table is read.
    row = F.struct(*(read or [F.lit(True).alias("found")]))
    names = [f"lookup key {n}" for n in range(len(keys))]
    # NULL is equal to nothing, so a key with one answers no row.
    known = reduce(lambda a, b: a & b, (F.col(quote(n)).isNotNull() for n in names))
    table = source.df.select(*keys, row.alias("row")).where(known)
    # A row for each key: the join must not multiply rows, which workers pair with the answers in the list.
    table = table.groupBy(*names).agg(F.collect_list("row").alias(_ANSWERS))
    same = (
        F.col(quote(left)) == F.col(quote(n))
        for (left, _), n in zip(question.pairs, names, strict=True)
    )
    # Broadcast, because a shuffle would not keep the order of the rows.
    both = df.join(F.broadcast(table), reduce(lambda a, b: a & b, same), "left").drop(*names)
    fields = [*spark_schema(node.schema).fields, *(StructField(n, t) for t, n in extra)]
    bare = replace(node, input=Scan("", node.input.schema, "append"))
    return both.mapInArrow(Answered(_without_frame(bare)), StructType(fields))


def _without_frame(node: Lookup | LookupJoin) -> Lookup | LookupJoin:
    """A node that can travel: workers do not need the DataFrame."""
    table = replace(node.question.table, source=BatchFrame(None))
    return replace(node, question=replace(node.question, table=table))


@dataclass(frozen=True)
class Answered:
    """The `mapInArrow` stage over rows and the lists of their answers, which are the last column."""

    node: Lookup | LookupJoin

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Make what the node gives of rows and answers."""
        node = self.node
        schema = node.input.schema
        width = len(schema)
        for batch in batches:
            rows = make_batch(batch.columns[:width], schema, batch.num_rows)
            pairs = pair_lists(node.question, rows, batch.column(batch.num_columns - 1))
            extra = batch.columns[width:-1]
            if isinstance(node, LookupJoin):
                done, row_numbers = combine_columns(node, rows, pairs), pa.array(pairs.rows)
                extra = [column.take(row_numbers) for column in extra]
            else:
                done = with_lists(node, rows, pairs)
            names = [*node.schema.names, *batch.schema.names[width:-1]]
            yield pa.RecordBatch.from_arrays([*done.columns, *extra], names=names)
