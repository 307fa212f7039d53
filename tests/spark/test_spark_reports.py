"""Public reports of wrong texts, casts, JSON and arrays, rebuilt: what Spark computes on the harness's behalf."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from reports import Report, check, gone, named, refusal, rows, valued

DAY = date.fromisoformat
AT = datetime.fromisoformat
NAN = float("nan")
FV = {"t": "f DOUBLE, v INT"}
ZEROS = rows("t", (0.0, 1), (-0.0, 2), (1.0, 3), (-0.0, 4)) + gone("t", (-0.0, 4))
REPORTS = [
    Report(
        "nan_and_zero_in_arrays",
        "apache/spark#23388",
        "SELECT COUNT(*) AS n FROM t GROUP BY ARRAY(f)",
        FV,
        ZEROS + rows("t", (NAN, 5), (NAN, 6)),
        expected=[(2,), (1,), (2,)],
    ),
    valued(
        "text_with_a_fraction",
        "apache/gluten#1474",
        "TRY_CAST(x AS INT)",
        "STRING",
        [("123.5", None), ("7", 7)],
    ),
    valued(
        "empty_text_as_int",
        "MicrosoftDocs/sql-docs#6408",
        "TRY_CAST(x AS INT)",
        "STRING",
        [("", None), ("5", 5)],
    ),
    valued(
        "text_beyond_a_decimal",
        "StarRocks/starrocks#100",
        "TRY_CAST(x AS DECIMAL(5, 2))",
        "STRING",
        [("1234.5", None), ("123.455", Decimal("123.46"))],
    ),
    valued(
        "if_of_decimal_and_int",
        "facebookincubator/velox#18511",
        "IF(x > 0, TRY_CAST(x / 3.0 AS DECIMAL(8, 5)), 0)",
        "INT",
        [(1, Decimal("0.33333")), (-1, 0), (2, Decimal("0.66667"))],
    ),
    refusal(
        "underscore_as_escape",
        "risingwavelabs/risingwave#16093",
        "x LIKE 'b_ear' ESCAPE '_'",
        "STRING",
        "bear",
        "the escape stands before no % and no _",
    ),
    valued(
        "escaped_wildcards",
        "questdb/questdb#3006",
        "x LIKE '%!_!%!!' ESCAPE '!'",
        "STRING",
        [("a_%!", True), ("ab%!", False), ("a_b!", False)],
    ),
    valued(
        "split_keeps_empty_ends",
        "rust-lang/regex#627",
        "SPLIT(x, '-')",
        "STRING",
        [("a--", ["a", "", ""]), ("a", ["a"]), ("-a", ["", "a"])],
    ),
    valued(
        "split_with_a_limit",
        "hail-is/hail#1423",
        "SPLIT(x, '[|]', 2)",
        "STRING",
        [("a|b|c||d||", ["a", "b|c||d||"])],
    ),
    valued(
        "split_by_a_bar_that_is_escaped",
        "hail-is/hail#1423",
        r"SPLIT(x, '\\|')",
        "STRING",
        [("a|b||", ["a", "b", "", ""])],
    ),
    valued(
        "split_by_nothing",
        "apache/spark#37631",
        "SPLIT(x, '')",
        "STRING",
        [("hello", list("hello"))],
    ),
    valued(
        "split_of_a_separator_alone",
        "OpenRefine/OpenRefine#550",
        "SPLIT(x, '/')",
        "STRING",
        [("/", ["", ""]), ("/u/f", ["", "u", "f"])],
    ),
    valued(
        "split_by_what_is_all",
        "Perl/perl5#6931",
        "SPLIT(x, 'a')",
        "STRING",
        [("aaa", ["", "", "", ""])],
    ),
    valued(
        "split_by_a_number",
        "pcingola/BigDataScript#155",
        "SPLIT(x, '[1-9][0-9]*')",
        "STRING",
        [("tag23", ["tag", ""])],
    ),
    valued(
        "years_and_months_in_one_step",
        "nao1215/filesql#1001",
        "x + INTERVAL '1-2' YEAR TO MONTH",
        "DATE",
        [(DAY("2020-02-29"), DAY("2021-04-29"))],
    ),
    valued(
        "month_of_a_timestamp",
        "IvorySQL/IvorySQL#130",
        "x - INTERVAL '1' MONTH",
        "TIMESTAMP_NTZ",
        [
            (AT("2015-04-30T10:11:12"), AT("2015-03-30T10:11:12")),
            (AT("2015-03-31T23:59"), AT("2015-02-28T23:59")),
        ],
    ),
    valued(
        "whole_weeks_across_1970",
        "ClickHouse/ClickHouse#119583",
        "TIMESTAMPDIFF(WEEK, x, TIMESTAMP_NTZ '1970-01-05 00:00:00')",
        "TIMESTAMP_NTZ",
        [(AT("1969-12-28"), 1), (AT("1969-12-30"), 0), (AT("1969-12-01"), 5)],
    ),
    valued(
        "field_behind_an_array",
        "dolthub/dolt#6848",
        "GET_JSON_OBJECT(x, '$.a.b')",
        "STRING",
        [('{"a": {"b": 1}}', "1"), ('{"a": {"b": null}}', None), ('{"a": 1}', None)],
    ),
    valued(
        "element_of_an_array",
        "StarRocks/starrocks#31520",
        "GET_JSON_OBJECT(x, '$.key1[1].key4')",
        "STRING",
        [('{"key1": null}', None), ('{"key1": [{"key2": 3}, {"key4": 5}]}', "5")],
    ),
    valued(
        "field_of_all_elements",
        "StarRocks/starrocks#7242",
        "GET_JSON_OBJECT(x, '$[*].k1')",
        "STRING",
        [('[{"k1": 1, "k2": "v2"}, {"k1": 2, "k2": "v2"}]', "[1,2]")],
    ),
    valued(
        "key_with_a_dot",
        "codeniko/JsonPathKt#9",
        """GET_JSON_OBJECT(x, "$['key.value']")""",
        "STRING",
        [('{"key.value": 1, "key": {"value": 2}}', "1"), ('{"key": {"value": 2}}', None)],
    ),
    Report(
        "unnested_null",
        "StarRocks/starrocks#20573",
        "SELECT c00, e FROM t CROSS JOIN UNNEST(c01) AS u(e)",
        {"t": "c00 INT, c01 ARRAY<BIGINT>"},
        rows("t", (1, [1, 2]), (2, None), (3, []), (4, [7])) + gone("t", (4, [7])),
    ),
    Report(
        "unnested_with_a_left_join",
        "duckdb/duckdb#7391",
        "SELECT r, e FROM t LEFT JOIN UNNEST(a) AS u(e) ON TRUE",
        {"t": "r INT, a ARRAY<INT>"},
        rows("t", (1, [1, 2, 3]), (2, [4]), (3, None), (4, [])) + gone("t", (2, [4])),
    ),
    Report(
        "array_that_becomes_empty",
        "feldera/feldera#2736",
        "SELECT id, COUNT(e) AS n, COUNT(*) AS m FROM t LEFT JOIN UNNEST(a) AS u(e) ON TRUE GROUP BY id",
        {"t": "id INT, a ARRAY<INT>"},
        rows("t", (1, [5, None])) + gone("t", (1, [5, None])) + rows("t", (1, []), (2, [None])),
    ),
    Report(
        "cross_join_of_empty_arrays",
        "trinodb/trino#3812",
        "SELECT id, e FROM t, UNNEST(a) AS u(e)",
        {"t": "id INT, a ARRAY<STRING>"},
        rows("t", (1, []), (2, None), (3, [None, "x"])),
    ),
    Report(
        "explode_outer",
        "dcmoura/spyql#69",
        "SELECT name, d FROM t LATERAL VIEW OUTER EXPLODE(a) AS d",
        {"t": "name STRING, a ARRAY<INT>"},
        rows("t", ("Alice", [1, 4]), ("Bob", [2]), ("Charles", [])) + gone("t", ("Bob", [2])),
        duck="SELECT name, d FROM t LEFT JOIN UNNEST(a) AS u(d) ON TRUE",
    ),
]


@pytest.mark.spark
@named(REPORTS)
def test_report_on_spark(spark: Any, report: Report) -> None:
    check(replace(report, options={**report.options, "session": spark}), modes=({},))
