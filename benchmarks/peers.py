"""Contenders that answer a GROUP BY once on one thread: DuckDB, Polars and pandas, each from rows in its own memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

os.environ["POLARS_MAX_THREADS"] = "1"

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa

from aggloom.codegen import AggCall, AggSpec

Answer = Callable[[], pa.Table]

_POLARS: Mapping[str, Callable[[pl.Expr], pl.Expr]] = {
    "COUNT": pl.Expr.count,
    "SUM": pl.Expr.sum,
    "MIN": pl.Expr.min,
    "MAX": pl.Expr.max,
    "AVG": pl.Expr.mean,
    "VAR_POP": lambda e: e.var(0),
    "VAR_SAMP": lambda e: e.var(1),
    "STDDEV_POP": lambda e: e.std(0),
    "STDDEV_SAMP": lambda e: e.std(1),
}
_PANDAS: Mapping[str, Callable[[Any], Any]] = {
    "COUNT": lambda g: g.count(),
    "SUM": lambda g: g.sum(min_count=1),
    "MIN": lambda g: g.min(),
    "MAX": lambda g: g.max(),
    "AVG": lambda g: g.mean(),
    "VAR_POP": lambda g: g.var(ddof=0),
    "VAR_SAMP": lambda g: g.var(ddof=1),
    "STDDEV_POP": lambda g: g.std(ddof=0),
    "STDDEV_SAMP": lambda g: g.std(ddof=1),
}


def on_duckdb(sql: str, rows: pa.Table) -> Answer:
    """DuckDB over a table of its own."""
    connection = duckdb.connect(config={"threads": 1})
    connection.register("given", rows)
    connection.execute("CREATE TABLE t AS FROM given")
    return lambda: connection.sql(sql).to_arrow_table()


def on_polars(spec: AggSpec, rows: pa.Table) -> Answer:
    """Polars' group_by, on the one thread that POLARS_MAX_THREADS leaves it."""
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame) and pl.thread_pool_size() == 1
    calls = [_in_polars(call).alias(str(call.alias)) for call in spec.calls]
    return lambda: frame.group_by(spec.group_by).agg(calls).to_arrow()


def _in_polars(call: AggCall) -> pl.Expr:
    if not call.args:
        return pl.len() if call.filter is None else _positive().sum()
    column = pl.col(call.args[0])
    if call.filter is not None:
        column = column.filter(_positive())
    return column.n_unique() if call.distinct else _POLARS[call.function](column)


def _positive() -> pl.Expr:
    return pl.col("v") > 0


def on_pandas(spec: AggSpec, rows: pa.Table) -> Answer:
    """pandas' groupby, a column at a time."""
    frame = rows.to_pandas()

    def answer() -> pa.Table:
        keys = list(spec.group_by)
        groups = frame.groupby(keys, sort=False)
        kept = None
        if any(call.filter for call in spec.calls):
            positive = frame["v"] > 0
            kept = frame.where(positive).groupby([frame[key] for key in keys], sort=False)
        columns = {
            str(call.alias): _in_pandas(call, groups if call.filter is None else kept)
            for call in spec.calls
        }
        return pa.Table.from_pandas(pd.DataFrame(columns).reset_index(), preserve_index=False)

    return answer


def _in_pandas(call: AggCall, groups: Any) -> Any:
    if not call.args:
        return groups.size() if call.filter is None else groups["v"].count()
    column = groups[call.args[0]]
    return column.nunique() if call.distinct else _PANDAS[call.function](column)
