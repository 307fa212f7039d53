"""Deduplicate and Normalise alone, one thread, in micro-batches; DuckDB asked for the kept rows after each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import duckdb
import numpy as np
import pyarrow as pa
from bundles import command
from measure import Run

from aggloom.runtime.operators.base import OneInput
from aggloom.runtime.operators.deduplicate.immediate import DeduplicateOperator
from aggloom.runtime.operators.normalise import NormaliseOperator
from aggloom.runtime.values.changelog import INSERT

_COLUMNS = pa.schema(
    [("k", pa.int64()), ("n", pa.int64()), ("ts", pa.int64()), ("v", pa.float64())]
)


@dataclass(frozen=True)
class Case:
    """Rows (k, n, ts, v) of so many keys; n rises as rows arrive. by: the column that rows are chosen by, n or ts."""

    name: str
    keys: int
    keep: Literal["first", "last"]
    by: str = "n"
    upserts: bool = False

    def bundles(self, rows: int, size: int) -> Iterator[pa.RecordBatch]:
        """The rows."""
        random = np.random.default_rng(7)
        for start in range(0, rows, size):
            n = min(size, rows - start)
            numbers = np.arange(start, start + n)
            late = numbers - random.integers(0, 100_000, n)
            columns = [random.integers(0, self.keys, n), numbers, late, random.random(n)]
            yield pa.RecordBatch.from_arrays([pa.array(each) for each in columns], schema=_COLUMNS)

    def operator(self) -> OneInput:
        if self.upserts:
            return NormaliseOperator(_COLUMNS, 1)
        order = None if self.by == "n" else self.by
        return DeduplicateOperator(_COLUMNS, 1, self.keep, order=order)


CASES = (
    Case("first of 1 M keys by arrival", 1_000_000, "first"),
    Case("last of 1 M keys by arrival", 1_000_000, "last"),
    Case("last of 1 M keys by time", 1_000_000, "last", "ts"),
    Case("first of 1 M keys by time", 1_000_000, "first", "ts"),
    Case("last of 1 k keys by time", 1_000, "last", "ts"),
    Case("upserts of 1 M keys made whole", 1_000_000, "last", upserts=True),
)


def loom(case: Case, rows: int, size: int) -> tuple[Run, int]:
    """The operator over all bundles: what it took, and how many keys it has in the end."""
    operator, seconds = case.operator(), 0.0
    for batch in case.bundles(rows, size):
        kinds = np.full(batch.num_rows, INSERT, np.int8)
        begin = time.process_time()
        operator.process(batch, kinds)
        seconds += time.process_time() - begin
    return Run(rows, seconds), operator.keys


def kept_rows(case: Case, rows: int, size: int) -> tuple[Run, int]:
    """DuckDB with all rows in a table and the query over all of them after each bundle."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE TABLE t (k BIGINT, n BIGINT, ts BIGINT, v DOUBLE)")
    best = "arg_min" if case.keep == "first" else "arg_max"
    ask = f"SELECT COUNT(*) FROM (SELECT k, {best}(n, {case.by}), {best}(v, {case.by}) FROM t GROUP BY k)"
    seconds, answer = 0.0, 0
    for batch in case.bundles(rows, size):
        begin = time.process_time()
        connection.register("news", pa.Table.from_batches([batch]))
        connection.execute("INSERT INTO t SELECT * FROM news")
        answer = connection.execute(ask).fetchall()[0][0]
        seconds += time.process_time() - begin
    return Run(rows, seconds), answer


main = command(
    "deduplicate",
    CASES,
    loom,
    kept_rows,
    "{} keys have a row",
    "Rows of three BIGINT columns and a DOUBLE, one thread, in bundles. After each bundle aggloom has told what "
    "changed; DuckDB is asked for the kept rows of all keys.",
)


if __name__ == "__main__":
    main()
