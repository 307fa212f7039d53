"""Which time windows in SQL go by, on whose clocks they lie, and when the options let them fire."""

from __future__ import annotations

from typing import Any

import pytest
from window_plans import CLOCKED, FIVE, HOUR, KEYS, MINUTE, assigner, planned, windows

from aggloom.codegen.spec.dtypes import INSTANT, WALL_CLOCK
from aggloom.codegen.windows import Tumble
from aggloom.errors import OptionError, UnsupportedSqlError

# Types, zones, options


def test_bounds_have_the_types_of_the_dialect() -> None:
    times = "window_start, window_end, window_time"
    for table, time in (("bid", INSTANT), ("clock", WALL_CLOCK)):
        source = f"TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), {HOUR}))"
        query = f"SELECT {times}, COUNT(*) AS n FROM {source} GROUP BY {times}"
        assert planned(query).schema.types[:3] == [time] * 3
        assert planned(query, "flink").schema.types[:3] == [WALL_CLOCK, WALL_CLOCK, time]


def test_windows_over_instants_lie_in_the_local_time_zone() -> None:
    zone = "Asia/Shanghai"
    for function in ("TUMBLE", "SESSION"):
        query = f"SELECT COUNT(*) FROM {{}} GROUP BY {function}(ts, {HOUR})"
        assert assigner(query.format("bid"), local_time_zone=zone).zone == zone
        assert assigner(query.format("bid")).zone == "UTC"
        # A wall clock is no zone's.
        assert assigner(query.format("clock"), local_time_zone=zone).zone == "UTC"
    query = f"SET 'table.local-time-zone' = 'Nowhere'; SELECT COUNT(*) FROM bid GROUP BY TUMBLE(ts, {HOUR})"
    with pytest.raises(OptionError, match="no time zone 'Nowhere'"):
        planned(query)


def test_options_say_when_windows_fire() -> None:
    query = f"SELECT COUNT(*) FROM bid GROUP BY TUMBLE(ts, {HOUR})"
    settings = (
        "SET 'table.exec.emit.early-fire.enabled' = 'true'; SET 'table.exec.emit.early-fire.delay' = '5 s'; "
        "SET 'table.exec.emit.late-fire.enabled' = 'true'; SET 'table.exec.emit.late-fire.delay' = '0 s'; "
        "SET 'table.exec.emit.allow-lateness' = '1 h';"
    )
    (node,) = windows(planned(settings + query))
    assert node.windowing.text == (
        "TUMBLE(on=`ts`, size=1 h), trigger=[event time(early=5 s)], allowed_lateness=1 h"
    )
    assert node.windowing.updates
    (node,) = windows(planned(query, early_fire_enabled=True))
    assert "early=0 ms" in node.windowing.text
    (node,) = windows(planned(query, late_fire_enabled=True, state_ttl="2 h"))
    assert node.windowing.allowed_lateness == 120 * MINUTE
    (node,) = windows(
        planned(
            f"SELECT COUNT(*) FROM bid GROUP BY TUMBLE(PROCTIME(), {HOUR})", early_fire_enabled=True
        )
    )
    assert "trigger=[processing time(early=0 ms)]" in node.windowing.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"late_fire_enabled": True}, "needs table.exec.emit.allow-lateness; set it"),
        (
            {"late_fire_enabled": True, "late_fire_delay": "1 h", "allow_lateness": "1 min"},
            "set table.exec.emit.allow-lateness to at least the delay",
        ),
        ({"early_fire_delay": "-1 s"}, "not negative"),
    ],
)
def test_options_that_do_not_fit_say_so(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        planned(f"SELECT COUNT(*) FROM bid GROUP BY TUMBLE(ts, {HOUR})", **options)


# Processing time


@pytest.mark.parametrize(
    "query",
    [
        f"{CLOCKED}SELECT name, COUNT(*) FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(pt), {HOUR})) {KEYS}, name",
        f"{CLOCKED}SELECT name, COUNT(*) FROM v GROUP BY name, TUMBLE(pt, {HOUR})",
        f"SELECT name, COUNT(*) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(PROCTIME()), {HOUR})) {KEYS}, name",
        f"SELECT TUMBLE_PROCTIME(PROCTIME(), {HOUR}) FROM bid GROUP BY TUMBLE(PROCTIME(), {HOUR})",
        "SELECT COUNT(*) FROM (SELECT p AS q FROM (SELECT PROCTIME() AS p FROM bid)) "
        f"GROUP BY TUMBLE(q, {HOUR})",
        "SELECT COUNT(*) FROM (SELECT PROCTIME() AS p FROM bid UNION ALL SELECT PROCTIME() FROM clock) "
        f"GROUP BY TUMBLE(p, {HOUR})",
    ],
)
@pytest.mark.parametrize("dialect", ["spark", "flink"])
def test_proctime_means_the_clock(query: str, dialect: str) -> None:
    (node,) = windows(planned(query, dialect))
    assert node.windowing.assigner == Tumble("1 h")
    assert node.bounds.type == (WALL_CLOCK if dialect == "flink" else INSTANT)
    assert node.bounds.time_type == INSTANT


def test_a_window_over_windows_by_the_clock_goes_by_the_clock() -> None:
    inner = (
        f"{CLOCKED}CREATE VIEW w AS SELECT name, window_time, COUNT(*) AS n "
        f"FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(pt), {FIVE})) {KEYS}, window_time, name; "
    )
    plan = planned(
        f"{inner}SELECT SUM(n) FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(window_time), {HOUR})) {KEYS}"
    )
    assert [node.windowing.assigner for node in windows(plan)] == [Tumble("5 min"), Tumble("1 h")]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT COUNT(*) FROM bid GROUP BY PROCTIME()", "PROCTIME() elsewhere than in SELECT"),
        (
            "SELECT name, PROCTIME() AS p, COUNT(*) FROM bid GROUP BY name",
            "time of processing over",
        ),
    ],
)
def test_proctime_is_a_value_of_rows_that_are_added(query: str, words: str) -> None:
    with pytest.raises(UnsupportedSqlError) as caught:
        planned(query)
    message = str(caught.value)
    assert words in message.splitlines()[0]
    assert "^" in message
