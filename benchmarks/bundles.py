"""An operator alone, in bundles, beside DuckDB asked after each: the rounds and the page that benchmarks share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import click
import duckdb
import numpy as np
import pyarrow as pa
from measure import Run, Series, ratios, spread
from results import publish_rows

from aggloom.runtime.values.changelog import is_retraction

LOOM, DUCKDB = "aggloom", "DuckDB"
Play = Callable[[Any, int, int], tuple[Run, int]]
"""Plays a case over so many rows in bundles of a size: what it took, and a number that says what the answer is."""


class Case(Protocol):
    """A measurement with a name."""

    @property
    def name(self) -> str: ...


def command(
    page: str, cases: Sequence[Case], loom: Play, duckdb: Play, answer: str, notes: str
) -> click.Command:
    """The command that measures cases in turn, and writes results/`page`.md.

    answer: what the numbers are if they differ, as "{} keys have a row". notes: what the page says of the table.
    """

    @click.command(help=f"Measure, and write results/{page}.md unless --quick.")
    @click.option("--rows", default=2_000_000, show_default=True)
    @click.option("--bundle", default=100_000, show_default=True)
    @click.option("--rounds", default=3, show_default=True)
    @click.option("--quick", is_flag=True, help="A tenth of the rows.")
    def main(rows: int, bundle: int, rounds: int, quick: bool) -> None:
        rows = rows // 10 if quick else rows
        bundle = bundle // 10 if quick else bundle
        for case in cases:
            # What is compiled is compiled now.
            loom(case, 2_000, 1_000)
        found: dict[tuple[str, str], Series] = {}
        for number in range(1, rounds + 1):
            for case in cases:
                answers = set()
                for name, play in ((LOOM, loom), (DUCKDB, duckdb)):
                    run, answer = play(case, rows, bundle)
                    answers.add(answer)
                    found.setdefault((case.name, name), Series(case.name, name)).runs.append(run)
                    click.echo(
                        f"{case.name}, {name}, round {number}: {run.seconds:.2f} s", err=True
                    )
                if len(answers) > 1:
                    raise click.ClickException(
                        f"{case.name}: the contenders' answers differ: {answers}"
                    )
        table = list(cells(list(found.values())))
        if quick:
            for row in table:
                click.echo(" | ".join(row))
            return
        heads = ("what", "contender", "M rows/s", f"{LOOM} over it")
        how = (
            f"CPU time; median (least..greatest) of {rounds} rounds in turn; the last column is aggloom's speed by the "
            "contender's."
        )
        facts = {"rows": f"{rows} added, in bundles of {bundle}"}
        publish_rows(page, heads, table, list(found.values()), f"{notes} {how}", facts=facts)

    return main


def asked_anew(
    columns: str, ask: str, bundles: Iterable[tuple[pa.RecordBatch, np.ndarray]]
) -> tuple[Run, int]:
    """DuckDB with the net rows in a table t, and a question over all of them after each bundle: the last answer.

    columns: those of t, of which n names a row.
    """
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"CREATE TABLE t ({columns})")
    taken, seconds, answer = 0, 0.0, 0
    for batch, kinds in bundles:
        gone = is_retraction(kinds)
        news, olds = batch.filter(pa.array(~gone)), batch.filter(pa.array(gone))
        begin = time.process_time()
        connection.register("news", pa.Table.from_batches([news]))
        connection.execute("INSERT INTO t SELECT * FROM news")
        if olds.num_rows:
            connection.register("olds", pa.Table.from_batches([olds]))
            connection.execute("DELETE FROM t WHERE n IN (SELECT n FROM olds)")
        answer = connection.execute(ask).fetchall()[0][0]
        seconds += time.process_time() - begin
        taken += len(kinds)
    return Run(taken, seconds), int(answer or 0)


def cells(series: Sequence[Series]) -> Iterator[tuple[str, ...]]:
    """The rows of the table."""
    ours = {each.case: each.rates for each in series if each.contender == LOOM}
    for each in series:
        over = "" if each.contender == LOOM else spread(ratios(ours[each.case], each.rates))
        yield each.case, each.contender, spread(each.rates, 1e-6), over
