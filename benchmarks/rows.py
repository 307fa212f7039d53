"""The rows that every contender reads: generated from a seed, written once, Parquet for Spark and CSV for Flink."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

DATA = Path(__file__).resolve().parent.parent / "build" / "bench"
TYPES = {
    "k": "BIGINT",
    "v": "INT",
    "u": "BIGINT",
    "w": "DOUBLE",
    "ts": "TIMESTAMP_NTZ",
    "op": "STRING",
}
VALUES = 1_000
"""Number of values that v and u have; w has two digits after the point; ts is a millisecond later in every row."""
UPDATES = 0.3
ZIPF = 1.2
INSERT, BEFORE, AFTER, DELETE = "+I", "-U", "+U", "-D"

TAIL_ROWS = 1_000
EPOCH = 1_700_000_000

Ints = npt.NDArray[np.int64]
Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Rows:
    """The shape of the rows of a case.

    `changes`: "append"; "once", where each key comes once; "retract", where 30 % of the changes are updates (-U, then
    +U) of rows that are there; "versions", the same where each key is inserted once; "top", where four fifths of what
    was inserted are deleted, the greatest v first. `tail`: so many files of 1,000 rows come after the others.
    `beside`: the rows of a second table, `r`; these are those of `t`.
    """

    rows: int
    keys: int
    changes: str = "append"
    zipf: bool = False
    strings: bool = False
    columns: tuple[str, ...] = ("v",)
    files: int = 8
    tail: int = 0
    beside: Rows | None = None
    seed: int = 7

    @property
    def tables(self) -> dict[str, Rows]:
        """The tables by name."""
        return {"t": self} if self.beside is None else {"t": self, "r": self.beside}

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of a file, the change column last."""
        return ("k", *self.columns, *(("op",) if self.retracts else ()))

    @property
    def retracts(self) -> bool:
        """True if rows can be taken back."""
        return self.changes in ("retract", "versions", "top")

    @property
    def total(self) -> int:
        """Number of rows, the tail's among them."""
        return self.rows + self.tail * TAIL_ROWS

    @property
    def of_all(self) -> int:
        """Number of rows in all tables."""
        return sum(rows.total for rows in self.tables.values())

    @property
    def schema(self) -> str:
        """The columns as DDL, without the change column."""
        types = {**TYPES, "k": "STRING" if self.strings else "BIGINT"}
        return ", ".join(f"{name} {types[name]}" for name in ("k", *self.columns))

    @property
    def folder(self) -> Path:
        """The Parquet files, one for each slice of time, written if they are not there."""
        return once(DATA / self._tag, self._write_parquet)

    @property
    def csv(self) -> Path:
        """The same rows in two CSV files for two readers. All rows of a key that can be taken back are in one of them:
        readers do not wait for each other."""
        return once(DATA / f"{self._tag}-csv", self._write_csv)

    def table(self) -> pa.Table:
        """All rows, in order."""
        rng = np.random.default_rng(self.seed)
        if self.changes in ("retract", "versions"):
            columns = self._make_updates(rng)
        elif self.changes == "top":
            columns = self._make_withdrawals(rng)
        else:
            columns = {"k": self._keys(rng, self.total), **_values(rng, self.total)}
        table = pa.table({name: columns[name] for name in self.names})
        if self.strings:
            digits = pc.cast(table["k"], pa.string())
            table = table.set_column(0, "k", pc.binary_join_element_wise("customer", digits, "-"))
        return table

    def _keys(self, rng: np.random.Generator, count: int) -> Ints:
        if self.changes in ("once", "versions"):
            every: Ints = rng.permutation(count)
            return every
        if not self.zipf:
            return rng.integers(0, self.keys, count)
        weights = np.cumsum(np.arange(1, self.keys + 1) ** -ZIPF)
        ranks = np.searchsorted(weights, rng.random(count) * weights[-1])
        chosen: Ints = rng.permutation(self.keys)[np.minimum(ranks, self.keys - 1)]
        return chosen

    def _make_updates(self, rng: np.random.Generator) -> Columns:
        """Insertions, and updates of what was inserted before."""
        changes = int(1.01 * self.total / (1 + UPDATES)) + 100
        update = rng.random(changes) < UPDATES
        update[0] = False
        inserted = np.cumsum(~update)
        # The row that a change is about; the one before it about the same row is what an update takes back.
        about = np.where(update, rng.random(changes) * inserted, inserted - 1).astype(np.int64)
        order = np.argsort(about, kind="stable")
        before = np.empty(changes, np.int64)
        before[order[1:]] = order[:-1]
        # A change becomes one row, an update two.
        change = np.repeat(np.arange(changes), 1 + update)
        old = np.append(change[1:] == change[:-1], False)
        kinds = np.where(update[change], np.where(old, BEFORE, AFTER), INSERT)
        source = np.where(old, before[change], change)
        values = {name: column[source] for name, column in _values(rng, changes).items()}
        keys = self._keys(rng, int(inserted[-1]))[about[change]]
        columns = {"k": keys, **values, "op": kinds}
        return {name: column[: self.total] for name, column in columns.items()}

    def _make_withdrawals(self, rng: np.random.Generator) -> Columns:
        """Rows inserted, then taken back from the top, the keys in turn."""
        inserted = self.total * 5 // 9
        columns: Columns = {"k": self._keys(rng, inserted), **_values(rng, inserted)}
        columns["v"] = rng.permutation(inserted).astype(np.int32)
        deleted = np.argsort(-columns["v"], kind="stable")[: self.total - inserted]
        both = {name: np.append(column, column[deleted]) for name, column in columns.items()}
        return {**both, "op": np.repeat([INSERT, DELETE], [inserted, len(deleted)])}

    @property
    def _tag(self) -> str:
        marks = f"{'-zipf' if self.zipf else ''}{'-strings' if self.strings else ''}"
        marks += f"-seed{self.seed}" if self.seed != 7 else ""
        sizes = f"{self.rows}-{self.files}-{self.tail}"
        return f"{self.changes}-{self.keys}{marks}-{''.join(self.columns)}-{sizes}"

    def _write_parquet(self, folder: Path) -> None:
        table = self.table()
        bounds = [self.rows * part // self.files for part in range(self.files)]
        bounds += [self.rows + TAIL_ROWS * part for part in range(self.tail + 1)]
        for part, (begin, end) in enumerate(itertools.pairwise(bounds)):
            file = folder / f"part-{part:03}.parquet"
            pq.write_table(table.slice(begin, end - begin), file)
            # Spark reads files in order of their time.
            os.utime(file, (EPOCH + part, EPOCH + part))

    def _write_csv(self, folder: Path) -> None:
        table = pq.read_table(self.folder)
        if self.retracts:
            place = pc.dictionary_encode(table["k"]).combine_chunks().indices.to_numpy()
        else:
            place = np.arange(table.num_rows)
        bare = pa.csv.WriteOptions(include_header=False, quoting_style="none")
        for reader in range(2):
            part = table.filter(pa.array(place % 2 == reader))
            pa.csv.write_csv(part, folder / f"part-{reader}.csv", bare)


def _values(rng: np.random.Generator, count: int) -> Columns:
    return {
        "v": rng.integers(-VALUES // 2, VALUES // 2, count, dtype=np.int32),
        "u": rng.integers(0, VALUES, count),
        "w": rng.integers(-100_000, 100_000, count) / 100,
        "ts": (EPOCH * 1000 + np.arange(count)).astype("datetime64[ms]"),
    }


def once(folder: Path, write: Callable[[Path], None]) -> Path:
    """The folder, filled if it is not there; never half."""
    if not folder.exists():
        draft = folder.with_name(f"{folder.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        write(draft)
        draft.rename(folder)
    return folder
