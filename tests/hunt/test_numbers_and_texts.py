"""Public reports of wrong numbers, texts and types, rebuilt: remainders, negative zero, casts, SUBSTRING, LIKE."""

from __future__ import annotations

from decimal import Decimal

from reports import Report, check, gone, named, refusal, rows, valued

MAX38 = Decimal("9" * 38)
NAN = float("nan")
ZEROS = rows("t", (0.0, 1), (-0.0, 2), (1.0, 3), (-0.0, 4)) + gone("t", (-0.0, 4))
FV = {"t": "f DOUBLE, v INT"}
NANS = rows("t", (NAN, 1), (NAN, 2), (1.0, 3), (NAN, 4)) + gone("t", (NAN, 2))


NUMBERS = [
    valued(
        "least_int_modulo_minus_one",
        "duckdb/duckdb#25112",
        "x % CAST(-1 AS INT)",
        "INT",
        [(-(2**31), 0), (7, 0)],
    ),
    valued(
        "least_bigint_modulo_minus_one", "duckdb/duckdb#25129", "x % -1", "BIGINT", [(-(2**63), 0)]
    ),
    valued(
        "byte_modulo_greater_than_a_byte",
        "ClickHouse/ClickHouse#1545",
        "CAST(x AS SMALLINT) % 512",
        "INT",
        [(255, 255)],
    ),
    valued(
        "modulo_keeps_the_sign_of_the_dividend",
        "ClickHouse/ClickHouse#20067",
        "x % 3",
        "INT",
        [(-199, -1), (199, 1), (-3, 0)],
    ),
    valued(
        "wide_decimal_modulo",
        "mariadb-corporation/mariadb-columnstore-engine#4012",
        "x % 1.11",
        "DECIMAL(38, 0)",
        [(MAX38, Decimal(int("9" * 38) * 100 % 111) / 100)],
    ),
    valued(
        "decimal_modulo_of_another_scale",
        "mariadb-corporation/mariadb-columnstore-engine#4008",
        "x % 0.003",
        "DECIMAL(20, 1)",
        [(Decimal("-7.1"), Decimal("-0.002")), (Decimal("7.1"), Decimal("0.002"))],
    ),
    valued(
        "decimal_div_truncates",
        "mariadb-corporation/mariadb-columnstore-engine#4013",
        "x DIV 2",
        "DECIMAL(10, 2)",
        [(Decimal("-7.50"), -3), (Decimal("7.50"), 3)],
    ),
    valued(
        "remainder_by_a_tiny_decimal",
        "matrixorigin/matrixone#28789",
        "x % CAST('0.00000007' AS DECIMAL(18, 8))",
        "DECIMAL(30, 0)",
        [(Decimal("9" * 30), Decimal(int("9" * 30) * 10**8 % 7) / 10**8)],
    ),
    Report(
        "negative_zero_is_one_group",
        "Kyligence/ClickHouse#346",
        "SELECT f, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY f",
        FV,
        ZEROS,
    ),
    Report(
        "negative_zero_in_distinct",
        "JuliaData/DataFrames.jl#2790",
        "SELECT COUNT(DISTINCT f) AS n, SUM(DISTINCT f) AS s FROM t",
        FV,
        ZEROS,
        expected=[(2, 1.0)],
    ),
    Report(
        "negative_zero_beside_a_text_key",
        "RayforceDB/rayforce#407",
        "SELECT f, CAST(v < 3 AS STRING) AS b, COUNT(*) AS n FROM t GROUP BY f, CAST(v < 3 AS STRING)",
        FV,
        ZEROS,
    ),
    Report(
        "negative_zero_in_partitions",
        "apache/doris#5226",
        "SELECT v, n FROM (SELECT v, ROW_NUMBER() OVER (PARTITION BY f ORDER BY v) AS n FROM t) AS q WHERE n <= 5",
        FV,
        ZEROS,
    ),
    Report(
        "negative_zero_in_joins",
        "ClickHouse/ClickHouse#115970",
        "SELECT a.v, b.v AS w FROM t AS a JOIN t AS b ON a.f = b.f WHERE a.f IN (0.0)",
        FV,
        ZEROS,
    ),
    Report(
        "negative_zero_made_by_an_expression",
        "nao1215/filesql#494",
        "SELECT DISTINCT v * 0.0E0 / -1 AS z FROM t",
        FV,
        ZEROS,
        expected=[(0.0,)],
    ),
    Report(
        "negative_zero_values_are_counted",
        "pola-rs/polars#10457",
        "SELECT f, n FROM (SELECT f, COUNT(*) AS n FROM t GROUP BY f) AS q WHERE n > 1",
        FV,
        ZEROS,
    ),
    Report(
        "nan_is_one_key", "scipp/scipp#1978", "SELECT f, COUNT(*) AS n FROM t GROUP BY f", FV, NANS
    ),
    Report(
        "nan_beside_null",
        "NVIDIA/cudf#2500",
        "SELECT f, COUNT(*) AS n, COUNT(f) AS c FROM t GROUP BY f",
        FV,
        NANS + rows("t", (None, 7), (None, 8)),
    ),
]

CASTS = [
    refusal(
        "digits_before_letters",
        "MonetDB/MonetDB#3424",
        "CAST(x AS INT)",
        "STRING",
        "00asdf1",
        "00asdf1",
    ),
    refusal(
        "fraction_under_ansi",
        "facebookincubator/velox#16248",
        "CAST(x AS BIGINT)",
        "STRING",
        "12.5",
        "12.5",
    ),
    valued(
        "coalesce_of_two_scales",
        "matrixorigin/matrixone#24842",
        "COALESCE(CAST(NULL AS DECIMAL(23, 2)), 7.01970 * x)",
        "DECIMAL(23, 2)",
        [(Decimal("-58140.00"), Decimal("-408125.3580000"))],
    ),
    Report(
        "sum_of_coalesced_decimal_and_int",
        "apache/doris#2002",
        "SELECT SUM(COALESCE(p * q, 0)) AS s FROM t",
        {"t": "p DECIMAL(7, 2), q INT"},
        rows("t", (Decimal("1.25"), 3), (None, 4), (Decimal("2.50"), 1))
        + gone("t", (Decimal("2.50"), 1)),
    ),
    valued(
        "coalesce_of_column_and_literal",
        "apache/doris#7825",
        "COALESCE(x, 999)",
        "DECIMAL(5, 2)",
        [(None, 999), (1, 1)],
    ),
    Report(
        "coalesce_of_average_and_product",
        "cockroachdb/cockroach#73587",
        "SELECT COALESCE(AVG(x), 5 * 7) AS a FROM t WHERE x > 100",
        {"t": "x INT"},
        rows("t", 5, 101, 104) + gone("t", 101, 104),
        expected=[(35,)],
    ),
    valued(
        "coalesce_of_double_and_decimal",
        "dolthub/go-mysql-server#2303",
        "COALESCE(x, 0.5)",
        "DOUBLE",
        [(None, 0.5), (1e300, 1e300)],
    ),
    refusal(
        "coalesce_of_boolean_and_int",
        "tobymao/sqlglot#2321",
        "COALESCE(x, 0)",
        "BOOLEAN",
        True,
        "COALESCE",
    ),
    Report(
        "union_of_sum_and_decimal",
        "dolthub/dolt#4331",
        "SELECT SUM(n) AS s FROM (SELECT COUNT(*) AS n FROM t UNION ALL SELECT 2.00 AS n FROM t) AS u",
        {"t": "x INT"},
        rows("t", 1),
    ),
    Report(
        "union_of_scales",
        "apache/drill#2006",
        "SELECT a FROM t UNION ALL SELECT b FROM t",
        {"t": "a DECIMAL(5, 1), b DECIMAL(9, 5)"},
        rows("t", (Decimal("9999.9"), Decimal("1.12345"))),
    ),
    Report(
        "union_by_place_of_scales",
        "stoneatom/stonedb#1885",
        "SELECT d1, d1 AS e, d2 FROM t UNION SELECT d2, d3, d3 FROM t",
        {"t": "d1 DECIMAL(18, 5), d2 DECIMAL(18, 10), d3 DECIMAL(18, 17)"},
        rows(
            "t",
            (Decimal("125"), Decimal("1.25"), Decimal("0.125")),
            (Decimal("-125"), Decimal("-1.25"), Decimal("-0.125")),
        ),
    ),
    Report(
        "union_beyond_38_digits",
        "apache/doris#27870",
        "SELECT CAST(x AS DECIMAL(27, 9)) AS d FROM t UNION ALL SELECT CAST(x + 1 AS DECIMAL(38, 4)) FROM t",
        {"t": "x INT"},
        rows("t", 1),
        expected=[(1,), (2,)],
    ),
    Report(
        "union_of_bigint_and_wide_decimal",
        "mariadb-corporation/mariadb-columnstore-engine#1899",
        "SELECT SUM(v) AS s FROM (SELECT a AS v FROM t UNION SELECT b FROM t) AS u",
        {"t": "a DECIMAL(38, 0), b BIGINT"},
        rows("t", (Decimal(10**30), 2**63 - 1), (Decimal(5), 5)) + gone("t", (Decimal(5), 5)),
        expected=[(10**30 + 2**63 - 1,)],
    ),
    Report(
        "union_of_decimal_and_double",
        "apache/spark#4004",
        "SELECT a FROM t UNION SELECT b FROM t",
        {"t": "a DECIMAL(10, 2), b DOUBLE"},
        rows("t", (Decimal("1.50"), 1.5), (Decimal("2.25"), 0.1)),
    ),
]

TEXTS = [
    valued(
        "substring_from_the_end_by_characters",
        "tursodatabase/turso#5749",
        "SUBSTRING(x, -2, 3)",
        "STRING",
        [("café", "fé"), ("日本語", "本語"), ("a", "a"), ("", "")],
    ),
    valued(
        "substring_behind_the_end",
        "apache/doris#37912",
        "SUBSTRING(x, 5)",
        "STRING",
        [("中文测试", ""), ("中文测试吗", "吗")],
    ),
    valued(
        "substring_before_the_start",
        "samber/lo#909",
        "SUBSTRING(x, -6, 3)",
        "STRING",
        [("héllo", "hé"), ("日本語", ""), ("abcdef", "abc")],
    ),
    valued(
        "substring_from_zero", "apache/arrow#5236", "SUBSTRING(x, 0, 2)", "STRING", [("çåå†", "çå")]
    ),
    valued(
        "substring_of_astral_characters",
        "goldmansachs/jdmn#831",
        "SUBSTRING(x, -5, 2)",
        "STRING",
        [("foo🐎bar😀", "🐎b")],
    ),
    valued(
        "substring_from_for",
        "elliotchance/vsql#113",
        "SUBSTRING(x FROM 3 FOR 99)",
        "STRING",
        [("hello", "llo")],
    ),
    valued(
        "substring_of_negative_length",
        "HuoLanguage/huo#18",
        "SUBSTRING(x, 2, -1)",
        "STRING",
        [("hello", "")],
    ),
    valued(
        "like_takes_newlines",
        "oap-project/gazelle_plugin#1079",
        "x LIKE 'a%b'",
        "STRING",
        [("a\nb", True), ("a.b", True), ("a\nbc", False)],
    ),
]


@named(NUMBERS)
def test_report_of_numbers(report: Report) -> None:
    check(report)


@named(CASTS)
def test_report_of_types(report: Report) -> None:
    check(report)


@named(TEXTS)
def test_report_of_texts(report: Report) -> None:
    check(report)
