"""Spark's values of expressions, many in one query, and random expressions to ask it about."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from aggloom.codegen.scalar.expressions import parse_scalar
from aggloom.codegen.scalar.module import ROWS, load_module, lower, module_text
from aggloom.codegen.scalar.result_types import infer


def lowered(sql: str, batch: pa.RecordBatch, zone: str = "UTC") -> pa.Array:
    """The value of an expression by generated code, in the type that the lowering says."""
    value = lower(sql, {ROWS: batch.schema}, zone)
    schema = pa.schema([("value", value.type)])
    text = module_text(None, [("value", sql)], schema, {ROWS: batch.schema}, zone)
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
    if pa.types.is_time(kind):
        # Spark's go out in nanoseconds, of which they have whole thousands.
        kind = pa.time64("us")
    found: list[tuple[Any, Any]] = [] if _bare(mine.type) == _bare(kind) else [(mine.type, kind)]
    if pa.types.is_timestamp(kind):
        # Python's times end sooner than Arrow's.
        mine, theirs = mine.cast(pa.int64()), theirs.cast(pa.int64())
    pairs = zip(mine.to_pylist(), theirs.to_pylist(), strict=True)
    return found + [(a, b) for a, b in pairs if not _same(a, b)]


def _bare(kind: pa.DataType) -> pa.DataType:
    """A type without the promise that nothing in it is NULL, which a lowered value does not make."""
    if pa.types.is_list(kind):
        return pa.list_(_bare(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_bare(kind.key_type), _bare(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _bare(field.type)) for field in kind])
    return kind


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, list | tuple) and isinstance(theirs, list | tuple):
        pairs = zip(mine, theirs, strict=False)
        return len(mine) == len(theirs) and all(_same(a, b) for a, b in pairs)
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return _same(list(mine.items()), list(theirs.items()))
    return bool(mine == theirs or (mine != mine and theirs != theirs))


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


_EXTREMES: dict[pa.DataType, tuple[Any, ...]] = {
    pa.int8(): (0, 1, -1, 127, -127, 5),
    pa.int32(): (0, 1, -1, 2, 3, 10, 64, 255, 2**31 - 1, -(2**31), 12345),
    pa.int64(): (0, 1, -1, 7, 1000, 2**63 - 1, -(2**63), 2**53 + 1, 1_600_000_000),
    pa.float32(): (0.0, -0.0, 1.5, float("nan"), float("inf"), -1e-30, 16777217.0, 0.1),
    pa.float64(): (
        *(0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, float("nan"), float("inf"), -float("inf")),
        *(
            5e-324,
            1.7976931348623157e308,
            0.1,
            123456.789,
            1e-5,
            1e7,
            12345678.9,
            3.141592653589793,
        ),
    ),
    pa.string(): (
        *(
            "",
            " ",
            "a",
            "abc",
            "ABC",
            "größe",
            "ß",
            "İstanbul",
            "日本語",
            "🙂 a",
            "a,b,,c",
            "x=1&y=2",
        ),
        *(
            "123",
            "-45",
            " 12 ",
            "1.5e3",
            "NaN",
            "true",
            "2020-02-29",
            "2020-02-29 12:34:56",
        ),
        *(
            "a\nb",
            "tab\there",
            "q\"uo'te",
            "back\\slash",
            "%41",
            "aab",
            "xaxbx",
            "Ab%",
            "foo bar-baz",
        ),
        *(
            "https://example.com:80/p?q=1#r",
            '{"a": [1, {"b": null}], "c": "d"}',
            "[1, 2]",
            "YWJj",
            "4aF",
        ),
    ),
    pa.binary(): (b"", b"a", b"abc", b"\x00\xff", "größe".encode(), b"\x80"),
}


def random_table(seed: int, rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of random values with the extremes of each type, and NULLs, among them."""
    draw = random.Random(seed)
    arrays = [
        pa.array([_random_value(draw, field.type) for _ in range(rows)], field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _random_value(draw: random.Random, kind: pa.DataType) -> Any:
    if draw.random() < 0.1:
        return None
    if pa.types.is_list(kind):
        return [_random_value(draw, kind.value_type) for _ in range(draw.choice((0, 1, 2, 3, 5)))]
    if pa.types.is_map(kind):
        keys = draw.sample(["a", "b", "c", "", "ß"], draw.choice((0, 1, 3)))
        return [(key, _random_value(draw, kind.item_type)) for key in keys]
    if pa.types.is_struct(kind):
        return {field.name: _random_value(draw, field.type) for field in kind}
    if pa.types.is_boolean(kind):
        return draw.random() < 0.5
    if pa.types.is_decimal(kind):
        digits = draw.randrange(-(10**kind.precision) + 1, 10**kind.precision)
        return Decimal(draw.choice((digits, digits % 1000, 0, 1, -5))).scaleb(-kind.scale, _EXACT)
    if pa.types.is_date(kind):
        day = draw.choice((draw.randrange(-60_000, 60_000), 0, -1, 18321, 11016))
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=day)
    if pa.types.is_time(kind):
        microseconds = draw.choice(
            (0, 1, 43_200_000_000, 86_399_999_999, draw.randrange(86_400_000_000))
        )
        return pa.scalar(microseconds, pa.int64()).cast(kind).as_py()
    if pa.types.is_timestamp(kind):
        # Not before 1900, since when zones have whole minutes.
        seconds = draw.choice((draw.randrange(-2_200_000_000, 4_000_000_000), 0, 1_585_447_200))
        moment = seconds * 1_000_000 + draw.choice((0, 1, 500_000, 999_999, draw.randrange(10**6)))
        return pa.scalar(moment, kind).as_py()
    if pa.types.is_string(kind) and draw.random() < 0.3:
        return "".join(draw.choice("ab0 ,.%-_Aß🙂\n1") for _ in range(draw.randrange(8)))
    if pa.types.is_integer(kind) and draw.random() < 0.4:
        return draw.randrange(-100, 100)
    if pa.types.is_floating(kind) and draw.random() < 0.4:
        return pa.scalar(draw.uniform(-1000, 1000), kind).as_py()
    return draw.choice(_EXTREMES[kind])


_EXACT = Context(prec=60)


def evaluate(sql: str, batch: pa.RecordBatch) -> pa.Array:
    """Return the value of an expression for every row, in its inferred type."""
    inputs = {ROWS: batch.schema}
    # An expression that cannot be lowered is refused before its type is asked for.
    lower(sql, inputs)
    types = dict(zip(batch.schema.names, batch.schema.types, strict=True))
    schema = pa.schema([("value", infer(parse_scalar(sql), types))])
    text = module_text(None, (("value", sql),), schema, inputs)
    return load_module(text).select(batch).column(0)
