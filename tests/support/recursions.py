"""Recursive queries over random graphs, lawful changes of their edges, and what DuckDB answers."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import duckdb
import pyarrow as pa

Row = tuple[Any, ...]
Batch = list[tuple[str, Row]]
"""Changes of several tables, each beside its table's name."""
NODES: Final = 6
TABLES: Final = {
    "e": pa.schema([("src", pa.int32()), ("dst", pa.int32()), ("w", pa.int32())]),
    "s": pa.schema([("id", pa.int32())]),
}
"""The edges of a graph, and the nodes at which walks start."""
_REACHED = """
    r MAX RECURSION LEVEL 6 AS (
        SELECT id FROM s UNION SELECT e.dst FROM e JOIN r ON e.src = r.id)"""
QUERIES: Final = {
    "reached": f"WITH RECURSIVE {_REACHED} SELECT id FROM r",
    "pairs": """
        WITH RECURSIVE p(a, b) MAX RECURSION LEVEL 6 AS (
            SELECT src, dst FROM e UNION SELECT p.a, x.dst FROM p, (SELECT src, dst FROM e WHERE w > 0) x
            WHERE p.b = x.src)
        SELECT a, COUNT(*) AS n, MAX(b) AS last FROM p GROUP BY a""",
    "walks": """
        WITH RECURSIVE r(id, n) AS (
            SELECT id, 0 FROM s UNION ALL SELECT e.dst, r.n + 1 FROM r JOIN e ON r.id = e.src WHERE r.n < 3)
        SELECT n, id, COUNT(*) AS c FROM r GROUP BY n, id""",
    "two, one counting down": f"""
        WITH RECURSIVE {_REACHED}, b(n, id, cost) AS (
            SELECT 2, id, 0 FROM r UNION SELECT n - 1, e.dst, b.cost + e.w
            FROM b JOIN e ON e.src = b.id WHERE n >= 1 AND b.n > 0)
        SELECT id, MIN(cost) AS cost FROM b GROUP BY id""",
    "paths": """
        WITH RECURSIVE r MAX RECURSION LEVEL 5 AS (
            SELECT id, 0 AS cost, 'x' AS way FROM s UNION ALL
            SELECT e.dst, CAST(r.cost + e.w AS INT), CONCAT(r.way, '-') FROM e JOIN r ON e.src = r.id)
        SELECT id, COUNT(*) AS n, SUM(cost) AS cost, MAX(way) AS way FROM r GROUP BY id""",
    "paths by name": """
        WITH RECURSIVE r MAX RECURSION LEVEL 5 AS (
            SELECT src AS id, MIN(w) AS w FROM e GROUP BY src UNION ALL
            SELECT x.dst, y.w FROM (SELECT * FROM r) AS y(id, w) LEFT JOIN e AS x ON x.src = y.id
            WHERE x.dst IS NOT NULL AND y.w < 3)
        SELECT r.*, s.id AS start FROM r LEFT JOIN s ON r.id = s.id""",
}
ACYCLIC: Final = {"paths", "paths by name"}
"""The queries that come to an end where no walk comes back, and not otherwise."""


def draw_batches(draws: random.Random, acyclic: bool, count: int) -> list[Batch]:
    """Batches of changes, by which edges and starts come, go and move."""
    live: dict[str, list[Row]] = {name: [] for name in TABLES}
    batches: list[Batch] = []
    for _ in range(count):
        batches.append([])
        for _ in range(draws.randint(1, 8)):
            name = draws.choice("eees")
            rows, new = live[name], _draw_row(draws, name, acyclic)
            if not rows or draws.random() < 0.55:
                batches[-1].append((name, ("+I", *new)))
                rows.append(new)
                continue
            old = rows.pop(draws.randrange(len(rows)))
            if draws.random() < 0.5:
                batches[-1].append((name, ("-D", *old)))
                continue
            batches[-1] += [(name, ("-U", *old)), (name, ("+U", *new))]
            rows.append(new)
    return batches


def ask_duckdb(sql: str, rows: Mapping[str, Sequence[Row]]) -> Counter[Row]:
    """DuckDB's result over tables of rows, as a multiset."""
    with duckdb.connect() as connection:
        for name, schema in TABLES.items():
            data = [dict(zip(schema.names, row, strict=True)) for row in rows[name]]
            connection.register(name, pa.Table.from_pylist(data, schema=schema))
        text = re.sub(r"MAX RECURSION LEVEL \d+", "", sql)
        return Counter(connection.sql(text).fetchall())


def net_tables(batches: Sequence[Batch]) -> dict[str, list[Row]]:
    """The rows of the tables after all changes."""
    left: dict[str, Counter[Row]] = {name: Counter() for name in TABLES}
    for name, (kind, *row) in (change for batch in batches for change in batch):
        left[name][tuple(row)] += 1 if kind in ("+I", "+U") else -1
    return {name: list(rows.elements()) for name, rows in left.items()}


def _draw_row(draws: random.Random, name: str, acyclic: bool) -> Row:
    if name == "s":
        return (draws.randint(1, NODES),)
    ends = (
        draws.sample(range(1, NODES + 1), 2) if acyclic else draws.choices(range(1, NODES + 1), k=2)
    )
    return (*(sorted(ends) if acyclic else ends), draws.randint(0, 3))
