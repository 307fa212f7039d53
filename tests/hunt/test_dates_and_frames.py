"""Public reports of wrong dates, intervals and OVER frames, rebuilt."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from reports import Report, check, gone, named, rows, valued

DAY = date.fromisoformat
AT = datetime.fromisoformat


DATES = [
    valued(
        "a_month_before_the_29th",
        "MonetDB/MonetDB#7227",
        "x - INTERVAL '1' MONTH",
        "DATE",
        [(DAY("2021-03-29"), DAY("2021-02-28")), (DAY("2021-07-31"), DAY("2021-06-30"))],
    ),
    valued(
        "a_year_after_leap_day",
        "MonetDB/MonetDB#7227",
        "x + INTERVAL '1' YEAR",
        "DATE",
        [(DAY("2020-02-29"), DAY("2021-02-28")), (DAY("2019-02-28"), DAY("2020-02-28"))],
    ),
    valued(
        "negative_months_of_a_date",
        "feldera/feldera#3222",
        "x + INTERVAL '-32' MONTH",
        "DATE",
        [(DAY("2023-02-26"), DAY("2020-06-26")), (DAY("1948-12-02"), DAY("1946-04-02"))],
    ),
    valued(
        "months_across_1970",
        "feldera/feldera#3222",
        "x + INTERVAL '246' MONTH",
        "DATE",
        [(DAY("1948-12-02"), DAY("1969-06-02"))],
    ),
    valued(
        "days_of_another_column",
        "matrixorigin/matrixone#3319",
        "DATE_ADD(x, k)",
        "DATE",
        [(DAY("2001-01-31"), DAY("2001-01-31")), (DAY("2002-12-31"), DAY("2003-01-01"))],
    ),
    valued(
        "add_months_from_the_last_day",
        "databendlabs/databend#18200",
        "ADD_MONTHS(x, 1)",
        "DATE",
        [(DAY("2025-04-30"), DAY("2025-05-30")), (DAY("2025-01-31"), DAY("2025-02-28"))],
    ),
    valued(
        "june_has_no_31st",
        "metabase/metabase#21841",
        "x + INTERVAL '3' MONTH",
        "DATE",
        [(DAY("2022-03-31"), DAY("2022-06-30"))],
    ),
    valued(
        "quarter_of_a_date",
        "rockset/community#19",
        "CAST(DATE_TRUNC('QUARTER', x) AS DATE)",
        "TIMESTAMP_NTZ",
        [(AT("1974-03-17"), DAY("1974-01-01")), (AT("1974-05-03"), DAY("1974-04-01"))],
    ),
    valued(
        "week_begins_on_monday",
        "rockset/community#19",
        "DATE_TRUNC('WEEK', x)",
        "TIMESTAMP_NTZ",
        [(AT("1974-03-17"), AT("1974-03-11")), (AT("1974-05-03T12:00"), AT("1974-04-29"))],
    ),
    valued(
        "truncated_hours_before_1970",
        "ClickHouse/ClickHouse#62345",
        "DATE_TRUNC('HOUR', x)",
        "TIMESTAMP_NTZ",
        [
            (AT("1960-02-11T00:59:02"), AT("1960-02-11")),
            (AT("1969-12-31T23:59:59.999"), AT("1969-12-31T23:00")),
        ],
    ),
    valued(
        "truncated_minutes_before_1970",
        "apache/datafusion#18356",
        "DATE_TRUNC('MINUTE', x)",
        "TIMESTAMP_NTZ",
        [
            (AT("1900-06-15T07:09:00"), AT("1900-06-15T07:09")),
            (AT("1900-06-15T07:09:59.5"), AT("1900-06-15T07:09")),
        ],
    ),
    valued(
        "truncated_seconds_before_1970",
        "apache/spark#27543",
        "DATE_TRUNC('SECOND', x)",
        "TIMESTAMP_NTZ",
        [
            (AT("1960-02-11T00:01:02.123"), AT("1960-02-11T00:01:02")),
            (AT("2020-02-11T00:01:02.123"), AT("2020-02-11T00:01:02")),
        ],
    ),
    valued(
        "week_of_the_first_day",
        "ClickHouse/ClickHouse#26137",
        "DATE_TRUNC('WEEK', x)",
        "TIMESTAMP_NTZ",
        [(AT("1970-01-01"), AT("1969-12-29")), (AT("1970-01-05"), AT("1970-01-05"))],
    ),
    valued(
        "week_has_no_time_of_day",
        "mediapop/datetime_truncate#2",
        "DATE_TRUNC('WEEK', x)",
        "TIMESTAMP_NTZ",
        [(AT("2015-09-03T10:10:10"), AT("2015-08-31"))],
    ),
    valued(
        "year_start_of_milliseconds",
        "duckdb/duckdb#4388",
        "DATE_TRUNC('YEAR', x)",
        "TIMESTAMP_NTZ(3)",
        [(AT("2022-08-14T01:02:03.456"), AT("2022-01-01"))],
    ),
]

C = {"t": "id INT, k INT, v INT"}
CS = rows(
    "t", (1, None, 10), (2, None, None), (3, 1, 5), (4, 2, None), (5, 2, 7), (6, 4, 11), (7, 2, 1)
) + gone("t", (7, 2, 1))
AB = {"t": "p STRING, id INT, v INT"}
ABS = rows(
    "t", ("a", 1, 10), ("a", 2, 20), ("a", 3, 30), ("b", 4, 7), ("b", 5, 11), ("b", 6, 12)
) + gone("t", ("b", 6, 12))


def nulls_first(sql: str) -> str:
    """Spark's place of NULL in an ascending order, written out for DuckDB."""
    return sql.replace("ORDER BY k RANGE", "ORDER BY k NULLS FIRST RANGE").replace(
        "ORDER BY k)", "ORDER BY k NULLS FIRST)"
    )


def framed(
    name: str, source: str, sql: str, tables: dict[str, str], changes: list[Any], **more: Any
) -> Report:
    """A query with OVER, compared with DuckDB."""
    return Report(name, source, sql, tables, changes, duck=nulls_first(sql), **more)


FRAMES = [
    framed(
        "peers_of_a_plain_sum",
        "oap-project/gazelle_plugin#1166",
        "SELECT id, SUM(v) OVER (PARTITION BY p ORDER BY k) AS s FROM t",
        {"t": "p INT, id INT, k INT, v INT"},
        rows("t", (1, 1, 1, 1), (1, 2, 1, 2), (1, 3, 2, 4), (1, 4, 2, 8), (2, 5, 1, 16))
        + gone("t", (1, 2, 1, 2)),
    ),
    framed(
        "sum_of_the_partition_column",
        "apache/datafusion#2448",
        "SELECT c2, SUM(c2) OVER (PARTITION BY c2 ORDER BY c1) AS s FROM t",
        {"t": "c1 INT, c2 INT"},
        rows("t", *((0, 1) for _ in range(4)), (0, 2)) + gone("t", (0, 1)),
    ),
    *(
        framed(
            f"null_keys_in_a_range_{name}",
            "matrixorigin/matrixone#25288",
            f"SELECT id, COUNT(*) OVER (ORDER BY k {frame}) AS n, COUNT(v) OVER (ORDER BY k {frame}) AS c, SUM(v) OVER"
            f" (ORDER BY k {frame}) AS s, MIN(v) OVER (ORDER BY k {frame}) AS m FROM t",
            C,
            CS,
        )
        for name, frame in (
            ("before", "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW"),
            ("to_the_end", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"),
            ("around", "RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING"),
        )
    ),
    framed(
        "null_keys_last_in_a_range",
        "matrixorigin/matrixone#25311",
        "SELECT id, SUM(v) OVER (ORDER BY k DESC NULLS LAST RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM t",
        C,
        CS,
    ),
    framed(
        "nulls_last_of_the_summed_column",
        "Dicklesworthstone/frankensqlite#248",
        "SELECT id, SUM(k) OVER (ORDER BY k NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s,"
        " COUNT(*) OVER (ORDER BY k NULLS LAST) AS n FROM t".replace(
            "k NULLS LAST ROWS", "k NULLS LAST, id ROWS"
        ),
        C,
        CS,
    ),
    framed(
        "frame_of_no_order",
        "MonetDB/MonetDB#8010",
        "SELECT p, id, SUM(v) OVER (PARTITION BY p RANGE BETWEEN CURRENT ROW AND CURRENT ROW) AS s FROM t",
        AB,
        ABS,
    ),
    framed(
        "range_that_ends_before_it_begins",
        "duckdb/duckdb#2059",
        "SELECT id, SUM(v) OVER (ORDER BY k RANGE BETWEEN 1 PRECEDING AND 2 PRECEDING) AS s FROM t",
        C,
        CS,
        refused="the frame ends before it starts; turn its ends around",
    ),
    framed(
        "frame_that_excludes_its_row",
        "apache/pinot#19007",
        "SELECT id, SUM(v) OVER (ORDER BY k RANGE BETWEEN 5 PRECEDING AND 5 FOLLOWING EXCLUDE CURRENT ROW) AS s FROM t",
        C,
        CS,
    ),
    framed(
        "first_and_last_value_of_a_whole_frame",
        "h2database/h2database#1454",
        "SELECT id, LAST_VALUE(v) OVER (PARTITION BY p ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED"
        " FOLLOWING) AS l FROM t",
        AB,
        ABS,
    ),
]


@named(DATES)
def test_report_of_dates(report: Report) -> None:
    check(report)


@named(FRAMES)
def test_report_of_frames(report: Report) -> None:
    check(report)
