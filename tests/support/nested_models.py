"""Random nested queries with constructs that DuckDB lacks: MATCH_RECOGNIZE, table aggregates, TO_ and FROM_CHANGELOG.

A model in plain Python makes the rows of the first two, over DuckDB's answer to what stands below; DuckDB answers what
stands above. A log says nothing of its own: with its signs added up it is the table, and so it is read back.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import match_model
import pyarrow as pa
import table_aggregates
from nested_queries import NestedSteps
from queries import TABLE, Columns, Model, Query, Row, answer, either
from queries import TABLES as PLAIN_TABLES

from aggloom.codegen.planner import Plan, PlanOptions, plan_query
from aggloom.errors import UnsupportedSqlError

EVENTS: dict[str, tuple[pa.DataType, str]] = {
    "g": (pa.string(), "text"),
    "id": (pa.int32(), "int"),
    "price": (pa.int32(), "int"),
    "name": (pa.string(), "text"),
    "rate": (pa.float64(), "real"),
    "cost": (pa.decimal128(10, 2), "dec"),
    "ts": (pa.timestamp("us", "UTC"), "time"),
}
TABLES = {**PLAIN_TABLES, "e": pa.schema([(name, kind) for name, (kind, _) in EVENTS.items()])}
"""The tables of the other nested queries, and `e`, whose rows have a time."""
WATERMARKS = {"e": ("ts", "2 seconds")}
_EVENT_KINDS: Columns = {name: kind for name, (_, kind) in EVENTS.items() if kind != "time"}
_TYPES = {
    "int": pa.int64(),
    "text": pa.string(),
    "dec": pa.decimal128(38, 2),
    "date": pa.date32(),
    "bool": pa.bool_(),
    "real": pa.float64(),
}
_MEASURES = {"f": "int", "l": "int", "n": "int", "s": "int", "b": "int", "p": "int", "m": "text"}
_MEASURES |= {"x": "int", "c": "text", "k": "int"}
_OF_TABLE_AGGREGATES = {
    "TOP2": ("int", "int"),
    "TOP2_OF_ALL": ("int", "int"),
    "BUCKETS": ("int", "int", "real", "bool"),
    "EXTREMES": ("int", "bool"),
    "VALUES_SEEN": ("int", "int"),
}
"""Kinds of the columns of table aggregates, which `table_aggregates.register_all("BIGINT")` registers."""
_EVENT_COLUMNS = ", ".join(EVENTS)
BEFORE = match_model.START - dt.timedelta(days=1)


class ModelSteps(NestedSteps):
    """The named queries of a script, with those constructs; retracts: tables change."""

    def __init__(self, seed: int, retracts: bool) -> None:
        super().__init__(seed)
        self.retracts = retracts
        self.models: dict[str, Model] = {}
        self.uses: set[str] = set()

    def source(self, depth: int) -> tuple[str, Columns]:
        if depth == 0 and self.any(True, False):
            return "e", dict(_EVENT_KINDS)
        return super().source(depth)

    def block(self, depth: int) -> tuple[str, Columns]:
        if self.any(True, False, False):
            return super().block(depth)
        kinds = [self.match_rows, *[self.emit_rows] * 3]
        kinds += [self.sign_changes, self.read_back, self.read_upserts]
        made: Callable[[int], tuple[str, Columns]] = self.any(*kinds)
        self.uses.add(made.__name__)
        return made(depth)

    def _model(
        self,
        sql: str,
        reads: str,
        rows: Callable[[list[Row], dt.datetime | None], Iterable[Row]],
        columns: Columns,
    ) -> tuple[str, Columns]:
        """A query of a step that DuckDB finds as a table."""
        name = self.step(sql)
        schema = pa.schema([(column, _TYPES[kind]) for column, kind in columns.items()])
        self.models[name] = Model(reads, rows, schema)
        return f"SELECT * FROM {name}{self.where(columns)}", columns

    # MATCH_RECOGNIZE.

    def match_rows(self, depth: int) -> tuple[str, Columns]:
        """The matches of a random pattern in events."""
        rows = match_model.random_rows(random.Random(1), 24)
        query = match_model.random_query(self.random)
        # Many a pattern is found in no rows.
        while not match_model.expected(query, rows, None):
            query = match_model.random_query(self.random)
        source = self._events(max(depth - 1, 0))
        own: Columns = {"g": "text"} | ({"id": "int"} if query.all_rows else {})

        def match(read: list[Row], known: dt.datetime | None) -> Iterable[Row]:
            there = [dict(zip(EVENTS, row, strict=True)) for row in read]
            return match_model.expected(query, there, known)

        reads = f"SELECT {_EVENT_COLUMNS} FROM {source}"
        return self._model(query.sql(source), reads, match, own | _MEASURES)

    def _events(self, depth: int) -> str:
        """Rows with the columns of `e`, of which none has the time and number of another one of its key."""
        some = self.condition(_EVENT_KINDS)
        everything = f"SELECT {_EVENT_COLUMNS} FROM e"
        best = ", ".join(f"MAX({name}) AS {name}" for name in EVENTS if name not in ("g", "ts"))
        best = best.replace("MAX(price)", self.any("MAX(price)", "SUM(price)", "COUNT(price)"))
        order = f"id {self.any('ASC', 'DESC')}"
        first = f"ROW_NUMBER() OVER (PARTITION BY g, ts ORDER BY {order})"
        numbered = f"SELECT *, {first} AS place FROM e"
        forms = [
            f"{everything} WHERE {some}",
            f"{everything} WHERE {some} UNION ALL {everything} WHERE NOT COALESCE({some}, FALSE)",
            f"SELECT g, {best}, ts FROM e GROUP BY g, ts",
            f"SELECT {_EVENT_COLUMNS} FROM ({numbered}) AS {self.name('s')} WHERE place <= {self.any(1, 2)}",
        ]
        # A row of `e` whose partner comes later would come late, were it one of rows that are only added.
        if self.retracts:
            other, alias, columns = self.alias_source(depth)
            texts = [name for name, kind in columns.items() if kind == "text"]
            numbers = [name for name, kind in columns.items() if kind == "int"]
            if texts:
                key = self.any(*texts)
                forms += [
                    f"{everything} WHERE g {self.any('', 'NOT ')}IN (SELECT {key} FROM {other})"
                ]
                forms += [f"{everything} WHERE EXISTS (SELECT 1 FROM {other} WHERE {key} = e.g)"]
                keyed = f"SELECT {key} AS key, COUNT(*) AS n FROM {other} GROUP BY {key}"
                named = _EVENT_COLUMNS.replace("price", "COALESCE(price, n) AS price")
                forms += [
                    f"SELECT {named} FROM e {self.any('', 'LEFT ')}JOIN ({keyed}) AS p{alias} ON g = key"
                ]
            if numbers:
                forms += [
                    f"{everything} WHERE price {self.any('<', '>=')} (SELECT MAX({self.any(*numbers)}) FROM {other})"
                ]
        form = self.any("e", "e", *forms)
        return form if form == "e" else f"({form}) AS {self.name('s')}"

    # Table aggregates.

    def emit_rows(self, depth: int) -> tuple[str, Columns]:
        """The rows that a table aggregate emits for each key."""
        source, columns = self.source(depth)
        numbers = [name for name, kind in columns.items() if kind == "int"]
        if not numbers:
            source, columns, numbers = "t", {"g": "int", "k": "text", "x": "int"}, ["x"]
        function, value = self.any(*_OF_TABLE_AGGREGATES), self.any(*numbers)
        exact = [name for name, kind in columns.items() if kind != "real" and name != value]
        keys = {self.name("w"): name for name in self.some(exact, 0, 2)}
        value = self.any(value, value, f"{value} % 5", f"COALESCE({value}, 3)")
        test, least = self.any("", self.condition(columns)), self.any(0, 0, 1, 2)
        made = {self.name("w"): kind for kind in _OF_TABLE_AGGREGATES[function]}
        counted: Columns = {self.name("w"): "int"} if self.any(True, False) else {}
        having = f" HAVING COUNT(*) > {least}" if least else ""
        filtered = f" FILTER (WHERE {test})" if test else ""
        items = [f"{name} AS {own}" for own, name in keys.items()]
        items += [f"COUNT(*) AS {own}" for own in counted]
        call = f"{function}({value}){filtered} AS ({', '.join(made)})"
        group = f" GROUP BY {', '.join(keys.values())}" if keys else ""
        below = f" FROM {source}{self.where(columns)}"
        sql = f"SELECT {', '.join([*items, call])}{below}{group}{having}"
        read = ", ".join([*keys.values(), value, f"COALESCE({test or 'TRUE'}, FALSE)"])

        def rows(read: list[Row], known: dt.datetime | None) -> Iterator[Row]:
            groups: dict[Row, list[Row]] = {}
            for *key, number, there in read:
                groups.setdefault(tuple(key), []).append((number, there))
            for key, pairs in groups.items():
                values = [number for number, there in pairs if there and number is not None]
                for row in table_aggregates.MODELS[function](values) if len(pairs) > least else []:
                    yield (*key, *[len(pairs)] * len(counted), *row)

        out = {own: columns[name] for own, name in keys.items()} | counted | made
        return self._model(sql, f"SELECT {read}{below}", rows, out)

    # Logs.

    def sign_changes(self, depth: int) -> tuple[str, Columns]:
        """The rows of a log, counted with the signs of their changes: how often each row of the table is there."""
        source, columns = self.exact(depth)
        names, number, op = ", ".join(columns), self.name("n"), self.name("op")
        below = f"SELECT {names} FROM {source}{self.where(columns)}"
        mapping, added = self.any(
            ("", "'INSERT', 'UPDATE_AFTER'"),
            (
                ", op_mapping => MAP['INSERT, UPDATE_AFTER', 'a', 'UPDATE_BEFORE, DELETE', 'd']",
                "'a'",
            ),
        )
        by = f" PARTITION BY {self.any(*columns)}" * self.any(0, 1)
        log = f"TO_CHANGELOG(input => ({below}){by}, op => DESCRIPTOR({op}){mapping})"
        sign = f"SUM(CASE WHEN {op} IN ({added}) THEN 1 ELSE -1 END)"
        ours = f"SELECT {names}, {sign} AS {number} FROM {log} GROUP BY {names} HAVING {sign} <> 0"
        duck = f"SELECT {names}, COUNT(*) AS {number} FROM ({below}) AS {self.name('s')} GROUP BY {names}"
        return either(ours, ours, duck), columns | {number: "int"}

    def read_back(self, depth: int) -> tuple[str, Columns]:
        """A table through its log, all of whose changes have both their rows."""
        source, columns = self.exact(depth)
        below = f"SELECT {', '.join(columns)} FROM {source}{self.where(columns)}"
        return self._through_log(below, "", "", columns)

    def read_upserts(self, depth: int) -> tuple[str, Columns]:
        """A table with a key through its log, of whose updates the old rows are left out."""
        source, columns = self.exact(depth)
        key, (call, kind), value = self.any(*columns), self.call(columns), self.name("c")
        if "ARRAY" in call or "ELEMENT" in call:
            call, kind = "COUNT(*)", "int"
        below = f"SELECT {key}, {call} AS {value} FROM {source}{self.where(columns)} GROUP BY {key}"
        put = "MAP['INSERT, UPDATE_AFTER', 'w', 'DELETE', 'x']"
        take = "MAP['w', 'UPDATE_AFTER', 'x', 'DELETE']"
        ends = f", op_mapping => {put}", f" PARTITION BY {key}, op_mapping => {take}"
        return self._through_log(below, *ends, {key: columns[key], value: kind})

    def _through_log(
        self, below: str, put: str, take: str, columns: Columns
    ) -> tuple[str, Columns]:
        op, names = self.name("op"), ", ".join(columns)
        log = f"SELECT * FROM TO_CHANGELOG(input => ({below}), op => DESCRIPTOR({op}){put})"
        take = take or self.any("", f" PARTITION BY {self.any(*columns)}")
        by, comma, mapping = take.partition(", op_mapping")
        ours = f"SELECT {names} FROM FROM_CHANGELOG(input => ({log}){by}, op => DESCRIPTOR({op}){comma}{mapping})"
        return either(ours, ours, below), columns


_REFUSED = ("two levels out", "in a sub-query with", "whose rows do not leave again")


@dataclass(frozen=True)
class Drawn:
    """A query, whether its tables change, and the constructs that it has."""

    query: Query
    changes: str
    uses: frozenset[str]

    def plan(self, options: PlanOptions | None = None) -> Plan:
        """Its plan."""
        return plan_query(
            self.query.sql,
            TABLES,
            input_changes=self.changes,
            dialect=self.query.dialect,
            watermarks=WATERMARKS,
            options=options,
        )


def _draw_query(seed: int, retracts: bool, depth: int) -> Drawn:
    steps = ModelSteps(seed, retracts)
    last, _ = steps.block(steps.random.randint(1, depth))
    query = Query(tuple(steps.made), last, steps.any("with", "views"), models=steps.models)
    if not any(call in query.sql for call in ("AVG", "FIRST_VALUE", "LAST_VALUE")):
        query = replace(query, dialect=steps.any("spark", "flink"))
    return Drawn(query, "retract" if retracts else "append", frozenset(steps.uses))


def draw_case(seed: int, depth: int = 3) -> tuple[Drawn, list[Round]]:
    """A random query with at least one of the constructs, and changes of its tables, after which most have rows.

    It is none of the queries that are refused by plan.
    """
    rng = random.Random(seed)
    retracts = rng.random() < 0.7
    for attempt in count():
        drawn = _draw_query(rng.randrange(10**9), retracts, depth)
        rounds = random_rounds(rng, retracts)
        if not drawn.uses:
            continue
        changes = [change for batch, _ in rounds for change in batch]
        if attempt < 9 and not answer(drawn.query, live_rows(changes), TABLES):
            continue
        try:
            drawn.plan()
        except UnsupportedSqlError as error:
            if any(words in str(error) for words in _REFUSED):
                continue
            raise
        return drawn, rounds
    raise AssertionError


# Changes.

Round = tuple[list[tuple[str, Row]], dt.datetime | None]
"""Changes of tables, and perhaps a time up to which no event is to come any more."""


def random_rounds(rng: random.Random, retracts: bool, rounds: int = 6) -> list[Round]:
    """Random changes, each a lawful one, and times."""
    live: dict[str, list[Row]] = {name: [] for name in PLAIN_TABLES}
    waiting, events = match_model.random_rows(rng, rounds * 6), dict[int, match_model.Row]()
    for row in waiting:
        row["g"] = rng.choice(["a", "b", "b", "ä", None])
    made: list[Round] = []
    known = BEFORE
    for _ in range(rounds):
        batch: list[tuple[str, Row]] = []
        for _ in range(rng.randint(0, 8)):
            batch += _change_table(rng, rng.choice("tu"), live, retracts)
        if retracts:
            for _ in range(2):
                batch += [("e", each) for each in match_model.change_rows(rng, events, waiting)]
        else:
            some = [waiting.pop(0) for _ in range(rng.randint(0, min(7, len(waiting))))]
            events |= {row["id"]: row for row in some}
            batch += [("e", ("+I", *row.values())) for row in some]
        times = [row["ts"] for row in events.values()]
        moved = bool(times) and rng.random() < 0.6
        known = max(known, max(times) - dt.timedelta(seconds=2)) if moved else known
        made.append((batch, known if moved else None))
    return made


def _change_table(
    rng: random.Random, name: str, live: dict[str, list[Row]], retracts: bool
) -> list[tuple[str, Row]]:
    row, there = tuple(rng.choice(values) for _, values in TABLE.values()), live[name]
    if not retracts or not there or rng.random() < 0.55:
        there.append(row)
        return [(name, ("+I", *row))]
    old = there.pop(rng.randrange(len(there)))
    if rng.random() < 0.5:
        return [(name, ("-D", *old))]
    there.append(row)
    return [(name, ("-U", *old)), (name, ("+U", *row))]


def live_rows(changes: Iterable[tuple[str, Row]]) -> dict[str, list[Row]]:
    """The rows of each table after changes."""
    rows: dict[str, list[Any]] = {name: [] for name in TABLES}
    for name, (kind, *row) in changes:
        if kind in ("+I", "+U"):
            rows[name].append(tuple(row))
        else:
            rows[name].remove(tuple(row))
    return rows
