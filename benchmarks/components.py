"""The components of state alone, one thread: row bag and sorted rows beside what Python keeps, and DuckDB's answers."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
import duckdb
import numpy as np
import pyarrow as pa
from measure import Run, Series, ratios, spread
from results import publish_rows
from sortedcontainers import SortedKeyList

from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.state.row_bag import RowBag
from aggloom.runtime.state.sort_key import SortColumn
from aggloom.runtime.state.sorted_rows import SortedRows
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.pool import Pool

FIRST = 10
LOOM, PYTHON, DUCKDB = "aggloom", "Python", "DuckDB"
_FIELDS = [pa.field("k", pa.int64()), pa.field("v", pa.int64()), pa.field("n", pa.int64())]
Steps = Mapping[str, Callable[[], tuple[int, object]]]
"""Steps by name, in order; each returns the number of rows it handled, and an answer that all contenders must share."""


@dataclass(frozen=True)
class Case:
    """Rows (k, v, n) of some keys: v random, n the number of the row. They come, are asked for, and half of them go.

    texts: number of columns of text besides: one of ten values in the first, another one in each row of the others.
    """

    rows: int
    keys: int
    texts: int = 0

    @property
    def fields(self) -> list[pa.Field]:
        return [*_FIELDS, *(pa.field(f"t{n}", pa.string()) for n in range(self.texts))]

    @property
    def name(self) -> str:
        texts = f", {self.texts} texts" if self.texts else ""
        return f"{self.rows:,} rows, {self.keys:,} keys{texts}"

    def batch(self) -> pa.RecordBatch:
        rng = np.random.default_rng(self.rows + self.keys)
        k = rng.integers(0, self.keys, self.rows)
        v = rng.integers(0, 1 << 40, self.rows)
        columns = [k, v, np.arange(self.rows)]
        for n in range(self.texts):
            drawn = rng.integers(0, 1 << 60 if n else 10, self.rows)
            columns.append(pa.array([f"{each:>40}" for each in drawn]))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(self.fields))


class Loom:
    """A component behind a key table, in batches of a tenth of the rows."""

    def __init__(self, case: Case) -> None:
        self.batch, self.arena = case.batch(), Arena()
        self.pool = Pool(self.arena)
        self.table = KeyTable(self.arena, self.pool, _FIELDS[:1])
        size = case.rows // 10
        self.batches = [self.batch.slice(begin, size) for begin in range(0, case.rows, size)]
        self.state: Any = None

    def insert(self) -> tuple[int, object]:
        for batch in self.batches:
            slots = self.table.lookup(batch)
            self.state.reserve_slots(self.table.capacity)
            self.state.insert(slots, batch)
        return self.batch.num_rows, len(self.state)

    def remove(self) -> tuple[int, object]:
        for batch in self.batches[::2]:
            self.state.free(self.state.remove(self.table.find(batch), batch).gone)
        return sum(batch.num_rows for batch in self.batches[::2]), len(self.state)

    @property
    def row_bytes(self) -> float:
        """Bytes of the arena by row, keys included, without free room."""
        self.state.trim()
        return self.arena.nbytes / len(self.state)


class LoomBag(Loom):
    """A row bag."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.state = RowBag(self.arena, self.pool, "bag", case.fields, self.table.capacity)

    def steps(self) -> Steps:
        return {
            "insert": self.insert,
            "walk": self.walk,
            "gather": self.gather,
            "remove": self.remove,
        }

    def walk(self) -> tuple[int, object]:
        found = sum(len(ids) for _, ids in self.state.walk(self.table.used_slots()))
        return found, found

    def gather(self) -> tuple[int, object]:
        total = 0
        for _, ids in self.state.walk(self.table.used_slots()):
            total += int(self.state.rows.gather(ids).column(1).to_numpy().sum())
        return len(self.state), total


class LoomSorted(Loom):
    """Sorted rows, the greatest v first."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        order, slots = [SortColumn(1, descending=True)], self.table.capacity
        self.state = SortedRows(self.arena, self.pool, "sorted", case.fields, order, slots)

    def steps(self) -> Steps:
        first = f"first {FIRST}"
        return {"insert": self.insert, first: self.first, "rank": self.rank, "remove": self.remove}

    def first(self) -> tuple[int, object]:
        _, ids = self.state.first(self.table.used_slots(), FIRST)
        return len(ids), int(self.state.rows.gather(ids).column(1).to_numpy().sum())

    def rank(self) -> tuple[int, object]:
        total = 0
        for batch in self.batches:
            ids = self.state.find(self.table.find(batch), batch)
            total += int(self.state.places(ids).rank.sum())
        return self.batch.num_rows, total


class PythonBag:
    """A dictionary of lists: rows by key."""

    def __init__(self, case: Case) -> None:
        batch, size = case.batch(), case.rows // 10
        self.names = batch.schema.names
        self.rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        self.gone = [
            row for at in range(0, case.rows, 2 * size) for row in self.rows[at : at + size]
        ]
        self.lists: dict[int, Any] = defaultdict(self.container)

    container: Any = list

    def steps(self) -> Steps:
        steps = {"insert": self.insert, "walk": self.walk, "gather": self.gather}
        # Taking a row out of a list looks at all of them.
        slow = len(self.rows) > 1_000 * len({row[0] for row in self.rows})
        return steps if slow else steps | {"remove": self.remove}

    def insert(self) -> tuple[int, object]:
        for row in self.rows:
            self.lists[row[0]].append(row)
        return len(self.rows), len(self.rows)

    def walk(self) -> tuple[int, object]:
        found = [row for rows in self.lists.values() for row in rows]
        return len(found), len(found)

    def gather(self) -> tuple[int, object]:
        found = [row for rows in self.lists.values() for row in rows]
        columns = [pa.array(column) for column in zip(*found, strict=True)]
        table = pa.RecordBatch.from_arrays(columns, names=self.names)
        return len(found), int(table.column(1).to_numpy().sum())

    def remove(self) -> tuple[int, object]:
        for row in self.gone:
            self.lists[row[0]].remove(row)
        return len(self.gone), len(self.rows) - len(self.gone)


class PythonSorted(PythonBag):
    """A dictionary of sortedcontainers' lists."""

    @staticmethod
    def container() -> Any:
        return SortedKeyList(key=lambda row: (-row[1], row[2]))

    def steps(self) -> Steps:
        first = f"first {FIRST}"
        return {"insert": self.insert, first: self.first, "rank": self.rank, "remove": self.remove}

    def insert(self) -> tuple[int, object]:
        for row in self.rows:
            self.lists[row[0]].add(row)
        return len(self.rows), len(self.rows)

    def first(self) -> tuple[int, object]:
        found = [row for rows in self.lists.values() for row in rows[:FIRST]]
        return len(found), sum(row[1] for row in found)

    def rank(self) -> tuple[int, object]:
        total = sum(self.lists[row[0]].bisect_key_left((-row[1], -1)) for row in self.rows)
        return len(self.rows), total


class Once:
    """DuckDB: the rows in a table, a window function over all of them for each answer; nothing is kept in order."""

    def __init__(self, case: Case) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.register("given", pa.Table.from_batches([case.batch()]))
        self.connection.execute("CREATE TABLE t AS SELECT * FROM given")

    def steps(self) -> Steps:
        over = "(PARTITION BY k ORDER BY v DESC)"
        first = f"SELECT v FROM t QUALIFY ROW_NUMBER() OVER {over} <= {FIRST}"
        rank = f"SELECT RANK() OVER {over} - 1 AS v FROM t"
        return {f"first {FIRST}": self.prepare_query(first), "rank": self.prepare_query(rank)}

    def prepare_query(self, query: str) -> Callable[[], tuple[int, object]]:
        whole = f"SELECT COUNT(*), SUM(v)::BIGINT FROM ({query})"
        return lambda: self.connection.execute(whole).fetchall()[0]


def play_steps(
    case: Case, contenders: Mapping[str, Callable[[Case], Any]], rounds: int
) -> list[Series]:
    """Rounds in which each contender goes through its steps, which must give the same answers."""
    series: dict[tuple[str, str], Series] = {}
    answers: dict[str, object] = {}
    for number in range(1, rounds + 1):
        for name, make in contenders.items():
            subject = make(case)
            for step, run in subject.steps().items():
                begin = time.process_time()
                rows, answer = run()
                seconds = time.process_time() - begin
                if answers.setdefault(step, answer) != answer:
                    raise click.ClickException(f"{case.name}, {step}: {name} answers otherwise")
                title = f"{step}; {case.name}"
                each = series.setdefault((title, name), Series(title, name))
                each.runs.append(Run(rows, seconds))
                text = f"{title}, {name}, round {number} of {rounds}: {seconds:.2f} s"
                click.echo(text, err=True)
    return [
        series[key]
        for key in sorted(series, key=lambda key: list(answers).index(key[0].split(";")[0]))
    ]


def cells(part: str, series: Sequence[Series]) -> Iterator[tuple[str, ...]]:
    """The rows of the table."""
    loom = {each.case: each.rates for each in series if each.contender == LOOM}
    for each in series:
        over = "" if each.contender == LOOM else spread(ratios(loom[each.case], each.rates))
        yield part, each.case, each.contender, spread(each.rates, 1e-6), over


def bytes_of(case: Case, make: Callable[[Case], Loom]) -> tuple[float, int]:
    """(bytes a row in the arena, keys included; what the component states of a row) once all rows are in."""
    subject = make(case)
    subject.insert()
    return subject.row_bytes, subject.state.row_bytes


@click.command()
@click.option("--rows", default=1_000_000, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--texts", default=0, help="Number of columns of text besides.")
@click.option("--quick", is_flag=True, help="A tenth of the rows.")
def main(rows: int, rounds: int, texts: int, quick: bool) -> None:
    """Measure insertion, removal, walks, ranks and first rows, by number of keys."""
    rows = rows // 10 if quick else rows
    parts: dict[str, dict[str, Callable[[Case], Any]]] = {
        "row bag": {LOOM: LoomBag, PYTHON: PythonBag},
        "sorted rows": {LOOM: LoomSorted, PYTHON: PythonSorted, DUCKDB: Once},
    }
    wide = f" and {texts} of 40 characters, the first with ten values" if texts else ""
    notes = (
        f"Rows of three BIGINT columns{wide}, one thread, in ten batches; half of them are removed again, each "
        "found by its whole row. aggloom finds the key's slot in a key table first, and gathers Arrow columns. "
        "Python: a dictionary of lists of tuples, or of SortedKeyLists of sortedcontainers, from tuples made "
        "before; its gather makes Arrow columns of the tuples; it does not remove from lists of more than 1,000 "
        "rows, which it would have to look through. DuckDB keeps no order: it sorts all rows for each answer. All "
        f"give the same answers. CPU time; median (least..greatest) of {rounds} rounds in turn; the last column is "
        "aggloom's speed by the contender's."
    )
    header = ("component", "step", "contender", "M rows/s", f"{LOOM} over it")
    table: list[tuple[str, ...]] = []
    measured: list[object] = []
    sizes: dict[str, str] = {}
    for part, contenders in parts.items():
        # What is compiled is compiled now.
        for make in contenders.values():
            for run in make(Case(100, 10, texts)).steps().values():
                run()
        title = "components-texts" if texts else "components"
        for keys in (1, rows // 1_000, rows // 10, rows):
            case = Case(rows, keys, texts)
            found = play_steps(case, contenders, rounds)
            table += cells(part, found)
            measured += found
            taken, stated = bytes_of(case, contenders[LOOM])
            sizes[f"bytes a row, {part}, {case.name}"] = (
                f"{taken:.0f} with its keys; the component states {stated} without them"
            )
            publish_rows(title, header, table, measured, notes, facts=sizes)


if __name__ == "__main__":
    main()
