"""Wide rows that reach the operators without being copied."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from aggloom.codegen.planner import Calc, plan_query, walk
from aggloom.runtime.engine.bucket_threads import BucketThreads
from aggloom.runtime.local.arrow_rows import arrow_rows
from aggloom.runtime.local.pipeline import Pipeline, handlers

ROWS = 20_000


def test_a_column_in_one_piece_is_not_copied() -> None:
    texts = pa.array([f"text {n}" for n in range(100)])
    table = pa.table({"a": texts})
    batch, _ = arrow_rows(table, None, table.schema, "t")
    assert _address(batch.column(0)) == _address(texts)


def test_columns_that_are_only_picked_are_not_joined() -> None:
    rows = pa.record_batch({"n": range(ROWS), "a": [f"text {n}" for n in range(ROWS)]})
    plan = plan_query("SELECT a AS b, n FROM t", {"t": "n BIGINT, a STRING"})
    (node,) = [each for each in walk(plan.root) if isinstance(each, Calc)]
    with BucketThreads(2) as threads:
        pipeline = Pipeline(plan, handlers("python"), workers=threads)
        ((batch, _),) = pipeline.calculate(node, (rows, np.zeros(ROWS, np.int8)), False)
    assert batch.schema.names == ["b", "n"]
    assert _address(batch.column(0)) == _address(rows.column(1))


def _address(column: pa.Array) -> int:
    """The place in memory of a column's texts."""
    return int(column.buffers()[2].address)
