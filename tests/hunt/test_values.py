"""Public reports of wrong values of aggregates, rebuilt: DISTINCT of several, spread, lists, AVG of decimals."""

from __future__ import annotations

from decimal import Decimal

from reports import Report, check, gone, named, rows

D = {"t": "x DOUBLE"}
S = {"t": "k INT, s STRING"}
PAIRS = {"t": "a STRING, b STRING"}
BIG = "99999999999999999999999999999999999999"
REPORTS = [
    Report(
        "count_distinct_of_two_columns",
        "matrixorigin/matrixone#25284",
        "SELECT COUNT(DISTINCT a, b) AS n FROM t",
        PAIRS,
        rows(
            "t",
            (None, None),
            (None, "x"),
            ("1", None),
            ("1", "5"),
            ("1", "5"),
            ("2", "7"),
            ("3", "1"),
        )
        + gone("t", ("3", "1")),
        expected=[(2,)],
    ),
    Report(
        "count_distinct_beside_select_distinct",
        "apache/doris#57707",
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT a, b FROM t) AS d",
        PAIRS,
        rows(
            "t",
            ("A", "X"),
            ("A", "X"),
            ("B", None),
            ("B", None),
            ("C", "Y"),
            (None, "Z"),
            (None, None),
        ),
    ),
    Report(
        "count_distinct_of_texts_that_run_together",
        "pingcap/tidb#10099",
        "SELECT COUNT(DISTINCT a, b) AS n FROM t",
        PAIRS,
        rows(
            "t",
            ("13", "0.000"),
            ("13", "0.0"),
            ("1", "30.000"),
            ("130", ".000"),
            ("13", "0.000"),
            (None, "1"),
        ),
        expected=[(4,)],
    ),
    Report(
        "count_distinct_grouped_by_its_column",
        "actiontech/dble#845",
        "SELECT b, COUNT(DISTINCT a, b) AS n FROM t GROUP BY b",
        PAIRS,
        rows("t", ("1", "1"), ("2", "0"), ("3", None), ("4", "1"), (None, "0")),
        expected=[("1", 2), ("0", 1), (None, 0)],
    ),
    Report(
        "count_distinct_of_a_row",
        "feldera/feldera#3196",
        "SELECT k, COUNT(DISTINCT ROW(k, s)) AS n FROM t GROUP BY k",
        S,
        rows("t", (1, "x"), (1, "x"), (1, "y"), (2, None), (2, "z")) + gone("t", (2, "z")),
        expected=[(1, 2), (2, 1)],
    ),
    Report(
        "distinct_aggregates_of_only_null",
        "vitessio/vitess#5036",
        "SELECT COUNT(DISTINCT x) AS c, SUM(DISTINCT x) AS s, COUNT(x) AS n, SUM(x) AS u FROM t",
        D,
        rows("t", None, None, 1.5) + gone("t", 1.5),
    ),
    Report(
        "spread_of_equal_values_below_one",
        "MaterializeInc/materialize#24433",
        "SELECT STDDEV_SAMP(x) AS a, VAR_POP(x) AS b FROM t",
        D,
        rows("t", 0.2, 0.2, 0.6) + gone("t", 0.6),
        expected=[(0.0, 0.0)],
    ),
    Report(
        "spread_of_three_equal_values",
        "OSGeo/grass#101",
        "SELECT VAR_POP(x) >= 0 AS a, STDDEV_POP(x) < 1e-12 AS b FROM t",
        D,
        rows("t", -0.14357562916991, -0.14357562916991, 5.0, -0.14357562916991) + gone("t", 5.0),
        expected=[(True, True)],
    ),
    Report(
        "spread_of_one_value",
        "matrixorigin/matrixone#24220",
        "SELECT STDDEV_SAMP(x) AS a, VAR_SAMP(x) AS b, STDDEV_POP(x) AS c, VAR_POP(x) AS d FROM t",
        D,
        rows("t", 5.0, 7.0, None) + gone("t", 7.0),
    ),
    Report(
        "spread_of_tiny_values_is_not_negative",
        "ClickHouse/ClickHouse#10532",
        "SELECT VAR_SAMP(x) >= 0 AS a FROM t",
        D,
        rows("t", 1e-9, 1e-9, 1e-9, 3e9) + gone("t", 3e9),
        expected=[(True,)],
    ),
    Report(
        "average_of_decimals_in_the_middle",
        "trinodb/trino#30991",
        "SELECT AVG(d) = CAST(0.9 AS DECIMAL(2, 1)) AS a FROM t",
        {"t": "d DECIMAL(38, 38)"},
        rows("t", Decimal("0.9"), Decimal("0.9")),
        expected=[(True,)],
    ),
    Report(
        "average_of_one_great_decimal",
        "matrixorigin/matrixone#28776",
        "SELECT AVG(d) AS a FROM t",
        {"t": "d DECIMAL(38, 0)"},
        rows("t", Decimal(BIG)),
        refused="does not fit",
    ),
    Report(
        "average_of_nine_digits",
        "apache/datafusion#24369",
        "SELECT AVG(d) AS a FROM t",
        {"t": "d DECIMAL(9, 0)"},
        rows("t", Decimal(999999999), Decimal(999999999)),
        expected=[(Decimal(999999999),)],
    ),
    Report(
        "bool_and_of_the_first_true",
        "apache/datafusion#12017",
        "SELECT k, BOOL_AND(b) AS a, BOOL_OR(b) AS o FROM t GROUP BY k",
        {"t": "k INT, b BOOLEAN"},
        rows("t", (1, True), (1, None), (2, None), (3, False), (3, True)) + gone("t", (3, False)),
    ),
    Report(
        "every_of_nothing",
        "jOOQ/jOOQ#7660",
        "SELECT EVERY(b) AS e FROM t",
        {"t": "k INT, b BOOLEAN"},
        rows("t", (1, True)) + gone("t", (1, True)),
        expected=[(None,)],
    ),
    Report(
        "texts_joined_and_distinct_ones",
        "risingwavelabs/risingwave#4735",
        "SELECT STRING_AGG(s, ',' ORDER BY s) AS a, STRING_AGG(DISTINCT s, ',' ORDER BY s) AS b FROM t",
        S,
        rows("t", (1, "a"), (2, "b"), (3, "a"), (4, "c")) + gone("t", (4, "c")),
    ),
    Report(
        "texts_in_two_orders",
        "greenplum-db/gpdb#17028",
        "SELECT STRING_AGG(a, ',' ORDER BY b) AS x, STRING_AGG(DISTINCT b, ',') AS y FROM t",
        PAIRS,
        rows("t", ("1", "1"), ("1", None), (None, "1")),
    ),
    Report(
        "distinct_texts_by_another_column",
        "duckdb/duckdb#15712",
        "SELECT STRING_AGG(DISTINCT s, ',' ORDER BY k) AS a FROM t",
        S,
        rows("t", (1, "1"), (2, "2"), (3, "1")),
        refused="ORDER BY",
    ),
    Report(
        "separator_behind_the_order",
        "duckdb/duckdb#13520",
        "SELECT k, LISTAGG(DISTINCT s, '_') WITHIN GROUP (ORDER BY s) AS a FROM t GROUP BY k",
        S,
        rows("t", (1, "B"), (1, "A"), (1, "A"), (2, None), (1, "C")) + gone("t", (1, "C")),
        expected=[(1, "A_B"), (2, None)],
    ),
    Report(
        "texts_of_only_null",
        "apache/spark#42398",
        "SELECT LISTAGG(s, '|') AS a FROM t",
        S,
        rows("t", (1, None), (2, None), (3, "x")) + gone("t", (3, "x")),
        expected=[(None,)],
    ),
    Report(
        "list_by_another_column_with_nulls",
        "h2database/h2database#1009",
        "SELECT ARRAY_AGG(s ORDER BY k) AS a FROM t",
        S,
        rows("t", (3, "c"), (1, "a"), (2, "b"), (4, "d")) + gone("t", (1, "a")),
    ),
    Report(
        "list_with_nulls",
        "prestodb/presto#5457",
        "SELECT ARRAY_AGG(s ORDER BY k RESPECT NULLS) AS a FROM t",
        S,
        rows("t", (3, None), (1, "a"), (2, None)) + gone("t", (1, "a")),
        duck="SELECT ARRAY_AGG(s ORDER BY k) FROM t",
    ),
    Report(
        "list_with_nulls_in_flink",
        "prestodb/presto#5457",
        "SELECT ARRAY_AGG(s ORDER BY k) AS a FROM t",
        S,
        rows("t", (3, None), (1, "a"), (2, None)) + gone("t", (1, "a")),
        options={"dialect": "flink"},
    ),
    Report(
        "median_with_nulls",
        "ClickHouse/ClickHouse#2009",
        "SELECT MEDIAN(x) AS m FROM t",
        D,
        rows("t", None, None, -10.2, 10.2, 99.0) + gone("t", 99.0),
    ),
    Report(
        "percentile_with_nulls",
        "apache/datafusion#11720",
        "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x) AS m FROM t",
        D,
        rows("t", 1.0, 2.0, 3.0, None, None, None),
    ),
    Report(
        "average_filtered_in_order",
        "apache/pinot#12036",
        "SELECT k, AVG(x) FILTER (WHERE x > 10) AS f, AVG(x) AS a FROM t GROUP BY k ORDER BY AVG(x) LIMIT 2",
        {"t": "k INT, x DOUBLE"},
        rows("t", (1, 20.0), (1, 4.0), (2, 1.0), (3, 50.0), (4, 0.0)) + gone("t", (4, 0.0)),
    ),
    Report(
        "constants_over_a_left_join",
        "apache/doris#62107",
        "SELECT a.k, SUM(2) AS s, MIN(1) AS m, MAX(3) AS n FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k",
        {"a": "k INT", "b": "k INT"},
        rows("a", 1, 2) + rows("b", 1, 1, 2) + gone("b", 2),
    ),
    Report(
        "count_over_a_right_join_on_one_side",
        "MaterializeInc/materialize#7052",
        "SELECT d.n FROM t1 JOIN (SELECT COUNT(*) AS n, MAX(t2.f2) AS m FROM t2 RIGHT JOIN t3 ON t3.f2 = 6) AS d"
        " ON TRUE WHERE t1.f2 = d.m",
        {"t1": "f2 INT", "t2": "f2 INT", "t3": "f2 INT"},
        rows("t1", 0) + rows("t2", 0) + rows("t3", 0, 0, 1, 6),
    ),
    Report(
        "count_of_subjects_after_an_update",
        "MaterializeInc/materialize#2203",
        "SELECT a.id, a.name, COUNT(DISTINCT b.sub) AS n FROM a INNER JOIN b ON a.id = b.stud GROUP BY a.id, a.name",
        {"a": "id INT, name STRING", "b": "stud INT, sub INT"},
        rows("a", (1, "Ram"), (2, "Kiran"))
        + rows("b", (1, 1), (1, 2), (2, 1))
        + [("b", "-U", 2, 1), ("b", "+U", 2, 2)],
    ),
]


@named(REPORTS)
def test_report_of_values(report: Report) -> None:
    check(report)
