"""Generated expressions agree with Spark: every sample, hundreds of random ones, types, errors."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from scalar_oracle import by_spark, differences, lowered, random_expressions, random_table
from writers.sample_table import sample_table

from aggloom.codegen import quicken_expression
from aggloom.codegen.scalar.dates import SHIFTS
from aggloom.codegen.scalar.functions import FAMILIES, OWN_FAMILY
from aggloom.codegen.scalar.intervals import MOVED
from aggloom.codegen.scalar.own_functions import STRICT
from aggloom.errors import ArithmeticOverflowError, TypeMismatchError, UnsupportedExpressionError

pytestmark = pytest.mark.spark

BATCH = sample_table()
SAMPLES = [
    sql
    for family, entries in FAMILIES.items()
    for each in entries
    for sql in each.samples
    # The bits of the circular functions are StrictMath's: test_strict_math.py.
    if family != OWN_FAMILY and sql.partition("(")[0] not in STRICT
]
FAILING = {
    "i + 2147483647": "ARITHMETIC_OVERFLOW",
    "l * 9223372036854775807": "ARITHMETIC_OVERFLOW",
    "-CAST(-128 AS TINYINT)": "ARITHMETIC_OVERFLOW",
    "CAST(-9223372036854775808 AS BIGINT) DIV -1": "ARITHMETIC_OVERFLOW",
    "floor(f * 1e300D)": "ARITHMETIC_OVERFLOW",
    "ceil(r)": "ARITHMETIC_OVERFLOW",
    "10 / i": "DIVIDE_BY_ZERO",
    "10 DIV i": "DIVIDE_BY_ZERO",
    "10 % i": "BY_ZERO",
    "m / (m - m)": "DIVIDE_BY_ZERO",
    "f / 0": "DIVIDE_BY_ZERO",
    "CAST(i AS TINYINT)": "CAST_OVERFLOW",
    "CAST(f AS INT)": "CAST_OVERFLOW",
    "CAST(m AS DECIMAL(3,2))": "NUMERIC_VALUE_OUT_OF_RANGE",
    "CAST(s AS INT)": "CAST_INVALID_INPUT",
    "CAST('0x10' AS INT)": "CAST_INVALID_INPUT",
    "CAST('1_000' AS DECIMAL(9,2))": "CAST_INVALID_INPUT",
    "CAST('2021-02-29' AS DATE)": "CAST_INVALID_INPUT",
    "CAST('2020-02 9' AS DATE)": "CAST_INVALID_INPUT",
    "CAST('24:00' AS TIMESTAMP)": "CAST_INVALID_INPUT",
    "CAST(s AS BOOLEAN)": "CAST_INVALID_INPUT",
    "make_date(2021, 2, 29)": "DATETIME_FIELD_OUT_OF_BOUNDS|[Ii]nvalid date",
    "CAST(x38 AS DECIMAL(38,37)) * 10000": "NUMERIC_VALUE_OUT_OF_RANGE",
    "make_time(24, 0, 0)": "DATETIME_FIELD_OUT_OF_BOUNDS|[Ii]nvalid value",
    "to_time(s)": "CAST_INVALID_INPUT|CANNOT_PARSE_TIME",
    "time_from_seconds(86400)": "DATETIME_FIELD_OUT_OF_BOUNDS|[Ii]nvalid",
    "n + make_interval(2147483647)": "ARITHMETIC_OVERFLOW",
    "d + make_interval(0, 0, 0, 0, 1)": "INTERVAL|ILLEGAL_ARGUMENT|[Cc]annot",
    "to_number(s, '999')": "INVALID_FORMAT",
}


DELIMITERS = "/-a.$|()[{^?*+\\,'\""
SPLIT = "split_part(s, '{}', {})"
NOT_QUICKER = (
    "split_part(s, 'ab', 1)",
    "split_part(s, '', 1)",
    "split_part(s, '\u00e9', 1)",
    "split_part(s, d, 1)",
    "split_part(s, '/', 0)",
    "split_part(s, '/', n)",
    "split(s, '/')",
)


def value_or_nothing(sql: str) -> Any:
    """The lowered value; None if the lowering refuses it, or the types do not fit, or a row is an error."""
    try:
        return lowered(sql, BATCH)
    except (UnsupportedExpressionError, TypeMismatchError, ArithmeticOverflowError):
        return None


def disagreements(
    spark: Any, mine: dict[str, Any], batch: pa.RecordBatch = BATCH
) -> dict[str, Any]:
    table = by_spark(spark, list(mine), batch)
    compared = {sql: differences(mine[sql], table.column(place)) for place, sql in enumerate(mine)}
    return {sql: found[:3] for sql, found in compared.items() if found}


def test_every_sample_has_spark_s_value_and_type(spark: Any) -> None:
    mine = {sql: lowered(sql, BATCH) for sql in (*SAMPLES, *SHIFTS, *MOVED)}
    assert disagreements(spark, mine) == {}


@pytest.mark.parametrize("seed", [1, 2])
def test_every_sample_has_spark_s_value_on_random_rows(spark: Any, seed: int) -> None:
    """Rows of extremes: NULL, NaN, -0.0, ends of types, letters beyond ASCII; a sample with an error is left out."""
    batch = random_table(seed, 150, BATCH.schema)
    mine = {}
    for sql in (*SAMPLES, *MOVED):
        with suppress(ArithmeticOverflowError):
            mine[sql] = lowered(sql, batch)
    assert len(mine) > 0.8 * len(SAMPLES)
    assert disagreements(spark, mine, batch) == {}


IN_A_ZONE = (
    *(
        "CAST(d AS TIMESTAMP)",
        "CAST(n AS TIMESTAMP)",
        "CAST(w AS TIMESTAMP_NTZ)",
        "CAST(w AS STRING)",
    ),
    *(
        "TIMESTAMP '2020-03-29 02:30:00'",
        "TIMESTAMP '2020-10-25 02:30:00'",
        "hour(w)",
        "to_date(w)",
    ),
    *("CAST('2020-07-01 12:00:00+05:30' AS TIMESTAMP)", "CAST('2060-07-01 12:00:00' AS TIMESTAMP)"),
    *("date_trunc('day', w)", "date_trunc('MONTH', n)", "date_format(w, 'yyyy-MM-dd HH:mm')"),
    *("to_timestamp('1.7.2020 12', 'd.M.yyyy HH')", "unix_timestamp('2020-07-01 00:00:00')"),
    *(
        "from_unixtime(l % 100000000000)",
        "make_timestamp(2020, 10, 25, 2, 30, 1.5)",
        "w = n",
        "w > d",
    ),
    *(
        "convert_timezone('Asia/Tokyo', n)",
        "timestampdiff(HOUR, w, n)",
        "to_utc_timestamp(n, 'PST')",
        "CAST(w AS TIME)",
        "current_timezone()",
    ),
)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "+05:30"])
def test_times_are_those_of_the_session_s_zone(spark: Any, zone: str) -> None:
    """Clocks that jump, and years after those whose jumps are written down, among them."""
    batch = random_table(5, 300, BATCH.schema)
    before = spark.conf.get("spark.sql.session.timeZone")
    mine = {sql: lowered(sql, batch, zone) for sql in IN_A_ZONE}
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        assert disagreements(spark, mine, batch) == {}
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_random_expressions_have_spark_s_value_and_type(spark: Any) -> None:
    expressions = random_expressions(7, 400)
    mine = {sql: value for sql in expressions if (value := value_or_nothing(sql)) is not None}
    assert len(mine) > 250, "too many are refused: the comparison would show little"
    assert disagreements(spark, mine) == {}


def test_errors_are_where_spark_has_them(spark: Any) -> None:
    from pyspark.errors import PySparkException

    for sql, condition in FAILING.items():
        with pytest.raises(ArithmeticOverflowError):
            lowered(sql, BATCH)
        with pytest.raises(PySparkException, match=condition):
            by_spark(spark, [sql], BATCH)


CHAIN = (
    "SELECT g, SUM(w) AS s, COUNT(*) AS n FROM (SELECT k % 3 AS g, s * 2 + n AS w FROM "
    "(SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY k) WHERE s > 4 AND 100 DIV s > 0) GROUP BY g"
)


def test_calc_between_operators_stays_packed(spark: Any) -> None:
    """With ANSI mode on it runs in the workers; off, Spark evaluates it; the table is the same."""
    from aggloom.runtime.spark import sql

    rows = [("+I", key, value) for key in range(6) for value in range(5)]
    rows += [("-D", 4, 4), ("-D", 2, 3), ("-U", 1, 4), ("+U", 1, 40)]
    df = spark.createDataFrame(rows, "op STRING, k BIGINT, v BIGINT").coalesce(1)
    stages, tables = [], []
    for ansi in ("true", "false"):
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        try:
            out = sql(CHAIN, t=df)
            stages.append(out._jdf.queryExecution().toString().count("MapInArrow"))
            tables.append(sorted(tuple(row)[:3] for row in out.collect()))
        finally:
            spark.conf.set("spark.sql.ansi.enabled", "true")
    assert stages[0] < stages[1]
    assert tables[0] == tables[1]
    assert [row[0] for row in tables[0]] == [0, 1, 2]


def test_a_quickened_expression_keeps_its_value(spark: Any) -> None:
    texts = [None, "", "é", "no such"]
    texts += [each for one in DELIMITERS for each in (one, one * 3, f"x{one}é{one}{one}y z")]
    rows = spark.createDataFrame(
        [(text, f"{text}".encode()) for text in texts], "s STRING, b BINARY"
    )
    # Spark reads a backslash in a literal as the beginning of something.
    asked = [
        SPLIT.format(f"\\{one}" if one in "\\'" else one, place)
        for one in DELIMITERS
        for place in (1, 2, 3, 9, -1, -2, -9)
    ]
    asked += ["upper(split_part(s, '/', 2)) || split_part(b, 'x', 2)", "split_part(42, '4', 2)"]
    changed = [quicken_expression(sql) for sql in asked]
    assert not any("SPLIT_PART" in sql for sql in changed)
    plain = rows.selectExpr(*(f"{sql} AS c{at}" for at, sql in enumerate(asked)))
    quick = rows.selectExpr(*(f"{sql} AS c{at}" for at, sql in enumerate(changed)))
    assert quick.dtypes == plain.dtypes
    assert quick.collect() == plain.collect()


@pytest.mark.parametrize("sql", NOT_QUICKER)
def test_what_cannot_be_quickened_stays(sql: str) -> None:
    assert quicken_expression(sql).casefold() == sql.casefold()
