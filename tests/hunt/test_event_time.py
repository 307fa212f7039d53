"""Public reports of wrong windows, sessions, late rows, temporal and interval joins, rebuilt."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from reports import Report, check, named, rows

from aggloom.runtime.local.harness import Harness

NTZ = {"t": "k INT, ts TIMESTAMP_NTZ"}
LTZ = {"t": "k INT, ts TIMESTAMP_LTZ(3)"}
ENDLESS = 4_000_000_000_000
SESSIONS = (
    "SELECT k, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts),"
    " INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end"
)


def counted(function: str, *arguments: str) -> str:
    """A count in windows of a table function."""
    listed = ", ".join(
        (f"{function}(TABLE t", "DESCRIPTOR(ts)", *(f"INTERVAL {a}" for a in arguments))
    )
    return f"SELECT window_start, window_end, COUNT(*) AS n FROM TABLE({listed})) GROUP BY window_start, window_end"


def at(text: str) -> dt.datetime:
    """A time by its text."""
    return dt.datetime.fromisoformat(text)


def second(seconds: float) -> dt.datetime:
    """A time of the first minutes of 1970."""
    return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)


def local(name: str) -> dict[str, Any]:
    """The option of a session's time zone."""
    return {"options": {"table.local-time-zone": name}, "dialect": "flink"}


WINDOWS = [
    Report(
        "negative_offset",
        "apache/flink#6932",
        counted("TUMBLE", "'1' DAY", "'-8' HOUR"),
        NTZ,
        rows("t", (1, at("2021-01-01T15:59:59")), (2, at("2021-01-01T16:00:00"))),
        expected=[
            (at("2020-12-31T16:00"), at("2021-01-01T16:00"), 1),
            (at("2021-01-01T16:00"), at("2021-01-02T16:00"), 1),
        ],
        end=ENDLESS,
    ),
    Report(
        "offset_beyond_midnight",
        "apache/flink#16215",
        counted("TUMBLE", "'1' DAY", "'8' HOUR"),
        NTZ,
        rows("t", *((n, at(f"2020-10-10T00:00:0{n}")) for n in (1, 2, 3, 4, 4, 8))),
        expected=[(at("2020-10-09T08:00"), at("2020-10-10T08:00"), 6)],
        end=ENDLESS,
    ),
    *(
        Report(
            f"row_at_the_end_in_a_zone_without_summer_time_{function.lower()}",
            "apache/flink#28006",
            counted(function, *lengths),
            LTZ,
            rows(
                "t", (1, at("2021-04-15T15:59:59.999+00:00")), (2, at("2021-04-15T16:00:00+00:00"))
            ),
            expected=[(at(start), at(end), n) for start, end, n in wanted],
            options=local("Asia/Shanghai"),
            end=ENDLESS,
        )
        for function, lengths, wanted in (
            (
                "TUMBLE",
                ("'1' DAY",),
                [("2021-04-15", "2021-04-16", 1), ("2021-04-16", "2021-04-17", 1)],
            ),
            (
                "HOP",
                ("'12' HOUR", "'1' DAY"),
                [
                    ("2021-04-15", "2021-04-16", 1),
                    ("2021-04-15T12:00", "2021-04-16T12:00", 2),
                    ("2021-04-16", "2021-04-17", 1),
                ],
            ),
            (
                "CUMULATE",
                ("'12' HOUR", "'1' DAY"),
                [
                    ("2021-04-15", "2021-04-16", 1),
                    ("2021-04-16", "2021-04-16T12:00", 1),
                    ("2021-04-16", "2021-04-17", 1),
                ],
            ),
        )
    ),
    Report(
        "hours_around_the_start_of_summer_time",
        "apache/flink#15753",
        counted("TUMBLE", "'4' HOUR"),
        LTZ,
        rows(
            "t",
            *(
                (n, at(f"2021-03-14T{hour}:30+00:00"))
                for n, hour in enumerate(("08", "09", "10", "11"))
            ),
        ),
        expected=[
            (at("2021-03-14T00:00"), at("2021-03-14T04:00"), 3),
            (at("2021-03-14T04:00"), at("2021-03-14T08:00"), 1),
        ],
        options=local("America/Los_Angeles"),
        end=ENDLESS,
    ),
    Report(
        "windows_by_row_in_a_fixed_offset",
        "datafusion-contrib/StreamFusion#119",
        "SELECT k, window_start, window_end FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))",
        LTZ,
        rows("t", (2, at("1970-01-01T00:00:00+00:00")), (3, at("1969-12-31T23:59:59.999+00:00"))),
        expected=[
            (2, at("1970-01-01T08:00:00"), at("1970-01-01T08:00:10")),
            (3, at("1970-01-01T07:59:50"), at("1970-01-01T08:00:00")),
        ],
        options=local("GMT+08:00"),
    ),
    Report(
        "days_of_a_session_zone",
        "risingwavelabs/risingwave#14772",
        counted("TUMBLE", "'1' DAY"),
        LTZ,
        rows("t", (1, at("2024-01-23T21:59:59+00:00")), (2, at("2024-01-23T22:00:00+00:00"))),
        expected=[
            (at("2024-01-23"), at("2024-01-24"), 1),
            (at("2024-01-24"), at("2024-01-25"), 1),
        ],
        options=local("Etc/GMT-2"),
        end=ENDLESS,
    ),
    Report(
        "offset_given_as_a_place_of_a_table_with_zone",
        "risingwavelabs/risingwave#6793",
        "SELECT k, window_start FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' MINUTE))",
        LTZ,
        rows("t", (1, at("2022-07-12T14:01:59+00:00"))),
        expected=[(1, at("2022-07-12T14:00:00"))],
    ),
    Report(
        "sessions_that_a_row_joins",
        "laminardb/laminardb#79",
        SESSIONS,
        NTZ,
        rows("t", (1, second(0)), (1, second(8)), (2, second(30)), (1, second(4))),
        expected=[(1, second(0), second(13), 3), (2, second(30), second(35), 1)],
        end=ENDLESS,
    ),
    Report(
        "sessions_by_another_key_than_a_batch",
        "hstreamdb/hstream#390",
        "SELECT k, SUM(v) AS s FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' MINUTE))"
        " GROUP BY k, window_start, window_end",
        {"t": "k INT, v INT, ts TIMESTAMP_NTZ"},
        rows("t", *((4, 1, second(n)) for n in range(4))),
        expected=[(4, 4)],
        end=ENDLESS,
    ),
    Report(
        "end_of_a_session_is_its_last_row_and_the_gap",
        "confluentinc/ksql#1995",
        SESSIONS.replace("'5'", "'30'"),
        NTZ,
        rows("t", (0, second(0)), (0, second(10)), (100, second(30)), (0, second(40))),
        expected=[(0, second(0), second(70), 3), (100, second(30), second(60), 1)],
        end=ENDLESS,
    ),
]


@named(WINDOWS)
def test_report_of_windows_in_time(report: Report) -> None:
    check(report)


@dataclass(frozen=True)
class Story:
    """A report whose watermarks matter: steps are rows with their table, or watermarks in ms."""

    name: str
    source: str
    sql: str
    tables: dict[str, str]
    steps: Sequence[Any]
    expected: Sequence[tuple[Any, ...]]
    options: dict[str, Any] = field(default_factory=dict)


TWO = {"l": "id INT, at TIMESTAMP_NTZ", "r": "id INT, at TIMESTAMP_NTZ"}
WITHIN = "l.id = r.id AND r.at BETWEEN l.at AND l.at + INTERVAL '5' SECOND"
RATES = {
    "o": "id INT, cur STRING, at TIMESTAMP_NTZ",
    "r": "cur STRING, rate INT, at TIMESTAMP_NTZ, PRIMARY KEY (cur) NOT ENFORCED",
}
STORIES = [
    Story(
        "late_row_starts_no_session",
        "hazelcast/hazelcast-jet#747",
        SESSIONS,
        NTZ,
        [("t", 1, second(0)), 10_000, ("t", 1, second(1)), ("t", 1, second(12)), ENDLESS],
        [(1, second(0), second(5), 1), (1, second(12), second(17), 1)],
    ),
    Story(
        "row_after_its_session_was_emitted",
        "apache/beam#18677",
        SESSIONS,
        NTZ,
        [("t", 1, second(0)), 6000, ("t", 1, second(3)), 8000, ENDLESS],
        [(1, second(0), second(5), 1), (1, second(3), second(8), 1)],
    ),
    Story(
        "outer_row_that_was_matched_before_its_partner_left",
        "apache/spark#26108",
        f"SELECT l.id AS a, r.id AS b FROM l LEFT JOIN r ON {WITHIN}",
        TWO,
        [("l", 1, second(10)), ("r", 1, second(10)), 12_000, 16_000, ENDLESS],
        [(1, 1)],
    ),
    Story(
        "outer_row_of_a_self_join",
        "apache/spark#23634",
        "SELECT l.id AS a, r.id AS b FROM l FULL JOIN r ON l.id = r.id AND r.at BETWEEN l.at AND l.at + INTERVAL '5'"
        " SECOND",
        TWO,
        [
            ("l", 1, second(1)),
            ("r", 1, second(1)),
            2000,
            ("l", 2, second(3)),
            9000,
            ("r", 3, second(10)),
            ENDLESS,
        ],
        [(1, 1), (2, None), (None, 3)],
    ),
    Story(
        "row_at_the_watermark_is_late",
        "apache/flink#23699",
        f"SELECT l.id AS a, r.id AS b FROM l JOIN r ON {WITHIN}",
        TWO,
        [("l", 1, second(0.999)), 998, ("r", 1, second(0.999)), ENDLESS],
        [(1, 1)],
    ),
    Story(
        "rows_of_both_sides_that_come_late",
        "apache/flink#5094",
        f"SELECT l.id AS a, r.id AS b FROM l JOIN r ON {WITHIN}",
        TWO,
        [
            5999,
            ("l", 1, second(6)),
            ("r", 1, second(6)),
            ("l", 2, second(8)),
            ("r", 2, second(14)),
            ENDLESS,
        ],
        [(1, 1)],
    ),
    Story(
        "temporal_left_join_with_a_further_condition",
        "risingwavelabs/risingwave#15257",
        "SELECT o.id AS id, r.rate AS rate FROM o LEFT JOIN r FOR SYSTEM_TIME AS OF o.at ON o.cur = r.cur"
        " AND o.id > r.rate",
        RATES,
        [("r", "x", 11, second(0)), ("o", 10, "x", second(1)), ("o", 12, "x", second(1)), ENDLESS],
        [(10, None), (12, 11)],
        {"input_changes": {"o": "append", "r": "retract"}},
    ),
    Story(
        "temporal_join_takes_the_version_of_its_time",
        "DataSQRL/sqrl#171",
        "SELECT o.id AS id, r.rate AS rate FROM o LEFT JOIN r FOR SYSTEM_TIME AS OF o.at AS r ON o.cur = r.cur",
        RATES,
        [
            *(("o", n, "x", second(n)) for n in (1, 5, 9)),
            ("r", "x", 60, second(6)),
            ("r", "x", 20, second(2)),
            ("r", "-D", "x", 60, second(8)),
            ENDLESS,
        ],
        [(1, None), (5, 20), (9, None)],
        {"input_changes": {"o": "append", "r": "retract"}},
    ),
]


@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
@pytest.mark.parametrize(
    "mode", [{}, {"mini_batch_enabled": False}, {"buckets": 3}], ids=["bundles", "rows", "buckets"]
)
def test_report_with_watermarks(story: Story, mode: dict[str, Any]) -> None:
    watermarks = {table: ("ts" if table == "t" else "at", "1 h") for table in story.tables}
    harness = Harness.from_sql(
        story.sql, story.tables, backend="python", watermarks=watermarks, **story.options, **mode
    )
    for step in story.steps:
        if isinstance(step, int):
            harness.flush()
            harness.watermark(step)
        else:
            table, *row = step
            kind = row.pop(0) if row[0] == "-D" else "+I"
            harness.process([(kind, *row)], table=table)
    harness.flush()
    plain = [
        tuple(v.replace(tzinfo=None) if isinstance(v, dt.datetime) else v for v in row)
        for row in harness.table()
    ]
    assert sorted(plain, key=repr) == sorted(story.expected, key=repr)
