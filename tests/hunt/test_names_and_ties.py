"""Public reports of reserved words, trailing spaces and rows of one time, rebuilt."""

from __future__ import annotations

from datetime import datetime

from reports import Report, check, gone, named, rows

AT = datetime.fromisoformat
WORDS = {"t": "id INT, a STRING"}
SPACED = rows("t", (1, "aaaaa"), (2, "aaaaa "), (3, "aaaaa"), (4, "aaaaa  ")) + gone(
    "t", (3, "aaaaa")
)
REPORTS = [
    Report(
        "column_named_timestamp",
        "hyrise/sql-parser#169",
        "SELECT `timestamp`, COUNT(name) AS n FROM test_table GROUP BY `timestamp`",
        {"test_table": "`timestamp` STRING, name STRING"},
        rows("test_table", ("x", "a"), ("x", "b")),
        expected=[("x", 2)],
    ),
    Report(
        "alias_named_order",
        "JSQLParser/JSqlParser#1365",
        "SELECT `order`, SUM(v) AS `group` FROM t GROUP BY `order` HAVING SUM(v) > 1",
        {"t": "`order` INT, v INT"},
        rows("t", (1, 1), (1, 2), (2, 1)),
        expected=[(1, 3)],
    ),
    Report(
        "order_without_quotes",
        "oguimbal/pgsql-ast-parser#79",
        "SELECT order, name FROM t WHERE name = 'ash'",
        {"t": "`order` INT, name STRING"},
        rows("t", (1, "ash")),
        expected=[(1, "ash")],
    ),
    Report(
        "column_named_at",
        "doitintl/bigquery-grafana#87",
        "SELECT at, COUNT(*) AS n FROM t WHERE at BETWEEN 1 AND 2 GROUP BY at",
        {"t": "at INT"},
        rows("t", 1, 1, 3),
        expected=[(1, 2)],
    ),
    Report(
        "columns_named_key_and_value",
        "bakwc/mysql_ch_replicator#162",
        "SELECT key, value, COUNT(*) AS n FROM t GROUP BY key, value",
        {"t": "key INT, value INT"},
        rows("t", (1, 2), (1, 2)),
    ),
    Report(
        "trailing_spaces_are_other_values",
        "pingcap/tidb#24626",
        "SELECT id FROM t WHERE a = 'aaaaa'",
        WORDS,
        SPACED,
    ),
    Report(
        "trailing_spaces_in_groups",
        "biolab/orange3#6470",
        "SELECT a, COUNT(*) AS n FROM t GROUP BY a",
        WORDS,
        SPACED,
    ),
    Report(
        "char_and_a_padded_text",
        "MonetDB/MonetDB#1813",
        "SELECT COUNT(*) AS n FROM t WHERE a = 'xxxx      '",
        {"t": "a CHAR(10)"},
        rows("t", "xxxx"),
        expected=[(0,)],
    ),
    Report(
        "last_row_of_a_window_among_equal_times",
        "datafusion-contrib/StreamFusion#120",
        "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY window_time"
        " DESC) AS rn FROM TABLE(TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn = 1",
        {"src": "id INT, k INT, ts TIMESTAMP_NTZ(3)"},
        rows("src", (2, 0, AT("1970-01-01")), (4, 0, AT("1970-01-01T00:00:05"))),
        expected=[(4,)],
        options={"dialect": "flink", "input_changes": "append"},
        end=4_000_000_000_000,
    ),
    Report(
        "later_write_of_one_instant",
        "IndustryFusion/DigitalTwin#893",
        "SELECT id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY COALESCE(seen, ts) DESC, off DESC)"
        " AS n FROM t) WHERE n = 1",
        {"t": "id INT, v INT, seen TIMESTAMP_NTZ, ts TIMESTAMP_NTZ, off INT"},
        rows(
            "t", (1, 10, None, AT("2026-01-01"), 1), (1, 20, AT("2026-01-01"), AT("2025-01-01"), 2)
        ),
        expected=[(1, 20)],
    ),
]


@named(REPORTS)
def test_report_of_names_and_ties(report: Report) -> None:
    check(report)
