"""EXISTS and IN as values beside one condition that is no equality, over changes: DuckDB's table on both engines."""

from __future__ import annotations

import datetime
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import aggloom as al
from aggloom import local
from aggloom.codegen.spec.agg_spec import to_schema

DDL = {"t": "k INT, v {0}, n INT", "u": "k INT, w {0}"}
VALUES: dict[str, list[Any]] = {
    "INT": [1, 2, 3, -5, None],
    "DOUBLE": [1.5, -0.0, 0.0, float("nan"), float("inf"), None],
    "STRING": ["", "a", "b", "\u00e9", "\ufb01", "\U0001f642", None],
    "DATE": [datetime.date(2020, 1, day) for day in (1, 2, 3)] + [None],
}
EXISTS = "EXISTS (SELECT 1 FROM u WHERE"
IN = "IN (SELECT u.k FROM u WHERE"
QUERIES = (
    f"SELECT n, CASE WHEN {EXISTS} u.k = t.k AND u.w {{}} t.v) THEN 'y' ELSE 'n' END AS x FROM t",
    f"SELECT n, {EXISTS} t.v {{}} u.w) AS x FROM t",
    f"SELECT n FROM t WHERE n < 3 OR NOT {EXISTS} u.k = t.k AND u.w {{}} t.v AND u.k < 3)",
    f"SELECT n, k {IN} u.w {{}} t.v) AS x, t.k NOT {IN} u.k = t.k AND u.w {{}} t.v) AS y FROM t",
    f"SELECT n FROM t WHERE n < 3 OR 2 NOT {IN} u.w {{}} t.v) OR (k {IN} t.v {{}} u.w)) IS NULL",
)


def random_rows(draw: random.Random, kind: str, width: int) -> list[tuple[Any, ...]]:
    """Changes of a table: insertions, of which some are retracted later."""
    live: list[tuple[Any, ...]] = []
    changes: list[tuple[Any, ...]] = []
    for number in range(30):
        if live and draw.random() < 0.35:
            changes.append(("-D", *live.pop(draw.randrange(len(live)))))
            continue
        row = (draw.choice([1, 2, 3, None]), draw.choice(VALUES[kind]), number)[:width]
        live.append(row)
        changes.append(("+I", *row))
    return changes


def live_rows(changes: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for change, *row in changes:
        if change == "+I":
            rows.append(tuple(row))
        else:
            # By text, for NaN is not equal to itself.
            rows.pop([str(each) for each in rows].index(str(tuple(row))))
    return rows


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "<>"])
@pytest.mark.parametrize("kind", list(VALUES))
def test_existence_and_membership_by_a_bound_is_duckdb_s(kind: str, sign: str) -> None:
    draw = random.Random(f"{kind} {sign}")
    changes = {"t": random_rows(draw, kind, 3), "u": random_rows(draw, kind, 2)}
    schemas = {name: ddl.format(kind) for name, ddl in DDL.items()}
    tables = {}
    for name, ddl in schemas.items():
        schema = to_schema(ddl)
        rows = [dict(zip(schema.names, row, strict=True)) for row in live_rows(changes[name])]
        tables[name] = pa.Table.from_pylist(rows, schema)
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(name, table)
    dialect = "flink" if sign in ("<", ">=") and kind != "DOUBLE" else "spark"
    options: dict[str, Any] = {"backend": "python", "dialect": dialect}
    for query in (each.replace("{}", sign) for each in QUERIES):
        expected = sorted(connection.sql(query).fetchall())
        with al.Harness.from_sql(query, schemas, **options) as harness:
            for at in range(30):
                for name, rows in changes.items():
                    harness.process(rows[at : at + 1], table=name)
            harness.flush()
            assert sorted(harness.table()) == expected, query
    inputs = {name: local.from_rows(rows, schemas[name]) for name, rows in changes.items()}
    found = local.collect(local.sql(query, **inputs, **options)).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == expected
