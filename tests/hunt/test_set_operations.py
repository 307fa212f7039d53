"""Public reports of wrong UNION, INTERSECT and EXCEPT, and of grouping sets and keys, rebuilt."""

from __future__ import annotations

from decimal import Decimal

from reports import Report, check, gone, named, rows

X = {"l": "x INT", "r": "x INT"}
XY = {"l": "x INT, y INT", "r": "x INT, y INT"}
AXIOM = rows("l", (1, None), (1, None), (2, 3), (None, None), (None, None), (None, None)) + rows(
    "r", (1, None), (2, 3), (None, None)
)
NUMBERS = rows("l", 1, 2, 1, 2) + rows("r", 2, 3, 4)
KKV = {"t": "k1 INT, k2 INT, v INT"}
EMPS = {"emps": "deptno INT, job STRING, sal INT, comm INT"}
REPORTS = [
    Report(
        "intersect_with_nothing_alike",
        "openlink/virtuoso-opensource#1459",
        "SELECT x, y FROM l INTERSECT SELECT x, y FROM r",
        XY,
        rows("l", (None, None), (None, None), (None, None)) + rows("r", (1, 1)),
    ),
    Report(
        "intersect_of_nulls",
        "openlink/virtuoso-opensource#1458",
        "SELECT x FROM l INTERSECT SELECT x FROM r",
        X,
        rows("l", None, None, None) + rows("r", None),
    ),
    Report(
        "except_of_nulls",
        "MonetDB/MonetDB#3040",
        "SELECT x FROM l EXCEPT SELECT x FROM r",
        X,
        rows("l", None, 1) + rows("r", None, 2) + gone("r", 2),
    ),
    Report(
        "except_all_with_nulls",
        "facebookincubator/axiom#1235",
        "SELECT * FROM l EXCEPT ALL SELECT * FROM r",
        XY,
        AXIOM + gone("l", (None, None)),
    ),
    Report(
        "intersect_all_with_nulls",
        "facebookincubator/axiom#1235",
        "SELECT * FROM l INTERSECT ALL SELECT * FROM r",
        XY,
        AXIOM + rows("r", (None, None), (1, None), (1, None)) + gone("r", (None, None)),
    ),
    Report(
        "except_all_counts",
        "ClickHouse/ClickHouse#96801",
        "(SELECT x FROM l) EXCEPT ALL (SELECT x FROM r)",
        X,
        NUMBERS,
    ),
    Report(
        "intersect_all_takes_the_fewer",
        "xtdb/core2#361",
        "SELECT x FROM l INTERSECT ALL SELECT x FROM r",
        X,
        rows("l", 5, 5, 5) + rows("r", 5, 5, 6) + gone("l", 5, 5) + rows("l", 5, 6),
    ),
    Report(
        "union_all_of_one_table_twice",
        "tursodatabase/turso#5734",
        "SELECT * FROM l UNION ALL SELECT * FROM l",
        X,
        rows("l", 1, 2, 3) + gone("l", 2),
    ),
    Report(
        "union_of_int_and_bigint",
        "stoneatom/stonedb#854",
        "SELECT a FROM t1 UNION ALL SELECT a FROM t2",
        {"t1": "a INT", "t2": "a BIGINT"},
        rows("t1", -8388606, -1, 0, 1, 8388607)
        + rows("t2", -9223372036854775806, -1, 0, 1, 9223372036854775807),
    ),
    Report(
        "union_of_three_decimals",
        "stoneatom/stonedb#1885",
        "SELECT d1, d1 AS e, d2 FROM t UNION SELECT d2, d3, d3 FROM t",
        {"t": "d1 DECIMAL(10, 2), d2 DECIMAL(18, 10), d3 DECIMAL(18, 17)"},
        rows("t", (Decimal("125.00"), Decimal("1.25"), Decimal("0.125"))),
    ),
    Report(
        "rollup_of_one_key_twice",
        "ClickHouse/ClickHouse#117904",
        "SELECT x, COUNT(*) AS c FROM l GROUP BY GROUPING SETS ((x), (x))",
        X,
        rows("l", 0, 1),
    ),
    Report(
        "cube_of_one_key_twice",
        "ClickHouse/ClickHouse#118186",
        "SELECT x, COUNT(*) AS c FROM l GROUP BY CUBE (x, x)",
        X,
        rows("l", 0, 1, 1) + gone("l", 1),
    ),
    Report(
        "cube_with_grouping",
        "greenplum-db/gpdb#3489",
        "SELECT x, y, COUNT(*) AS n, GROUPING(x) AS gx, GROUPING(y) AS gy, GROUPING_ID(x, y) AS g FROM l"
        " GROUP BY CUBE (x, y)",
        XY,
        rows("l", (1, 1), (2, 1)) + gone("l", (2, 1)),
        duck="SELECT x, y, COUNT(*), GROUPING(x), GROUPING(y), GROUPING(x, y) FROM l GROUP BY CUBE (x, y)",
    ),
    Report(
        "grouping_sets_repeated",
        "apache/spark#26961",
        "SELECT k1, k2, SUM(v) AS s FROM t GROUP BY GROUPING SETS ((k1), (k1, k2), (k2, k1), (k1, k2))",
        KKV,
        rows("t", (0, 0, 3)),
    ),
    Report(
        "grouping_sets_with_a_null_sum",
        "apache/datafusion#21316",
        "SELECT deptno, job, sal, SUM(comm) AS s, GROUPING(deptno) AS d, GROUPING(job) AS j, GROUPING(sal) AS l"
        " FROM emps GROUP BY GROUPING SETS ((deptno, job), (deptno, sal), (deptno, job))",
        EMPS,
        rows("emps", (10, "CLERK", 1300, None), (20, "MANAGER", 3000, None)),
    ),
    Report(
        "grouping_sets_repeated_beside_all",
        "apache/datafusion#5672",
        "SELECT k1, AVG(v) AS a FROM t GROUP BY GROUPING SETS ((k1), (k1), ())",
        KKV,
        rows("t", (1, 0, 3), (1, 0, 4), (2, 0, 9)) + gone("t", (2, 0, 9)),
    ),
    Report(
        "grouping_sets_sum_twice",
        "StarRocks/starrocks#1395",
        "SELECT k1, SUM(v) AS s FROM t GROUP BY GROUPING SETS ((k1), (k1))",
        KKV,
        rows("t", (1, 0, 2)),
    ),
    Report(
        "grouping_set_key_in_an_aggregate",
        "apache/doris#12273",
        "SELECT COUNT(k2) AS n, k1 + 1 AS y, v FROM t GROUP BY GROUPING SETS ((k1 + 1), (v), (k2))",
        KKV,
        rows("t", (1, 1, 5), (1, None, 5), (2, 2, 6)),
    ),
    Report(
        "empty_grouping_set_over_nothing",
        "apache/spark#56891",
        "SELECT COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY GROUPING SETS (())",
        KKV,
        rows("t", (1, 1, 5)) + gone("t", (1, 1, 5)),
    ),
    Report(
        "group_by_nothing",
        "h2database/h2database#2104",
        "SELECT COUNT(*) AS n FROM t GROUP BY ()",
        KKV,
        rows("t", (1, 1, 5), (1, 1, 5)) + gone("t", (1, 1, 5)),
    ),
    Report(
        "group_by_nothing_is_one_group",
        "h2database/h2database#2104",
        "SELECT 1 AS one FROM t GROUP BY ()",
        KKV,
        rows("t", (1, 1, 5)) + gone("t", (1, 1, 5)),
        expected=[(1,)],
    ),
    Report(
        "group_by_keys_in_parentheses",
        "h2database/h2database#2104",
        "SELECT k1, k2, SUM(v) AS s FROM t GROUP BY (k2, k1), ()",
        KKV,
        rows("t", (1, 1, 5), (1, None, 5), (1, None, 6)) + gone("t", (1, 1, 5)),
        duck="SELECT k1, k2, SUM(v) FROM t GROUP BY k2, k1",
    ),
    Report(
        "group_by_keys_in_parentheses_beside_a_sub_query",
        "h2database/h2database#2104",
        "SELECT k1, k2, SUM(v) + (SELECT MAX(v) FROM t) AS s FROM t GROUP BY (k2, k1)",
        KKV,
        rows("t", (1, 1, 5), (1, None, 5), (1, None, 6)) + gone("t", (1, 1, 5)),
        duck="SELECT k1, k2, SUM(v) + (SELECT MAX(v) FROM t) FROM t GROUP BY k2, k1",
    ),
    Report(
        "group_by_a_constant_over_nothing",
        "apache/cloudberry#2025",
        "SELECT COUNT(*) AS n FROM t GROUP BY 'x'",
        KKV,
        rows("t", (1, 1, 5)) + gone("t", (1, 1, 5)),
    ),
    Report(
        "having_false_over_nothing",
        "apache/datafusion#11748",
        "SELECT AVG(v) AS a FROM t GROUP BY FALSE HAVING FALSE",
        KKV,
        rows("t", (1, 1, 5)),
        duck="SELECT AVG(v) FROM t GROUP BY v > NULL HAVING FALSE",
    ),
    Report(
        "having_without_group_by",
        "apache/spark#22696",
        "SELECT 1 AS one FROM t HAVING COUNT(*) > 1",
        KKV,
        rows("t", (1, 1, 5), (1, 1, 6)),
    ),
    Report(
        "having_of_a_constant_is_one_group",
        "duckdb/duckdb#19401",
        "SELECT 1 AS one FROM t HAVING TRUE",
        KKV,
        rows("t", (1, 1, 5), (1, 1, 6)),
        expected=[(1,)],
    ),
    Report(
        "having_where_false",
        "duckdb/duckdb#4673",
        "SELECT 1 AS one FROM t WHERE FALSE HAVING COUNT(*) IS NOT NULL",
        KKV,
        rows("t", (1, 1, 5)),
        expected=[(1,)],
    ),
]


@named(REPORTS)
def test_report_of_sets(report: Report) -> None:
    check(report)
