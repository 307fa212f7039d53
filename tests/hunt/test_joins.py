"""Public reports of wrong joins and sub-queries, rebuilt: NULL keys, rows that come and go, NOT IN, correlation."""

from __future__ import annotations

from reports import Report, check, gone, named, rows

T1T2 = {"t1": "v1 INT, v2 INT", "t2": "v1 INT, v2 INT"}
XY = {"t1": "x INT, y INT", "t2": "x INT, y INT", "t3": "x INT, y INT"}
NULLS = [(2, 2), (1, None), (None, 2), (2, None), (None, 1), (None, None)]
POSTS = "id INT, views INT, likes INT"
REPORTS = [
    Report(
        "full_join_after_delete",
        "risingwavelabs/risingwave#2420",
        "SELECT t1.v1 AS v11, t2.v1 AS v21 FROM t1 FULL OUTER JOIN t2 ON t1.v1 = t2.v1",
        T1T2,
        rows("t2", (3, 3)) + gone("t2", (3, 3)) + rows("t1", (3, 3)),
    ),
    Report(
        "full_self_join_of_null",
        "risingwavelabs/risingwave#8084",
        "SELECT t1.a FROM t AS t1 FULL JOIN t AS t2 ON t1.a = t2.a",
        {"t": "a INT"},
        rows("t", None, 1),
    ),
    Report(
        "full_self_join_columns",
        "risingwavelabs/risingwave#8059",
        "SELECT t0.a, t0.b FROM t AS t0 FULL JOIN t AS t1 ON t0.a = t1.a",
        {"t": "a INT, b INT"},
        rows("t", (None, 1), (None, 1), (2, 3)) + gone("t", (None, 1)),
    ),
    Report(
        "join_is_not_distinct_from",
        "risingwavelabs/risingwave#7401",
        "SELECT * FROM t1 JOIN t2 ON t1.v1 IS NOT DISTINCT FROM t2.v2",
        {"t1": "v1 INT", "t2": "v2 INT"},
        rows("t1", 1, None) + rows("t2", 1, None),
    ),
    Report(
        "exists_over_left_join_null_safe",
        "risingwavelabs/risingwave#5097",
        "SELECT * FROM t1 WHERE EXISTS (SELECT t2.x FROM t2 LEFT JOIN t3 ON t2.x = t3.x AND t1.y = t2.y"
        " AND t1.y = t3.y WHERE t1.x = t2.x)",
        XY,
        rows("t1", (1, 1), *NULLS) + rows("t2", (1, 2), *NULLS) + rows("t3", (1, 2), *NULLS),
        refused="in ON of a LEFT JOIN",
    ),
    Report(
        "full_join_chain_using",
        "risingwavelabs/risingwave#17450",
        "SELECT k, v1, v2, v3 FROM t1 FULL OUTER JOIN t2 USING (k) FULL OUTER JOIN t3 USING (k)",
        {"t1": "k INT, v1 INT", "t2": "k INT, v2 INT", "t3": "k INT, v3 INT"},
        rows("t3", (1, 30), (2, 31)) + rows("t2", (2, 20)) + rows("t1", (1, 10), (3, 11)),
    ),
    Report(
        "comparison_with_a_sum",
        "risingwavelabs/risingwave#5771",
        "WITH tt2 AS (SELECT SUM(v2) AS vv2 FROM t2) SELECT v1 FROM t1, tt2 WHERE v1 > vv2",
        {"t1": "v1 INT", "t2": "v2 INT"},
        rows("t1", 233) + rows("t2", 0, 5) + gone("t2", 5),
    ),
    Report(
        "not_in_with_null_text",
        "rjwalters/vibesql#6109",
        "SELECT x FROM e2 WHERE x NOT IN (SELECT c FROM e1)",
        {"e1": "a STRING, c INT", "e2": "x INT, y STRING"},
        rows("e1", ("2", 2), ("9", None)) + rows("e2", (1, "2"), (2, "2"), (3, "2.0")),
    ),
    Report(
        "not_in_when_the_null_leaves",
        "dolthub/dolt#5954",
        "SELECT * FROM t1 WHERE i NOT IN (SELECT j FROM t2)",
        {"t1": "i INT", "t2": "j INT"},
        rows("t1", 1, None) + rows("t2", 2, None) + gone("t2", None),
    ),
    Report(
        "not_in_of_nothing_keeps_null",
        "apache/datafusion#19635",
        "SELECT * FROM t1 WHERE i NOT IN (SELECT j FROM t2)",
        {"t1": "i INT", "t2": "j INT"},
        rows("t1", 1, None) + rows("t2", 2, None) + gone("t2", 2, None),
    ),
    Report(
        "correlated_not_in",
        "StarRocks/starrocks#30641",
        "SELECT * FROM t0 AS x1 WHERE x1.v3 NOT IN (SELECT x2.v2 FROM t0 AS x2 WHERE x1.v2 = x2.v2)",
        {"t0": "v1 INT, v2 INT, v3 INT"},
        rows("t0", (2, 2, None), (1, 1, None), (3, 3, 4)),
    ),
    Report(
        "anti_join_is_not_not_in",
        "duckdb/duckdb-web#3745",
        "SELECT id1 FROM t1 LEFT ANTI JOIN t2 ON t1.id1 = t2.id1",
        {"t1": "id1 INT", "t2": "id1 INT"},
        rows("t1", 1, 2, 3, None) + rows("t2", 1, None),
        duck="SELECT id1 FROM t1 ANTI JOIN t2 USING (id1)",
    ),
    Report(
        "semi_join_with_nulls",
        "duckdb/duckdb-web#3296",
        "SELECT c FROM t1 LEFT SEMI JOIN t2 ON t1.c = t2.c",
        {"t1": "c STRING", "t2": "c STRING"},
        rows("t1", "a", "b", None, "c") + rows("t2", "a", "b", "b", None),
        duck="SELECT c FROM t1 SEMI JOIN t2 USING (c)",
    ),
    Report(
        "left_join_true_is_null_after",
        "duckdb/duckdb#17042",
        "SELECT * FROM t2 LEFT JOIN t0 ON true WHERE ((t0.c1 < t2.c1) IS NULL)",
        {"t2": "c1 INT", "t0": "c1 DOUBLE"},
        rows("t0", 0.1) + rows("t2", 2, None),
    ),
    Report(
        "join_on_minus_infinity_or_null",
        "apache/datafusion#11621",
        "SELECT * FROM t1 JOIN t48 ON t1.v0 = t48.v0 WHERE t48.v0 = t1.v0 OR t1.v1",
        {"t1": "v0 DOUBLE, v1 BOOLEAN, v3 STRING", "t48": "v0 DOUBLE, v1 STRING"},
        rows("t1", (float("-inf"), None, "")) + rows("t48", (float("-inf"), "")),
        expected=[(float("-inf"), None, "", float("-inf"), "")],
        duck="SELECT t1.*, t48.v0 AS v01, t48.v1 AS v11 FROM t1 JOIN t48 ON t1.v0 = t48.v0",
    ),
    Report(
        "two_rows_for_a_scalar",
        "duckdb/duckdb#6060",
        "SELECT y, (SELECT x FROM t WHERE x = y) AS z FROM u",
        {"t": "x INT", "u": "y INT"},
        rows("t", 1, 1, 2) + rows("u", 1, 2, 3),
        refused="several rows",
    ),
    Report(
        "outer_column_in_sub_query",
        "duckdb/duckdb#12733",
        "SELECT * FROM t2 WHERE e IN (SELECT s FROM u)",
        {"t2": "e INT, s INT", "u": "name STRING"},
        rows("t2", (1, 1), (1, 2)) + rows("u", "a"),
        duck="SELECT * FROM t2 WHERE e IN (SELECT s FROM u)",
    ),
    Report(
        "exists_of_a_global_aggregate",
        "duckdb/duckdb#4753",
        "SELECT x, EXISTS (SELECT SUM(x) FROM t AS t2 WHERE t1.x > 2) AS e FROM t AS t1",
        {"t": "x INT"},
        rows("t", 1, 2),
        expected=[(1, True), (2, True)],
    ),
    Report(
        "exists_with_derived_table",
        "duckdb/duckdb#22267",
        "SELECT COUNT(*) AS n FROM posts AS r0 WHERE EXISTS (SELECT 1 FROM (SELECT r0.id AS c0, r1.views AS c1"
        " FROM posts AS r1 WHERE r0.likes > r1.likes) AS q WHERE q.c1 <> r0.likes)",
        {"posts": POSTS},
        rows("posts", (1, 100, 10), (2, 150, 20), (3, None, 5), (4, 1, 40)),
        refused="'r0' is no table in the FROM",
    ),
    Report(
        "exists_over_a_with_that_looks_out",
        "duckdb/duckdb#22267",
        "SELECT COUNT(*) AS n FROM posts AS r0 WHERE EXISTS (WITH q AS (SELECT r1.views AS c1 FROM posts AS"
        " r1, posts AS r2"
        " WHERE r0.likes > r1.likes) SELECT 1 FROM q WHERE q.c1 <> 1)",
        {"posts": POSTS},
        [],
        refused="'r0' is no table in the FROM",
    ),
    Report(
        "exists_with_its_conditions_outside",
        "duckdb/duckdb#22267",
        "SELECT COUNT(*) AS n FROM posts AS r0 WHERE EXISTS (SELECT 1 FROM (SELECT r1.likes AS l, r1.views AS c1"
        " FROM posts AS r1) AS q WHERE r0.likes > q.l AND q.c1 <> r0.likes)",
        {"posts": POSTS},
        rows("posts", (1, 100, 10), (2, 150, 20), (3, None, 5), (4, 1, 40)),
    ),
    Report(
        "two_exists_columns_used_above",
        "duckdb/duckdb#13542",
        "WITH u AS (SELECT DISTINCT item_id FROM stuff), s AS (SELECT item_id,"
        " EXISTS (SELECT 1 FROM stuff c WHERE u.item_id = c.item_id AND type = 's1') AS o1,"
        " EXISTS (SELECT 1 FROM stuff c WHERE u.item_id = c.item_id AND type = 's2') AS o2 FROM u)"
        " SELECT * FROM s WHERE o2",
        {"stuff": "item_id INT, type STRING"},
        rows("stuff", (1, "s1"), (1, "s2"), (2, "s1"), (3, "s2")) + gone("stuff", (1, "s1")),
    ),
    Report(
        "case_of_null_in_sub_query",
        "MaterializeInc/materialize#9285",
        "SELECT CASE WHEN CASE WHEN b IN (SELECT c FROM u) THEN FALSE ELSE TRUE END THEN TRUE END AS r FROM t",
        {"t": "b BOOLEAN", "u": "c BOOLEAN"},
        rows("t", None, True, False) + rows("u", True),
    ),
    Report(
        "null_compared_with_a_scalar",
        "MaterializeInc/materialize#9284",
        "SELECT a, a = (SELECT MAX(b) FROM u) AS e FROM t",
        {"t": "a INT", "u": "b INT"},
        rows("t", None, 3) + rows("u", 3, 4) + gone("u", 4),
    ),
    Report(
        "join_unequal_texts",
        "duckdb/duckdb#12634",
        "SELECT t1.c0, t2.c0 AS d FROM t1 FULL JOIN t2 ON t1.c0 = t2.c0 AND t1.c0 >= t2.c0",
        {"t1": "c0 STRING", "t2": "c0 STRING"},
        rows("t1", "-1891621750") + rows("t2", "1708578242", "|㵝", "-1891621750.0"),
    ),
    Report(
        "upsert_and_deletion_below_a_left_join",
        "apache/flink#29204",
        "SELECT o.id, d.v FROM o LEFT JOIN d ON o.id = d.o",
        {"o": "id INT", "d": "k INT, o INT, v INT"},
        [*rows("o", 1), ("d", "+U", 7, 1, 10), ("d", "+U", 7, 1, 11), ("d", "-D", 7, 1, 11)],
        expected=[(1, None)],
        options={"input_changes": {"o": "append", "d": "upsert"}, "keys": {"d": "k"}},
    ),
    Report(
        "upsert_and_deletion_below_an_anti_join",
        "apache/flink#29264",
        "SELECT id FROM o WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.o = o.id)",
        {"o": "id INT", "d": "k INT, o INT, v INT"},
        [*rows("o", 1, 2), ("d", "+U", 7, 1, 10), ("d", "+U", 7, 2, 11), ("d", "-D", 7, 2, 11)],
        expected=[(1,), (2,)],
        options={"input_changes": {"o": "append", "d": "upsert"}, "keys": {"d": "k"}},
    ),
    Report(
        "condition_on_the_right_of_a_left_join",
        "apache/datafusion#4230",
        "SELECT t1.id, t1.name, t2.name AS other FROM t1 LEFT JOIN t2 ON t1.id = t2.id AND t2.name >= 'y'",
        {"t1": "id INT, name STRING", "t2": "id INT, name STRING"},
        rows("t1", (11, "a"), (22, "b"), (33, "c"), (44, "d"))
        + rows("t2", (11, "z"), (22, "y"), (44, "x"), (55, "w")),
    ),
]


@named(REPORTS)
def test_report_of_joins(report: Report) -> None:
    check(report)
