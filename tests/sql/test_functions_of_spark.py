"""Spark's functions against a session: their names, those of VARIANT, and types that only the session knows."""

from __future__ import annotations

import datetime
from typing import Any, Final

import pytest

import aggloom as al
from aggloom.codegen.scalar.spark_functions import AGGREGATES, ARITIES, WINDOW_FUNCTIONS

pytestmark = pytest.mark.spark
WORDS: Final = {"and", "between", "case", "cast", "in", "not", "or", "when"}
"""Words that Spark lists as functions, and SQL has a syntax for."""
TABLES: Final = {"collations", "python_worker_logs", "range", "sql_keywords"}
TABLES_OF_VARIANT: Final = {"variant_explode", "variant_explode_outer"}
"""Functions that make tables."""
OF_THE_PARSER: Final = {"timestampadd", "timestampdiff"}
"""Functions of Spark's parser that Spark does not list."""
JSON: Final = '{"a": 5, "b": null, "c": [1, "x"]}'


def test_the_list_of_functions_is_the_session_s(spark: Any) -> None:
    shown = {row[0].lower() for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    listed = {each for each in shown if each.isidentifier()} - WORDS - TABLES - TABLES_OF_VARIANT
    assert listed == {*ARITIES, *AGGREGATES, *WINDOW_FUNCTIONS} - OF_THE_PARSER


@pytest.mark.parametrize("dialect", ["spark", "flink"])
def test_expressions_over_types_that_no_column_has(spark: Any, dialect: Any) -> None:
    expressions = {
        "VARIANT_GET(PARSE_JSON(s), '$.a', 'int')": 5,
        "TRY_VARIANT_GET(PARSE_JSON(s), '$.c', 'int')": None,
        "VARIANT_GET(PARSE_JSON(s), '$.c[1]', 'string')": "x",
        "TRY_PARSE_JSON(s) IS NOT NULL": True,
        "TRY_PARSE_JSON('{') IS NULL": True,
        "IS_VARIANT_NULL(VARIANT_GET(PARSE_JSON(s), '$.b'))": True,
        "SCHEMA_OF_VARIANT(PARSE_JSON(s))": "OBJECT<a: BIGINT, b: VOID, c: ARRAY<VARIANT>>",
        "TO_JSON(PARSE_JSON(s))": JSON.replace(" ", ""),
        "TO_JSON(TO_VARIANT_OBJECT(NAMED_STRUCT('k', i)))": '{"k":1}',
        "CAST(PARSE_JSON(s) AS STRING)": JSON.replace(" ", ""),
        "CAST('12:00:00.54' AS TIME(1))": datetime.time(12, 0, 0, 500_000),
    }
    items = ", ".join(f"{sql} AS x{place}" for place, sql in enumerate(expressions))
    query = f"SELECT {items} FROM t"
    with al.Harness.from_sql(
        query, {"t": "i INT, s STRING"}, dialect=dialect, session=spark
    ) as harness:
        harness.process([("+I", 1, JSON)])
        harness.flush()
        (found,) = harness.table()
    assert dict(zip(expressions, found, strict=True)) == expressions


def test_a_number_of_many_digits_is_multiplied_as_by_spark(spark: Any) -> None:
    sql = "12345678901234567890.123456789012345678 * 1.000000000000000001"
    ((expected,),) = spark.sql(f"SELECT {sql}").collect()
    with al.Harness.from_sql(f"SELECT {sql} AS x FROM t", {"t": "i INT"}) as harness:
        harness.process([("+I", 1)])
        harness.flush()
        assert harness.table() == [(expected,)]


def test_fields_that_are_no_words_keep_their_names(spark: Any) -> None:
    query = (
        "SELECT ARRAYS_ZIP(ARRAY(1, 2), ARRAY('x', 'y')) AS z, "
        "NAMED_STRUCT('a b', i, 'x`y:int', ARRAY(NAMED_STRUCT('0', i))) AS s FROM t"
    )
    df = spark.createDataFrame([(1,)], "i INT")
    rows = al.sql(query, t=df, buckets=1, backend="python")
    plain = spark.sql(query.replace("FROM t", "FROM {t}"), t=df)
    assert [tuple(row)[:2] for row in rows.collect()] == [tuple(row) for row in plain.collect()]
    assert [each.name for each in rows.schema["z"].dataType.elementType] == ["0", "1"]
    assert [each.name for each in rows.schema["s"].dataType] == ["a b", "x`y:int"]


def test_a_pattern_without_a_group_is_of_the_dialect(spark: Any) -> None:
    df = spark.createDataFrame([("xabc",)], "s STRING")
    query = "SELECT REGEXP_EXTRACT(s, 'a(b.)') AS x FROM t"
    found = {
        dialect: al.sql(query, t=df, buckets=1, dialect=dialect).collect()[0].x
        for dialect in ("spark", "flink")
    }
    assert found == {"spark": "bc", "flink": "abc"}
