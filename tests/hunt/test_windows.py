"""Public reports of wrong ranks, Top-N, OVER frames and windows of time, rebuilt."""

from __future__ import annotations

from datetime import datetime

from reports import Report, check, gone, named, rows

ABC = {"t": "a INT, b INT, c INT"}
POV = {"agg": "p INT, o INT, v INT"}
POINTS = rows(
    "agg", (0, 0, 1), (1, 1, 2), (1, 2, 3), (1, 3, 4), (1, 4, 5), (2, 5, 6), (2, 6, 7), (2, 7, 8)
)
KV = {"t": "id INT, k INT, v INT"}
KEYED = rows("t", (1, None, 10), (2, 1, 20), (3, 2, 30), (4, 3, 40))
SCORES = {"s": "id INT, subject STRING, score INT"}
MARKS = rows(
    "s",
    (1, "math", None),
    (1, "english", 100),
    (2, "math", 80),
    (2, "physics", None),
    (3, "math", 95),
    (3, "physics", 99),
    (4, "math", 80),
    (6, None, 90),
)
AT = {"t1": "k INT, ts TIMESTAMP_NTZ"}


def at(hour: int, minute: int = 0, day: int = 1) -> datetime:
    """A moment of January 2021."""
    return datetime(2021, 1, day, hour, minute)


REPORTS = [
    Report(
        "equal_rows_in_top_1",
        "risingwavelabs/risingwave#12282",
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) AS n FROM t) WHERE n <= 1",
        ABC,
        rows("t", (1, 1, 1), (1, 0, 1), (1, 0, 1)) + gone("t", (1, 0, 1)),
    ),
    Report(
        "second_row_only",
        "risingwavelabs/risingwave#24527",
        "SELECT x, y, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY x ORDER BY y) AS n FROM t) WHERE n = 2",
        {"t": "x INT, y INT"},
        rows("t", (1, 1), (1, 2), (1, 3), (2, 5)) + gone("t", (1, 1)),
    ),
    Report(
        "rank_by_expressions",
        "risingwavelabs/risingwave#13461",
        "SELECT x, y FROM (SELECT *, RANK() OVER (PARTITION BY x DIV 2 ORDER BY 6 - y) AS r FROM t) WHERE r <= 3",
        {"t": "x INT, y INT"},
        rows("t", (1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 4), (2, 5), (3, 4), (3, 5)),
        duck="SELECT x, y FROM (SELECT *, RANK() OVER (PARTITION BY x // 2 ORDER BY 6 - y) AS r FROM t) WHERE r <= 3",
    ),
    Report(
        "limit_and_offset_over_counts",
        "risingwavelabs/risingwave#14900",
        "SELECT sa, COUNT(*) AS n FROM (SELECT SUM(a) AS sa FROM t) AS m GROUP BY sa ORDER BY n DESC LIMIT 50"
        " OFFSET 50",
        ABC,
        rows("t", (1, 1, 1), (2, 2, 2)),
    ),
    Report(
        "order_by_without_limit",
        "risingwavelabs/risingwave#6905",
        "SELECT * FROM t ORDER BY a",
        ABC,
        [],
        refused="ORDER BY",
    ),
    Report(
        "top_n_row_is_dropped_and_then_deleted",
        "apache/flink#19778",
        "SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) AS n FROM t) WHERE n <= 2",
        ABC,
        rows("t", (1, 5, 0), (1, 6, 0), (1, 1, 0)) + gone("t", (1, 6, 0)) + gone("t", (1, 1, 0)),
    ),
    Report(
        "retraction_beyond_the_top",
        "apache/flink#14173",
        "SELECT a, b, c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) AS n FROM t) WHERE n <= 2",
        ABC,
        rows("t", (1, 1, 0), (1, 2, 0), (1, 3, 0), (1, 4, 0))
        + gone("t", (1, 1, 0), (1, 4, 0), (1, 3, 0)),
    ),
    Report(
        "counts_that_change_places",
        "apache/flink#16284",
        "SELECT a, n, r FROM (SELECT a, n, ROW_NUMBER() OVER (ORDER BY n DESC, a) AS r FROM"
        " (SELECT a, COUNT(*) AS n FROM t GROUP BY a) AS c) AS d WHERE r <= 2",
        ABC,
        rows("t", (1, 0, 0), (1, 0, 1), (2, 0, 0), (2, 0, 1), (2, 0, 2), (3, 0, 0))
        + gone("t", (2, 0, 0), (2, 0, 1)),
    ),
    Report(
        "counts_that_fall_in_top_n",
        "apache/flink#17605",
        "SELECT a, s FROM (SELECT a, s, ROW_NUMBER() OVER (ORDER BY s DESC, a) AS r FROM"
        " (SELECT a, SUM(b) AS s FROM t GROUP BY a) AS c) AS d WHERE r <= 1",
        ABC,
        rows("t", (1, 100, 0), (2, 80, 0), (1, -90, 0)),
    ),
    Report(
        "last_row_by_a_plain_column",
        "apache/flink#16434",
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) AS n FROM t) WHERE n = 1",
        ABC,
        rows("t", (1, 1, 7), (1, 3, 8), (1, 2, 9), (2, None, 1)) + gone("t", (1, 3, 8)),
    ),
    Report(
        "row_number_by_null",
        "duckdb/duckdb#24363",
        "SELECT * FROM (SELECT c0, ROW_NUMBER() OVER (PARTITION BY c0 ORDER BY c1) AS n FROM t) AS u WHERE n <= 7",
        {"t": "c0 INT, c1 INT"},
        rows("t", (3, None), (3, None)),
    ),
    Report(
        "range_with_nulls_last",
        "MonetDB/MonetDB#8009",
        "SELECT id, k, SUM(v) OVER (ORDER BY k ASC NULLS LAST RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM t",
        KV,
        KEYED,
    ),
    Report(
        "range_with_nulls_first",
        "dolthub/go-mysql-server#3859",
        "SELECT id, SUM(v) OVER (ORDER BY k ASC NULLS FIRST RANGE BETWEEN CURRENT ROW AND CURRENT ROW) AS s FROM t",
        KV,
        KEYED + rows("t", (5, None, 50), (6, 2, 60)) + gone("t", (1, None, 10)),
    ),
    Report(
        "range_zero_preceding",
        "cockroachdb/cockroach#45806",
        "SELECT id, COUNT(v) OVER (ORDER BY k NULLS FIRST RANGE BETWEEN 0 PRECEDING AND 0 FOLLOWING) AS n FROM t",
        KV,
        KEYED + rows("t", (5, None, 50), (6, 2, 60)),
    ),
    Report(
        "range_ends_before_the_row",
        "pingcap/tiflash#10236",
        "SELECT p, o, COUNT(v) OVER (PARTITION BY p ORDER BY o RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING) AS"
        " c FROM agg",
        POV,
        POINTS + rows("agg", (1, 2, 30)) + gone("agg", (1, 1, 2)),
    ),
    Report(
        "range_one_following_only",
        "duckdb/duckdb#16098",
        "SELECT p, o, SUM(v) OVER (PARTITION BY p ORDER BY o RANGE BETWEEN 1 FOLLOWING AND 1 FOLLOWING) AS s FROM agg",
        POV,
        POINTS + rows("agg", (1, None, 9), (1, 4, 1)),
        duck="SELECT p, o, SUM(v) OVER (PARTITION BY p ORDER BY o NULLS FIRST RANGE BETWEEN 1 FOLLOWING AND 1"
        " FOLLOWING)"
        " AS s FROM agg",
    ),
    Report(
        "rows_that_begin_behind_the_partition",
        "pingcap/tiflash#7930",
        "SELECT p, o, FIRST_VALUE(v) OVER (PARTITION BY p ORDER BY o ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING) AS f,"
        " LAST_VALUE(v) OVER (PARTITION BY p ORDER BY o ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) AS l FROM agg",
        POV,
        POINTS,
    ),
    Report(
        "frame_of_a_column",
        "duckdb/duckdb#24632",
        "SELECT p, COUNT(*) OVER (ORDER BY o ROWS BETWEEN v PRECEDING AND CURRENT ROW) AS n FROM agg",
        POV,
        POINTS,
        refused="PRECEDING",
    ),
    Report(
        "row_number_ignores_its_frame",
        "facebookincubator/velox#5154",
        "SELECT o, ROW_NUMBER() OVER (ORDER BY o ROWS BETWEEN 100 PRECEDING AND 90 PRECEDING) AS n FROM agg",
        POV,
        POINTS,
        refused="frame",
    ),
    Report(
        "last_value_ignore_nulls",
        "StarRocks/starrocks#42267",
        "SELECT id, subject, LAST_VALUE(score) IGNORE NULLS OVER (PARTITION BY subject ORDER BY score DESC NULLS LAST"
        " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS l FROM s",
        SCORES,
        MARKS,
        duck="SELECT id, subject, LAST_VALUE(score IGNORE NULLS) OVER (PARTITION BY subject ORDER BY score"
        " DESC NULLS LAST"
        " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS l FROM s",
    ),
    Report(
        "last_value_without_a_frame",
        "StarRocks/starrocks#14983",
        "SELECT pt, sku, LAST_VALUE(inv) OVER (PARTITION BY sku ORDER BY pt) AS l FROM i",
        {"i": "pt INT, sku INT, inv INT"},
        rows("i", (1, 1, 10), (2, 1, 20), (3, 1, 30), (1, 2, 5)) + gone("i", (2, 1, 20)),
    ),
    Report(
        "hop_after_an_update",
        "risingwavelabs/risingwave#10726",
        "SELECT k, ts, window_start, window_end FROM TABLE(HOP(TABLE t1, DESCRIPTOR(ts), INTERVAL '10' MINUTE,"
        " INTERVAL '30' MINUTE))",
        AT,
        rows("t1", (1, at(10, 15)), (2, at(10, 15)))
        + gone("t1", (1, at(10, 15)))
        + rows("t1", (1, at(10, 55))),
        expected=[
            (k, ts, at(9 + (m // 60), m % 60), at(9 + (m + 30) // 60, (m + 30) % 60))
            for k, ts, first in ((2, at(10, 15), 50), (1, at(10, 55), 90))
            for m in (first, first + 10, first + 20)
        ],
    ),
    Report(
        "tumble_with_an_offset",
        "risingwavelabs/risingwave#15198",
        "SELECT k, window_start, window_end FROM TABLE(TUMBLE(TABLE t1, DESCRIPTOR(ts), INTERVAL '1' DAY,"
        " INTERVAL '6' HOUR))",
        AT,
        rows("t1", (1, at(1, 30, day=2)), (2, at(6, 0, day=2))),
        expected=[(1, at(6, day=1), at(6, day=2)), (2, at(6, day=2), at(6, day=3))],
    ),
]


@named(REPORTS)
def test_report_of_windows(report: Report) -> None:
    check(report)
