"""Aggregates by windows, and operators over them, give DuckDB's table once the input has ended."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from changelog_laws import check_laws
from hypothesis import given
from hypothesis import strategies as st
from nested_windows import TABLES, Row, WindowQuery, random_row, window_query
from strategies import examples

import aggloom as al
from aggloom.codegen.planner import walk
from aggloom.runtime.local.harness import Harness

Change = tuple[str, Row]


def random_changes(
    draws: random.Random, tables: tuple[str, ...], retracts: bool
) -> tuple[list[list[Change]], dict[str, list[Row]]]:
    """Batches of changes, each of a table; and the rows of each table that are left."""
    left: dict[str, list[Row]] = {table: [] for table in tables}
    batches: list[list[Change]] = []
    for _ in range(5):
        batch: list[Change] = []
        for number in range(draws.randint(0, 10)):
            table = draws.choice(tables)
            rows = left[table]
            if retracts and rows and draws.random() < 0.3:
                old = rows.pop(draws.randrange(len(rows)))
                batch.append((table, ("-D", *old)))
            else:
                rows.append(random_row(draws, table, 100 * len(batches) + number))
                batch.append((table, ("+I", *rows[-1])))
        batches.append(batch)
    return batches, left


def by_duckdb(query: WindowQuery, left: dict[str, list[Row]]) -> Counter[Row]:
    """The table of a query over the rows that are left."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for table, rows in left.items():
        columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(TABLES[table])
        arrays = [pa.array(c, f.type) for c, f in zip(columns, TABLES[table], strict=True)]
        connection.register("rows", pa.Table.from_arrays(arrays, schema=TABLES[table]))
        connection.execute(f'CREATE TABLE "{table}" AS SELECT * FROM rows')
    for view in query.views:
        connection.execute(view)
    return Counter(map(rounded, connection.execute(query.duckdb).fetchall()))


def by_aggloom(
    query: WindowQuery, batches: list[list[Change]], retracts: bool, by_row: bool
) -> Counter[Row]:
    """The table of a query once its input has ended; `by_row`: each change is a batch of its own."""
    harness = al.Harness.from_sql(
        query.script,
        {table: TABLES[table] for table in query.tables},
        input_changes="retract" if retracts else "append",
        watermarks=dict.fromkeys(query.tables, ("ts", "1 hour")),
        backend="python",
    )
    for batch in batches:
        for table in query.tables:
            rows = [row for name, row in batch if name == table]
            for part in [[row] for row in rows] if by_row else [rows]:
                harness.process(part, table=table)
        harness.flush()
    harness.end_of_input()
    return Counter(map(rounded, harness.table()))


def rounded(row: Any) -> Row:
    """Means are doubles, which the two add up in orders of their own."""
    return tuple(round(value, 9) if isinstance(value, float) else value for value in row)


@examples(12)
@given(seed=st.integers(0, 10**9), retracts=st.booleans(), by_row=st.booleans())
def test_queries_over_windows_give_duckdbs_table(seed: int, retracts: bool, by_row: bool) -> None:
    draws = random.Random(seed)
    query = window_query(draws)
    batches, left = random_changes(draws, query.tables, retracts)
    got = by_aggloom(query, batches, retracts, by_row)
    assert got == by_duckdb(query, left), query.script


def test_random_queries_have_all_operators_over_windows() -> None:
    found = set()
    for seed in range(80):
        query = window_query(random.Random(seed))
        tables = {table: TABLES[table] for table in query.tables}
        plan = al.Harness.from_sql(
            query.script,
            tables,
            watermarks=dict.fromkeys(tables, ("ts", "1 hour")),
            backend="python",
        ).plan
        found |= {type(node).__name__ for node in walk(plan.root)}
    assert {"WindowAggregate", "GroupAggregate", "TimedJoin", "Over", "Rank"} <= found


@pytest.mark.parametrize("window", ["HOP", "CUMULATE"])
def test_an_update_of_a_row_in_several_windows_is_lawful(window: str) -> None:
    source = (
        f"TABLE({window}(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES))"
    )
    h = Harness.from_sql(
        f"SELECT id, window_start, window_end, v FROM {source} WHERE v = 1 OR MINUTE(window_start) < 15",
        {"t": "id INT, v INT, ts TIMESTAMP"},
        backend="python",
    )
    first, second = (dt.datetime(2026, 1, 1, 0, minute, tzinfo=dt.UTC) for minute in (14, 18))
    for rows in ([("+I", 1, 1, first)], [("-U", 1, 1, first), ("+U", 1, 0, second)]):
        h.process(rows)
        h.flush()
    check_laws(h.changes(), 3, one_net_change=False)
    assert all(row[3] == 0 and row[1].minute < 15 for row in h.table())
