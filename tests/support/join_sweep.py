"""Many random queries with joins beside DuckDB: python tests/support/join_sweep.py FIRST LAST."""

from __future__ import annotations

import random
import sys
from dataclasses import replace

from join_queries import join_query_of
from queries import ONE_PHASE, PER_RECORD, TABLE, TWO_PHASE, Batch, Row, agree

from aggloom.codegen.planner import MultiJoin, walk


def batches(rng: random.Random, appends: bool) -> list[Batch]:
    """Changes of both tables in batches, some empty."""
    live: dict[str, list[Row]] = {"t": [], "u": []}
    found: list[Batch] = [[]]
    for _ in range(rng.randint(0, 24)):
        if rng.random() < 0.25:
            found.append([])
        table, row = rng.choice("ttu"), tuple(rng.choice(values) for _, values in TABLE.values())
        if appends or not live[table] or rng.random() < 0.5:
            live[table].append(row)
            found[-1].append((table, ("+I", *row)))
            continue
        old = live[table].pop(rng.randrange(len(live[table])))
        if rng.random() < 0.5:
            found[-1].append((table, ("-D", *old)))
        else:
            live[table].append(row)
            found[-1] += [(table, ("-U", *old)), (table, ("+U", *row))]
    return found


def check(number: int) -> bool:
    """One query over random batches in a random way; whether its plan has a multi join."""
    rng = random.Random(number)
    changes = rng.choice(["append", "retract", "retract"])
    way = rng.choice([PER_RECORD, ONE_PHASE, TWO_PHASE]).cut(rng.randint(1, 3), rng.randint(1, 4))
    way = replace(way, options=(*way.options, ("multi_join_enabled", rng.choice(["true", "auto"]))))
    plan = agree(join_query_of(number), batches(rng, changes == "append"), way, changes)
    return any(isinstance(node, MultiJoin) for node in walk(plan.root))


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    wrong, many = 0, 0
    for number in range(first, last):
        try:
            many += check(number)
        except Exception as error:
            wrong += 1
            print(number, type(error).__name__, str(error)[:300], flush=True)
        if number % 100 == 99:
            print(
                f"{number + 1 - first} queries, {many} with a multi join, {wrong} wrong", flush=True
            )
    print(f"{last - first} queries, {many} with a multi join, {wrong} wrong")
