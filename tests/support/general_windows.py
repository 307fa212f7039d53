"""Parts of the tests of the general window operator: rows in, changes out, and the windowings of the model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from handlers import Backend, handler_class
from hypothesis import strategies as st
from strategies import examples
from window_model import Change, Input

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import Bounds
from aggloom.codegen.spec.dtypes import INSTANT, WALL_CLOCK
from aggloom.codegen.windows import (
    ContinuousTrigger,
    CountTrigger,
    CountWindow,
    Cumulate,
    DeltaTrigger,
    EventTimeTrigger,
    GlobalWindow,
    Hop,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Session,
    TriggerResult,
    Tumble,
    Windowing,
)
from aggloom.runtime.operators.windows.general import GeneralWindowOperator
from aggloom.runtime.values.changelog import KIND_NAMES
from aggloom.runtime.values.clock import NO_TIME, Clock

SCHEMA = "k STRING, w BIGINT, v BIGINT"
SPEC = AggSpec.from_sql(
    "SELECT k, w, SUM(v) AS s, COUNT(*) AS n, MAX(v) AS m, COUNT(DISTINCT v) AS d FROM t GROUP BY k, w",
    SCHEMA,
)
SUM = AggSpec.from_sql("SELECT k, w, SUM(v) AS s FROM t GROUP BY k, w", SCHEMA)
LOCAL = Bounds("window_start", "window_end", "window_time", WALL_CLOCK, INSTANT)
some = examples(15)

CONTINUE, FIRE, PURGE, FIRE_AND_PURGE = TriggerResult


def batch_of(rows: Iterable[Input]) -> tuple[pa.RecordBatch, Any]:
    """Rows as the operator takes them."""
    listed = list(rows)
    columns = [
        pa.array([row.key for row in listed], pa.string()),
        pa.array([row.time for row in listed], pa.int64()),
        pa.array([row.value for row in listed], pa.int64()),
    ]
    kinds = np.array([0 if row.adds else 3 for row in listed], np.int8)
    return pa.RecordBatch.from_arrays(columns, names=["k", "w", "v"]), kinds


def operator(
    windowing: Windowing, spec: AggSpec = SPEC, backend: Backend = "python", **options: Any
) -> GeneralWindowOperator:
    return GeneralWindowOperator(handler_class(spec, backend), windowing, LOCAL, **options)


def shown(changes: tuple[pa.RecordBatch, Any]) -> list[Change]:
    """Changes as (kind, key, start, end, results), times in milliseconds."""
    batch, kinds = changes
    rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return [
        (KIND_NAMES[kind], key, _ms(start), _ms(end), *results)
        for kind, (key, start, end, _, *results) in zip(kinds.tolist(), rows, strict=True)
    ]


def _ms(time: dt.datetime | None) -> int | None:
    return None if time is None else round((time - dt.datetime(1970, 1, 1)).total_seconds() * 1000)


def feed(op: GeneralWindowOperator, rows: Iterable[Input], clock: Clock = NO_TIME) -> list[Change]:
    """The changes that rows bring."""
    return shown(op.process(*batch_of(rows), clock))


def adds(*values: int, time: int = 0) -> list[Input]:
    return [Input(True, "a", time, value) for value in values]


def takes(*values: int, time: int = 0) -> list[Input]:
    return [Input(False, "a", time, value) for value in values]


def sums(changes: Iterable[Change]) -> list[Any]:
    """(kind, first result) of changes."""
    return [(change[0], change[4]) for change in changes]


TUMBLE, HOP = Tumble(10, on="ts"), Hop(10, 4, on="ts", offset=1)
WINDOWINGS = {
    "tumble": Windowing(TUMBLE),
    "tumble, late": Windowing(TUMBLE, allowed_lateness=7),
    "tumble, early": Windowing(TUMBLE, EventTimeTrigger(early=5)),
    "tumble, early and late": Windowing(TUMBLE, EventTimeTrigger(early=0, late=3), None, 9),
    "tumble, each late row": Windowing(TUMBLE, EventTimeTrigger(early=4, late=0), None, 9),
    "hop": Windowing(HOP, allowed_lateness=3),
    "hop with gaps": Windowing(Hop(5, 8, on="ts"), EventTimeTrigger(early=0)),
    "cumulate": Windowing(Cumulate(12, 4, on="ts", offset=2)),
    "session": Windowing(Session(5, on="ts")),
    "session, early": Windowing(Session(5, on="ts"), EventTimeTrigger(early=3)),
    "session, late": Windowing(Session(5, on="ts"), EventTimeTrigger(early=0, late=4), None, 11),
    "session, counted": Windowing(Session(5, on="ts"), CountTrigger(3)),
    "session, continuous": Windowing(Session(5, on="ts"), ContinuousTrigger(3)),
    "session by the clock": Windowing(Session(5), ProcessingTimeTrigger(early=2)),
    "tumble by the clock": Windowing(Tumble(10)),
    "hop by the clock": Windowing(Hop(10, 5), ProcessingTimeTrigger(early=3)),
    "the clock in event time": Windowing(TUMBLE, ProcessingTimeTrigger(early=3), None, 6),
    "each result, repeated": Windowing(TUMBLE, EventTimeTrigger(early=0), None, 4, updates=False),
    "counted": Windowing(TUMBLE, CountTrigger(2)),
    "counted, purging": Windowing(TUMBLE, PurgingTrigger(CountTrigger(2))),
    "purging updates": Windowing(TUMBLE, PurgingTrigger(ContinuousTrigger(3)), updates=True),
    "continuous": Windowing(HOP, ContinuousTrigger(3), None, 4),
    "continuous, repeated": Windowing(TUMBLE, ContinuousTrigger(3), updates=False),
    "continuous by the clock": Windowing(TUMBLE, ContinuousTrigger(3, event_time=False)),
    "clock windows, continuous": Windowing(Tumble(10), ContinuousTrigger(3, event_time=False)),
    "count": Windowing(CountWindow(3)),
    "delta": Windowing(TUMBLE, DeltaTrigger(2, "v"), None, 4),
    "delta, purging": Windowing(HOP, PurgingTrigger(DeltaTrigger(0, "v"))),
    "timeout": Windowing(TUMBLE, ProcessingTimeoutTrigger(CountTrigger(3), 4), None, 3),
    "timeout that rows reset": Windowing(
        GlobalWindow(), ProcessingTimeoutTrigger(CountTrigger(4), 6, resets=True)
    ),
    "timeout that clears nothing": Windowing(
        GlobalWindow(), ProcessingTimeoutTrigger(CountTrigger(4), 6, clears=False)
    ),
    "timeout of a delta, purging": Windowing(
        HOP, PurgingTrigger(ProcessingTimeoutTrigger(DeltaTrigger(2, "v"), 5)), updates=False
    ),
    "timeout in event time": Windowing(
        TUMBLE, ProcessingTimeoutTrigger(EventTimeTrigger(), 5, resets=True), None, 6
    ),
    "timeout by the clock": Windowing(
        Tumble(10), ProcessingTimeoutTrigger(ProcessingTimeTrigger(), 3)
    ),
    "global": Windowing(GlobalWindow(on="ts"), ContinuousTrigger(4)),
}

Bundle = tuple[list[Input], Clock]


@st.composite
def bundles(draw: st.DrawFn, retracting: bool) -> list[Bundle]:
    """Rows in bundles with a clock each; what is retracted was added before."""
    made: list[Bundle] = []
    held: list[Input] = []
    now = watermark = 0
    for _ in range(draw(st.integers(1, 6))):
        now += draw(st.integers(0, 9))
        watermark += draw(st.integers(-2, 9))
        rows = []
        for _ in range(draw(st.integers(0, 7))):
            if retracting and held and draw(st.integers(0, 2)) == 0:
                row = held.pop(draw(st.integers(0, len(held) - 1)))._replace(adds=False)
            else:
                row = Input(
                    True,
                    draw(st.sampled_from("ab")),
                    draw(st.integers(max(0, watermark - 15), watermark + 25)),
                    draw(st.sampled_from([None, 1, 2, 5])),
                )
                held.append(row)
            rows.append(row)
        made.append((rows, Clock(now, watermark)))
    return [*made, ([], Clock(now + 100, watermark + 100))]
