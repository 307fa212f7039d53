"""Every function in every kind of window, DISTINCT and FILTER beside it, also under retractions.

A window's result is that of a group aggregate over its rows alone: what holds for the one is judged elsewhere.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from model import same_row
from variants import FAMILIES, changes_for, chunk, chunks, dialect_of, exact, picked, rows_for

from aggloom.codegen import AggSpec
from aggloom.codegen.windows import (
    Assigner,
    CountTrigger,
    Cumulate,
    GlobalWindow,
    Hop,
    PurgingTrigger,
    Session,
    Tumble,
)
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.local.pipeline import handlers

BASE = dt.datetime(2020, 1, 1)
TIME = "event time"
WINDOWS: dict[str, Assigner] = {
    "tumbling": Tumble("4 s", on=TIME),
    "hopping": Hop("6 s", "2 s", on=TIME),
    "cumulating": Cumulate("6 s", "2 s", on=TIME),
    "sessions": Session("3 s", on=TIME),
}


def covering(changes: str) -> list[tuple[str, str, str]]:
    """As few families and columns as have every function among them."""
    found, left = [], {(family, name) for family, names in FAMILIES.items() for name in names}
    for family, domain in chunks():
        spec = chunk(family, domain, dialect_of(domain), changes)
        # Sketches depend on how they are merged.
        judged = spec is not None and any(exact(spec))
        new = {(family, call.function) for call in spec.calls} & left if spec and judged else set()
        if new:
            found.append((family, domain, changes))
            left -= new
    return found


def timed(spec: AggSpec, changes: str, seed: int) -> tuple[AggSpec, list[tuple[Any, ...]]]:
    """The spec with a time, and changes whose rows come two a second; a row is taken back with its own time."""
    rows = rows_for(spec, seed, 18)
    listed = changes_for(rows, seed) if changes == "retract" else [("+I", *row) for row in rows]
    whole = replace(spec, schema=spec.schema.append(pa.field(TIME, pa.timestamp("us"))))
    made, times, number = [], {}, 0  # type: ignore[var-annotated]
    for kind, *row in listed:
        if kind == "+I":
            # A pause of five seconds after every sixth row ends a session.
            time = BASE + dt.timedelta(seconds=number / 2 + 5 * (number // 6))
            times.setdefault(repr(row), []).append(time)
            number += 1
        else:
            time = times[repr(row)].pop(0)
        made.append((kind, *row, time))
    return whole, made


def grouped(spec: AggSpec, changes: list[tuple[Any, ...]]) -> tuple[Any, ...] | None:
    """Return the result of a group aggregate over changes."""
    harness = Harness(handlers("python")(spec))
    harness.process([change[:-1] for change in changes])
    harness.flush()
    table = harness.table()
    return table[0] if table else None


@pytest.mark.parametrize(
    ("family", "domain", "changes"), [*covering("append"), *covering("retract")]
)
@pytest.mark.sampled(4)
def test_a_window_is_a_group_of_its_rows(family: str, domain: str, changes: str) -> None:
    spec = chunk(family, domain, dialect_of(domain), changes)
    assert spec is not None
    spec = picked(spec, exact(spec))
    # Which of several equal rows goes is told by its time where windows are made of parts, else by arrival.
    steady = [not spec.entry(call).by_arrival for call in spec.calls]
    for name, assigner in WINDOWS.items():
        if changes == "retract" and name == "hopping":
            spec = picked(spec, steady)
        whole, listed = timed(spec, changes, 5)
        harness = Harness(whole, window=assigner, backend="python")
        harness.process(listed)
        harness.end_of_input()
        given = harness.changes()
        assert given
        for _, start, end, _, *values in given:
            inside = [change for change in listed if start <= change[-1] < end]
            wanted = grouped(spec, inside)
            assert wanted is not None
            assert same_row(spec, tuple(values), wanted, 1e3) is None, (assigner.text, start)


@pytest.mark.parametrize(("family", "domain", "changes"), covering("append"))
def test_triggers_see_the_same_functions(family: str, domain: str, changes: str) -> None:
    spec = chunk(family, domain, dialect_of(domain), changes)
    assert spec is not None
    spec = picked(spec, exact(spec))
    whole, listed = timed(spec, changes, 6)
    trigger = PurgingTrigger(CountTrigger(6))
    harness = Harness(whole, window=GlobalWindow(on=TIME), trigger=trigger, backend="python")
    harness.process(listed)
    harness.flush()
    given = harness.changes()
    assert len(given) == 3
    for number, change in enumerate(given):
        wanted = grouped(spec, listed[6 * number : 6 * number + 6])
        assert wanted is not None
        assert same_row(spec, change[4:], wanted, 1e3) is None
