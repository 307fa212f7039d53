"""Random queries with window functions over random changes, and what DuckDB makes of the net rows.

    python tests/support/over_queries.py 2000

runs so many of them, and stops at the first that differs. Rows with the same sort key stand as they came: DuckDB is
told so by one more column where a function sees a difference.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import sys
import time
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

import aggloom as al

SCHEMA = pa.schema(
    [
        ("g", pa.string()),
        ("id", pa.int32()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("dec", pa.decimal128(8, 2)),
        ("ts", pa.timestamp("us")),
        ("d", pa.date32()),
        ("s", pa.string()),
        ("u", pa.int64()),
    ]
)
Row = tuple[Any, ...]
_START = dt.datetime(2024, 2, 28, 23, 59, 58)
_VALUES: dict[str, list[Any]] = {
    "g": [None, "a", "a", "b"],
    "id": [0, 1, 2, 3],
    "n": [None, -2, 0, 1, 2, 3, 5, 8],
    "x": [None, math.nan, math.inf, -1.5, 0.0, -0.0, 0.5, 2.0],
    "dec": [None, Decimal("-1.25"), Decimal("0.00"), Decimal("0.50"), Decimal("3.75")],
    "ts": [None, *(_START + dt.timedelta(seconds=k) for k in (0, 1, 2, 3, 7))],
    "d": [None, *(dt.date(2024, 2, k) for k in (26, 27, 28, 29))],
    "s": [None, "", "a", "é", "zz"],
    "u": [0, 1],
}
_DISTANCES = {
    "n": ["1", "2", "5"],
    "x": ["0.5", "1", "3"],
    "dec": ["0.25", "1.25", "5"],
    "ts": ["INTERVAL '1' SECOND", "INTERVAL '3' SECOND"],
    "d": ["INTERVAL '1' DAY", "INTERVAL '2' DAY"],
}
_AGGREGATES = (
    *("SUM(n)", "COUNT(*)", "COUNT(s)", "MIN(s)", "MAX(x)", "AVG(n)", "SUM(dec)", "MAX(ts)"),
    *("COUNT(DISTINCT n)", "SUM(n) FILTER (WHERE id > 1)", "SUM(x)", "MIN(dec)", "SUM(n + id)"),
)
_ORDERED = (
    *("FIRST_VALUE(n)", "LAST_VALUE(s)", "NTH_VALUE(n, 2)", "LAST_VALUE(x IGNORE NULLS)"),
    "NTH_VALUE(s, 2 IGNORE NULLS)",
)
_PLACED = (
    *("ROW_NUMBER()", "LAG(n)", "LAG(s, 2)", "LEAD(n)", "LEAD(x, 2)", "NTILE(3)", "LAG(n, 0)"),
    *("LAG(n, 1, 7)", "LEAD(n, 2, id)", "LAG(n, 1 IGNORE NULLS)", "LEAD(s, 2 IGNORE NULLS)"),
)
_RANKED = ("RANK()", "DENSE_RANK()", "PERCENT_RANK()", "CUME_DIST()")


class Query:
    """A random query in both dialects of SQL."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        windows = [self._window() for _ in range(draw.choice([1, 1, 2]))]
        # What arrives at the second window is what the first one tells: an order without ties is asked for.
        # So it is where columns are left out, without which other rows are equal.
        self.total = len(windows) > 1 or draw.random() < 0.5
        items: list[tuple[str, str]] = []
        for place in range(draw.randint(1, 4)):
            ours, theirs = self._function(*draw.choice(windows))
            if draw.random() < 0.15 and "COUNT" in ours:
                ours, theirs = f"{ours} * 2 + id", f"{theirs} * 2 + id"
            items.append((f"{ours} AS w{place}", f"{theirs} AS w{place}"))
        shown = list(SCHEMA.names)
        if self.total:
            shown = [name for name in shown if draw.random() < 0.6] or ["id"]
        self.ours = f"SELECT {', '.join([*shown, *(o for o, _ in items)])} FROM t"
        self.theirs = f"SELECT {', '.join([*shown, *(t for _, t in items)])} FROM t"
        self._above(items)

    def _above(self, items: list[tuple[str, str]]) -> None:
        """Perhaps something over the values."""
        draw = self.draw.random()
        if draw < 0.1 and self.total:
            form = "SELECT COUNT(*) AS c, COUNT(w0) AS v FROM ({}) AS o"
        elif draw < 0.2:
            form = "SELECT * FROM ({}) AS o WHERE w0 IS NOT NULL"
        else:
            return
        self.ours, self.theirs = form.format(self.ours), form.format(self.theirs)

    def _window(self) -> tuple[str, list[tuple[str, str]]]:
        keys = self.draw.choice(["g", "g", "g, id % 2", "", "g, d"])
        columns = self.draw.sample(["n", "x", "dec", "ts", "d", "s", "id"], 2)
        columns = columns[: self.draw.choice([0, 1, 1, 1, 1, 2])]
        order = []
        for column in columns:
            way, nulls = self.draw.choice(["ASC", "DESC"]), self.draw.choice(["FIRST", "LAST"])
            order.append((column, f"{way} NULLS {nulls}"))
        return keys, order

    def _function(self, keys: str, order: list[tuple[str, str]]) -> tuple[str, str]:
        draw = self.draw
        frame, by_rows = self._frame(order)
        kinds = [_AGGREGATES, _AGGREGATES]
        kinds += [_ORDERED] if by_rows else []
        kinds += [_PLACED, _RANKED] if order else []
        chosen = draw.choice(kinds)
        call = draw.choice(chosen)
        if chosen in (_PLACED, _RANKED):
            frame, by_rows = "", chosen is _PLACED
        if self.total and by_rows:
            order = [*order, ("u", "ASC")]
        listed = ", ".join(f"{column} {how}" for column, how in order)
        parts = f"PARTITION BY {keys} " if keys else ""
        ours = f"{parts}{'ORDER BY ' + listed if listed else ''} {frame}"
        theirs = ", ".join(filter(None, [listed, "came" if by_rows else ""]))
        theirs = f"{parts}{'ORDER BY ' + theirs if theirs else ''} {frame}"
        return f"{call} OVER ({ours})", f"{call} OVER ({theirs})"

    def _frame(self, order: list[tuple[str, str]]) -> tuple[str, bool]:
        """A frame, and whether it goes by rows."""
        draw = self.draw
        kind = draw.choice(["", "ROWS", "ROWS", "RANGE", "RANGE", "GROUPS"])
        if not kind or (kind != "ROWS" and not order):
            return "", False
        # Which rows tie is not for DuckDB to know where it is told the order of arrival.
        left_out = ["CURRENT ROW"] if kind == "ROWS" else ["CURRENT ROW", "GROUP", "TIES"]
        exclude = draw.choice(["", "", "", "NO OTHERS", *left_out])
        exclude = f" EXCLUDE {exclude}" if exclude else ""
        distances = [str(k) for k in range(4)]
        if kind == "RANGE":
            distances = _DISTANCES.get(order[0][0], []) if len(order) == 1 else []
        ends: list[tuple[int, str]] = [(0, "CURRENT ROW")]
        for far in distances:
            ends += [(-1, f"{far} PRECEDING"), (1, f"{far} FOLLOWING")]
        starts = [(-2, "UNBOUNDED PRECEDING"), *ends]
        stops = [(2, "UNBOUNDED FOLLOWING"), *ends]
        while True:
            first, last = draw.choice(starts), draw.choice(stops)
            if first[0] < last[0] or (first[0] == last[0] == 0):
                return f"{kind} BETWEEN {first[1]} AND {last[1]}{exclude}", kind == "ROWS"
            if first[0] == last[0] and kind != "RANGE":
                near = sorted([first[1], last[1]], reverse=first[0] < 0)
                return f"{kind} BETWEEN {near[0]} AND {near[1]}{exclude}", kind == "ROWS"


def random_row(draw: random.Random, number: int | None) -> Row:
    """A row; number: what tells it from all others."""
    row = tuple(draw.choice(_VALUES[name]) for name in SCHEMA.names)
    return row if number is None else (*row[:-1], number)


def plain(row: Row) -> Row:
    """Return a row that equal rows share."""

    def value(v: Any) -> Any:
        if isinstance(v, float):
            return "NaN" if math.isnan(v) else float(f"{v + 0.0:.9g}")
        if isinstance(v, Decimal):
            return float(v)
        return v

    return tuple(value(v) for v in row)


def random_changes(draw: random.Random, net: list[Row], most: int, total: bool) -> list[Row]:
    """Changes of the net rows, which are brought up to date: the oldest of equal rows goes."""
    changes: list[Row] = []
    for _ in range(draw.randint(0, most)):
        way = draw.random()
        if net and way < 0.45:
            gone = draw.choice(net)
            net.remove(next(row for row in net if plain(row) == plain(gone)))
            if way < 0.2:
                changes.append(("-D", *gone))
                continue
            new = list(gone)
            for _ in range(draw.randint(0, 2)):
                place = draw.randrange(len(new) - total)
                new[place] = draw.choice(_VALUES[SCHEMA.names[place]])
            changes += [("-U", *gone), ("+U", *new)]
            net.append(tuple(new))
        else:
            row = random_row(draw, draw.getrandbits(40) if total else None)
            changes.append(("+I", *row))
            net.append(row)
    return changes


def duckdb_rows(connection: Any, sql: str, net: list[Row]) -> Counter[Row]:
    columns = list(zip(*net, strict=True)) if net else [[] for _ in SCHEMA]
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    table = pa.table([*arrays, pa.array(range(len(net)), pa.int64())], [*SCHEMA.names, "came"])
    connection.register("t", table)
    return Counter(plain(row) for row in connection.execute(sql).fetchall())


def fold(table: Counter[Row], changes: list[Row]) -> None:
    """Apply messages; each takes back only what is there."""
    for change in changes:
        row = plain(change[1:])
        if change[0] in ("+I", "+U"):
            table[row] += 1
        else:
            assert table[row] > 0, f"{change} takes back what is not there"
            table[row] -= 1
            if not table[row]:
                del table[row]


def run(seed: int, connection: Any, *, backend: Any = "python", most: int = 8) -> None:
    """One random query over a few bundles, with a restart before one of them."""
    draw = random.Random(seed)
    query = Query(draw)
    net: list[Row] = []
    table: Counter[Row] = Counter()
    options = {"mini_batch_enabled": draw.random() < 0.8}

    def start() -> al.Harness:
        return al.Harness.from_sql(query.ours, {"t": SCHEMA}, backend=backend, options=options)

    harness, restart = start(), draw.randint(0, 4)
    for number in range(5):
        if number == restart:
            state = harness.snapshot()
            fold(table, harness.changes())
            harness.close()
            harness = start()
            harness.restore(state)
        harness.process(random_changes(draw, net, most, query.total))
        harness.flush()
        changes = harness.changes()
        try:
            fold(table, changes)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {query.ours}\n{error}") from None
        wanted = duckdb_rows(connection, query.theirs, net)
        if table != wanted:
            raise AssertionError(
                f"seed {seed}, bundle {number}: {query.ours}\n{query.theirs}\nmissing {wanted - table}\n"
                f"too many {table - wanted}"
            )
    harness.close()


def run_fixed(connection: Any, sql: str, *, backend: Any) -> None:
    """One query over random changes of rows without ties."""
    draw, net, table = random.Random(1), list[Row](), Counter[Row]()
    with al.Harness.from_sql(sql, {"t": SCHEMA}, backend=backend) as harness:
        for _ in range(4):
            harness.process(random_changes(draw, net, 20, True))
            harness.flush()
            fold(table, harness.changes())
            assert table == duckdb_rows(connection, sql, net)


def run_by_time(seed: int, connection: Any) -> None:
    """A query by row time over insertions: what came in time, each row once, over a restart."""
    draw = random.Random(seed)
    frame = draw.choice(
        [
            *("", "ROWS UNBOUNDED PRECEDING", "ROWS 2 PRECEDING", "ROWS 0 PRECEDING"),
            *("RANGE INTERVAL '3' SECOND PRECEDING", "RANGE INTERVAL '0' SECOND PRECEDING"),
        ]
    )
    calls = draw.sample(["SUM(n)", "COUNT(*)", "MAX(s)", "COUNT(DISTINCT n)", "AVG(x)"], 2)
    calls += draw.sample(["ROW_NUMBER()", "RANK()", "DENSE_RANK()", "LAG(n)", "LAG(s, 2)"], 1)
    keys = draw.choice(["PARTITION BY g ", ""])
    by_rows = frame.startswith("ROWS")

    def query(ours: bool) -> str:
        items = []
        for number, call in enumerate(calls):
            placed = call.startswith(("ROW_NUMBER", "LAG"))
            came = "" if ours or not (by_rows or placed) or call.endswith("RANK()") else ", came"
            bound = "" if call[-2:] == "()" or call.startswith("LAG") else frame
            items.append(f"{call} OVER ({keys}ORDER BY ts{came} {bound}) AS w{number}")
        return f"SELECT id, n, ts, {', '.join(items)} FROM t"

    def start() -> al.Harness:
        return al.Harness.from_sql(
            query(True),
            {"t": SCHEMA},
            backend="python",
            input_changes="append",
            over_insert_only=True,
        )

    harness, net, told, now = start(), list[Row](), Counter[Row](), 0
    for number in range(5):
        if number == draw.randint(0, 4):
            state = harness.snapshot()
            harness.close()
            harness = start()
            harness.restore(state)
        new = []
        for _ in range(draw.randint(0, 6)):
            row = list(random_row(draw, None))
            row[5] = _START + dt.timedelta(seconds=now + draw.randint(1, 9))
            new.append(tuple(row))
        harness.process([("+I", *row) for row in new])
        net += new
        now += draw.randint(0, 8)
        moment = (_START + dt.timedelta(seconds=now)).replace(tzinfo=dt.UTC)
        harness.watermark(int(moment.timestamp() * 1000))
        for change in harness.changes():
            assert change[0] == "+I"
            told[plain(change[1:])] += 1
        limit = _START + dt.timedelta(seconds=now)
        found = duckdb_rows(connection, query(False), [row for row in net if row[5] <= limit])
        assert told == found, f"seed {seed}: {query(True)}\n{found - told}\n{told - found}"
    harness.close()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    connection, start = duckdb.connect(), time.monotonic()
    for seed in range(first, first + count):
        run(seed, connection)
        if seed % 4 == 0:
            run_by_time(seed, connection)
    print(f"{count} queries as DuckDB has them, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
