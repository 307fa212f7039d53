"""Spark's values of expressions, many in one query, and random expressions to ask it about."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from aggloom.codegen.scalar.module import load_module, lower, module_text

ROWS = "rows"


def lowered(sql: str, batch: pa.RecordBatch) -> pa.Array:
    """The value of an expression by generated code, in the type that the lowering says."""
    value = lower(sql, {ROWS: batch.schema})
    schema = pa.schema([("value", value.type)])
    text = module_text(None, [("value", sql)], schema, {ROWS: batch.schema})
    column: pa.Array = load_module(text).select(batch).column(0)
    return column


def by_spark(spark: Any, expressions: Sequence[str], batch: pa.RecordBatch) -> pa.Table:
    """The same expressions as columns by Spark, in the order of the rows."""
    from aggloom.runtime.spark.plan.expressions import spark_arrow, spark_schema

    table = pa.Table.from_batches([batch])
    place = pa.array(range(table.num_rows), pa.int64())
    table = table.append_column("row place", place)
    df = spark.createDataFrame(table.cast(spark_arrow(table.schema)), spark_schema(table.schema))
    named = [f"{sql} AS `x{place}`" for place, sql in enumerate(expressions)]
    return (
        df.selectExpr("`row place`", *named)
        .toArrow()
        .sort_by("row place")
        .drop_columns("row place")
    )


def differences(mine: pa.Array, theirs: pa.ChunkedArray) -> list[tuple[Any, Any]]:
    """The values, and the types, in which two answers differ; NaN is NaN."""
    kind = theirs.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        kind = pa.timestamp("us", "UTC")
    found: list[tuple[Any, Any]] = [] if mine.type == kind else [(mine.type, kind)]
    pairs = zip(mine.to_pylist(), theirs.to_pylist(), strict=True)
    return found + [(a, b) for a, b in pairs if not (a == b or (a != a and b != b))]


_NUMBERS = ("b", "i", "l", "r", "f", "g", "m", "n9", "x38")
_LEAVES = {
    "number": (*_NUMBERS, "1", "-3", "2.5", "0.75D", "CAST(7 AS BIGINT)", "0", "CAST(NULL AS INT)"),
    "text": ("s", "t", "'abc'", "''", "upper(s)", "CAST(d AS STRING)"),
    "date": ("d", "u", "DATE '2020-02-29'", "last_day(d)", "to_date(w)"),
    "clock": ("n", "CAST(d AS TIMESTAMP_NTZ)"),
    "instant": ("w", "CAST(d AS TIMESTAMP)"),
    "truth": ("p", "q", "TRUE", "CAST(NULL AS BOOLEAN)"),
}
_TREES = {
    "number": (
        *("({number} + {number})", "({number} - {number})", "({number} * {number})"),
        *("({number} / nullif({number}, 0))", "({number} % nullif({number}, 0))"),
        *("-({number})", "abs({number})", "length({text})", "year({date})", "month({clock})"),
        *("dayofweek({date})", "hour({instant})", "datediff({date}, {date})", "instr({text}, 'b')"),
        *("coalesce({number}, {number})", "if({truth}, {number}, {number})"),
        *("least({number}, {number})", "greatest({number}, {number})", "floor({number})"),
        *("CAST({number} AS DOUBLE)", "nullif({number}, {number})", "sqrt(abs({number}))"),
        *("CASE WHEN {truth} THEN {number} WHEN {truth} THEN {number} END", "round({number}, 1)"),
    ),
    "text": (
        *(
            "({text} || {text})",
            "substring({text}, 2)",
            "substring({text}, -3, 2)",
            "lower({text})",
        ),
        *("trim({text})", "coalesce({text}, {text})", "if({truth}, {text}, {text})"),
        *("concat_ws('-', {text}, {text})", "replace({text}, 'a', 'bb')", "lpad({text}, 4, '.')"),
        *(
            "CAST({truth} AS STRING)",
            "CAST({clock} AS STRING)",
            "reverse({text})",
            "right({text}, 2)",
        ),
        *("CASE {text} WHEN {text} THEN {text} ELSE {text} END", "repeat({text}, 2)"),
    ),
    "date": (
        *("date_add({date}, 40)", "add_months({date}, -1)", "trunc({date}, 'MM')"),
        *("coalesce({date}, {date})", "CAST({clock} AS DATE)", "({date} - INTERVAL 2 MONTHS)"),
        *("if({truth}, {date}, {date})", "greatest({date}, {date})"),
    ),
    "clock": ("({clock} + INTERVAL 36 HOURS)", "coalesce({clock}, {clock})"),
    "instant": ("date_trunc('month', {instant})", "({instant} - INTERVAL 1 DAY)"),
    "truth": (
        *("({number} < {number})", "({number} = {number})", "({number} >= {number})"),
        *("({number} <> {number})", "({number} <=> {number})", "({number} IN ({number}, 1, NULL))"),
        *("({text} = {text})", "({text} > {text})", "({text} LIKE '%a_')", "({text} IN ('b', ''))"),
        *(
            "({date} <= {date})",
            "({date} < {clock})",
            "({instant} > {date})",
            "({clock} = {clock})",
        ),
        *(
            "({truth} AND {truth})",
            "({truth} OR {truth})",
            "(NOT {truth})",
            "({truth} IS NOT TRUE)",
        ),
        *(
            "({number} BETWEEN {number} AND {number})",
            "({number} IS NULL)",
            "({truth} <=> {truth})",
        ),
        *("startswith({text}, 'a')", "isnan({number})"),
    ),
}


def random_expression(draw: random.Random, kind: str, depth: int) -> str:
    """An expression of a kind, with at most so many levels."""
    if depth == 0 or draw.random() < 0.1:
        return draw.choice(_LEAVES[kind])
    shape = draw.choice(_TREES[kind])
    while "{" in shape:
        start, end = shape.index("{"), shape.index("}")
        inner = random_expression(draw, shape[start + 1 : end], depth - 1)
        shape = shape[:start] + inner + shape[end + 1 :]
    return shape


def random_expressions(seed: int, count: int) -> list[str]:
    """So many of all kinds."""
    draw = random.Random(seed)
    return [
        random_expression(draw, draw.choice(list(_TREES)), draw.choice((1, 2, 3)))
        for _ in range(count)
    ]
