"""The operator alone, without Spark, on one thread, beside what answers a GROUP BY once: DuckDB, Polars, pandas."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import click
import duckdb
import numpy as np
import pyarrow as pa
from measure import Run, Series, ratios, spread, take_turns
from peers import on_duckdb, on_pandas, on_polars
from results import publish_rows
from rows import Rows
from workloads import BASIC, COUNT, DISTINCT, MIXED, TOP, Query

from aggloom.codegen import AggSpec, generate, load, prepare
from aggloom.codegen.spec.choices import Changes
from aggloom.runtime.operators.group_aggregate import GroupAggOperator
from aggloom.runtime.values.changelog import is_retraction, parse_kinds

LOOM, BUNDLE = "aggloom", "aggloom, one bundle"
FIRST, SECOND = "aggloom, inserting", "aggloom, taking back"
REFERENCE = "DuckDB"
_SIGNED = "IF(op IN ('+I', '+U'), 1, -1)"


@dataclass(frozen=True)
class Case:
    """A query over rows in mini-batches of a tenth."""

    query: Query
    rows: Rows

    @property
    def name(self) -> str:
        rows = self.rows
        kinds = {"append": "append-only", "retract": "30 % updates", "top": "deletes from the top"}
        key = f"{rows.keys:,} {'STRING ' if rows.strings else ''}keys"
        return f"{self.query.name}; {kinds[rows.changes]}; {key}{', Zipf 1.2' if rows.zipf else ''}"

    @cached_property
    def spec(self) -> AggSpec:
        changes: Changes = "retract" if self.rows.retracts else "append"
        return AggSpec.from_sql(self.query.sql, schema=self.rows.schema, input_changes=changes)


class Loom:
    """The operator over a case's changes."""

    def __init__(self, case: Case, table: pa.Table) -> None:
        self._handler: Any = load(generate(case.spec))
        self._spec = case.spec
        self._whole = table.select(case.rows.names[: 1 + len(case.rows.columns)])
        self._kinds = (
            parse_kinds(table["op"], "op")
            if case.rows.retracts
            else np.zeros(table.num_rows, np.int8)
        )
        self._size = case.rows.rows // 10
        self._batches = [
            self._cut(begin, self._size) for begin in range(0, case.rows.rows, self._size)
        ]
        self._bundle = [self._cut(0, case.rows.rows)]
        # Where rows begin to be taken back from the top.
        self._top = int(is_retraction(self._kinds).argmax()) if case.rows.changes == "top" else 0

    def _cut(self, begin: int, size: int) -> tuple[pa.RecordBatch, Any]:
        part = self._whole.slice(begin, size).combine_chunks().to_batches()[0]
        # Filters are computed before the operator, as on Spark.
        return prepare(self._spec, part, self._kinds[begin : begin + size])

    def mini_batches(self) -> Run:
        """Changes out after each tenth of the rows."""
        return self._time_run(GroupAggOperator(self._handler), self._batches)

    def one_bundle(self) -> Run:
        """Changes out once, at the end: what a GROUP BY answers."""
        return self._time_run(GroupAggOperator(self._handler), self._bundle)

    def insert_rows(self) -> Run:
        """The rows of the case up to the first that takes one back."""
        return self._time_run(GroupAggOperator(self._handler), self._halves[0])

    def take_back_rows(self) -> Run:
        """The rest of them; only this is timed."""
        operator = GroupAggOperator(self._handler)
        self._time_run(operator, self._halves[0])
        return self._time_run(operator, self._halves[1])

    def answer(self) -> pa.Table:
        """The table after all rows."""
        operator = GroupAggOperator(self._handler)
        self._time_run(operator, self._batches)
        return pa.Table.from_batches([operator.contents()[0]])

    @cached_property
    def _halves(self) -> tuple[list[Any], list[Any]]:
        step, end = self._size, len(self._kinds)
        first = [(at, min(at + step, self._top)) for at in range(0, self._top, step)]
        second = [(at, min(at + step, end)) for at in range(self._top, end, step)]
        inserted, taken = ([self._cut(a, b - a) for a, b in part] for part in (first, second))
        return inserted, taken

    @staticmethod
    def _time_run(operator: GroupAggOperator, batches: Sequence[tuple[pa.RecordBatch, Any]]) -> Run:
        begin = time.process_time()
        for batch, kinds in batches:
            operator.process(batch, kinds)
        return Run(sum(len(kinds) for _, kinds in batches), time.process_time() - begin)


def left_over(rows: Rows, table: pa.Table) -> pa.Table:
    """The rows that are left once all changes are made."""
    if not rows.retracts:
        return table
    names = ", ".join(rows.names[:-1])
    with duckdb.connect() as connection:
        connection.register("changes", table)
        return connection.sql(
            f"SELECT {names} FROM (SELECT {names}, SUM({_SIGNED}) AS c FROM changes GROUP BY ALL), "
            "range(c::BIGINT)"
        ).to_arrow_table()


def contenders(case: Case) -> dict[str, Callable[[], Run]]:
    """Who takes part, once all have given the same answer."""
    table = case.rows.table()
    loom, left = Loom(case, table), left_over(case.rows, table)
    peers = {
        REFERENCE: on_duckdb(case.query.sql, left),
        "Polars": on_polars(case.spec, left),
        "pandas": on_pandas(case.spec, left),
    }
    wanted = peers[REFERENCE]()
    answers = {LOOM: loom.answer, **peers}
    wrong = [name for name, answer in answers.items() if not _same(answer(), wanted)]
    if wrong:
        raise click.ClickException(f"{case.name}: {', '.join(wrong)} answer otherwise than DuckDB")
    runs = {LOOM: loom.mini_batches, BUNDLE: loom.one_bundle}
    if case.rows.changes == "top":
        runs = {FIRST: loom.insert_rows, SECOND: loom.take_back_rows}
    for run in runs.values():
        # What is compiled is compiled now.
        run()
    return runs | {name: _time_run(answer, left.num_rows) for name, answer in peers.items()}


def _time_run(answer: Callable[[], pa.Table], rows: int) -> Callable[[], Run]:
    def run() -> Run:
        begin = time.process_time()
        answer()
        return Run(rows, time.process_time() - begin)

    return run


def _same(table: pa.Table, wanted: pa.Table) -> bool:
    """Tell whether two answers agree: floats to six digits, and NULL with 0, which is Polars' sum of nothing."""
    if table.num_rows != wanted.num_rows:
        return False
    table, wanted = table.sort_by("k"), wanted.sort_by("k")
    if not table["k"].cast(wanted["k"].type).equals(wanted["k"]):
        return False
    return all(
        np.allclose(_numbers(table[name]), _numbers(wanted[name]), rtol=1e-6, atol=1e-6)
        for name in wanted.column_names[1:]
    )


def _numbers(column: pa.ChunkedArray) -> Any:
    return np.nan_to_num(column.cast(pa.float64()).fill_null(0).to_numpy())


def cases(rows: int, keys: Sequence[int], middle: int) -> Iterator[Case]:
    """List the cases by number of keys, then those of the other axes, at `middle` keys."""
    base = Rows(rows, middle)
    for changes in ("append", "retract"):
        each = replace(base, changes=changes)
        for count in keys:
            yield Case(BASIC, replace(each, keys=count))
        yield Case(BASIC, replace(each, zipf=True))
        yield Case(BASIC, replace(each, strings=True))
        for query in (COUNT, MIXED, DISTINCT):
            yield Case(query, replace(each, columns=query.columns))
    yield Case(TOP, replace(base, keys=1, changes="top"))
    yield Case(TOP, replace(base, changes="top"))


def cells(series: Sequence[Series]) -> Iterator[tuple[str, ...]]:
    """The rows of the table."""
    theirs = {each.case: each.rates for each in series if each.contender == REFERENCE}
    for each in series:
        over = "" if each.contender == REFERENCE else spread(ratios(each.rates, theirs[each.case]))
        yield each.case, each.contender, spread(each.rates, 1e-6), over


@click.command()
@click.option("--rows", default=10_000_000, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--quick", is_flag=True, help="A tenth of the rows and keys, three rounds.")
@click.option("--only", default="", help="Only cases whose name has this in it.")
@click.option("--name", default="kernels", show_default=True, help="Name of the result files.")
def main(rows: int, rounds: int, quick: bool, only: str, name: str) -> None:
    """Measure by keys, kinds of changes, kinds of keys, and calls."""
    shrink = 10 if quick else 1
    rows, rounds = rows // shrink, 3 if quick else rounds
    keys = [count // shrink for count in (1_000, 10_000, 100_000, 1_000_000, 10_000_000)]
    notes = (
        f"{rows:,} rows, one thread. aggloom takes changes in ten mini-batches, with a changelog after each; with one "
        "bundle it gives its answer once, as a GROUP BY does. DuckDB, Polars and pandas answer once, from rows in "
        "their own memory; where rows are taken back they are handed only those that are left, and their rate counts "
        "only these. All give the same table, which is checked before. "
        f"CPU time; median (least..greatest) of {rounds} rounds in turn; ratios are of the same round."
    )
    header = ("case", "contender", "M rows/s", f"over {REFERENCE}")
    series: list[Series] = []
    for case in cases(rows, keys, 100_000 // shrink):
        if only in case.name:
            series += take_turns(case.name, contenders(case), rounds)
            # After each case: a run that is stopped has written what it measured.
            publish_rows(name, header, list(cells(series)), series, notes)


if __name__ == "__main__":
    main()
