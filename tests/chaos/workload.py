"""The work of a chaos run: a query drawn by a seed, files of changes for it, and its expected results.

Every batch is one file. The harness gives the changes of each batch, DuckDB the table at the end.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from aggloom.runtime.local.harness import Harness
from aggloom.runtime.values.changelog import CHANGE_TYPES, KIND_NAMES, fold

DDL = "id BIGINT, a STRING, b STRING, v BIGINT, ts TIMESTAMP"
Row = tuple[Any, ...]
Batch = Counter[Row]

_NAMES = ("id", "a", "b", "v", "ts")
_BASE = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_DELAY_MS = 5_000
_STEP_SECONDS = 12
_GROUPED = (
    "SELECT a, b, SUM(v) AS s, MAX(v) AS m, COUNT(*) AS n, COUNT(DISTINCT id % 7) AS d "
    "FROM t GROUP BY a, b"
)
_CASCADE = (
    "SELECT n, COUNT(*) AS names, SUM(s) AS total, COUNT(DISTINCT top) AS tops FROM "
    "(SELECT a, COUNT(*) AS n, SUM(v) AS s, MAX(b) AS top FROM t WHERE v >= 0 GROUP BY a) GROUP BY n"
)
_RANKED = (
    "SELECT a, b, s, r FROM (SELECT a, b, s, ROW_NUMBER() OVER (PARTITION BY a ORDER BY s DESC, b) AS r FROM "
    "(SELECT a, b, SUM(v) AS s FROM t GROUP BY a, b) AS g) AS x WHERE r <= 2"
)
_JOINED = (
    "SELECT a, n, id, v, r FROM (SELECT x.a, n, id, v, ROW_NUMBER() OVER (PARTITION BY x.a ORDER BY v DESC, id) AS r "
    "FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) AS x "
    "LEFT JOIN (SELECT id, a, v FROM t WHERE v >= 37) AS y ON x.a = y.a AND v - 30 < n) AS z WHERE r <= 3"
)
_OVER = "SELECT id, a, v, SUM(v) OVER (PARTITION BY a ORDER BY id ROWS 5 PRECEDING) AS s FROM t"
_WINDOWED = (
    "SELECT a, window_start, window_end, SUM(v) AS s, COUNT(DISTINCT b) AS d, MAX(v) AS m "
    "FROM TABLE({call}) GROUP BY a, window_start, window_end"
)
_TUMBLE = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)"
_HOP = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' SECOND)"
_IN_WINDOWS = (
    "SELECT a, w, w + INTERVAL {size} SECOND, SUM(v), COUNT(DISTINCT b), MAX(v) "
    "FROM (SELECT *, unnest([{starts}]) AS w FROM t) "
    "WHERE w + INTERVAL {size} SECOND <= (SELECT MAX(ts) FROM t) - INTERVAL 5 SECOND GROUP BY ALL"
)
_START = "time_bucket(INTERVAL 10 SECOND, ts)"


@dataclass(frozen=True)
class Query:
    """A script, its options, and the same question in DuckDB's words; rows: how many insertions a batch has."""

    text: str
    oracle: str
    rows: int = 400
    keys: int = 60
    windowed: bool = False
    options: dict[str, Any] = field(default_factory=dict)


QUERIES = {
    "grouped": Query(_GROUPED, _GROUPED),
    "per record": Query(_GROUPED, _GROUPED, options={"mini_batch_enabled": False}),
    # A task aggregates before the exchange from 4,096 rows on.
    "two phases": Query(
        _GROUPED, _GROUPED, rows=5_000, options={"on_orphan_retraction": "keep"}, keys=12
    ),
    "cascade": Query(_CASCADE, _CASCADE),
    "split": Query(_CASCADE, _CASCADE, options={"distinct_agg_split_enabled": True}),
    "tumbling": Query(
        _WINDOWED.format(call=_TUMBLE),
        _IN_WINDOWS.format(size=10, starts=_START),
        windowed=True,
        options={"allow_lateness": "5 min"},
    ),
    "hopping": Query(
        _WINDOWED.format(call=_HOP),
        _IN_WINDOWS.format(size=20, starts=f"{_START}, {_START} - INTERVAL 10 SECOND"),
        windowed=True,
        options={"allow_lateness": "5 min"},
    ),
    "ranked": Query(_RANKED, _RANKED),
    "joined": Query(_JOINED, _JOINED),
    "over": Query(_OVER, _OVER),
}


@dataclass(frozen=True)
class Workload:
    """A query over some batches of changes, both drawn by `seed`."""

    seed: int
    name: str
    batches: int = 7
    format: str = "jsonl"

    @classmethod
    def of_seed(cls, seed: int) -> Workload:
        """Neighbouring seeds have other queries: any few of them have all."""
        names = list(QUERIES)
        format_ = random.Random(seed).choice(["jsonl", "parquet"])
        return cls(seed, names[seed % len(names)], format=format_)

    @property
    def query(self) -> Query:
        return QUERIES[self.name]

    @property
    def watermarks(self) -> dict[str, tuple[str, Any]] | None:
        """As `sql` takes them."""
        return {"t": ("ts", f"{_DELAY_MS} milliseconds")} if self.query.windowed else None

    def changes(self) -> list[list[Row]]:
        """The batches as (kind, row...): inserts, and updates and deletions of what is there.

        Two more batches with a row each, long after, close every window: no window is left to a batch without rows,
        which Spark may or may not run before it stops.
        """
        draw = random.Random(self.seed)
        live: list[Row] = []
        out = []
        for batch in range(self.batches):
            fresh = [self._row(draw, batch, number) for number in range(self.query.rows)]
            changes: list[Row] = []
            for _ in range(len(live) // 3):
                old = live.pop(draw.randrange(len(live)))
                if draw.random() < 0.5:
                    changes.append(("-D", *old))
                    continue
                new = (*old[:3], draw.randrange(-3, 40), old[4])
                changes += [("-U", *old), ("+U", *new)]
                fresh.append(new)
            inserted = fresh[: self.query.rows]
            changes += [("+I", *row) for row in inserted]
            live += fresh
            out.append(changes)
        if self.query.windowed:
            end = _BASE + dt.timedelta(hours=1)
            out += [[("+I", -1 - last, "end", "end", last, end)] for last in range(2)]
        return out

    def _row(self, draw: random.Random, batch: int, number: int) -> Row:
        late = draw.random() < 0.2
        seconds = _STEP_SECONDS * batch + (draw.uniform(-20, 0) if late else draw.uniform(0, 14))
        time = _BASE + dt.timedelta(milliseconds=int(1000 * (seconds + 30)))
        name = None if draw.random() < 0.02 else f"a{draw.randrange(self.query.keys)}"
        number += batch * self.query.rows
        return (number, name, f"b{draw.randrange(5)}", draw.randrange(-3, 40), time)

    def write(self, directory: Path) -> None:
        """All batches as files."""
        for number, changes in enumerate(self.changes()):
            write_file(directory, number, changes, self.format)

    def expected(self) -> list[Batch]:
        """The changes of each batch, by the harness, which is told the watermarks that Spark has."""
        out = []
        options = dict(self.query.options)
        with Harness.from_sql(self.query.text, {"t": DDL}, **options) as harness:
            newest = 0
            for changes in self.changes():
                if self.query.windowed and newest:
                    harness.watermark(newest - _DELAY_MS - 1)
                harness.process(changes)
                harness.flush()
                out.append(batch_of(harness.changes()))
                newest = max(newest, *(int(row[5].timestamp() * 1000) for row in changes))
        return out

    def table(self) -> Batch:
        """The final table, by DuckDB."""
        return by_duckdb(self.query.oracle, [row for batch in self.changes() for row in batch])


def write_file(directory: Path, number: int, changes: list[Row], format_: str = "jsonl") -> None:
    """One file of changes; file times follow the numbers, since Spark reads files in order of time."""
    directory.mkdir(exist_ok=True)
    path = directory / f"{number:04d}.{format_}"
    words = dict(zip(KIND_NAMES, CHANGE_TYPES, strict=True))
    rows = [
        {**dict(zip(_NAMES, row, strict=True)), "_change_type": words[kind]}
        for kind, *row in changes
    ]
    scratch = directory / f".{path.name}"
    if format_ == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), scratch)
    else:
        scratch.write_text(
            "\n".join(json.dumps(row, default=dt.datetime.isoformat) for row in rows)
        )
    os.utime(scratch, (1_700_000_000 + number, 1_700_000_000 + number))
    scratch.replace(path)


def plain(value: Any) -> Any:
    """A value as it looks after a way through JSON: instants are milliseconds."""
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return round(aware.timestamp() * 1000)
    return value


def batch_of(changes: list[Row]) -> Batch:
    """Changes as a bag of plain rows."""
    return Counter(tuple(map(plain, row)) for row in changes)


def folded(batches: list[Batch]) -> Batch:
    """The table that batches of changes make, in whatever order each batch's rows came."""
    rows = Counter[Row]()
    for batch in batches:
        for (kind, *row), count in batch.items():
            rows[tuple(row)] += -count if KIND_NAMES.index(kind) & 1 else count
    return Counter({row: count for row, count in rows.items() if count})


def by_duckdb(query: str, changes: list[Row]) -> Batch:
    """Let DuckDB answer a query over the net rows of changes."""
    columns = zip(*fold(changes), strict=True)
    types = [pa.int64(), pa.string(), pa.string(), pa.int64(), pa.timestamp("us")]
    arrays = [
        pa.array(
            [v.replace(tzinfo=None) for v in column] if pa.types.is_timestamp(kind) else column,
            kind,
        )
        for column, kind in zip(columns, types, strict=True)
    ]
    with duckdb.connect() as connection:
        connection.register("t", pa.table(arrays, names=list(_NAMES)))
        return batch_of(connection.sql(query).fetchall())
