"""Functions of VARIANT without Spark: equal to Spark's over random documents, and to a model of Python's own JSON."""

from __future__ import annotations

import json
import random
import re
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from scalar_oracle import by_spark, differences, evaluate, lowered

import aggloom as al
from aggloom.errors import (
    DataError,
    InvalidCastError,
    TypeMismatchError,
    UnsupportedExpressionError,
)

TEXTS: Final = (
    *(
        "1",
        "-0",
        "-0.0",
        "-0e0",
        "1.0",
        "100.000",
        "0.001",
        "1.5E10",
        "1e-7",
        "1e400",
        "-1e999",
        "12.7",
        "-2.5",
    ),
    *(
        "300",
        "9223372036854775807",
        "-9223372036854775809",
        "99999999999999999999",
        "0.1e1",
        "2147483648",
    ),
    *("12345678901234567890123456789012345678.5", "1.000000000000000000000000000000000000000"),
    *(
        "0.00000000000000000000000000000000000000000001",
        "1" * 45,
        "0.0000001",
        "1e300",
        "123456.789",
    ),
    *(
        "true",
        "false",
        "null",
        "true,",
        "truex",
        "1x",
        "1,",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "NaN",
        "nul",
        "",
        "  ",
        "1 2",
    ),
    *(
        '"12"',
        '" 7 "',
        '"true"',
        '"2020-02-29"',
        '"2020-02-29 01:02:03.5"',
        '"x"',
        '""',
        '"1e3"',
        '"12.5"',
    ),
    *(
        "[1] x",
        "[1,]",
        "[1",
        "{a:1}",
        "'a'",
        '{"a":1,"a":2}',
        '"a\nb"',
        "/* c */ 1",
        "[]",
        "{}",
        "\t[1 , 2 ]\n",
    ),
    *(
        '"\\ud83d\\ude00\u00e9/\\/\\u0001\\u001f\\t\\"\u007f"',
        '{"\U0001f600":1,"\uff61":2,"\u00e9":3}',
        '"\\ud800x"',
    ),
    *(
        '{"b":{"c":[1,2.50,"x"]},"a":1.0}',
        '{"a b":1,"0":2,"Z_9":3,"a`b":null}',
        "[[1],[],[null,2.5]]",
    ),
    *(
        "[1,2.5]",
        '[1,"a"]',
        "[null,1]",
        '[{"a":1},{"b":2.5}]',
        "[1.5,1e3]",
        "[true,1]",
        "[0.001,99999999999999999999]",
    ),
    *(
        '{"a":{"b":[10,{"c":"deep"}]}}',
        '[{"a":[1]},{"a":["x"]}]',
        "[9223372036854775807,0.12345678901234567890123]",
    ),
)
TYPES: Final = (
    *(
        "BOOLEAN",
        "TINYINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(5,1)",
        "DECIMAL(38,10)",
        "STRING",
        "BINARY",
    ),
    *(
        "DATE",
        "TIMESTAMP",
        "TIMESTAMP_NTZ",
        "ARRAY<INT>",
        "ARRAY<ARRAY<STRING>>",
        "STRUCT<a: INT, b: STRING>",
    ),
    *("MAP<STRING, DOUBLE>", "ARRAY<STRUCT<a: ARRAY<INT>>>"),
)
PARSED: Final = "TRY_PARSE_JSON(s)"


def _document(r: random.Random, depth: int = 3) -> Any:
    kind = r.randrange(8 if depth else 6)
    if kind == 0:
        return r.choice([None, True, False])
    if kind == 1:
        return r.choice(
            [r.randrange(-200, 200), r.randrange(-(10**25), 10**25), r.randrange(-(2**63), 2**63)]
        )
    if kind == 2:
        return r.choice(
            [r.uniform(-100, 100), r.random() * 10.0 ** r.randrange(-320, 300), 0.5, -1.25]
        )
    if kind < 6:
        return "".join(
            r.choice("ab1 .\"\\\n\u00e9\u2028\U0001f600'`") for _ in range(r.randrange(4))
        )
    if kind == 6:
        return [_document(r, depth - 1) for _ in range(r.randrange(4))]
    return {
        r.choice(["a", "b", "c", "\u00e9", "A", "a b"]): _document(r, depth - 1)
        for _ in range(r.randrange(4))
    }


def _batch() -> pa.RecordBatch:
    r = random.Random(37)
    documents = [_document(r) for _ in range(300)]
    texts = [json.dumps(each, ensure_ascii=r.random() < 0.5) for each in documents]
    broken = [text[: r.randrange(len(text))] for text in texts[:40]]
    return pa.record_batch({"s": pa.array([*TEXTS, *texts, *broken, None], pa.string())})


@pytest.mark.spark
def test_every_function_is_as_spark_s(spark: Any) -> None:
    batch = _batch()
    paths = ("$.a", "$.b.c[1]", '$["a b"]', "$[0].a", "$['a']", "$[1]", "$.0", "$")
    expressions = [
        f"TO_JSON({PARSED})",
        f"SCHEMA_OF_VARIANT({PARSED})",
        f"IS_VARIANT_NULL({PARSED})",
        f"CONCAT({PARSED}, '|')",
        f"TYPEOF({PARSED})",
        f"TO_JSON(COALESCE({PARSED}, PARSE_JSON('[0]')))",
        f"TO_JSON(CASE WHEN LENGTH(s) > 3 THEN {PARSED} END)",
        f"SCHEMA_OF_VARIANT(CAST(TRY_CAST({PARSED} AS DOUBLE) AS VARIANT))",
        f"TO_JSON(CAST(TRY_CAST({PARSED} AS DECIMAL(20,4)) AS VARIANT))",
        "TO_JSON(CAST(ARRAY(s, 'x') AS VARIANT))",
        "TO_JSON(TO_VARIANT_OBJECT(NAMED_STRUCT('b', LENGTH(s), 'a', ARRAY(NAMED_STRUCT('z', s)))))",
        f"{PARSED}:b.c[1]::STRING",
        f"TO_JSON({PARSED}:a.b[1])",
        *(f"TRY_CAST({PARSED} AS {kind})" for kind in TYPES),
        *(f"TRY_VARIANT_GET({PARSED}, '{path}', 'STRING')" for path in map(_escaped, paths)),
    ]
    table = by_spark(spark, expressions, batch)
    wrong = {
        sql: found[:3]
        for sql, column in zip(expressions, table.columns, strict=True)
        if (found := differences(lowered(sql, batch), column))
    }
    assert not wrong


def _escaped(path: str) -> str:
    return path.replace("'", "\\'")


@pytest.mark.spark
def test_a_query_on_spark_reads_documents_in_its_workers(spark: Any) -> None:
    query = (
        "SELECT k, SUM(PARSE_JSON(s):a::INT) AS n, MAX(TO_JSON(TRY_PARSE_JSON(s):b)) AS b, "
        "CAST(PARSE_JSON(MAX(s))['b'][0] AS INT) + LENGTH(MAX(SOUNDEX(s))) AS m, "
        "MAX(XPATH_INT('<a>7</a>', 'a')) AS x FROM t WHERE PARSE_JSON(s) IS NOT NULL GROUP BY k"
    )
    df = spark.createDataFrame(
        [(1, '{"b": [1], "a": 2}'), (1, '{"a": 3.9}'), (2, None)], "k INT, s STRING"
    )
    rows = [tuple(row)[:5] for row in al.sql(query, t=df, buckets=1, backend="python").collect()]
    assert rows == [(1, 5, "[1]", 19, 7)]


def test_a_document_is_what_python_reads() -> None:
    r = random.Random(5)
    documents = [_document(r) for _ in range(400)]
    batch = pa.record_batch({"s": pa.array([json.dumps(each) for each in documents])})
    texts = evaluate("PARSE_JSON(s)", batch).to_pylist()
    assert [json.loads(text) for text in texts] == documents
    assert evaluate("PARSE_JSON(s)", pa.record_batch({"s": pa.array(texts)})).to_pylist() == texts
    shuffled = [json.dumps(_turned(each), indent=1) for each in documents]
    assert (
        evaluate("PARSE_JSON(s)", pa.record_batch({"s": pa.array(shuffled)})).to_pylist() == texts
    )


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _turned(value[name]) for name in reversed(value)}
    return [_turned(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("sql", "error", "words"),
    [
        ("PARSE_JSON(s)", InvalidCastError, "MALFORMED"),
        ("CAST(PARSE_JSON('[1]') AS INT)", InvalidCastError, "TRY_VARIANT_GET"),
        ("VARIANT_GET(PARSE_JSON('300'), '$', 'TINYINT')", InvalidCastError, "TRY_VARIANT_GET"),
        ("CAST(PARSE_JSON('[1, \"x\"]') AS ARRAY<INT>)", InvalidCastError, "TRY_VARIANT_GET"),
        ("VARIANT_GET(s, '$.a')", UnsupportedExpressionError, "write PARSE_JSON around it"),
        ("VARIANT_GET(PARSE_JSON('1'), 'a')", UnsupportedExpressionError, "a literal such as"),
        ("VARIANT_GET(PARSE_JSON('1'), '$', 'INTT')", UnsupportedExpressionError, "mean 'INT'"),
        ("VARIANT_GET(PARSE_JSON('1'), '$[-1]')", UnsupportedExpressionError, "a literal such as"),
        ("CAST(DATE '2020-01-01' AS VARIANT)", UnsupportedExpressionError, "AS STRING) AS VARIANT"),
        ("CAST(NAMED_STRUCT('a', 1) AS VARIANT)", UnsupportedExpressionError, "TO_VARIANT_OBJECT"),
        ("CAST(CAST('NaN' AS DOUBLE) AS VARIANT)", InvalidCastError, "NaN"),
        ("PARSE_JSON('1') = PARSE_JSON('1')", TypeMismatchError, "CAST(v AS STRING)"),
        ("GREATEST(PARSE_JSON('1'), PARSE_JSON('2'))", TypeMismatchError, "CAST(v AS STRING)"),
        ("TRY_PARSE_JSON(CONCAT(REPEAT('[', 400), REPEAT(']', 400)))", DataError, "more than 300"),
    ],
)
def test_what_a_variant_is_not(sql: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=re.escape(words)):
        evaluate(sql, pa.record_batch({"s": pa.array(["{"])}))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ARRAY(PARSE_JSON(s)) AS v FROM t",
        "SELECT COUNT(*) AS n FROM t GROUP BY PARSE_JSON(s)",
        "SELECT DISTINCT PARSE_JSON(s) AS v FROM t",
        "SELECT COUNT(DISTINCT PARSE_JSON(s)) AS n FROM t",
        "SELECT i FROM t ORDER BY PARSE_JSON(s) LIMIT 1",
        "SELECT SUM(i) OVER (PARTITION BY PARSE_JSON(s) ORDER BY i) AS n FROM t",
        "SELECT t.i FROM t JOIN t AS u ON PARSE_JSON(t.s) = PARSE_JSON(u.s)",
        "SELECT PARSE_JSON(s) + 1 AS n FROM t",
    ],
)
def test_no_key_is_a_variant(query: str) -> None:
    with pytest.raises(TypeMismatchError, match="VARIANT"):
        al.Harness.from_sql(query, {"t": "i INT, s STRING"})


def test_places_count_from_one_in_flink() -> None:
    text = '{"c": [1, "x"]}'
    for dialect, parts in (("flink", ["1", "x", None]), ("spark", ["x", None, None])):
        query = (
            "SELECT "
            + ", ".join(f"CAST(PARSE_JSON(s)['c'][{n}] AS STRING) AS c{n}" for n in (1, 2, 3))
            + " FROM t"
        )
        with al.Harness.from_sql(
            query, {"t": "s STRING"}, dialect=dialect, backend="python"
        ) as harness:
            harness.process([("+I", text)])
            harness.flush()
            assert harness.table() == [tuple(parts)]


def test_variants_stand_in_json_and_behind_colons() -> None:
    batch = pa.record_batch({"s": pa.array(['{"a b": {"c": [{"d": 1.50}]}}']), "i": pa.array([0])})
    values = {
        "PARSE_JSON(s):['a b'].c[0].d::DECIMAL(9,2)": Decimal("1.50"),
        "CAST(PARSE_JSON(s)['a b']['c'][i]['d'] AS DOUBLE)": 1.5,
        "JSON_OBJECT('v': PARSE_JSON(s):`a b`.c, 'i': i)": '{"i":0,"v":[{"d":1.5}]}',
        "JSON_STRING(PARSE_JSON('\"x\"'))": '"x"',
    }
    assert {sql: evaluate(sql, batch)[0].as_py() for sql in values} == values
