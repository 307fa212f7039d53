"""Throughput: the cases of the matrix, contenders in turn, after a round in which their tables must be the same."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click
import duckdb
import pyarrow.parquet as pq
from flink import READS, VERSION, Flink
from matrix import BATCHES, FEW, FLOOR, HAND, LOOM, OWN, OWN_LOG, Case
from measure import Contender, Run, Series, ratios, spread, take_turns
from picture import Bar
from pyspark.sql import SparkSession
from results import RESULTS
from rows import Rows
from streams import FLOOR_STREAM, HAND_STREAM, Stream, loom, own

Table = Counter[tuple[Any, ...]]
HEADER = (
    "case",
    "contender",
    "whole run, M rows/s",
    "aggloom's over it",
    "under way, M rows/s",
    "aggloom's over it",
)
NOTES = (
    "Each case: a query, the changes that come, keys, rows. Medians (least..greatest) of the rounds ({rounds}), in "
    "which the contenders took turns; ratios are of the same round. Before them all contenders ran on few rows (at "
    f"most {FEW:,}) and had to give the table that DuckDB gives for the rows that are left.\n\n"
    "Whole run: from the start to the end, with what starting costs. Under way: on Spark the rows of all "
    "batches but the first over their times; of Flink the rows over the net time of the job, from its "
    "first task on.\n\n"
    f"On Spark: Parquet files in {BATCHES} micro-batches, RocksDB, a checkpoint each batch, noop sink. "
    f"{LOOM} gives out a changelog. {OWN} is its streaming aggregate in update mode, or its join of "
    f"streams, which read insertions only. {HAND}: transformWithStateInPandas with a ValueState for each key, on fewer "
    f"rows of the same kind (the number stands beside it). {FLOOR}: rows into Python and back, no state.\n\n"
    f"Flink SQL {VERSION}: streaming mode, parallelism 2, object reuse, blackhole sink; bundles of a "
    "second or 100,000 rows where the plan has them; checkpoints every 2 s, none awaited at the end. Its "
    "package has no Parquet format: it reads the same rows from two CSV files, and what that costs alone "
    "stands beside it. Changes come to it by FROM_CHANGELOG over the column `op`, which keeps no state; "
    "all rows of a key that can be taken back are in one file, since two readers do not wait for each "
    "other.\n\n"
    "The floor reads all columns through Spark's own source and hands all of them back; aggloom's source "
    "reads Parquet files whole, in Python, so that it can be faster than this floor."
)


def contenders(spark: SparkSession, flink: Flink, case: Case) -> dict[str, Contender]:
    """Name to what runs it on the rows of a case, or to why nothing does."""
    query, rows = case.query, case.rows
    runs: dict[str, Contender] = {LOOM: partial(loom(query.sql).run, spark, rows)}
    if case.floor:
        runs[FLOOR] = partial(FLOOR_STREAM.run, spark, rows)
    for name in case.own:
        runs[name] = partial(_own(case, name).run, spark, rows)
    if not case.own:
        runs[OWN] = "cannot run it"
    if case.by_hand:
        few = replace(rows, rows=case.by_hand)
        runs[f"{HAND}, {few.rows:,} rows"] = partial(HAND_STREAM.run, spark, few)
    for setup in case.flink:
        runs[setup.name] = (
            partial(flink.run, rows, query.sql, setup) if flink.version else "not installed"
        )
    if case.flink and flink.version:
        bare = replace(case.flink[0], plan="plain", checkpoints=False)
        runs[READS] = partial(flink.run, rows, _input_query(rows), bare)
    return runs


def _own(case: Case, name: str) -> Stream:
    mode = "append" if case.rows.beside else "update"
    return own(case.query.sql, name == OWN_LOG, mode)


def _input_query(rows: Rows) -> str:
    if rows.beside is None:
        return "SELECT * FROM t"
    return " UNION ALL ".join(f"SELECT k FROM {name}" for name in rows.tables)


def compute_expected(rows: Rows, sql: str) -> Table:
    """Let DuckDB answer over the rows that are left once all changes are made."""
    with duckdb.connect() as connection:
        for name, each in rows.tables.items():
            connection.register("changes", pq.read_table(each.folder))
            if each.retracts:
                names = ", ".join(each.names[:-1])
                connection.execute(
                    f"CREATE TABLE {name} AS SELECT {names} FROM (SELECT {names}, SUM(IF(op IN ('+I', '+U'), 1, -1)) "
                    "AS c FROM changes GROUP BY ALL), range(c::BIGINT)"
                )
            else:
                connection.execute(f"CREATE TABLE {name} AS FROM changes")
        return Counter(connection.execute(sql).fetchall())


def compute_tables(spark: SparkSession, flink: Flink | None, case: Case) -> dict[str, Table]:
    """The table of every contender that computes the case's query."""
    rows, sql = case.rows, case.query.sql
    tables = {LOOM: loom(sql).table(spark, rows)}
    for name in case.own:
        tables[name] = _own(case, name).table(spark, rows)
    if case.by_hand:
        tables[HAND] = HAND_STREAM.table(spark, rows)
    if flink and flink.version:
        for setup in case.flink:
            tables[setup.name] = flink.table(rows, sql, setup)
    return tables


def differences(right: Table, tables: Mapping[str, Table]) -> list[str]:
    """A line for each contender whose table is not the right one; floats may differ from the ninth digit on."""
    wanted = _group_floats(right)
    lines = []
    for name, table in tables.items():
        found_ = _group_floats(table)
        wrong = [row for row in {*wanted, *found_} if not _close(wanted[row], found_[row])]
        if wrong:
            row = wrong[0]
            lines.append(
                f"{name}: {len(wrong):,} rows differ: {row} has {found_[row]}, not {wanted[row]}"
            )
    return lines


def _group_floats(table: Table) -> defaultdict[tuple[Any, ...], list[tuple[float, ...]]]:
    """The floats of rows, in order, by what else is in them."""
    parted: defaultdict[tuple[Any, ...], list[tuple[float, ...]]] = defaultdict(list)
    for row in sorted(table.elements(), key=repr):
        exact = tuple(None if isinstance(value, float) else value for value in row)
        parted[exact].append(tuple(value for value in row if isinstance(value, float)))
    return parted


def _close(ours: list[tuple[float, ...]], theirs: list[tuple[float, ...]]) -> bool:
    return len(ours) == len(theirs) and all(
        math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
        for row, its in zip(sorted(ours), sorted(theirs), strict=True)
        for one, other in zip(row, its, strict=True)
    )


def verify(spark: SparkSession, flink: Flink, case: Case) -> None:
    """Raise ClickException unless all contenders give the right table for a few rows."""
    few = case.few()
    wrong = differences(
        compute_expected(few.rows, few.query.sql), compute_tables(spark, flink, few)
    )
    if wrong:
        raise click.ClickException("\n".join([f"{case.name}: wrong results", *wrong]))
    click.echo(f"{case.name}: the contenders give the same table for few rows", err=True)


def measure(
    spark: SparkSession, flink: Flink, cases: Sequence[Case], rounds: int
) -> Iterator[list[Series]]:
    """All rounds of the first case, then of the first two, and so on."""
    series: list[Series] = []
    for case in cases:
        verify(spark, flink, case)
        series += take_turns(title(case), contenders(spark, flink, case), rounds)
        yield series


def on_page(page: str, cases: Sequence[Case], made: Sequence[Series]) -> list[Series]:
    """List the series of a page for these cases, in their order: those measured now, otherwise those that it has
    already.
    """
    path = RESULTS / f"{page}.json"
    before = [
        Series(
            each["case"], each["contender"], each["absent"], [Run(**run) for run in each["runs"]]
        )
        for each in (json.loads(path.read_text())["measurements"] if path.exists() else [])
    ]
    anew = {each.case for each in made}
    found = [each for each in before if each.case not in anew] + list(made)
    return [each for name in map(title, cases) for each in found if each.case == name]


def rounds_of(series: Sequence[Series]) -> str:
    """Describe the numbers of rounds of the cases, as "3" or "3 to 5"."""
    found = sorted({len(each.runs) for each in series if each.runs})
    return " to ".join(str(each) for each in dict.fromkeys((found[0], found[-1])))


def title(case: Case) -> str:
    """A case as it stands in the tables."""
    rows = case.rows
    kinds = {"append": "append-only", "retract": "30 % updates", "top": "deletes from the top"}
    keys = (
        f"{rows.keys:,} {'STRING ' if rows.strings else ''}keys{', Zipf 1.2' if rows.zipf else ''}"
    )
    beside = "" if rows.beside is None else f" and {rows.beside.rows:,}"
    return f"{case.query.name}; {kinds[rows.changes]}; {keys}; {rows.rows:,}{beside} rows"


def cells(series: Sequence[Series]) -> Iterator[tuple[str, ...]]:
    """The rows of the table."""
    ours = {each.case: each for each in series if each.contender == LOOM}
    for each in series:
        if each.absent:
            yield (each.case, each.contender, each.absent, "", "", "")
            continue
        loom_ = ours[each.case]
        whole = "" if each is loom_ else spread(ratios(loom_.rates, each.rates))
        steady = "" if each is loom_ else spread(ratios(loom_.steady, each.steady))
        yield (
            each.case,
            each.contender,
            spread(each.rates, 1e-6),
            whole,
            spread(each.steady, 1e-6),
            steady,
        )


def bars(series: Sequence[Series]) -> list[Bar]:
    """The picture: aggloom's speed over each contender's, under way."""
    ours = {each.case: each for each in series if each.contender == LOOM}
    return [
        Bar(each.case, each.contender, ratios(ours[each.case].steady, each.steady))
        for each in series
        if each.runs and each.contender not in (LOOM, READS)
    ]
