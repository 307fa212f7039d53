"""Scalar expressions agree with DuckDB, NULLs included, and refuse what they cannot do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import time
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scalar_oracle import evaluate

from aggloom.codegen.scalar.calc import finish, prepare
from aggloom.codegen.scalar.expressions import columns_of, infer_type
from aggloom.codegen.spec.agg_spec import AggCall, AggSpec
from aggloom.errors import (
    ArithmeticOverflowError,
    InvalidCastError,
    SqlError,
    TypeMismatchError,
    UnknownColumnError,
    UnsupportedExpressionError,
)

NAN = float("nan")
HOSTILE = 'a"); import os; ('
BATCH = pa.record_batch(
    {
        "a": pa.array([1, None, -7, 2, 0, 5], pa.int32()),
        "b": pa.array([2, 3, 2, None, 9, -4], pa.int64()),
        "d": pa.array(
            [Decimal("1.25"), None, Decimal("-3.55"), Decimal("0.00")] * 1 + [None] * 2
        ).cast(pa.decimal128(10, 2)),
        "f": pa.array([1.5, NAN, None, -0.0, 0.0, NAN]),
        "s": pa.array(["abc", "", None, "größe", "Ab%", " x "]),
        "p": pa.array([True, False, None, True, False, None]),
        "q": pa.array([True, True, True, None, False, None]),
        HOSTILE: pa.array([1, 2, 3, 4, 5, 6], pa.int32()),
        "'": pa.array([1, 2, 3, 4, 5, 6], pa.int32()),
    }
)

SHARED = [
    *(
        "a + b",
        "a - b",
        "a * 3",
        "-a",
        "a % b",
        "a % 3",
        "abs(a)",
        "d + a",
        "d - 1",
        "d * 2",
        "d * d",
    ),
    *(
        "a = 1",
        "a <> 1",
        "a < b",
        "a <= b",
        "a > b",
        "a >= b",
        "f = f",
        "f > 1",
        "f < 1",
        "f <= 0.0",
    ),
    *("s = 'abc'", "s < 'b'", "d > 0", "d = 1.25", "a > 0.5", "p = q", "p < q", "p > q"),
    *("p AND q", "p OR q", "NOT p", "p AND NULL", "p OR NULL", "NOT (p AND q) OR p"),
    *("a IS NULL", "a IS NOT NULL", "p IS TRUE", "p IS NOT TRUE", "p IS FALSE", "NULL IS NULL"),
    *("a IN (1, 2)", "a IN (1, NULL)", "a NOT IN (1, NULL)", "s IN ('abc', '')", "a IN (b, 1)"),
    *("a BETWEEN 0 AND 2", "a NOT BETWEEN 0 AND 2", "a BETWEEN b AND 9", "f BETWEEN 0 AND 2"),
    *("CASE WHEN a > 0 THEN 'pos' WHEN a < 0 THEN 'neg' END", "CASE a WHEN 1 THEN b ELSE a END"),
    *(
        "COALESCE(a, b, 0)",
        "COALESCE(s, 'none')",
        "NULLIF(a, 1)",
        "CASE WHEN p THEN 1 ELSE 2.5 END",
    ),
    *(
        "s LIKE '%b%'",
        "s LIKE 'a_c'",
        "s NOT LIKE 'a%'",
        "upper(substring(s, 1, 3))",
        "lower(s)",
        "length(s)",
        "trim(s)",
    ),
    *(
        "substring(s, 1, 2)",
        "substring(s, 2)",
        "s || 'y'",
        "substring(s, -2, 1)",
        "substring(s, -2)",
    ),
    *("CAST(a AS STRING)", "CAST(a AS BIGINT)", "CAST(a AS DOUBLE)", "CAST(a AS BOOLEAN)"),
    *(
        "CAST(a AS DECIMAL(12,3))",
        "CAST(d AS DOUBLE)",
        "CAST(d AS STRING)",
        "CAST(d AS DECIMAL(10,1))",
    ),
    *("CAST('12' AS INT)", "CAST('2020-02-29' AS DATE)", "CAST(p AS INT)", "CAST(NULL AS INT)"),
    *("DATE '2020-01-01' < DATE '2020-01-02'", "CAST(d AS DECIMAL(20,4)) + 1", "1 = 1", "'ALL'"),
    *("a + 1 > 1 AND b > 1 OR s IS NULL", "(a + 1) * 2 - b", "CASE WHEN a <> 0 THEN 10 % a END"),
]


def same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(
        x == y or (x is not None and y is not None and x != x and y != y)
        for x, y in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("sql", SHARED)
def test_agrees_with_duckdb(sql: str) -> None:
    value = evaluate(sql, BATCH)
    table = pa.Table.from_batches([BATCH])
    connection = duckdb.connect()
    connection.register("t", table)
    expected = [row[0] for row in connection.execute(f"SELECT {sql} FROM t").fetchall()]
    assert same(value.to_pylist(), expected)
    assert value.type == infer_type(sql, BATCH.schema)
    assert evaluate(sql, BATCH.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize(
    ("sql", "dtype", "expected"),
    [
        ("a / b", pa.float64(), [0.5, None, -3.5, None, 0.0, -1.25]),
        ("a DIV b", pa.int64(), [0, None, -3, None, 0, -1]),
        ("a <=> b", pa.bool_(), [False, False, False, False, False, False]),
        ("NOT p <=> q", pa.bool_(), [False, True, True, True, False, False]),
        ("IF(a > 0, s, 'no')", pa.string(), ["abc", "no", "no", "größe", "no", " x "]),
        ("concat(s, a)", pa.string(), ["abc1", None, None, "größe2", "Ab%0", " x 5"]),
        ("upper('ß')", pa.string(), ["SS"] * 6),
        ("1.5D", pa.float64(), [1.5] * 6),
        ("1L", pa.int64(), [1] * 6),
        ("3000000000", pa.int64(), [3000000000] * 6),
        ("CAST(f AS INT)", pa.int32(), None),
        ("a > '1'", pa.bool_(), [False, None, False, True, False, True]),
        (f"`{HOSTILE}` + `'`", pa.int32(), [2, 4, 6, 8, 10, 12]),
        ("CASE WHEN a <> 0 THEN 10 / a ELSE 0 END", pa.float64(), [10, 0, 10 / -7, 5, 0, 2]),
        ("d / 3", pa.decimal128(14, 6), None),
    ],
)
def test_as_spark(sql: str, dtype: pa.DataType, expected: list[Any] | None) -> None:
    assert infer_type(sql, BATCH.schema) == dtype
    if expected is not None:
        assert same(evaluate(sql, BATCH).to_pylist(), expected)


def test_decimals_round_half_up() -> None:
    batch = pa.record_batch(
        {"d": pa.array([Decimal("0.125"), Decimal("-0.125"), Decimal("0.135")])}
    )
    rounded = evaluate("CAST(d AS DECIMAL(5,2))", batch).to_pylist()
    assert rounded == [Decimal("0.13"), Decimal("-0.13"), Decimal("0.14")]


@pytest.mark.parametrize(
    ("sql", "dtype"),
    [
        ("a + 1L", pa.int64()),
        ("a / 2", pa.float64()),
        ("d + d", pa.decimal128(11, 2)),
        ("d * 2", pa.decimal128(12, 2)),
        ("d * a", pa.decimal128(21, 2)),
        ("d * 1.5", pa.decimal128(13, 3)),
        ("d * 2.0D", pa.float64()),
        ("CAST(d AS DECIMAL(38,10)) * d", pa.decimal128(38, 6)),
        ("year(DATE '2020-01-01')", pa.int32()),
        ("CAST(a AS FLOAT) + a", pa.float64()),
        ("COALESCE(a, d)", pa.decimal128(12, 2)),
        ("date_trunc('hour', CAST(s AS TIMESTAMP))", pa.timestamp("us", "UTC")),
        ("my_function(a)", None),
        ("NULL", None),
        ("sqrt(d)", pa.float64()),
        ("CAST(sqrt(d) AS DECIMAL(10,1))", pa.decimal128(10, 1)),
    ],
)
def test_inferred_types(sql: str, dtype: pa.DataType | None) -> None:
    if dtype is None:
        with pytest.raises(UnsupportedExpressionError, match="CAST"):
            infer_type(sql, BATCH.schema)
    else:
        assert infer_type(sql, BATCH.schema) == dtype


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("a / 0", ArithmeticOverflowError, "division by zero"),
        ("a % 0", ArithmeticOverflowError, "division by zero"),
        ("a + 2147483647", ArithmeticOverflowError, "overflow"),
        ("CAST(1000 AS TINYINT)", ArithmeticOverflowError, "CAST"),
        ("CAST(d AS DECIMAL(2,2))", ArithmeticOverflowError, r"DECIMAL\(2,2\)"),
        ("CAST(s AS INT)", ArithmeticOverflowError, "CAST"),
        (
            "date_format(DATE '2020-01-01', 'e')",
            UnsupportedExpressionError,
            "DATE_FORMAT.*Spark session",
        ),
        # Patterns stay as they were written: Spark refuses YYYY, and reads a text exactly by one.
        ("date_format(DATE '2020-01-01', 'YYYY')", UnsupportedExpressionError, "'YYYY'.*Spark"),
        ("to_date(s, 'yyyy-MM-dd E')", UnsupportedExpressionError, "'yyyy-MM-dd E'.*Spark"),
        ("s RLIKE '\\\\bx'", UnsupportedExpressionError, "escape that differs.*Spark session"),
        ("CAST(f AS TIMESTAMP)", UnsupportedExpressionError, "Spark session"),
        ("TRY_CAST(s AS INTERVAL)", UnsupportedExpressionError, "TRY_CAST"),
        ("z + 1", UnknownColumnError, "'z'"),
        ("a = DATE '2020-01-01'", TypeMismatchError, "INT and DATE"),
        # CAST spells an array as a text; no function and no comparison does.
        ("s LIKE ARRAY('a%')", TypeMismatchError, "ARRAY<STRING> where STRING is needed.*CAST"),
        ("upper(MAP('a', 1))", TypeMismatchError, "MAP<STRING,INT> where STRING is needed"),
        ("md5(named_struct('a', 1))", TypeMismatchError, "where BINARY is needed"),
        ("a +", SqlError, "cannot be read"),
        ("'open", SqlError, "not closed"),
    ],
)
def test_refusals(sql: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        evaluate(sql, BATCH)


def test_columns_are_named_once_in_order() -> None:
    assert columns_of(f"b + a + `{HOSTILE}` + a") == ("b", "a", HOSTILE)


def kinds_of(*kinds: int) -> np.ndarray[Any, np.dtype[np.int8]]:
    return np.array(kinds, np.int8)


def test_prepare_filters_rows_and_computes_columns() -> None:
    spec = AggSpec.from_sql("SELECT k, SUM(v * 2) FROM t WHERE v > 1 GROUP BY k", "v INT, k STRING")
    batch = pa.record_batch(
        {"v": pa.array([1, 2, None, 4], pa.int32()), "k": pa.array(["a", "b", "c", None])}
    )
    prepared, kinds = prepare(spec, batch, kinds_of(0, 1, 2, 3))
    assert prepared.schema == spec.handler_schema
    assert prepared.to_pydict() == {"k": ["b", None], "(v * 2)": [4, 8]}
    assert kinds.tolist() == [1, 3]


def test_prepare_keeps_the_row_count_without_columns() -> None:
    spec = AggSpec("v INT", (), (AggCall("COUNT"),), where="v > 1")
    batch = pa.record_batch({"v": pa.array([1, 2, 3], pa.int32())})
    prepared, kinds = prepare(spec, batch, kinds_of(0, 0, 0))
    assert prepared.num_rows == len(kinds) == 2


def finished(kinds: list[int], values: list[int | None]) -> list[tuple[int, Any]]:
    spec = AggSpec.from_sql("SELECT COUNT(*) n FROM t HAVING SUM(v) > 5", "v BIGINT")
    batch = pa.record_batch(
        {"n": pa.array(range(len(values)), pa.int64()), "_agg0": pa.array(values, pa.int64())}
    )
    assert batch.schema == spec.aggregate_schema
    out, new = finish(spec, batch, kinds_of(*kinds))
    assert out.schema == spec.output_schema
    return list(zip(new.tolist(), out.column("n").to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("kinds", "values", "expected"),
    [
        ([1, 2], [6, 7], [(1, 0), (2, 1)]),
        ([1, 2], [6, 5], [(3, 0)]),
        ([1, 2], [5, 6], [(0, 1)]),
        ([1, 2], [5, None], []),
        ([0, 0], [6, 5], [(0, 0)]),
        ([3, 3], [6, 5], [(3, 0)]),
        ([2], [6], [(2, 0)]),
        ([2], [5], [(3, 0)]),
        ([0, 1, 2, 1, 2, 3], [6, 6, 5, 1, 9, 9], [(0, 0), (3, 1), (0, 4), (3, 5)]),
        ([], [], []),
    ],
)
def test_having_turns_pairs_into_inserts_and_deletes(
    kinds: list[int], values: list[int | None], expected: list[tuple[int, int]]
) -> None:
    assert finished(kinds, values) == expected


def test_finish_projects() -> None:
    spec = AggSpec.from_sql(
        "SELECT SUM(v) / COUNT(*) AS r, k AS `'` FROM t GROUP BY k", "v INT, k INT"
    )
    columns = {"k": [1, 2], "_agg0": [3, None], "_agg1": [2, 1]}
    batch = pa.RecordBatch.from_pydict(columns, schema=spec.aggregate_schema)
    out, _ = finish(spec, batch, kinds_of(0, 0))
    assert out.to_pydict() == {"r": [1.5, None], "'": [1, 2]}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ROUND(m, 1)", pa.decimal128(10, 1)),
        ("ROUND(m)", pa.decimal128(9, 0)),
        ("ROUND(m, 9)", pa.decimal128(11, 2)),
        ("ROUND(m, -1)", pa.decimal128(9, 0)),
        ("ROUND(m, -20)", pa.decimal128(21, 0)),
        ("ROUND(m, -50)", pa.decimal128(38, 0)),
        ("ROUND(d, 1)", pa.float64()),
        ("ROUND(i)", pa.int32()),
    ],
)
def test_round_has_spark_s_type(sql: str, expected: pa.DataType) -> None:
    schema = pa.schema([("m", pa.decimal128(10, 2)), ("d", pa.float64()), ("i", pa.int32())])
    assert infer_type(sql, schema) == expected


def test_decimals_are_rounded_before_the_point() -> None:
    texts = ("99.99", "-45.00", "44.99", "0.00", "50.00")
    values = pa.array([*map(Decimal, texts), None], pa.decimal128(4, 2))
    batch = pa.record_batch({"d": values, "x": pc.cast(values, pa.decimal128(38, 2))})
    for name in ("d", "x"):
        for digits, expected in (
            (1, [100, -50, 40, 0, 50, None]),
            (2, [100, 0, 0, 0, 100, None]),
            (3, [0, 0, 0, 0, 0, None]),
            (50, [0, 0, 0, 0, 0, None]),
        ):
            found = evaluate(f"ROUND({name}, -{digits})", batch)
            assert found.type == infer_type(f"ROUND({name}, -{digits})", batch.schema)
            assert found.to_pylist() == expected
    full = pa.record_batch({"x": pa.array([Decimal("9" * 38)], pa.decimal128(38, 0))})
    with pytest.raises(InvalidCastError, match="DECIMAL\\(38,0\\)"):
        evaluate("ROUND(x, -1)", full)


@pytest.mark.parametrize(
    "condition",
    [
        "c > TIME'11:00:00'",
        "c > CAST('11:00' AS TIME)",
        "TIME '10:30:00' < c",
        "c IN (TIME'12:00:00', TIME'13:00:00')",
        "CASE WHEN c IS NULL THEN TIME'01:00' ELSE c END = TIME'12:00:00'",
    ],
)
def test_literals_of_time(condition: str) -> None:
    batch = pa.record_batch({"c": pa.array([time(12), time(10, 30), None], pa.time64("us"))})
    found = evaluate(condition, batch)
    assert found.to_pylist()[:2] == [True, False]


def test_time_is_a_type_of_its_own() -> None:
    schema = pa.schema([("time", pa.int32()), ("s", pa.string())])
    of_day = pa.time64("us")
    for sql in ("TIME'25:00'", "TIME '11:00:00.5'", "CAST(s AS TIME(3))", "CAST(NULL AS TIME)"):
        assert infer_type(sql, schema) == of_day
    assert infer_type("time + 1", schema) == pa.int32()
    with pytest.raises(InvalidCastError, match=r"'25:00'.* no time of day"):
        evaluate("TIME'25:00'", pa.record_batch({"s": ["a"]}))
