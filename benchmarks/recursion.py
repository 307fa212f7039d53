"""A hierarchy that changes: WITH RECURSIVE in the harness, one thread, beside DuckDB's asked anew after each batch.

    python benchmarks/recursion.py [NODES] [DEPTH] [MOVED]

A batch moves so many nodes, with all that is below them, to other parents.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

import aggloom as al
from aggloom.runtime.values.changelog import INSERT, UPDATE_AFTER, UPDATE_BEFORE

SQL = """
    WITH RECURSIVE r MAX RECURSION LEVEL {depth} AS (
        SELECT id, pay AS above FROM t WHERE boss IS NULL {union}
        SELECT t.id, r.above + t.pay FROM t JOIN r ON t.boss = r.id)
    SELECT id, above FROM r"""
BATCHES = 10


class Hierarchy:
    """Nodes of so many levels below one at the top; each has a parent one level above."""

    def __init__(self, nodes: int, depth: int) -> None:
        self.draw = np.random.default_rng(5)
        self.level = np.sort(self.draw.integers(1, depth + 1, nodes))
        self.level[0] = 0
        self.starts = np.searchsorted(self.level, np.arange(depth + 2))
        self.pay = self.draw.integers(1, 100, nodes)
        self.boss = self._draw_parents(np.arange(nodes))

    def move(self, count: int) -> Iterator[tuple[int, int, int]]:
        """Yield moved nodes: (the node, its parent before, its parent from now on)."""
        nodes = self.draw.choice(np.arange(1, len(self.level)), count, replace=False)
        before, self.boss[nodes] = self.boss[nodes], self._draw_parents(nodes)
        yield from zip(nodes.tolist(), before.tolist(), self.boss[nodes].tolist(), strict=True)

    def as_rows(self) -> pa.RecordBatch:
        """The nodes as a table."""
        boss = pa.array(self.boss, mask=self.level == 0)
        columns = [pa.array(np.arange(len(self.level))), boss, pa.array(self.pay)]
        return pa.RecordBatch.from_arrays(columns, names=["id", "boss", "pay"])

    def _draw_parents(self, nodes: np.ndarray) -> np.ndarray:
        above = np.maximum(self.level[nodes] - 1, 0)
        low, high = self.starts[above], self.starts[above + 1]
        parents: np.ndarray = low + (self.draw.random(len(nodes)) * (high - low)).astype(np.int64)
        return parents


def main(nodes: int = 10_000, depth: int = 8, moved: int = 1_000) -> None:
    """Print the rates of both forms of UNION."""
    for union in ("UNION ALL", "UNION"):
        sql = SQL.format(union=union, depth=depth)
        hierarchy = Hierarchy(nodes, depth)
        with al.Harness.from_sql(sql, {"t": "id BIGINT, boss BIGINT, pay BIGINT"}) as harness:
            rows = hierarchy.as_rows()
            begun = time.perf_counter()
            harness.process(rows, kinds=np.full(nodes, INSERT, np.int8))
            harness.flush()
            first = time.perf_counter() - begun
            ours, anew, changed = 0.0, 0.0, 0
            for number in range(BATCHES):
                changes = [
                    row
                    for node, old, new in hierarchy.move(moved)
                    for row in (
                        (UPDATE_BEFORE, node, old, int(hierarchy.pay[node])),
                        (UPDATE_AFTER, node, new, int(hierarchy.pay[node])),
                    )
                ]
                kinds, *columns = map(list, zip(*changes, strict=True))
                batch = pa.RecordBatch.from_arrays(list(map(pa.array, columns)), rows.schema.names)
                begun = time.perf_counter()
                harness.process(batch, kinds=np.array(kinds, np.int8))
                harness.flush()
                # The first of them compiles what takes rows back.
                ours += (time.perf_counter() - begun) * bool(number)
                changed += len(changes) * bool(number)
                with duckdb.connect() as connection:
                    connection.execute("SET threads = 1")
                    connection.register("t", pa.Table.from_batches([hierarchy.as_rows()]))
                    text = re.sub(r"MAX RECURSION LEVEL \d+", "", sql)
                    begun = time.perf_counter()
                    expected = connection.sql(text).to_arrow_table().num_rows
                    anew += (time.perf_counter() - begun) * bool(number)
            assert len(harness.table()) == expected == nodes
        batches = BATCHES - 1
        print(
            f"{union}: {nodes} nodes, depth {depth}: {first:.2f} s for the first rows, compiled or not"
        )
        print(f"  {changed / ours:,.0f} changes/s in batches of {2 * moved}")
        print(
            f"  {1000 * ours / batches:.0f} ms a batch; DuckDB anew {1000 * anew / batches:.0f} ms"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
