"""Random chains of joins on one key, beside DuckDB: python tests/support/multi_joins.py FIRST LAST."""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from handlers import handler_class
from queries import multiset

from aggloom.codegen.planner import MultiJoin, Plan, PlanOptions, Stateful, plan_query, walk
from aggloom.runtime.local.harness import Harness

Row = tuple[Any, ...]
SCHEMA = pa.schema(
    [
        ("k", pa.int32()),
        ("j", pa.string()),
        ("id", pa.int32()),
        ("v", pa.int64()),
        ("w", pa.int64()),
    ]
)
_KEYS = (None, None, ("id",), ("k",), ("k", "j"), ("k", "id"))
_TEXTS = (None, "x", "x", "a text that is too long for a word")


@dataclass
class Drawn:
    """A query over the tables t0, t1, .., and the key of each."""

    sql: str
    keys: list[tuple[str, ...] | None]


def draw_chain(rng: random.Random) -> Drawn:
    """A chain of three inputs or more, joined on one column or on two."""
    count = rng.choice([3, 3, 3, 4, 4, 5, 6]) if rng.random() < 0.97 else 12
    columns = ["k"] if rng.random() < 0.7 else rng.sample(["k", "j"], 2)
    single = rng.random() < 0.3
    keys = [tuple(columns) if single or count > 6 else rng.choice(_KEYS) for _ in range(count)]
    text, shown, seen = "t0", {f"t0.{c}": f"t0.{c}" for c in SCHEMA.names}, ["t0"]
    for n in range(1, count):
        if n == 2 and rng.random() < 0.25:
            # What stands in a sub-query, under other names.
            names = {old: f"c{number}" for number, old in enumerate(shown)}
            items = ", ".join(f"{old} AS {new}" for old, new in names.items())
            text = f"(SELECT {items} FROM {text}) q"
            shown = {old: f"q.{new}" for old, new in names.items()}
        table = f"t{n}"
        on = []
        for column in columns:
            equal = "IS NOT DISTINCT FROM" if rng.random() < 0.15 else "="
            pair = [shown[f"{rng.choice(seen)}.{column}"], f"{table}.{column}"]
            rng.shuffle(pair)
            on.append(f"{pair[0]} {equal} {pair[1]}")
        other = shown[f"{rng.choice(seen)}.v"]
        if rng.random() < 0.4:
            on.append(
                rng.choice(
                    [f"{table}.v <= {other}", f"{table}.v > 0", f"({other} IS NULL OR {table}.w <> {other})",
                     f"{other} > 0", f"{table}.w + {other} < 3"]
                )
            )  # fmt: skip
        text += f" {rng.choice(['JOIN', 'LEFT JOIN', 'LEFT JOIN'])} {table} ON {' AND '.join(on)}"
        seen.append(table)
        shown |= {f"{table}.{c}": f"{table}.{c}" for c in SCHEMA.names}
    some = sorted(shown.values()) if rng.random() < 0.4 else rng.sample(sorted(shown.values()), 4)
    items = ", ".join(f"{name} AS o{number}" for number, name in enumerate(some))
    return Drawn(f"SELECT {items} FROM {text}", keys)


class Table:
    """A table of random changes."""

    def __init__(self, key: tuple[str, ...] | None, few: int) -> None:
        self.places = None if key is None else [SCHEMA.names.index(name) for name in key]
        self.few, self.rows = few, Counter[Row]()

    def change(self, rng: random.Random) -> list[Row]:
        """A row that comes, goes, or takes another's place."""
        there = sorted(self.rows.elements(), key=repr)
        if there and rng.random() < 0.3:
            return [("-D", *self._take_away(rng.choice(there)))]
        number = rng.choice([None, *range(self.few)])
        row = (
            number,
            rng.choice(_TEXTS),
            rng.randint(0, 4),
            rng.choice([None, -1, 0, 1, 2]),
            rng.randint(0, 2),
        )
        if self.places is not None:
            known = [row[place] for place in self.places]
            for old in there:
                if [old[place] for place in self.places] == known:
                    self._take_away(old)
                    self.rows[row] += 1
                    return [("-U", *old), ("+U", *row)]
        self.rows[row] += 1
        return [("+I", *row)]

    def _take_away(self, row: Row) -> Row:
        self.rows -= Counter([row])
        return row


def answer(sql: str, tables: list[Table]) -> Counter[Row]:
    """DuckDB's table."""
    connection = duckdb.connect(config={"threads": 1})
    for number, table in enumerate(tables):
        data = [dict(zip(SCHEMA.names, row, strict=True)) for row in table.rows.elements()]
        connection.register(f"t{number}", pa.Table.from_pylist(data, schema=SCHEMA))
    return multiset(connection.sql(sql).fetchall())


def opened(plan: Plan, parts: tuple[int, int]) -> Harness:
    """The plan over so many partitions and buckets."""
    partitions, buckets = parts
    return Harness.of_plan(
        plan,
        lambda spec: handler_class(spec, "python"),
        partitions=partitions,
        buckets=buckets,
    )


def check(seed: int, batches: int = 6) -> bool:
    """The result is DuckDB's after every batch, over restarts; whether the plan has a multi join."""
    rng = random.Random(seed)
    query = draw_chain(rng)
    by_row = rng.random() < 0.25
    options = PlanOptions.of(
        {
            "table.optimizer.multi-join.enabled": rng.choice(
                ["true", "true", "true", "auto", "false"]
            ),
            "table.exec.mini-batch.enabled": str(not by_row).lower(),
            "fragments_enabled": rng.random() < 0.8,
            "update_before": rng.random() < 0.8,
        }
    )
    schemas = {f"t{n}": SCHEMA for n in range(len(query.keys))}
    keys = {f"t{n}": list(key) for n, key in enumerate(query.keys) if key is not None}
    plan = plan_query(query.sql, schemas, keys=keys, options=options)
    stateful = [node for node in walk(plan.root) if isinstance(node, Stateful)]
    few, parts = rng.choice([1, 2, 3]), (rng.randint(1, 2), rng.randint(1, 3))
    tables = [Table(key, few) for key in query.keys]
    harness, seen = opened(plan, parts), Counter[Row]()
    for _ in range(batches):
        for _ in range(rng.randint(0, rng.choice([1, 2, 5, 12]))):
            number = rng.randrange(len(tables))
            harness.process(tables[number].change(rng), table=f"t{number}")
        harness.flush()
        expected, why = answer(query.sql, tables), (seed, query, options.changed_options)
        new = harness.changes()
        assert multiset(harness.table()) == expected, why
        if plan.has_old_rows:
            before = Counter(seen)
            for kind, *row in new:
                (own,) = multiset([tuple(row)])
                seen[own] += 1 if kind in ("+I", "+U") else -1
            seen = Counter({row: count for row, count in seen.items() if count})
            assert seen == expected, why
            if len(stateful) == parts[1] == 1 and not by_row:
                assert len(new) == sum(((seen - before) + (before - seen)).values()), why
        if rng.random() < 0.25:
            state, harness = harness.snapshot(), opened(plan, parts)
            harness.restore(state)
    harness.close()
    return any(isinstance(node, MultiJoin) for node in stateful)


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    made = sum(check(seed) for seed in range(first, last))
    print(f"{last - first} chains, {made} as one operator, none wrong")
