"""Random queries over windows: aggregates of every kind of window, and other operators over them, for DuckDB as well.

A query is written once, with a gap for each table of windows; aggloom and DuckDB fill the gaps in their own words.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

_TIME = pa.timestamp("us", "UTC")
TABLES = {
    "bid": pa.schema(
        {
            "id": pa.int64(),
            "k": pa.string(),
            "c": pa.int32(),
            "v": pa.int32(),
            "m": pa.decimal128(10, 2),
            "ts": _TIME,
        }
    ),
    "person": pa.schema({"id": pa.int64(), "k": pa.string(), "r": pa.string(), "ts": _TIME}),
}
_VALUES: dict[str, Sequence[Any]] = {
    "k": ("a", "b", "", "\u00e9", None),
    "c": (1, 2, None),
    "v": (1, 2, 3, 0, -5, None),
    "m": (Decimal("1.00"), Decimal("-2.50"), Decimal("0.01"), None),
    "r": ("N", "S", None),
}
_START = dt.datetime(2024, 2, 28, 23, 55, tzinfo=dt.UTC)
# At the edges of windows, beside them, and on both sides of midnight; windows of sessions go by milliseconds.
_SECONDS = (0, 1, 3, 5, 10, 11, 29, 30, 60, 61, 90, 119, 120, 180, 240, 300, 305, 600, 601)
_MILLISECONDS = (0, 0, 0, 1, 999)
_KEYS = {"bid": ("k", "c"), "person": ("k", "r")}
_FILTERS = {
    "bid": ("v > 1", "k = 'a'", "k IS NOT NULL", "c = 1 OR v < 0", "m >= 0"),
    "person": ("r = 'N'", "k <> ''", "id > 3"),
}
_CALLS = {
    "bid": {
        "COUNT(*)": "int",
        "COUNT(DISTINCT v)": "int",
        "SUM(v)": "int",
        "MAX(v)": "int",
        "MIN(m)": "dec",
        "AVG(v)": "real",
        "SUM(v) FILTER (WHERE c = 1)": "int",
        "MAX(ts)": "time",
    },
    "person": {"COUNT(*)": "int", "COUNT(DISTINCT r)": "int", "MIN(ts)": "time", "MAX(k)": "text"},
}
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
_SETS = ("UNION ALL", "UNION", "EXCEPT", "INTERSECT")

Row = tuple[Any, ...]


def random_row(draws: random.Random, table: str, number: int) -> Row:
    """A row of a table with this `id`."""
    time = _START + dt.timedelta(
        seconds=draws.choice(_SECONDS), milliseconds=draws.choice(_MILLISECONDS)
    )
    known = {"id": number, "ts": time}
    return tuple(
        known[name] if name in known else draws.choice(_VALUES[name])
        for name in TABLES[table].names
    )


@dataclass(frozen=True)
class Window:
    """Windows over the rows of a table, in the words of both; lengths in seconds.

    kind: TUMBLE of one length; HOP and CUMULATE of a step and a size; SESSION of a gap, which may be one of each `k`.
    """

    kind: str
    lengths: tuple[int, ...]
    by_key: bool = False

    def function(self, table: str) -> str:
        """The window table function."""
        by = " PARTITION BY k" if self.by_key else ""
        lengths = ", ".join(f"INTERVAL '{length}' SECOND" for length in self.lengths)
        return f"TABLE({self.kind}(TABLE {table}{by}, DESCRIPTOR(ts), {lengths}))"

    def duckdb(self, table: str) -> str:
        """A sub-query that has each row once for each of its windows."""
        if self.kind == "SESSION":
            return self._sessions(table)
        step, size = self.lengths[0], self.lengths[-1]
        bucket = size if self.kind == "CUMULATE" else step
        start = f"time_bucket(INTERVAL {bucket} SECOND, ts, TIMESTAMPTZ '1970-01-01 00:00:00+00')"
        copies = f"SELECT * FROM {table}, range({size // step}) AS copies(copy)"
        if self.kind == "CUMULATE":
            end = f"{start} + to_seconds((copy + 1) * {step})"
            return (
                f"(SELECT *, {start} AS window_start, {end} AS window_end FROM ({copies})"
                f" WHERE ts < {end})"
            )
        first = f"{start} - to_seconds(copy * {step})"
        end = f"{first} + INTERVAL {size} SECOND"
        return f"(SELECT *, {first} AS window_start, {end} AS window_end FROM ({copies}))"

    def _sessions(self, table: str) -> str:
        """Rows as far apart as the gap touch, and are of one session."""
        (gap,) = self.lengths
        by = "PARTITION BY k " if self.by_key else ""
        near = f"ts - lag(ts) OVER ({by}ORDER BY ts) <= INTERVAL {gap} SECOND"
        begins = f"SELECT *, CASE WHEN {near} THEN 0 ELSE 1 END AS begins FROM {table}"
        number = f"sum(begins) OVER ({by}ORDER BY ts RANGE UNBOUNDED PRECEDING) AS session"
        same = f"OVER (PARTITION BY {'k, ' if self.by_key else ''}session)"
        return (
            f"(SELECT *, min(ts) {same} AS window_start,"
            f" max(ts) {same} + INTERVAL {gap} SECOND AS window_end"
            f" FROM (SELECT *, {number} FROM ({begins})))"
        )


@dataclass(frozen=True)
class Windowed:
    """An aggregate by windows: its text, and the names of its columns."""

    sql: str
    window: Window
    keys: dict[str, str]
    start: str
    end: str
    values: dict[str, str]

    @property
    def columns(self) -> list[str]:
        """All of them, as they are selected."""
        return [*self.keys, self.start, self.end, *self.values]


@dataclass
class WindowQueries:
    """Draws a query; `gaps` are the windows that stand in it, each with the table or view that it reads."""

    random: random.Random
    views: list[str] = field(default_factory=list)
    gaps: list[tuple[Window, str]] = field(default_factory=list)
    names: int = 0

    def any(self, *options: Any) -> Any:
        return self.random.choice(options)

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def query(self) -> str:
        """The text with its gaps: `{0}` is the first window."""
        over: list[Any] = [
            self.first,
            self.again,
            self.aggregate_again,
            self.join_windows,
            self.join_windows,
        ]
        over += [self.unite_windows, self.number_rows, self.itself, lambda below: below.sql]
        sql: str = self.any(*over)(self.aggregate_windows(self.any("bid", "bid", "person")))
        return sql

    def window(self) -> Window:
        step = self.any(5, 10, 30)
        drawn = [
            Window("TUMBLE", (self.any(7, 10, 30, 60, 300),)),
            Window("HOP", (step, step * self.any(1, 2, 3, 6))),
            Window("CUMULATE", (step, step * self.any(2, 3, 6))),
            Window("SESSION", (self.any(5, 30, 60),), self.any(True, False)),
        ]
        made: Window = self.any(*drawn)
        return made

    def aggregate_windows(self, table: str, window: Window | None = None) -> Windowed:
        """An aggregate by windows and perhaps keys, of a table or of some of its rows."""
        window = window or self.window()
        keys = self.random.sample(_KEYS[table], self.any(0, 1, 1, 2))
        if window.kind == "SESSION":
            keys = ["k"] if window.by_key else []
        calls = self.random.sample(list(_CALLS[table]), self.any(1, 2, 3))
        shown = {self.name("k"): key for key in keys}
        values = {self.name("x"): call for call in calls}
        start, end = self.name("s"), self.name("e")
        bounds = {start: "window_start", end: "window_end"}
        select = ", ".join(f"{of} AS {name}" for name, of in (shown | bounds | values).items())
        having = self.any("", "", "", " HAVING COUNT(*) > 1", " HAVING COUNT(*) < 2")
        by = ", ".join([*keys, "window_start", "window_end"])
        sql = f"SELECT {select} FROM {{{len(self.gaps)}}} GROUP BY {by}{having}"
        self.gaps.append((window, self.source(table)))
        kinds = {name: _CALLS[table][call] for name, call in values.items()}
        return Windowed(sql, window, shown, start, end, kinds)

    def source(self, table: str) -> str:
        """The table, or a view of some of its rows."""
        if self.any(True, False):
            return table
        view = self.name("view")
        rows = f"SELECT * FROM {table} WHERE {self.any(*_FILTERS[table])}"
        self.views.append(f"CREATE TEMPORARY VIEW {view} AS {rows}")
        return view

    def first(self, below: Windowed) -> str:
        """The first rows of each window; rows that are alike in the order differ in nothing else that shows."""
        value = self.any(*below.values)
        by, rest = [below.start, below.end], list(below.keys)
        if rest and self.any(True, False):
            by.append(rest.pop())
        order = ", ".join(
            f"{name} {self.any('ASC NULLS FIRST', 'DESC NULLS LAST')}" for name in [value, *rest]
        )
        number = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(by)} ORDER BY {order}) AS place"
        return f"SELECT * FROM (SELECT *, {number} FROM ({below.sql}) AS w) AS n WHERE place <= {self.any(1, 2, 3)}"

    def again(self, below: Windowed) -> str:
        """An aggregate of the windows' results, by their windows."""
        value = self.any(*below.values)
        by = ", ".join(
            [
                *self.random.sample(list(below.keys), self.any(0, 1) if below.keys else 0),
                below.start,
                below.end,
            ]
        )
        call = self.any(f"MAX({value})", f"MIN({value})", f"COUNT({value})", "COUNT(*)")
        return f"SELECT {by}, {call} AS y, COUNT(DISTINCT {value}) AS z FROM ({below.sql}) AS w GROUP BY {by}"

    def aggregate_again(self, below: Windowed) -> str:
        """An aggregate of the windows' results over all windows."""
        by = self.any(below.end, *below.keys)
        calls = f"MAX({self.any(*below.values)}) AS y, COUNT(*) AS n, MIN({below.start}) AS z"
        return f"SELECT {by}, {calls} FROM ({below.sql}) AS w GROUP BY {by}"

    def join_windows(self, below: Windowed) -> str:
        """The same windows of another table, joined by window and perhaps a key."""
        other = self.aggregate_windows(self.any("bid", "person"), below.window)
        how = self.any(*_JOINS)
        on = [(below.start, other.start), (below.end, other.end)]
        mine, theirs = (
            [name for name, key in each.keys.items() if key == "k"] for each in (below, other)
        )
        on += zip(mine, theirs, strict=False)
        columns = below.columns if how in _JOINS[-2:] else [*below.columns, *other.columns]
        equal = " AND ".join(f"l.{a} = r.{b}" for a, b in on)
        return f"SELECT {', '.join(columns)} FROM ({below.sql}) AS l {how} ({other.sql}) AS r ON {equal}"

    def itself(self, below: Windowed) -> str:
        """The windows' results, joined with an aggregate of them by window."""
        value = self.any(*below.values)
        call = self.any(f"MAX({value})", f"MIN({value})", "COUNT(*)")
        some = self.any("", f" WHERE {value} IS NOT NULL")
        by = f"{below.start}, {below.end}"
        most = f"SELECT {by}, {call} AS most FROM ({below.sql}) AS w{some} GROUP BY {by}"
        equal = f"l.{below.start} = r.{below.start} AND l.{below.end} = r.{below.end}"
        if call != "COUNT(*)" and self.any(True, False):
            equal += f" AND l.{value} >= r.most"
        how = self.any(*_JOINS[:2])
        columns = ", ".join(f"l.{name}" for name in below.columns)
        return f"SELECT {columns}, r.most FROM ({below.sql}) AS l {how} ({most}) AS r ON {equal}"

    def unite_windows(self, below: Windowed) -> str:
        """The windows themselves, with those of another aggregate."""
        other = self.aggregate_windows(self.any("bid", "person"))
        sides = [f"SELECT {w.start} AS s, {w.end} AS e FROM ({w.sql}) AS w" for w in (below, other)]
        sets: str = self.any(*_SETS)
        return f" {sets} ".join(sides)

    def number_rows(self, below: Windowed) -> str:
        """OVER the windows' results."""
        order = ", ".join(
            f"{name} ASC NULLS FIRST" for name in [below.end, below.start, *below.keys]
        )
        lag = f"LAG({self.any(*below.values)}) OVER (ORDER BY {order}) AS before"
        of = self.any(below.end, *below.keys)
        return f"SELECT *, COUNT(*) OVER (PARTITION BY {of}) AS n, {lag} FROM ({below.sql}) AS w"


@dataclass(frozen=True)
class WindowQuery:
    """A query in both dialects, the views that it reads, and its tables."""

    sql: str
    duckdb: str
    views: tuple[str, ...]
    tables: tuple[str, ...]

    @property
    def script(self) -> str:
        """Views and query."""
        return "; ".join([*self.views, self.sql])


def window_query(draws: random.Random) -> WindowQuery:
    """A random query over windows of all kinds."""
    made = WindowQueries(draws)
    text = made.query()
    script = "; ".join([*made.views, *(source for _, source in made.gaps)])
    return WindowQuery(
        text.format(*(window.function(source) for window, source in made.gaps)),
        text.replace("LEFT SEMI", "SEMI")
        .replace("LEFT ANTI", "ANTI")
        .format(*(window.duckdb(source) for window, source in made.gaps)),
        tuple(made.views),
        tuple(table for table in TABLES if table in script.replace(";", " ").split()),
    )
