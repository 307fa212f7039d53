"""Public reports of wrong names, types and predicates, rebuilt: aliases, UNION, LIKE, empty texts."""

from __future__ import annotations

from decimal import Decimal

from reports import Report, check, gone, named, rows

IJ = {"integers": "i INT, j INT"}
THREES = rows("integers", (3, 4), (3, 4), (2, 4))
TEXTS = {"t": "s STRING"}
REPORTS = [
    Report(
        "group_by_prefers_the_column",
        "databendlabs/databend#19806",
        "SELECT 1 AS i, SUM(i) AS s FROM integers GROUP BY i",
        IJ,
        THREES,
    ),
    Report(
        "group_by_a_column_that_an_alias_hides",
        "duckdb/duckdb#15766",
        "SELECT SUBSTRING(col2, 1, 1) AS col2 FROM t GROUP BY col2",
        {"t": "col1 INT, col2 STRING"},
        rows("t", (1, "aa"), (1, "ab"), (1, "ac")),
    ),
    Report(
        "group_by_an_alias_that_hides_nothing",
        "duckdb/duckdb#15766",
        "SELECT SUBSTRING(col2, 1, 1) AS col3 FROM t GROUP BY col3",
        {"t": "col1 INT, col2 STRING"},
        rows("t", (1, "aa"), (1, "ab"), (1, "ac")),
    ),
    Report(
        "alias_like_a_qualified_column",
        "apache/datafusion#9162",
        "SELECT 0 AS `t.a` FROM t GROUP BY t.a",
        {"t": "a BIGINT"},
        rows("t", 1, 2, 3),
        duck='SELECT 0 AS "t.a" FROM t GROUP BY t.a',
    ),
    Report(
        "grouping_sets_of_an_alias",
        "duckdb/duckdb#16097",
        "SELECT COUNT(*) AS n, k1 AS k2 FROM t1 GROUP BY GROUPING SETS ((k2))",
        {"t1": "k1 STRING"},
        rows("t1", "a", "a", "b"),
    ),
    Report(
        "grouping_sets_of_an_alias_beside_its_column",
        "duckdb/duckdb#16097",
        "SELECT COUNT(*) AS n, k1 AS k2 FROM t2 GROUP BY GROUPING SETS ((k2))",
        {"t2": "k1 STRING, k2 STRING"},
        rows("t2", ("a", "b")),
        refused="k1",
    ),
    Report(
        "having_of_an_aggregate_named_as_a_column",
        "duckdb/duckdb#10961",
        "SELECT i, MAX(j) AS m FROM integers GROUP BY i HAVING m > 3",
        IJ,
        THREES + gone("integers", (2, 4)),
    ),
    Report(
        "cast_under_its_column_name",
        "databendlabs/databend#20273",
        "SELECT CAST(v AS SMALLINT) AS v, CASE WHEN v < 100 THEN 'small' ELSE 'large' END AS band, MIN(t) AS m FROM e"
        " GROUP BY v",
        {"e": "v BIGINT, t INT"},
        rows("e", (1, 5), (1, 4), (200, 3)),
    ),
    Report(
        "two_items_of_one_name",
        "duckdb/duckdb#9315",
        "SELECT COUNT(*) AS cnt, c, n AS cnt FROM t GROUP BY c, n",
        {"t": "c STRING, n STRING"},
        [],
        refused="cnt",
    ),
    Report(
        "union_of_int_and_division",
        "MaterializeInc/materialize#4686",
        "SELECT a, b, v FROM t UNION SELECT b, a, 1 / v FROM t",
        {"t": "a STRING, b STRING, v DECIMAL(10, 2)"},
        rows("t", ("x", "y", Decimal("4.00"))),
    ),
    Report(
        "union_of_a_coalesce_and_null",
        "apache/datafusion#11742",
        "SELECT NVL(v1, 0.5) AS v FROM tt UNION ALL SELECT NULL FROM tt WHERE FALSE",
        {"tt": "v1 INT"},
        rows("tt", 1, None),
        duck="SELECT COALESCE(v1, 0.5) AS v FROM tt UNION ALL SELECT NULL FROM tt WHERE FALSE",
    ),
    Report(
        "union_with_null",
        "prestodb/presto#2532",
        "SELECT v1 FROM tt UNION ALL SELECT NULL FROM tt",
        {"tt": "v1 INT"},
        rows("tt", 1),
    ),
    Report(
        "union_of_nulls_before_a_text",
        "MonetDB/MonetDB#6487",
        "SELECT NULL AS j FROM tt UNION ALL SELECT NULL AS j FROM tt UNION ALL SELECT 'asdf' AS j FROM tt",
        {"tt": "v1 INT"},
        rows("tt", 1),
    ),
    Report(
        "union_with_two_coercions",
        "databendlabs/databend#8007",
        "SELECT 'Müller' AS b, 1.0 AS c, 2 AS id FROM tt UNION SELECT NULL AS b, 1 AS c, 1 AS id FROM tt",
        {"tt": "v1 INT"},
        rows("tt", 1),
    ),
    Report(
        "union_of_max_and_avg",
        "vitessio/vitess#15340",
        "SELECT e, MAX(c) AS m FROM u GROUP BY e UNION SELECT e, AVG(c) AS m FROM u GROUP BY e",
        {"u": "e STRING, c INT"},
        rows("u", ("a", 1), ("a", 2), ("d", 2)),
    ),
    Report(
        "union_of_literals_of_two_widths",
        "apache/calcite#4024",
        "SELECT a + 0.5 AS v FROM t UNION SELECT a FROM t",
        {"t": "a INT"},
        rows("t", 1, 2),
    ),
    Report(
        "union_of_bigint_and_narrow_decimal",
        "mariadb-corporation/mariadb-columnstore-engine#1890",
        "SELECT b AS v FROM t UNION ALL SELECT d FROM t",
        {"t": "b BIGINT, d DECIMAL(3, 1)"},
        rows("t", (9223372036854775807, Decimal("99.9"))),
    ),
    Report(
        "union_of_text_and_number",
        "MonetDB/MonetDB#1035",
        "SELECT id FROM t UNION SELECT id FROM s",
        {"t": "id INT", "s": "id STRING"},
        [],
        refused="STRING",
    ),
    Report(
        "empty_text_equals_empty_text",
        "duckdb/duckdb#585",
        "SELECT * FROM t WHERE s = ''",
        TEXTS,
        rows("t", "", "0", None, " "),
    ),
    Report(
        "underscore_is_one_character",
        "MonetDB/MonetDB#355",
        "SELECT s FROM t WHERE s LIKE 't_'",
        TEXTS,
        rows("t", "", "t", "ts", "tsz", "tü", "t\n"),
    ),
    Report(
        "percent_behind_a_sign",
        "matrixorigin/matrixone#3630",
        "SELECT s, s LIKE '%!_%' ESCAPE '!' AS u, s LIKE '%!%%' ESCAPE '!' AS p FROM t",
        TEXTS,
        rows("t", "a_b", "a%", "ab", "%", None),
    ),
    Report(
        "windows_path_in_like",
        "ClickHouse/ClickHouse#46592",
        r"SELECT s FROM t WHERE s LIKE '%C:|\Windows|\%x.exe%' ESCAPE '|'",
        TEXTS,
        rows("t", r"a C:\Windows\Speech_x.exe b", r"C:\Windows\Speech_xyexe"),
        refused="the escape stands before",
    ),
    Report(
        "sum_of_a_negation",
        "MonetDB/MonetDB#1811",
        "SELECT (-col2 + col1) AS d FROM a WHERE col3 IS NULL",
        {"a": "col1 INT, col2 INT, col3 INT"},
        rows("a", (1000, -2000, None)),
    ),
    Report(
        "null_behind_conditions",
        "apache/doris#343",
        "SELECT c FROM t WHERE a = 3001 AND b = 3 AND d = 1090050",
        {"t": "a INT, b TINYINT, c TINYINT, d BIGINT"},
        rows("t", (3001, 3, None, 1090050)),
    ),
    Report(
        "equal_and_less_at_once",
        "duckdb/duckdb#9329",
        "SELECT 1 AS one FROM t1 WHERE t1.c2 = t1.c1 AND t1.c2 < t1.c1",
        {"t1": "c1 BIGINT, c2 INT"},
        rows("t1", (0, 0), (1, 0)),
    ),
    Report(
        "random_in_where",
        "duckdb/duckdb#10099",
        "SELECT RAND() AS num FROM t WHERE s > 'a'",
        TEXTS,
        [],
        refused="RAND",
    ),
]


@named(REPORTS)
def test_report_of_expressions(report: Report) -> None:
    check(report)
