"""Public reports of names that hide others, of views and WITH, and of first rows, rebuilt."""

from __future__ import annotations

from reports import Report, check, gone, named, rows

T = {"t": "a INT, b INT"}
SWAP = {"x": "n INT, s STRING"}
SWAPPED = rows("x", (1, "one"), (2, "two"), (3, "three")) + gone("x", (3, "three"))
USERS = {"users": "id INT, name STRING", "orders": "id INT, price INT"}
VIEWS = "CREATE VIEW x1 AS SELECT s AS a1, n AS a2 FROM x; CREATE VIEW x2 AS SELECT a2 AS a1, a1 AS a2 FROM x1; "
RULES = {"t": "id INT, cat STRING, rule STRING, ts INT"}
RULED = rows("t", (1, "foo", "A", 1), (2, "foo", "B", 2), (3, "bar", "B", 1))
REPORTS = [
    Report(
        "with_hides_a_table",
        "tiagolauer/OwlSQL#181",
        "WITH users AS (SELECT id FROM orders) SELECT name FROM users",
        USERS,
        [],
        refused="no column 'name'",
    ),
    Report(
        "with_hides_a_table_in_the_next_with",
        "tiagolauer/OwlSQL#285",
        "WITH users AS (SELECT id FROM users), q AS (SELECT name FROM users) SELECT name FROM q",
        USERS,
        [],
        refused="no column 'name'",
    ),
    Report(
        "with_of_its_own_name",
        "duckdb/duckdb#8302",
        "WITH orders AS (SELECT * FROM users WHERE id >= (SELECT MAX(id) FROM orders)), more AS (SELECT * FROM orders)"
        " SELECT * FROM more",
        USERS,
        rows("users", (1, "a"), (2, "b"), (3, "c"))
        + rows("orders", (2, 5), (3, 6))
        + gone("orders", (3, 6)),
        expected=[(2, "b"), (3, "c")],
    ),
    Report(
        "with_before_and_after_it_hides",
        "mk3008/Carbunql#480",
        "WITH sums AS (SELECT id, SUM(price) AS p FROM orders GROUP BY id), orders AS (SELECT * FROM orders WHERE"
        " price > 5) SELECT s.id, s.p, o.price FROM sums AS s JOIN orders AS o ON s.id = o.id",
        USERS,
        rows("orders", (1, 5), (1, 6), (2, 1)),
        expected=[(1, 11, 6)],
    ),
    Report(
        "two_with_over_one_name",
        "databendlabs/databend#15755",
        "WITH t1 AS (SELECT * FROM t WHERE a = 1), t2 AS (SELECT * FROM t WHERE a = 2), u AS (SELECT * FROM t1"
        " UNION ALL SELECT * FROM t2) SELECT * FROM u",
        T,
        rows("t", (1, 0), (2, 0), (3, 0)),
    ),
    Report(
        "with_named_in_its_columns",
        "cockroachdb/cockroach#45782",
        "WITH q AS (SELECT a, COUNT(*) AS n FROM t GROUP BY a) SELECT q.a, q.n FROM q WHERE q.n > 1",
        T,
        rows("t", (1, 0), (1, 1), (2, 0)),
    ),
    Report(
        "order_by_goes_by_the_alias",
        "tursodatabase/turso#3684",
        "SELECT b, -a AS a FROM t ORDER BY a LIMIT 2",
        T,
        rows("t", (1, 1), (2, 2), (3, 3)),
    ),
    Report(
        "group_by_goes_by_the_column",
        "tursodatabase/turso#5759",
        "SELECT MIN(a) AS b, SUM(z) AS s FROM t GROUP BY b",
        {"t": "a INT, b INT, z INT"},
        rows("t", (1, 10, 100), (2, 10, 200), (3, 20, 300), (4, 20, 400)),
    ),
    Report(
        "group_by_goes_by_the_column_and_the_item_does_not",
        "tursodatabase/turso#5759",
        "SELECT a AS b, SUM(z) AS s FROM t GROUP BY b",
        {"t": "a INT, b INT, z INT"},
        [],
        refused="column 'a' is neither grouped nor aggregated",
    ),
    Report(
        "order_by_inside_an_expression",
        "matrixorigin/matrixone#26939",
        "SELECT a, -b AS b FROM t ORDER BY b, a LIMIT 2",
        T,
        rows("t", (1, 1), (2, 2), (3, 3), (4, 3)) + gone("t", (4, 3)),
    ),
    Report(
        "order_by_the_name_below_the_alias",
        "melihbirim/csvql#132",
        "SELECT a AS d, COUNT(*) AS c FROM t GROUP BY a ORDER BY a DESC LIMIT 1",
        T,
        rows("t", (1, 1), (2, 2), (1, 3), (3, 0)) + gone("t", (3, 0)),
    ),
    Report(
        "order_by_a_qualified_name_below_the_alias",
        "vitessio/vitess#2110",
        "SELECT m.a AS pk FROM t AS m WHERE b = 1 ORDER BY m.a DESC LIMIT 2",
        T,
        rows("t", (1, 1), (2, 1), (3, 1), (9, 2)),
    ),
    Report(
        "alias_is_another_column",
        "MonetDB/MonetDB#3279",
        "WITH w AS (SELECT a AS c1, b AS c2, a + b AS c3 FROM t) SELECT 0 AS c1, d.c1 AS c2, d.c2 AS c3, d.c3 AS c4"
        " FROM w AS d ORDER BY c2, c3 LIMIT 2",
        T,
        rows("t", (3, 1), (1, 5), (1, 4)),
    ),
    Report(
        "group_by_an_alias",
        "hyrise/hyrise#578",
        "SELECT b AS whatever, SUM(a) AS s FROM t GROUP BY whatever",
        T,
        rows("t", (1, 5), (2, 5), (3, 6)) + gone("t", (3, 6)),
    ),
    Report(
        "group_by_an_expression_named_as_its_column",
        "apache/datafusion#2430",
        "SELECT SUBSTR(s, 1, 1) AS s, AVG(n) AS a FROM x GROUP BY SUBSTR(s, 1, 1)",
        SWAP,
        SWAPPED,
    ),
    Report(
        "having_goes_by_an_alias",
        "MonetDB/MonetDB#158",
        "SELECT a, AVG(b) AS m, COUNT(b) AS c FROM t GROUP BY a HAVING C > 1",
        T,
        rows("t", (1, 5), (1, 6), (2, 9), (2, None)),
        duck="SELECT a, AVG(b), COUNT(b) FROM t GROUP BY a HAVING COUNT(b) > 1",
    ),
    Report(
        "views_that_swap_names",
        "MonetDB/MonetDB#1982",
        VIEWS + "SELECT * FROM x2 WHERE a2 = 'two'",
        SWAP,
        SWAPPED,
        duck="SELECT n, s FROM x WHERE s = 'two'",
    ),
    Report(
        "view_under_an_alias",
        "MonetDB/MonetDB#274",
        VIEWS + "SELECT a.a1 FROM x2 AS a INNER JOIN x AS y ON a.a1 = y.n",
        SWAP,
        SWAPPED,
        duck="SELECT n FROM x",
    ),
    Report(
        "view_with_columns_over_union",
        "dolthub/dolt#10741",
        "CREATE VIEW v (id, name, type) AS SELECT id, name, 'STAFF' FROM users UNION ALL SELECT id, 'x', 'HEAD' FROM"
        " orders; SELECT * FROM v WHERE type = 'HEAD'",
        USERS,
        rows("users", (1, "a")) + rows("orders", (7, 1)),
        expected=[(7, "x", "HEAD")],
    ),
    Report(
        "rows_of_a_window_filtered_outside",
        "risingwavelabs/risingwave#13653",
        "SELECT * FROM (SELECT rule, LAG(rule) OVER (PARTITION BY cat ORDER BY ts) AS prev FROM t) AS w"
        " WHERE rule = 'B'",
        RULES,
        RULED,
    ),
    Report(
        "numbers_filtered_by_another_column",
        "matrixorigin/matrixone#24050",
        "SELECT * FROM (SELECT id, rule, ROW_NUMBER() OVER (PARTITION BY cat ORDER BY ts) AS n FROM t) AS w WHERE"
        " rule = 'B' AND n = 1",
        RULES,
        RULED + gone("t", (1, "foo", "A", 1)),
    ),
    Report(
        "having_above_qualify",
        "databendlabs/databend#17338",
        "WITH w AS (SELECT cat, ts FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY cat ORDER BY ts DESC) = 1)"
        " SELECT ts, COUNT(*) AS n FROM w GROUP BY ts HAVING ts = 1",
        RULES,
        RULED,
    ),
    Report(
        "ranks_of_many_equal_rows",
        "apache/doris#64172",
        "SELECT id FROM (SELECT id, DENSE_RANK() OVER (PARTITION BY cat ORDER BY ts DESC) AS rk FROM t) AS w"
        " WHERE rk = 1",
        RULES,
        rows("t", *[(i, "foo", "A", 5) for i in range(40)], (99, "foo", "A", 9))
        + gone("t", (99, "foo", "A", 9)),
    ),
    Report(
        "nulls_last_downwards_in_top_1",
        "duckdb/duckdb#1614",
        "SELECT a FROM t ORDER BY a DESC NULLS LAST LIMIT 1",
        T,
        rows("t", (1, 0), (None, 0)),
    ),
    Report(
        "nulls_first_and_last_together",
        "duckdb/duckdb#3015",
        "SELECT a, b FROM t ORDER BY a NULLS FIRST, b DESC NULLS LAST LIMIT 3",
        T,
        rows("t", (None, None), (None, 2), (1, 5), (1, None), (None, 3)) + gone("t", (None, 2)),
    ),
    Report(
        "nulls_first_with_an_offset",
        "ClickHouse/ClickHouse#14344",
        "SELECT a, b FROM t ORDER BY a DESC NULLS FIRST, b LIMIT 2 OFFSET 1",
        T,
        rows("t", (None, 1), (None, 2), (None, 3), (0, 0), (5, 0)) + gone("t", (None, 1)),
    ),
    Report(
        "limit_around_a_limit",
        "StarRocks/starrocks#9698",
        "SELECT * FROM (SELECT * FROM t ORDER BY a LIMIT 10) AS q ORDER BY b LIMIT 3 OFFSET 2",
        T,
        rows("t", *[(i, 20 - i) for i in range(1, 13)]) + gone("t", (1, 19)),
    ),
    Report(
        "row_leaves_a_limit",
        "rocicorp/mono#1866",
        "SELECT a FROM t ORDER BY a LIMIT 2",
        T,
        rows("t", (1, 0), (2, 0), (3, 0), (4, 0))
        + gone("t", (1, 0))
        + [("t", "-U", 2, 0), ("t", "+U", 9, 0)],
    ),
    Report(
        "with_ties",
        "risingwavelabs/risingwave#5538",
        "SELECT a FROM t ORDER BY b FETCH FIRST 2 ROWS WITH TIES",
        T,
        rows("t", (1, 1), (2, 2), (3, 2), (4, 3)) + gone("t", (1, 1)) + rows("t", (5, 2)),
        duck="SELECT a FROM t QUALIFY RANK() OVER (ORDER BY b) <= 2",
    ),
]


@named(REPORTS)
def test_report_of_names(report: Report) -> None:
    check(report)
