"""Random windows, rows and clocks, for the tests of window operators."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from aggloom.codegen import AggCall, AggSpec, generate, load
from aggloom.codegen.planner import Bounds
from aggloom.codegen.windows import Assigner, Cumulate, Hop, Session, Tumble
from aggloom.runtime.values.changelog import KIND_NAMES
from aggloom.runtime.values.clock import Clock

INSTANT = pa.timestamp("us", "UTC")
BOUNDS = Bounds("start", "end", "time", INSTANT, INSTANT)
Change = tuple[Any, ...]


class Step(NamedTuple):
    """A bundle: rows as (kind, key, time, value), and the clock that is told with it."""

    rows: list[tuple[int, str | None, int, int | None]]
    clock: Clock


@functools.cache
def handler(backend: str, changes: str) -> type[Any]:
    """SUM, COUNT, MAX and two DISTINCT counts by key and window."""
    calls = (
        AggCall("SUM", "v", alias="s"),
        AggCall("COUNT", alias="n"),
        AggCall("MAX", "v", alias="m"),
        AggCall("COUNT", "v", distinct=True, alias="d"),
        AggCall("COUNT", "v", filter="v > 2", alias="f"),
    )
    spec: Any = AggSpec("k STRING, w BIGINT, v INT", ("k", "w"), calls, changes, namespace=True)  # type: ignore[arg-type]
    made: type[Any] = load(generate(spec, backend=backend))  # type: ignore[arg-type]
    return made


def batch_of(step: Step, schema: pa.Schema, place: Any) -> tuple[pa.RecordBatch, Any]:
    """A step's rows as the operator takes them; place: from times to the window's column."""
    times = place(np.array([row[2] for row in step.rows], np.int64))
    values = pa.array([row[3] for row in step.rows], pa.int32())
    found = {
        "k": pa.array([row[1] for row in step.rows], pa.string()),
        "w": pa.array(times, pa.int64()),
        "v": values,
    }
    columns = [
        (
            found[f.name]
            if f.name in found
            else pa.array([v is not None and v > 2 for v in values.to_pylist()])
        )
        for f in schema
    ]
    kinds = np.array([row[0] for row in step.rows], np.int8)
    return pa.RecordBatch.from_arrays(columns, schema=schema), kinds


def changes_of(rows: tuple[pa.RecordBatch, Any]) -> list[Change]:
    """List the changes of a result, bounds in milliseconds."""
    batch, kinds = rows
    listed = []
    for kind, row in zip(kinds, batch.to_pylist(), strict=True):
        start, end = (round(row[name].timestamp() * 1000) for name in ("start", "end"))
        listed.append((KIND_NAMES[kind], row["k"], start, end, *list(row.values())[4:]))
    return listed


def run(operator: Any, steps: list[Step], place: Any, again: Any = None) -> list[list[Change]]:
    """Take the steps; list the changes of each. again: a maker of operators, so that each step is taken by a
    restored one.
    """
    out = []
    schema = operator.handler_class.spec().handler_schema
    for step in steps:
        batch, kinds = batch_of(step, schema, place)
        out.append(changes_of(operator.process(batch, kinds, step.clock)))
        if again is not None:
            saved = operator.snapshot()
            operator = again()
            operator.restore(saved)
    return out


ASSIGNERS: list[Assigner] = [
    Tumble(10, on="t"),
    Tumble(7, on="t", offset=3),
    Hop(20, 10, on="t"),
    Hop(12, 5, on="t", offset=1),
    Hop(4, 9, on="t"),
    Hop(30, 2, on="t"),
    Cumulate(30, 10, on="t"),
    Cumulate(12, 3, on="t", offset=2),
    Session(5, on="t"),
    Session(12, on="t"),
]
KEYS = st.sampled_from(["a", "b", "größe", None])


@st.composite
def steps(
    draw: st.DrawFn, retracts: bool, disorder: int = 40, lag: int | None = None
) -> list[Step]:
    """Bundles of rows out of order, with a watermark that follows; retractions are of rows that came.

    lag: how far the watermark stays behind the newest row; None lets it pass rows, which are late then.
    """
    made, there, newest, mark, now = [], [], 0, -100, 0
    for _ in range(draw(st.integers(1, 8))):
        rows = []
        for _ in range(draw(st.integers(0, 8))):
            # With a lag no row is to be late, retractions included.
            taken = [row for row in there if lag is None or row[1] >= newest - disorder]
            if retracts and taken and draw(st.integers(0, 3)) == 0:
                key, time, value = taken[draw(st.integers(0, len(taken) - 1))]
                there.remove((key, time, value))
                rows.append((draw(st.sampled_from([1, 3])), key, time, value))
                continue
            base = newest if lag is None else max(newest, 0)
            time = base + draw(st.integers(-disorder, 15))
            row = (draw(KEYS), time, draw(st.sampled_from([None, 1, 2, 3, 5])))
            there.append(row)
            newest = max(newest, time)
            rows.append((draw(st.sampled_from([0, 2])), *row))
        # The clock that a bundle is told holds before its rows.
        made.append(Step(rows, Clock(now, mark)))
        behind = draw(st.integers(-5, disorder)) if lag is None else lag
        mark = max(mark, newest - behind)
        now += draw(st.integers(0, 12))
    made.append(Step([], Clock(now + 1000, 10_000)))
    return made


def table(out: list[list[Change]]) -> Counter[Change]:
    """The rows that changes add up to."""
    net: Counter[Change] = Counter()
    for kind, *row in (change for changes in out for change in changes):
        net[tuple(row)] += 1 if kind in ("+I", "+U") else -1
    return +net
