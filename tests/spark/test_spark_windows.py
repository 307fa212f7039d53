"""Windows on Spark: the same changes as the harness, batch by batch, over restarts and failures."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import time
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggloom.codegen import AggCall, AggSpec
from aggloom.codegen.planner import Plan
from aggloom.codegen.windows import (
    CountTrigger,
    CountWindow,
    Cumulate,
    EventTimeTrigger,
    Hop,
    PurgingTrigger,
    Session,
    Tumble,
)
from aggloom.errors import SpecError, StateMismatchError
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.values.changelog import CHANGE_TYPES, KIND_NAMES

pytestmark = pytest.mark.spark

pytest.importorskip("pyspark")

from aggloom.runtime.spark import late_rows, on_time, sql  # noqa: E402
from aggloom.runtime.spark.api.window_aggregate import window_aggregate  # noqa: E402
from aggloom.runtime.spark.write.sinks import write_changes  # noqa: E402

DDL = "op STRING, k STRING, ts TIMESTAMP, v BIGINT"
BASE = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
CALLS = (
    AggCall("SUM", "v", alias="s"),
    AggCall("COUNT", alias="n"),
    AggCall("COUNT", "v", distinct=True, alias="d"),
)
SPEC = AggSpec("k STRING, ts TIMESTAMP, v BIGINT", ("k",), CALLS)
Row = tuple[Any, ...]
WINDOWS: dict[str, dict[str, Any]] = {
    "tumbling": {"window": Tumble("10 s", on="ts")},
    "hopping, in a time zone": {"window": Hop("1 day", "6 h", on="ts", time_zone="Asia/Kolkata")},
    "cumulating": {"window": Cumulate("30 s", "10 s", on="ts")},
    "sessions": {"window": Session("6 s", on="ts")},
    "late updates": {"window": Tumble("10 s", on="ts"), "allowed_lateness": "20 s"},
    "late sessions": {"window": Session("6 s", on="ts"), "allowed_lateness": "20 s"},
    "early results": {"window": Hop("20 s", "10 s", on="ts"), "trigger": EventTimeTrigger(early=0)},
    "count windows": {"window": CountWindow(3)},
    "sliding count windows": {"window": CountWindow(4, 2)},
    "sessions that purge": {
        "window": Session("6 s", on="ts"),
        "trigger": PurgingTrigger(CountTrigger(2)),
    },
}


def rows_of(batch: int) -> list[Row]:
    """Rows around 12 s after those of the batch before, some of them late, some taken back."""
    rng = np.random.default_rng(batch)
    rows: list[Row] = []
    for _ in range(30):
        late = rng.integers(0, 5) == 0
        second = batch * 12 + int(rng.integers(-25, 0) if late else rng.integers(0, 14))
        time = BASE + dt.timedelta(seconds=second, milliseconds=int(rng.integers(0, 1000)))
        rows.append(("+I", f"k{rng.integers(4)}", time, int(rng.integers(1, 6))))
    if batch:
        rows += [("-D", *row) for _, *row in rows_of(batch - 1)[:30:7]]
    return rows


def write(directory: Path, batch: int) -> None:
    directory.mkdir(exist_ok=True)
    path = directory / f"{batch:04d}.jsonl"
    lines = [
        json.dumps({"op": op, "k": k, "ts": ts.isoformat(), "v": v})
        for op, k, ts, v in rows_of(batch)
    ]
    path.write_text("\n".join(lines))
    os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))


def stream(spark: Any, directory: Path) -> Any:
    return spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).json(str(directory))


def drain(df: Any, checkpoint: Path, into: dict[int, list[Row]] | None = None) -> list[list[Row]]:
    """Run a stream as far as its files go: the changes of each batch that has any; `into` keeps them by batch."""
    batches: dict[int, list[Row]] = {} if into is None else into

    def take(batch: Any, number: int) -> None:
        batches[number] = [tuple(row) for row in batch.collect()]

    writer = df.writeStream.foreachBatch(take).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    return [batch for batch in batches.values() if batch]


def harness_batches(batches: int, delay_ms: int, **window: Any) -> list[Counter[Row]]:
    """Return the harness's changes of each of the same batches, at the watermarks that Spark has."""
    harness = Harness(SPEC, **window)
    out, newest = [], 0
    words = dict(zip(KIND_NAMES, CHANGE_TYPES, strict=True))

    def collect() -> None:
        changes = [(*row, words[kind]) for kind, *row in harness.changes()]
        if changes:
            out.append(Counter(changes))

    for number in range(batches):
        mark = newest - delay_ms - 1
        rows = rows_of(number)
        if newest:
            harness.watermark(mark)
        harness.process(rows)
        harness.flush()
        collect()
        times = [int(row[2].timestamp() * 1000) for row in rows]
        newest = max(newest, *times)
    harness.watermark(newest - delay_ms - 1)
    collect()
    return out


def plain(batches: list[list[Row]]) -> list[Counter[Row]]:
    """Batches with instants as the harness gives them."""

    def value(each: Any) -> Any:
        return each.replace(tzinfo=dt.UTC) if isinstance(each, dt.datetime) else each

    return [Counter(tuple(map(value, row)) for row in batch) for batch in batches]


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.sampled(2)
def test_batches_equal_the_harness_over_a_restart(spark: Any, tmp_path: Path, name: str) -> None:
    window = WINDOWS[name]
    for batch in range(3):
        write(tmp_path / "in", batch)
    df = window_aggregate(
        stream(spark, tmp_path / "in"),
        SPEC,
        watermark="5 s",
        change_column="op",
        buckets=3,
        **window,
    )
    got = drain(df, tmp_path / "checkpoint")
    # Windows are open, sessions about to merge, timers pending.
    for batch in range(3, 6):
        write(tmp_path / "in", batch)
    got += drain(df, tmp_path / "checkpoint")
    assert _merged(plain(got)) == _merged(_with_pause(window))


def _with_pause(window: dict[str, Any]) -> list[Counter[Row]]:
    """The harness has no pause: the batch without rows at the end of a run brings what the next would."""
    return harness_batches(6, 5000, **window)


def _merged(batches: list[Counter[Row]]) -> Counter[Row]:
    """All messages."""
    whole: Counter[Row] = Counter()
    for batch in batches:
        whole += batch
    return whole


def test_windows_over_windows_in_sql(spark: Any, tmp_path: Path) -> None:
    for batch in range(5):
        write(tmp_path / "in", batch)
    # Watermarks wait for the end of an interval: windows of ten seconds fire later, and fewer rows are late.
    query = """
        SET 'table.exec.mini-batch.allow-latency' = '15 s';
        CREATE TEMPORARY VIEW tens AS
        SELECT k, window_time AS wt, SUM(v) * 2 AS s
        FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        WHERE v > 1 GROUP BY k, window_start, window_end, window_time;
        SELECT window_start, SUM(s) AS s, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE tens, DESCRIPTOR(wt), INTERVAL '20' SECOND))
        GROUP BY window_start, window_end
    """
    t = stream(spark, tmp_path / "in").withWatermark("ts", "5 seconds")
    got = drain(sql(query, t=t, change_column="op"), tmp_path / "checkpoint")
    harness = Harness.from_sql(query, {"t": "k STRING, ts TIMESTAMP, v BIGINT"})
    newest = 0
    for number in range(5):
        if newest:
            harness.watermark(newest - 5001)
        harness.process(rows_of(number))
        newest = max(newest, *(int(row[2].timestamp() * 1000) for row in rows_of(number)))
    harness.watermark(newest - 5001)
    wanted = Counter(tuple(row) for _, *row in harness.changes())
    assert wanted
    assert Counter(row[:-1] for row in _merged(plain(got)).elements()) == wanted


def test_batch_queries_close_every_window(spark: Any, tmp_path: Path) -> None:
    for batch in range(3):
        write(tmp_path / "in", batch)
    df = spark.read.schema(DDL).json(str(tmp_path / "in")).orderBy("ts")
    window = Session("6 s", on="ts")
    spec = AggSpec(SPEC.schema, ("k",), CALLS, "append")
    rows = df.where("op = '+I'").drop("op")
    got = [tuple(row) for row in window_aggregate(rows, spec, window=window).collect()]
    harness = Harness(spec, window=window)
    harness.process([row for batch in range(3) for row in rows_of(batch) if row[0] == "+I"])
    harness.end_of_input()
    assert _merged(plain([got])) == Counter((*row, "insert") for _, *row in harness.changes())


@pytest.mark.parametrize("shape", ["{}", "SELECT k, SUM(s) AS s FROM ({}) GROUP BY k"])
@pytest.mark.sampled(1)
def test_a_time_to_live_leaves_windows_as_they_are(spark: Any, tmp_path: Path, shape: str) -> None:
    """All files in one batch: the windows fire in the batch without rows that follows it."""
    for batch in range(3):
        write(tmp_path / "in", batch)
    windows = (
        "SELECT k, window_start, SUM(v) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY k, window_start, window_end"
    )
    tables: list[Counter[Row]] = []
    for setting in ("", "SET 'table.exec.state.ttl' = '1 h'; "):
        rows = spark.readStream.schema(DDL).json(str(tmp_path / "in")).where("op = '+I'").drop("op")
        df = sql(setting + shape.format(windows), t=rows, watermarks={"t": ("ts", "0 s")})
        got = drain(df, tmp_path / f"checkpoint {len(tables)}")
        tables.append(_merged(plain(got)))
    assert tables[0] and tables[0] == tables[1]


def test_a_time_to_live_beside_windows_that_had_timers_is_refused_before_the_start(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint as versions wrote it in which a time to live had timers by the clock beside windows, too."""
    write(tmp_path / "in", 0)
    rows = spark.readStream.schema(DDL).json(str(tmp_path / "in")).where("op = '+I'").drop("op")
    query = (
        "SET 'table.exec.state.ttl' = '1 h'; SELECT k, SUM(s) AS s FROM (SELECT k, SUM(v) AS s FROM "
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end) GROUP BY k"
    )
    with monkeypatch.context() as patched:
        patched.setattr(Plan, "awaits_watermark", False)
        df = sql(query, t=rows, watermarks={"t": ("ts", "0 s")})
        write_changes(df, "table", tmp_path / "checkpoint").awaitTermination()
    df = sql(query, t=rows, watermarks={"t": ("ts", "0 s")})
    with pytest.raises(StateMismatchError, match=r"timers by the clock.*beside windows"):
        write_changes(df, "table", tmp_path / "checkpoint")


def test_late_rows_are_handed_out(spark: Any, tmp_path: Path) -> None:
    for batch in range(4):
        write(tmp_path / "in", batch)
    options: dict[str, Any] = {"window": Tumble("10 s", on="ts"), "late_rows": True}
    df = window_aggregate(
        stream(spark, tmp_path / "in"), SPEC, watermark="5 s", change_column="op", **options
    )
    seen: dict[str, list[Row]] = {"late": [], "on time": []}

    def take(batch: Any, number: int) -> None:
        seen["late"] += [tuple(row) for row in late_rows(batch).collect()]
        seen["on time"] += [tuple(row) for row in on_time(batch).collect()]

    writer = df.writeStream.foreachBatch(take).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    harness = Harness(SPEC, **options)
    newest = 0
    for number in range(4):
        if newest:
            harness.watermark(newest - 5001)
        harness.process(rows_of(number))
        newest = max(newest, *(int(row[2].timestamp() * 1000) for row in rows_of(number)))
    harness.watermark(newest - 5001)
    words = dict(zip(KIND_NAMES, CHANGE_TYPES, strict=True))
    wanted = Counter((*row, words[kind]) for kind, *row in harness.late())
    assert sum(wanted.values()) > 3
    assert plain([seen["late"]]) == [wanted]
    assert plain([seen["on time"]])[0] == Counter((*r, words[k]) for k, *r in harness.changes())


def test_processing_time_windows_fire_by_the_clock(spark: Any, tmp_path: Path) -> None:
    for batch in range(3):
        write(tmp_path / "in", batch)
    spec = AggSpec("k STRING, v BIGINT", (), (AggCall("COUNT", alias="n"),), "append")
    df = stream(spark, tmp_path / "in").where("op = '+I'").drop("op", "ts")
    changes = window_aggregate(df, spec, window=Tumble("1 s"), buckets=2)
    first = drain(changes, tmp_path / "checkpoint")
    write(tmp_path / "in", 3)
    time.sleep(1.1)  # the windows of the first three batches are over, however quick these were
    second = drain(changes, tmp_path / "checkpoint")
    counted = sum(row[3] for batch in first + second for row in batch)
    # The last batch is counted only if its window is over at Spark's last look.
    assert counted in (90, 120)
    assert all(row[1] - row[0] == dt.timedelta(seconds=1) for row in chain(*first, *second))


def test_a_stream_without_a_watermark_is_refused(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", 0)
    df = stream(spark, tmp_path / "in")
    with pytest.raises(SpecError, match="need a watermark"):
        window_aggregate(df, SPEC, window=Tumble("10 s", on="ts"), change_column="op")
    with pytest.raises(SpecError, match="has one already"):
        window_aggregate(
            df.withWatermark("ts", "1 second"),
            SPEC,
            window=Tumble("10 s", on="ts"),
            watermark="5 s",
            change_column="op",
        )


def test_killed_workers_lose_nothing(spark: Any, tmp_path: Path) -> None:
    for batch in range(5):
        write(tmp_path / "in", batch)
    window = WINDOWS["late sessions"]
    victims = tmp_path / "victims"
    victims.mkdir()

    def stumble(batches: Any) -> Any:
        """Each of three tasks kills its worker once, after it has emitted what it has."""
        import signal

        yield from batches
        for number in range(3):
            mark = victims / str(number)
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    df = window_aggregate(
        stream(spark, tmp_path / "in"),
        SPEC,
        watermark="5 s",
        change_column="op",
        buckets=3,
        **window,
    )
    stumbling = df.mapInArrow(stumble, df.schema)
    got: dict[int, list[Row]] = {}
    for _ in range(8):
        # A local session does not try a task again: the query fails, and is started anew.
        with contextlib.suppress(Exception):
            drain(stumbling, tmp_path / "checkpoint", got)
            break
    assert len(list(victims.iterdir())) == 3
    assert _merged(plain(list(got.values()))) == _merged(harness_batches(5, 5000, **window))
