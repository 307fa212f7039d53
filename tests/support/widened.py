"""Random queries that carry columns, over tables that gain one: their rows before and after, and DuckDB's answer."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

NARROW = {"t": "id INT, k INT, v STRING, n INT", "u": "id2 INT, k2 INT, w STRING"}
WIDE = {
    "t": "id INT, k INT, extra STRING, v STRING, n INT",
    "u": "id2 INT, k2 INT, more INT, w STRING",
}
_SOURCES = (
    "SELECT * FROM t",
    "SELECT * FROM t WHERE n % 3 <> 0 OR n IS NULL",
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id DESC) AS r FROM t) WHERE r = 1",
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n, id) AS r FROM t) WHERE r <= 2",
    "SELECT * FROM (SELECT *, RANK() OVER (PARTITION BY k ORDER BY v) AS r FROM t) WHERE r <= 2",
    "SELECT *, SUM(n) OVER (PARTITION BY k ORDER BY id) AS s FROM t",
)
_ABOVE = (
    "SELECT * FROM ({0}) AS a",
    "SELECT * FROM ({0}) AS a JOIN u ON a.k = u.k2",
    "SELECT * FROM ({0}) AS a LEFT JOIN u ON a.k = u.k2 AND a.id > u.id2",
    "SELECT * FROM u LEFT JOIN ({0}) AS a ON a.k = u.k2",
    "SELECT * FROM ({0}) AS a WHERE a.k IN (SELECT k2 FROM u)",
    "SELECT * FROM ({0}) AS a JOIN (SELECT k2, COUNT(*) AS c FROM u GROUP BY k2) AS b ON a.k = b.k2",
    "SELECT * FROM ({0}) AS a JOIN u ON a.k = u.k2 JOIN (SELECT id2 AS id3, k2 AS k3 FROM u) AS z ON a.k = z.k3",
    "SELECT * FROM ({0}) AS a UNION ALL SELECT * FROM ({0}) AS b",
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k2 ORDER BY id, id2) AS best FROM ({0}) AS a JOIN u"
    " ON a.k = u.k2) WHERE best = 1",
)


@dataclass
class Widened:
    """A query over t and u, of which both have a column more from some batch on; batches: rows by table, with kinds."""

    sql: str
    narrow: list[dict[str, list[tuple[str, dict[str, Any]]]]] = field(default_factory=list)
    wide: list[dict[str, list[tuple[str, dict[str, Any]]]]] = field(default_factory=list)
    gone: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def expected(self) -> Counter[Any]:
        """DuckDB's rows over the whole input, in which rows from before have NULL."""
        tables: dict[str, Counter[Any]] = {"t": Counter(), "u": Counter()}
        names = {name: [c.split()[0] for c in ddl.split(", ")] for name, ddl in WIDE.items()}
        for batch in (*self.narrow, *self.wide):
            for table, changes in batch.items():
                for kind, row in changes:
                    if kind == "insert":
                        tables[table][tuple(row.get(name) for name in names[table])] += 1
        for table, row in self.gone:
            tables[table][tuple(row.get(name) for name in names[table])] -= 1
        with duckdb.connect() as db:
            # Spark's order of NULLs.
            db.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
            for name, ddl in WIDE.items():
                db.execute(f"CREATE TABLE {name} ({ddl.replace('STRING', 'TEXT')})")
                rows = [list(row) for row in tables[name].elements()]
                marks = ", ".join("?" * len(names[name]))
                if rows:
                    db.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
            result = db.execute(self.sql)
            columns = [each[0] for each in result.description]
            return Counter(
                _identity(dict(zip(columns, row, strict=True))) for row in result.fetchall()
            )


def draw_widened(draw: random.Random, retracts: bool, default: str | None = None) -> Widened:
    """Draw a query and its input; retracts: whether rows are taken back, as they came.

    default: what a row from before is said to have in its new column when it is taken back.
    """
    drawn = Widened(draw.choice(_ABOVE).format(draw.choice(_SOURCES)))
    live: dict[str, list[dict[str, Any]]] = {"t": [], "u": []}
    number = 0
    for batches, is_wide in ((drawn.narrow, False), (drawn.wide, True)):
        for _ in range(draw.randint(1, 3)):
            batch: dict[str, list[tuple[str, dict[str, Any]]]] = {"t": [], "u": []}
            for _ in range(draw.randint(3, 14)):
                table = draw.choice("ttu")
                if retracts and live[table] and draw.random() < 0.35:
                    gone = live[table].pop(draw.randrange(len(live[table])))
                    said = gone
                    if is_wide and default is not None and table == "t" and "extra" not in gone:
                        said = {**gone, "extra": default}
                    batch[table].append(("delete", said))
                    drawn.gone.append((table, gone))
                    continue
                number += 1
                row = _row(draw, table, number, is_wide)
                live[table].append(row)
                batch[table].append(("insert", row))
            batches.append(batch)
    return drawn


def _row(draw: random.Random, table: str, number: int, is_wide: bool) -> dict[str, Any]:
    key, text = draw.choice([1, 2, 3, 4]), draw.choice(["a", "bb", "", "a longer text", None])
    if table == "t":
        row = {"id": number, "k": key, "v": text, "n": draw.choice([None, *range(5)])}
        return row | ({"extra": draw.choice(["x", "yy", "", None])} if is_wide else {})
    return {"id2": number, "k2": key, "w": text} | (
        {"more": draw.choice([7, 0, None])} if is_wide else {}
    )


def write_batch(
    folder: Path, number: int, batch: Mapping[str, Iterable[tuple[str, dict[str, Any]]]]
) -> None:
    """Write the rows of a batch as a file of each table."""
    for table, changes in batch.items():
        file = folder / table / f"{number:03d}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({**row, "_change_type": kind}) for kind, row in changes]
        file.write_text("".join(line + "\n" for line in lines))
        moment = 1_700_000_000 + number
        os.utime(file, (moment, moment))


def fold_changes(changes: Iterable[Mapping[str, Any]]) -> Counter[Any]:
    """The rows that changes leave, with a count below zero for one that was taken back and is not there."""
    left: Counter[Any] = Counter()
    for change in changes:
        kind = change["_change_type"]
        row = {name: value for name, value in change.items() if name != "_change_type"}
        left[_identity(row)] += 1 if kind in ("insert", "update_postimage") else -1
    return Counter({row: count for row, count in left.items() if count})


def _identity(row: Mapping[str, Any]) -> frozenset[Any]:
    """A row without its NULLs, which a row from before does not have as columns."""
    return frozenset((name, value) for name, value in row.items() if value is not None)
