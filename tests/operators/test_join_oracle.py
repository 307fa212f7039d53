"""Joins give DuckDB's table after every batch: random queries, and tables with keys whose rows move."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from handlers import handler_class
from hypothesis import given
from hypothesis import strategies as st
from join_queries import join_queries
from queries import ONE_PHASE, PER_RECORD, TWO_PHASE, agree, batches_of, multiset
from strategies import examples

from aggloom.codegen.planner import PlanOptions, plan_query
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.values.changelog import fold

many = examples(20)
some = examples(4)


@many
@given(data=st.data())
def test_random_queries_with_joins_give_duckdbs_table(data: st.DataObject) -> None:
    query = data.draw(join_queries)
    changes = data.draw(st.sampled_from(["append", "retract", "retract"]))
    batches = data.draw(batches_of(changes))
    way = data.draw(st.sampled_from([PER_RECORD, ONE_PHASE, TWO_PHASE]))
    parts = way.cut(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4)))
    agree(query, batches, parts, changes)


SHOP = {
    "orders": pa.schema([("id", pa.int32()), ("customer", pa.int32()), ("amount", pa.int64())]),
    "customers": pa.schema([("customer", pa.int32()), ("name", pa.string())]),
    "payments": pa.schema([("payment", pa.int32()), ("id", pa.int32()), ("paid", pa.int64())]),
}
KEYS = {"orders": ["id"], "customers": ["customer"], "payments": ["payment"]}
CHOSEN = {
    "orders that move between customers, then joined by order": """
        SELECT x.id, name, paid FROM
          (SELECT id, name FROM orders JOIN customers ON orders.customer = customers.customer) x
        LEFT JOIN payments ON x.id = payments.id""",
    "a chain of outer joins": """
        SELECT payments.payment, orders.amount, customers.name FROM payments
        LEFT JOIN orders ON payments.id = orders.id
        LEFT JOIN customers ON orders.customer = customers.customer""",
    "totals of joined totals": """
        SELECT customers.name, SUM(amount) AS amount, SUM(paid) AS paid FROM
          (SELECT id, SUM(paid) AS paid FROM payments GROUP BY id) p
        RIGHT JOIN orders ON p.id = orders.id
        FULL JOIN customers ON orders.customer = customers.customer GROUP BY customers.name""",
    "customers without orders": """
        SELECT name FROM customers LEFT ANTI JOIN orders
        ON customers.customer = orders.customer AND amount > 0""",
    "orders of customers that paid": """
        SELECT o.id, o.amount FROM orders o LEFT SEMI JOIN
          (SELECT customer FROM orders JOIN payments ON orders.id = payments.id) x
        ON o.customer = x.customer""",
    "pairs of orders of a customer": """
        SELECT a.id, b.id AS other, a.amount - b.amount AS more FROM orders a
        JOIN orders b ON a.customer = b.customer AND a.amount > b.amount""",
    "the two greatest orders of a customer with their payments": """
        SELECT x.name, x.id, p.paid FROM (
          SELECT name, id, ROW_NUMBER() OVER (PARTITION BY name ORDER BY amount DESC, id) AS n
          FROM orders JOIN customers USING (customer)) x
        LEFT JOIN payments p ON p.id = x.id WHERE n <= 2""",
    "payments of an order by its row number, which rows take from one another": """
        SELECT x.id, x.n, p.payment FROM
          (SELECT id, customer, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount, id) AS n
           FROM orders) x
        FULL JOIN payments p ON p.id = x.customer AND p.paid = x.n""",
    "everything with everything": """
        SELECT COUNT(*) AS n, SUM(paid) AS paid FROM orders FULL JOIN payments USING (id)
        HAVING COUNT(*) > 0""",
}
"""Queries over tables with keys; rows of one key come from several places in some."""


def moves(rnd: random.Random, batches: int) -> list[list[tuple[str, tuple[Any, ...]]]]:
    """Changes of tables with keys: rows come, change in any column but the key, and go."""
    tables: dict[str, dict[int, tuple[Any, ...]]] = {name: {} for name in SHOP}
    found = []
    for _ in range(batches):
        batch: list[tuple[str, tuple[Any, ...]]] = []
        for _ in range(rnd.randint(0, 7)):
            name, key = rnd.choice(list(SHOP)), rnd.randint(0, 4)
            rows = tables[name]
            row = {
                "orders": (key, rnd.choice([0, 1, 2, None]), rnd.randint(-1, 3)),
                "customers": (key, rnd.choice(["ada", "bob", None])),
                "payments": (key, rnd.choice([0, 1, 2, 3, None]), rnd.randint(0, 3)),
            }[name]
            old = rows.get(key)
            if old is None:
                batch.append((name, ("+I", *row)))
                rows[key] = row
            elif rnd.random() < 0.3:
                batch.append((name, ("-D", *old)))
                del rows[key]
            else:
                batch += [(name, ("-U", *old)), (name, ("+U", *row))]
                rows[key] = row
        found.append(batch)
    return found


def duck(sql: str, rows: dict[str, list[tuple[Any, ...]]]) -> Counter[tuple[Any, ...]]:
    connection = duckdb.connect()
    for name, schema in SHOP.items():
        data = [dict(zip(schema.names, row, strict=True)) for row in rows[name]]
        connection.register(name, pa.Table.from_pylist(data, schema=schema))
    text = sql.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
    return multiset(connection.sql(text).fetchall())


def run(sql: str, seed: int, **options: Any) -> None:
    """After every batch the result is DuckDB's, over several partitions and buckets."""
    rnd = random.Random(seed)
    chosen = PlanOptions.of(options)
    plan = plan_query(sql, SHOP, keys=KEYS, options=chosen)
    so_far: dict[str, list[tuple[Any, ...]]] = {name: [] for name in SHOP}
    out: list[tuple[Any, ...]] = []
    harness = Harness.of_plan(
        plan,
        lambda spec: handler_class(spec, "python"),
        partitions=rnd.randint(1, 3),
        buckets=rnd.randint(1, 5),
    )
    with harness:
        for batch in moves(rnd, 8):
            for name, change in batch:
                so_far[name].append(change)
            for name in plan.scans:
                changes = [change for table, change in batch if table == name]
                if changes:
                    harness.process(changes, table=name)
            harness.flush()
            out += harness.changes()
            net = {name: fold(changes) for name, changes in so_far.items()}
            assert multiset(fold(out)) == duck(sql, net), (sql, seed, options)


@pytest.mark.parametrize("name", CHOSEN)
@some
@given(seed=st.integers(0, 10**6), per_record=st.booleans(), fused=st.booleans())
@pytest.mark.sampled(4)
def test_tables_with_keys_give_duckdbs_table(
    name: str, seed: int, per_record: bool, fused: bool
) -> None:
    run(CHOSEN[name], seed, mini_batch_enabled=not per_record, fragments_enabled=fused)


SPREAD = {
    "paid by customer": """
        SELECT name, COUNT(*) AS n, SUM(paid) AS paid, MIN(amount) AS least FROM payments
        JOIN orders ON payments.id = orders.id JOIN customers ON orders.customer = customers.customer
        GROUP BY name""",
    "orders by name": """
        SELECT name, COUNT(*) AS n, COUNT(DISTINCT amount) AS amounts, MAX(id) AS last
        FROM customers JOIN orders ON orders.customer = customers.customer GROUP BY name""",
    "pairs without keys": """
        SELECT a.customer, COUNT(*) AS n, SUM(a.amount - b.paid) AS more
        FROM orders a JOIN payments b ON a.customer = b.id AND a.amount >= b.paid GROUP BY a.customer""",
    "without an equality": """
        SELECT SUM(a.amount * b.paid) AS s FROM orders a JOIN payments b ON a.amount < b.paid
        HAVING COUNT(*) > 0""",
    "below a union and sets": """
        SELECT name, id, COUNT(*) AS n FROM (
          SELECT name, id FROM orders JOIN customers USING (customer) UNION ALL
          SELECT 'all' AS name, id FROM orders) u GROUP BY GROUPING SETS ((name), (id))""",
}
"""Queries with an aggregate above an inner join."""


@pytest.mark.parametrize("name", SPREAD)
@some
@given(
    seed=st.integers(0, 10**6),
    buckets=st.integers(2, 5),
    per_record=st.booleans(),
    two=st.booleans(),
)
@pytest.mark.sampled(2)
def test_joins_whose_keys_are_spread_give_duckdbs_table(
    name: str, seed: int, buckets: int, per_record: bool, two: bool
) -> None:
    strategy = "TWO_PHASE" if two else "ONE_PHASE"
    run(
        SPREAD[name],
        seed,
        join_spread_buckets=buckets,
        mini_batch_enabled=not per_record,
        agg_phase_strategy=strategy,
    )
