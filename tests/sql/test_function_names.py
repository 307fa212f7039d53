"""Calls keep all their arguments from the query to Spark's text, and unknown functions are refused by name."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

import aggloom as al
from aggloom.codegen.catalogue.registry import find
from aggloom.codegen.scalar.dialect import ScalarSpark
from aggloom.codegen.scalar.function_names import check_function_names
from aggloom.codegen.scalar.spark_functions import ARITIES
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.errors import SpecError, SqlError, UnknownFunctionError, UnsupportedSqlError

DDL = "n DECIMAL(10,2), s STRING, i INT, d DATE, a ARRAY<INT>"
MOST = 5
FUNCTIONS_OF_FLINK = (
    "abs acos approx_count_distinct array_agg array_append array_concat array_contains array_distinct array_except "
    "array_intersect array_join array_max array_min array_position array_prepend array_remove array_reverse "
    "array_slice array_sort array_union ascii asin atan atan2 bin bitmap_and bitmap_andnot bitmap_build "
    "bitmap_cardinality bitmap_contains bitmap_from_bytes bitmap_or bitmap_to_array bitmap_to_bytes bitmap_to_string "
    "bitmap_xor btrim cardinality char_length chr coalesce concat concat_ws convert_tz cos cosh cot "
    "current_row_timestamp current_watermark date_format dayofmonth dayofweek dayofyear decode degrees element elt "
    "encode endswith exp from_base64 from_unixtime greatest group_id hex hour if ifnull initcap instr is_alpha "
    "is_decimal is_digit json_length json_quote json_string json_unquote lcase least left ln locate log log10 log2 "
    "lower lpad ltrim map_entries map_from_arrays map_from_entries map_keys map_union map_values md5 minute mod month "
    "now nullif object_of object_update parse_json parse_url percentile pi position power printf quarter radians rand "
    "rand_integer regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_substr repeat replace "
    "reverse right round rpad rtrim second sha1 sha2 sha224 sha256 sha384 sha512 sign sin sinh source_watermark split "
    "split_index sqrt startswith str_to_map substr tan tanh to_base64 to_date to_timestamp to_timestamp_ltz translate "
    "truncate try_parse_json typeof ucase unhex unix_timestamp upper url_decode url_encode uuid week year"
)
"""The system functions of Flink's documents that are written as name(..)."""
FLINK = (
    *(
        "CHAR_LENGTH(s)",
        "REGEXP_REPLACE(s, '1', '2')",
        "DATE_FORMAT(d, '1')",
        "CONCAT_WS('1', s, '2')",
    ),
    *("OVERLAY(s PLACING '1' FROM 2 FOR 3)", "POSITION('1' IN s)", "SUBSTRING(s FROM 1 FOR 2)"),
    *(
        "TRIM(BOTH '1' FROM s)",
        "TIMESTAMPADD(DAY, 1, d)",
        "EXTRACT(DAY FROM d)",
        "LOCATE('1', s, 2)",
    ),
)


def literals(text: str) -> Counter[str]:
    """The literals of an expression, each as often as it stands there."""
    tree = sqlglot.parse_one(text, dialect=ScalarSpark)
    return Counter(each.this for each in tree.find_all(exp.Literal))


def calls_of(name: str) -> list[str]:
    least, most = ARITIES[name]
    counts = range(least, min(MOST, MOST if most is None else most) + 1)
    numbers = [f"{name}({', '.join(f'90{place}' for place in range(count))})" for count in counts]
    quoted = ["'y0'", "'y1'", "'y2'", "'y3'", "'y4'"]
    texts = [f"{name}({', '.join(quoted[:count])})" for count in counts]
    return [*numbers, *texts]


@pytest.mark.parametrize("name", [name for name in sorted(ARITIES) if find(name) is None])
def test_a_call_keeps_its_arguments(name: str) -> None:
    for call in calls_of(name):
        tree = sqlglot.parse_one(call, dialect=ScalarSpark)
        written = spark_text(tree).casefold()
        for place in range(call.count(",") + ("()" not in call)):
            assert written.count(f"90{place}") + written.count(f"y{place}") == 1, (call, written)


@pytest.mark.parametrize("call", FLINK)
def test_a_call_of_flink_s_keeps_its_arguments(call: str) -> None:
    written = spark_text(sqlglot.parse_one(call, dialect=ScalarSpark))
    assert literals(written) == literals(call)


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        ("UPER(s)", UnknownFunctionError, "function UPER. Did you mean 'UPPER'"),
        ("CAST(UPER(s) AS INT)", UnknownFunctionError, "'UPPER'"),
        ("UPER(MAX(s))", UnknownFunctionError, "'UPPER'"),
        ("SUMM(i)", UnknownFunctionError, r"SUMM. Did you mean 'SUM'(?!.*\$)"),
        ("TRUNCATE(n, 2, 3)", UnknownFunctionError, "TRUNCATE takes 1 to 2 arguments, not 3"),
        ("DAYOFWEEK_ISO(d)", UnknownFunctionError, "WEEKDAY"),
        ("IS_JSON(s)", UnknownFunctionError, "IS_JSON takes 2 arguments, not 1"),
        ("REGEXP_REPLACE(s, 'l', 'x', 1, 1)", UnknownFunctionError, "3 to 4 arguments, not 5"),
        ("UPPER(s, s)", UnknownFunctionError, "1 argument, not 2"),
        ("SUBSTRING(s, 1, 2, 3)", UnknownFunctionError, "SUBSTRING takes 2 to 3 arguments, not 4"),
        ("CEIL(CONCAT(s, s), 1, 2)", UnknownFunctionError, "CEIL takes 1 to 2 arguments, not 3"),
        ("FLOOR(n, 1, [2, 3])", UnknownFunctionError, "FLOOR takes 1 to 2 arguments, not 3"),
        ("s IS JSON WITH UNIQUE KEYS", UnsupportedSqlError, "UNIQUE KEYS is .* take the words"),
        ("(d, d) OVERLAPS d", UnsupportedSqlError, "OVERLAPS of anything but pairs is"),
        ("s SIMILAR TO s", UnsupportedSqlError, "SIMILAR TO a pattern .* RLIKE"),
        ("TRY_SUM(i)", UnsupportedSqlError, "aggregate of Spark's"),
        ("CONCAT(s, )", SqlError, "after the comma"),
        ("i, s,", SqlError, "after the comma"),
    ],
)
def test_what_nobody_knows_is_refused(
    call: str, kind: type[SpecError], said: str, dialect: Any
) -> None:
    for query in (f"SELECT {call} FROM t", f"SELECT i FROM t WHERE {call} = 1"):
        if query.endswith(", = 1"):
            continue
        with pytest.raises(kind, match=said) as raised:
            al.Harness.from_sql(query, {"t": DDL}, dialect=dialect)
        assert "\nAt line 1" in str(raised.value)


@pytest.mark.parametrize(
    ("call", "spark", "flink"),
    [
        ("REGEXP_EXTRACT(s, 'a(b)')", "b", "ab"),
        ("REGEXP_EXTRACT(s, 'a(b)', 1)", "b", "b"),
        ("UPPER(REGEXP_EXTRACT(s, '(x)a(b)', 0))", "XAB", "XAB"),
        ("CONCAT(REGEXP_EXTRACT(s, 'a(b)'), '!')", "b!", "ab!"),
    ],
)
def test_the_group_that_is_not_written_is_of_the_dialect(call: str, spark: str, flink: str) -> None:
    dialects: Any = {"spark": spark, "flink": flink}
    for dialect, expected in dialects.items():
        for query in (f"SELECT {call} AS x FROM t", f"SELECT MAX({call}) AS x FROM t"):
            with al.Harness.from_sql(
                query, {"t": "s STRING"}, dialect=dialect, backend="python"
            ) as harness:
                harness.process([("+I", "xabc")])
                harness.flush()
                assert list(harness.table()) == [(expected,)], (dialect, query)


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        (
            "t JOIN (SELECT i AS j FROM w) q JOIN w ON w.i = q.j ON t.i = q.j",
            "t JOIN ((SELECT i AS j FROM w) q JOIN w ON w.i = q.j) ON t.i = q.j",
        ),
        (
            "t LEFT JOIN w q JOIN w ON w.i = q.i + 1 ON t.i = q.i",
            "t LEFT JOIN (w q JOIN w ON w.i = q.i + 1) ON t.i = q.i",
        ),
    ],
)
def test_joins_nest_without_parentheses(written: str, plain: str) -> None:
    tables = {"t": "i INT", "w": "i INT, k INT"}
    answers = []
    for clause in (written, plain):
        with al.Harness.from_sql(f"SELECT t.i, w.k FROM {clause}", tables) as harness:
            for i in range(4):
                harness.process([("+I", i)], table="t")
                harness.process([("+I", i, 10 * i)], table="w")
            harness.flush()
            answers.append(sorted(harness.table(), key=str))
    assert answers[0] == answers[1] and len(answers[0]) >= 3


@pytest.mark.parametrize("part", ["TABLESAMPLE (10 PERCENT)", "MATCH_RECOGNIZE (PATTERN (A))"])
@pytest.mark.parametrize("source", ["t", "(SELECT i FROM t) q", "(VALUES (1)) q (i)"])
def test_what_stands_behind_a_source_is_refused(source: str, part: str) -> None:
    with pytest.raises(SqlError):
        al.Harness.from_sql(f"SELECT 1 AS x FROM {source} {part}", {"t": "i INT"})


@pytest.mark.parametrize(
    "part",
    [
        *("TABLESAMPLE (10 PERCENT)", "WITH ORDINALITY"),
        *("VERSION AS OF 3", "FOR SYSTEM_TIME AS OF ts", "AS q (a)"),
    ],
)
def test_what_stands_behind_the_table_of_a_window_is_refused(part: str) -> None:
    window = f"TUMBLE(TABLE t {part}, DESCRIPTOR(ts), INTERVAL '1' HOUR)"
    query = f"SELECT COUNT(*) AS c FROM TABLE({window}) GROUP BY window_start, window_end"
    with pytest.raises(SqlError):
        al.Harness.from_sql(query, {"t": "i INT, ts TIMESTAMP"}, dialect="flink")


def test_names_of_the_columns_of_a_window_s_table_are_heeded() -> None:
    window = "TUMBLE(TABLE t AS q (n, at), DESCRIPTOR(at), INTERVAL '1' HOUR)"
    query = f"SELECT SUM(n) AS s FROM TABLE({window}) GROUP BY window_start, window_end"
    al.Harness.from_sql(query, {"t": "i INT, ts TIMESTAMP"}, dialect="flink").close()


@pytest.mark.parametrize(
    "part",
    [
        {"computed": [al.Computed("c", "UPER(s)", "STRING")]},
        {"where": "UPER(s) = 'A'"},
        {"having": "UPER(s) = 'A'"},
        {"select": {"c": "UPER(s)"}},
    ],
)
def test_functions_in_the_texts_of_a_spec_are_checked(part: dict[str, Any]) -> None:
    with pytest.raises(UnknownFunctionError, match=r"(?:where|having|'c'): .*UPER.*'UPPER'"):
        al.AggSpec(schema="s STRING", group_by=["s"], calls=[al.AggCall("COUNT")], **part)


def test_a_stored_spec_keeps_functions_of_another_session() -> None:
    spec = al.AggSpec("s STRING", ["c"], computed=[al.Computed("c", "UPPER(s)", "STRING")])
    text = spec.to_json().replace("UPPER", "OF_ANOTHER")
    assert al.AggSpec.from_json(text).computed[0].sql == "OF_ANOTHER(s)"


@pytest.mark.parametrize("call", ["UPPER(s, s)", "SUBSTRING(s, 1, 2, 3)", "s SIMILAR TO s"])
@pytest.mark.parametrize("part", ["computed", "filter", "where", "select"])
def test_a_stored_spec_has_no_call_that_would_lose_a_part(part: str, call: str) -> None:
    content: dict[str, Any] = {"schema": [["s", "STRING"]], "group_by": ["s"]}
    content["calls"] = [{"function": "COUNT"}]
    if part == "computed":
        content["computed"] = [{"name": "c", "sql": call, "type": "STRING"}]
    elif part == "filter":
        content["calls"][0]["filter"] = f"({call}) = 'a'"
    else:
        content[part] = f"({call}) = 'a'" if part == "where" else [["c", call]]
    with pytest.raises(SpecError, match=r"arguments?, not|no literal is not supported here"):
        al.AggSpec.from_json(json.dumps(content))


@pytest.mark.parametrize("name", FUNCTIONS_OF_FLINK.split())
def test_a_function_of_flink_s_is_known_or_refused_with_another(name: str) -> None:
    quoted = [f"'y{place}'" for place in range(MOST)]
    for count in range(MOST + 1):
        call = f"{name}({', '.join(quoted[:count])})"
        try:
            tree = sqlglot.parse_one(call, dialect=ScalarSpark)
        except SqlglotError:
            continue
        fault = check_function_names(tree)
        if fault is None:
            written = spark_text(tree)
            assert all(written.count(f"y{place}") == 1 for place in range(count)), (call, written)
        else:
            assert re.search(
                "write |Did you mean|Known|arguments?( or more)?, not|not one here", str(fault[1])
            )
