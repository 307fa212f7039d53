"""Frames by GROUPS, and EXCLUDE: functions of every kind beside a model that lists the rows of each frame."""

from __future__ import annotations

import random
from typing import Any

import pytest

from aggloom import Harness

TABLES = {"t": "g INT, o INT, id INT, v INT"}
Row = tuple[Any, ...]
ITEMS = (
    "SUM(v)",
    "COUNT(v)",
    "MAX(v)",
    "COUNT(DISTINCT v)",
    "FIRST_VALUE(v)",
    "LAST_VALUE(v)",
    "NTH_VALUE(v, 2)",
    "NTH_VALUE(v, 2) IGNORE NULLS",
    "ARRAY_AGG(id)",
)
FRAMES = (
    "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    "GROUPS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    "GROUPS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
)
EXCLUDES = ("NO OTHERS", "CURRENT ROW", "GROUP", "TIES")


def _far(word: str) -> float:
    if word == "CURRENT ROW":
        return 0
    number, side = word.split()
    far = float("inf") if number == "UNBOUNDED" else int(number)
    return -far if side == "PRECEDING" else far


def frame_rows(rows: list[Row], place: int, frame: str, exclude: str) -> list[Row]:
    """The rows of a frame, of rows of one key in order; ties stand as they came."""
    kind, _, bounds = frame.partition(" BETWEEN ")
    first, last = map(_far, bounds.split(" AND "))
    orders = sorted({row[1] for row in rows})
    own = rows[place]

    def distance(number: int) -> float:
        if kind == "ROWS":
            return number - place
        if kind == "GROUPS":
            return orders.index(rows[number][1]) - orders.index(own[1])
        return float(rows[number][1] - own[1])

    found = [n for n in range(len(rows)) if first <= distance(n) <= last]
    if exclude in ("CURRENT ROW", "GROUP"):
        found = [n for n in found if n != place]
    if exclude in ("GROUP", "TIES"):
        found = [n for n in found if rows[n][1] != own[1] or n == place]
    return [rows[n] for n in found]


def values_of(rows: list[Row]) -> Row:
    """The values of the items over the rows of a frame."""
    every = [row[3] for row in rows]
    given = [value for value in every if value is not None]
    listed = [row[2] for row in rows]
    return (
        sum(given) if given else None,
        len(given),
        max(given, default=None),
        len(set(given)),
        every[0] if every else None,
        every[-1] if every else None,
        every[1] if len(every) > 1 else None,
        given[1] if len(given) > 1 else None,
        listed,
    )


def random_changes(draw: random.Random, live: list[Row], number: int) -> list[Row]:
    changes: list[Row] = []
    for step in range(draw.randrange(1, 6)):
        if live and draw.random() < 0.4:
            gone = live.pop(draw.randrange(len(live)))
            changes.append(("-D", *gone))
            continue
        row = (
            draw.randrange(2),
            draw.randrange(5),
            10 * number + step,
            draw.choice([None, 1, 2, 7]),
        )
        live.append(row)
        changes.append(("+I", *row))
    return changes


@pytest.mark.parametrize("exclude", EXCLUDES)
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.sampled(14)
def test_frames_beside_their_rows(frame: str, exclude: str) -> None:
    over = f"OVER (PARTITION BY g ORDER BY o {frame} EXCLUDE {exclude})"
    items = ", ".join(f"{item} {over} AS w{n}" for n, item in enumerate(ITEMS))
    query = f"SELECT g, id, {items} FROM t"
    for mode in (True, False):
        draw, live = random.Random(len(frame) + mode), list[Row]()
        options: Any = {"backend": "python", "options": {"mini_batch_enabled": mode}}
        running = Harness.from_sql(query, TABLES, **options)
        table: list[Row] = []
        for number in range(6):
            running.process(random_changes(draw, live, number))
            running.flush()
            for kind, *row in running.changes():
                table.append(tuple(row)) if kind in ("+I", "+U") else table.remove(tuple(row))
            expected = []
            for g in range(2):
                # A sort that keeps the order of arrival.
                own = sorted((row for row in live if row[0] == g), key=lambda row: row[1])
                for place, row in enumerate(own):
                    values = values_of(frame_rows(own, place, frame, exclude))
                    expected.append((g, row[2], *values))
            assert sorted(map(_plain, table)) == sorted(map(_plain, expected)), (mode, number)
            if number == 2:
                state = running.snapshot()
                running.close()
                running = Harness.from_sql(query, TABLES, **options)
                running.restore(state)
                running.changes()
        running.close()


def _plain(row: Row) -> list[str]:
    """A row that can be sorted; an empty array is none, as Flink's is over no rows."""
    return [str(None if value in ([], None) else value) for value in row]


def test_compiled_handlers_leave_rows_out() -> None:
    query = """SELECT id, SUM(v) OVER (ORDER BY o ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
      EXCLUDE CURRENT ROW) AS s, MIN(v) OVER (ORDER BY o GROUPS 1 PRECEDING EXCLUDE TIES) AS m FROM t"""
    rows = [("+I", 0, number // 2, number, number) for number in range(6)]
    with Harness.from_sql(query, TABLES) as harness:
        harness.process(rows)
        harness.flush()
        assert [tuple(row) for row in harness.table()] == [
            *((0, 15, 0), (1, 14, 1), (2, 13, 0)),
            *((3, 12, 0), (4, 11, 2), (5, 10, 2)),
        ]


def test_a_frame_that_only_grows_takes_its_own_row_out() -> None:
    query = "SELECT id, SUM(v) OVER (ORDER BY o ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) AS s FROM t"
    with Harness.from_sql(query, TABLES, backend="python", input_changes="append") as harness:
        harness.process([("+I", 0, number, number, 1) for number in range(4)])
        harness.flush()
        assert [tuple(row) for row in harness.table()] == [(0, None), (1, 1), (2, 2), (3, 3)]


def test_by_the_clock_no_rows_tie() -> None:
    query = """CREATE VIEW w AS SELECT *, PROCTIME() AS p FROM t;
      SELECT id, SUM(v) OVER (ORDER BY p GROUPS 1 PRECEDING EXCLUDE GROUP) AS s,
        SUM(v) OVER (ORDER BY p ROWS 1 PRECEDING EXCLUDE TIES) AS u FROM w"""
    with Harness.from_sql(query, TABLES, backend="python", input_changes="append") as harness:
        harness.process([("+I", 0, 0, number, 10**number) for number in range(3)])
        harness.flush()
        assert [tuple(row) for row in harness.table()] == [(0, None, 1), (1, 1, 11), (2, 10, 110)]
