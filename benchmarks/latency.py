"""Latency: what a batch of 1,000 rows takes once the state holds 100,000 keys."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import partial

from matrix import FLOOR, LATENCY, LATENCY_RETRACT, LOOM, OWN
from measure import Contender, Run, Series, ratios, spread, take_turns
from pyspark.sql import SparkSession
from rows import TAIL_ROWS, Rows
from streams import FLOOR_STREAM, Files, Stream, loom, own
from workloads import BASIC

INPUTS = {"append-only": LATENCY, "30 % updates": LATENCY_RETRACT}
SETTLING = 3
"""Batches of 1,000 rows after the first large one that do not count."""
HEADER = ("input", "contender", "ms a batch", "aggloom's time over it")
NOTES = (
    f"{BASIC.name} by key: a batch of {LATENCY.rows:,} rows over {LATENCY.keys:,} keys, then "
    f"{LATENCY.tail} batches of {TAIL_ROWS:,} rows, one file each, without a pause between them. A round's"
    f" figure is the median of those but the first {SETTLING}; medians (least..greatest) of {{rounds}} "
    "rounds in turn, ratios of the same round. Spark's triggerExecution: planning, the offset and commit "
    "logs, and the checkpoint of the state included. Flink has no batches, and so no figure."
)


def _small(stream: Stream, spark: SparkSession, rows: Rows) -> Run:
    _, batches = stream.batches(spark, Files.of(rows, 1))
    return Run(TAIL_ROWS, statistics.median(batches[1 + SETTLING :]))


def measure(
    spark: SparkSession, rounds: int, inputs: Sequence[str] = tuple(INPUTS)
) -> list[Series]:
    """All rounds of some of the inputs."""
    series: list[Series] = []
    for name in inputs:
        rows = INPUTS[name]
        streams = {LOOM: loom(BASIC.sql), FLOOR: FLOOR_STREAM}
        if not rows.retracts:
            streams[OWN] = own(BASIC.sql)
        runs: dict[str, Contender] = {
            contender: partial(_small, stream, spark, rows) for contender, stream in streams.items()
        }
        series += take_turns(f"batches of {TAIL_ROWS:,} rows, {name}", runs, rounds)
    return series


def cells(series: Sequence[Series]) -> Iterator[tuple[str, ...]]:
    """The rows of the table."""
    ours = {each.case: each for each in series if each.contender == LOOM}
    for each in series:
        times, own_times = ([run.seconds for run in s.runs] for s in (each, ours[each.case]))
        over = "" if each.contender == LOOM else spread(ratios(own_times, times))
        yield (each.case, each.contender, spread(times, 1e3), over)
