"""Conditions on the clock beside what they say in Python, and random changes under a steered clock.

The model asks each condition anew at every moment, and knows nothing of times at which rows come and leave.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

Row = tuple[Any, ...]
COLUMNS = "id INT, k INT, ts TIMESTAMP_LTZ, w TIMESTAMP_NTZ, d DATE"
BEGIN = dt.datetime(2024, 3, 30, 22, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


class Condition(NamedTuple):
    """A condition in SQL, and in Python: of a row and the time, None where it is NULL."""

    sql: str
    holds: Callable[[Any, dt.datetime, dt.tzinfo], bool | None]


class Values(NamedTuple):
    """A row by the names of its columns."""

    id: int
    k: int | None
    ts: dt.datetime | None
    w: dt.datetime | None
    d: dt.date | None


def _instant(wall: dt.datetime, zone: dt.tzinfo) -> dt.datetime:
    """The instant of a wall clock: the later of two, and the change of the clocks where there is none."""
    late = wall.replace(tzinfo=zone, fold=1).astimezone(dt.UTC)
    if late.astimezone(zone).replace(tzinfo=None) == wall:
        return late
    # One that is skipped: the moment at which the clocks are changed.
    before = wall
    while (
        before.replace(tzinfo=zone).astimezone(dt.UTC).astimezone(zone).replace(tzinfo=None)
        != before
    ):
        before -= dt.timedelta(minutes=15)
    after = before.replace(tzinfo=zone).astimezone(dt.UTC)
    offset = after.astimezone(zone).utcoffset()
    while after.astimezone(zone).utcoffset() == offset:
        after += dt.timedelta(minutes=1)
    return after.replace(second=0, microsecond=0)


def _midnight(day: dt.date, zone: dt.tzinfo) -> dt.datetime:
    return _instant(dt.datetime.combine(day, dt.time()), zone)


def _today(now: dt.datetime, zone: dt.tzinfo) -> dt.date:
    return now.astimezone(zone).date()


CONDITIONS = (
    Condition("ts > NOW()", lambda r, now, z: r.ts and r.ts > now),
    Condition("ts <= CURRENT_TIMESTAMP", lambda r, now, z: r.ts and r.ts <= now),
    Condition("ts > NOW() - INTERVAL '5' HOUR", lambda r, now, z: r.ts and r.ts > now - 5 * HOUR),
    Condition(
        "NOW() - INTERVAL '90' MINUTE <= ts", lambda r, now, z: r.ts and now - 1.5 * HOUR <= r.ts
    ),
    Condition("NOW() - ts < INTERVAL '2' HOUR", lambda r, now, z: r.ts and now - r.ts < 2 * HOUR),
    Condition("ts - NOW() >= INTERVAL '3' HOUR", lambda r, now, z: r.ts and r.ts - now >= 3 * HOUR),
    Condition(
        "ts BETWEEN NOW() - INTERVAL '3' HOUR AND NOW() + INTERVAL '1' HOUR",
        lambda r, now, z: r.ts and now - 3 * HOUR <= r.ts <= now + HOUR,
    ),
    Condition(
        "NOT (ts < NOW() - INTERVAL '3' HOUR OR k = 1)",
        lambda r, now, z: r.ts and r.k is not None and not (r.ts < now - 3 * HOUR or r.k == 1),
    ),
    Condition("ts IS NULL OR ts > NOW()", lambda r, now, z: r.ts is None or r.ts > now),
    Condition(
        "k = 0 OR (ts + INTERVAL '2' HOUR >= NOW() AND ts < NOW() AND k < 3)",
        lambda r, now, z: r.k == 0
        or (r.ts and r.k is not None and r.ts + 2 * HOUR >= now and r.ts < now and r.k < 3),
    ),
    Condition(
        "ts < NOW() AND k > 0 AND ts >= NOW() - INTERVAL '4' HOUR",
        lambda r, now, z: r.ts and r.k and now - 4 * HOUR <= r.ts < now,
    ),
    Condition("w > LOCALTIMESTAMP", lambda r, now, z: r.w and _instant(r.w, z) > now),
    Condition(
        "w + INTERVAL '1' HOUR <= LOCALTIMESTAMP - INTERVAL '1' HOUR",
        lambda r, now, z: r.w and _instant(r.w + 2 * HOUR, z) <= now,
    ),
    Condition(
        "w < NOW() AND d <= NOW()",
        lambda r, now, z: r.w and r.d and _instant(r.w, z) < now and _midnight(r.d, z) <= now,
    ),
    Condition("d = CURRENT_DATE", lambda r, now, z: r.d and r.d == _today(now, z)),
    Condition(
        "d > CURRENT_DATE - INTERVAL '1' DAY",
        lambda r, now, z: r.d and r.d > _today(now, z) - dt.timedelta(days=1),
    ),
    Condition(
        "d BETWEEN CURRENT_DATE AND DATE_ADD(CURRENT_DATE, 1)",
        lambda r, now, z: r.d and _today(now, z) <= r.d <= _today(now, z) + dt.timedelta(days=1),
    ),
    Condition(
        "ts >= CURRENT_DATE", lambda r, now, z: r.ts and r.ts >= _midnight(_today(now, z), z)
    ),
    Condition("ts > CURRENT_DATE", lambda r, now, z: r.ts and r.ts > _midnight(_today(now, z), z)),
    Condition(
        "w < CURRENT_DATE + INTERVAL '1' DAY",
        lambda r, now, z: r.w
        and r.w < dt.datetime.combine(_today(now, z) + dt.timedelta(days=1), dt.time()),
    ),
)
"""Conditions of every form. Those of wall clocks compare instants, where the clocks of a zone are changed."""


class Step(NamedTuple):
    """The time, the changes that come at it, and the rows that are there after them."""

    now: dt.datetime
    changes: list[Row]
    rows: Counter[Row]


def random_steps(seed: int, steps: int = 25, *, only_added: bool = False) -> Iterator[Step]:
    """Yield times, each later than the one before, with lawful changes of a table."""
    draw, now = random.Random(seed), BEGIN
    there: list[Row] = []
    number = 0
    for _ in range(steps):
        now += draw.choice(
            [dt.timedelta(milliseconds=1), dt.timedelta(minutes=draw.randrange(1, 200))]
        )
        changes: list[Row] = []
        for _ in range(draw.randrange(0, 5)):
            act = draw.random()
            if there and act < 0.5 and not only_added:
                old = there.pop(draw.randrange(len(there)))
                if act < 0.25:
                    changes.append(("-D", *old))
                    continue
                new = (old[0], *_draw_row(draw, now, 0)[1:])
                changes += [("-U", *old), ("+U", *new)]
            else:
                number += draw.random() < 0.8
                new = _draw_row(draw, now, number)
                # An equal row may be there already.
                new = draw.choice(there) if there and draw.random() < 0.1 else new
                changes.append(("+I", *new))
            there.append(new)
        yield Step(now, changes, Counter(there))


def _draw_row(draw: random.Random, now: dt.datetime, number: int) -> Row:
    def moment() -> dt.datetime:
        minutes = draw.choice([0, 15, 60, 120, draw.randrange(0, 400)])
        exact = dt.timedelta(microseconds=draw.choice([0, 0, 1, 999, 1000]))
        return now + draw.choice([-1, 1]) * (dt.timedelta(minutes=minutes) + exact)

    ts, w = (moment() if draw.random() < 0.9 else None for _ in range(2))
    day = (now + dt.timedelta(days=draw.randrange(-1, 3))).date()
    return (
        number,
        draw.choice([None, 0, 1, 2, 3]),
        ts,
        None if w is None else w.replace(tzinfo=None),
        day if draw.random() < 0.9 else None,
    )


def visible(condition: Condition, step: Step, zone: str = "UTC") -> Counter[Row]:
    """Return the rows that meet a condition at the time of a step, asked one by one."""
    where = ZoneInfo(zone)
    return Counter(
        {
            row: count
            for row, count in step.rows.items()
            if condition.holds(Values(*row), step.now, where)
        }
    )


def milliseconds(now: dt.datetime) -> int:
    """A time as the clocks of harnesses have it."""
    return (now - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(milliseconds=1)
