"""A chain of joins on one key, one thread: as one operator, and as joins of two inputs each in one stateful node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
import pyarrow as pa
from bundles import LOOM, cells
from measure import Run, Series
from results import publish_rows

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import Plan, PlanOptions, plan_query
from aggloom.runtime.local.pipeline import Pipeline
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.values.changelog import INSERT, UPDATE_AFTER, UPDATE_BEFORE
from aggloom.runtime.values.clock import Clock

CHAIN = "chain"
_OPTIONS = {LOOM: "true", CHAIN: "false"}
_SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])


@dataclass(frozen=True)
class Case:
    """Inputs of as many rows (id, k, v) each, in bundles of all of them.

    first, others: how many rows of a key the first input and each of the others have. updates: the share of rows that
    the next bundle changes. condition: a further one.
    """

    name: str
    inputs: int
    kind: str = "JOIN"
    first: int = 1
    others: int = 1
    updates: float = 0.0
    condition: str = ""

    def plan(self, contender: str) -> Plan:
        """The plan of the query, with a multi join or without."""
        names = [f"t{n}" for n in range(self.inputs)]
        values = ", ".join(f"{name}.v AS v{n}" for n, name in enumerate(names))
        ids = ", ".join(f"{name}.id AS i{n}" for n, name in enumerate(names))
        joins = " ".join(
            f"{self.kind} {name} ON t0.k = {name}.k{self.condition}" for name in names[1:]
        )
        keys = {name: ["k"] if self._each(n) == 1 else ["id"] for n, name in enumerate(names)}
        options = PlanOptions.of({"table.optimizer.multi-join.enabled": _OPTIONS[contender]})
        text = f"SELECT t0.k AS k, {ids}, {values} FROM t0 {joins}"
        schemas = dict.fromkeys(names, _SCHEMA)
        changes = "retract" if self.updates else "append"
        return plan_query(text, schemas, keys=keys, options=options, input_changes=changes)

    def bundles(self, rows: int, size: int) -> Iterator[dict[str, Rows]]:
        """The changes of all inputs, of which the rows of a key come at different times."""
        random = np.random.default_rng(7)
        each, step = rows // self.inputs, size // self.inputs
        keys = [random.permutation(each) // self._each(n) for n in range(self.inputs)]
        before: list[list[np.ndarray]] = [[] for _ in keys]
        for start in range(0, each, step):
            found = {}
            for number, own in enumerate(keys):
                some = own[start : start + step]
                n = len(some)
                new = [np.arange(start, start + n), some, random.integers(0, 1000, n)]
                parts, kinds = [new], [np.full(n, INSERT, np.int8)]
                old = before[number]
                if old and self.updates:
                    taken = random.choice(len(old[0]), int(self.updates * n), replace=False)
                    gone = [column[taken] for column in old]
                    parts += [gone, [*gone[:2], gone[2] + 1]]
                    kinds += [
                        np.full(len(taken), k, np.int8) for k in (UPDATE_BEFORE, UPDATE_AFTER)
                    ]
                before[number] = new
                arrays = [pa.array(np.concatenate(p)) for p in zip(*parts, strict=True)]
                batch = pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
                found[f"t{number}"] = batch, np.concatenate(kinds)
            yield found

    def _each(self, number: int) -> int:
        return self.first if number == 0 else self.others


def _cases() -> Iterator[Case]:
    for inputs in (3, 10):
        for kind, words in (("JOIN", "INNER"), ("LEFT JOIN", "LEFT")):
            for share, what in ((0.0, "added"), (0.3, "30 % updates")):
                yield Case(f"{inputs} inputs, {words}, {what}", inputs, kind, updates=share)
        many = f"{inputs} inputs, LEFT, 8 rows a key of the first"
        yield Case(f"{many}, 30 % updates", inputs, "LEFT JOIN", first=8, updates=0.3)
    both = "3 inputs, INNER, 4 rows a key of each"
    yield Case(f"{both}, added", 3, first=4, others=4)
    yield Case(f"{both}, 30 % updates", 3, first=4, others=4, updates=0.3)
    few = "3 inputs, INNER, 30 rows a key of each, 2 % of the pairs pass, 30 % updates"
    near = " AND ABS(t0.v - t1.v) < 10"
    yield Case(few, 3, first=30, others=30, updates=0.3, condition=near)


CASES = tuple(_cases())


def _refuse_handler(spec: AggSpec) -> type[Any]:
    raise AssertionError("a join has no calls")


def play(case: Case, contender: str, rows: int, size: int) -> tuple[Run, int, int]:
    """All bundles: what they took, how many joined rows there are, and the bytes of the state."""
    pipeline = Pipeline(case.plan(contender), _refuse_handler)
    taken, seconds = 0, 0.0
    for tables in case.bundles(rows, size):
        begin = time.process_time()
        pipeline.process(tables, Clock(0))
        seconds += time.process_time() - begin
        taken += sum(len(kinds) for _, kinds in tables.values())
    there = pipeline.contents()[0].num_rows
    state = sum(each.state_bytes for each in pipeline.operators)
    pipeline.close()
    return Run(taken, seconds), there, state


@click.command()
@click.option("--rows", default=1_000_000, show_default=True, help="Of all inputs.")
@click.option("--bundle", default=100_000, show_default=True, help="Rows of all inputs.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--quick", is_flag=True, help="A tenth of the rows.")
def main(rows: int, bundle: int, rounds: int, quick: bool) -> None:
    """Measure, and write results/multi_join.md unless --quick."""
    rows = rows // 10 if quick else rows
    bundle = bundle // 10 if quick else bundle
    for case in CASES:
        for contender in _OPTIONS:
            # What is compiled is compiled now.
            play(case, contender, 2_000, 1_000)
    found: dict[tuple[str, str], Series] = {}
    sizes: dict[tuple[str, str], str] = {}
    for number in range(1, rounds + 1):
        for case in CASES:
            answers = set()
            for contender in _OPTIONS:
                run, there, state = play(case, contender, rows, bundle)
                answers.add(there)
                named = case.name, contender
                sizes[named] = f"{state / rows:.0f}"
                found.setdefault(named, Series(*named)).runs.append(run)
                text = f"{case.name}, {contender}, round {number}: {run.seconds:.2f} s"
                click.echo(f"{text}, {sizes[named]} B a row, {there:,} joined", err=True)
            if len(answers) > 1:
                raise click.ClickException(f"{case.name}: {answers} joined rows")
    table = [(*row, sizes[row[0], row[1]]) for row in cells(list(found.values()))]
    if quick:
        for row in table:
            click.echo(" | ".join(row))
        return
    heads = ("what", "contender", "M rows/s", f"{LOOM} over it", "state, bytes a row")
    notes = (
        f"Inputs of {rows:,} rows in all, of three BIGINT columns, joined on one of them; the query reads every "
        f"column. They come in bundles of {bundle:,} rows and, where there are updates, the changes of some rows of "
        "the bundle before. aggloom is one operator for all inputs (table.optimizer.multi-join.enabled true), the "
        "chain one for each join, which remembers the rows that those before it have joined; both run in one stateful "
        "node. Where nothing else is said each input has one row a key, and the key is its unique key. The rows that "
        "come in are counted, each half of an update by itself. State: bytes of all operators, free room included, by "
        "the inputs' rows. Both have as many joined rows in the end. CPU time, one thread; median (least..greatest) of "
        f"{rounds} rounds in turn; aggloom over it is aggloom's speed by the chain's."
    )
    facts = {"rows": f"{rows} of all inputs, in bundles of {bundle}"}
    publish_rows("multi_join", heads, table, list(found.values()), notes, facts=facts)


if __name__ == "__main__":
    main()
