"""Random queries with sub-queries over three tables of few different values, with NULLs."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from handlers import handler_class

from aggloom.codegen.planner import Plan, PlanOptions, plan_query
from aggloom.codegen.spec.schemas import to_schema
from aggloom.errors import UnsupportedSqlError
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.values.changelog import fold

TABLES = {
    "t": to_schema("k INT, v INT, s INT"),
    "u": to_schema("k INT, w INT, s INT"),
    "d": to_schema("id INT, n INT"),
}
KEYS = {"d": "id"}
Row = tuple[Any, ...]
Change = tuple[Any, ...]
_COMPARED = ("=", "=", "<", "<=", ">", ">=", "<>")


_TESTS = {
    "int": ("> 0", "< 2", "IS NOT NULL", "= 1"),
    "text": ("> 'a'", "<> 'b'", "IS NOT NULL", "= 'a'"),
    "dec": ("> 0", "<= 1.5", "IS NOT NULL", "= 1.50"),
    "date": ("> DATE '2024-02-01'", "IS NOT NULL"),
}
"""Conditions on a column, by its kind."""


class Shapes:
    """Conditions and values with sub-queries, over columns of one kind, which are written with their table's name."""

    random: random.Random
    kind: str = "int"

    def source(self) -> tuple[str, list[str]]:
        """The text of FROM in a sub-query, and the columns that it may use."""
        raise NotImplementedError

    def name(self, stem: str) -> str:
        """The name of a further item of a query."""
        raise NotImplementedError

    def keyed_value(self, outer: list[str]) -> str | None:
        """A sub-query that asks for a row by its key, if a table has one."""
        return None

    def any(self, *given: Any) -> Any:
        return self.random.choice(given)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def bound(self, columns: list[str]) -> str:
        """A condition on one of the columns."""
        return f"{self.any(*columns)} {self.any(*_TESTS[self.kind])}"

    def query(self, shown: int, outer: list[str], depth: int) -> str:
        """A sub-query with some columns."""
        source, columns = self.source()
        join = ""
        if self.chance(0.2):
            other, more = self.source()
            kind = self.any("JOIN", "JOIN", "LEFT JOIN")
            join = f" {kind} {other} ON {self.any(*columns)} = {self.any(*more)}"
            columns = columns + more
        where = []
        tied = shown == 1
        if tied and self.chance(0.55):
            where.append(f"{self.any(*columns)} = {self.any(*outer)}")
        if tied and self.chance(0.3):
            where.append(f"{self.any(*columns)} {self.any(*_COMPARED)} {self.any(*outer)}")
        if self.chance(0.3):
            where.append(self.bound(columns))
        if depth and self.chance(0.25):
            where.append(self.test(columns, depth - 1))
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        items = [self.any(*columns) for _ in range(shown)]
        grouping = ""
        if self.chance(0.2):
            grouping = f" GROUP BY {', '.join(dict.fromkeys(items))}"
            if self.chance(0.6):
                grouping += f" HAVING COUNT(*) {self.any('> 1', '< 2', '= 1')}"
        return f"SELECT {', '.join(items)} FROM {source}{join}{condition}{grouping}"

    def single(self, outer: list[str], depth: int, filtered: bool = True) -> str:
        """A sub-query with one row."""
        if self.chance(0.15):
            keyed = self.keyed_value(outer)
            if keyed is not None:
                return keyed
        source, columns = self.source()
        where = list[str]()
        if self.chance(0.6):
            where.append(f"{self.any(*columns)} = {self.any(*outer)}")
        if self.chance(0.3):
            where.append(f"{self.any(*columns)} {self.any(*_COMPARED)} {self.any(*outer)}")
        if self.chance(0.3):
            where.append(self.bound(columns))
        if depth and self.chance(0.2):
            where.append(self.test(columns, depth - 1))
        if self.chance(0.1):
            where.append(self.bound(outer))
        items = ["MAX({0})", "MIN({0})"]
        if self.kind == "int":
            items += ["COUNT(*)", "COUNT({0})", "SUM({0}) + COUNT(*)"]
        item = self.any(*items)
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        having = ""
        if filtered and self.chance(0.15):
            having = f" HAVING COUNT(*) {self.any('< 2', '> 0')}"
        return f"SELECT {item.format(self.any(*columns))} FROM {source}{condition}{having}"

    def test(self, outer: list[str], depth: int) -> str:
        """A condition with a sub-query that stands alone."""
        kind = self.any("in", "in", "exists", "exists", "pair", "any", "scalar", "none", "or")
        word = self.any("", "NOT ")
        one = self.any(*outer)
        if kind == "in":
            return f"{one} {word}IN ({self.query(1, outer, depth)})"
        if kind == "exists":
            return f"{word}EXISTS ({self.query(1, outer, depth)})"
        if kind == "pair":
            # DuckDB knows no correlated ones.
            return f"({one}, {self.any(*outer)}) {word}IN ({self.query(2, outer, depth)})"
        if kind == "any":
            quantifier = self.any("ANY", "ALL")
            return f"{one} {self.any(*_COMPARED)} {quantifier} ({self.query(1, outer, depth)})"
        if kind == "scalar":
            return f"{one} {self.any(*_COMPARED)} ({self.single(outer, depth)})"
        if kind == "none":
            return f"{one} {word}IN ({self.single(outer, depth, False)})"
        return self.value(outer, depth)

    def value(self, outer: list[str], depth: int) -> str:
        """A condition with a sub-query as a part."""
        one, word = self.any(*outer), self.any("", "NOT ")
        kind = self.any("in", "exists", "any", "scalar")
        if kind == "in":
            inner = f"{one} {word}IN ({self.query(1, outer, depth)})"
        elif kind == "exists":
            inner = f"{word}EXISTS ({self.query(1, outer, depth)})"
        elif kind == "any":
            quantified = f"{self.any('ANY', 'ALL')} ({self.query(1, outer, depth)})"
            inner = f"{one} {self.any(*_COMPARED)} {quantified}"
        else:
            inner = f"{one} {self.any(*_COMPARED)} ({self.single(outer, depth)})"
        other = self.any(self.bound(outer), f"{self.any(*outer)} IS NULL")
        return self.any(
            f"({inner} OR {other})",
            f"NOT ({inner} AND {other})",
            f"(CASE WHEN {inner} THEN 1 ELSE 0 END = {self.any('0', '1')})",
            f"(({inner}) IS NULL)",
            f"({inner} OR {other} OR {self.bound([one])})",
        )

    def ask(self, source: str, columns: list[str]) -> tuple[str, dict[str, str]]:
        """A query around sub-queries, and the kinds of its columns."""
        where = [self.test(columns, 1) for _ in range(self.any(0, 1, 1, 2))]
        if self.chance(0.3):
            where.append(self.bound(columns))
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        if self.chance(0.3):
            return self.group_rows(source, columns, condition)
        items = [(column, self.kind) for column in columns]
        if not where or self.chance(0.4):
            items.append((f"({self.single(columns, 1)})", self.kind))
        if self.chance(0.25):
            items.append((self.value(columns, 1), "bool"))
        if self.chance(0.1):
            items.append((f"{columns[0]} NOT IN ({self.query(1, columns, 1)})", "bool"))
        distinct = "DISTINCT " if self.chance(0.1) else ""
        named, kinds = self._name_items(items)
        return f"SELECT {distinct}{named} FROM {source}{condition}", kinds

    def group_rows(
        self, source: str, columns: list[str], condition: str
    ) -> tuple[str, dict[str, str]]:
        """A query that groups, with sub-queries below and above."""
        key, other = columns[0], columns[-1] if len(columns) < 2 else columns[1]
        total = f"SUM({other})" if self.kind == "int" else f"MAX({other})"
        items = [(key, self.kind), (total, self.kind)]
        if self.chance(0.4):
            items.append((f"({self.single([key], 0)})", self.kind))
        if self.chance(0.3):
            items.append((f"SUM(CASE WHEN {self.value(columns, 0)} THEN 1 ELSE 0 END)", "int"))
        having = ""
        if self.chance(0.5):
            test = self.any(
                f"{total} {self.any(*_COMPARED)} ({self.single([key], 0)})",
                f"{key} {self.any('', 'NOT ')}IN ({self.query(1, [key], 0)})",
                f"EXISTS ({self.query(1, [key], 0)})",
            )
            having = f" HAVING {test}"
        named, kinds = self._name_items(items)
        return f"SELECT {named} FROM {source}{condition} GROUP BY {key}{having}", kinds

    def _name_items(self, items: list[tuple[str, str]]) -> tuple[str, dict[str, str]]:
        kinds = {self.name("o"): kind for _, kind in items}
        text = ", ".join(f"{item} AS {name}" for (item, _), name in zip(items, kinds, strict=True))
        return text, kinds


@dataclass
class Draw(Shapes):
    """A query on its way over the tables of this module."""

    random: random.Random
    names: int = 0

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def keyed_value(self, outer: list[str]) -> str | None:
        return f"SELECT d.n FROM d WHERE d.id = {self.any(*outer)}"

    def source(self) -> tuple[str, list[str]]:
        name = self.name("x")
        kind = self.any("t", "u", "u", "d", "sums", "both", "wide", "top")
        if kind in TABLES:
            return f"{kind} AS {name}", [f"{name}.{column}" for column in TABLES[kind].names]
        text, columns = {
            "sums": ("SELECT s, SUM(w) AS a, COUNT(w) AS b FROM u GROUP BY s", "sab"),
            "both": ("SELECT k AS a, v AS b FROM t UNION ALL SELECT id, n FROM d", "ab"),
            "wide": ("SELECT t.k AS a, d.n AS b FROM t LEFT JOIN d ON t.v = d.id", "ab"),
            "top": (
                "SELECT s AS a, m AS b FROM (SELECT s, m, ROW_NUMBER() OVER (PARTITION BY m ORDER BY "
                "s NULLS FIRST) AS r FROM (SELECT s, MAX(w) AS m FROM u GROUP BY s) AS z) AS y "
                "WHERE r <= 1",
                "ab",
            ),
        }[kind]
        return f"({text}) AS {name}", [f"{name}.{column}" for column in columns]

    def whole(self) -> str:
        """A query around sub-queries."""
        source, columns = self.any(
            ("t", ["t.k", "t.v", "t.s"]),
            ("t", ["t.k", "t.v", "t.s"]),
            ("t JOIN u ON t.k = u.k", ["t.k", "t.v", "u.w", "u.s"]),
            ("t LEFT JOIN d ON t.v = d.id", ["t.k", "t.v", "d.n"]),
            ("u FULL JOIN d ON u.w = d.id", ["u.k", "u.w", "d.id"]),
            ("d", ["d.id", "d.n"]),
        )
        return self.ask(source, columns)[0]


def query_of(seed: int) -> str:
    """A random query."""
    return Draw(random.Random(seed)).whole()


def batches_of(seed: int, batches: int = 5) -> list[list[tuple[str, Change]]]:
    """Random changes of the tables, of which each table folds to rows at all times."""
    rng = random.Random(seed)
    rows: dict[str, list[Row]] = {name: [] for name in TABLES}
    found: list[list[tuple[str, Change]]] = []
    for _ in range(batches):
        batch: list[tuple[str, Change]] = []
        for _ in range(rng.randint(1, 7)):
            name = rng.choice(list(TABLES))
            there = rows[name]
            if there and rng.random() < 0.35:
                row = there.pop(rng.randrange(len(there)))
                batch.append((name, ("-D", *row)))
                continue
            row = tuple(rng.choice((0, 1, 2, 3, None)) for _ in TABLES[name].names)
            if name == "d":
                row = (rng.randint(0, 3), *row[1:])
                old = next((each for each in there if each[0] == row[0]), None)
                if old is not None:
                    there.remove(old)
                    batch.append((name, ("-U", *old)))
                    batch.append((name, ("+U", *row)))
                    there.append(row)
                    continue
            there.append(row)
            batch.append((name, ("+I", *row)))
        found.append(batch)
    return found


_CONNECTION = duckdb.connect()
_CONNECTION.execute("SET threads = 1")


def answer(sql: str, rows: dict[str, list[Row]]) -> Counter[Row]:
    """DuckDB's answer."""
    for name, schema in TABLES.items():
        data = [dict(zip(schema.names, row, strict=True)) for row in rows[name]]
        _CONNECTION.register(name, pa.Table.from_pylist(data, schema=schema))
    return bag(_CONNECTION.sql(sql).fetchall())


def bag(rows: Sequence[Row]) -> Counter[Row]:
    """Rows with how often they occur; numbers of all types are equal."""
    return Counter(
        tuple(int(v) if v is not None and not isinstance(v, bool) else v for v in row)
        for row in rows
    )


def plan_of(sql: str, **options: Any) -> Plan:
    """The plan of a query over the tables."""
    return plan_query(sql, TABLES, keys=KEYS, options=PlanOptions.of(options))


def agree(
    sql: str,
    batches: Sequence[Sequence[tuple[str, Change]]],
    buckets: int = 1,
    partitions: int = 1,
    by_duckdb: str | None = None,
    **options: Any,
) -> None:
    """After every batch the result is DuckDB's; by_duckdb: the query in its SQL, where it means another thing there."""
    plan = plan_of(sql, **options)
    rows: dict[str, list[Row]] = {name: [] for name in TABLES}
    out: list[Change] = []
    with Harness.of_plan(
        plan, lambda spec: handler_class(spec, "python"), buckets=buckets, partitions=partitions
    ) as harness:
        for batch in batches:
            for name in TABLES:
                given = [change for table, change in batch if table == name]
                for kind, *row in given:
                    if kind[0] == "+":
                        rows[name].append(tuple(row))
                    else:
                        rows[name].remove(tuple(row))
                if given and name in plan.scans:
                    harness.process(given, table=name)
            harness.flush()
            out += harness.changes()
            expected = answer(by_duckdb or sql, rows)
            got = bag(fold(out))
            assert got == expected, (sql, batches, got, expected)
            assert bag(harness.table()) == expected


def sweep(first: int, last: int) -> Counter[str]:
    """Ask the queries of many seeds: how many agree, and how many are refused and why. Raises on the first fault."""
    found: Counter[str] = Counter()
    for seed in range(first, last):
        sql = query_of(seed)
        try:
            plan_of(sql)
        except UnsupportedSqlError as error:
            found[str(error).partition("\n")[0]] += 1
            continue
        agree(sql, batches_of(seed), buckets=1 + seed % 3, partitions=1 + seed % 2)
        found["agrees"] += 1
    return found


if __name__ == "__main__":
    for what, count in sweep(*map(int, sys.argv[1:])).most_common():
        print(count, what)
