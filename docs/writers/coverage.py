"""Count the scalar functions of Spark and of Flink that are evaluated without a Spark session.

A function of Spark counts if a sample in the table of functions calls it, or if its query here runs. A function of
Flink counts if its sample in this file, over the columns of the sample table, is lowered or runs as an item of a
query. No session is used. `python -m writers.coverage` prints the numbers and the missing functions.
"""

from __future__ import annotations

import re
from typing import Final

from aggloom import Harness
from aggloom.codegen.scalar.functions import FAMILIES
from aggloom.codegen.scalar.intervals import MOVED
from aggloom.codegen.scalar.module import ROWS, lower
from aggloom.codegen.scalar.spark_functions import ARITIES
from aggloom.errors import AggloomError
from writers.sample_table import sample_table

_SKETCHES: Final = (
    *("approx_top_k", "hll_", "kll_", "st_", "theta_", "tuple_", "try_variant_", "variant_"),
    "vector_",
)
SPARK: Final = sorted(name for name in ARITIES if not name.startswith(_SKETCHES))
"""Spark's functions except those for sketches, vectors, geography and parts of a VARIANT."""
_OPERATORS: Final = {
    "div": " div ",
    "ilike": " ilike ",
    "like": " like ",
    "rlike": " rlike ",
    "when": " when ",
}
"""Functions that are written as operators."""
_FLINK: Final = """
    i = l | i <> l | i > l | i >= l | i < l | i <= l | i IS NULL | i IS NOT NULL | i IS DISTINCT FROM l
    i IS NOT DISTINCT FROM l | i BETWEEN 1 AND 2 | i BETWEEN SYMMETRIC 2 AND 1 | i NOT BETWEEN 1 AND 2
    s LIKE 'a%' | s NOT LIKE 'a%' | s LIKE 'a/%' ESCAPE '/' | s SIMILAR TO 'a|b' | s NOT SIMILAR TO 'a|b'
    i IN (1, 2) | i NOT IN (1, 2)
    p OR q | p AND q | NOT p | p IS FALSE | p IS NOT FALSE | p IS TRUE | p IS NOT TRUE | p IS UNKNOWN
    p IS NOT UNKNOWN
    +i | -i | i + l | i - l | i * l | i / l | i % l | POWER(f, g) | ABS(f) | SQRT(f) | LN(f) | LOG10(f) | LOG2(f)
    LOG(f) | LOG(2, f) | EXP(f) | CEIL(f) | CEILING(f) | FLOOR(f) | SIN(f) | SINH(f) | COS(f) | TAN(f) | TANH(f)
    COT(f)
    ASIN(f) | ACOS(f) | ATAN(f) | ATAN2(f, g) | COSH(f) | DEGREES(f) | RADIANS(f) | SIGN(f) | ROUND(f, 1) | PI() | E()
    RAND() | RAND(1) | RAND_INTEGER(5) | RAND_INTEGER(1, 5) | UUID() | BIN(i) | HEX(i) | HEX(s) | UNHEX(s)
    TRUNCATE(f, 1) | TRUNCATE(f)
    s || t | CHAR_LENGTH(s) | CHARACTER_LENGTH(s) | UPPER(s) | LOWER(s) | POSITION('a' IN s) | PRINTF('%s', s)
    TRIM(BOTH 'a' FROM s) | TRIM(LEADING 'a' FROM s) | TRIM(TRAILING 'a' FROM s) | TRIM(s) | LTRIM(s) | LTRIM(s, 'a')
    RTRIM(s) | RTRIM(s, 'a') | BTRIM(s) | BTRIM(s, 'a') | REPEAT(s, 2) | REGEXP_REPLACE(s, 'a', 'b')
    OVERLAY(s PLACING 'x' FROM 1) | OVERLAY(s PLACING 'x' FROM 1 FOR 2) | STARTSWITH(s, 'a') | ENDSWITH(s, 'a')
    SUBSTRING(s FROM 1) | SUBSTRING(s FROM 1 FOR 2) | REPLACE(s, 'a', 'b') | REGEXP_COUNT(s, 'a')
    REGEXP_EXTRACT(s, '(a)', 1) | REGEXP_EXTRACT_ALL(s, '(a)') | REGEXP_INSTR(s, 'a') | REGEXP_SUBSTR(s, 'a')
    TRANSLATE(s, 'a', 'b') | INITCAP(s) | CONCAT(s, t) | CONCAT_WS(',', s, t) | LPAD(s, 5, 'x') | RPAD(s, 5, 'x')
    FROM_BASE64('YQ==') | TO_BASE64(s) | ASCII(s) | CHR(65) | DECODE(y, 'UTF-8') | ENCODE(s, 'UTF-8') | INSTR(s, 'a')
    LEFT(s, 2) | RIGHT(s, 2) | LOCATE('a', s) | LOCATE('a', s, 2) | URL_DECODE('a') | URL_ENCODE(s)
    PARSE_URL('http://a.b/', 'HOST') | PARSE_URL('http://a.b/?q=1', 'QUERY', 'q') | REGEXP(s, 'a') | REVERSE(s)
    SPLIT_INDEX(s, ',', 0) | STR_TO_MAP(s) | STR_TO_MAP(s, ',', '=') | SUBSTR(s, 1) | SUBSTR(s, 1, 2) | JSON_QUOTE(s)
    JSON_UNQUOTE(s) | ELT(1, s, t)
    DATE '2020-02-29' | TIME '12:34:56' | TIMESTAMP '2020-02-29 12:34:56' | n + INTERVAL '1' DAY | LOCALTIME
    LOCALTIMESTAMP | CURRENT_TIME | CURRENT_DATE | CURRENT_TIMESTAMP | NOW() | CURRENT_ROW_TIMESTAMP()
    EXTRACT(DAY FROM d) | YEAR(d) | QUARTER(d) | MONTH(d) | WEEK(d) | DAYOFYEAR(d) | DAYOFMONTH(d) | DAYOFWEEK(d)
    HOUR(n)
    MINUTE(n) | SECOND(n) | FLOOR(n TO HOUR) | CEIL(n TO HOUR) | (n, n) OVERLAPS (n, n) | DATE_FORMAT(n, 'yyyy')
    TIMESTAMPADD(DAY, 1, n) | TIMESTAMPDIFF(DAY, n, n) | CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'Asia/Tokyo')
    FROM_UNIXTIME(44) | FROM_UNIXTIME(44, 'yyyy') | UNIX_TIMESTAMP() | UNIX_TIMESTAMP('1970-01-01 00:00:00')
    UNIX_TIMESTAMP('1970', 'yyyy') | TO_DATE('2020-02-29') | TO_DATE('29.2.2020', 'd.M.yyyy') | TO_TIMESTAMP_LTZ(44, 0)
    TO_TIMESTAMP_LTZ(44, 3) | TO_TIMESTAMP('2020-02-29 12:34:56') | TO_TIMESTAMP('2020', 'yyyy') | CURRENT_WATERMARK(n)
    CASE i WHEN 1 THEN 2 ELSE 3 END | CASE WHEN p THEN 2 ELSE 3 END | NULLIF(i, l) | COALESCE(i, l) | IF(p, i, l)
    IFNULL(i, l) | IS_ALPHA(s) | IS_DECIMAL(s) | IS_DIGIT(s) | GREATEST(i, l) | LEAST(i, l) | CAST(i AS STRING)
    TRY_CAST(s AS INT) | TYPEOF(i)
    CARDINALITY(a) | a[1] | ELEMENT(a) | CARDINALITY(k) | k['a'] | ARRAY_APPEND(a, 1) | ARRAY_CONTAINS(a, 1)
    ARRAY_DISTINCT(a) | ARRAY_POSITION(a, 1) | ARRAY_PREPEND(a, 1) | ARRAY_REMOVE(a, 1) | ARRAY_REVERSE(a)
    ARRAY_SLICE(a, 1, 2) | ARRAY_SORT(a) | ARRAY_UNION(a, a) | ARRAY_CONCAT(a, a) | ARRAY_EXCEPT(a, a)
    ARRAY_INTERSECT(a, a) | ARRAY_MAX(a) | ARRAY_JOIN(c, ',') | ARRAY_MIN(a) | MAP_KEYS(k) | MAP_UNION(k, k)
    MAP_VALUES(k) | MAP_ENTRIES(k) | MAP_FROM_ARRAYS(array('a'), array(1)) | SPLIT(s, ',')
    s IS JSON | s IS JSON VALUE | s IS JSON SCALAR | s IS JSON ARRAY | s IS JSON OBJECT | s IS NOT JSON
    JSON_EXISTS(s, '$.a') | JSON_STRING(i) | JSON_VALUE(s, '$.a') | JSON_VALUE(s, '$.a' RETURNING INT)
    JSON_QUERY(s, '$.a') | JSON_OBJECT('a' VALUE i) | JSON_ARRAY(i, s) | PARSE_JSON(s) | TRY_PARSE_JSON(s)
    JSON_LENGTH(s) | ROW(i, s) | (i, s) | ARRAY[i, i] | MAP['a', i] | e.a | e.*
    GROUP_ID() | GROUPING(i) FROM t GROUP BY CUBE(i) | GROUPING_ID(i) FROM t GROUP BY CUBE(i)
    MD5(s) | SHA1(s) | SHA224(s) | SHA256(s) | SHA384(s) | SHA512(s)
    SHA2(s, 256) | CURRENT_DATABASE()
"""
_TIMED: Final = "FROM t WHERE w IS NOT NULL GROUP BY"
_QUERIES: Final = {
    **{
        name: f"SELECT i, {name}() AS x FROM t"
        for name in (
            *("curdate", "current_date", "current_time", "current_timestamp", "localtime"),
            *("localtimestamp", "now"),
        )
    },
    **{
        name: f"SELECT i, {name}({argument}) FROM t"
        for name, argument in {
            **dict.fromkeys(("explode", "explode_outer", "posexplode", "posexplode_outer"), "a"),
            **dict.fromkeys(("inline", "inline_outer"), "array(e)"),
            "stack": "2, i, i + 1",
            "json_tuple": "s, 'a', 'c'",
        }.items()
    },
    "grouping": "SELECT i, grouping(i) AS x, COUNT(*) AS n FROM t GROUP BY ROLLUP(i)",
    "grouping_id": "SELECT i, grouping_id() AS x, COUNT(*) AS n FROM t GROUP BY CUBE(i)",
    "window": f"SELECT window.start AS x, COUNT(*) AS n {_TIMED} window(w, '1 hour')",
    "window_time": f"SELECT window_time(window) AS x, COUNT(*) AS n {_TIMED} window(w, '1 hour')",
    "session_window": (
        f"SELECT session_window.end AS x, COUNT(*) AS n {_TIMED} session_window(w, '5 minutes')"
    ),
}
"""Queries of the functions that no expression is: those that make rows, group them, or ask what time it is."""
FLINK: Final = [each.strip() for line in _FLINK.strip().splitlines() for each in line.split(" | ")]
"""A sample of each scalar expression on Flink's page about functions, in the order of that page."""


def missing_of_spark() -> list[str]:
    """Return the functions of Spark that no sample calls, and that no query has."""
    samples = " ".join(sql.lower() for each in FAMILIES.values() for e in each for sql in e.samples)
    samples += " ".join(MOVED)
    called = set(re.findall(r"(\w+)\(", samples)) | {
        name for name in _QUERIES if runs(_QUERIES[name])
    }
    return [
        name
        for name in SPARK
        if name not in called and not (name in _OPERATORS and _OPERATORS[name] in samples)
    ]


def missing_of_flink() -> list[str]:
    """Return the expressions of Flink that are neither lowered nor run in a query."""
    return [sql for sql in FLINK if not _is_lowered(sql) and not runs(_select(sql))]


def runs(query: str) -> bool:
    """Tell whether a query over the sample table `t`, whose rows are only added, runs without a Spark session."""
    rows = sample_table()
    try:
        with Harness.from_sql(
            query, {"t": rows.schema}, input_changes="append", backend="python"
        ) as harness:
            harness.process([("+I", *row.values()) for row in rows.to_pylist()])
            harness.flush()
    except AggloomError:
        return False
    return True


def _select(sql: str) -> str:
    return f"SELECT {sql}" if " FROM t " in sql else f"SELECT {sql} FROM t"


def _is_lowered(sql: str) -> bool:
    try:
        lower(sql, {ROWS: sample_table().schema})
    except AggloomError:
        return False
    return True


def figures() -> str:
    """Return the numbers, as a sentence."""
    spark, flink = len(SPARK) - len(missing_of_spark()), len(FLINK) - len(missing_of_flink())
    return f"{spark} of Spark's {len(SPARK)} scalar functions and {flink} of Flink's {len(FLINK)} run without Spark."


if __name__ == "__main__":
    print(figures())
    print("Spark, missing:", *missing_of_spark())
    print("Flink, missing:", *missing_of_flink(), sep="\n  ")
