"""DISTINCT ON and LATERAL aggregates over random changes, beside DuckDB on the rows that are left."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pytest

import aggloom as al
from aggloom.errors import AggloomError

TABLES = {"t": "id INT, k INT, v INT", "u": "id INT, k INT, w INT"}
DISTINCT = (
    "SELECT DISTINCT ON (k) k, id, v FROM t ORDER BY k, v DESC, id",
    "SELECT DISTINCT ON (k, v % 2) id, v FROM t WHERE v > 1 ORDER BY k, v % 2, id DESC",
    "SELECT DISTINCT ON (k) k AS key, v + 1 AS more, id FROM t ORDER BY k, more, id",
    "SELECT DISTINCT ON (k) k, id FROM t ORDER BY 1, 2 DESC",
    "SELECT COUNT(*) AS n, SUM(q.v) AS s FROM (SELECT DISTINCT ON (k) k, v, id FROM t ORDER BY k, id) q",
)
LATERAL = (
    "SELECT t.id, s.n FROM t, LATERAL (SELECT COUNT(*) AS n FROM u WHERE u.k = t.k) s",
    "SELECT t.id, n, m FROM t CROSS JOIN LATERAL (SELECT COUNT(*), MAX(w) FROM u WHERE u.k = t.k) s(n, m)",
    "SELECT t.id, s.x FROM t LEFT JOIN LATERAL (SELECT SUM(w) AS x FROM u WHERE u.k = t.k AND u.w > 2) s ON TRUE",
    "SELECT * FROM t, LATERAL (SELECT MIN(w) AS low, COUNT(w) AS n FROM u WHERE u.k = t.k) s",
    "SELECT t.id, s.* FROM t, LATERAL (SELECT AVG(w) AS mean FROM u WHERE u.k = t.k) s",
    "SELECT t.k, t.id FROM t, LATERAL (SELECT COUNT(*) AS n FROM u WHERE u.k = t.k) s WHERE s.n > 1",
)

VALUES = (
    "SELECT id FROM t WHERE k = (SELECT 2) AND v <> (SELECT 1 + 1)",
    "SELECT id FROM t WHERE k = ((SELECT 2) LIMIT 0) OR v = ((SELECT 3) LIMIT 1)",
    "SELECT id, (SELECT 3) AS three, v + (SELECT k + 1 AS more) AS w FROM t",
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) > ((SELECT 1))",
    "SELECT id FROM t WHERE k IN (SELECT 2) AND EXISTS (SELECT 1) AND v = ANY (SELECT 3)",
)


def random_changes(seed: int) -> list[tuple[str, tuple[Any, ...]]]:
    draw, live, found = random.Random(seed), list[Any](), list[Any]()
    for number in range(60):
        if live and draw.random() < 0.3:
            table, row = live.pop(draw.randrange(len(live)))
            found.append((table, ("-D", *row)))
            continue
        row = (number, draw.randrange(4), draw.choice([None, *range(5)]))
        live.append((draw.choice("tu"), row))
        found.append((live[-1][0], ("+I", *row)))
    return found


def duck(query: str, changes: list[tuple[str, tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    db = duckdb.connect()
    for name, ddl in TABLES.items():
        db.execute(f"CREATE TABLE {name} ({ddl})")
    for table, (kind, *row) in changes:
        if kind == "+I":
            db.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", row)
        else:
            db.execute(f"DELETE FROM {table} WHERE id = ?", row[:1])
    db.execute("SET default_null_order = 'nulls_first'")
    return sorted(db.execute(query).fetchall(), key=str)


@pytest.mark.parametrize("mode", ["mini_batch", "per_record"])
@pytest.mark.parametrize("query", [*DISTINCT, *LATERAL, *VALUES])
def test_the_table_is_duckdb_s(query: str, mode: str) -> None:
    for seed in range(3):
        changes = random_changes(seed)
        about = {"mini_batch_enabled": mode == "mini_batch", "backend": "python"}
        # NULLs are the greatest in a descending order of DuckDB's setting, as the least here: both first or last alike.
        with al.Harness.from_sql(
            query.replace("DESC", "DESC NULLS FIRST"), TABLES, **about
        ) as harness:
            for table, row in changes:
                if table in harness.plan.scans:
                    harness.process([row], table=table)
            harness.flush()
            assert sorted(harness.table(), key=str) == duck(query, changes)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT id FROM t WHERE k = (SELECT 2 WHERE FALSE)", "a sub-query that may have several"),
        ("SELECT DISTINCT ON (k) k, id FROM t", "write ORDER BY the keys, and behind them"),
        ("SELECT DISTINCT ON (k) k, id FROM t ORDER BY k", "write ORDER BY the keys, and behind"),
        ("SELECT DISTINCT ON (k) k, id FROM t ORDER BY id, k", "write ORDER BY the keys"),
        ("SELECT DISTINCT ON (k) k, id FROM t ORDER BY k, id LIMIT 3", "LIMIT beside DISTINCT ON"),
        (
            "SELECT t.id, s.w FROM t, LATERAL (SELECT w FROM u WHERE u.k > t.k ORDER BY w LIMIT 2) s",
            "this LATERAL is not supported",
        ),
    ],
)
def test_what_has_no_such_form_is_refused(query: str, said: str) -> None:
    with pytest.raises(AggloomError) as raised:
        al.Harness.from_sql(query, TABLES)
    assert said in str(raised.value).splitlines()[0]


@pytest.mark.parametrize("backend", ["python", "numba"])
def test_the_greatest_and_the_least_are_those_of_a_plain_model(backend: Any) -> None:
    query = """SELECT k, max_by(id, v, 3) AS top, min_by(id, v, 2) FILTER (WHERE id > 20) AS low,
      SIZE(max_by(v, id, 4)) AS n FROM t GROUP BY k"""
    for seed in range(4):
        live: dict[int, tuple[int, Any]] = {}
        with al.Harness.from_sql(query, TABLES, backend=backend) as harness:
            for table, row in random_changes(seed):
                if table == "t":
                    harness.process([row])
                    kind, id, k, v = row
                    live = (
                        {**live, id: (k, v)}
                        if kind == "+I"
                        else {n: r for n, r in live.items() if n != id}
                    )
            harness.flush()
            found = sorted(harness.table())
        expected = []
        for key in sorted({k for k, _ in live.values()}):
            rows = [(v, id) for id, (k, v) in live.items() if k == key and v is not None]
            top = [id for _, id in sorted(rows, reverse=True)][:3]
            low = [id for _, id in sorted(rows) if id > 20][:2]
            size = min(4, sum(k == key for k, _ in live.values()))
            expected.append((key, top or None, low or None, size))
        assert found == expected


def test_the_number_of_values_is_checked() -> None:
    for query in ("SELECT max_by(id, v, 0) AS a FROM t", "SELECT min_by(id, v, k) AS a FROM t"):
        with pytest.raises(AggloomError, match="takes the number of values last"):
            al.Harness.from_sql(query, TABLES)
    with al.Harness.from_sql("SELECT max_by(id, v, 2) FROM t", TABLES) as harness:
        assert harness.plan.schema.names == ["MAX_BY(id, v, 2)"]
