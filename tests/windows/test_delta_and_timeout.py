"""Triggers by the difference of values and by a timeout: Flink's examples, types, what is refused, the harness."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from general_windows import SUM, TUMBLE, adds, feed, operator, sums, takes

import aggloom as al
from aggloom.codegen.windows import (
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    GlobalWindow,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    Session,
    Trigger,
    Tumble,
    Windowing,
)
from aggloom.errors import AggloomError, SpecError, TypeMismatchError, UnknownColumnError
from aggloom.runtime.values.clock import Clock

COUNTED = ProcessingTimeoutTrigger(CountTrigger(3), 100)
ANEW = ProcessingTimeoutTrigger(CountTrigger(3), 100, resets=True)
BASE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def test_a_delta_is_to_the_row_that_fired_last() -> None:
    op = operator(Windowing(GlobalWindow(), DeltaTrigger(10, "v"), updates=False), SUM)
    assert sums(feed(op, adds(5, 9, 15, 16, 26, 27, 16))) == [("+I", 45), ("+I", 98), ("+I", 114)]


def test_rows_that_are_taken_back_are_not_compared() -> None:
    op = operator(Windowing(GlobalWindow(), DeltaTrigger(10, "v")), SUM)
    assert sums(feed(op, [*adds(1), *takes(1), *adds(50, 2)])) == [
        ("+I", 50),
        ("-U", 50),
        ("+U", 52),
    ]


def test_a_delta_of_ones_own() -> None:
    grows = DeltaTrigger(3, "v", delta=lambda last, value: value - last)
    op = operator(Windowing(GlobalWindow(), PurgingTrigger(grows)), SUM)
    assert sums(feed(op, adds(10, 0, 13, 14, 15))) == [("+I", 37)]


def test_a_count_with_a_timeout() -> None:
    op = operator(Windowing(GlobalWindow(), PurgingTrigger(COUNTED)), SUM)
    assert feed(op, adds(1), Clock(0)) == [] == feed(op, adds(2), Clock(50))
    assert feed(op, [], Clock(99)) == []
    assert sums(feed(op, [], Clock(100))) == [("+I", 3)]
    # The count begins anew after a timeout, and the timeout after a count.
    assert feed(op, adds(4, 5), Clock(110)) == []
    assert sums(feed(op, adds(6), Clock(120))) == [("+I", 15)]
    assert feed(op, [], Clock(400)) == []
    assert feed(op, adds(7), Clock(500)) == [] == feed(op, [], Clock(599))
    assert sums(feed(op, [], Clock(600))) == [("+I", 7)]


def test_a_timeout_that_each_row_resets() -> None:
    op = operator(Windowing(GlobalWindow(), PurgingTrigger(ANEW)), SUM)
    assert feed(op, adds(1), Clock(0)) == [] == feed(op, adds(2), Clock(50))
    assert feed(op, [], Clock(149)) == []
    assert sums(feed(op, [], Clock(150))) == [("+I", 3)]


def test_timeouts_within_each_other_do_not_share_their_times() -> None:
    both = ProcessingTimeoutTrigger(ProcessingTimeoutTrigger(CountTrigger(9), 50), 80)
    op = operator(Windowing(GlobalWindow(), PurgingTrigger(both)), SUM)
    feed(op, adds(1), Clock(0))
    assert sums(feed(op, [], Clock(50))) == [("+I", 1)]
    assert feed(op, [], Clock(300)) == []


def test_both_survive_a_restart() -> None:
    windowing = Windowing(GlobalWindow(), ProcessingTimeoutTrigger(DeltaTrigger(5, "v"), 100))
    first, second = operator(windowing, SUM), operator(windowing, SUM)
    feed(first, adds(1, 2), Clock(0))
    second.restore(first.snapshot())
    for op in (first, second):
        assert sums(feed(op, adds(9), Clock(10))) == [("+I", 12)]
        assert feed(op, adds(1), Clock(20)) == []
        assert sums(feed(op, [], Clock(120))) == [("-U", 12), ("+U", 13)]


def harness(trigger: Trigger, kind: str, values: list[Any]) -> list[Any]:
    spec = al.AggSpec.from_sql(
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k", f"k INT, ts TIMESTAMP, x {kind}"
    )
    made = al.Harness(
        spec, backend="python", window=al.Windowing(al.GlobalWindow(), trigger, updates=False)
    )
    made.process([("+I", 1, BASE, value) for value in values])
    made.flush()
    return sorted(row[-1] for row in made.table())


@pytest.mark.parametrize(
    ("kind", "values", "threshold", "fired"),
    [
        ("INT", [1, None, 3, 5, 4], 2, [4]),
        ("DOUBLE", [1.0, float("nan"), 1.5, 2.25], 1, [4]),
        ("DECIMAL(10,2)", [Decimal("0.10"), Decimal("0.40"), Decimal("0.41")], 0.3, [3]),
        ("DECIMAL(38,0)", [Decimal(10**37), Decimal(10**37 + 1), Decimal(10**37 + 2)], 1, [3]),
        ("BIGINT", [2**62, 2**62 + 1, 2**62 + 2], 1, [3]),
    ],
)
def test_values_of_a_type_are_compared_exactly(
    kind: str, values: list[Any], threshold: float, fired: list[int]
) -> None:
    assert harness(al.DeltaTrigger(threshold, "x"), kind, values) == fired


def test_a_column_that_only_the_trigger_reads() -> None:
    words = al.DeltaTrigger(0, "x", delta=lambda last, value: last != value)
    assert harness(al.PurgingTrigger(words), "STRING", ["a", "a", "b", "b", "a"]) == [2, 3]


@pytest.mark.parametrize("kind", ["STRING", "TIMESTAMP", "ARRAY<INT>", "BOOLEAN"])
def test_values_without_a_difference_are_refused(kind: str) -> None:
    with pytest.raises(TypeMismatchError, match="DeltaTrigger compares column 'x'"):
        harness(al.DeltaTrigger(1, "x"), kind, [])


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownColumnError, match="'y'"):
        harness(al.DeltaTrigger(1, "y"), "INT", [])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DeltaTrigger("1", "v"), "threshold is '1'"),  # type: ignore[arg-type]
        (lambda: DeltaTrigger(float("nan"), "v"), "threshold is nan"),
        (lambda: ProcessingTimeoutTrigger("x", 1), "inner is 'x'"),  # type: ignore[arg-type]
        (lambda: ProcessingTimeoutTrigger(CountTrigger(1), 0), "longer than nothing"),
        (lambda: Windowing(Session(5, on="ts"), COUNTED), "ProcessingTimeoutTrigger .* sessions"),
        (
            lambda: Windowing(Session(5, on="ts"), PurgingTrigger(DeltaTrigger(1, "v"))),
            "DeltaTrigger .* sessions",
        ),
        (
            lambda: Windowing(Tumble(5), ProcessingTimeoutTrigger(EventTimeTrigger(), 5)),
            "needs event time",
        ),
    ],
)
def test_what_cannot_fire_is_refused(make: Any, message: str) -> None:
    with pytest.raises(AggloomError, match=message) as raised:
        make()
    assert isinstance(raised.value, SpecError)


def test_they_say_what_they_do() -> None:
    trigger = PurgingTrigger(ProcessingTimeoutTrigger(DeltaTrigger(2, "v"), "5 s", True, False))
    assert Windowing(TUMBLE, trigger).text.endswith(
        "trigger=[purging timeout(delta(2 of `v`), 5 s, each row resets it, keeps what it remembers)]"
    )
