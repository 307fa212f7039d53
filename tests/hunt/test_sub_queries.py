"""Public reports of wrong sub-queries, rebuilt: NOT IN with NULL, COUNT of nothing, EXISTS beside OR, LIMIT by row."""

from __future__ import annotations

from reports import Report, check, gone, named, rows

IDS = {"t1": "id INT, z INT", "t2": "id INT, z INT"}
AB = {"t1": "a INT, b INT", "t2": "a INT, b INT"}
CORRELATED = rows("t1", (1, 10), (2, 20), (None, 30), (4, 40)) + rows("t2", (1, 5), (None, 50))
SUB1 = [(1, None), (None, 1), (1, 2), (None, 2), (2, 4), (3, 3), (20, 2), (22, 3), (None, None)]
FOO = {"foo": "id INT", "bar": "f INT, d INT"}
MAXIMA = (
    rows("foo", 1, 2, 3)
    + rows("bar", (1, 4), (2, 3), (3, 5))
    + gone("bar", (3, 5))
    + rows("bar", (3, 1))
)
NATIONS = {"region": "r INT, name STRING", "nation": "r INT"}
REPORTS = [
    Report(
        "constant_not_in_correlated",
        "apache/datafusion#25347",
        "SELECT id FROM t_out WHERE 3 NOT IN (SELECT id FROM t_in WHERE t_in.g = t_out.g)",
        {"t_out": "id INT, g INT", "t_in": "id INT, g INT"},
        rows("t_out", (1, 1), (2, 2)) + rows("t_in", (1, 1), (None, 2)),
    ),
    Report(
        "constant_not_in",
        "apache/datafusion#25348",
        "SELECT id FROM t1 WHERE 3 NOT IN (SELECT id FROM t2)",
        {"t1": "id INT", "t2": "id INT"},
        rows("t1", 1, 2) + rows("t2", 1, None),
    ),
    Report(
        "not_in_correlated_by_less",
        "apache/datafusion#25336",
        "SELECT id FROM t1 WHERE id NOT IN (SELECT t2.id FROM t2 WHERE t2.z < t1.z)",
        IDS,
        CORRELATED,
    ),
    Report(
        "not_in_correlated_by_less_or_more",
        "apache/datafusion#25339",
        "SELECT id FROM t1 WHERE NOT (id IN (SELECT t2.id FROM t2 WHERE t2.z < t1.z)) OR id = 4",
        IDS,
        CORRELATED,
    ),
    Report(
        "nullif_not_in",
        "apache/datafusion#25474",
        "SELECT x FROM o WHERE NULLIF(x, x) NOT IN (SELECT id FROM i)",
        {"o": "x INT", "i": "id INT"},
        rows("o", 1, 2) + rows("i", 1, 3),
    ),
    Report(
        "case_not_in_of_nothing",
        "apache/datafusion#25474",
        "SELECT x FROM o WHERE (CASE WHEN x > 100 THEN 1 END) NOT IN (SELECT id FROM i)",
        {"o": "x INT", "i": "id INT"},
        rows("o", 1, 2) + rows("i", 1) + gone("i", 1),
    ),
    Report(
        "not_in_correlated_by_a_sum",
        "StarRocks/starrocks#11551",
        "SELECT * FROM t1 WHERE t1.a NOT IN (SELECT t2.a FROM t2 WHERE t1.b + t2.b = 10)",
        AB,
        rows("t1", (None, 1), (None, 5), (2, 5), (3, 6), (4, None))
        + rows("t2", (2, 5), (None, 4), (None, None)),
    ),
    Report(
        "not_in_or",
        "apache/doris#24112",
        "SELECT * FROM s1 WHERE s1.k1 NOT IN (SELECT s3.k3 FROM s3) OR k1 < 10",
        {"s1": "k1 BIGINT, k2 BIGINT", "s3": "k1 INT, k3 BIGINT"},
        rows("s1", *SUB1) + rows("s3", (1, 2), (1, 3), (3, 4), (None, None)),
    ),
    Report(
        "count_of_no_row",
        "facebookincubator/axiom#846",
        "SELECT name, (SELECT COUNT(*) FROM nation WHERE nation.r = region.r + 2) AS cnt FROM region",
        NATIONS,
        rows("region", (0, "AFRICA"), (1, "AMERICA"), (2, "ASIA"))
        + rows("nation", 2, 2, 3)
        + gone("nation", 3),
    ),
    Report(
        "count_of_no_row_is_null",
        "apache/spark#40865",
        "SELECT name, (SELECT COUNT(*) FROM nation WHERE nation.r = region.r) IS NULL AS e FROM region",
        NATIONS,
        rows("region", (0, "AFRICA"), (1, "AMERICA")) + rows("nation", 1),
    ),
    Report(
        "count_having_is_null",
        "pingcap/tidb#66619",
        "SELECT a, (SELECT COUNT(1) FROM t2 WHERE t2.a = t1.a HAVING COUNT(1) > 0) AS c FROM t1",
        {"t1": "a INT", "t2": "a INT"},
        rows("t1", 1, 2, 3, 4) + rows("t2", 1, 2, 3) + gone("t2", 3),
    ),
    Report(
        "count_below_a_filter",
        "warehouse-pg/warehouse-pg#194",
        "SELECT c, (SELECT cnt FROM (SELECT COUNT(*) AS cnt FROM g) AS s WHERE v.c) AS n FROM v",
        {"v": "c BOOLEAN", "g": "i INT"},
        rows("v", False, True) + rows("g", 1, 2, 3, 4),
    ),
    Report(
        "count_by_flag_of_itself",
        "ClickHouse/ClickHouse#111615",
        "WITH t AS (SELECT * FROM b) SELECT o.k, (SELECT COUNT(*) FROM t AS i WHERE i.k = o.k AND i.flag = 1) AS n"
        " FROM t AS o",
        {"b": "k INT, flag INT"},
        rows("b", (1, 0), (2, 1), (1, 1)) + gone("b", (1, 1)),
    ),
    Report(
        "count_of_less_plus_one",
        "MonetDB/MonetDB-old#1949",
        "SELECT b, (SELECT COUNT(*) + 1 FROM t1 AS i WHERE i.b < o.b) AS n FROM t1 AS o",
        {"t1": "a INT, b INT"},
        rows("t1", (3, 1), (4, 2), (5, 3), (6, 4), (7, 5)) + gone("t1", (5, 3)),
    ),
    Report(
        "exists_or_more",
        "MonetDB/MonetDB#1906",
        "SELECT * FROM t1 WHERE EXISTS (SELECT * FROM t2 WHERE t2.a = t1.a) OR t1.b > 0",
        AB,
        rows("t1", (1, 1), (2, 2), (3, 0), (None, None)) + rows("t2", (1, 1)),
    ),
    Report(
        "exists_or_exists_of_many",
        "matrixorigin/matrixone#24277",
        "SELECT a FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.a = t1.a) OR EXISTS (SELECT 1 FROM t2 WHERE"
        " t2.b = t1.a)",
        AB,
        rows("t1", (1, 0), (2, 0)) + rows("t2", *[(1, i) for i in range(9)]) + gone("t2", (1, 2)),
    ),
    Report(
        "exists_correlated_in_on",
        "dolthub/dolt#11771",
        "SELECT a FROM t1 WHERE EXISTS (SELECT 1 FROM t2 JOIN t2 AS t3 ON t2.b = t3.b AND t3.a = t1.a)",
        AB,
        rows("t1", (1, 0), (2, 0), (3, 0)) + rows("t2", (1, 5), (2, 5), (4, None)),
    ),
    Report(
        "exists_of_a_count",
        "dolthub/dolt#3772",
        "SELECT a FROM t1 WHERE EXISTS (SELECT COUNT(*) FROM t2 WHERE t1.a = t2.a AND t2.b = 200)",
        AB,
        rows("t1", (1, 0), (2, 0)),
        expected=[(1,), (2,)],
    ),
    Report(
        "exists_beside_another_filter",
        "stoneatom/stonedb#971",
        "SELECT * FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE t1.id = t2.id AND name = 'BBB')",
        {"t1": "id INT, name STRING", "t2": "id INT, name STRING"},
        rows("t1", (1, "AAA"), (2, "AAA"), (3, "BBB"))
        + rows("t2", (1, "BBB"), (2, "CCC"), (3, "BBB"))
        + gone("t2", (3, "BBB")),
    ),
    Report(
        "exists_without_from",
        "facebookincubator/axiom#1086",
        "SELECT a FROM t1 WHERE EXISTS (SELECT 1 WHERE FALSE)",
        AB,
        rows("t1", (1, 0)),
        expected=[],
    ),
    Report(
        "limit_1_by_row",
        "trinodb/trino#5209",
        "SELECT a.c1, COALESCE((SELECT b.c2 FROM b WHERE a.c1 = b.c1 LIMIT 1), 'NA') AS c FROM a",
        {"a": "c1 STRING", "b": "c1 STRING, c2 STRING"},
        rows("a", "k1", "k2") + rows("b", ("k2", "v3"), ("k3", "v4")),
    ),
    Report(
        "order_by_limit_1_by_row",
        "trinodb/trino#1358",
        "SELECT a.e, (SELECT b.rating FROM b WHERE b.e = a.e ORDER BY b.d DESC LIMIT 1) AS r FROM a",
        {"a": "e INT", "b": "e INT, d INT, rating INT"},
        rows("a", 1, 2, 3)
        + rows("b", (1, 1, 10), (1, 2, 20), (1, 3, 30), (2, 9, 90))
        + gone("b", (1, 3, 30)),
    ),
    Report(
        "limit_of_each_group",
        "matrixorigin/matrixone#26816",
        "SELECT g, (SELECT v FROM c WHERE c.g = p.g ORDER BY v DESC LIMIT 1 OFFSET 1) AS second FROM p",
        {"p": "g INT", "c": "g INT, v INT"},
        rows("p", 1, 2, 3)
        + rows("c", (1, 10), (1, 20), (2, 40), (2, 30), (2, 60))
        + gone("c", (2, 60)),
        refused="a sub-query with UNION, LIMIT or OVER",
    ),
    Report(
        "lateral_limit_1_before_on",
        "cockroachdb/cockroach#151609",
        "SELECT a.id, b.id AS other FROM a LEFT JOIN LATERAL (SELECT b.* FROM b WHERE b.c < a.c ORDER BY b.c DESC"
        " LIMIT 1) AS b ON b.id = a.id",
        {"a": "id INT, c INT", "b": "id INT, c INT"},
        rows("a", (2, 7)) + rows("b", (2, 5), (3, 6)),
        refused="number the rows with ROW_NUMBER()",
    ),
    Report(
        "lateral_limit_1_on_true",
        "trinodb/trino#4673",
        "SELECT a, q.b FROM t LEFT JOIN LATERAL (SELECT b FROM u WHERE b > a ORDER BY b LIMIT 1) AS q ON TRUE",
        {"t": "a INT", "u": "b INT"},
        rows("t", 1, 2, 3, 9) + rows("u", 2, 4, 5) + gone("u", 4),
        refused="number the rows with ROW_NUMBER()",
    ),
    Report(
        "order_by_a_sub_query",
        "dolthub/dolt#11300",
        "SELECT id, (SELECT MAX(bar.d) FROM bar WHERE bar.f = foo.id) AS m FROM foo ORDER BY m DESC LIMIT 2",
        FOO,
        MAXIMA,
    ),
    Report(
        "order_by_a_sub_query_without_a_name",
        "dolthub/dolt#11300",
        "SELECT id FROM foo ORDER BY (SELECT MAX(bar.d) FROM bar WHERE bar.f = foo.id) DESC LIMIT 2",
        FOO,
        MAXIMA,
    ),
    Report(
        "rank_by_a_sub_query",
        "dolthub/dolt#11300",
        "SELECT id, RANK() OVER (PARTITION BY (SELECT COUNT(*) FROM bar) ORDER BY (SELECT MAX(bar.d) FROM bar WHERE"
        " bar.f = foo.id)) AS r FROM foo",
        FOO,
        MAXIMA,
    ),
    Report(
        "order_by_a_sub_query_of_one_value",
        "dolthub/dolt#11300",
        "SELECT id FROM foo ORDER BY (SELECT MAX(bar.d) FROM bar), id LIMIT 2",
        FOO,
        MAXIMA,
    ),
]


@named(REPORTS)
def test_report_of_sub_queries(report: Report) -> None:
    check(report)
