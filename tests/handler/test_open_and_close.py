"""open and close of users' classes: once before the first row, once after the last handler of a class."""

# mypy: disable-error-code="no-untyped-def,misc"
# ruff: noqa: N805

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import aggloom as al
from aggloom.errors import DataError, SpecError

SCHEMA = "k STRING, v INT"


@pytest.fixture
def decay() -> Iterator[None]:
    @al.aggregate("DECAY", arguments={"v": "INT"}, result="DOUBLE", replace=True)
    class Decay:
        """A sum by a table of weights, which open makes."""

        WEIGHTS = []  # noqa: RUF012

        def open():
            if Decay.WEIGHTS:
                raise ValueError("open already")
            Decay.WEIGHTS.extend(2.0**-i for i in range(8))

        def close():
            Decay.WEIGHTS.clear()

        def create():
            return 0.0

        def accumulate(state, v):
            return state + Decay.WEIGHTS[v]

        def retract(state, v):
            return state - Decay.WEIGHTS[v]

        def merge(state, other):
            return state + other

        def value(state):
            return state

    yield
    al.unregister("DECAY")


@pytest.mark.usefixtures("decay")
@pytest.mark.parametrize("options", [{}, {"buckets": 3}, {"mini_batch_enabled": False}])
def test_an_operator_opens_what_it_uses_and_closes_it(options: Any) -> None:
    sql = "SELECT k, DECAY(v) AS d FROM t GROUP BY k"
    for _ in range(2):
        # open would fail if the one before had not been closed.
        with al.Harness.from_sql(sql, {"t": SCHEMA}, backend="python", **options) as harness:
            harness.process([("+I", "a", 1), ("+I", "b", 0), ("+I", "a", 3), ("-D", "a", 1)])
            harness.flush()
            assert sorted(harness.table()) == [("a", 0.125), ("b", 1.0)]
            kept = harness.snapshot()
            harness.restore(kept)


@pytest.mark.usefixtures("decay")
def test_a_handler_is_opened_by_hand_or_with_its_accumulators() -> None:
    spec = al.AggSpec(SCHEMA, ("k",), [al.AggCall("DECAY", "v", alias="d")])
    first, second = (al.load(al.generate(spec))() for _ in range(2))
    first.open()
    first.open()
    second.setAccumulators(second.createAccumulators())
    second.accumulate(("a", 2))
    first.close()
    second.accumulate(("a", 1))
    assert second.getValue() == (0.75,)
    second.close()
    second.close()
    with pytest.raises(DataError, match="DECAY"):
        second.accumulate(("a", 1))
    second.open()
    second.accumulate(("a", 1))
    assert second.getValue() == (1.25,)
    second.close()


def test_a_compiled_class_is_opened_too() -> None:
    @al.aggregate("HALVES", arguments={"v": "INT"}, result="DOUBLE")
    class Halves:
        def open():
            raise ValueError("no room")

        def create():
            return 0.0

        def accumulate(state, v):
            return state + v / 2

        def value(state):
            return state

    spec = al.AggSpec(SCHEMA, ("k",), [al.AggCall("HALVES", "v", alias="h")], "append")
    source = al.generate(spec)
    assert al.load(source).BACKEND == "numba"
    with pytest.raises(DataError, match="HALVES: open failed: ValueError: no room"):
        al.Harness(spec)
    al.unregister("HALVES")


def test_what_they_take() -> None:
    with pytest.raises(SpecError, match=r"open must take 0 arguments"):

        @al.aggregate("WRONG", arguments={"v": "INT"}, result="DOUBLE")
        class Wrong:
            def open(context):
                pass

            def create():
                return 0.0

            def accumulate(state, v):
                return state

            def value(state):
                return state
