"""Table aggregates for the tests, each with a model in plain Python over the live values of a key."""

# mypy: disable-error-code="no-untyped-def,misc"
# ruff: noqa: N805

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import aggloom as al

Row = tuple[Any, ...]


def register_all(integer: str = "INT") -> None:
    """Register the functions of MODELS, over integers of a type."""

    @al.table_aggregate(
        "TOP2", arguments={"v": integer}, columns={"value": integer, "place": "INT"}, replace=True
    )
    class Top2:
        """The two largest values of rows that only come."""

        def create():
            return (0, 0, 0)

        def accumulate(state, v):
            first, second, count = state
            if count == 0 or v > first:
                return (v, first, min(count + 1, 2))
            if count == 1 or v > second:
                return (first, v, 2)
            return state

        def merge(state, other):
            for value, place in ((other[0], 1), (other[1], 2)):
                if place <= other[2]:
                    state = Top2.accumulate(state, value)
            return state

        def rows(state):
            if state[2] > 0:
                yield state[0], 1
            if state[2] > 1:
                yield state[1], 2

    @al.table_aggregate(
        "TOP2_OF_ALL",
        arguments={"v": integer},
        columns={"value": integer, "place": "INT"},
        replace=True,
    )
    class Top2OfAll:
        """The two largest values with ties: every row with one of the two largest ranks."""

        def create():
            return {}

        def accumulate(state, v):
            state[v] = state.get(v, 0) + 1

        def retract(state, v):
            state[v] -= 1
            if not state[v]:
                del state[v]

        def merge(state, other):
            for v, count in other.items():
                state[v] = state.get(v, 0) + count

        def rows(state):
            place = 1
            for v in sorted(state, reverse=True):
                if place > 2:
                    return
                for _ in range(state[v]):
                    yield v, place
                place += state[v]

    @al.table_aggregate(
        "BUCKETS",
        arguments={"v": integer},
        columns={"low": "BIGINT", "rows": "BIGINT", "share": "DOUBLE", "most": "BOOLEAN"},
        replace=True,
    )
    class Buckets:
        """A histogram with three buckets: below 0, to 9, and above."""

        def create():
            return (0, 0, 0)

        def accumulate(state, v):
            below, middle, above = state
            return (below + (v < 0), middle + (0 <= v < 10), above + (v >= 10))

        def retract(state, v):
            below, middle, above = state
            return (below - (v < 0), middle - (0 <= v < 10), above - (v >= 10))

        def merge(state, other):
            return (state[0] + other[0], state[1] + other[1], state[2] + other[2])

        def rows(state):
            total = state[0] + state[1] + state[2]
            most = max(state[0], state[1], state[2])
            for place in range(3):
                if state[place] > 0:
                    low = (place - 1) * 10 if place else -(2**31)
                    yield low, state[place], state[place] / total, state[place] == most

    @al.table_aggregate(
        "EXTREMES",
        arguments={"v": integer},
        columns={"value": integer, "is_most": "BOOLEAN"},
        replace=True,
    )
    class Extremes:
        """The least and the largest value of rows that only come; it says itself what differs."""

        def create():
            return (0, 0, 0, 0, False, False)

        def accumulate(state, v):
            least, most, old_least, old_most, there, shown = state
            if there:
                return (min(least, v), max(most, v), old_least, old_most, True, shown)
            return (v, v, old_least, old_most, True, shown)

        def rows(state):
            if state[4]:
                yield state[0], False
                yield state[1], True

        def changes(state):
            least, most, old_least, old_most, there, shown = state
            if there and (not shown or least != old_least):
                if shown:
                    yield False, old_least, False
                yield True, least, False
            if there and (not shown or most != old_most):
                if shown:
                    yield False, old_most, True
                yield True, most, True

        def mark_emitted(state):
            return (state[0], state[1], state[0], state[1], state[4], state[4])

    @al.table_aggregate(
        "VALUES_SEEN",
        arguments={"v": integer},
        columns={"value": integer, "n": "BIGINT"},
        replace=True,
    )
    class ValuesSeen:
        """The values with their counts; it notes which have changed."""

        def create():
            return ({}, {})

        def accumulate(state, v):
            return ValuesSeen.add(state, v, 1)

        def retract(state, v):
            return ValuesSeen.add(state, v, -1)

        def add(state, v, change):
            counts, emitted = state
            emitted.setdefault(v, counts.get(v, 0))
            counts[v] = counts.get(v, 0) + change
            return state

        def rows(state):
            return [(v, n) for v, n in state[0].items() if n]

        def changes(state):
            counts, emitted = state
            for v, old in emitted.items():
                if old != counts[v]:
                    if old:
                        yield False, v, old
                    if counts[v]:
                        yield True, v, counts[v]

        def mark_emitted(state):
            return ({v: n for v, n in state[0].items() if n}, {})


def unregister_all() -> None:
    """Forget the functions again."""
    for name in MODELS:
        al.unregister(name)


def top2(values: Sequence[int]) -> list[Row]:
    """The two largest values with their places."""
    return [(v, place) for place, v in enumerate(sorted(values, reverse=True)[:2], 1)]


def top2_of_all(values: Sequence[int]) -> list[Row]:
    """The values with a rank of 1 or 2."""
    ranks = {v: 1 + sum(other > v for other in values) for v in values}
    return [(v, ranks[v]) for v in values if ranks[v] <= 2]


def buckets(values: Sequence[int]) -> list[Row]:
    """The buckets that have values."""
    lows = Counter(-(2**31) if v < 0 else min(v // 10, 1) * 10 for v in values)
    most = max(lows.values(), default=0)
    return [(low, n, n / len(values), n == most) for low, n in lows.items()]


def extremes(values: Sequence[int]) -> list[Row]:
    """The least and the largest value."""
    return [(min(values), False), (max(values), True)] if values else []


def values_seen(values: Sequence[int]) -> list[Row]:
    """The values with their counts."""
    return list(Counter(values).items())


MODELS = {
    "TOP2": top2,
    "TOP2_OF_ALL": top2_of_all,
    "BUCKETS": buckets,
    "EXTREMES": extremes,
    "VALUES_SEEN": values_seen,
}
APPEND_ONLY = ("TOP2", "EXTREMES")
"""Those whose class has no `retract`."""
