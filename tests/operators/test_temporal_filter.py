"""TemporalFilter beside a plain model that asks each condition anew, under a steered clock, with restarts."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples
from temporal_queries import (
    BEGIN,
    COLUMNS,
    CONDITIONS,
    Condition,
    Row,
    milliseconds,
    random_steps,
    visible,
)

from aggloom import Harness
from aggloom.errors import OrphanRetractionError
from aggloom.runtime.operators.temporal_filter.visible_times import BoundSettings, visible_times

CONDITION_IDS = [each.sql for each in CONDITIONS]


def harness(sql: str, *, zone: str = "UTC", **more: Any) -> Harness:
    options = {"table.local-time-zone": zone, **more.pop("options", {})}
    about = {"backend": "python", "options": options, **more}
    return Harness.from_sql(sql, {"t": COLUMNS}, **about)


def add_changes(table: Counter[Row], changes: Any) -> None:
    """Fold changes into a table, of which no row may be there less often than never."""
    for kind, *row in changes:
        table[tuple(row)] += 1 if kind in ("+I", "+U") else -1
        assert table[tuple(row)] >= 0, (kind, row)
    for row in [row for row, count in table.items() if not count]:
        del table[row]


def follow(
    sql: str,
    condition: Condition,
    seed: int,
    *,
    zone: str = "UTC",
    restart: bool = True,
    **more: Any,
) -> None:
    """Run random changes under a query of all columns, and compare its table with the model's after each."""
    only_added = more.get("input_changes") == "append"
    running, table = harness(sql, zone=zone, **more), Counter[Row]()
    for number, step in enumerate(random_steps(seed, only_added=only_added)):
        running.processing_time(milliseconds(step.now))
        if step.changes:
            running.process(step.changes)
        running.flush()
        add_changes(table, running.changes())
        assert table == visible(condition, step, zone), (number, step.now)
        if restart and number % 7 == 3:
            state = running.snapshot()
            running.close()
            running = harness(sql, zone=zone, **more)
            running.restore(state)
            running.processing_time(milliseconds(step.now))
            running.changes()
    running.close()


@pytest.mark.parametrize("condition", CONDITIONS, ids=CONDITION_IDS)
@pytest.mark.sampled(7)
def test_the_table_is_what_the_condition_says_at_every_moment(condition: Condition) -> None:
    follow(f"SELECT * FROM t WHERE {condition.sql}", condition, 1)
    follow(f"SELECT * FROM t WHERE {condition.sql}", condition, 2, input_changes="append")


@pytest.mark.parametrize("condition", CONDITIONS[-9:], ids=CONDITION_IDS[-9:])
def test_dates_and_wall_clocks_are_those_of_the_zone(condition: Condition) -> None:
    # The clocks of Berlin are put forward in the first night, those of New York show the day before.
    for zone in ("Europe/Berlin", "America/New_York"):
        follow(f"SELECT * FROM t WHERE {condition.sql}", condition, 5, zone=zone)


@given(st.integers(0, 10**6), st.sampled_from(CONDITIONS), st.booleans(), st.booleans())
@examples(10)
def test_random_changes(seed: int, condition: Condition, per_record: bool, append: bool) -> None:
    mode = {"mini_batch_enabled": False} if per_record else {}
    changes = "append" if append else "retract"
    sql = f"SELECT * FROM t WHERE {condition.sql}"
    follow(sql, condition, seed, input_changes=changes, options=mode)


def moments(steps: list[tuple[int, list[Row]]], sql: str, **more: Any) -> list[list[Row]]:
    """The changes of a query after each step: a time in seconds after the beginning, and rows."""
    found = []
    with harness(sql, **more) as running:
        for seconds, changes in steps:
            running.processing_time(milliseconds(BEGIN) + seconds * 1000)
            if changes:
                running.process(changes)
            running.flush()
            found.append([tuple(row) for row in running.changes()])
    return found


def at(seconds: int) -> dt.datetime:
    return BEGIN + dt.timedelta(seconds=seconds)


def row(number: int, seconds: int | None, k: int | None = 0) -> Row:
    """A row whose time is so many seconds after the beginning."""
    return (number, k, None if seconds is None else at(seconds), None, None)


def test_a_row_comes_at_its_time_and_leaves_when_it_is_over() -> None:
    sql = "SELECT id FROM t WHERE ts BETWEEN NOW() - INTERVAL '9' SECOND AND NOW()"
    steps = [(0, [("+I", *row(1, 10))]), (9, []), (10, []), (19, []), (20, []), (30, [])]
    assert moments(steps, sql) == [[], [], [("+I", 1)], [], [("-D", 1)], []]


def test_what_has_left_or_has_not_come_is_taken_back_without_a_word() -> None:
    sql = "SELECT id FROM t WHERE ts > NOW() - INTERVAL '5' SECOND AND ts <= NOW()"
    gone, early, never = row(1, 0), row(2, 60), row(3, None)
    steps = [
        (0, [("+I", *gone), ("+I", *early), ("+I", *never)]),
        (5, []),
        (6, [("-D", *gone), ("-D", *early), ("-D", *never)]),
        (60, []),
    ]
    assert moments(steps, sql) == [[("+I", 1)], [("-D", 1)], [], []]


def test_halves_of_an_update_of_which_one_is_there() -> None:
    sql = "SELECT id, k FROM t WHERE ts > NOW()"
    both = [("-U", *row(1, 50)), ("+U", *row(1, 60, 1))]
    steps = [
        (0, [("+I", *row(1, 50))]),
        (1, both),
        (2, [("-U", *row(1, 60, 1)), ("+U", *row(1, 0, 2))]),
        (3, [("-U", *row(1, 0, 2)), ("+U", *row(1, 90, 3))]),
    ]
    assert moments(steps, sql) == [
        [("+I", 1, 0)],
        [("-U", 1, 0), ("+U", 1, 1)],
        [("-D", 1, 1)],
        [("+I", 1, 3)],
    ]


def test_rows_that_have_come_for_good_are_not_held() -> None:
    sql = "SELECT * FROM t WHERE ts <= NOW()"
    with harness(sql, input_changes="append") as running:
        assert running.plan.root.changelog == ("I",)
        running.processing_time(milliseconds(BEGIN))
        running.process([("+I", *row(1, 0)), ("+I", *row(2, 5)), ("+I", *row(3, 9))])
        running.flush()
        assert running.counters["keys"] == 2
        assert running.operator.next_timers() == (None, milliseconds(at(5)))
        running.processing_time(milliseconds(at(9)))
        assert running.counters["keys"] == 0
        assert running.operator.next_timers() == (None, None)
        assert len(running.table()) == 3


@pytest.mark.parametrize("policy", ["error", "drop", "keep"])
def test_a_row_that_never_came_is_taken_back(policy: str) -> None:
    sql = "SELECT id FROM t WHERE ts > NOW() - INTERVAL '5' SECOND"
    steps = [(0, [("-D", *row(1, 0))]), (1, [("+I", *row(1, 0)), ("+I", *row(1, 0))]), (6, [])]
    about = {"options": {"on_orphan_retraction": policy}}
    if policy == "error":
        with pytest.raises(OrphanRetractionError, match="row 0 retracts from key id=1"):
            moments(steps, sql, **about)
        return
    once = 2 if policy == "drop" else 1
    assert moments(steps, sql, **about) == [[], [("+I", 1)] * once, [("-D", 1)] * once]


def test_a_debt_is_over_when_its_row_would_have_left() -> None:
    sql = "SELECT id FROM t WHERE ts > NOW() - INTERVAL '5' SECOND"
    with harness(sql, options={"on_orphan_retraction": "keep"}) as running:
        running.processing_time(milliseconds(BEGIN))
        running.process([("-D", *row(1, 0))])
        running.flush()
        assert running.counters["keys"] == 1
        running.processing_time(milliseconds(at(6)))
        assert running.counters["keys"] == 0


def test_the_state_of_a_key() -> None:
    sql = "SELECT id, k FROM t WHERE ts > NOW() AND ts < NOW() + INTERVAL '1' MINUTE"
    with harness(sql) as running:
        running.processing_time(milliseconds(BEGIN))
        running.process([("+I", *row(1, 30)), ("+I", *row(1, 30)), ("+I", *row(2, 90))])
        running.flush()
        operator = running.operator
        schema = pa.schema([("id", pa.int32()), ("k", pa.int32())])

        def state(number: int) -> list[tuple[int | None, Any]]:
            key = pa.RecordBatch.from_pylist([{"id": number, "k": 0}], schema=schema)
            return [(each.records, each.results) for each in operator.read_key_state(key)]

        assert state(1) == [(2, {"id": 1, "k": 0})] * 2
        # It waits for the clock.
        assert state(2) == [(1, {})]
        assert state(3) == []
        assert operator.count_key_rows().tolist() == [2, 1]
        rows, kinds = operator.contents()
        assert rows.num_rows == len(kinds) == 2


def test_many_rows_leave_memory_when_they_go() -> None:
    sql = "SELECT id, k FROM t WHERE ts > NOW() - INTERVAL '10' SECOND"
    with harness(sql) as running:
        running.processing_time(milliseconds(BEGIN))
        running.process([("+I", *row(number, number % 9)) for number in range(3000)])
        running.flush()
        most = running.operator.state_bytes
        running.processing_time(milliseconds(at(17)))
        assert running.counters["keys"] == 333
        running.processing_time(milliseconds(at(18)))
        assert running.counters["keys"] == 0
        assert running.operator.state_bytes < most / 10
        assert len(running.table()) == 0


def test_times_beyond_the_calendar_never_come() -> None:
    rows = pa.record_batch(
        {
            "t": pa.array([-(2**62), 0, 2**62], pa.timestamp("us", "UTC")),
            "w": pa.array([2**62] * 3, pa.timestamp("us")),
        }
    )
    for sign in ("<", "<=", ">", ">="):
        bounds = [
            BoundSettings(sign=sign, clock=clock, column=n, shift=10**15)
            for n, clock in enumerate(("instant", "wall"))
        ]
        first, end = visible_times(rows, bounds, "Europe/Berlin")
        assert len(first) == len(end) == 3
