"""On real Spark what single rows decide: triggers and evictors of all kinds, one's own, windows by the clock.

Each case is held to the harness on the same rows, and to a table that was worked out by hand.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import aggloom as al
from aggloom.codegen import AggCall, AggSpec
from aggloom.runtime.values.changelog import CHANGE_TYPES, KIND_NAMES

pytestmark = pytest.mark.spark

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: E402, N812

from aggloom.runtime.spark.api.window_aggregate import window_aggregate  # noqa: E402

BASE = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
DDL = "k STRING, ts TIMESTAMP, v BIGINT, gap BIGINT"
SPEC = AggSpec(DDL, ("k",), (AggCall("SUM", "v", alias="s"),), "append")
BATCHES = [
    [("a", 1, 1, 2000), ("a", 4, 3, 5000), ("b", 2, 10, 1000)],
    [("a", 12, 5, 4000), ("b", 3, 20, 9000), ("a", 13, 4, 1000)],
    [("a", 31, 2, 1000), ("b", 32, 7, 1000), ("a", 60, 9, 1000), ("b", 60, 9, 1000)],
]
"""Key, second, value, gap. With a watermark 5 s behind, Spark judges the batches by -1, 8 and, at last, 55 seconds."""
MARKS = (-1, 8, 55)
Row = tuple[Any, ...]
HALF = al.Tumble("30 s", on="ts")
FIRST_HALF = {("a", 0, 30, 13), ("b", 0, 30, 30)}


@dataclass
class Case:
    """Windows, the table that they lead to, and how many messages must come at least."""

    window: dict[str, Any]
    table: set[Row]
    messages: int = field(default=0)


def own() -> dict[str, Case]:
    """Cases of triggers and evictors as users write them; defined in a function, so that workers get the classes
    themselves.
    """

    class Limit(al.Trigger):
        """Fires when values that add up to 5 have come, and when the window ends."""

        def on_element(self, row: Any, time: int, window: Any, ctx: Any) -> al.TriggerResult:
            ctx.register_event_time_timer(window.max_timestamp)
            ctx.state["sum"] = ctx.state.get("sum", 0) + row["v"]
            if ctx.state["sum"] < 5:
                return al.TriggerResult.CONTINUE
            ctx.state["sum"] = 0
            return al.TriggerResult.FIRE

        def on_event_time(self, time: int, window: Any, ctx: Any) -> al.TriggerResult:
            return al.TriggerResult.FIRE

        def on_processing_time(self, time: int, window: Any, ctx: Any) -> al.TriggerResult:
            return al.TriggerResult.CONTINUE

    class WithoutLargest(al.Evictor):
        @property
        def columns(self) -> tuple[str, ...]:
            return ("v",)

        def evict_before(self, elements: Any, window: Any, ctx: Any) -> Any:
            assert ctx.processing_time > window.end > ctx.watermark - 60_000
            values = elements.rows.column("v").to_numpy()
            return np.arange(len(values)) != values.argmax()

    class Visits(al.Assigner):
        """Sessions by the gap of each row, none of them longer than eight seconds."""

        merges = True
        on = "ts"

        @property
        def columns(self) -> tuple[str, ...]:
            return ("ts", "gap")

        def assign_rows(self, rows: pa.RecordBatch, times: Any) -> Any:
            return np.arange(len(times)), times, times + rows.column("gap").to_numpy()

        def merge_windows(self, windows: Sequence[al.Window], merge: Any) -> None:
            parts, whole = [windows[0]], windows[0]
            for window in windows[1:]:
                cover = whole.cover(window)
                if whole.touches(window) and cover.end - cover.start <= 8000:
                    parts, whole = [*parts, window], cover
                    continue
                merge(parts, whole)
                parts, whole = [window], window
            merge(parts, whole)

    class Spread(al.WindowFunction):
        schema = "first BIGINT, spread BIGINT, who STRING"

        def process(self, key: Any, window: Any, elements: Any, ctx: Any) -> Any:
            values = elements.rows.column("v").to_numpy()
            who = f"{key[0]} until {(window.end // 1000) % 60}"
            return int(values[0]), int(values.max() - values.min()), who

    at_once = {("b", 30, 60, 7), ("a", 60, 90, 9), ("b", 60, 90, 9)}
    return {
        "own trigger": Case({"window": HALF, "trigger": Limit()}, FIRST_HALF | at_once, 9),
        "own evictor": Case(
            {"window": HALF, "evictor": WithoutLargest()}, {("a", 0, 30, 8), ("b", 0, 30, 10)}
        ),
        "own assigner": Case(
            {"window": Visits()},
            {
                ("a", 1, 3, 1),
                ("a", 4, 9, 3),
                ("a", 12, 16, 9),
                ("a", 31, 32, 2),
                ("b", 2, 3, 10),
                ("b", 3, 12, 20),
                ("b", 32, 33, 7),
            },
        ),
        "window function": Case(
            {"window": al.Windowing(HALF, function=Spread())},
            {("a", 0, 30, 13, 1, 4, "a until 30"), ("b", 0, 30, 30, 10, 10, "b until 30")},
        ),
    }


CASES = own() | {
    "continuous": Case(
        {"window": HALF, "trigger": al.ContinuousTrigger("10 s")},
        FIRST_HALF | {("a", 30, 60, 2), ("b", 30, 60, 7)},
    ),
    "time evictor": Case(
        {"window": HALF, "evictor": al.TimeEvictor("10 s")}, {("a", 0, 30, 12), ("b", 0, 30, 30)}
    ),
    "global, counted": Case(
        {"window": al.GlobalWindow(), "trigger": al.CountTrigger(2)},
        {("a", None, None, 24), ("b", None, None, 46)},
        8,
    ),
    "global, by differences": Case(
        {"window": al.GlobalWindow(), "trigger": al.DeltaTrigger(3, "v")},
        {("a", None, None, 24), ("b", None, None, 37)},
    ),
    "global, with a timeout": Case(
        {
            "window": al.GlobalWindow(),
            "trigger": al.ProcessingTimeoutTrigger(al.CountTrigger(2), "1 h"),
        },
        {("a", None, None, 24), ("b", None, None, 46)},
    ),
    "early, delayed": Case(
        {"window": HALF, "trigger": al.EventTimeTrigger(early="1 ms")},
        FIRST_HALF | {("a", 30, 60, 2), ("b", 30, 60, 7), ("a", 60, 90, 9), ("b", 60, 90, 9)},
        10,
    ),
    "gap by column": Case(
        {"window": al.Session(on="ts", gap_column="gap")},
        {
            ("a", 1, 3, 1),
            ("a", 4, 9, 3),
            ("a", 12, 16, 9),
            ("a", 31, 32, 2),
            ("b", 2, 12, 30),
            ("b", 32, 33, 7),
        },
    ),
    "by the clock in event time": Case(
        {"window": HALF, "trigger": al.ProcessingTimeTrigger()},
        FIRST_HALF | {("a", 30, 60, 2), ("b", 30, 60, 7), ("a", 60, 90, 9), ("b", 60, 90, 9)},
        14,
    ),
    "staggered": Case({"window": al.Tumble("20 s", on="ts", stagger="random")}, set()),
}


def rows_of(number: int) -> list[Row]:
    return [
        (k, BASE + dt.timedelta(seconds=second), v, gap) for k, second, v, gap in BATCHES[number]
    ]


def write(directory: Path, number: int) -> None:
    directory.mkdir(exist_ok=True)
    path = directory / f"{number}.jsonl"
    names = ("k", "ts", "v", "gap")
    rows = [dict(zip(names, row, strict=True)) for row in rows_of(number)]
    path.write_text("\n".join(json.dumps(row, default=dt.datetime.isoformat) for row in rows))
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def changelog(spark: Any, directory: Path, **window: Any) -> Any:
    df = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).json(str(directory))
    return window_aggregate(df, SPEC, backend="python", buckets=2, **window)


def together(frames: dict[str, Any]) -> Any:
    """The changes of several windows in one query, with the case that each is of: a query costs more than a window."""
    named = [df.withColumn("case", F.lit(name)) for name, df in frames.items()]
    whole, *others = named
    for other in others:
        whole = whole.unionByName(other, allowMissingColumns=True)
    return whole


def started(
    frames: dict[str, Any], checkpoint: Path, **trigger: Any
) -> tuple[Any, dict[str, list[Row]]]:
    """The query over all frames, and where its changes go."""
    rows: dict[str, list[Row]] = {name: [] for name in frames}

    def take(batch: Any, number: int) -> None:
        for row in batch.collect():
            rows[row["case"]].append(tuple(row[name] for name in frames[row["case"]].columns))

    writer = together(frames).writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(checkpoint))
    return writer.trigger(**(trigger or {"availableNow": True})).start(), rows


def plain(rows: list[Row]) -> Counter[Row]:
    """Rows with instants as the harness gives them."""

    def value(each: Any) -> Any:
        return each.replace(tzinfo=dt.UTC) if isinstance(each, dt.datetime) else each

    return Counter(tuple(map(value, row)) for row in rows)


def harness_of(window: dict[str, Any]) -> al.Harness:
    """The harness after the same batches, told the watermarks that Spark has, with a clock of today."""
    harness = al.Harness(SPEC, backend="python", buckets=2, **window)
    now = time.time_ns() // 1_000_000
    for number, mark in enumerate(MARKS):
        harness.processing_time(now + 1000 * number)
        harness.process([("+I", *row) for row in rows_of(number)])
        harness.flush()
        harness.watermark(int(BASE.timestamp() + mark) * 1000 - 1)
    # Spark's last batch has no rows, but a clock.
    harness.processing_time(now + 1000 * len(MARKS))
    return harness


def second(time: dt.datetime | None) -> int | None:
    return None if time is None else round((time - BASE).total_seconds())


@pytest.fixture(scope="module")
def results(spark: Any, tmp_path_factory: Any) -> dict[str, list[Row]]:
    """The changes of every case on Spark, in two queries: those that go by the watermark, and those that know none."""
    home = tmp_path_factory.mktemp("general")
    for number in range(len(BATCHES)):
        write(home / "in", number)
    found: dict[str, list[Row]] = {}
    for timed in (True, False):
        frames = {
            name: changelog(
                spark, home / "in", **case.window, **({"watermark": "5 s"} if timed else {})
            )
            for name, case in CASES.items()
            if isinstance(case.window["window"], al.GlobalWindow) != timed
        }
        query, rows = started(frames, home / f"checkpoint {timed}")
        query.awaitTermination()
        found |= rows
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(2)
def test_spark_gives_what_the_harness_gives(results: dict[str, list[Row]], name: str) -> None:
    case, got = CASES[name], plain(results[name])
    harness = harness_of(case.window)
    words = dict(zip(KIND_NAMES, CHANGE_TYPES, strict=True))
    assert got == Counter((*row, words[kind]) for kind, *row in harness.changes())
    assert got.total() >= case.messages
    table = {
        (k, second(start), second(end), *calls) for k, start, end, _, *calls in harness.table()
    }
    if name != "staggered":
        assert table == case.table
        return
    rows = [row for batch in BATCHES for row in batch]
    assert {k for k, *_ in table} == {"a", "b"}
    for k, start, end, total in table:
        assert end - start == 20
        assert total == sum(v for key, at, v, _ in rows if key == k and start <= at < end)


CLOCKS: dict[str, tuple[al.Assigner, list[Row]]] = {
    "hop": (al.Hop("200 ms", "100 ms"), [("a", 4, 200), ("b", 10, 200)] * 2),
    "session": (al.Session("50 ms"), [("a", 4, 50), ("b", 10, 50)]),
    "staggered": (al.Tumble("100 ms", stagger="natural"), [("a", 4, 100), ("b", 10, 100)]),
}


def spans(rows: list[Row]) -> list[Row]:
    """(key, sum, length in ms) of windows that fired."""
    return sorted(
        (k, s, (end - start) // dt.timedelta(milliseconds=1)) for k, start, end, _, s in rows
    )


def test_windows_by_the_clock(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", 0)

    def run() -> dict[str, list[Row]]:
        frames = {
            name: changelog(spark, tmp_path / "in", window=assigner)
            for name, (assigner, _) in CLOCKS.items()
        }
        query, rows = started(frames, tmp_path / "checkpoint")
        query.awaitTermination()
        return rows

    assert not any(run().values())
    write(tmp_path / "in", 1)
    rows = run()
    for name, (assigner, expected) in CLOCKS.items():
        with al.Harness(SPEC, window=assigner, backend="python") as harness:
            harness.processing_time(10_000)
            harness.process([("+I", *row) for row in rows_of(0)])
            harness.processing_time(11_000)
            fired = [tuple(row) for _, *row in harness.changes()]
        assert spans([row[:-1] for row in rows[name]]) == spans(fired) == sorted(expected)
    for _, start, end, *_ in rows["hop"]:
        assert start.microsecond % 100_000 == 0
        assert end - start == dt.timedelta(milliseconds=200)


def test_windows_by_the_clock_fire_without_rows_if_they_are_let(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", 0)
    df = changelog(spark, tmp_path / "in", window=al.Tumble("500 ms"))
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    query, found = started({"": df}, tmp_path / "checkpoint", processingTime="300 milliseconds")
    rows = found[""]
    try:
        end = time.monotonic() + 60
        while not rows and time.monotonic() < end:
            time.sleep(0.1)
    finally:
        query.stop()
    assert spans([row[:-1] for row in rows]) == [("a", 4, 500), ("b", 10, 500)]
