"""The join operator alone, one thread, over bundles of both sides; DuckDB's join of the whole tables once, as Arrow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import click
import duckdb
import numpy as np
import pyarrow as pa
from bundles import LOOM, cells
from measure import Run, Series
from results import publish_rows

from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.operators.join.operator import JoinOperator
from aggloom.runtime.operators.join.spec import JoinSpec
from aggloom.runtime.operators.steps import no_rows
from aggloom.runtime.values.changelog import INSERT, UPDATE_AFTER, UPDATE_BEFORE
from aggloom.runtime.values.clock import Clock

DUCKDB = "DuckDB, once"
_LEFT = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("v", pa.float64())])
_RIGHT = pa.schema([("p", pa.int64()), ("m", pa.int64()), ("w", pa.float64())])
_COLUMNS = ("n", "k", "v", "m", "w")


@dataclass(frozen=True)
class Case:
    """Rows (k, n, v) of the left and (p, m, w) of the right, as many of both, of so many rows a key.

    unique: whether p is the right's key. updates: the share of rows that a later bundle changes. one: all rows of the
    left have one key, and what is measured is the change of the right's row.
    """

    name: str
    kind: str = "inner"
    each: int = 1
    unique: bool = True
    updates: float = 0.0
    one: bool = False

    @property
    def spec(self) -> JoinSpec:
        """The spec of the operator."""
        changing = self.updates or self.one
        keys = (("n",), ("p",)) if self.unique else (("n",), ("m",))
        left_key, right_key = keys if changing or self.unique else (None, None)
        output = ("n",) if changing and self.unique and self.kind == "left" else None
        return JoinSpec(
            left=_LEFT,
            right=_RIGHT,
            how=self.kind,  # type: ignore[arg-type]
            null_safe=(False,),
            columns=_COLUMNS,
            left_key=left_key,
            right_key=right_key,
            output_key=output,
        )

    def bundles(self, rows: int, size: int) -> Iterator[tuple[InputBatch, InputBatch]]:
        """The changes of both sides."""
        random = np.random.default_rng(7)
        keys = 1 if self.one else rows // self.each
        right_keys = random.permutation(rows) % keys
        before: list[list[np.ndarray]] = [[], []]
        for start in range(0, rows, size):
            n = min(size, rows - start)
            numbers = np.arange(start, start + n)
            lefts = [random.integers(0, keys, n), numbers, random.random(n)]
            rights = [right_keys[start : start + n], numbers, random.random(n)]
            if self.one:
                rights = [each[: start == 0] for each in rights]
            both = []
            for side, (schema, new) in enumerate(((_LEFT, lefts), (_RIGHT, rights))):
                parts, kinds = [new], [np.full(len(new[0]), INSERT, np.int8)]
                old = before[side]
                if old and self.updates:
                    taken = random.choice(len(old[0]), int(self.updates * n), replace=False)
                    some = [each[taken] for each in old]
                    parts += [some, [*some[:2], random.random(len(taken))]]
                    kinds += [
                        np.full(len(taken), kind, np.int8) for kind in (UPDATE_BEFORE, UPDATE_AFTER)
                    ]
                before[side] = new
                arrays = [pa.array(np.concatenate(each)) for each in zip(*parts, strict=True)]
                batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
                both.append(InputBatch(batch, np.concatenate(kinds)))
            yield both[0], both[1]
        if self.one:
            old = [each[:1] for each in (np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1))]
            batch = pa.RecordBatch.from_arrays([pa.array(each) for each in old], schema=_RIGHT)
            yield InputBatch(*no_rows(_LEFT)), InputBatch(batch, np.array([UPDATE_AFTER], np.int8))


CASES = (
    Case("foreign key to primary key, added"),
    Case("8 to 8 rows a key, added", each=8, unique=False),
    Case("LEFT JOIN, 30 % updates of both", "left", updates=0.3),
    Case("FULL JOIN, 30 % updates of both", "full", updates=0.3),
    Case("one row of the right changes, all of the left", one=True),
)


def loom(case: Case, rows: int, size: int) -> tuple[Run, int, JoinOperator]:
    """The operator over all bundles: what it took, how many rows came and went, and itself."""
    operator = case.spec.make(None)
    taken, emitted, seconds = 0, 0, 0.0
    for bundles in case.bundles(rows, size):
        begin = time.process_time()
        changes = operator.run(bundles, Clock(0))
        passed = time.process_time() - begin
        if case.one:
            taken, emitted, seconds = len(changes[1]) // 2, len(changes[1]), passed
            continue
        seconds += passed
        taken += sum(len(each.kinds) for each in bundles)
        emitted += len(changes[1])
    return Run(taken, seconds), emitted, operator


def join(case: Case, rows: int, size: int) -> tuple[Run, int]:
    """DuckDB's join over the rows that there are in the end, emitted as Arrow."""
    tables = []
    for side, schema in enumerate((_LEFT, _RIGHT)):
        parts = [bundles[side] for bundles in case.bundles(rows, size)]
        whole = pa.Table.from_batches([part.batch for part in parts])
        kinds = np.concatenate([part.kinds for part in parts])
        key = np.asarray(whole.column(0 if side and case.one else 1))
        last = np.full(rows, -1)
        last[key[kinds != UPDATE_BEFORE]] = np.flatnonzero(kinds != UPDATE_BEFORE)
        tables.append(whole.take(pa.array(last[last >= 0])))
        assert tables[-1].schema == schema
    connection = duckdb.connect(config={"threads": 1})
    for name, table in zip(("l", "r"), tables, strict=True):
        connection.register(f"{name}_rows", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
    begin = time.process_time()
    found = connection.execute(
        f"SELECT n, k, v, m, w FROM l {case.kind} JOIN r ON l.k = r.p"
    ).to_arrow_table()
    seconds = time.process_time() - begin
    return Run(rows if case.one else sum(len(t) for t in tables), seconds), found.num_rows


@click.command()
@click.option("--rows", default=1_000_000, show_default=True, help="Of each side.")
@click.option("--bundle", default=100_000, show_default=True, help="Rows of each side.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--quick", is_flag=True, help="A tenth of the rows.")
def main(rows: int, bundle: int, rounds: int, quick: bool) -> None:
    """Measure, and write results/join.md unless --quick."""
    rows = rows // 10 if quick else rows
    bundle = bundle // 10 if quick else bundle
    for case in CASES:
        # What is compiled is compiled now.
        loom(case, 2_000, 1_000)
    found: dict[tuple[str, str], Series] = {}
    sizes: dict[str, str] = {}
    for number in range(1, rounds + 1):
        for case in CASES:
            run, emitted, operator = loom(case, rows, bundle)
            live_rows = sum(len(side.bag) for side in operator.state.sides)
            sizes[case.name] = f"{operator.state_bytes / live_rows:.0f} B x {live_rows:,}"
            there = operator.contents()[0].num_rows
            other, answer = join(case, rows, bundle)
            if there != answer:
                raise click.ClickException(f"{case.name}: {there} rows, {answer} in DuckDB")
            for name, each in ((LOOM, run), (DUCKDB, other)):
                found.setdefault((case.name, name), Series(case.name, name)).runs.append(each)
                click.echo(f"{case.name}, {name}, round {number}: {each.seconds:.2f} s", err=True)
            click.echo(f"  {emitted:,} emitted, {there:,} joined, {sizes[case.name]}", err=True)
    table = [(*row, sizes[row[0]] if row[1] == LOOM else "") for row in cells(list(found.values()))]
    if quick:
        for row in table:
            click.echo(" | ".join(row))
        return
    heads = ("what", "contender", "M rows/s", f"{LOOM} over it", "state a row")
    notes = (
        f"Two tables of {rows:,} rows each, of two BIGINT columns and a DOUBLE, joined on one of them, one thread. "
        f"aggloom takes both in bundles of {bundle:,} rows a side and tells after each what has changed; the rows that "
        "come in are counted, each half of an update by itself. DuckDB joins the tables as they are in the end, once, "
        "and gives the result out as Arrow; the rows of its tables are counted. Where one row of the right changes, "
        "the rows of the left that it meets are counted, and only that change is measured: its answer takes back and "
        f"gives out {rows:,} joined rows. Both have as many joined rows in the end. CPU time; median "
        f"(least..greatest) of {rounds} rounds in turn; aggloom over it is aggloom's speed by the contender's; state a "
        "row: bytes of the whole state, free room included, by rows that it holds."
    )
    facts = {"rows": f"{rows} a side, in bundles of {bundle}"}
    publish_rows("join", heads, table, list(found.values()), notes, facts=facts)


if __name__ == "__main__":
    main()
