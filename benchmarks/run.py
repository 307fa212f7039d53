"""Streaming benchmarks: aggloom beside Flink SQL, Spark's own aggregate, a processor written by hand, and the floor.

What is measured is the table in matrix.py. Results go to benchmarks/results, a page a part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import compiling
import latency
import state
import throughput
from flink import Flink, interpreter
from matrix import NAMES, OPERATORS, STATE_KEYS, Case, cases
from pyspark.sql import SparkSession
from results import publish_rows

import aggloom as al

EVERY = (*NAMES, *(case.name for case in OPERATORS))


@dataclass(frozen=True)
class Choice:
    """The options of the command line."""

    quick: bool
    rounds: int
    cases: tuple[str, ...]
    keep: bool

    def page(self, part: str) -> str:
        """The name of a part's page; quick runs have pages of their own."""
        return f"{part}-quick" if self.quick else part

    def publish(self, part: str, module: Any, made: list[Any], **more: Any) -> None:
        """Write the page of a part."""
        rounds = (more.get("facts") or {}).get("rounds", self.rounds)
        notes = module.NOTES.replace("{rounds}", str(rounds))
        raw = [each.__dict__ for each in made]
        publish_rows(self.page(part), module.HEADER, list(module.cells(made)), raw, notes, **more)


def _throughput(spark: SparkSession, flink: Flink, choice: Choice) -> None:
    chosen = cases(choice.quick, choice.cases)
    _cases("throughput", chosen, cases(choice.quick, NAMES), spark, flink, choice)


def _operators(spark: SparkSession, flink: Flink, choice: Choice) -> None:
    chosen = [case for case in OPERATORS if case.name in choice.cases or not choice.cases]
    chosen = [case.few() for case in chosen] if choice.quick else chosen
    _cases("operators", chosen, list(OPERATORS), spark, flink, choice)


def _cases(
    part: str,
    chosen: list[Case],
    every: list[Case],
    spark: SparkSession,
    flink: Flink,
    choice: Choice,
) -> None:
    """Measure cases, and write a page of them after each."""
    title = "aggloom's speed over each contender's, once under way (more is faster)"
    page = choice.page(part)
    facts = {"flink": flink.version or "not installed"}
    if choice.keep:
        # The page holds what several runs have measured.
        facts["command"] = (
            f"python benchmarks/run.py --part {part} --keep --case ..., for each case"
        )
    for made in throughput.measure(spark, flink, chosen, choice.rounds):
        # After each case: a run that is stopped has written what it measured.
        shown = throughput.on_page(page, every, made) if choice.keep else made
        bars = title, throughput.bars(shown)
        facts["rounds"] = throughput.rounds_of(shown)
        choice.publish(part, throughput, shown, bars=bars, facts=facts)


def _latency(spark: SparkSession, _: Flink, choice: Choice) -> None:
    inputs = tuple(latency.INPUTS)[: 1 if choice.quick else None]
    choice.publish("latency", latency, latency.measure(spark, choice.rounds, inputs))


def _state(spark: SparkSession, _: Flink, choice: Choice) -> None:
    counts = STATE_KEYS[:1] if choice.quick else STATE_KEYS
    choice.publish("state", state, state.measure(spark, counts, choice.rounds))


def _measure_compiling(spark: SparkSession, _: Flink, choice: Choice) -> None:
    names = tuple(compiling.HANDLERS)[: 1 if choice.quick else None]
    choice.publish("compiling", compiling, compiling.measure(choice.rounds, names))


RUN: dict[str, Callable[[SparkSession, Flink, Choice], None]] = {
    "throughput": _throughput,
    "operators": _operators,
    "latency": _latency,
    "state": _state,
    "compiling": _measure_compiling,
}


@click.command()
@click.option("--quick", is_flag=True, help="Three rounds of few cases, in minutes.")
@click.option("--rounds", type=int, help="Instead of 5, or of 3 with --quick.")
@click.option("--part", "parts", multiple=True, type=click.Choice(list(RUN)))
@click.option("--case", "names", multiple=True, type=click.Choice(EVERY))
@click.option("--keep", is_flag=True, help="Keep the other cases that the page has, too.")
@click.option("--check", is_flag=True, help="Only compare the contenders' results, on few rows.")
@click.option("--no-flink", is_flag=True, help="Leave Flink out; it is installed otherwise (once).")
@click.option(
    "--flink-python", type=Path, envvar="AGGLOOM_FLINK_PYTHON", help="A Python that has it."
)
def main(
    quick: bool,
    rounds: int | None,
    parts: tuple[str, ...],
    names: tuple[str, ...],
    keep: bool,
    check: bool,
    no_flink: bool,
    flink_python: Path | None,
) -> None:
    """Measure, and write benchmarks/results."""
    choice = Choice(quick, rounds or (3 if quick else 5), names, keep)
    every = tuple(part for part in RUN if not (quick and part == "operators"))
    wanted = parts or (("throughput",) if names or check else every)
    wants_flink = not {"throughput", "operators"}.isdisjoint(wanted) and not no_flink
    flink = Flink((flink_python or interpreter()) if wants_flink else None)
    spark = al.session("aggloom-bench")
    spark.sparkContext.setLogLevel("ERROR")
    if check:
        others = [case for case in OPERATORS if case.name in names or not names]
        chosen = others if "operators" in wanted else cases(quick, names)
        for case in chosen:
            throughput.verify(spark, flink, case)
    else:
        for part in wanted:
            RUN[part](spark, flink, choice)
    flink.close()
    spark.stop()


if __name__ == "__main__":
    main()
