"""JSON of standard SQL: the values of Flink's own tests, paths beside DuckDB's, words, refusals."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scalar_oracle import evaluate

import aggloom as al
from aggloom.codegen.scalar.expressions import infer_type, parse_scalar
from aggloom.codegen.scalar.json_paths import parse_path
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.errors import ArithmeticOverflowError, SqlError, UnsupportedExpressionError
from aggloom.runtime.scalar import json_documents, sql_json

DOCUMENT = json.dumps(
    {
        "type": "account",
        "activated": True,
        "age": 42,
        "none": None,
        "big": 9999999999,
        "author": {"name": "x", "address": {"city": "Berlin", "zip": "1"}},
        "tags": ["a", "b", "c"],
        "refs": [{"url": "u", "name": "n"}, {"name": "m"}],
        "contains blank": "right",
        "nested": [[1, 2], [3, 4]],
        "ints": [1, None, 3],
        "texts": ["a", "b"],
        "empty": [],
        "o": {},
    }
).replace('"big"', '"balance": 13.37, "cents": 1.50, "big"')
VALUES: list[tuple[str, Any]] = [
    ("JSON_VALUE(j, '$.type')", "account"),
    ("JSON_VALUE(j, '$.activated')", "true"),
    # Jackson reads the first value of a text, and leaves what stands behind it.
    ("JSON_VALUE('{\"a\": 1}x', '$.a')", "1"),
    ("JSON_VALUE('[1]x', '$[0]')", "1"),
    ("JSON_VALUE(j, '$.activated' RETURNING BOOLEAN)", True),
    ("JSON_VALUE(j, '$.age' RETURNING TINYINT)", 42),
    ("JSON_VALUE(j, '$.cents')", "1.50"),
    ("JSON_VALUE(j, '$.balance' RETURNING DOUBLE)", 13.37),
    ("JSON_VALUE(j, '$.balance' RETURNING DECIMAL(10, 1))", Decimal("13.4")),
    ("JSON_VALUE(j, '$.balance' RETURNING INTEGER)", 13),
    ("JSON_VALUE(j, '$.big' RETURNING BIGINT)", 9999999999),
    ("JSON_VALUE(j, '$.big' RETURNING INT)", None),
    ("JSON_VALUE(j, '$.big' RETURNING DECIMAL(5, 2))", None),
    ("JSON_VALUE(j, '$.none' RETURNING INT)", None),
    ("JSON_VALUE(j, '$.type' RETURNING INT DEFAULT 42 ON ERROR)", 42),
    ("JSON_VALUE(j, 'lax $.no' NULL ON EMPTY ERROR ON ERROR)", None),
    ("JSON_VALUE(j, 'lax $.no' RETURNING INT DEFAULT 42 ON EMPTY ERROR ON ERROR)", 42),
    ("JSON_VALUE(j, 'strict $.no' ERROR ON EMPTY NULL ON ERROR)", None),
    ("JSON_VALUE(j, 'strict $.no' RETURNING INT NULL ON EMPTY DEFAULT 42 ON ERROR)", 42),
    ("JSON_VALUE(j, 'strict $.[''contains blank'']' DEFAULT 'wrong' ON ERROR)", "right"),
    ("JSON_VALUE(j, '$.author')", None),
    ("JSON_VALUE(j, 'lax $.author' DEFAULT 'none' ON EMPTY)", "none"),
    ("JSON_VALUE('{\"v\":\"42\"}', '$.v' RETURNING INT)", 42),
    ("JSON_VALUE('no json', 'lax $' DEFAULT 'none' ON EMPTY)", "none"),
    ("JSON_VALUE('no json', '$' DEFAULT 'none' ON ERROR)", "none"),
    ("JSON_VALUE(CAST(NULL AS STRING), 'lax $')", None),
    ("JSON_EXISTS(j, 'lax $')", True),
    ("JSON_EXISTS(j, 'lax $.author.address.city')", True),
    ("JSON_EXISTS(j, 'lax $.tags[3]')", False),
    ("JSON_EXISTS(j, 'lax $.refs[0].no')", False),
    ("JSON_EXISTS(j, 'strict $.no' TRUE ON ERROR)", True),
    ("JSON_EXISTS(j, 'strict $.no' FALSE ON ERROR)", False),
    ("JSON_EXISTS(j, 'strict $.no' UNKNOWN ON ERROR)", None),
    ("JSON_EXISTS(j, '$.no[*]')", False),
    ("JSON_EXISTS(j, '$.tags[*]')", True),
    ("j IS JSON", True),
    ("j IS NOT JSON OBJECT", False),
    ("'\"a\"' IS JSON SCALAR", True),
    ("'[1]' IS JSON SCALAR", False),
    ("'a' IS JSON", False),
    ("'a' IS NOT JSON", True),
    ("CAST(NULL AS STRING) IS JSON", None),
    ("JSON_QUERY(j, '$.tags')", '["a","b","c"]'),
    ("JSON_QUERY(j, '$.author')", '{"address":{"city":"Berlin","zip":"1"},"name":"x"}'),
    ("JSON_QUERY(j, '$.type')", None),
    ("JSON_QUERY(j, '$.type' WITH CONDITIONAL WRAPPER)", '["account"]'),
    ("JSON_QUERY(j, '$.empty' WITH CONDITIONAL ARRAY WRAPPER)", "[]"),
    ("JSON_QUERY(j, '$.o' WITH CONDITIONAL WRAPPER)", "[{}]"),
    ("JSON_QUERY(j, '$.empty' WITH UNCONDITIONAL WRAPPER)", "[[]]"),
    ("JSON_QUERY(j, '$.empty' WITHOUT ARRAY WRAPPER)", "[]"),
    ("JSON_QUERY(j, 'lax $.no' EMPTY ARRAY ON EMPTY)", "[]"),
    ("JSON_QUERY(j, 'lax $.no' EMPTY OBJECT ON EMPTY)", "{}"),
    ("JSON_QUERY(j, 'strict $.no' EMPTY OBJECT ON ERROR)", "{}"),
    ("JSON_QUERY(j, 'strict $.no')", None),
    ("JSON_QUERY(j, '$.tags' RETURNING ARRAY<STRING>)", ["a", "b", "c"]),
    ("JSON_QUERY(j, '$.ints' RETURNING ARRAY<INT>)", [1, None, 3]),
    ("JSON_QUERY(j, '$.texts' RETURNING ARRAY<INT> EMPTY ARRAY ON ERROR)", []),
    ("JSON_QUERY(j, '$.nested' RETURNING ARRAY<INT> NULL ON ERROR)", None),
    ("JSON_QUERY(j, '$.nested' RETURNING ARRAY<STRING>)", ["[1,2]", "[3,4]"]),
    ("JSON_QUERY(j, 'lax $.refs[*].url' RETURNING ARRAY<STRING>)", ["u"]),
    ("JSON_QUERY(j, '$..name')", '["x","n","m"]'),
    ("JSON_LENGTH(j, '$.author')", 2),
    ("JSON_LENGTH(j, '$.none')", 1),
    ("JSON_LENGTH(j, '$.tags[9]')", None),
    ("JSON_LENGTH(j, '$.*')", None),
    ("JSON_LENGTH(j, '$..url')", 1),
    ("JSON_LENGTH('[1,2,3]')", 3),
    ("JSON_LENGTH('{')", None),
    ("JSON_LENGTH('null')", 1),
    ("JSON_TYPE(j, '$.tags')", "array"),
    ("JSON_TYPE('11.1')", "number"),
    ("JSON_TYPE('null')", "null"),
    ("JSON_TYPE('68s')", None),
    ("JSON_OBJECT()", "{}"),
    ("JSON_OBJECT(KEY 'K' VALUE CAST(NULL AS STRING))", '{"K":null}'),
    ("JSON_OBJECT(KEY 'K' VALUE CAST(NULL AS STRING) ABSENT ON NULL)", "{}"),
    ("JSON_OBJECT('b' VALUE 1, 'a' VALUE JSON_ARRAY('x', NULL))", '{"a":["x"],"b":1}'),
    ("JSON_OBJECT('K' VALUE JSON('[1, 2.50]'))", '{"K":[1,2.50]}'),
    ("JSON_OBJECT('K' VALUE JSON('  '))", '{"K":null}'),
    ("JSON_OBJECT('k': JSON_QUERY(j, '$.o'))", '{"k":"{}"}'),
    ("JSON_ARRAY(1, NULL, 'a' NULL ON NULL)", '[1,null,"a"]'),
    ("JSON_ARRAY()", "[]"),
    ("JSON_STRING(TIMESTAMP_NTZ '1990-06-02 13:37:42.001')", '"1990-06-02T13:37:42.001"'),
    ("JSON_STRING(CAST('Test' AS BINARY))", '"VGVzdA=="'),
    ("JSON_STRING(NAMED_STRUCT('b', 1, 'a', ARRAY(1.23D)))", '{"a":[1.23],"b":1}'),
    ("JSON_QUOTE('a/\"\u00f6')", '"a\\/\\"\\u00f6"'),
    ("JSON_UNQUOTE('\"a\\\\u00f6\"')", "a\u00f6"),
    ("JSON_UNQUOTE('a')", "a"),
]


@pytest.mark.parametrize(("sql", "expected"), VALUES, ids=[sql for sql, _ in VALUES])
def test_values(sql: str, expected: Any) -> None:
    batch = pa.RecordBatch.from_pydict({"j": [DOCUMENT]})
    found = evaluate(sql, batch)
    assert found.to_pylist() == [expected]
    assert found.type == infer_type(sql, batch.schema)
    # A call is written and read again without a loss.
    assert evaluate(spark_text(parse_scalar(sql)), batch).equals(found)


@pytest.mark.parametrize(
    ("sql", "error", "match"),
    [
        ("JSON_VALUE(j, j)", UnsupportedExpressionError, "JSON_VALUE"),
        ("JSON_VALUE(j, '$[')", UnsupportedExpressionError, "the path '\\$\\[' cannot be read"),
        ("JSON_VALUE(j, '$.a[?(@.b)]')", UnsupportedExpressionError, "cannot be read"),
        ("JSON_VALUE(j, '$.a' RETURNING DATE)", UnsupportedExpressionError, "CAST it"),
        ("JSON_VALUE(j, '$.a' NULL ON EMPTY NULL ON EMPTY)", SqlError, "each once"),
        ("JSON_VALUE(j, '$.a' RETURNING)", SqlError, "a type after RETURNING"),
        ("JSON_VALUE(j)", SqlError, "a comma and a path"),
        ("JSON_QUERY(j, '$.a' WITH CONDITIONAL)", SqlError, "WRAPPER after WITH CONDITIONAL"),
        ("JSON_QUERY(j, '$.a' RETURNING INT)", UnsupportedExpressionError, "CAST it"),
        (
            "JSON_QUERY(j, '$.a' RETURNING ARRAY<STRING> EMPTY OBJECT ON ERROR)",
            UnsupportedExpressionError,
            "write EMPTY ARRAY",
        ),
        ("JSON_EXISTS(j, '$.a' TRUE ON EMPTY)", SqlError, "takes ON ERROR alone"),
        ("JSON_LENGTH(j, 'lax $.a')", UnsupportedExpressionError, "without lax and strict"),
        ("JSON_OBJECT('a' 1)", SqlError, "VALUE after a name"),
        ("JSON(j)", UnsupportedExpressionError, "JSON_OBJECT and JSON_ARRAY alone"),
        ("1 IS JSON", UnsupportedExpressionError, "is no text"),
        ("JSON_STRING(MAP(1, 2))", UnsupportedExpressionError, "keys of MAP<INT,INT> are no texts"),
        ("j IS JSON WITH UNIQUE KEYS", SqlError, "UNIQUE KEYS"),
    ],
)
def test_refusals(sql: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        al.Harness.from_sql(f"SELECT {sql} AS x FROM t", {"t": "j STRING"}, backend="python")


@pytest.mark.parametrize(
    ("sql", "match"),
    [
        ("JSON_VALUE(j, 'strict $.no' ERROR ON ERROR)", "leads nowhere"),
        ("JSON_VALUE(j, 'lax $.no' ERROR ON EMPTY NULL ON ERROR)", "finds nothing"),
        ("JSON_VALUE(j, '$.type' RETURNING INT ERROR ON ERROR)", "'account' is no number"),
        ("JSON_QUERY(j, '$.type' ERROR ON ERROR)", "finds a scalar"),
        ("JSON_QUERY(j, 'lax $.no' ERROR ON EMPTY)", "finds nothing"),
        ("JSON_EXISTS(j, '$.no' ERROR ON ERROR)", "leads nowhere"),
        ("JSON_OBJECT('a' VALUE JSON('{'))", "JSON"),
    ],
)
def test_errors_of_rows(sql: str, match: str) -> None:
    """ERROR ON ERROR stops the query, and names expression and cause."""
    batch = pa.RecordBatch.from_pydict({"j": [DOCUMENT]})
    with pytest.raises(ArithmeticOverflowError, match=match):
        evaluate(sql, batch)


NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from(["", "x", "\u00f6\n", "1.5"])
)
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
)
STEPS = st.lists(
    NAMES.map(lambda name: f".{name}") | st.integers(0, 2).map("[{}]".format), max_size=4
)


@given(DOCUMENTS, STEPS)
def test_definite_paths_beside_duckdb(document: Any, steps: list[str]) -> None:
    text, path = json.dumps(document), "$" + "".join(steps)
    parsed = parse_path(f"lax {path}")
    assert parsed is not None and parsed.is_definite
    exact: Any = eval(parsed.literal)
    ((found,),) = duckdb.execute("SELECT json_extract(?::JSON, ?)", [text, path]).fetchall()
    expected = None if found is None else json.loads(found)
    mine = None if document is None else sql_json.find_value(json.loads(text), exact)
    assert mine == expected


@given(DOCUMENTS)
def test_what_is_written_is_read_as_it_was(document: Any) -> None:
    assert json.loads(json_documents.write_json(document)) == document
    assert sql_json.is_json(json.dumps(document), "VALUE")
