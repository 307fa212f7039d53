"""Windows of months, quarters and years on the clocks of a zone, beside a plain model; restart from a snapshot."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import aggloom as al
from aggloom.codegen.windows import Windowing
from aggloom.codegen.windows.calendar import CalendarCumulate, CalendarHop, CalendarTumble
from aggloom.codegen.windows.data import windowing_data, windowing_of
from aggloom.errors import AggloomError

DAY = 86_400_000
UNITS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
TABLES = {"t": "k INT, v INT, ts TIMESTAMP"}


def bounds_of(local: dt.datetime, months: int) -> tuple[dt.datetime, dt.datetime]:
    number = (local.year * 12 + local.month - 1 - 1970 * 12) // months
    first, last = number * months + 1970 * 12, (number + 1) * months + 1970 * 12
    return dt.datetime(first // 12, first % 12 + 1, 1), dt.datetime(last // 12, last % 12 + 1, 1)


def random_rows(seed: int) -> list[tuple[int, int, dt.datetime]]:
    draw, now, found = random.Random(seed), dt.datetime(2023, 11, 3, tzinfo=dt.UTC), []
    for _ in range(80):
        now += dt.timedelta(hours=draw.randrange(0, 400), minutes=draw.randrange(60))
        found.append((draw.randrange(3), draw.randrange(9), now))
    return found


@pytest.mark.parametrize("backend", ["python", "numba"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize(
    ("count", "unit"), [(1, "MONTH"), (1, "QUARTER"), (2, "YEAR"), (5, "MONTHS")]
)
def test_windows_are_those_of_the_calendar(count: int, unit: str, zone: str, backend: Any) -> None:
    months = count * UNITS[unit.removesuffix("S")]
    query = f"""SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s
      FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '{count}' {unit})) GROUP BY k, window_start, window_end"""
    rows = random_rows(months)
    expected: dict[tuple[Any, ...], list[int]] = {}
    for k, v, ts in rows:
        local = ts.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        expected.setdefault((k, *bounds_of(local, months)), []).append(v)
    about = {"options": {"table.local-time-zone": zone}, "watermarks": {"t": ("ts", "1 day")}}
    made = {"input_changes": "append", "dialect": "flink", "backend": backend, **about}
    text = {"t": TABLES["t"].replace("TIMESTAMP", "TIMESTAMP_LTZ")}
    with al.Harness.from_sql(query, text, **made) as harness:
        harness.process([("+I", *row) for row in rows[:40]])
        saved = harness.snapshot()
        early = list(harness.changes())
        assert 0 < len(early) < len(expected)
    with al.Harness.from_sql(query, text, **made) as harness:
        harness.restore(saved)
        harness.process([("+I", *row) for row in rows[40:]])
        harness.end_of_input()
        late = list(harness.changes())
    found = sorted(row[1:] for row in (*early, *late))
    assert found == sorted((*key, len(own), sum(own)) for key, own in expected.items())


def month(number: int) -> dt.datetime:
    """The begin of a month, counted from January 1970."""
    return dt.datetime(1970 + number // 12, number % 12 + 1, 1)


def hops(local: dt.datetime, size: int, slide: int) -> list[tuple[dt.datetime, dt.datetime]]:
    starts = range(0, (2030 - 1970) * 12, slide)
    bounds = [(month(start), month(start + size)) for start in starts]
    return [(start, end) for start, end in bounds if start <= local < end]


def steps(local: dt.datetime, size: int, step: Any) -> list[tuple[dt.datetime, dt.datetime]]:
    """Windows that cumulate; step: months, or a length of time."""
    start, last = bounds_of(local, size)
    if isinstance(step, int):
        ends = [month(number) for number in range(0, (2030 - 1970) * 12, step)]
    else:
        ends = [start + step * number for number in range(1, (last - start) // step + 1)]
    return [(start, end) for end in ends if start < end <= last and local < end]


WINDOWS: dict[str, Any] = {
    "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH, INTERVAL '1' QUARTER)": (hops, 3, 1),
    "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MONTH, INTERVAL '1' YEAR)": (hops, 12, 5),
    "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' QUARTER, INTERVAL '2' MONTH)": (hops, 2, 3),
    "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH, INTERVAL '1' YEAR)": (steps, 12, 1),
    "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' QUARTER, INTERVAL '1' YEAR)": (steps, 12, 3),
    "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '1' MONTH)": (
        *(steps, 1, dt.timedelta(days=1)),
    ),
    "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '6' HOUR, INTERVAL '1' QUARTER)": (
        *(steps, 3, dt.timedelta(hours=6)),
    ),
}


@pytest.mark.parametrize("changes", ["append", "retract"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.sampled(9)
def test_windows_that_share_days(window: str, zone: str, changes: str) -> None:
    windows, size, step = WINDOWS[window]
    query = f"""SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m
      FROM TABLE({window}) GROUP BY k, window_start, window_end"""
    rows = random_rows(size)[: 30 if "6" in window else 60]
    gone = rows[5::9] if changes == "retract" else []
    expected: dict[tuple[Any, ...], list[int]] = {}
    for k, v, ts in rows:
        local = ts.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        for bounds in windows(local, size, step) if (k, v, ts) not in gone else ():
            expected.setdefault((k, *bounds), []).append(v)
    text = {"t": TABLES["t"].replace("TIMESTAMP", "TIMESTAMP_LTZ")}
    made: Any = {"input_changes": changes, "dialect": "flink", "backend": "python"}
    made |= {"options": {"table.local-time-zone": zone}, "watermarks": {"t": ("ts", "1 day")}}
    half, found = len(rows) // 2, []
    with al.Harness.from_sql(query, text, **made) as harness:
        for row in rows[:half]:
            harness.process([("+I", *row), *([("-D", *row)] if row in gone else [])])
        saved = harness.snapshot()
        found += harness.changes()
    with al.Harness.from_sql(query, text, **made) as harness:
        harness.restore(saved)
        for row in rows[half:]:
            harness.process([("+I", *row), *([("-D", *row)] if row in gone else [])])
        harness.end_of_input()
        found += harness.changes()
    assert all(row[0] == "+I" for row in found)
    told = sorted((*key, len(own), sum(own), max(own)) for key, own in expected.items())
    assert sorted(tuple(row[1:]) for row in found) == told


@pytest.mark.parametrize("window", WINDOWS)
def test_rows_beside_their_windows_of_the_calendar(window: str) -> None:
    windows, size, step = WINDOWS[window]
    rows = random_rows(9)[:20]
    query = f"SELECT k, v, ts, window_start, window_end FROM TABLE({window})"
    with al.Harness.from_sql(query, TABLES, input_changes="append", dialect="flink") as harness:
        naive = [(k, v, ts.replace(tzinfo=None)) for k, v, ts in rows]
        harness.process([("+I", *row) for row in naive])
        harness.flush()
        told = sorted((*row, *bounds) for row in naive for bounds in windows(row[2], size, step))
        assert sorted(tuple(row) for row in harness.table()) == told


def test_group_by_a_window_of_the_calendar_and_windows_without_groups() -> None:
    rows = [("+I", 1, 5, dt.datetime(2024, 2, 29, 23)), ("+I", 1, 7, dt.datetime(2024, 3, 1))]
    about: Any = {"input_changes": "append", "dialect": "flink", "watermarks": {"t": ("ts", "1 s")}}
    group = """SELECT TUMBLE_START(ts, INTERVAL '1' MONTH) AS s, SUM(v) AS v FROM t
      GROUP BY TUMBLE(ts, INTERVAL '1' MONTH)"""
    plain = "SELECT v, window_start, window_end FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' YEAR))"
    for query, expected in (
        (group, [(dt.datetime(2024, 2, 1), 5), (dt.datetime(2024, 3, 1), 7)]),
        (plain, [(v, dt.datetime(2024, 1, 1), dt.datetime(2025, 1, 1)) for v in (5, 7)]),
    ):
        with al.Harness.from_sql(query, TABLES, **about) as harness:
            harness.process(rows)
            harness.end_of_input()
            assert sorted(harness.table()) == expected


def test_a_checkpoint_knows_them() -> None:
    windowing = Windowing(CalendarTumble(3, "ts", "Europe/Berlin"))
    assert windowing_of(windowing_data(windowing)) == windowing
    for assigner in (
        CalendarHop(12, 3, "ts"),
        CalendarCumulate(12, 1, on="ts"),
        CalendarCumulate(3, on="ts", step=DAY // 4, time_zone="Europe/Berlin"),
    ):
        assert windowing_of(windowing_data(Windowing(assigner))) == Windowing(assigner)
    assert (
        assigner.text == "CUMULATE(on=`ts`, max_size=3 months, step=6 h, time zone Europe/Berlin)"
    )
    assert windowing.assigner.text == "TUMBLE(on=`ts`, size=3 months, time zone Europe/Berlin)"


@pytest.mark.parametrize("months", [1, 3, 5, 12])
def test_windows_lie_side_by_side(months: int) -> None:
    times = np.arange(-800, 60_000, 7, dtype=np.int64) * DAY + 5
    assigner = CalendarTumble(months)
    ends = assigner.slices(times)
    starts = assigner.starts(ends)
    assert ((starts <= times) & (times < ends)).all()
    assert (assigner.slices(ends - 1) == ends).all() and (assigner.slices(starts) == ends).all()


@pytest.mark.parametrize(
    ("window", "said"),
    [
        (
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '1' MONTH)",
            "needs months for SLIDE too",
        ),
        (
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH, INTERVAL '90' DAY)",
            "needs months for SIZE too",
        ),
        (
            "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' MONTH, INTERVAL '1' QUARTER)",
            "no multiple of the step 2 months",
        ),
        (
            "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '7' DAY, INTERVAL '1' MONTH)",
            "a step is a day, a part of one",
        ),
        (
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH, INTERVAL '1' YEAR, INTERVAL '1' DAY)",
            "has no offset",
        ),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0' MONTH)", "no fixed length"),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH, INTERVAL '1' DAY)", "has no offset"),
        (
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '99999' YEAR)",
            "a window has 1 to 12000 months",
        ),
    ],
)
def test_what_the_calendar_has_not(window: str, said: str) -> None:
    query = f"SELECT COUNT(*) AS n FROM TABLE({window}) GROUP BY window_start, window_end"
    with pytest.raises(AggloomError) as raised:
        al.Harness.from_sql(query, TABLES, input_changes="append", dialect="flink")
    assert said in str(raised.value)
