"""Nexmark: python -m nexmark (PYTHONPATH=benchmarks). Each query is checked and measured; what is found is kept.

A query that fails, or takes too long, is reported and leaves the others alone. What was found before is not asked again
unless --again says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click
from flink import interpreter
from rich.console import Console

from nexmark import alone
from nexmark.beside import Beside, format_option, python_option
from nexmark.book import Book
from nexmark.catalogue import NAMES, QUERIES, Query
from nexmark.events import Events
from nexmark.oracle import Oracle
from nexmark.stream import BATCHES, differences, measure, session


class _Run:
    """The parts that all queries of a run share: events, the oracle, a session, a Flink, each made when it is first
    wanted.
    """

    def __init__(self, events: Events, limit: float, flink: Path | None, form: str) -> None:
        self.events, self.limit = events, limit
        self.book = Book(events, form)
        self.beside = Beside(flink, form)
        self._oracle: Oracle | None = None
        self.spark = session()

    @property
    def oracle(self) -> Oracle:
        if self._oracle is None:
            self._oracle = Oracle(self.events)
        return self._oracle

    def check(self, query: Query) -> None:
        """Its table beside DuckDB's."""
        found = differences(self.spark, query, self.events, self.oracle, self.limit)
        self.book.add(query.name, table="; ".join(found) if found else "right")
        _say(f"{query.name}: {'WRONG: ' + '; '.join(found) if found else 'right'}")

    def measure(self, query: Query, rounds: int, flink: bool) -> None:
        """Rounds in which aggloom and Flink take turns; then the operators alone."""
        ours, jobs, wholes = [], [], []
        facts: dict[str, object] = {}
        refused = query.not_flink if not self.events.corrections else ""
        for _ in range(rounds):
            made = measure(self.spark, query, self.events, self.limit)
            ours.append(made.steady)
            facts = made.to_dict() | {"batches": len(made.batches)}
            _say(f"{query.name}: {made.steady / 1e3:,.0f} k rows/s")
            if not flink or refused:
                continue
            try:
                theirs = self.beside.measure(query, self.events, self.limit)
            except click.ClickException as error:
                refused = error.message
                _say(f"{query.name}: Flink: {refused}")
                continue
            jobs.append(theirs.job)
            wholes.append(theirs.seconds)
            facts |= {"flink_plan": theirs.plan}
            rate = made.rows / theirs.job
            _say(f"{query.name}: Flink {rate / 1e3:,.0f} k rows/s, {made.steady / rate:.2f} times")
        facts |= {"steady": ours, "flink_job": jobs, "flink_seconds": wholes}
        facts["flink_error"] = refused if flink else ""
        self.book.add(query.name, **facts)
        if made.nodes:
            self.book.add(query.name, operators=alone.seconds(query, self.events, BATCHES))

    def close(self) -> None:
        self.beside.close()
        self.spark.stop()


def _say(text: str) -> None:
    Console(stderr=True).print(text, highlight=False, markup=False)


def _parse_queries(text: str) -> list[Query]:
    names = text.replace(",", " ").split() or list(NAMES)
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise click.UsageError(f"no query {unknown[0]}; there are {NAMES[0]} to {NAMES[-1]}")
    return [query for query in QUERIES if query.name in names]


def _each(
    run: _Run, queries: Iterable[Query], rounds: int, flink: bool, again: bool, checked: bool
) -> None:
    for query in queries:
        known = run.book.records().get(query.name, {})
        try:
            if checked and (again or "table" not in known):
                run.check(query)
            unasked = flink and not known.get("flink_job") and not known.get("flink_error")
            if rounds and (again or "steady" not in known or unasked):
                run.measure(query, rounds, flink)
        except Exception as error:
            # The other queries are worth running whatever happened to this one.
            _say(f"{query.name}: {type(error).__name__}: {str(error)[:500]}")
            run.book.add(query.name, error=f"{type(error).__name__}: {str(error)[:200]}")
        run.book.publish(
            _command(run.events, flink, run.book.form), run.beside.version if flink else ""
        )


def _command(events: Events, flink: bool, form: str) -> str:
    target = "nexmark-flink" if flink else "nexmark"
    more = " CORRECTIONS=1" if events.corrections else ""
    return f"make {target} EVENTS={events.count}{more}{'' if form == 'csv' else f' FORMAT={form}'}"


@click.command()
@click.option("--events", default=1_000_000, show_default=True)
@click.option("--queries", default="", help="Such as 'q4 q5'; all of them otherwise.")
@click.option("--corrections", is_flag=True, help="A tenth of the rows are corrected later.")
@click.option("--flink", is_flag=True, help="Flink SQL beside it, in the same run.")
@format_option
@click.option("--rounds", default=1, show_default=True, help="0: only compare the tables.")
@click.option("--limit", default=600.0, show_default=True, help="Seconds that a run may take.")
@click.option("--again", is_flag=True, help="Ask again what is known.")
@click.option(
    "--unchecked", is_flag=True, help="Measure only, and leave the tables to a smaller run."
)
@python_option
def main(
    events: int,
    queries: str,
    corrections: bool,
    flink: bool,
    form: str,
    rounds: int,
    limit: float,
    again: bool,
    unchecked: bool,
    flink_python: Path | None,
) -> None:
    """Run the queries on Spark, check their tables against DuckDB, and measure."""
    wanted = _parse_queries(queries)
    python = (flink_python or interpreter()) if flink else None
    run = _Run(Events(events, corrections), limit, python, form)
    try:
        _each(run, wanted, rounds, flink, again, not unchecked)
    finally:
        run.book.show()
        run.close()
    names = {query.name for query in wanted}
    wrong = [
        name
        for name, each in run.book.records().items()
        if name in names and (each.get("table", "right") != "right" or "error" in each)
    ]
    if wrong:
        _say(f"not right: {', '.join(wrong)}")
        sys.exit(1)


if __name__ == "__main__":
    main()
