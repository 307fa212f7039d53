"""Queries for the simulator, as Spark would be told to run them, and random changes for them to read."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql.types import StructType

from aggloom.codegen import AggSpec, generate
from aggloom.codegen.planner import Calc, Plan, PlanOptions, plan_query, plan_spec, plan_windows
from aggloom.codegen.windows import (
    CountEvictor,
    CountTrigger,
    CountWindow,
    Cumulate,
    EventTimeTrigger,
    Hop,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Session,
    Tumble,
    Windowing,
)
from aggloom.runtime.hosting.handler_text import HandlerText
from aggloom.runtime.spark.node.host import FragmentProcessor
from aggloom.runtime.spark.node.pack import Pack
from aggloom.runtime.spark.plan import metrics
from aggloom.runtime.spark.plan.column_frames import InputTable
from aggloom.runtime.spark.plan.host_settings import HostSettings
from aggloom.runtime.spark.plan.lower import SparkLowering
from aggloom.runtime.spark.plan.unpack import Unpack

INSTANT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int32()), ("w", pa.string()), ("ts", INSTANT)])
CALLS = "COUNT(*) AS n, SUM(v) AS s, MAX(w) AS m, COUNT(DISTINCT v) AS d"
GROUP = f"SELECT k, {CALLS} FROM t GROUP BY k"
CASCADE = (
    "SELECT n, COUNT(*) AS c, MAX(s) AS m FROM "
    "(SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k) GROUP BY n"
)
TICK = 10
"""Times of rows and ends of windows are multiples of it, clocks are not: which of two comes first is never open."""

WINDOWS: dict[str, Windowing] = {
    "tumble": Windowing(Tumble(100, on="ts")),
    "tumble, late": Windowing(Tumble(100, on="ts"), allowed_lateness=150, late_rows=True),
    "tumble, early": Windowing(
        Tumble(100, on="ts"), EventTimeTrigger(early=30), allowed_lateness=50
    ),
    "tumble by the clock": Windowing(Tumble(100)),
    "hop": Windowing(Hop(120, 40, on="ts"), late_rows=True),
    "hop, late": Windowing(Hop(100, 50, on="ts"), allowed_lateness=100),
    "cumulate": Windowing(Cumulate(150, 50, on="ts")),
    "session": Windowing(Session(60, on="ts")),
    "session, late": Windowing(Session(60, on="ts"), allowed_lateness=100, late_rows=True),
    "session by the clock": Windowing(Session(60), ProcessingTimeTrigger(early=20)),
    "counted": Windowing(Tumble(100, on="ts"), CountTrigger(2)),
    "counted, purging": Windowing(Tumble(100, on="ts"), PurgingTrigger(CountTrigger(2))),
    "evicting": Windowing(Hop(120, 60, on="ts"), EventTimeTrigger(early=0), CountEvictor(3)),
    "count windows": Windowing(CountWindow(3)),
}


@dataclasses.dataclass(frozen=True)
class Query:
    """A query as stages: rows are packed, go through operators (inputs first), and may have to be unpacked."""

    name: str
    pack: Pack
    operators: tuple[FragmentProcessor, ...]
    unpack: Unpack | None
    retracts: bool
    orphans: bool
    plain: bool
    """True if its table is that of GROUP BY over the rows that are there."""
    before: bool
    """True if an update tells the row that it replaces."""

    @property
    def time_mode(self) -> str:
        """Spark's word for the timers of the first operator."""
        return str(self.operators[0]._options.time_mode)


def draw(rng: random.Random) -> Query:
    """A query."""
    kind = rng.choice(["group"] * 4 + ["two phases"] * 2 + ["cascade"] * 2 + ["windows"] * 6)
    buckets = rng.choice([1, 2, 2, 3])
    before = rng.random() < 0.7
    retracts = rng.random() < 0.6
    orphans = rng.choice(["drop", "keep", "error"])
    if kind == "windows":
        name = rng.choice(list(WINDOWS))
        retracts = retracts and "purging" not in name
        return _query(kind, name, retracts, buckets, update_before=before)
    if kind == "two phases":
        options = {"agg_phase_strategy": "TWO_PHASE", "on_orphan_retraction": "keep"}
        return _query(kind, "", retracts, buckets, update_before=before, **options)
    if kind == "cascade":
        return _query(kind, "", retracts, buckets, on_orphan_retraction="drop")
    return _query(
        kind,
        "",
        retracts,
        buckets,
        mini_batch_enabled=rng.random() < 0.6,
        update_before=before,
        on_orphan_retraction=orphans,
        # What has expired is an orphan when it is taken back.
        state_ttl=0 if retracts and orphans == "error" else rng.choice([0, 0, 80]),
        agg_phase_strategy="ONE_PHASE",
    )


@functools.cache
def _query(kind: str, name: str, retracts: bool, buckets: int, **options: Any) -> Query:
    changes: Any = "retract" if retracts else "append"
    chosen = PlanOptions.of({}, **options)
    if kind == "cascade":
        plan = plan_query(CASCADE, {"t": SCHEMA}, input_changes=changes, options=chosen)
    else:
        spec = AggSpec.from_sql(GROUP, SCHEMA, changes)
        if kind == "windows":
            plan = plan_windows(spec, WINDOWS[name], options=chosen, inserts_only=not retracts)
        else:
            plan = plan_spec(spec, options=chosen, inserts_only=not retracts)
    told = ", ".join(f"{option}={value}" for option, value in options.items())
    stages = _Stages(plan, retracts, buckets)
    assert stages.pack is not None
    return Query(
        f"{name or kind}, {changes}, {buckets} buckets, {told}",
        stages.pack,
        tuple(stages.operators),
        stages.unpack,
        retracts,
        retracts and chosen.on_orphan_retraction != "error",
        kind in ("group", "two phases") and not chosen.state_ttl,
        chosen.update_before,
    )


_CONF = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"}
CONF = SimpleNamespace(get=lambda name: _CONF.get(name, "2"))
SPARK = SimpleNamespace(conf=CONF)


class _Stages:
    """Stands for a DataFrame while a plan is lowered, and notes what it is asked to do."""

    isStreaming = True  # noqa: N815
    sparkSession = SPARK  # noqa: N815
    schema = StructType()

    def __init__(self, plan: Plan, retracts: bool, buckets: int) -> None:
        self.pack: Pack | None = None
        self.operators: list[FragmentProcessor] = []
        self.unpack: Unpack | None = None
        table = InputTable(self, "op" if retracts else None, "ts")  # type: ignore[arg-type]
        lowering = _PackedLowering(plan, {"t": table}, _text, HostSettings(buckets, None, "flink"))
        root = plan.root
        while isinstance(root, Calc):
            root = root.input
        # Counts of operators are Spark's to observe.
        with patch.object(metrics, "operators_counted", lambda hosted, *_: hosted):
            lowering._unpack_changes(root, "flink")  # type: ignore[arg-type]

    def groupBy(self, column: str) -> _Stages:  # noqa: N802
        return self

    def transformWithStateInPandas(self, processor: Any, **_: Any) -> _Stages:  # noqa: N802
        self.operators.append(processor)
        return self

    def mapInArrow(self, stage: Any, columns: Any) -> _Stages:  # noqa: N802
        self.unpack = stage
        return self


class _PackedLowering(SparkLowering):
    """Lowers to `_Stages`: ordinary columns, which Spark alone can make, are the input as it is."""

    def _from_rows(self, node: Any, route: Any, name: str, ordered: bool) -> Any:
        (table,) = self.tables.values()
        stages: Any = table.df
        stages.pack = Pack(route, node.schema, name, table.change_column)
        return stages


@functools.cache
def _text(spec: AggSpec) -> HandlerText:
    source = generate(spec, backend="numba")
    return HandlerText(source.text, source.digest)


@dataclasses.dataclass(frozen=True)
class Row:
    """A change: its kind in Flink's short form, and the row."""

    kind: str
    k: str | None
    v: int | None
    w: str | None
    ts: int


@dataclasses.dataclass(frozen=True)
class Batch:
    """A micro-batch: rows by map task, and what the clocks say."""

    number: int
    tasks: tuple[tuple[Row, ...], ...]
    now: int
    watermark: int


KEYS = ["a", "b", "größe", "", "日本語", None, "a" * 40]
WORDS = ["x", "ü", "", None, "zebra", "Zebra", "🦓"]


def batches(rng: random.Random, query: Query) -> Iterator[Batch]:
    """Random micro-batches: duplicates, NULLs, corrections, rows that never were, late rows, clocks that stall."""
    live: list[Row] = []
    now, watermark, newest = 1_000_003, 0, 1_000_000
    keys = rng.sample(KEYS, rng.randint(1, len(KEYS)))
    for number in range(rng.randint(2, 6)):
        tasks = []
        for _ in range(rng.choice([1, 1, 2, 3])):
            rows = []
            for _ in range(rng.choice([0, 1, 3, 8, 16])):
                rows += _changes(rng, query, live, keys, newest)
            newest = max([newest, *(row.ts for row in rows)])
            tasks.append(tuple(rows))
        if query.pack.route.wakes_every_bucket and not any(tasks):
            # What early firing gives out comes with batches that have rows.
            tasks[0] = tuple(_changes(rng, query, live, keys, newest))
        yield Batch(number, tuple(tasks), now, watermark)
        if rng.random() < 0.8:
            now += TICK * rng.randint(0, 12)
        if rng.random() < 0.7:
            watermark = max(watermark, newest - TICK * rng.randint(0, 12) + 3)


def _changes(
    rng: random.Random, query: Query, live: list[Row], keys: list[Any], newest: int
) -> list[Row]:
    """A row that comes, one that goes, or a correction: the old row and the new one."""

    def fresh(kind: str) -> Row:
        ts = newest + TICK * rng.randint(-15, 6)
        return Row(kind, rng.choice(keys), rng.choice([None, 0, 1, 2, 7]), rng.choice(WORDS), ts)

    if query.retracts and rng.random() < 0.35:
        if query.orphans and rng.random() < 0.2:
            return [fresh(rng.choice(["-D", "-U"]))]
        if live:
            old = live.pop(rng.randrange(len(live)))
            if rng.random() < 0.5:
                return [dataclasses.replace(old, kind="-D")]
            new = dataclasses.replace(fresh("+U"), k=old.k)
            live.append(new)
            return [dataclasses.replace(old, kind="-U"), new]
    rows = [fresh("+I")] * rng.choice([1, 1, 1, 2])
    live += rows
    return rows


def arrow(query: Query, rows: tuple[Row, ...]) -> pa.RecordBatch:
    """Rows as Spark hands them to `Pack`."""
    zero = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    found: dict[str, list[Any]] = {
        "k": [row.k for row in rows],
        "v": [row.v for row in rows],
        "w": [row.w for row in rows],
        "ts": [zero + dt.timedelta(milliseconds=row.ts) for row in rows],
    }
    schema = query.pack.schema
    columns = [pa.array(found[field.name], field.type) for field in schema]
    names = list(schema.names)
    if query.retracts:
        columns.append(pa.array([row.kind for row in rows], pa.string()))
        names.append("op")
    return pa.RecordBatch.from_arrays(columns, names=names)
