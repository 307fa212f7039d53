"""Unnested rows below and above joins, sub-queries, sets and OVER: DuckDB's table after every batch."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import pytest

import aggloom as al

Row = tuple[Any, ...]
TABLES = {"t": "id INT, k INT, a ARRAY<INT>", "d": "k INT, v STRING"}
QUERIES = {
    "exists": "SELECT id, e FROM t, UNNEST(a) AS u(e) WHERE EXISTS (SELECT 1 FROM d WHERE d.k = e)",
    "not exists": "SELECT id, e FROM t LEFT JOIN UNNEST(a) AS u(e) ON TRUE "
    "WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.k = e AND d.k = id)",
    "left join": "SELECT id, e, v FROM t CROSS JOIN UNNEST(a) AS u(e) LEFT JOIN d ON d.k = e",
    "left joins": "SELECT id, e, v FROM t LEFT JOIN UNNEST(a) AS u(e) ON TRUE LEFT JOIN d ON d.k = e AND e > 1",
    "right join": "SELECT id, e, v FROM d RIGHT JOIN (SELECT id, e FROM t, UNNEST(a) AS u(e)) x ON d.k = x.e",
    "parentheses": "SELECT id, e, v FROM (t CROSS JOIN UNNEST(a) AS u(e)) JOIN d ON d.k = u.e",
    "using": "SELECT id, e, v FROM d JOIN t USING (k), UNNEST(a) AS u(e) WHERE k > 0 AND e <> k",
    "scalar": "SELECT id, e, (SELECT COUNT(*) FROM d WHERE d.k = u.e) AS n FROM t, UNNEST(a) AS u(e)",
    "in": "SELECT id, e FROM t, UNNEST(a) AS u(e) WHERE e IN (SELECT k FROM d) "
    "AND id NOT IN (SELECT k FROM d WHERE k IS NOT NULL)",
    "itself": "SELECT x.id, e, f FROM t x, UNNEST(x.a) AS u(e), t y, UNNEST(y.a) AS w(f) WHERE x.k = y.k AND e = f",
    "maximum": "SELECT id, e FROM t, UNNEST(a) AS u(e) WHERE e = (SELECT MAX(k) FROM d)",
    "union": "SELECT e FROM t, UNNEST(a) AS u(e) UNION SELECT k FROM d",
    "full join": "SELECT DISTINCT e, v FROM d FULL JOIN (SELECT e FROM t, UNNEST(a) AS u(e)) x ON x.e = d.k",
    "over": "SELECT id, SUM(e) OVER (PARTITION BY id ORDER BY e NULLS LAST, o) AS s FROM t, "
    "UNNEST(a) WITH ORDINALITY AS u(e, o)",
}


def draw_row(draws: random.Random, table: str) -> Row:
    key = draws.choice([None, 0, 1, 2, 3])
    if table == "d":
        return key, draws.choice("xyz")
    items = [draws.choice([0, 1, 2, None]) for _ in range(3)]
    return draws.randint(0, 4), key, draws.choice([None, [], [1], items])


def draw_changes(draws: random.Random, table: str, live: list[Row]) -> list[Row]:
    """Lawful changes of a table; `live` has its rows."""
    changes: list[Row] = []
    for _ in range(5):
        if live and draws.random() < 0.35:
            changes.append(("-D", *live.pop(draws.randrange(len(live)))))
        else:
            live.append(draw_row(draws, table))
            changes.append(("+I", *live[-1]))
    return changes


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(2))
def test_tables_are_those_of_duckdb(name: str, seed: int) -> None:
    draws, sql = random.Random(seed), QUERIES[name]
    live: dict[str, list[Row]] = {"t": [], "d": []}
    parts = {"buckets": 1 + seed * 2, "partitions": 1 + seed, "backend": "python"}
    with al.Harness.from_sql(sql, tables=TABLES, **parts) as harness, duckdb.connect() as db:
        for _ in range(5):
            for table, rows in live.items():
                changes = draw_changes(draws, table, rows)
                if table in harness.plan.scans:
                    harness.process(changes, table=table)
            harness.flush()
            db.execute("CREATE OR REPLACE TABLE t (id INT, k INT, a INT[])")
            db.execute("CREATE OR REPLACE TABLE d (k INT, v TEXT)")
            for table, rows in live.items():
                if rows:
                    places = ", ".join("?" * len(rows[0]))
                    db.executemany(f"INSERT INTO {table} VALUES ({places})", rows)
            assert Counter(harness.table()) == Counter(db.execute(sql).fetchall())
