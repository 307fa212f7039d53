"""Deduplicate and Normalise alone, one thread, in micro-batches; DuckDB asked for the kept rows after each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import click
import duckdb
import numpy as np
import pyarrow as pa
from measure import Run, Series, ratios, spread
from results import publish_rows

from aggloom.runtime.operators.base import Operator
from aggloom.runtime.operators.deduplicate.at_once import DeduplicateOperator
from aggloom.runtime.operators.normalise import NormaliseOperator
from aggloom.runtime.values.changelog import INSERT

LOOM, DUCKDB = "aggloom", "DuckDB"
_COLUMNS = pa.schema(
    [("k", pa.int64()), ("n", pa.int64()), ("ts", pa.int64()), ("v", pa.float64())]
)


@dataclass(frozen=True)
class Case:
    """Rows (k, n, ts, v) of so many keys; n rises as rows arrive. by: the column that rows are chosen by, n or ts."""

    name: str
    keys: int
    keep: Literal["first", "last"]
    by: str = "n"
    upserts: bool = False

    def bundles(self, rows: int, size: int) -> Iterator[pa.RecordBatch]:
        """The rows."""
        random = np.random.default_rng(7)
        for start in range(0, rows, size):
            n = min(size, rows - start)
            numbers = np.arange(start, start + n)
            late = numbers - random.integers(0, 100_000, n)
            columns = [random.integers(0, self.keys, n), numbers, late, random.random(n)]
            yield pa.RecordBatch.from_arrays([pa.array(each) for each in columns], schema=_COLUMNS)

    def operator(self) -> Operator:
        if self.upserts:
            return NormaliseOperator(_COLUMNS, 1)
        order = None if self.by == "n" else self.by
        return DeduplicateOperator(_COLUMNS, 1, self.keep, order=order)


CASES = (
    Case("first of 1 M keys by arrival", 1_000_000, "first"),
    Case("last of 1 M keys by arrival", 1_000_000, "last"),
    Case("last of 1 M keys by time", 1_000_000, "last", "ts"),
    Case("first of 1 M keys by time", 1_000_000, "first", "ts"),
    Case("last of 1 k keys by time", 1_000, "last", "ts"),
    Case("upserts of 1 M keys made whole", 1_000_000, "last", upserts=True),
)


def loom(case: Case, rows: int, size: int) -> tuple[Run, int]:
    """The operator over all bundles: what it took, and how many keys it has in the end."""
    operator, seconds = case.operator(), 0.0
    for batch in case.bundles(rows, size):
        kinds = np.full(batch.num_rows, INSERT, np.int8)
        begin = time.process_time()
        operator.process(batch, kinds)
        seconds += time.process_time() - begin
    return Run(rows, seconds), operator.keys


def kept_rows(case: Case, rows: int, size: int) -> tuple[Run, int]:
    """DuckDB with all rows in a table and the query over all of them after each bundle."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE TABLE t (k BIGINT, n BIGINT, ts BIGINT, v DOUBLE)")
    best = "arg_min" if case.keep == "first" else "arg_max"
    ask = f"SELECT COUNT(*) FROM (SELECT k, {best}(n, {case.by}), {best}(v, {case.by}) FROM t GROUP BY k)"
    seconds, answer = 0.0, 0
    for batch in case.bundles(rows, size):
        begin = time.process_time()
        connection.register("news", pa.Table.from_batches([batch]))
        connection.execute("INSERT INTO t SELECT * FROM news")
        answer = connection.execute(ask).fetchall()[0][0]
        seconds += time.process_time() - begin
    return Run(rows, seconds), answer


def cells(series: Sequence[Series]) -> Iterator[tuple[str, ...]]:
    """The rows of the table."""
    ours = {each.case: each.rates for each in series if each.contender == LOOM}
    for each in series:
        over = "" if each.contender == LOOM else spread(ratios(ours[each.case], each.rates))
        yield each.case, each.contender, spread(each.rates, 1e-6), over


@click.command()
@click.option("--rows", default=2_000_000, show_default=True)
@click.option("--bundle", default=100_000, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--quick", is_flag=True, help="A tenth of the rows.")
def main(rows: int, bundle: int, rounds: int, quick: bool) -> None:
    """Measure, and write results/deduplicate.md unless --quick."""
    rows = rows // 10 if quick else rows
    bundle = bundle // 10 if quick else bundle
    for case in CASES:
        # What is compiled is compiled now.
        loom(case, 2_000, 1_000)
    found: dict[tuple[str, str], Series] = {}
    for number in range(1, rounds + 1):
        for case in CASES:
            answers = set()
            for name, play in ((LOOM, loom), (DUCKDB, kept_rows)):
                run, answer = play(case, rows, bundle)
                answers.add(answer)
                found.setdefault((case.name, name), Series(case.name, name)).runs.append(run)
                click.echo(f"{case.name}, {name}, round {number}: {run.seconds:.2f} s", err=True)
            if len(answers) > 1:
                raise click.ClickException(f"{case.name}: {answers} keys have a row")
    table = list(cells(list(found.values())))
    if quick:
        for row in table:
            click.echo(" | ".join(row))
        return
    heads = ("what", "contender", "M rows/s", f"{LOOM} over it")
    notes = (
        "Rows of three BIGINT columns and a DOUBLE, one thread, in bundles. After each bundle aggloom has told what "
        "changed; DuckDB is asked for the kept rows of all keys. CPU time; median (least..greatest) of "
        f"{rounds} rounds in turn; the last column is aggloom's speed by the contender's."
    )
    facts = {"rows": f"{rows} added, in bundles of {bundle}"}
    publish_rows("deduplicate", heads, table, list(found.values()), notes, facts=facts)


if __name__ == "__main__":
    main()
