"""Public reports of wrong aggregates, rebuilt: retractions, DISTINCT with FILTER, grouping sets, sums that overflow."""

from __future__ import annotations

from decimal import Decimal

from reports import Report, check, gone, named, rows

NAN = float("nan")
V = {"t": "k STRING, v INT"}
SALES = {"sales": "year INT, quarter STRING, product STRING, amount DECIMAL(10, 2)"}
SOLD = rows(
    "sales",
    (2022, "Q1", "A", Decimal("1000.00")),
    (2022, "Q1", "B", Decimal("1500.00")),
    (2022, "Q2", "A", Decimal("2000.00")),
    (2023, "Q1", "A", Decimal("3000.00")),
    (2023, "Q2", "B", Decimal("4000.00")),
)
BIG = "9" * 38
REPORTS = [
    Report(
        "max_and_min_of_a_group_without_values",
        "apache/flink#9120",
        "SELECT k, MAX(v) AS hi, MIN(v) AS lo, COUNT(*) AS n FROM t GROUP BY k",
        V,
        rows("t", ("a", 5), ("a", 7), ("a", None)) + gone("t", ("a", 5), ("a", 7)),
    ),
    Report(
        "max_hidden_below_another",
        "apache/flink#3733",
        "SELECT k, MAX(v) AS hi FROM t GROUP BY k",
        V,
        rows("t", ("a", 10), ("a", 5), ("a", 5), ("a", 8)) + gone("t", ("a", 10)),
    ),
    Report(
        "max_of_counts_that_fall",
        "apache/flink#15940",
        "SELECT MAX(n) AS hi, SUM(n) AS total FROM (SELECT k, COUNT(v) AS n FROM t GROUP BY k) AS c",
        V,
        rows("t", ("a", 1), ("a", 2), ("a", 3), ("b", 1)) + gone("t", ("a", 1), ("a", 2)),
    ),
    Report(
        "group_that_was_emptied_comes_back",
        "tursodatabase/turso#8531",
        "SELECT a, COUNT(*) AS n, MIN(id) AS lo, SUM(id) AS s FROM p GROUP BY a",
        {"p": "id INT, a STRING"},
        rows("p", (1, "x"), (2, "x"))
        + gone("p", (1, "x"))
        + gone("p", (2, "x"))
        + rows("p", (3, "x")),
    ),
    Report(
        "key_inserted_again_with_other_values",
        "tursodatabase/turso#3601",
        "SELECT a, COUNT(*) AS n FROM p GROUP BY a",
        {"p": "id INT, a STRING"},
        rows("p", (1, "x"), (2, "y")) + gone("p", (1, "x")) + rows("p", (1, "y")),
    ),
    Report(
        "rows_with_nulls_are_deleted",
        "greenlion/swanhart-tools#157",
        "SELECT name, country FROM city WHERE name IS NOT NULL",
        {"city": "name STRING, country INT"},
        rows("city", ("a", None), ("b", 1), ("a", None)) + gone("city", ("a", None)),
    ),
    Report(
        "sum_by_region_of_a_changing_view",
        "laminardb/laminardb#302",
        "SELECT r, COUNT(*) AS n, AVG(price) AS a, MIN(price) AS lo, MAX(price) AS hi FROM (SELECT k, r,"
        " SUM(p) AS price"
        " FROM t GROUP BY k, r) AS u GROUP BY r",
        {"t": "k INT, r STRING, p INT"},
        rows("t", (1, "e", 5), (1, "e", 6), (2, "e", 20), (3, "w", 1)) + gone("t", (2, "e", 20)),
    ),
    Report(
        "count_distinct_beside_others",
        "risingwavelabs/risingwave#3323",
        "SELECT COUNT(DISTINCT v1) AS v FROM t",
        {"t": "v1 INT, v2 INT, v3 INT"},
        rows("t", (1, 2, 3), (1, 3, 4), (2, 3, 4)) + gone("t", (1, 3, 4)),
    ),
    Report(
        "filters_of_one_distinct_argument",
        "cockroachdb/cockroach#131087",
        "SELECT COUNT(DISTINCT id) AS a, COUNT(DISTINCT id) FILTER (WHERE value IS TRUE) AS b,"
        " COUNT(DISTINCT id) FILTER (WHERE value IS FALSE) AS c FROM data",
        {"data": "id INT, value BOOLEAN"},
        rows("data", (1, True), (2, True), (3, True), (4, True), (1, False)),
    ),
    Report(
        "distinct_filter_by_group",
        "duckdb/duckdb#5070",
        "SELECT id, COUNT(DISTINCT value) FILTER (WHERE type = '456') AS n FROM evs GROUP BY id",
        {"evs": "id STRING, type STRING, value STRING"},
        rows("evs", ("1", "123", "7"), ("1", "456", "7"), ("2", "123", "7")),
    ),
    Report(
        "distinct_filters_that_overlap",
        "duckdb/duckdb#8424",
        "SELECT COUNT(DISTINCT p) FILTER (WHERE path LIKE '%.pyi' OR path LIKE '%py.typed') AS some,"
        " COUNT(DISTINCT p) FILTER (WHERE path LIKE '%py.typed') AS typed,"
        " COUNT(DISTINCT p) FILTER (WHERE path LIKE '%.pyi') AS pyi FROM f",
        {"f": "p STRING, path STRING"},
        rows("f", ("a", "x.pyi"), ("a", "py.typed"), ("b", "y.pyi"), ("c", "z")),
    ),
    Report(
        "distinct_filter_and_distinct_case",
        "apache/cloudberry#1916",
        "SELECT COUNT(DISTINCT g) FILTER (WHERE q = 0) AS a, COUNT(DISTINCT CASE WHEN q = 0 THEN g END) AS b FROM t",
        {"t": "g INT, q INT"},
        rows("t", (1, 0), (1, 1), (2, 0), (3, 1)) + gone("t", (1, 1)),
    ),
    Report(
        "distinct_filter_beside_another_distinct",
        "greenplum-db/gpdb#14939",
        "SELECT COUNT(DISTINCT a) FILTER (WHERE a > 1) AS x, COUNT(DISTINCT b) AS y FROM t1",
        {"t1": "a INT, b INT"},
        rows("t1", (1, 1), (2, 2), (3, 3), (3, None)),
    ),
    Report(
        "distinct_filters_over_a_join",
        "cockroachdb/cockroach#158770",
        "SELECT COUNT(DISTINCT a.z) FILTER (WHERE b.x > 1) AS p, COUNT(DISTINCT a.z) FILTER (WHERE b.x > 2) AS q"
        " FROM b JOIN a ON a.z = b.y",
        {"b": "x INT, y INT", "a": "z INT"},
        rows("b", (1, 1), (2, 1), (3, 2), (4, 2)) + rows("a", 1, 2),
    ),
    Report(
        "sum_distinct_with_filters",
        "apache/spark#27058",
        "SELECT class, COUNT(id) FILTER (WHERE class = 1) AS c, SUM(DISTINCT id) FILTER (WHERE sex = 'man') AS s,"
        " SUM(DISTINCT id) AS d FROM student GROUP BY class",
        {"student": "id INT, class INT, sex STRING"},
        rows("student", (1, 1, "man"), (1, 1, "woman"), (2, 1, "woman"), (3, 2, None)),
    ),
    Report(
        "filters_that_no_row_passes",
        "apache/pinot#13749",
        "SELECT c, COUNT(*) AS n, COUNT(*) FILTER (WHERE t = 'A') AS a, COUNT(*) FILTER (WHERE t = 'B') AS b FROM x"
        " GROUP BY c ORDER BY n DESC LIMIT 2",
        {"x": "c STRING, t STRING"},
        rows(
            "x", ("jan", "A"), ("jan", "A"), ("feb", "A"), ("mar", "B"), ("mar", "A"), ("mar", "A")
        ),
    ),
    Report(
        "having_over_rollup",
        "matrixorigin/matrixone#19984",
        "SELECT year, quarter, product, SUM(amount) AS s FROM sales GROUP BY ROLLUP (year, quarter, product)"
        " HAVING (product IS NOT NULL AND quarter IS NOT NULL) OR (product IS NULL AND quarter IS NULL)",
        SALES,
        SOLD,
    ),
    Report(
        "null_as_product_with_rollup",
        "matrixorigin/matrixone#19985",
        "SELECT year, quarter, CAST(NULL AS STRING) AS product, SUM(amount) AS s FROM sales GROUP BY year,"
        " quarter WITH ROLLUP",
        SALES,
        SOLD,
        duck="SELECT year, quarter, NULL, SUM(amount) FROM sales GROUP BY ROLLUP (year, quarter)",
    ),
    Report(
        "rollup_with_nulls_in_keys",
        "spiceai/spiceai#3122",
        "SELECT a, b, SUM(v) AS s, GROUPING(a) AS ga, GROUPING(b) AS gb FROM t GROUP BY ROLLUP (a, b)",
        {"t": "a STRING, b STRING, v INT"},
        rows("t", ("x", None, 1), ("x", "y", 2), (None, None, 3), (None, "y", 4))
        + gone("t", ("x", "y", 2)),
    ),
    Report(
        "rollup_of_only_null",
        "ClickHouse/ClickHouse#49280",
        "SELECT c1, COUNT(*) AS n FROM t GROUP BY ROLLUP (c1)",
        {"t": "c1 INT"},
        rows("t", None, None),
    ),
    Report(
        "is_null_above_rollup",
        "MonetDB/MonetDB#7973",
        "SELECT c0, COALESCE(c0, -1) AS f, GROUPING(c0) AS g, c0 IS NULL AS e, COUNT(*) AS n FROM t"
        " GROUP BY ROLLUP (c0) HAVING c0 IS NULL",
        {"t": "c0 INT"},
        rows("t", 1, 2),
    ),
    Report(
        "rollup_of_an_alias_twice",
        "greenplum-db/gpdb#4488",
        "SELECT CASE WHEN qty < 10 THEN 1 ELSE 2 END AS a, CASE WHEN qty < 10 THEN 1 ELSE 2 END AS b FROM sale"
        " GROUP BY ROLLUP (a, b)",
        {"sale": "qty INT"},
        rows("sale", 1100, 1, 12),
        expected=[(1, 1), (1, 1), (2, 2), (2, 2), (None, None)],
    ),
    Report(
        "where_beside_grouping_sets_without_the_key",
        "Vasuki-git/mailing-lists2#5",
        "SELECT a, b, SUM(v) AS s FROM t WHERE a = 1 GROUP BY GROUPING SETS ((a, b), (b))",
        {"t": "a INT, b INT, v INT"},
        rows("t", (1, 1, 10), (1, 2, 10), (2, 1, 10)),
    ),
    Report(
        "rollup_of_a_sum_of_columns",
        "apache/cloudberry#1753",
        "SELECT a, a + b AS ab, COUNT(*) AS n FROM t GROUP BY ROLLUP (a, a + b)",
        {"t": "a INT, b INT"},
        rows("t", (1, 1), (2, 2)),
    ),
    Report(
        "sum_of_bigint_overflows",
        "duckdb/duckdb#543",
        "SELECT SUM(c1) AS s FROM t0",
        {"t0": "c1 BIGINT"},
        rows("t0", 2, 9223372036854775807),
        refused="BIGINT",
    ),
    Report(
        "sum_of_a_negative_constant",
        "duckdb/duckdb#560",
        "SELECT SUM(-1) AS s FROM t0",
        {"t0": "c0 INT"},
        rows("t0", 0),
    ),
    Report(
        "sum_of_decimals_overflows",
        "matrixorigin/matrixone#10148",
        "SELECT SUM(d) AS s FROM t",
        {"t": "d DECIMAL(38, 3)"},
        rows("t", Decimal(BIG[3:] + ".833"), Decimal(BIG[3:] + ".833")),
        refused="DECIMAL",
    ),
    Report(
        "sum_of_decimals_overflows_by_one",
        "apache/doris#68123",
        "SELECT SUM(d) AS s FROM t",
        {"t": "d DECIMAL(38, 0)"},
        rows("t", Decimal(BIG), Decimal(1)),
        refused="DECIMAL",
    ),
    Report(
        "average_of_the_greatest_decimals",
        "duckdb/duckdb#24067",
        "SELECT AVG(x) AS a FROM t",
        {"t": "x DECIMAL(38, 0)"},
        rows("t", Decimal(BIG), Decimal(BIG)),
        refused="does not fit DECIMAL(38,4)",
    ),
    Report(
        "nan_is_one_group_and_zero_too",
        "pmcfadin/cqlite#2074",
        "SELECT d, COUNT(*) AS n FROM t GROUP BY d",
        {"t": "d DOUBLE"},
        rows("t", NAN, NAN, 0.0, -0.0, 1.0),
    ),
    Report(
        "min_and_max_beside_nan",
        "NVIDIA/cudf#4753",
        "SELECT k, MIN(d) AS lo, MAX(d) AS hi FROM t GROUP BY k",
        {"t": "k INT, d DOUBLE"},
        rows("t", (1, NAN), (1, 2.0), (2, NAN), (3, 1.0), (3, NAN), (3, NAN)) + gone("t", (3, NAN)),
    ),
]


@named(REPORTS)
def test_report_of_aggregates(report: Report) -> None:
    check(report)
