"""Arrival sequences: retractions that come before their rows heal, in both backends and after merging."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggloom.codegen import AggSpec, generate, load

SQL = "SELECT ARRAY_AGG(x) AS xs, FIRST_VALUE(x) AS f, LAST_VALUE(x) AS l, LISTAGG(s, ',') AS t, COUNT(*) AS n FROM t"
Change = tuple[bool, int]
changes = st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=24)


@functools.cache
def handler_class(backend: Any) -> Any:
    return load(generate(AggSpec.from_sql(SQL, "x INT, s STRING"), backend=backend))


def handler(backend: Any) -> Any:
    made = handler_class(backend)()
    made.setAccumulators(made.createAccumulators())
    return made


def feed(made: Any, rows: list[Change]) -> None:
    for adds, x in rows:
        (made.accumulate if adds else made.retract)((x, f"s{x}"))


def listed(rows: list[Change]) -> list[int]:
    """The live values in order: a row that a retraction waits for never shows."""
    live: list[int] = []
    ahead: list[int] = []
    for adds, x in rows:
        here, there = (ahead, live) if adds else (live, ahead)
        if x in here:
            here.remove(x)
        else:
            there.append(x)
    return live


def expected(rows: list[Change]) -> tuple[Any, ...]:
    live = listed(rows)
    joined = ",".join(f"s{x}" for x in live) if live else None
    ends = (live[0], live[-1]) if live else (None, None)
    return live, *ends, joined


def segment(rows: list[Change]) -> list[Change]:
    """Return the changes that count: once as many rows have gone as came, everything starts anew."""
    start = count = 0
    for at, (adds, _) in enumerate(rows):
        count += 1 if adds else -1
        if count == 0:
            start = at + 1
    return rows[start:]


@pytest.mark.parametrize("backend", ["numba", "python"])
@settings(deadline=None)
@given(rows=changes)
def test_a_retraction_ahead_of_its_row_heals(backend: str, rows: list[Change]) -> None:
    made = handler(backend)
    feed(made, rows)
    assert made.getValue()[:4] == expected(segment(rows))


@pytest.mark.parametrize("backend", ["numba", "python"])
@settings(deadline=None)
@given(rows=changes, cut=st.integers(0, 24))
def test_merging_is_going_on(backend: str, rows: list[Change], cut: int) -> None:
    one, two, whole = handler(backend), handler(backend), handler(backend)
    feed(one, rows[:cut])
    feed(two, rows[cut:])
    feed(whole, rows)
    one.merge(two.getAccumulators())
    sides = [segment(rows[:cut]), segment(rows[cut:])]
    if segment(rows) == rows and sides == [rows[:cut], rows[cut:]]:
        # Of equal rows on both sides the one that a retraction takes is not the same one after merging.
        gone = {x for adds, x in rows[cut:] if not adds}
        if gone.isdisjoint(listed(rows[:cut])):
            assert one.getValue() == whole.getValue()
        assert sorted(one.getValue()[0]) == sorted(whole.getValue()[0])
    assert one.getValue()[4] == whole.getValue()[4]


@pytest.mark.parametrize("backend", ["numba", "python"])
def test_ghosts_go_with_their_key(backend: str) -> None:
    made, fresh = handler(backend), handler(backend)
    feed(made, [(True, 1), (False, 2), (False, 2), (True, 3), (True, 3), (False, 1)])
    assert made.getValue()[0] == []
    feed(made, [(True, 4), (False, 4)])
    assert made.getAccumulators() == fresh.getAccumulators()
