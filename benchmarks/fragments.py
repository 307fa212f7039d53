"""Fragments: chains of operators in one stateful node, beside the same chains in a node each.

The plans take turns on the same files. `before` is `fragments_enabled=False`: an exchange and a stateful node for each
operator, as every plan was before fragments.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial

import click
from measure import Contender, Run, Series, ratios, spread, take_turns
from pyspark.sql import SparkSession
from results import publish_rows
from rows import TAIL_ROWS, Rows
from streams import Files, Stream, loom
from workloads import CASCADE

from aggloom.runtime.spark.sessions.session import session

ONE = "SELECT k, u, SUM(v) AS s FROM t GROUP BY k, u"
TWO = f"SELECT k, COUNT(*) AS n, MAX(s) AS m FROM ({ONE}) GROUP BY k"
FINE = "SELECT k, u, v, COUNT(*) AS s FROM t GROUP BY k, u, v"
THREE = TWO.replace(ONE, f"SELECT k, u, SUM(s) AS s FROM ({FINE}) GROUP BY k, u")
SMALL = Rows(200_000, 20_000, columns=("v", "u"), files=1, tail=12)
LARGE = Rows(2_000_000, 20_000, columns=("v", "u"))
OTHER_KEYS = Rows(2_000_000, 100_000, "retract", columns=CASCADE.columns)
SETTLING = 3


def _small(stream: Stream, spark: SparkSession) -> Run:
    _, batches = stream.batches(spark, Files.of(SMALL, 1))
    return Run(TAIL_ROWS, statistics.median(batches[1 + SETTLING :]))


def _latency(spark: SparkSession, rounds: int) -> list[Series]:
    """A batch of 1,000 rows through one operator, and through chains of two and three."""
    streams = {
        "1 operator": loom(ONE),
        "2 operators, before": loom(TWO, fragments_enabled=False),
        "2 operators": loom(TWO),
        "3 operators, before": loom(THREE, fragments_enabled=False),
        "3 operators": loom(THREE),
    }
    runs: dict[str, Contender] = {n: partial(_small, s, spark) for n, s in streams.items()}
    return take_turns(f"batches of {TAIL_ROWS:,} rows", runs, rounds)


def _throughput(spark: SparkSession, rounds: int) -> list[Series]:
    """Whole streams of four batches, fused and not."""
    cases = {
        "SUM by a, b, then COUNT and MAX by a": (TWO, LARGE),
        "the cascade over different keys": (CASCADE.sql, OTHER_KEYS),
    }
    found = []
    for name, (sql, rows) in cases.items():
        runs: dict[str, Contender] = {
            "before": partial(loom(sql, fragments_enabled=False).run, spark, rows),
            "now": partial(loom(sql).run, spark, rows),
        }
        found += take_turns(name, runs, rounds)
    return found


def _cells(latency: Sequence[Series], throughput: Sequence[Series]) -> list[tuple[str, ...]]:
    """The rows of the table."""
    one = [run.seconds for run in latency[0].runs]
    found: list[tuple[str, ...]] = []
    for each in latency:
        times = [run.seconds for run in each.runs]
        over = f"{spread(ratios(times, one))} times one operator"
        found.append((each.case, each.contender, f"{spread(times, 1e3)} ms", over))
    for before, now in zip(throughput[::2], throughput[1::2], strict=True):
        found.append((before.case, "before", f"{spread(before.steady, 1e-6)} M rows/s", ""))
        faster = f"{spread(ratios(now.steady, before.steady))} times as fast"
        found.append((now.case, "now", f"{spread(now.steady, 1e-6)} M rows/s", faster))
    return found


@click.command()
@click.option("--rounds", default=3, show_default=True)
def main(rounds: int) -> None:
    """Measure, and write results/fragments.md."""
    spark = session("benchmark")
    latency, throughput = _latency(spark, rounds), _throughput(spark, rounds)
    notes = (
        f"A batch of {TAIL_ROWS:,} rows comes to a state of {SMALL.rows:,} rows; a round's figure is the median of "
        f"{SMALL.tail - SETTLING} batches. Streams of 2 M rows are read in four batches; the figure is once under way, "
        "without the first. Before: a stateful node for each operator (fragments_enabled=False). Medians "
        f"(least..greatest) of {rounds} rounds in turn. What bounds the ratio of whole streams: "
        "docs/decisions/033-fragments.md."
    )
    heads = ("what", "plan", "figure", "ratio in one round")
    publish_rows("fragments", heads, _cells(latency, throughput), [*latency, *throughput], notes)


if __name__ == "__main__":
    main()
